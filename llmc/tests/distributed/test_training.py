"""Ranks train: two equal one that takes both their batches, ZeRO-1 equals plain data parallel, and what they have saved
goes on, on any number of ranks."""

import os
import shutil
from contextlib import contextmanager

import numpy as np
import pytest

from llmc.checkpoints.folder import checkpoints, load_checkpoint, model_path, state_path
from llmc.checkpoints.saved_files import damaged_file
from llmc.config import PRESETS, GPT2Config
from llmc.distributed.ranks import Ranks
from llmc.errors import UserError
from llmc.tests.distributed.threads import together
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import Trainer, TrainResult, TrainSettings, read_log, resume, train

PRECISIONS = ["fp32", "bf16"]
SMALL = dict(preset="nano", backend="numpy", sequence_length=16, warmup=2, steps=10, val_every=5, val_batches=2)
SMALL |= dict(sample_tokens=2, checkpoint_every=5, keep=0, clip=0.5)  # the norm of the gradients is above that
WAYS = {  # name -> (ranks, settings); a step has 4 sequences, in two micro-batches of each rank
    "one": (1, dict(batch_size=2, total_batch_size=64)),
    "plain": (2, dict(batch_size=1, total_batch_size=64)),
    "zero": (2, dict(batch_size=1, total_batch_size=64, zero=1)),
}


class Blank:
    """A figure with nothing in it."""

    @staticmethod
    def savefig(file, format):
        file.write(b"")


@pytest.fixture(scope="module", autouse=True)
def quick():
    """No time for what no test here looks at: the loss curve, and waiting for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "nano", GPT2Config(maxT=16, L=2, NH=2, C=16))
        patch.setattr(TrainResult, "plot", lambda self: Blank)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder)
    return str(folder)


def on(world, work):
    """[work(ranks) of each rank]."""
    return [work(Ranks())] if world == 1 else together(world, work)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """A function (way, precision, …) -> the folder of such a run of ten steps, made once."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(way, precision="fp32", **changes):
        key = way, precision, *(f"{name}={value}" for name, value in changes.items())
        if key not in made:
            world, settings = WAYS[way]
            out = folder / "-".join(key)
            settings = TrainSettings(**SMALL, **settings, data=data, precision=precision, out=str(out), **changes)
            results = on(world, lambda ranks: train(settings, quiet=True, ranks=ranks))
            assert [result.steps for result in results] == [10] * world, results
            assert [result.run_dir for result in results[1:]] == [None] * (world - 1)
            made[key] = out
        return made[key]

    return run


def loaded(folder, step=10, precision="fp32"):
    """({"params", "m", "v", "losses"}, model) of a checkpoint, whatever the ranks that saved it."""
    model, state = load_checkpoint(folder, step, "numpy", precision)
    numbers = {name: getattr(model, name).flat for name in ("params", "m", "v")}  # (n,) each
    return numbers | {"losses": np.array(state.losses)}, model


def furthest(one, two):
    return max(np.abs(one[name].astype(np.float64) - two[name]).max() for name in one)


# ------------------------------------------------------------------------------------------------------- equality


@pytest.mark.parametrize("order", ["random", "files"])
def test_two_ranks_equal_one_with_both_their_batches(runs, order):
    one, two = (runs(way, order=order) for way in ("one", "plain"))
    assert furthest(loaded(one)[0], loaded(two)[0]) < 1e-5
    for kind, rows in read_log(one / "main.log").items():
        assert np.allclose(rows, read_log(two / "main.log")[kind], rtol=0, atol=2e-2 if kind == "train" else 2e-4)


def test_in_bf16_they_differ_by_what_a_sum_is_rounded_by(runs):
    one, two = (loaded(runs(way, "bf16"), precision="bf16")[0]["losses"] for way in ("one", "plain"))
    assert 0 < np.abs(one - two).max() < 2e-3


@pytest.mark.parametrize("precision", PRECISIONS)
def test_zero_1_equals_plain_data_parallel_bit_for_bit(runs, precision):
    plain, zero = runs("plain", precision), runs("zero", precision)
    for step in (5, 10):
        assert model_path(plain, step).read_bytes() == model_path(zero, step).read_bytes()
    (one, whole), (two, parts) = (loaded(run, 10, precision) for run in (plain, zero))
    assert furthest(one, two) == 0
    assert precision == "fp32" or (whole.master.flat == parts.master.flat).all()
    assert (plain / "main.log").read_text() == (zero / "main.log").read_text()


