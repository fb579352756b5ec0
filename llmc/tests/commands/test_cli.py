"""The command line: what it answers, and that every bad input is one sentence and exit status 2."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

import llmc
from llmc import resources
from llmc.checkpoints import model_file, write_model
from llmc.cli import COMMANDS, main
from llmc.config import GPT2Config
from llmc.data import write_tokens
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training.find_models import runs_home
from llmc.training.settings_file import read_settings

PATIENCE = 300  # seconds for what a busy machine does in time; on a quiet one nothing waits so long
QUICK = ["--batch-size", "2", "--sequence-length", "16", "--steps", "3", "--val-every", "2", "--sample-tokens", "8"]


@pytest.fixture
def data(tmp_path):
    return write_corpus(tmp_path / "data").train.parent


@pytest.fixture
def train(data, tmp_path):
    """Runs `llmc train` on the test's own corpus; returns its exit status."""
    return lambda *more: main(["train", "--data", str(data), "--out", str(tmp_path / "run"), *QUICK, *more])


@pytest.fixture
def refused(capsys):
    """Checks the status, and that stderr is one line which holds all of the words; returns it."""

    def check(status, *words, expected=2):
        out, err = capsys.readouterr()
        assert status == expected and "Traceback" not in out + err
        assert err.startswith("llmc: ") and err.count("\n") == 1 and err.rstrip().endswith(".")
        assert all(word in err for word in words), err
        return err

    return check


def shell(*arguments, **options):
    """`python -m llmc …` as a process of its own."""
    root = str(os.path.dirname(os.path.dirname(llmc.__file__)))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=environment)
    return subprocess.Popen([sys.executable, "-m", "llmc", *map(str, arguments)], **{**pipes, **options})


# ------------------------------------------------------------------------------------------------------ as intended


def test_train_then_sample(train, tmp_path, capsys):
    assert train() == 0
    out = capsys.readouterr().out
    assert "bits per byte" in out and "step    3/3 | loss " in out and str(tmp_path / "run") in out
    texts = []
    for seed in (1, 1, 2):
        assert (
            main(["sample", str(tmp_path / "run"), "--prompt", "the ", "--max-tokens", "20", "--seed", str(seed)]) == 0
        )
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2] and all(text.startswith("the ") for text in texts)


def test_options_reach_the_run(train, data, tmp_path, capsys):
    assert train("--order", "files", "--schedule", "wsd", "--learning-rate", "1e-3", "--val-batches", "1") == 0
    assert "lr 2.00e-05" in capsys.readouterr().out  # 1e-3 after 1 of 50 warmup steps


@pytest.mark.parametrize(
    "words, order", [("--shuffle", "random"), ("--shuffle llm.c", "llm.c"), ("--in-order", "files")]
)
def test_former_names_of_the_order(train, tmp_path, words, order):
    assert train("--steps", "1", *words.split()) == 0
    assert read_settings(tmp_path / "run").order == order


def test_train_then_resume(train, data, tmp_path, capsys, refused):
    assert train("--schedule", "constant") == 0
    run, whole = tmp_path / "run", tmp_path / "whole"
    refused(main(["train", "--resume", str(run)]), "3 steps", "--steps")
    assert main(["train", "--resume", str(run), "--steps", "5"]) == 0
    out = capsys.readouterr().out
    assert "continuing from step 3\n" in out and "step    4/5 | loss " in out and "\n2 steps in " in out
    assert train("--schedule", "constant", "--steps", "5", "--out", str(whole)) == 0
    assert (run / "model.bin").read_bytes() == (whole / "model.bin").read_bytes()


