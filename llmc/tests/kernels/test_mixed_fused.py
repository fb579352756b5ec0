"""Kernels for numbers of 16 bits that do in one reading what took several, against backends/mixed.py on NumPy."""

import numpy as np
import pytest

from llmc import cuda, kernels
from llmc.kernels import pointwise
from llmc.kernels.mixed import columns
from llmc.tests.kernels.mixed import EXACT, GAP, agree, backend, call, draw, nans, near, referee, tokens

SLOPE = 2.0**-10  # how exact cuBLAS's GELU' is: its tanh is one instruction, good to 2^-11
MANY = 150  # rows: on the emulator, whose GPU is small, more than all warps of a launch


@pytest.mark.parametrize("C", [8, 264, 776, 1792, 1800])  # lanes without numbers, the longest row, and one beyond it
def test_layernorm_backward(low, stream, C):
    x, dout, w = (
        draw(1, MANY, C, centre=2.0, dtype=stream),
        draw(1, MANY, C, seed=3, dtype=low),
        draw(C, seed=1, dtype=low),
    )
    mean, rstd, out = nans(1, MANY), nans(1, MANY), nans(1, MANY, C, dtype=low)
    referee.layernorm_forward(out, mean, rstd, x, w, w)
    gradients = draw(1, MANY, C, seed=4, dtype=stream), draw(C, seed=5, dtype=low), draw(C, seed=6, dtype=low)
    agree("layernorm_backward", *gradients, dout, x, w, mean, rstd)


@pytest.mark.parametrize("room, name", [(99, "v2"), (64, "v2"), (16, "columns_v1")])  # KB of shared memory
def test_layernorm_backward_on_smaller_multiprocessors(low, monkeypatch, room, name):
    monkeypatch.setattr("llmc.kernels.mixed.layernorm.most_shared_memory", lambda kind: room * 1024)
    names = []
    with kernels.watched(lambda name, launch: (names.append(name), launch())):
        test_layernorm_backward(low, np.float32, 776)
    assert f"layernorm_backward_{name}" in names