def test_without_master_weights_as_well(runs):
    """Then weights are rounded stochastically: by the same random bits, whoever rounds them."""
    plain, zero = (runs(way, "bf16", master_weights=False) for way in ("plain", "zero"))
    assert model_path(plain, 10).read_bytes() == model_path(zero, 10).read_bytes()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_rank_writes_its_part(runs, precision):
    sizes = [state_path(runs(*which, precision), 10, rank) for *which, rank in (("plain", 0), ("zero", 0), ("zero", 1))]
    whole, first, second = (path.stat().st_size - 1024 - 8 * 2 * 10 for path in sizes)  # without losses and norms
    assert first == second == whole / 2
    assert not state_path(runs("plain", precision), 10, 1).exists()


# -------------------------------------------------------------------------------------------------------- resuming


def stopped(run, out, step=5):
    """A copy of a run as if it had been killed after this step."""
    shutil.copytree(run, out)
    for path in out.glob("*_000000*"):
        if f"_{step:08d}" not in path.name:
            path.unlink()
    (out / "model.bin").unlink()
    return out


@pytest.mark.parametrize("precision, changes", [("fp32", {}), ("bf16", {}), ("fp32", {"order": "llm.c"})])
def test_resumed_on_as_many_ranks_it_is_the_same_bit_for_bit(runs, tmp_path, precision, changes):
    whole = runs("zero", precision, **changes)
    again = stopped(whole, tmp_path / "again")
    results = together(2, lambda ranks: resume(again, quiet=True, ranks=ranks))
    assert [result.run.resumed_at for result in results] == [5, 5]
    for path in (model_path, state_path, lambda folder, step: state_path(folder, step, 1)):
        assert path(again, 10).read_bytes() == path(whole, 10).read_bytes()


@pytest.mark.parametrize(
    "way, world, changes",
    [
        ("zero", 1, dict(batch_size=2)),
        ("zero", 2, dict(zero=0)),
        ("plain", 2, dict(zero=1)),
        ("one", 2, dict(zero=1, batch_size=1)),
        ("zero", 4, dict(zero=0)),
        ("zero", 1, dict()),
    ],
)
def test_resumed_on_other_ranks_it_is_the_same_up_to_rounding(runs, tmp_path, way, world, changes):
    """The order of batches is that of the file: shuffled, it also depends on how many sequences are taken at a time."""
    whole = runs(way, order="files")
    again = stopped(whole, tmp_path / "again")
    before, _ = loaded(again, 5)
    notices = []
    on(world, lambda ranks: resume(again, lambda report: notices.append(report.notice), ranks=ranks, **changes))
    assert any(notices) == (world != WAYS[way][0])
    (one, _), (two, _) = loaded(whole), loaded(again)
    assert furthest(one, two) < 1e-5 < furthest({"params": one["params"]}, {"params": before["params"]})
    assert furthest(one, two) == 0 or any(notices)  # on as many ranks it is the same run, with ZeRO-1 or without


def test_in_llmcs_order_the_ranks_stay_as_many(runs, tmp_path):
    again = stopped(runs("zero", order="llm.c"), tmp_path / "again")
    with pytest.raises(UserError, match="drawn for 2 ranks; continue with that number"):
        resume(again, quiet=True, batch_size=2)


def test_a_flipped_bit_in_the_part_of_another_rank_is_noticed(runs, tmp_path):
    again = stopped(runs("zero"), tmp_path / "again")
    path = state_path(again, 5, 1)
    raw = bytearray(path.read_bytes())
    raw[2000] ^= 1
    path.write_bytes(raw)
    assert checkpoints(again) == [5] and damaged_file(again, 5) == path
    with pytest.raises(UserError, match="state_00000005_00001.bin has changed since it was saved"):
        resume(again, quiet=True, batch_size=2)
    path.unlink()
    assert damaged_file(again, 5) == path