def test_resume_alone_is_the_newest_run(train, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("llmc.training.find_models.runs_home", lambda: tmp_path)
    for name in ("a", "b"):
        train("--out", str(tmp_path / name))
    os.utime(tmp_path / "a" / "model.bin", (1e9, 1e9))
    refused(main(["train", "--resume"]), str(tmp_path / "b"), "3 steps")


def test_fine_tuning_begins_where_the_model_is(train, tmp_path, capsys):
    train()
    last = [line for line in capsys.readouterr().out.splitlines() if line.startswith("val loss")][-1]
    assert train("--model", str(tmp_path / "run"), "--out", str(tmp_path / "second")) == 0
    assert f"{last}\nstep    1/3" in capsys.readouterr().out


def test_a_dry_run_prints_the_plan_and_trains_nothing(train, tmp_path, capsys):
    assert train("--dry-run") == 0
    assert "activations (B=2, T=16)" in capsys.readouterr().out and not (tmp_path / "run").exists()


def test_the_plan_says_what_recompute_saves(train, capsys):
    totals = {}
    for level in "0123":
        assert train("--dry-run", "--recompute", level) == 0
        plan = capsys.readouterr().out
        totals[level] = re.search(r"^total +([\d.,]+) MiB$", plan, re.MULTILINE)[1]
        others = dict(re.findall(r"^total with --recompute (\d) +([\d.,]+) MiB$", plan, re.MULTILINE))
        assert others.keys() == {"0", "1", "2", "3"} - {level}
        totals |= {other: total for other, total in others.items() if other > level}
        assert all(totals[other] == total for other, total in others.items())
    assert float(totals["0"]) > float(totals["3"]) > float(totals["1"]) > float(totals["2"])


def test_the_machine_chooses_the_precision(train, tmp_path, capsys, monkeypatch):
    from llmc.backends.cpu import onednn

    def with_instructions(there):
        monkeypatch.setattr(onednn, "multiplies_bfloat16", lambda: there)

    with_instructions(True)
    assert train("--precision", "auto", "--dry-run") == 0
    assert "bfloat16" in capsys.readouterr().out
    assert train("--precision", "auto", "--backend", "numpy", "--dry-run") == 0
    assert "bfloat16" not in capsys.readouterr().out
    with_instructions(False)
    assert train("--precision", "auto") == 0
    assert "backend cpu\n" in capsys.readouterr().out
    with_instructions(True)  # a run that is resumed keeps its own
    assert main(["train", "--resume", str(tmp_path / "run"), "--precision", "auto", "--steps", "4"]) == 0
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["precision"] == "fp32"


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_16_bits_from_the_plan_to_a_text(train, tmp_path, capsys, refused, precision):
    options = ("--precision", precision, "--no-master-weights")
    assert train(*options, "--dry-run") == 0
    plan = capsys.readouterr().out
    assert {"bf16": "bfloat16", "fp16": "float16"}[precision] in plan and "master" not in plan
    assert train(*options) == 0
    refused(main(["train", "--resume", str(tmp_path / "run"), "--precision", "fp32"]), "cannot change its precision")
    capsys.readouterr()
    run = str(tmp_path / "run")
    losses = []
    for number in ("fp32", precision):
        assert main(["eval", run, "--json", "--precision", number]) == 0
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    assert 0 < abs(losses[0] - losses[1]) < 0.01
    assert main(["sample", run, "--max-tokens", "8", "--precision", precision]) == 0


def test_tf32_is_a_runs_precision_and_its_files_are_float32(train, tmp_path, capsys, refused):
    options, run = ("--precision", "tf32", "--backend", "cuda"), str(tmp_path / "run")
    assert train(*options) == 0
    assert model_file.read_version(tmp_path / "run" / "model.bin") == model_file.FLOAT32
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["precision"] == "tf32"
    refused(main(["train", "--resume", run, "--precision", "fp32"]), "cannot change its precision from tf32 to fp32")
    capsys.readouterr()
    losses = []
    for words in ((), options):
        assert main(["eval", run, "--json", *words]) == 0
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    assert 0 < abs(losses[0] - losses[1]) < 0.001
    assert main(["sample", run, "--max-tokens", "8", *options]) == 0


def test_options_without_a_value_of_their_own_show_the_default(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    out = capsys.readouterr().out
    assert "(default: 0.004)" in out and "SUPPRESS" not in out and "each step:" in out


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help(command, capsys):
    if command:
        with pytest.raises(SystemExit) as end:
            main([*command, "--help"])
        assert end.value.code == 0
    else:
        assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: llmc")


def test_help_imports_nothing_heavy():
    code = "import sys, llmc.cli; llmc.cli.main([]); heavy = {'numpy', 'matplotlib', 'tiktoken', 'tqdm', 'IPython'}; "
    code += "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=os.path.dirname(llmc.__path__[0])
    )
    assert done.returncode == 0, done.stderr


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options, words",
    [
        (["--preset", "huge"], ["preset", "'huge'", "tiny"]),
        (["--backend", "abacus"], ["backend", "'abacus'", "numpy"]),
        (["--sequence-length", "5000"], ["T=5000", "maxT="]),
        (["--precision", "fp4"], ["'fp4'", "fp32, tf32, bf16, fp16 or fp8"]),
        (["--precision", "fp64"], ["'fp64'", "fp32, tf32, bf16, fp16 or fp8"]),
        (["--recompute", "4"], ["recompute must be 0, 1, 2 or 3, not 4"]),
        (["--precision", "tf32"], ["the cpu backend does not compute in tf32"]),
        (["--steps", "0"], ["steps", "0"]),
        (["--steps", "-5"], ["steps", "-5"]),
        (["--steps", "many"], ["--steps", "many"]),
        (["--batch-size", "-1"], ["batch size", "-1"]),
        (["--batch-size", "1000"], ["tokens", "a batch size of at most"]),
        (["--learning-rate", "0"], ["learning rate"]),
        (["--learning-rate", "nan"], ["learning rate", "nan"]),
        (["--schedule", "step"], ["schedule", "cosine"]),
        (["--data", "nowhere"], ["nowhere"]),
        (["--speed", "9"], ["--speed"]),
        (["--total-batch-size", "100"], ["total batch size", "2 x 16", "100"]),
        (["--model", "nowhere.bin"], ["nowhere.bin"]),
        (["--model", "x", "--preset", "d12"], ["--preset", "--model"]),
        (["--recipe", "soup"], ["'soup'", "cpu-demo"]),
        (["--resume", "nowhere"], ["nowhere"]),
        (["--resume", "--recipe", "cpu-demo"], ["--resume", "--recipe"]),
        (["--resume", "--dry-run"], ["--resume", "--dry-run"]),
        (["--resume", __file__], ["not the folder of a run"]),
        (["--out", os.devnull + "/run"], ["run folder", "--out"]),
        (["--name", "x"], ["--out", "--name"]),
        (["--data", __file__], ["is a file", "data --file"]),
        (["--order", "backwards"], ["order must be random, llm.c or files"]),
        (["--no-master-weights"], ["--no-master-weights", "fp32"]),
    ],
)
def test_bad_options_of_train(train, tmp_path, refused, options, words):
    refused(train(*options), *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["train.bin", "val.bin", "tokenizer.bin"])
