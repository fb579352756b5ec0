"""kill -9 at random moments: a checkpoint is whole or absent, no complete one is lost, and the run ends as if nothing
had happened.

The kills come by turns: just after a checkpoint, during the start of the process, and at the end of a run, while it
writes its model, its sample and its curve. Five kills in fp32; LLMC_KILLS=100 for more, in bf16 too, with a report:
    LLMC_KILLS=100 python -m pytest -s -o addopts= llmc/tests/training/test_kill.py
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import llmc
from llmc.checkpoints import write_model
from llmc.checkpoints.folder import checkpoints, load_checkpoint, model_path, state_path
from llmc.checkpoints.saved_files import check_file
from llmc.config import GPT2Config
from llmc.files.digest import digest
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training import read_log

KILLS = int(os.environ.get("LLMC_KILLS", 5))
PRECISIONS = ["fp32", "bf16"] if "LLMC_KILLS" in os.environ else ["fp32"]
BETWEEN = 12  # at most this many steps from one kill to the next
STEPS = BETWEEN * KILLS
OPTIONS = "--batch-size 1 --sequence-length 16 --warmup 5 --val-every 7 --val-batches 1 --sample-tokens 4"
OPTIONS += " --checkpoint-every 1 --skip-loss-z 3 --total-batch-size 32 --schedule constant"
A_STEP = 0.03  # seconds, roughly, including its checkpoint
WAYS = {"step": A_STEP, "start": 2.0, "end": 1.0}  # seconds, roughly, that each of them takes


def start(*arguments):
    """`python -m llmc.cli train …` as a process of its own, with one thread."""
    root = str(Path(llmc.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    pipes = dict(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
    return subprocess.Popen([sys.executable, "-m", "llmc.cli", "train", *arguments], **pipes, env=environment)


def finish(process):
    """Wait until the process ends; it must succeed."""
    assert process.wait(timeout=300 + 2 * STEPS) == 0, process.stderr.read()
    process.stderr.close()


def kill(process, folder, step, delay):
    """Kill -9, `delay` seconds after the checkpoint of `step` or a later one; returns the newest complete one seen."""
    deadline = time.monotonic() + 300
    while max(checkpoints(folder), default=0) < step and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.001)
    time.sleep(delay)
    seen = max(checkpoints(folder), default=0)
    process.kill()
    process.wait()
    error = process.stderr.read()
    process.stderr.close()
    assert not error, error
    return seen


def files(folder, step):
    return [path(folder, step).read_bytes() for path in (model_path, state_path)]


@pytest.mark.skipif(sys.platform == "win32", reason="a process that is killed on Windows holds its files for a while")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_killed_at_random_moments(tmp_path, precision):
    data, model, whole, run = (str(tmp_path / name) for name in ("data", "model.bin", "whole", "run"))
    write_corpus(data)
    nano = GPT2(GPT2Config(maxT=16, V=V, L=1, NH=2, C=16))  # a step takes no longer than writing a checkpoint
    nano.init_weights()
    write_model(model, nano)
    settings = [*OPTIONS.split(), "--steps", str(STEPS), "--data", data, "--model", model, "--precision", precision]
    finish(start(*settings, "--keep", "0", "--out", whole))
    moments, counts = random.Random(1), dict(lost=0, wrong=0, complete=0, leftovers=0)
    for number in range(KILLS):
        way = list(WAYS)[number % 3]
        before = max(checkpoints(run), default=0)
        step = before + (0 if way == "start" else moments.randint(1, BETWEEN - 1))
        total = ["--steps", str(step if way == "end" else before + BETWEEN)]
        process = start(*(["--resume", run] if number else [*settings, "--keep", "3", "--out", run]), *total)
        seen = kill(process, run, step, moments.uniform(0, WAYS[way]))
        complete = checkpoints(run)
        counts["lost"] += max(complete) < seen
        counts["complete"] += len(complete)
        for step in complete:
            load_checkpoint(run, step)
            counts["wrong"] += files(run, step) != files(whole, step)
        wholes = {path.name for step in complete for path in (model_path(run, step), state_path(run, step))}
        counts["leftovers"] += any(p.name not in wholes for p in Path(run).glob("*[0-9].bin*"))
        counts["leftovers"] += any(Path(run).glob(".*.tmp"))
        if (Path(run) / "model.bin").is_file():  # that of an earlier end, until there is a new one
            at = {digest(model_path(whole, s)) for s in range(1, max(complete) + 1)}
            counts["wrong"] += check_file(Path(run) / "model.bin") not in at
    print(f"\n{KILLS} kills in {precision}, {max(checkpoints(run))} of {STEPS} steps made by then: {counts}")
    assert counts["lost"] == counts["wrong"] == 0
    finish(start("--resume", run, "--steps", str(STEPS)))
    assert files(run, STEPS) == files(whole, STEPS)
    assert (Path(run) / "model.bin").read_bytes() == (Path(whole) / "model.bin").read_bytes()
    log, uninterrupted = (read_log(Path(folder) / "main.log") for folder in (run, whole))
    assert log["train"] == uninterrupted["train"] and set(log["val"]) >= set(uninterrupted["val"])
    assert len(checkpoints(run)) == 3 and not list(Path(run).glob(".*.tmp"))