@pytest.mark.parametrize(
    "world, changes, words",
    [
        (2, dict(total_batch_size=32), "2 ranks of 2 x 16 tokens take 64 at a time, and 32 tokens per step"),
        (3, dict(zero=1), "8 x 3 does not divide C=16"),
    ],
)
def test_what_ranks_cannot_share_is_one_sentence(data, world, changes, words):
    settings = TrainSettings(**{**SMALL, "batch_size": 2, "data": data, **changes})
    for error in together(world, lambda ranks: train(settings, quiet=True, save=False, ranks=ranks)):
        assert words in str(error)


def test_ranks_with_other_settings_are_refused(data):
    def work(ranks):
        settings = TrainSettings(**SMALL, data=data, seed=ranks.rank, batch_size=1)
        return train(settings, quiet=True, save=False, ranks=ranks)

    assert all("rank 0 has seed 0 and rank 1 1" in str(error) for error in together(2, work))


def test_one_request_to_stop_stops_all(data, tmp_path):
    settings = TrainSettings(**{**SMALL, "steps": 1000}, data=data, batch_size=1, out=str(tmp_path / "run"))

    def stop(report):
        if report.step == 3:
            raise BrokenPipeError

    results = together(2, lambda ranks: train(settings, stop, ranks=ranks))
    assert [result.steps for result in results] == [3, 3] or [result.steps for result in results] == [4, 4]
    assert all(result.interrupted for result in results) and len(checkpoints(tmp_path / "run")) == 1


def test_when_one_fails_all_do_and_what_is_done_is_saved(data, tmp_path, monkeypatch):
    settings = TrainSettings(**SMALL, data=data, batch_size=1, out=str(tmp_path / "run"))

    def work(ranks):
        def fail(report):
            if ranks.rank == 1 and report.step == 7:
                raise UserError("the cable is cut.")

        return train(settings, None if ranks.rank == 0 else fail, quiet=ranks.rank == 0, ranks=ranks)

    zero, one = together(2, work)
    assert "rank 1 has ended: the cable is cut; step 7 is saved; continue from it with" in str(zero), one
    assert checkpoints(tmp_path / "run") == [5, 7]


# ------------------------------------------------------------------------------------------------------------ GPUs


class Beside:
    """Carries arrays in the order in which NCCL does: the ranks themselves, at once."""

    hides = True

    def __init__(self, ranks):
        self.ranks, self.calls = ranks, []

    def __getattr__(self, name):
        return getattr(self.ranks, name)

    @contextmanager
    def beside(self):
        self.calls.append("beside")
        yield

    def join(self):
        self.calls.append("join")


@pytest.mark.parametrize("zero", [0, 1])
def test_layer_by_layer_while_the_backward_pass_goes_on(data, zero):
    """The order of calls on GPUs."""
    settings = dict(SMALL, data=data, batch_size=1, zero=zero, total_batch_size=64)

    def work(ranks, beside):
        communicator = Beside(ranks) if beside else None
        trainer = Trainer(TrainSettings(**settings), ranks=ranks, communicator=communicator)
        rows = [trainer.train_step() for _ in range(3)]
        layers = 3 * ["beside", "beside", "beside", "join"]  # two layers, and the rest
        assert not beside or communicator.calls == layers
        return rows, trainer.model.params_flat.copy()

    (rows, params), (_, other) = together(2, lambda ranks: work(ranks, True))
    (expected, theirs), _ = together(2, lambda ranks: work(ranks, False))
    assert rows == expected and (params == theirs).all() and (params == other).all()


def test_ranks_compare_their_tokens_and_tokenizers(tmp_path):
    def inputs(name, **texts):
        write_corpus(tmp_path / name, **texts)
        return Trainer(TrainSettings(**SMALL, **WAYS["one"][1], data=str(tmp_path / name)))._inputs()

    one, same, other = inputs("a"), inputs("b"), inputs("c", train="the dog sat on the mat. " * 100)
    assert one == same and one["the digest of tokenizer"] == other["the digest of tokenizer"]
    errors = together(2, lambda ranks: ranks.agree(other if ranks.rank else one))
    assert "rank 0 has the digest of tokens" in str(errors[0]) and "the same files" in str(errors[1])