@pytest.mark.parametrize("harm", ["missing", "truncated", "magic", "empty"])
def test_bad_corpus_files(train, data, tmp_path, refused, name, harm):
    path = data / name
    raw = path.read_bytes()
    path.write_bytes({"truncated": raw[:-1], "magic": b"\0\0\0\0" + raw[4:], "empty": b""}.get(harm, raw))
    if harm == "missing":
        path.unlink()
    refused(train(), name)
    assert not (tmp_path / "run").exists()


def test_a_token_outside_the_vocabulary(train, data, tmp_path, refused):
    write_tokens(data / "train.bin", np.array([1, 2, V] * 100, np.uint16))
    refused(train(), "train.bin", str(V))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["model.bin", "tokenizer.bin"])
@pytest.mark.parametrize("harm", ["missing", "truncated", "magic", "empty"])
def test_bad_run_files(train, tmp_path, refused, capsys, name, harm):
    train()
    capsys.readouterr()
    path = tmp_path / "run" / name
    raw = path.read_bytes()
    path.write_bytes({"truncated": raw[:-1], "magic": b"\0\0\0\0" + raw[4:], "empty": b""}.get(harm, raw))
    if harm == "missing":
        path.unlink()
        (tmp_path / "run" / "DONE_00000003").unlink()  # whose model would do as well
    refused(main(["sample", str(tmp_path / "run")]), name)


