"""Ranks as processes: started by `--ranks`, by hand or by mpirun; one of them dies, and all end with one sentence."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import llmc
from llmc import cli
from llmc.checkpoints import write_model
from llmc.checkpoints.folder import checkpoints, model_path, state_path
from llmc.checkpoints.saved_files import damaged_file
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training import resume

OPTIONS = "--sequence-length 16 --batch-size 1 --warmup 2 --val-every 1000 --val-batches 2 --sample-tokens 2"
OPTIONS += " --checkpoint-every 5 --clip 0.5 --backend numpy"
ROOT = str(Path(llmc.__file__).resolve().parents[1])
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
ENOUGH = 30  # seconds in which all must have ended; less than one is usual

mpi = pytest.mark.skipif(not MPIRUN or not find_spec("mpi4py"), reason="mpirun or mpi4py is not installed")
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc to find the ranks")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Options that name a corpus and a model whose steps take no longer than a millisecond."""
    folder = tmp_path_factory.mktemp("inputs")
    write_corpus(folder / "data")
    nano = GPT2(GPT2Config(maxT=16, V=V, L=1, NH=2, C=16))
    nano.init_weights()
    write_model(folder / "model.bin", nano)
    return [*OPTIONS.split(), "--data", str(folder / "data"), "--model", str(folder / "model.bin")]


def start(*arguments, launcher=()):
    """`llmc train …` in a new process; its output is in one pipe, for `finish`."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # CI is root, which Open MPI dislikes
    command = [*launcher, sys.executable, "-m", "llmc", "train", *map(str, arguments)]
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return subprocess.Popen(command, env={**os.environ, **root, "PYTHONPATH": path, "MPLBACKEND": "agg"}, **pipes)


def finish(process, status=0):
    """Wait for the end; returns what the process said. status: that it must end with."""
    try:
        said = process.communicate(timeout=120)[0]
    finally:
        process.kill()
    assert process.returncode == status, said
    return said


def children(pid):
    """The processes that this one and its children have started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found += [int(folder.name), *children(int(folder.name))]
        except (OSError, IndexError):  # it has ended meanwhile
            pass
    return found


