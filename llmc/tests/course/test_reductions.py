"""Lesson 13's references and known mistakes, held against each other; and what shows, counts and times its ladders."""

import json
from pathlib import Path

import numpy as np
import pytest

from llmc.course.lessons.reductions import ladders, lanes, moments, softmaxes, teamwork, trees
from llmc.course.lessons.reductions import rows as lesson
from llmc.course.old.authoring.answers import Lesson
from llmc.course.old.checks.explain import WrongAnswer
from llmc.cuda import RawKernel, inspect
from llmc.kernels import kernel, source

RNG = np.random.default_rng(13)
ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "notebooks" / ladders.TABLE
SHAPES = [(3, 7), (5, 129), (2, 300)]  # (N, C)   shorter and longer than a warp


def tables():
    """(what is right, {sentence: (wrong array, where)}) of every exercise."""
    for N, C in SHAPES:
        x = RNG.normal(0.3, 2, (N, C)).astype(np.float32)  # (N, C)
        w, b = RNG.normal(2, 1, (2, C)).astype(np.float32)  # (C,) each
        for threads in (256, 32):
            yield lesson.row_sums(x), trees.mistakes(x, threads)
        yield lesson.softmax(x), softmaxes.mistakes(x)
        few = np.float32(0.01) * x  # (N, C)   so small that eps shows
        normed = lesson.normed(few, w, b), moments.normed(few, w, b)
        right = lesson.fused(few, few[::-1], w, b)
        fused = right, moments.fused(few, few[::-1], w, b, (right.residual, right.out))
        for expected, known in (normed, fused):
            for name, wrongs in known.items():
                yield getattr(expected, name), wrongs


def test_every_known_mistake_is_wrong():
    for right, wrongs in tables():
        for sentence, (array, where) in wrongs.items():
            assert np.shape(array) == right.shape, sentence
            assert np.abs(array - right).max() > 3e-4 * np.abs(array).max(), sentence
            assert where.startswith("lesson ") or "lesson 13" in where


@pytest.mark.parametrize("C", [1, 7, 33, 129])
def test_merged_moments_are_the_moments(C):
    x = RNG.normal(5, 1, (4, C))  # (N, C)
    mean, squares = lanes.merged(x)
    assert np.allclose(mean, x.mean(axis=1)) and np.allclose(squares, C * x.var(axis=1), atol=1e-12)


def test_shuffled_down_leaves_the_sum_in_lane_0():
    v = RNG.normal(0, 1, (3, 32))  # (N, 32)
    left = lanes.shuffled_down(v, np.add)  # (N, 32)
    assert np.allclose(left[:, 0], v.sum(axis=1)) and not np.allclose(left[:, 1], v.sum(axis=1))


def test_shuffled_up_leaves_the_sum_in_lane_31_and_shuffled_from_reads_one_lane():
    v = RNG.normal(0, 1, (3, 32))  # (N, 32)
    left = lanes.shuffled_up(v, np.add)  # (N, 32)
    assert np.allclose(left[:, 31], v.sum(axis=1)) and not np.allclose(left[:, 30], v.sum(axis=1))
    read = lanes.shuffled_from(v, lambda mine, other: 0 * mine + other)  # (N, 32)   from lane 16 first
    assert np.array_equal(read, np.repeat(v[:, [16]], 32, axis=1))


@pytest.mark.parametrize("C", [7, 129])
def test_online_with_the_right_rule_gives_the_lanes_sums(C):
    x = RNG.normal(0, 2, (3, C))  # (N, C)
    top, total = lanes.online(x, lambda total, fall, e: total * np.exp(fall) + e)  # (N, 32) each
    row_top = x.max(axis=1, keepdims=True)  # (N, 1)
    assert np.allclose((total * np.exp(top - row_top)).sum(axis=1), np.exp(x - row_top).sum(axis=1))


def test_only_telling_mistakes_are_kept():
    right = np.array([1.0, 2.0])  # (N,)
    known = {"a": (right, "x"), "b": (right + 1e-5, "x"), "c": (right + np.nan, "x"), "d": (2 * right, "x")}
    assert list(lanes.telling(known, right)) == ["d"]


def test_a_long_row_tells_nearly_all_mistakes_apart():
    x = RNG.normal(0.3, 2, (5, 300)).astype(np.float32)  # (N, C)
    w, b = RNG.normal(2, 1, (2, 300)).astype(np.float32)  # (C,) each
    assert len(trees.mistakes(x, 256)) >= 20 and len(softmaxes.mistakes(x)) >= 45
    assert len(moments.normed(np.float32(0.01) * x, w, b)["rstd"]) >= 25


@pytest.mark.parametrize("gaps, whose", [(lanes.GAPS, [0] * 32), (lanes.GAPS[:-1], [0, 1] * 16)])
def test_shuffled_xor_leaves_it_in_every_lane(gaps, whose):
    v = np.zeros((1, 32))  # (N, 32)
    v[0, :2] = 1, 10  # the last gap is the one that brings even and odd lanes together
    left = lanes.shuffled_xor(v, np.add, gaps)  # (N, 32)
    assert np.array_equal(left[0], [11] * 32 if len(gaps) == 5 else v[0][whose])