def test_a_tokenizer_of_another_model(train, tmp_path, refused, capsys):
    train()
    capsys.readouterr()
    write_model(tmp_path / "run" / "model.bin", GPT2(GPT2Config(maxT=16, V=300, L=1, NH=1, C=8)))
    refused(main(["sample", str(tmp_path / "run")]), "300", "257", "do not belong together")


@pytest.mark.parametrize(
    "options, words",
    [
        (["nowhere"], ["nowhere"]),
        ([os.devnull], [os.devnull, "not a regular file"]),
        (["--temperature", "-1"], ["temperature"]),
        (["--top-k", "0"], ["top-k"]),
        (["--max-tokens", "-1"], ["-1"]),
    ],
)
def test_bad_options_of_sample(refused, options, words):
    refused(main(["sample", *options]), *words)


def test_unknown_command(refused):
    refused(main(["trian"]), "'trian'", "train")


@pytest.mark.parametrize("missing", [0, 1])
def test_verify_without_its_files(refused, tmp_path, missing):
    refused(main(["verify", str(tmp_path / "model.bin"), str(tmp_path / "state.bin")]), "model.bin")


def test_a_loss_that_is_no_number(train, tmp_path, refused):
    status = train("--learning-rate", "1e30", "--warmup", "0", "--steps", "50")
    refused(status, "step", "lower the learning rate", expected=3)
    assert not list((tmp_path / "run").glob("*.tmp")) and (tmp_path / "run" / "main.log").is_file()


def test_a_start_that_was_killed_does_not_block_its_folder(train, tmp_path, refused):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "main.log").touch()
    assert train() == 0


def test_an_existing_run_is_not_overwritten(train, tmp_path, refused, capsys):
    train()
    before = (tmp_path / "run" / "model.bin").read_bytes()
    capsys.readouterr()
    refused(train("--seed", "1"), "not empty", "--out")
    assert (tmp_path / "run" / "model.bin").read_bytes() == before


def test_runs_live_beside_the_checkout_or_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    root = runs_home().parent
    assert root == tmp_path or (root / "pyproject.toml").is_file()


def test_interrupted_outside_of_training_is_one_sentence(monkeypatch, refused):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("llmc.commands.bench.run", interrupted)
    refused(main(["bench"]), "interrupted", expected=130)


# -------------------------------------------------------------------------------------------- processes of their own


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_exits_with_2(data, tmp_path, number):
    run = tmp_path / "run"
    process = shell(
        "train", "--data", data, "--out", run, "--steps", "100000", "--sequence-length", "16", "--batch-size", "2"
    )
    log = run / "main.log"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not (log.is_file() and log.read_text().count("trl") > 5):
        time.sleep(0.02)
    process.send_signal(number)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and "Traceback" not in err
    assert err.startswith("llmc: interrupted after step ") and err.count("\n") == 1 and str(run) in err
    names = {p.name for p in run.iterdir()}
    assert names >= {"loss.png", "main.log", "model.bin", "sample.txt", "settings.json", "tokenizer.bin"}
    assert f"--resume {run}" in err and not any(name.endswith(".tmp") for name in names)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_the_status_stands_where_stderr_is_full():
    with open("/dev/full", "w") as full:
        assert subprocess.run([sys.executable, "-m", "llmc", "train", "--steps", "0"], stderr=full).returncode == 2