def rank_of(pid):
    """The rank of a process, from its command line or what its launcher has told it; None for another process."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    told = dict(line.partition("=")[::2] for line in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    if "train" not in words or "-n" in words:
        return None
    given = words[words.index("--rank") + 1] if "--rank" in words else told.get("PMI_RANK")
    return int(given or told.get("OMPI_COMM_WORLD_RANK", -1))


def wait_for(process, folder, step):
    """Until a run has saved this step or a later one."""
    end = time.monotonic() + 120
    while max(checkpoints(folder), default=0) < step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.01)


def kill_one(process, folder, victim):
    """Kill -9 one rank of a run once it has saved something; returns the processes of its ranks."""
    wait_for(process, folder, 5)
    ranks = {rank_of(pid): pid for pid in children(process.pid)}
    os.kill(ranks[victim], signal.SIGKILL)
    return [ranks[0], ranks[1]]


def all_end(pids):
    end = time.monotonic() + ENOUGH
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < end, "a rank goes on although another has died"
        time.sleep(0.02)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@on_linux
@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_rank_is_killed_all_end_with_one_sentence(inputs, tmp_path, victim):
    run = tmp_path / "run"
    process = start(*inputs, "--steps", "1000000", "--out", run, "--ranks", "2", "--zero", "1")
    pids = kill_one(process, run, victim)
    all_end(pids)
    last = finish(process, status=2).splitlines()[-1]
    assert last.startswith(f"llmc: rank {victim} ") and "--resume" in last
    step = max(checkpoints(run))
    assert damaged_file(run, step) is None
    assert resume(run, quiet=True, steps=step + 2, batch_size=2).steps == step + 2


@on_linux
def test_ctrl_c_saves_and_the_run_goes_on(inputs, tmp_path):
    run = tmp_path / "run"
    process = start(*inputs, "--steps", "1000000", "--out", run, "--ranks", "2")
    wait_for(process, run, 5)
    pids = children(process.pid)
    process.send_signal(signal.SIGINT)
    last = finish(process, status=2).splitlines()[-1]
    assert last.startswith("llmc: interrupted after step ") and f"after step {max(checkpoints(run))} of" in last
    all_end(pids)


@on_linux
def test_no_rank_outlives_whoever_started_it(inputs, tmp_path):
    process = start(*inputs, "--steps", "1000000", "--out", tmp_path / "run", "--ranks", "2")
    wait_for(process, tmp_path / "run", 5)
    pids = children(process.pid)
    process.kill()
    process.communicate()
    all_end(pids)


def test_started_by_hand(inputs, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = "{}:{}".format(*free.getsockname())
    same = [*inputs, "--steps", "5", "--out", tmp_path / "run", "--world", "2", "--server", server]
    first, second = (start(*same, "--rank", rank) for rank in (0, 1))
    assert "5 steps of B=1 x T=16 x 2 tokens on 2 ranks" in finish(first) and finish(second) == ""
    assert checkpoints(tmp_path / "run") == [5]


def test_a_backend_that_runs_ahead(inputs, tmp_path, monkeypatch):
    """On the emulator: with ZeRO-1, the update waits for no norm, and makes the same weights as without."""
    monkeypatch.setenv("LLMC_DEVICE", "emulator")
    same = [*inputs, "--steps", "3", "--backend", "cuda", "--precision", "bf16", "--ranks", "2", "--zero"]
    runs = [start(*same, zero, "--out", tmp_path / zero) for zero in "01"]
    for run in runs:
        finish(run)
    assert model_path(tmp_path / "0", 3).read_bytes() == model_path(tmp_path / "1", 3).read_bytes()


@mpi
def test_mpirun_makes_the_same_run(inputs, tmp_path):
    same = [*inputs, "--steps", "5", "--zero", "1", "--precision", "bf16", "--out"]
    finish(start(*same, tmp_path / "tcp", "--ranks", "2"))
    said = finish(start(*same, tmp_path / "mpi", launcher=[MPIRUN, "-n", "2"]))
    assert "on 2 ranks with ZeRO-1" in said and said.count("--- sample") == 1
    for path in (model_path, state_path, lambda folder, step: state_path(folder, step, 1)):
        assert path(tmp_path / "tcp", 5).read_bytes() == path(tmp_path / "mpi", 5).read_bytes()


@mpi
@on_linux
@pytest.mark.parametrize("victim", [0, 1])
def test_under_mpirun_all_end_as_well(inputs, tmp_path, victim):
    run = tmp_path / "run"
    process = start(*inputs, "--steps", "1000000", "--out", run, launcher=[MPIRUN, "-n", "2"])
    pids = kill_one(process, run, victim)
    all_end(pids)
    process.communicate(timeout=ENOUGH)
    assert process.returncode
    step = max(checkpoints(run))
    assert damaged_file(run, step) is None and resume(run, quiet=True, steps=step + 1, batch_size=2).steps == step + 1


@mpi
def test_under_mpirun_a_mistake_ends_all_with_a_sentence(inputs):
    process = start(*inputs, "--total-batch-size", "16", launcher=[MPIRUN, "-n", "2"])
    said = process.communicate(timeout=60)[0]
    assert process.returncode and "16 tokens per step is not a multiple of that" in said and "Traceback" not in said


def test_a_rank_that_waits_for_a_gpu_ends_all_the_same():
    """Stuck in a call that lets no other thread of the interpreter run."""
    stuck = "import ctypes; from llmc.distributed import nccl; nccl._end_soon(); ctypes.PyDLL(None).sleep(60)"
    begun = time.monotonic()
    assert subprocess.run([sys.executable, "-c", stuck], timeout=60, env={**os.environ, "PYTHONPATH": ROOT}).returncode
    assert time.monotonic() - begun < ENOUGH


@pytest.mark.parametrize(
    "options, words",
    [
        (["--zero", "2"], "zero must be 0 or 1, not 2."),
        (["--ranks", "0"], "--ranks must be a whole number of at least 1, not 0."),
        (["--ranks", "2", "--rank", "0"], "--ranks starts all processes itself; leave out --rank."),
        (["--rank", "0"], "--rank and --world need a place where the ranks can meet"),
        (["--world", "2", "--init-file", "x"], "--rank and --world belong together"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(inputs, capsys, options, words):
    assert cli.main(["train", *inputs, *options]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_plan_of_memory_is_that_of_a_rank(inputs, capsys):
    lines = {}
    for zero in "01":
        assert cli.main(["train", *inputs, "--dry-run", "--ranks", "2", "--zero", zero, "--precision", "bf16"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if "MiB" in line]
        lines[zero] = {" ".join(row[:2]): float(row[row.index("MiB") - 1]) for row in rows}
    assert lines["1"]["AdamW m"] == pytest.approx(lines["0"]["AdamW m"] / 2, abs=0.01)
    assert "our part" in lines["1"] and "our part" not in lines["0"]
