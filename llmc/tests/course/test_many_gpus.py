"""Lesson 21's references and known mistakes, its model of buckets, and what it reads of two GPUs."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from llmc.config import preset
from llmc.course.lessons.many_gpus import buckets, fitting, places, results, sharded, turns
from llmc.course.old.authoring.answers import Lesson
from llmc.course.old.checks.explain import WrongAnswer

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(21)
needs_checkout = pytest.mark.skipif(not (ROOT / "notebooks").is_dir(), reason="needs a checkout")


@pytest.fixture(scope="module")
def given():
    """The names that the exercise notebook gives to its reader."""
    return Lesson(ROOT, "21_many_gpus").namespace


# ------------------------------------------------------------------------------------------------------------ the ring


@pytest.mark.parametrize(("N", "n"), [(1, 4), (2, 7), (3, 11), (5, 3), (5, 13)])
def test_a_ring_adds_up_and_sends_less_than_twice_its_array(N, n):
    arrays = RNG.normal(0, 1, (N, n)).astype(np.float32)
    messages, sums = turns.play(arrays)
    assert np.allclose(sums, arrays.sum(axis=0), atol=1e-6)
    for rank in range(N):
        assert len(messages[rank]) == 2 * (N - 1)
        turns.explain_sent(messages[rank], arrays, rank)
        turns.explain_array(sums.copy(), arrays[rank], arrays, rank)
        turns.demand_bytes(messages[rank], N, n)


def test_what_one_rank_sends_wrongly_is_named():
    arrays = RNG.normal(0, 1, (3, 6)).astype(np.float32)
    messages, sums = turns.play(arrays)
    for t in range(4):
        for wrong in (messages[1][t] + 1, messages[1][t][:1], messages[1][t].astype(np.float64), arrays[1]):
            with pytest.raises(WrongAnswer, match=re.escape(turns.called(t, 3))):
                turns.explain_sent([*messages[1][:t], wrong], arrays, 1)
    with pytest.raises(WrongAnswer, match="rank 1 makes 3 exchanges, and 4 are needed"):
        turns.explain_sent(messages[1][:3], arrays, 1)
    with pytest.raises(WrongAnswer, match="other last bits"):
        turns.explain_array(np.nextafter(sums, np.float32(9)), arrays[0], arrays, 0)
    with pytest.raises(WrongAnswer, match="48 bytes were sent, and 32 will do"):
        turns.demand_bytes([arrays[0]] * 2, 3, 6)


def test_an_exception_gives_way_to_its_cause():
    arrays = RNG.normal(0, 1, (3, 6)).astype(np.float32)
    for sent, kind in (([arrays[0]], WrongAnswer), ([], ValueError)):
        with pytest.raises(kind), turns.watching(sent, arrays, 0):
            raise ValueError


# ----------------------------------------------------------------------------------------------------- fit, step, norm


def test_exact_times_are_fitted_exactly():
    sizes = 10.0 ** np.arange(3, 9)
    seconds = 2 * 7 * (3e-6 + sizes / 8 / 2e11)
    assert np.allclose(fitting.right(8, sizes, seconds), (3e-6, 2e11), rtol=1e-9)


def test_every_known_mistake_of_a_fit_is_another_number():
    sizes = np.sort(10 ** RNG.uniform(2, 9, 9))
    seconds, _, _ = fitting.times(RNG, 5, sizes)
    known = fitting.mistakes(5, sizes, seconds)
    for number, wrongs in zip(fitting.right(5, sizes, seconds), known.values()):
        assert len(wrongs) > 6
        assert all(not np.isclose(wrong, number, rtol=1e-6) for wrong, _ in wrongs.values())


def test_the_step_is_that_of_the_notebook(given):
    mine, theirs = ([a.copy() for a in np.abs(RNG.normal(2, 1, (3, 50))).astype(np.float32)] for _ in range(2))
    for a, b in zip(mine, theirs):
        b[...] = a
    grads = RNG.normal(0, 1, 50).astype(np.float32)
    sharded.adamw(mine[0], grads, mine[1], mine[2], 3, 0.2)
    given["adamw"](theirs[0], grads, theirs[1], theirs[2], 3, 0.2)
    assert all(np.array_equal(a, b) for a, b in zip(mine, theirs))


def test_every_known_mistake_of_a_step_is_wrong():
    params, m, v = np.tile(RNG.normal(2, 1, 12), (3, 1)), *RNG.normal(3, 1, (2, 3, 4)) ** 2
    before = sharded.Step(*(a.astype(np.float32) for a in (params, m, v)))
    grads = RNG.normal(0, 1, (3, 12)).astype(np.float32)
    right = sharded.stepped(before.params, sharded.in_rank_order(grads), before.m, before.v, 3, 0.3)
    sharded.explain_step(right, before, grads, 3, 0.3)
    for name, wrongs in sharded.step_mistakes(before, grads, 3, 0.3).items():
        assert wrongs
        for array, _ in wrongs.values():
            with pytest.raises(WrongAnswer):
                sharded.explain_step(right._replace(**{name: array}), before, grads, 3, 0.3)
    bits = right._replace(params=np.nextafter(right.params, np.float32(0)))
    with pytest.raises(WrongAnswer, match="params is right but for its last bits"):
        sharded.explain_step(bits, before, grads, 3, 0.3)
    bits.params[0] = right.params[0]
    with pytest.raises(WrongAnswer, match="weights of rank 1 are not those of rank 0"):
        sharded.explain_step(bits, before, grads, 3, 0.3)


@pytest.mark.parametrize("share", [0.4, 2.0])
def test_one_factor_for_all_shards(share):
    shards = [RNG.normal(1, 1, k).astype(np.float32) for k in (4, 0, 3)]
    norm = np.linalg.norm(np.concatenate(shards).astype(np.float64))
    for rank, shard in enumerate(shards):
        sharded.explain_asked([sharded.squares(shard)], shard, rank)
        scaled = (shard * min(1.0, share)).astype(np.float32)
        sharded.explain_clipped(norm, scaled, shard, shards, share * norm, rank)
        with pytest.raises(WrongAnswer):
            sharded.explain_clipped(norm * 1.01, scaled, shard, shards, share * norm, rank)
        if shard.size:
            with pytest.raises(WrongAnswer):
                sharded.explain_clipped(norm, scaled * np.float32(0.9), shard, shards, share * norm, rank)


# ------------------------------------------------------------------------------------------------------------- buckets


def cuts(n):
    """All ways to cut n pieces into buckets."""
    for k in range(n):
        for cut in itertools.combinations(range(1, n), k):
            yield [b - a for a, b in zip((0, *cut), (*cut, n))]


def test_the_best_buckets_are_the_best():
    for _ in range(20):
        pieces, cluster = buckets.odd(RNG, int(RNG.integers(1, 8)))
        least = min(buckets.play(pieces, cut, cluster) for cut in cuts(len(pieces)))
        best, floor = buckets.limits(pieces, cluster)
        assert np.isclose(best, least, rtol=1e-12) and floor <= best + 1e-9


def test_the_model_is_that_of_the_notebook(given):
    for _ in range(20):
        pieces, cluster = buckets.odd(RNG, 6)
        for cut in cuts(6):
            assert np.isclose(given["play"](pieces, cut, cluster), buckets.play(pieces, cut, cluster), rtol=1e-12)


def test_a_bucket_by_hand():
    """10 ms, then 4 ms of which 2 pass while the first bucket travels: at 80% they take 2.5."""
    pieces = [buckets.Piece("a", 1_000_000, 10.0), buckets.Piece("b", 2_000_000, 4.0)]
    cluster = buckets.Cluster(2, 0.5e-3, 0.5e9 / 0.75, 0.2)  # 1 + 1.5 ms, 1 + 3 ms
    assert np.isclose(buckets.play(pieces, [1, 1], cluster), 10 + 2.5 + 2 + 4)
    assert np.isclose(buckets.play(pieces, [2], cluster), 14 + 1 + 4.5)


def test_the_pieces_are_gpt2s():
    assert sum(piece.nbytes for piece in buckets.gpt2()) == 2 * preset("d12").num_parameters_padded


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (None, "return a list of whole numbers, not None"),
        ([1.0, 2], "bucket 0 is 1.0"),
        ([3, 0], "bucket 1 has 0 pieces"),
        ([1, 1], "hold 2 pieces, and there are 3: the last one is in none, and some gradients would never be summed"),
        ([3, 1], "some would be summed twice"),
        ([3], "With one bucket nothing travels before"),
    ],
)
def test_buckets_that_are_refused(counts, words):
    pieces, cluster = [buckets.Piece(f"p{k}", 10_000_000, 5.0) for k in range(3)], buckets.Cluster(4, 1e-6, 5e9, 0.0)
    with pytest.raises(WrongAnswer, match=words):
        buckets.demand(pieces, counts, cluster, 1.1, "x")


# ---------------------------------------------------------------------------------------------------- results, sections


@needs_checkout
def test_stored_results_are_read():
    tables = {B: results.two_gpus(B, ROOT / "notebooks" / results.TABLE) for B in (32, 64)}
    gains = {}
    for B, found in tables.items():
        rates = results.tokens_per_second(found)
        gains[B] = rates["2 GPUs, summed after"] / rates["1 GPU"]
        assert found["about"]["B"] == B and found["parameters"] == preset("d12").num_parameters_padded
        assert rates["1 GPU"] == 1e3 * B * 1024 / found["ms"]["1 GPU"]
        assert all(len(turns) == 3 for turns in found["turns"].values())
    assert 1.9 < gains[32] < gains[64] < 2
    assert buckets.STEP_MS == round(tables[32]["ms"]["1 GPU"], 2)


@needs_checkout
def test_sums_begin_with_nothing_and_end_with_all_gradients():
    path = ROOT / "notebooks" / results.TABLE
    sums = results.sums(path)
    nbytes = [n for n, _ in sums.values()]
    assert nbytes == sorted(nbytes) and nbytes[0] == 0 and nbytes[-1] == 2 * preset("d12").num_parameters_padded
    assert all(len(turns) == len(results.sums_alone(path)) == 3 for _, turns in sums.values())


def test_what_runs_beside_an_all_reduce():
    lanes = {
        "compute": [["forward", 0, 3000], ["backward", 3500, 6000]],
        "nccl": [[2000, 4000], [5000, 5500], [7000, 8000]],
    }
    assert results.nccl_ms(lanes) == (3.5, 2.0)


@needs_checkout
def test_the_timeline_is_one_of_a_step():
    """Spans follow one another, all-reduces of two GPUs end together, and a layer is as long as its kernels."""
    found = results.timeline(ROOT / "notebooks" / results.TIMELINE)
    for way, gpus in found["steps"].items():
        for lanes in gpus.values():
            assert [phase for phase, _, _ in lanes["compute"]] == ["forward", "head", "backward", "update"]
            for spans in (lanes["nccl"], [span[1:] for span in lanes["compute"]]):
                assert all(a < b <= c < d for (a, b), (c, d) in itertools.pairwise(spans))
        ends = [[end for _, end in lanes["nccl"]] for lanes in gpus.values()]
        assert np.ptp(ends, axis=0).max() < 60, way  # µs
    for name, spans in found["layer"].items():
        (own,) = (end - start for kind, start, end in spans if kind == "dW")
        assert abs(own - np.median(found["products"][name])) < 12
        assert len(found["products"][name]) == preset("d12").L


@needs_checkout
def test_every_section_that_a_check_names_exists():
    named = set(re.findall(r'lesson (\d\d), section "([^"]+)"', " ".join(map(str, vars(places).values()))))
    assert len(named) >= 6
    for number, title in named:
        (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', notebook.read_text(encoding="utf-8"))
        assert any(heading.startswith(title) for heading in headings), f"{title!r} is no section of {notebook.name}"