@pytest.mark.parametrize("C", [7, 8, 264, 776, 1800])  # versions 1 and 3
@pytest.mark.parametrize("accumulate", [True, False])
def test_layernorm_backward_that_rounds_for_its_reader(low, stream, C, accumulate):
    x, dout, w = (
        draw(1, MANY, C, centre=2.0, dtype=stream),
        draw(1, MANY, C, seed=3, dtype=low),
        draw(C, seed=1, dtype=low),
    )
    mean, rstd, out = nans(1, MANY), nans(1, MANY), nans(1, MANY, C, dtype=low)
    referee.layernorm_forward(out, mean, rstd, x, w, w)
    dx, dsum, dw, db = (
        draw(1, MANY, C, seed=4, dtype=stream),
        draw(C, seed=7, dtype=low),
        *draw(2, C, seed=5, dtype=low),
    )
    rounded = []
    keep = lambda *arguments, **named: rounded.append(backend.layernorm_residual_backward(*arguments, **named)[0])  # noqa: E731
    got = call(
        keep,
        dx,
        dsum if accumulate else np.full_like(dsum, np.nan),
        dw,
        db,
        dout,
        x,
        w,
        mean,
        rstd,
        accumulate=accumulate,
    )
    alone = call(backend.layernorm_backward, dx, dw, db, dout, x, w, mean, rstd)
    for one, other in zip((got[0], *got[2:4]), alone[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(cuda.asnumpy(rounded[0]), got[0].astype(low))
    total = got[0].astype(low).astype(np.float32).sum((0, 1)) + accumulate * dsum.astype(np.float32)  # (C,)
    assert near(got[1], total.astype(low))


@pytest.mark.parametrize("C", [5, 8, 264])
def test_column_sums_of_what_is_rounded_on_the_way(low, C):
    dout, db, rounded = draw(1, MANY, C), draw(C, seed=1, dtype=low), nans(1, MANY, C, dtype=low)
    db_got, _, rounded_got = call(columns.bias_backward, db, dout, rounded)
    np.testing.assert_array_equal(rounded_got, dout.astype(low))
    total = db.astype(np.float32) + dout.astype(low).astype(np.float32).sum((0, 1))  # (C,)
    assert near(db_got, total.astype(low))
    np.testing.assert_array_equal(db_got, call(columns.bias_backward, db, rounded_got)[0])


@pytest.mark.parametrize("V, Vp", [(1, 8), (2041, 2048), (9001, 9216)])
def test_classifier_with_more_rows_than_blocks(low, V, Vp):
    N = 40 if cuda.device() == "emulator" else 3000
    logits, targets = 3 * draw(1, N, Vp), tokens(1, N, V=V)
    logits[..., V:], targets[0, -1] = 50.0, V - 1  # would ruin the softmax if the padding took part
    agree("fused_classifier", nans(1, N), logits.astype(low), targets, 0.25, V)


def test_a_row_that_does_not_fit_is_read_twice(low, monkeypatch):
    monkeypatch.setattr("llmc.kernels.mixed.classifier.most_shared_memory", lambda kind: 4000)
    names = []
    with kernels.watched(lambda name, launch: (names.append(name), launch())):
        agree("fused_classifier", nans(1, 3), draw(1, 3, 1024).astype(low), tokens(1, 3, V=1000), 0.25, 1000)
    assert names == ["fused_classifier_v1"]


@pytest.mark.parametrize("N, C_in, C_out", [(5, 7, 3), (70, 64, 136)])
@pytest.mark.parametrize("exact", [True, False])  # is dout the gradient of the residual stream?
def test_matmul_and_gelu_backward(low, N, C_in, C_out, exact):
    pre, w, dout = draw(1, N, C_in, dtype=low), draw(C_out, C_in, seed=1, dtype=low), draw(1, N, C_out, seed=2)
    dout = dout if exact else dout.astype(low)
    x, dpre, db = nans(1, N, C_in, dtype=low), nans(1, N, C_in, dtype=low), draw(C_out, seed=4, dtype=low)
    referee.gelu_forward(x, pre)
    dw = draw(C_out, C_in, seed=3, dtype=low)
    dbpre = draw(C_in, seed=5, dtype=low)
    got = call(backend.gelu_matmul_backward, dpre, dw, db, dout, pre, x, w, dbpre)
    two = call(backend.matmul_backward, dpre, dw, db, dout, x, w)
    for one, other in zip(got[1:3], two[1:3], strict=True):
        np.testing.assert_array_equal(one, other)
    wide = [a.astype(np.float32) for a in (dout.astype(low), pre, w)]
    product, exactly = wide[0] @ wide[2], np.empty(dpre.shape, np.float32)  # (1, N, C_in) both
    referee.gelu_backward(exactly, product, wide[1])
    error = np.abs(got[0].astype(np.float32) - exactly)
    allowed = GAP[low.name] * np.abs(exactly) + SLOPE * np.abs(product)  # rounded once, or twice
    assert (error <= allowed).all()
    sums = dbpre.astype(np.float32) + exactly.sum(axis=(0, 1))  # (C_in,)
    error = np.abs(got[7].astype(np.float32) - sums)
    assert (error <= allowed.sum(axis=(0, 1)) + GAP[low.name] * np.abs(sums)).all()


@pytest.mark.parametrize("N, C_in, C_out", [(5, 7, 3), (70, 64, 136)])
def test_matmul_and_gelu_forward_once(low, N, C_in, C_out):
    x, w, b = draw(1, N, C_in, dtype=low), draw(C_out, C_in, seed=1, dtype=low), draw(C_out, seed=2, dtype=low)
    pre, gelu = nans(1, N, C_out, dtype=low), nans(1, N, C_out, dtype=low)
    two = call(backend.matmul_gelu_forward, gelu, pre, x, w, b)
    one = call(backend.matmul_gelu_forward_once, gelu, pre, x, w, b)
    assert near(one[1], two[1])
    product, exactly = x.astype(np.float32) @ w.T.astype(np.float32) + b.astype(np.float32), np.empty((1, N, C_out))
    referee.gelu_forward(exactly, product.astype(np.float64))
    error = np.abs(one[0].astype(np.float32) - exactly)
    allowed = GAP[low.name] * np.abs(exactly) + SLOPE * np.abs(product)  # of either rounding
    allowed += EXACT * np.abs(product).max()  # where summands cancel
    assert (error <= allowed).all()


@pytest.mark.parametrize("N, C_in, C_out", [(5, 7, 3), (70, 64, 136)])
def test_gradients_that_are_written_not_added_to(low, N, C_in, C_out):
    x, w, dout = draw(1, N, C_in, dtype=low), draw(C_out, C_in, seed=1, dtype=low), draw(1, N, C_out, seed=2)
    dx, dw, db = nans(1, N, C_in, dtype=low), nans(C_out, C_in, dtype=low), nans(C_out, dtype=low)
    for function, inputs in ((backend.matmul_backward, (x, w)), (backend.gelu_matmul_backward, (x, x, w))):
        added = call(function, dx, np.zeros_like(dw), np.zeros_like(db), dout, *inputs)
        written = call(function, dx, dw, db, dout, *inputs, accumulate=False)
        for one, other in zip(written[:3], added[:3], strict=True):
            np.testing.assert_array_equal(one, other)


def test_arrays_that_are_not_aligned_take_the_kernels_for_any(low):
    """A slice that begins one number later: no 128-bit word of it begins at a multiple of 16 bytes."""
    C, N = 64, 9
    whole = cuda.asarray(draw(N * C + 1, dtype=low))
    db = cuda.asarray(np.zeros(C, low))
    dout = whole[1:].reshape(1, N, C)
    assert not pointwise.aligned(dout)
    backend.matmul_backward(None, cuda.asarray(np.zeros((C, C), low)), db, dout, cuda.asarray(draw(1, N, C, dtype=low)),
                            cuda.asarray(draw(C, C, dtype=low)))  # fmt: skip
    assert near(cuda.asnumpy(db), cuda.asnumpy(dout)[0].astype(np.float32).sum(0).astype(low))
