"""The sweep: several learning rates, each in a process of its own; divergence, interruption, and what they leave."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import llmc
from llmc.cli import main
from llmc.errors import UserError
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import TrainSettings, read_log, train
from llmc.training.sweep import SweepRun, best, default_rates, finding, plot_sweep, side_by_side, sweep, table

ROOT = str(Path(llmc.__file__).resolve().parents[1])
PATIENCE = 300  # seconds for what a busy machine does in time; on a quiet one nothing waits so long


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_corpus(tmp_path_factory.mktemp("data")).train.parent)


@pytest.fixture
def settings(data, tmp_path):
    return TrainSettings(
        data=data,
        batch_size=2,
        sequence_length=8,
        steps=3,
        warmup=0,
        val_every=2,
        val_batches=2,
        sample_tokens=2,
        backend="numpy",  # nothing to compile in each process
        out=str(tmp_path / "sweep"),
    )


def made_up(rate, loss, status="finished", steps=20):
    """A SweepRun without any training."""
    train = [(step, 7 - 0.1 * step, rate, 1.0) for step in range(steps)]
    history = {"val": [(0, 7.0), (steps, loss)], "train": train, "eval": []}
    return SweepRun(rate, status, history, "x", "the loss is nan at step 9" if status == "diverged" else "")


# -------------------------------------------------------------------------------------------------- running it


def test_a_sweep_from_the_command_line(settings, data, tmp_path, capsys):
    """Two runs finish and one diverges: the table, the files, and each run as `llmc train` would have made it."""
    shape = ["--batch-size", 2, "--sequence-length", 8, "--steps", 3, "--val-every", 2, "--sample-tokens", 2]
    options = ["--data", data, *shape, "--warmup", 0, "--val-batches", 2, "--backend", "numpy"]
    out = tmp_path / "sweep"
    arguments = ["sweep", *options, "--out", out, "--learning-rates", "1e30,1e-3,2e-3", "--jobs", 2]
    assert main([str(a) for a in arguments]) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text[text.index("learning rate   validation loss") :].splitlines()[1:4]]
    assert [row[0] for row in rows] == ["0.001", "0.002", "1e+30"]  # sorted, and the best is marked
    assert rows[2][1] == "diverged:" and sum("best" in row for row in rows) == 1
    assert {p.name for p in out.iterdir()} == {"lr_0.001", "lr_0.002", "lr_1e+30", "results.json", "sweep.png"}
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert main([str(a) for a in ["train", *options, "--out", tmp_path / "alone", "--learning-rate", "2e-3"]]) == 0
    assert (tmp_path / "alone" / "main.log").read_bytes() == (out / "lr_0.002" / "main.log").read_bytes()
    kept = json.loads((out / "results.json").read_text())["runs"]
    losses = [read_log(out / name / "main.log")["val"][-1][1] for name in ("lr_0.001", "lr_0.002")]
    assert [run["val_loss"] for run in kept] == [*losses, None] and kept[2]["status"] == "diverged"


def test_a_second_sweep_makes_the_missing_runs(settings, tmp_path):
    folder = Path(settings.out)
    first = sweep(settings, [1e-3], quiet=True)
    before = (folder / "lr_0.001" / "model.bin").stat().st_mtime_ns
    both = sweep(settings, [1e-3, 3e-3], jobs=1, quiet=True)
    assert both[0] == first[0] and [run.status for run in both] == ["finished", "finished"]
    assert (folder / "lr_0.001" / "model.bin").stat().st_mtime_ns == before
    assert sweep(settings, [3e-3], quiet=True) == both  # all that the folder holds
    with pytest.raises(UserError, match="different value for steps"):
        sweep(TrainSettings(**{**vars(settings), "steps": 4}), [1e-3], quiet=True)
    (folder / "results.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        sweep(settings, [1e-3], quiet=True)


def test_without_saving_a_sweep_leaves_no_file(settings, capfd):
    runs = sweep(TrainSettings(**{**vars(settings), "out": None}), [1e-3], quiet=True, save=False)
    assert runs[0].val_loss > 0 and runs[0].steps == 3 and runs[0].run_dir is None
    assert capfd.readouterr() == ("", "")


def test_a_failure_other_than_divergence_ends_the_sweep(settings, data, tmp_path):
    """Every run fails in the same way; the message is the run's own, and existing files stay."""
    spoiled = TrainSettings(**{**vars(settings), "batch_size": 200})
    with pytest.raises(UserError, match="learning rate 0.001.*batch size"):
        sweep(spoiled, [1e-3, 2e-3, 3e-3], jobs=1, quiet=True)
    assert not Path(settings.out).exists()
    Path(settings.out).mkdir()
    (Path(settings.out) / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        sweep(settings, [1e-3], quiet=True)


@pytest.mark.parametrize(
    ("status", "ending"), [(3, "diverged"), (4, "interrupted"), (2, None), (1, None), (-9, "killed")]
)
def test_a_run_ended_as_its_exit_status_says_whatever_the_words(settings, status, ending):
    words = "the loss is nan at step 9, so training stopped"
    process = SimpleNamespace(status=status, message=words, settings=settings)
    if ending:
        assert SweepRun.of(process).status == ending
        assert SweepRun.of(process).message == {"diverged": words, "killed": "SIGKILL"}.get(ending, "")
    else:
        with pytest.raises(UserError, match="the run with learning rate 0.004 failed: the loss is nan"):
            SweepRun.of(process)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--learning-rates", "1e-3,fast"], "'1e-3,fast'"),
        (["--learning-rates", "1e-3,-1"], "learning rate"),
        (["--learning-rates", "1e-3", "--jobs", "0"], "at a time"),
        (["--preset", "huge"], "'huge'"),
        (["--recipe", "huge"], "'huge'"),
        (["--learning-rate", "1e-3"], "--learning-rate"),
    ],
)
def test_bad_options(arguments, words, capsys):
    assert main(["sweep", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("llmc: ") and err.count("\n") == 1 and words in err


def test_the_learning_rates_lie_around_the_recipes(settings, monkeypatch):
    assert default_rates(TrainSettings(learning_rate=4e-3)) == [4e-4, 1.3e-3, 4e-3, 1.3e-2, 4e-2]
    called = []
    monkeypatch.setattr("llmc.commands.sweep.sweep", lambda *a: called.append(a) or [])
    assert main(["sweep", "--recipe", "cpu-demo", "--steps", "7"]) == 2
    assert called[0][0].steps == 7 and called[0][0].preset == "d12" and called[0][1][2] == 1e-4


# ------------------------------------------------------------------------------------------------- interrupting


def begun(folder, rates):
    """Wait until all the runs have made some steps."""
    logs = [Path(folder) / f"lr_{rate!r}" / "main.log" for rate in rates]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if all(log.is_file() and log.read_text().count("trl") > 3 for log in logs):
            return
        time.sleep(0.02)
    raise AssertionError("the runs did not begin")


def processes_of(folder):
    """Command lines of the processes that train into the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if str(folder).encode() in path.read_bytes() and "child" in path.read_text() else []
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_ctrl_c_stops_and_saves_all_runs(settings, data, tmp_path):
    out, rates = tmp_path / "sweep", [1e-3, 2e-3]
    options = ["--data", data, "--batch-size", 2, "--sequence-length", 8, "--steps", 100_000, "--backend", "numpy"]
    arguments = ["sweep", *options, "--out", out, "--learning-rates", "1e-3,2e-3,3e-3", "--jobs", 2]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-m", "llmc", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    begun(out, rates)
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and err.count("\n") == 1 and "interrupted" in err and str(out) in err
    assert text.count("interrupted after step") == 4  # for each run a line, and a row in the table
    runs = json.loads((out / "results.json").read_text())["runs"]
    assert [run["status"] for run in runs] == ["interrupted"] * 2 + ["waiting"]
    assert min(run["steps"] for run in runs[:2]) > 3
    assert all((out / run["run_dir"] / "model.bin").is_file() for run in runs[:2])
    if sys.platform == "linux":
        assert processes_of(out) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_run_outlives_a_sweep_that_is_killed(settings, data, tmp_path):
    out = tmp_path / "sweep"
    long = {**vars(settings), "steps": 100_000, "val_every": 100_000}
    code = (
        "import json, sys; from llmc.training import TrainSettings; from llmc.training.sweep import sweep;"
        "sweep(TrainSettings(**json.loads(sys.argv[1])), [1e-3, 2e-3], jobs=2, quiet=True)"
    )
    environment = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen([sys.executable, "-c", code, json.dumps(long)], env=environment)
    begun(out, [1e-3, 2e-3])
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while processes_of(out) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(out) == []
    assert (out / "lr_0.001" / "model.bin").is_file()  # saved, as by Ctrl-C


SWEEP = (
    "import json, sys; from llmc.training import TrainSettings; from llmc.training.sweep import sweep;"
    "sweep(TrainSettings(**json.loads(sys.argv[1])), [1e-3, 2e-3, 3e-3], jobs=2, quiet=True)"
)


def in_its_own_process(settings):
    """A sweep over 0.001, 0.002 and 0.003, two at a time."""
    command = [sys.executable, "-c", SWEEP, json.dumps(vars(settings))]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ROOT}, stderr=subprocess.PIPE, text=True)


def statuses(out):
    return [run["status"] for run in json.loads((out / "results.json").read_text())["runs"]]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_sweep_that_was_killed_goes_on_where_it_was(settings, tmp_path):
    """Killed at moments of no choice: the plan is there from the first run on, and each step is made once."""
    settings, out = TrainSettings(**{**vars(settings), "steps": 150, "val_every": 50}), Path(settings.out)
    for moment in (0.0, 0.3):
        process = in_its_own_process(settings)
        begun(out, [1e-3, 2e-3] if moment == 0.0 else [1e-3])
        time.sleep(moment)
        process.kill()
        process.wait()
        assert len(statuses(out)) == 3 and "lr_0.003" not in os.listdir(out) or moment
        while processes_of(out):
            time.sleep(0.05)
    runs = sweep(settings, [1e-3, 2e-3, 3e-3], quiet=True)
    assert [run.status for run in runs] == ["finished"] * 3 == statuses(out)
    assert [Path(run.run_dir).name for run in runs] == ["lr_0.001", "lr_0.002", "lr_0.003"]
    train(TrainSettings(**{**vars(settings), "learning_rate": 2e-3, "out": str(tmp_path / "alone")}), quiet=True)
    assert runs[1].history == read_log(tmp_path / "alone" / "main.log")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_that_is_killed_alone_does_not_end_the_others(settings, tmp_path, monkeypatch, capsys):
    settings = TrainSettings(**{**vars(settings), "steps": 150, "val_every": 50})
    rates, out = [1e-3, 2e-3, 3e-3], Path(settings.out)

    def kill_one():
        begun(out, [1e-3])
        for path in processes_of(out):
            if "lr_0.001" in path.read_text():
                os.kill(int(path.parent.name), signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    runs = sweep(settings, rates, jobs=2)
    thread.join()
    assert [run.status for run in runs] == ["killed", "finished", "finished"] and runs[0].unfinished
    assert "learning rate 0.001: killed by SIGKILL after step " in capsys.readouterr().out
    monkeypatch.setattr("llmc.commands.sweep.sweep", lambda *a: runs)
    assert main(["sweep", "--learning-rates", "1e-3,2e-3,3e-3"]) == 2
    err = capsys.readouterr().err
    assert "0.001 was killed by SIGKILL" in err and f"--out {out}" in err and err.count("\n") == 1
    assert [run.status for run in sweep(settings, rates, quiet=True)] == ["finished"] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot lock a folder")
def test_two_sweeps_do_not_share_a_folder(settings):
    first = in_its_own_process(TrainSettings(**{**vars(settings), "steps": 100_000}))
    begun(settings.out, [1e-3, 2e-3])
    with pytest.raises(UserError, match="another sweep is running"):
        sweep(TrainSettings(**{**vars(settings), "steps": 100_000}), [3e-3], quiet=True)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE)
    assert statuses(Path(settings.out)) == ["interrupted", "interrupted", "waiting"]


def test_runs_take_the_gpus_in_turn(settings, monkeypatch):
    placed = []

    class Fake:
        status, message = 0, ""

        def __init__(self, settings, gpu):
            self.settings, self.gpu = settings, gpu
            placed.append(gpu)

        def stop(self):
            pass

        forget = stop

    monkeypatch.setattr(side_by_side, "Process", Fake)
    monkeypatch.setattr(side_by_side, "LOOK", 0)
    for gpus, expected in ((0, [None] * 4), (1, [None] * 4), (2, [0, 1, 0, 1]), (3, [0, 1, 2, 0])):
        placed.clear()
        side_by_side.run_side_by_side([settings] * 4, 4, lambda process: None, gpus=gpus)
        assert placed == expected
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 7")
    assert side_by_side.seeing(1) == {"CUDA_VISIBLE_DEVICES": "7"} and side_by_side.seeing(None) == {}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert side_by_side.seeing(1) == {"CUDA_VISIBLE_DEVICES": "1"}


def test_so_many_runs_at_once_do_not_fit(settings, monkeypatch):
    monkeypatch.setattr("llmc.training.memory.host_memory", lambda: 2**29)
    with pytest.raises(UserError, match="9 runs at a time.*--jobs 2 fits"):
        sweep(settings, [1e-3 * n for n in range(1, 10)], jobs=20, quiet=True)
    assert not Path(settings.out).exists()


def test_an_interrupted_run_is_resumed(settings, tmp_path):
    """Resumed from its checkpoint, it ends as if nothing had happened."""
    settings = TrainSettings(**{**vars(settings), "steps": 300, "val_every": 100})
    stop = threading.Thread(target=lambda: (begun(settings.out, [2e-3]), os.kill(os.getpid(), signal.SIGINT)))
    stop.start()
    half = sweep(settings, [2e-3, 3e-3], jobs=1, quiet=True)
    stop.join()
    assert [run.status for run in half] == ["interrupted"] and half[0].val_loss is None and half[0].steps < 300
    whole = sweep(settings, [2e-3], quiet=True)
    train(TrainSettings(**{**vars(settings), "learning_rate": 2e-3, "out": str(tmp_path / "alone")}), quiet=True)
    assert whole[0].history == read_log(tmp_path / "alone" / "main.log") and whole[0].run_dir == half[0].run_dir


# ------------------------------------------------------------------------------------------------- what it says


def test_the_finding():
    runs = [made_up(1e-4, 5.0), made_up(1e-3, 4.0), made_up(1e-2, 4.5), made_up(1e-1, 7, "diverged")]
    assert best(runs) is runs[1]
    assert finding(runs) == "A learning rate of 0.001 ends lowest, at 4.00 nats per token"
    assert "smallest tried: try smaller" in finding(runs[1:]) and "largest tried: try larger" in finding(runs[:2])
    assert "diverged" not in finding(runs[1:2]) and "4.00" in finding(runs[1:2])
    assert best(runs[3:]) is None and "No learning rate" in finding(runs[3:])
    lines = table(runs).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["0.0001", "0.001", "0.01", "0.1"]
    assert ["best" in line for line in lines[1:]] == [False, True, False, False] and "the loss is nan" in lines[4]


def test_the_plot_shows_every_run():
    """Finished runs on the line, others as crosses, a panel for each curve; a far one does not squeeze the rest."""
    runs = [made_up(1e-4, 5.0), made_up(1e-3, 4.0), made_up(1e-2, 30.0), made_up(1e20, np.nan, "diverged", 2)]
    figure = plot_sweep(runs)
    figure.canvas.draw()
    top = figure.subfigs[0].axes[0]
    assert top.get_xscale() == "log" and top.lines[0].get_xydata().tolist() == [[1e-4, 5.0], [1e-3, 4.0]]
    crosses = [line.get_xdata()[0] for line in top.lines if line.get_marker() == "x"]
    assert crosses == [1e-2, pytest.approx(30e-3)] and top.get_xlim()[1] < 1
    texts = [text.get_text() for text in top.texts]
    assert texts == ["4.00", "ends at 30.00", "1e+20: diverged"]
    panels = [axes for axes in figure.subfigs[1].axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["0.0001: 5.00", "0.001: 4.00", "0.01: 30.00", "1e+20: diverged"]
    assert panels[1].lines[1].get_xydata().tolist() == [[0, 7.0], [20, 4.0]]


@pytest.mark.parametrize("count", [1, 5, 6, 11])
def test_the_plot_has_room_for_any_number_of_runs(count):
    figure = plot_sweep([made_up(10.0**-i, 4.0 + i) for i in range(count, 0, -1)])
    figure.canvas.draw()
    assert sum(axes.get_visible() for axes in figure.subfigs[1].axes) == count
    assert plot_sweep([made_up(1e-3, 7.0, "diverged", 0)]).subfigs[0].axes[0].get_title(loc="left")
