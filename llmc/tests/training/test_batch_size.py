"""`--batch-size auto`: the largest batch that fits is chosen, written down, and halved where memory still runs out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from llmc.backends import reference
from llmc.checkpoints import load_model
from llmc.cli import main
from llmc.config import GPT2Config, preset
from llmc.distributed.data_parallel import ALONE
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.tests.distributed.threads import together
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import TrainSettings, memory, train
from llmc.training.sweep import sweep

GiB = 2**30


@pytest.fixture
def there(monkeypatch):
    """there(bytes): so much memory is free, from now on."""

    def there(n):
        for place in ("llmc.training.memory.host_memory", "llmc.cuda.free_memory"):
            monkeypatch.setattr(place, lambda: int(n))

    return there


@pytest.fixture
def corpus(tmp_path):
    return str(write_corpus(tmp_path / "data", val="the cat sat. " * 40).train.parent)


def chosen(ranks=ALONE, **settings):
    """The batch that is chosen for d12, whose plan of memory grows by about a gigabyte per four sequences."""
    found = TrainSettings(preset="d12", batch_size="auto", sequence_length=1024, **settings)
    return memory.choose_batch(found, preset("d12"), ranks=ranks).batch_size


# ------------------------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize("free", [4, 10, 40])
@pytest.mark.parametrize("kept", [{}, {"precision": "bf16"}, {"recompute": 2}])
def test_the_largest_power_of_two_that_fits(there, free, kept):
    there(free * GiB)
    B = chosen(backend="cpu", **kept)
    needed = [memory.memory_needed(preset("d12"), n, 1024, "cpu", **kept) for n in (B, 2 * B)]
    assert B & (B - 1) == 0 and needed[0] < free * GiB < 1.2 * needed[1]


def test_less_memory_per_sequence_makes_a_larger_batch(there):
    there(15 * GiB)
    usual = chosen(backend="cpu", recompute=0)
    assert usual < chosen(backend="cpu", recompute=2) and usual < chosen(backend="cuda", recompute=0, precision="bf16")


def test_it_divides_the_total_batch(there):
    there(1000 * GiB)
    assert chosen(total_batch_size=524_288) == 512
    assert chosen(total_batch_size=24 * 1024) == 8
    with pytest.raises(UserError, match="total batch size must be a multiple"):
        chosen(total_batch_size=1000)


def test_something_is_left_for_cublas_and_kernels_on_a_gpu(there, monkeypatch):
    there(6 * GiB)
    usual = chosen(backend="cuda")
    needed = memory.memory_needed(preset("d12"), usual, 1024, "cuda")
    monkeypatch.setattr(memory, "on_gpu", lambda backend: True)
    there(needed + needed // 16 + memory.ON_GPU)
    assert chosen(backend="cuda") == usual
    there(needed + needed // 16 + memory.ON_GPU - 1)
    assert chosen(backend="cuda") == usual // 2


def test_where_nothing_fits_the_refusal_names_what_would(there, corpus, tmp_path):
    there(1)
    settings = TrainSettings(data=corpus, backend="numpy", batch_size="auto", out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="B=1 and T=64 takes about .* choose a smaller model"):
        train(settings, quiet=True)


# ----------------------------------------------------------------------------------------------------- in a run

QUICK = dict(backend="numpy", sequence_length=16, val_batches=1, sample_tokens=2, steps=2)


def options(settings):
    """These settings as the command line's options."""
    return [text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))]


def test_a_run_has_the_number_in_its_settings_and_goes_on_with_it(there, corpus, tmp_path, capsys):
    there(100 * GiB)
    run, settings = tmp_path / "run", dict(data=corpus, schedule="constant", **QUICK)
    assert main(["train", "--batch-size", "auto", "--out", str(run), *options(settings)]) == 0
    assert "2 steps of B=32 x T=16 tokens" in capsys.readouterr().out  # 521 tokens to validate on hold no batch of 64
    assert json.loads((run / "settings.json").read_text())["batch_size"] == 32
    there(2 * GiB)
    assert main(["train", "--resume", str(run), "--batch-size", "auto", "--steps", "3"]) == 0
    whole = train(TrainSettings(**settings | {"steps": 3}, batch_size=32), quiet=True, save=False)
    np.testing.assert_array_equal(load_model(run / "model.bin").params_flat, whole.model.params_flat)


