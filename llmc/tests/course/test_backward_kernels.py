"""Lesson 14's references and known mistakes, held against each other; its sums in many orders, its counts and times."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from llmc.course.lessons.backward_kernels import layernorm_gradients as ln
from llmc.course.lessons.backward_kernels import measured, missing, orders, places, sums, times, tiny
from llmc.course.lessons.backward_kernels.tallies import tally, tally_table
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks.masked import Launch
from llmc.cuda import RawKernel, inspect
from llmc.kernels import bias_backward, kernel, layernorm_backward

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "notebooks" / times.TABLE
RNG = np.random.default_rng(14)
SHAPES = [(3, 7), (11, 129), (20, 33)]  # (N, C)   shorter and longer than a warp


def arrays(N, C):
    """dout, x (N, C) and w (C,)."""
    dout, x = RNG.normal(0.5, 1, (N, C)), RNG.normal(3, 2, (N, C))
    return dout.astype(np.float32), x.astype(np.float32), RNG.normal(1, 0.5, C).astype(np.float32)


def tables():
    """(what is right, {sentence: (wrong array, where)}) of every exercise."""
    for N, C in SHAPES:
        dout, x, w = arrays(N, C)
        right = ln.gradients(dout, x, w)
        yield right.dx, ln.dx_mistakes(dout, x, w)
        for warps in (1, 8):
            yield ln.partial_sums(dout, x, 2, warps), ln.partial_mistakes(dout, x, w, 2, warps)
        tokens = np.array([v**2 % 9 for v in range(N)], np.int32)  # (N,)
        yield sums.token_sums(dout, tokens, 9), sums.token_mistakes(dout, tokens, 9, np.ones((9, C)))
        yield sums.column_sums(dout), sums.column_mistakes(dout, 64)
        values = dout.reshape(-1)  # (n,)
        yield sums.square_sums(values, 2, 64), sums.square_mistakes(values, 2, 64)
        partial = ln.partial_sums(dout, x, 2, warps=8)  # (chunks, 2, C)
        known = ln.fused_mistakes(dout, x, w, right.dx, 0 * right.dx, partial)
        yield right.dx, known["dx"]
        yield partial, known["partial"]


def test_every_known_mistake_is_wrong():
    for right, wrongs in tables():
        assert len(wrongs) >= 3
        for sentence, (array, where) in wrongs.items():
            assert np.shape(array) == right.shape, sentence
            assert np.abs(array - right).max() > 3e-4 * np.abs(array).max(), sentence
            assert where.startswith("lesson 1")


def test_references_agree_with_lesson_01():
    dout, x, w = arrays(5, 12)
    dx, dw, db = ln.gradients(dout, x, w)
    partial = ln.partial_sums(dout, x, 3)  # (chunks, 2, C)
    assert np.allclose(partial.sum(axis=0), [dw, db], atol=1e-4) and np.allclose(sums.column_sums(dout), db, atol=1e-5)
    assert ln.add_up(ln.partial_sums(dout, x, 2), partial.copy()[:2]) is False
    assert ln.add_up(np.stack([partial.sum(axis=0), 0 * partial[0]]), ln.partial_sums(dout, x, 2))
    mean, rstd = ln.statistics(x)
    assert np.allclose(mean, x.mean(axis=1), atol=1e-5) and np.allclose(rstd, 1 / x.std(axis=1), rtol=1e-4)


def test_chunks_have_every_row_once():
    ones = np.ones((37, 1))
    for chunks, warps in ((4, 1), (2, 8), (5, 8)):
        assert ln.partials(ones, ones, chunks, warps).sum(axis=0).tolist() == [[37], [37]]


def test_buckets_hold_the_positions_of_one_token_in_order():
    tokens = np.array([5, 3, 5, 9, 5], np.int32)  # (N,)
    order, starts = sums.buckets(tokens)
    assert order.tolist() == [1, 0, 2, 4, 3] and starts.tolist() == [0, 1, 4, 5]  # as the exercise says


def test_squares_of_all_blocks_are_all_squares():
    values = RNG.normal(0, 1, 1000).astype(np.float32)
    found = sums.square_sums(values, 3, 64)
    assert found.sum() == pytest.approx((values.astype(np.float64) ** 2).sum())


def test_a_sum_in_float_is_named():
    sums.in_double(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    sums.in_double(np.array([2.0]), np.array([1.0]))  # plainly wrong: others say how
    with pytest.raises(WrongAnswer, match="as if a float held a sum"):
        sums.in_double(np.array([1.0 + 1e-6]), np.array([1.0]))


ATOMIC = """extern "C" __global__ void total(float* out, const float* x)
{
    __shared__ float part;
    if (threadIdx.x == 0) part = 0.0f;
    __syncthreads();
    ADD
    __syncthreads();
    if (threadIdx.x == 0) OUT
}
"""


def total(add, out):
    """The report of 64 threads that add."""
    code = ATOMIC.replace("ADD", add).replace("OUT", out)
    return inspect(RawKernel(code, "total"), (1,), (64,), (np.zeros(1, np.float32), np.ones(64, np.float32)))


def test_atomics_are_counted_and_refused():
    report = total("atomicAdd(&part, x[threadIdx.x]);", "atomicAdd(out, part);")
    found = tally([report], 64, ["x"])
    assert (found.needed, found.atomics, found.in_shared) == (8, 1, 64)
    assert found.own in (8, 9)  # NumPy decides where the array begins
    assert "64 in shared memory" in str(found) and "64" in tally_table({"v1": found})
    with pytest.raises(WrongAnswer, match="right, but 65 numbers are added by atomics"):
        sums.no_atomics(report)
    sums.no_atomics(total("if (threadIdx.x == 0) part = x[0];", "out[0] = part;"))


def test_a_sum_is_added_once():
    report = total("atomicAdd(&part, x[threadIdx.x]);", "out[0] += part, out[0] += part;")
    sums.added_once(report, 2)
    with pytest.raises(WrongAnswer, match="each result is written 2 times"):
        sums.added_once(report, 1)


def test_other_shares_are_named():
    sums.other_shares(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    sums.other_shares(np.array([1.0, 2.5]), np.array([1.0, 2.0]))  # plainly wrong: others say how
    with pytest.raises(WrongAnswer, match=r"partial\[0\] is not the one"):
        sums.other_shares(np.array([2.0, 1.0]), np.array([1.0, 2.0]))


def test_mistakes_of_single_threads_agree_with_the_right_sums_where_they_cannot_matter():
    dout, _, _ = arrays(11, 40)
    d = dout.astype(np.float64)
    assert np.allclose(sums._columns_of_threads(d, 32), d.sum(axis=0))  # one warp: blockDim.x is 32
    assert np.allclose(sums._other_places(d, 1), d.sum(axis=0))


def test_why_something_was_never_written():
    partial = ln.partial_sums(*arrays(3, 7)[:2], chunks=5)  # (chunks, 2, C)
    assert missing.idle_blocks(partial, partial, 5) == ""  # each block has a row
    assert missing.idle_blocks(partial + 1, partial, 3) == ""  # something else is wrong
    assert missing.idle_blocks(partial, partial, 3).startswith("blocks 3 to 4 have no row of x")
    assert missing.idle_blocks(partial, partial, 4).startswith("block 4 has no row of x")
    assert missing.idle_warps("if (row >= N) return;", 2, 1).startswith("with N = 2 rows, some of the 8 warps")
    assert missing.idle_warps("if (row >= N) return;", 8, 1) == missing.idle_warps("if (row < N) {", 2, 1) == ""
    whole = "if ((int)blockIdx.x * 8 >= N) {\n    return;\n}"
    assert "line 2 lets whole blocks return. With N = 9 rows, block 2 has" in missing.idle_warps(whole, 9, 3)
    assert missing.idle_warps(whole, 9, 2) == ""  # no block is idle
    for message, words, expected in (
        ("never written.", "Why.", "Why.\nnever written."),
        ("never written.", "", "never written."),
        ("a race.", "Why.", "a race."),
    ):
        with pytest.raises(WrongAnswer) as wrong, missing.explained(lambda words=words: words):
            raise WrongAnswer(message)
        assert wrong.value.message == expected


@pytest.mark.parametrize("declared", ["float4 dw[8], norm[8];", "float4 a[8] = {}, dw[8];", "float dw[K];"])
def test_a_local_array_that_nobody_sets_is_named(declared):
    adds = f"{declared} norm[k] = v; dw[k].x += d.x * v.x;"
    assert missing.never_set_arrays(adds, lambda code: "memset(dw" not in code) == ["dw"]
    assert not missing.never_set_arrays(adds, lambda code: False)  # what is wrong is something else
    assert not missing.never_set_arrays(f"{declared} dw[k] = zero; dw[k].x += d.x * v.x;", lambda code: True)
    none = "float4 old = dx4[i], d = dw[k]; dx4[i].x += d.x, dw[k].x += d.x;"  # no arrays are declared
    assert not missing.never_set_arrays(none, lambda code: True)


def test_which_of_the_two_sums_is_wrong_in_one_place_of_four():
    right = ln.partial_sums(*arrays(11, 40)[:2], chunks=2)  # (chunks, 2, C)
    for halves, of in (([0], " of dw"), ([1], " of db"), ([0, 1], "")):
        wrong = right.copy()
        wrong[:, halves, 1::4] += 1
        assert [*ln._slots(wrong, right)] == [f"the reference, except for .y of each float4{of}"]
    wrong[:, 0, 2::4] += 1  # .y and .z here, .y there
    assert ln._slots(wrong, right) == ln._slots(right, right) == {}


def test_a_local_array_that_a_helper_fills_is_not_named():
    code = "float old[4], dw[8]; load(old, x); old[j] += d[j]; dw[k] += d[k];"
    assert missing.never_set_arrays(code, lambda code: "memset(dw" not in code) == ["dw"]


def test_places_are_headings():
    for place in (value for name, value in vars(places).items() if name.isupper() and isinstance(value, str)):
        number, title = re.fullmatch(r'lesson (\d\d), section "(.*)"', place).groups()
        (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        headings = re.findall(r'"#+ (.*?)(?:\\n)?"', notebook.read_text(encoding="utf-8"))
        assert any(heading.startswith(title) for heading in headings), place


def test_an_order_decides_the_sum():
    numbers = RNG.normal(0, 1, 512).astype(np.float32)
    found = orders.in_orders(numbers, 100, np.random.default_rng(1))
    assert found.dtype == np.float32 and len(np.unique(found)) > 5
    assert np.array_equal(found, orders.in_orders(numbers, 100, np.random.default_rng(1)))
    assert orders.ulps(np.nextafter(np.float32(3), np.float32(4)), 3.0) == 1


def test_a_fixed_order_repeats_a_training():
    a, b = (orders.trained(np.arange, 0.5, steps=20) for _ in range(2))
    c = orders.trained(np.random.default_rng(1).permutation, 0.5, steps=20)
    assert np.array_equal(a, b) and not np.array_equal(a, c) and np.allclose(a, c, atol=1e-5)


def test_another_function_in_a_backend():
    from llmc.backends import get_backend

    backend = get_backend("numpy")
    other = tiny.with_another(backend, encoder_backward=lambda *arguments: None)
    right, wrong = tiny.train(backend, steps=3), tiny.train(other, steps=3)
    assert right[0] == wrong[0] and right[2] != wrong[2]


def test_an_index_may_come_from_an_array_of_ints():
    import ast

    from llmc.course.old.kernel_checks.threads import memories
    from llmc.course.old.mutants.stoppable import TooLong, stoppable

    out, order = np.zeros(3), np.array([2, 0, 1], np.int32)
    text = "def f(out, order):\n    for k in range(order[threadIdx.x], 3, {}):\n        out[order[threadIdx.x]] += 1.0"
    for step in ("1", "0"):
        tree = stoppable(ast.parse(text.format(step)))
        launch = Launch((1,), (3,), lambda: False)
        if step == "0":
            with pytest.raises(TooLong):
                launch.run({"f": tree.body[0]}, "f", memories(["out", "order"], [out, order]))
        else:
            launch.run({"f": tree.body[0]}, "f", memories(["out", "order"], [out, order]))
            assert out.tolist() == [3, 2, 1]


def test_counts_of_llmcs_own_kernel():
    """What exercise 6 says of it."""
    N, C = 16, 768
    dout, x, w = arrays(N, C)
    dx, partial = np.zeros((N, C), np.float32), np.zeros((1, 2, C), np.float32)
    own = kernel("layernorm_backward", "layernorm_backward_partial_v5", "QUADS=6")
    arguments = (dx, partial, dout, x, w, *ln.statistics(x), np.int32(N), np.int32(C))
    report = inspect(own, (1,), (256,), arguments, shared_mem=8 * C)
    requests = sum(use.requests for use in report.lines if use.space == "global")
    assert report.ok and (report.sectors / N, requests / N) == (494, 32.75)


# ------------------------------------------------------------------------------------------------------- times


def test_stored_times(tmp_path):
    assert times.stored(tmp_path / "none.json") == {}
    rows = [
        {"kernel": f"f_v{v}", "us": 10.0 * v, "share": 0.5, "shape": "(8,)", "copy_gb_s": 4000.0, "repeats": v == 2}
        for v in (1, 2)
    ]
    (tmp_path / "table.json").write_text(json.dumps(rows))
    ladder = times.stored(tmp_path / "table.json")["f"]
    assert ladder.best() == "v1" and ladder.versions["v2"].us == 20
    text = times.ladder_text("f", ladder)
    assert "4,000 GB/s" in text and "other bits" in text.split("\n")[1] and "equal bits" in text.split("\n")[2]


@pytest.mark.skipif(not MEASURED.exists(), reason="no stored measurements")
def test_the_stored_measurements_say_what_the_lesson_says():
    stored = times.stored(MEASURED)
    for name, last in (("bias_backward", 4), ("layernorm_backward", 5)):
        assert stored[name].best() == f"v{last}" and stored[name].versions[f"v{last}"].repeats
    order = measured.stored(ROOT / "notebooks" / measured.STORED)
    assert order["runs"]["layernorm_backward_v1"]["different"] > 1
    for name, fixed in (("bias_backward", (1, 3, 4)), ("layernorm_backward", (4, 5))):
        assert all(order["runs"][f"{name}_v{v}"]["different"] == 1 for v in fixed)


def test_what_is_measured():
    found = measured.measure(small=True)
    assert found["losses"]["fixed"][0] == found["losses"]["fixed"][1] and len(found["losses"]["atomics"][0]) == 2
    assert found["runs"]["bias_backward_v4"]["different"] == 1 and len(found["runs"]) == 9
    assert bias_backward.VERSIONS == {"bias_backward": 4} and layernorm_backward.VERSIONS == {"layernorm_backward": 5}
    assert json.loads(json.dumps(found)) == found and measured.stored("nowhere.json") is None