def test_an_error_that_is_not_the_systems_is_not_blamed_on_the_output(monkeypatch, refused):
    def broken(args):
        raise OSError("no such library")

    monkeypatch.setattr("llmc.commands.bench.run", broken)
    assert refused(main(["bench"])) == "llmc: no such library.\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_console_does_not_cost_the_run(train, tmp_path, monkeypatch, capsys):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert train() == 2
        with suppress(OSError):
            full.close()
    assert capsys.readouterr().err == "llmc: cannot write the output: No space left on device.\n"
    assert (tmp_path / "run" / "loss.png").is_file()


def test_a_closed_console_does_not_cost_the_run(train, tmp_path, monkeypatch):
    """`llmc train >&- 2>&-`: Python then has None for both."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        assert train() == 0
    assert (tmp_path / "run" / "loss.png").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipe that breaks")
def test_a_reader_that_leaves_is_no_error(train, tmp_path):
    assert train() == 0
    process = shell("sample", tmp_path / "run", "--max-tokens", "100000", "--temperature", "2")
    process.stdout.read(5)
    process.stdout.close()
    process.wait(timeout=PATIENCE)
    assert process.stderr.read() == ""
    process.stderr.close()


# ------------------------------------------------------------------------------------------------- odd environments

SHORT = ["--batch-size", 2, "--sequence-length", 16, "--steps", 2, "--val-batches", 1, "--sample-tokens", 4]


@pytest.mark.parametrize(
    "variables",
    [
        {"MPLBACKEND": "bogus", "COLUMNS": "0", "TERM": "dumb", "OMP_NUM_THREADS": "1"},
        {"PYTHONWARNINGS": "error", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["display", "locale"],
)
def test_a_run_in_an_odd_environment(data, tmp_path, variables):
    """No variable of the display, the terminal or the locale costs a run its curve, or its user an answer."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(llmc.__file__)), **variables}
    options = ["--data", data, "--backend", "numpy", *SHORT, "--out", tmp_path / "rün"]
    process = shell("train", *options, env=environment, encoding="utf-8", errors="replace")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and err == "" and "bits per byte" in out
    assert (tmp_path / "rün" / "loss.png").is_file()


@pytest.mark.parametrize("command", ["train", "sweep", "bench"])
def test_threads_that_numba_cannot_have(data, tmp_path, command):
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(os.path.dirname(llmc.__file__)),
        "NUMBA_NUM_THREADS": "0",
    }
    options = [] if command == "bench" else ["--data", data, *SHORT, "--out", tmp_path / "run"]
    process = shell(command, *options, env=environment)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("llmc: NUMBA_NUM_THREADS is '0'") and not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("command", [("start",), ("update", "--no-pull"), ("lab",)])
@pytest.mark.parametrize("folder, words", [("~no-such-user/x", "home folder"), ("loop", "loop"), ("file/x", "file")])
def test_folders_that_cannot_be(refused, tmp_path, monkeypatch, command, folder, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("mine")
    refused(main([*command, folder]), words)
    assert (tmp_path / "file").read_text() == "mine" and sorted(os.listdir(tmp_path)) == ["file", "loop"]


@pytest.mark.parametrize("size", [10**9, 10**30])
def test_a_step_that_no_memory_holds(refused, size):
    refused(main(["bench", "--backend", "numpy", "--batch-size", str(size)]), f"B={size:,}", "is free")


def test_too_few_addresses_for_a_librarys_import(refused, monkeypatch):
    limited = SimpleNamespace(RLIMIT_AS=0, RLIM_INFINITY=-1, getrlimit=lambda which: (400_000 << 10, -1))
    monkeypatch.setitem(sys.modules, "resource", limited)
    refused(main(["train", "--dry-run"]), "allows only 400,000 KiB of address space", "set it to at least")


def test_mpiruns_ranks_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "environ", {"MPI_LOCALNRANKS": "3", "OMP_NUM_THREADS": "7"})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    resources.settle()
    assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "2"
    assert os.environ["OMP_NUM_THREADS"] == "7"