def test_dry_run_and_bench_choose_it_too(there, capsys):
    there(10 * GiB)
    assert main(["train", "--dry-run", "--preset", "d12", "--sequence-length", "1024", "--batch-size", "auto"]) == 0
    assert f"activations (B={chosen(backend='cpu')}, T=1024)" in capsys.readouterr().out
    needed = memory.memory_needed(preset("tiny"), 2, 8, "numpy")
    there(needed + needed // 6)
    small = ["--backend", "numpy", "--sequence-length", "8", "--steps", "1", "--json"]
    assert main(["bench", "--batch-size", "auto", *small]) == 0
    assert json.loads(capsys.readouterr().out)["B"] == 2


def test_other_texts_and_sweeps_are_refused(capsys):
    with pytest.raises(UserError, match="batch size must be a whole number"):
        TrainSettings(batch_size="all")
    with pytest.raises(UserError, match="auto cannot choose the batch size"):
        sweep(TrainSettings(batch_size="auto"), quiet=True, save=False)
    assert main(["train", "--batch-size", "much"]) == 2
    assert "--batch-size: must be a whole number, or auto, not 'much'" in capsys.readouterr().err


def test_ranks_agree_on_what_fits_on_each_of_them(there):
    there(40 * GiB)
    settings = TrainSettings(preset="d12", batch_size="auto", sequence_length=1024, backend="cpu")

    def work(ranks):
        ranks.neighbours = 1 + ranks.rank  # as if rank 1 shared its machine with two others
        return memory.choose_batch(settings, preset("d12"), ranks=ranks).batch_size

    alone, shared = chosen(backend="cpu"), together(3, work)
    assert set(shared) == {alone // 4} and settings.shared_by(3) == settings
    there(1000 * GiB)
    assert set(together(4, lambda ranks: chosen(ranks=ranks, total_batch_size=2**19))) == {128}


# ------------------------------------------------------------------------------------------------------ halving

SMALL = GPT2Config(maxT=8, V=50, L=1, NH=1, C=8)


class LittleMemory:
    """NumPy's backend with an end of memory: no array has more than `most` numbers."""

    def __init__(self, most, error=MemoryError):
        self.most, self.error = most, error

    def __getattr__(self, name):
        return getattr(reference, name)

    def zeros(self, n, dtype):
        if n > self.most:
            raise self.error
        return np.zeros(n, dtype)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory")])
def test_a_batch_that_does_not_fit_after_all_is_halved_with_a_sentence(error):
    model, said = GPT2(SMALL, LittleMemory(20_000, error)), []
    found = memory.allocate_or_halve(model, TrainSettings(batch_size=32, sequence_length=8, steps=7), said.append)
    assert found == TrainSettings(batch_size=8, sequence_length=8, steps=7)
    assert model.losses.shape == (8, 8)
    assert said == [f"B={B} does not fit after all, so the batch size is {B // 2}" for B in (32, 16)]


def test_all_ranks_halve_when_one_of_them_must():
    def work(ranks):
        model = GPT2(SMALL, LittleMemory(20_000 if ranks.rank else 1_000_000))
        settings = TrainSettings(batch_size=32, sequence_length=8)
        return memory.allocate_or_halve(model, settings, ranks=ranks).batch_size, model.losses.shape

    assert together(2, work) == [(8, (8, 8))] * 2


def test_where_one_sequence_does_not_fit_memory_has_run_out():
    model = GPT2(SMALL, LittleMemory(SMALL.num_parameters_padded))
    with pytest.raises(MemoryError):
        memory.allocate_or_halve(model, TrainSettings(batch_size=2, sequence_length=8))
    model = GPT2(SMALL, LittleMemory(20_000, RuntimeError("an illegal memory access")))
    with pytest.raises(RuntimeError, match="illegal"):  # less memory does not help against that
        memory.allocate_or_halve(model, TrainSettings(batch_size=32, sequence_length=8))


def test_trying_a_step_on_a_gpu_leaves_no_trace(there, corpus, monkeypatch):
    there(100 * GiB)
    settings, tried, attempt = TrainSettings(data=corpus, **QUICK), [], memory.try_step
    monkeypatch.setattr(memory, "try_step", lambda *sizes: (tried.append(sizes[1:]), attempt(*sizes)))
    plain = train(replace(settings, batch_size=32), quiet=True, save=False)
    monkeypatch.setattr(memory, "on_gpu", lambda backend: True)
    found = train(replace(settings, batch_size="auto"), quiet=True, save=False)
    assert tried == [(32, 16)] and found.history == plain.history
    np.testing.assert_array_equal(found.model.params_flat, plain.model.params_flat)
