"""Lesson 21's ring, its fit, step and model of buckets, and what it reads of two GPUs."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from llmc.config import preset
from llmc.course.lessons.many_gpus import buckets, results, ring
from llmc.course.mutation.program import solution_of, solution_source

ROOT = Path(__file__).resolve().parents[3]
RNG = np.random.default_rng(21)
PIECES = [buckets.Piece(f"p{k}", int(10 ** RNG.uniform(3, 8)), RNG.uniform(0.05, 3)) for k in range(7)]
CLUSTER = buckets.Cluster(23, 1e-5, 2e10, 0.2)
needs_checkout = pytest.mark.skipif(not (ROOT / "notebooks").is_dir(), reason="needs a checkout")


@pytest.mark.parametrize(("N", "n"), [(1, 4), (2, 7), (3, 11), (5, 3), (5, 13)])
def test_a_ring_adds_up(N, n):
    arrays = RNG.normal(0, 1, (N, n)).astype(np.float32)
    states = ring.ring(arrays)
    assert len(states) == 2 * (N - 1) + 1 and len(states[-1]) == N
    assert all(np.allclose(np.concatenate(chunks), arrays.sum(axis=0), atol=1e-6) for chunks in states[-1])


@needs_checkout
def test_the_fit_is_that_of_least_squares():
    sizes, seconds = 10.0 ** np.arange(3, 9), 1e-4 * RNG.uniform(1, 2, 6) + np.arange(6)
    per_byte, alpha = np.polyfit(sizes, seconds / 14, 1, w=1 / seconds)
    assert np.allclose(solution_of("fit_costs").function()(8, sizes, seconds), (alpha, 1 / per_byte / 8), rtol=1e-9)


@needs_checkout
def test_ranks_make_the_step_of_one():
    """AdamW on whole arrays, with the sum of the gradients in the order of ranks, to the last bit."""
    params, grads = (a.astype(np.float32) for a in (np.tile(RNG.normal(2, 1, 12), (3, 1)), RNG.normal(0, 1, (3, 12))))
    m, v = (RNG.uniform(1, 2, (3, 4)).astype(np.float32) for _ in range(2))
    one, adamw = [array.copy().ravel() for array in (params[0], m, v)], solution_source("zero1_step")[1]["adamw"]
    adamw(one[0], (grads[0] + grads[1]) + grads[2], *one[1:], 3, 0.2)
    solution_of("zero1_step").function()(params, grads, m, v, 3, 0.2)
    assert np.array_equal(params, np.tile(one[0], (3, 1)))
    assert np.array_equal(m.ravel(), one[1]) and np.array_equal(v.ravel(), one[2])


@needs_checkout
def test_the_best_buckets_are_the_best_and_the_model_is_that_of_the_notebook():
    play = solution_source("choose_buckets")[1]["play"]
    for n in range(1, 8):
        every = itertools.chain(*(itertools.combinations(range(1, n), k) for k in range(n)))  # where to cut
        cuts = [[b - a for a, b in zip((0, *cut), (*cut, n))] for cut in every]
        ms = [buckets.play(PIECES[:n], cut, CLUSTER) for cut in cuts]
        assert np.allclose(ms, [play(PIECES[:n], cut, CLUSTER) for cut in cuts], rtol=1e-12)
        best, floor = buckets.limits(tuple(PIECES[:n]), CLUSTER)
        assert np.isclose(best, min(ms), rtol=1e-12) and floor <= best + 1e-9


def test_the_pieces_are_gpt2s():
    assert sum(piece.nbytes for piece in buckets.gpt2()) == 2 * preset("d12").num_parameters_padded


@needs_checkout
def test_stored_results_are_read():
    path, ends = ROOT / "notebooks" / results.TABLE, 2 * preset("d12").num_parameters_padded
    assert buckets.STEP_MS == round(results.two_gpus(32, path)["ms"]["1 GPU"], 2)
    rates = [results.tokens_per_second(results.two_gpus(B, path)) for B in (32, 64)]
    assert all(1.9 < rate["2 GPUs, summed after"] / rate["1 GPU"] < 2 for rate in rates)
    nbytes = [n for n, _ in results.sums(path).values()]
    assert nbytes == sorted(nbytes) and (nbytes[0], nbytes[-1]) == (0, ends)
    lanes = {"compute": [["a", 0, 3000], ["b", 3500, 6000]], "nccl": [[2000, 4000], [5000, 5500], [7000, 8000]]}
    assert results.nccl_ms(lanes) == (3.5, 2.0)
