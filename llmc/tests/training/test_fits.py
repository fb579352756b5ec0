"""A run that does not fit: refused before its first step, with the numbers and a setting that would fit."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import llmc
from llmc.backends import Backend
from llmc.config import GPT2Config, preset
from llmc.errors import UserError
from llmc.model import GPT2, training_buffers
from llmc.tests.tiny_corpus import byte_encoding, write_corpus
from llmc.training import TrainSettings, memory, run_folder, train

MiB, GiB = 2**20, 2**30


@pytest.fixture
def there(monkeypatch):
    """there(bytes): so much memory is free, from now on."""
    return lambda n: monkeypatch.setattr(memory, "host_memory", lambda: n)


def refused(settings, model=None, tokens=1_000) -> str:
    """The sentence."""
    with pytest.raises(UserError) as error, pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "count_tokens", lambda path: tokens)
        memory.check_memory(settings, byte_encoding(), "train.bin", model)
    return str(error.value)


# ------------------------------------------------------------------------------------------------------- the estimate

MEASURE = """
import json, resource, sys
from llmc.training import TrainSettings, memory, train, trainer

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def note(settings, *others):
    before.append(rss())
    return make(settings, *others)

before, make, settings = [], trainer.make_model, TrainSettings(**json.loads(sys.argv[1]))
trainer.make_model = note
result = train(settings, quiet=True)
lines = open("/proc/self/status").read().splitlines()  # getrusage begins with the size of the process that forked
peak = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
estimate = memory.memory_needed(result.run.config, settings.batch_size, settings.sequence_length, settings.backend)
print(estimate, peak - before[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "backend, preset, B, T", [("cpu", "tiny", 96, 64), ("numpy", "tiny", 96, 64), ("cpu", "d6", 1, 128)]
)
def test_the_estimate_is_within_15_percent_of_what_a_run_takes(tmp_path, backend, preset, B, T):
    data = str(write_corpus(tmp_path / "data", "the cat sat. " * 1000, "the cat sat. " * 1000).train.parent)
    shape = dict(preset=preset, backend=backend, batch_size=B, sequence_length=T)
    settings = dict(**shape, data=data, out=str(tmp_path / "run"), steps=2, val_batches=1, sample_tokens=2)
    environment = {**os.environ, "PYTHONPATH": str(Path(llmc.__file__).resolve().parents[1])}
    command = [sys.executable, "-c", MEASURE, json.dumps(settings)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    estimate, measured = map(int, done.stdout.split())
    assert abs(estimate - measured) <= 0.15 * measured


@pytest.mark.parametrize(
    "precision, master, bytes_kept", [("fp32", True, 12), ("bf16", True, 14), ("bf16", False, 10), ("fp16", True, 14)]
)
def test_the_estimate_counts_what_the_model_allocates(precision, master, bytes_kept):
    config = preset("tiny", V=257)
    model = GPT2(config, "numpy", precision, master)
    model.allocate(3, 16)
    buffers = [model.params, model.grads, model.m, model.v, model.master, model._acts, model._dacts]
    allocated = [sum(flat.nbytes for flat in buffer.flats) for buffer in buffers if buffer is not None]
    planned = training_buffers(config, "numpy", 3, 16, precision, master).values()
    assert allocated == [buffer.nbytes for buffer in planned]
    needed = partial(memory.memory_needed, config, 3, 16, "numpy", precision=precision, master_weights=master)
    saved = run_folder.checkpoint_bytes(config, precision, master)
    assert needed() - needed(resumed=True) == saved == bytes_kept * config.num_parameters_padded


# ----------------------------------------------------------------------------------------------------------- memory


def test_a_batch_that_fits_is_named_and_does_fit(there):
    there(2 * GiB)
    settings = TrainSettings(preset="d12", batch_size=64, sequence_length=1024, backend="cpu")
    text = refused(settings)
    assert "B=64 and T=1,024" in text and "2.0 GiB is free" in text
    there(3 * GiB)
    B = int(refused(settings).split("--batch-size ")[1].split()[0])
    config = preset("d12", V=257)
    needed = [memory.memory_needed(config, n, 1024, "cpu", 1_000) for n in (B, B + 1)]
    assert B >= 1 and needed[0] <= 3 * GiB < needed[1]


def test_then_a_shorter_sequence_then_a_smaller_model(there):
    there(int(1.8 * GiB))
    text = refused(TrainSettings(preset="d12", batch_size=4, sequence_length=1024, backend="cpu"))
    assert "--batch-size 1 --sequence-length " in text
    there(1 * GiB)
    assert "--preset" in refused(TrainSettings(preset="d12", batch_size=4, sequence_length=1024, backend="cpu"))


def test_the_batch_divides_the_total(there):
    there(4 * GiB)
    settings = TrainSettings(preset="d12", batch_size=64, sequence_length=256, total_batch_size=64 * 256)
    B = int(refused(settings).split("--batch-size ")[1].split()[0])
    assert 64 % B == 0 and B > 1


def test_a_resumed_run_cannot_change_its_batch(there):
    there(GiB // 64)
    model = SimpleNamespace(config=preset("tiny"))
    assert "resume it on a larger machine" in refused(TrainSettings(batch_size=64), model)


def test_counting_the_baselines_takes_memory_too(there):
    there(400 * MiB)
    assert "takes about" in refused(TrainSettings(), tokens=10_000_000)


def test_it_can_be_tried_all_the_same(there, monkeypatch):
    there(1)
    assert memory.WITHOUT in refused(TrainSettings())
    monkeypatch.setenv(memory.WITHOUT, "1")
    monkeypatch.setattr(memory, "count_tokens", lambda path: 1)
    memory.check_memory(TrainSettings(), byte_encoding(), "train.bin")


def test_on_a_gpu_its_own_memory_counts(monkeypatch):
    monkeypatch.setattr("llmc.cuda.device", lambda: "gpu")
    monkeypatch.setattr("llmc.cuda.free_memory", lambda: 5 * GiB)
    settings = TrainSettings(preset="d12", batch_size=64, sequence_length=1024, backend="cuda")
    monkeypatch.setattr(
        "llmc.model.get_backend", lambda name, precision: Backend(SimpleNamespace(attention_stats_shape=lambda *s: s))
    )
    text = refused(settings)
    assert "of the GPU's memory" in text and "5.0 GiB is free" in text and "--batch-size " in text


def test_training_refuses_before_it_makes_the_model(there, tmp_path, monkeypatch):
    there(MiB)
    monkeypatch.setattr("llmc.training.trainer.make_model", None)
    data = str(write_corpus(tmp_path / "data").train.parent)
    with pytest.raises(UserError, match="MiB of memory, but only 1 MiB is free"):
        train(TrainSettings(data=data, backend="numpy", out=str(tmp_path / "run")), quiet=True)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------------------- disk

SMALL = GPT2Config(maxT=8, V=100, L=1, NH=1, C=8)


@pytest.mark.parametrize(
    "free, changes, saved, advice",
    [
        (2.9, dict(keep=2), (), "3 checkpoints of .*--keep 1 fits"),
        (1.5, dict(keep=2), (), "free some space"),
        (2.9, dict(keep=0, checkpoint_every=100), (), "25 checkpoints .*--keep 1 fits"),
        (0.5, dict(checkpoint_every=0), (), "1 checkpoints"),
        (3.1, dict(keep=2), (), None),
        (1.1, dict(keep=2), (200, 400), None),  # one is removed before the next
        (1.1, dict(keep=2, checkpoint_every=0), (), None),
    ],
)
def test_checkpoints_that_do_not_fit(tmp_path, monkeypatch, free, changes, saved, advice):
    bytes_free = int(free * run_folder.checkpoint_bytes(SMALL))
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda folder: SimpleNamespace(free=bytes_free))
    settings = TrainSettings(**changes)
    if advice is None:
        return run_folder.check_disk(settings, SMALL, tmp_path, saved, max(saved, default=0))
    with pytest.raises(UserError, match=advice):
        run_folder.check_disk(settings, SMALL, tmp_path, saved)


def test_a_run_that_the_disk_has_no_room_for_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    data = str(write_corpus(tmp_path / "data").train.parent)
    with pytest.raises(UserError, match="do not fit onto the disk"):
        train(TrainSettings(data=data, backend="numpy", batch_size=2, sequence_length=8, out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_the_size_of_a_checkpoint(tmp_path):
    data = str(write_corpus(tmp_path / "data").train.parent)
    settings = TrainSettings(data=data, backend="numpy", batch_size=2, sequence_length=8, steps=1, sample_tokens=1)
    result = train(replace(settings, out=str(tmp_path / "run")), quiet=True)
    files = [*result.run_dir.glob("model_*.bin"), *result.run_dir.glob("state_*.bin")]
    there = sum(path.stat().st_size for path in files)
    assert 0 <= there - run_folder.checkpoint_bytes(result.run.config) < 20_000


# ----------------------------------------------------------------------------------------------- what is available


@pytest.fixture
def system(tmp_path, monkeypatch):
    """system({path: text}): Linux's files, made up."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "cgroup")

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    write({"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\nSwapFree:  1000 kB\nHugePages_Total: 0\n"})
    return write


def test_free_memory_of_the_machine(system, tmp_path):
    assert memory.host_memory() == 9000 * 1024
    (tmp_path / "proc" / "meminfo").unlink()
    assert memory.host_memory() == sys.maxsize


def test_a_container_of_version_2(system):
    group = "cgroup/a/memory."
    system({"proc/self/cgroup": "0::/a/b\n", group + "max": "5000000", group + "current": "4000000"})
    system({group + "stat": "anon 1\ninactive_file 200000\nactive_file 100000\n"})
    assert memory.host_memory() == 1_300_000  # of the group around ours
    system({"cgroup/a/b/memory.max": "max"})
    assert memory.host_memory() == 1_300_000
    system({group + "current": "9000000"})
    assert memory.host_memory() == 0


def test_a_container_of_version_1_that_sees_itself_as_the_root(system):
    group = "cgroup/memory/memory."
    system({"proc/self/cgroup": "7:cpu,memory:/docker/x\n", group + "limit_in_bytes": "3000000"})
    system({group + "usage_in_bytes": "1000000", group + "stat": "total_inactive_file 5\n"})
    assert memory.host_memory() == 2_000_005


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v")
def test_a_limit_of_the_address_space():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); from llmc.training import memory; "
    code += "print(memory.host_memory())"
    environment = {**os.environ, "PYTHONPATH": str(Path(llmc.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert 0 < int(done.stdout) < 2**30