def test_softmax_with_the_right_maximum_and_sum_is_softmax():
    x = RNG.normal(0, 2, (3, 129))  # (N, C)
    tops = np.repeat(x.max(axis=1, keepdims=True), 32, axis=1)  # (N, 32)
    got = lanes.softmax_with(x, tops, lambda of_lane: lanes.shuffled_xor(of_lane, np.add))  # (N, C)
    assert np.allclose(got, lesson.softmax(x))


def test_finite_names_the_reason():
    lesson.finite("mean", np.zeros(3), "because")
    lesson.finite_sums("out", np.array([0, 1.0]), "because")
    with pytest.raises(WrongAnswer, match="all zeros, and each row should add up to 1"):
        lesson.finite_sums("out", np.zeros(3), "because")
    with pytest.raises(WrongAnswer, match="mean has NaN or infinite entries: because"):
        lesson.finite("mean", np.array([0, np.nan]), "because")


# ----------------------------------------------------------------------------------------------------- teamwork

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
    """The report of 64 threads on a row of 256."""
    code = SUM.replace("FIRST", first).replace("STEP", step).replace("WRITE", write)
    arrays = np.zeros(1, np.float32), np.ones(256, np.float32)  # (1,), (C,)
    return inspect(RawKernel(code, "row_sum"), (1,), (64,), arrays)


def test_work_that_is_shared_passes():
    report = summed("threadIdx.x", "64")
    teamwork.read_together(report, rows=1, most=8, where="there")
    teamwork.added_together(report, rows=1, most=66 * 2, where="there")
    teamwork.written_once(report, numbers=1, where="there")


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
        teamwork.read_together(summed(first, step), rows=1, most=8, where="there")


def test_adding_alone_and_writing_together():
    with pytest.raises(WrongAnswer, match="requests a row to shared memory, where a tree"):
        teamwork.added_together(summed("threadIdx.x", "64"), rows=1, most=100, where="there")
    with pytest.raises(WrongAnswer, match="each result is written 64 times"):
        teamwork.written_once(summed("threadIdx.x", "64", write=""), numbers=1, where="there")


# ------------------------------------------------------------------------------------------------------ ladders


def test_functions_of_a_file_are_found_whole():
    text = source("layernorm")
    for name in ("tree_sum", "warp_sum", "Moments", "merge", "layernorm_row", "layernorm_forward_v6"):
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
        (10**6, 1024, 132, 1),
    ],
)
def test_how_full_a_launch_makes_a_gpu(blocks, threads, busy, occupancy):
    assert ladders.filling(blocks, threads) == (busy, pytest.approx(occupancy))


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    for name in ("softmax_forward", "layernorm_forward"):
        times = ladders.stored_times(name, MEASURED)
        share = {version: speed / times.limit for version, speed in times.gb_s.items()}
        said = {"v1": 0.07, "v2": 0.38, "v3": 0.48, "v4": 0.73}
        assert {version: share[version] for version in said} == pytest.approx(said, abs=0.03)
        assert share["v4"] > share["v5"] and max(share, key=share.get) == "v7" and share["v7"] > 0.9
        assert 4.8 < times.us["v1"] / times.us["v2"] < 5.6
        gained = times.us["v4"] / times.us["v6"]  # by layernorm a fifth, by softmax nothing
        assert gained == pytest.approx(1.2 if name == "layernorm_forward" else 0.97, abs=0.05)


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
    counts = ladders.count(report, N, C, own=("residual", "out", "x1", "x2"))
    assert counts.own == counts.needed == 384 and counts.common == 194 and counts.barriers == 0
    assert "384" in ladders.count_table({"v2": counts}) and "1 times the 384 needed" in str(counts)


def test_stored_times(tmp_path):
    assert ladders.stored_times("softmax_forward", tmp_path / "none.json") is None
    rows = [
        {"kernel": f"softmax_forward_v{v}", "us": 10 * v, "gb_s": 500.0 * v, "share": 0.125 * v, "shape": "(8, 4)"}
        for v in (1, 2)
    ]
    (tmp_path / "table.json").write_text(json.dumps(rows))
    times = ladders.stored_times("softmax_forward", tmp_path / "table.json")
    assert times.us == {"v1": 10, "v2": 20} and times.limit == 4000 and "H200" in times.place
    assert ladders.stored_times("layernorm_forward", tmp_path / "table.json") is None


FALSE = {  # of kept answers, what was not seen to be so
    "fused_from_school": "declares a second",
    "online_with_a_second_total": "Exp overflows",
    "warp_that_strides_by_the_block": "the first turn of",
    "warp_with_a_row_for_each_block": "without the term `threadIdx.x`",
    "warp_of_one_row_a_block": "without the term `threadIdx.x`",
}


def test_no_cause_is_named_that_other_launches_exclude():
    lesson_13 = Lesson(ROOT, "13_reductions")
    for answer in lesson_13.answers:
        if answer.function.__name__ in FALSE:
            assert FALSE[answer.function.__name__] not in lesson_13.give(answer).message
