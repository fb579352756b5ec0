"""Lesson 13: what tells if the work is shared, and what shows, counts and times its ladders."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.course import WrongAnswer
from llmc.course.checks.exercise import exercise_named
from llmc.course.lessons.reductions import ladders
from llmc.course.lessons.reductions.exercises import shared_work
from llmc.cuda import RawKernel, inspect
from llmc.kernels import kernel, source

RNG = np.random.default_rng(13)
ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "notebooks" / ladders.TABLE

SUM = """extern "C" __global__ void row_sum(float* out, const float* x)
{
    __shared__ float partial[64];
    float sum = 0.0f;
    for (int c = FIRST; c < 256; c += STEP) sum += x[c];
    partial[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int k = 0; k < 64; k++) sum += partial[k];
    WRITE out[0] = sum;
}
"""


def summed(first, step, write="if (threadIdx.x == 0)"):
    """What a check holds after a launch of 64 threads on a row of 256."""
    code = SUM.replace("FIRST", first).replace("STEP", step).replace("WRITE", write)
    arrays = np.zeros(1, np.float32), np.ones(256, np.float32)  # (1,), (C,)
    report = inspect(RawKernel(code, "row_sum"), (1,), (64,), arrays)
    return SimpleNamespace(report=report, exercise=exercise_named("tree_sum"))


@pytest.mark.parametrize(
    "first, step, sentence",
    [
        ("threadIdx.x > 0 ? 256 : 0", "1", r"One thread at a time asks for one number"),
        ("0", "1", r"All threads of a warp ask for the same number"),
        ("threadIdx.x % 32", "32", r"32\.0 of 32 threads ask, for numbers in 4\.0 sectors"),
    ],
)
def test_work_that_is_not_shared(first, step, sentence):
    with pytest.raises(WrongAnswer, match=f"right, but the warps read [^~]*{sentence}"):
        shared_work(summed(first, step), rows=1, reads=8)


def test_adding_alone_and_writing_together():
    shared_work(summed("threadIdx.x", "64"), rows=1, reads=8, sums=66 * 2)  # passes
    with pytest.raises(WrongAnswer, match="requests a row to shared memory, where a tree"):
        shared_work(summed("threadIdx.x", "64"), rows=1, reads=8, sums=100)
    with pytest.raises(WrongAnswer, match="each result is written 64 times"):
        shared_work(summed("threadIdx.x", "64", write=""), rows=1, reads=8, sums=1000)


def test_functions_of_a_file_are_found_whole():
    text = source("ladder/layernorm")
    for name in ("tree_sum", "Moments", "layernorm_row", "layernorm_forward_v6"):
        found = ladders.function_text(text, name)
        assert found in text and found.count("{") == found.count("}") and name in found
    assert ladders.function_text(text, "sum").startswith("// The last versions take one number or four")
    assert ladders.function_text(text, "layernorm_row").splitlines()[2].startswith("template")


@pytest.mark.parametrize(
    "blocks, threads, busy, occupancy",
    [
        (64, 128, 64, 64 * 4 / 8448),  # softmax v1 on 8192 rows: fewer blocks than multiprocessors
        (2048, 128, 132, 2048 * 4 / 8448),
        (10**6, 256, 132, 1),  # 8 blocks of 8 warps fill a multiprocessor
        (10**6, 32, 132, 0.5),  # it holds no more than 32 blocks
    ],
)
def test_how_full_a_launch_makes_a_gpu(blocks, threads, busy, occupancy):
    assert ladders.filling(blocks, threads) == (busy, pytest.approx(occupancy))


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    stored = ladders.stored(MEASURED)
    for name in ("softmax_forward", "layernorm_forward"):
        ladder = stored[name]
        us, share = ({v: getattr(row, what) for v, row in ladder.versions.items()} for what in ("us", "share"))
        said = {"v1": 0.07, "v2": 0.38, "v3": 0.48, "v4": 0.73}
        assert {version: share[version] for version in said} == pytest.approx(said, abs=0.03)
        assert share["v4"] > share["v5"] and ladder.best() == "v7" and share["v7"] > 0.9
        assert 4.8 < us["v1"] / us["v2"] < 5.6
        gained = us["v4"] / us["v6"]  # by layernorm a fifth, by softmax nothing
        assert gained == pytest.approx(1.2 if name == "layernorm_forward" else 0.97, abs=0.05)
        assert "H200" in ladder.place and "other bits" not in str(ladder)


def test_counts_of_the_fused_kernel():
    """What exercise 5 says of llmc's own kernel."""
    N, C = 16, 768
    x1, x2 = RNG.normal(0, 1, (2, N, C)).astype(np.float32)  # (N, C) each
    w, b = RNG.normal(0, 1, (2, C)).astype(np.float32)  # (C,) each
    outputs = [np.empty((N, C), np.float32) for _ in range(2)] + [np.empty(N, np.float32) for _ in range(2)]
    sizes = np.int32(N), np.int32(C), np.int32(1)
    fused = kernel("layernorm", "residual_layernorm_forward_v2")
    report = inspect(fused, (2,), (256,), (*outputs, x1, x2, w, b, *sizes), shared_mem=8 * C * 4)
    requests = sum(use.requests for use in report.lines if use.space == "global")
    assert (report.sectors / N, requests / N) == (578, 38)
    counts = ladders.count([report], 4 * N * C, ("residual", "out", "x1", "x2"), rows=N)
    assert counts.own == counts.needed == 384 and counts.others == 194 and counts.barriers == 0
    assert "barriers" not in ladders.count_table({"v2": counts}) and "1 times the 384 needed; 194 oth" in str(counts)
