"""The kernels for numbers of 16 bits against backends/mixed.py on NumPy, on the GPU if there is one, else the emulator.

Both round what they compute in float32, once, to the nearest: equal numbers, but for those few that the order of a sum
moves across the middle between two neighbours. So of numbers of 16 bits, one in a hundred may be off by one unit in the
last place.
"""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import mixed
from llmc.kernels.mixed import attention
from llmc.kernels.mixed.adamw import adamw_update
from llmc.kernels.mixed.pointwise import round_to
from llmc.precision import bfloat16
from llmc.tests.kernels.mixed import GAP, agree, backend, call, draw, nans, near, on_gpu, referee, tokens

# ---------------------------------------------------------------------------------------------------------- layers

SIZES = [(1, 1, 1), (2, 3, 7), (2, 9, 128), (1, 33, 264)]


@pytest.mark.parametrize("B, T, C", SIZES)
def test_encoder(low, stream, B, T, C):
    ids, wte, wpe = tokens(B, T, V=5), draw(5, C, dtype=low), draw(T + 2, C, seed=1, dtype=low)
    agree("encoder_forward", nans(B, T, C, dtype=stream), ids, wte, wpe)
    agree("encoder_backward", wte, wpe, draw(B, T, C, seed=4, dtype=stream), ids)


def test_encoder_backward_of_one_token_in_all_places(low):
    ids = np.full((2, 70), 2, np.int32)
    agree("encoder_backward", draw(4, 40, dtype=low), draw(70, 40, dtype=low), draw(2, 70, 40, seed=1), ids)


@pytest.mark.parametrize("B, T, C", SIZES[1:])
def test_layernorm(low, stream, B, T, C):
    x, dout = draw(B, T, C, centre=2.0, dtype=stream), draw(B, T, C, seed=3, dtype=low)
    w, b, dx = draw(C, seed=1, dtype=low), draw(C, seed=2, dtype=low), draw(B, T, C, seed=4, dtype=stream)
    mean, rstd, out = nans(B, T), nans(B, T), nans(B, T, C, dtype=low)
    agree("layernorm_forward", out, mean, rstd, x, w, b)
    arguments = nans(B, T, C, dtype=stream), out, mean, rstd, x, dout, w, b
    agree("residual_layernorm_forward", *arguments)
    residual, fused, its_mean, its_rstd, *_ = call(backend.residual_layernorm_forward, *arguments)
    again = call(backend.layernorm_again, out, residual, w, b, its_mean, its_rstd)[0]
    assert (again == fused).all()  # bit for bit
    referee.layernorm_forward(out, mean, rstd, x, w, b)
    agree("layernorm_backward", dx, w.copy(), b.copy(), dout, x, w, mean, rstd)


def test_rounding_is_numpys(low):
    """Ties, numbers next to them, subnormal ones, too large ones, and all that are not finite, in pairs with a sign."""
    whole = np.arange(0, 2**16, 7, dtype=np.uint16).view(low).astype(np.float32)
    whole = whole[np.isfinite(whole)]
    middle = whole + (np.nextafter(whole.astype(low), low.type(np.inf)).astype(np.float32) - whole) / 2
    exact = np.concatenate([whole, middle, np.nextafter(middle, 0), np.nextafter(middle, 9e9), [np.inf, np.nan, 3e38]])
    exact = np.concatenate([exact, -exact]).astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = exact.astype(low)
    got = call(round_to, nans(exact.size, dtype=low), exact)[0]
    assert (got[~np.isnan(exact)].view(np.uint16) == wanted[~np.isnan(exact)].view(np.uint16)).all()
    assert np.isnan(got[np.isnan(exact)].astype(np.float32)).all()


@pytest.mark.parametrize("n", [1, 31, 2049])
def test_pointwise(low, stream, n):
    x, dout = draw(n, dtype=low) * low.type(3), draw(n, seed=1, dtype=low)
    agree("gelu_forward", nans(n, dtype=low), x)
    agree("gelu_backward", nans(n, dtype=low), dout, x)
    agree("residual_forward", nans(n, dtype=stream), draw(n, seed=2, dtype=stream), x)
    agree("scale", x, 0.3)
    there = cuda.asarray(x)
    assert backend.global_norm(there) == pytest.approx(np.linalg.norm(x.astype(np.float64)), rel=1e-6)
    backend.zero(there)
    assert not cuda.asnumpy(there).any()


def test_gelu_backward_in_place_far_out_and_on_slices_that_are_not_aligned(low):
    x = np.array([7, -300, -30, 0, 30, 300, 1, 1, 1, 1, 1], low)[1:]
    dout = cuda.asarray(np.ones(11, low))
    backend.gelu_backward(dout[1:], dout[1:], cuda.asarray(np.append(low.type(7), x))[1:])
    got = cuda.asnumpy(dout).astype(np.float32)
    np.testing.assert_array_equal(got[:6], [1, 0, 0, 0.5, 1, 1])
    np.testing.assert_allclose(got[6:], 1.0829641, rtol=GAP[low.name])


@pytest.mark.parametrize("N, C_in, C_out", [(1, 1, 1), (5, 7, 3), (33, 48, 24), (70, 67, 130), (64, 32, 136)])
def test_matmul(low, N, C_in, C_out):
    x, w = draw(1, N, C_in, dtype=low), draw(C_out, C_in, seed=1, dtype=low)
    b = draw(C_out, seed=2, dtype=low)
    out, dx, dw = nans(1, N, C_out, dtype=low), nans(1, N, C_in, dtype=low), draw(C_out, C_in, seed=4, dtype=low)
    agree("matmul_forward", out, x, w, None)
    agree("matmul_gelu_forward", out, out, x, w, b)
    of_residual_stream = draw(1, N, C_out, seed=5)  # in float32
    for dout in (draw(1, N, C_out, seed=3, dtype=low), of_residual_stream):
        for into in (np.zeros_like(dw), dw):
            dx_wanted, dw_wanted, db_wanted = dx.copy(), into.copy(), b.copy()
            referee.matmul_backward(dx_wanted, dw_wanted, db_wanted, dout, x, w)
            dx_got, dw_got, db_got = call(backend.matmul_backward, dx, into, b, dout, x, w)[:3]
            assert near(dx_got, dx_wanted) and near(db_got, db_wanted)
            summand = into.astype(np.float64)
            twice = cuda.device() == "gpu" and near(dw_got, rounded_twice(into, dout, x), summand)  # cuBLAS
            assert twice or near(dw_got, dw_wanted)
            alone = call(backend.matmul_backward, None, into, None, dout, x, w)[1]
            np.testing.assert_array_equal(alone, dw_got)


def rounded_twice(dw, dout, x):
    """dw + doutᵀ · x as cuBLAS adds: it rounds the product, and then the sum."""
    product = dout[0].astype(dw.dtype).astype(np.float32).T @ x[0].astype(np.float32)  # (C_out, C_in)
    return (dw.astype(np.float32) + product.astype(dw.dtype).astype(np.float32)).astype(dw.dtype)


def test_arrays_of_float32_alone_are_computed_in_float32():
    x, w = draw(1, 5, 7), draw(3, 7, seed=1)
    agree("matmul_forward", nans(1, 5, 3), x, w, None)
    agree("residual_forward", nans(35), x.reshape(-1), x.reshape(-1) * 3)


def test_a_float16_that_is_too_large_becomes_infinite():
    dout = cuda.asarray(np.full((1, 2, 8), 1e6, np.float32))
    x, w = cuda.xp.ones((1, 2, 8), np.float16), cuda.xp.ones((8, 8), np.float16)
    dx, dw = cuda.xp.empty((1, 2, 8), np.float16), cuda.xp.zeros((8, 8), np.float16)
    backend.matmul_backward(dx, dw, None, dout, x, w)
    assert np.isinf(cuda.asnumpy(dx)).all() and np.isinf(cuda.asnumpy(dw)).all()


@pytest.mark.parametrize("B, T, NH, hs", [(1, 1, 1, 1), (2, 9, 3, 7), (1, 70, 2, 16), (1, 5, 1, 72)])
def test_attention(low, B, T, NH, hs):
    """Version 1; test_mixed_attention.py has the next."""
    C = NH * hs
    qkv, dout = draw(B, T, 3 * C, dtype=low), draw(B, T, C, seed=1, dtype=low)
    out, p = nans(B, T, C, dtype=low), nans(B, NH, T, T)
    referee.attention_forward(out, p, qkv, NH)
    got, stats, _, _ = call(attention.attention_forward, nans(B, T, C, dtype=low), nans(B, NH, T), qkv, NH, version=1)
    assert near(got, out)
    dqkv = nans(B, T, 3 * C, dtype=low)
    mine = call(attention.attention_backward, dqkv, dout, out, stats, qkv, NH, version=1)[0]
    referee.attention_backward(dqkv, dout, out, p, qkv, NH)
    assert near(mine, dqkv)


@pytest.mark.parametrize("B, NH, hs", [(2, 3, 7), (1, 2, 40), (2, 1, 64)])
def test_attention_cached(low, B, NH, hs):
    """In pieces, the start of the last one in device memory; whatever is not in the cache yet is NaN."""
    C, T = NH * hs, 19
    qkv, whole = draw(B, T, 3 * C, dtype=low), nans(B, T, C, dtype=low)
    referee.attention_forward(whole, nans(B, NH, T, T), qkv, NH)
    cache, start = cuda.asarray(nans(2, B, NH, T + 1, hs, dtype=low)), 0
    on_tensor_cores = cuda.device() == "gpu"
    for n in (5, 13, 1):
        piece = cuda.asarray(np.ascontiguousarray(qkv[:, start : start + n]))
        out = cuda.asarray(nans(B, n, C, dtype=low))
        backend.attention_cached(out, cache, piece, NH, cuda.asarray(np.int32([start])) if n == 1 else start)
        got, wanted = cuda.asnumpy(out), whole[:, start : start + n]
        apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()
        # a GPU's tensor cores take probabilities of 16 bits
        assert near(got, wanted) or on_tensor_cores and apart <= GAP[wanted.dtype.name] * np.abs(wanted).max()
        start += n
    kept = cuda.asnumpy(cache)[:, :, :, :T].transpose(1, 3, 0, 2, 4).reshape(B, T, 2 * C)
    assert (kept == qkv[..., C:]).all()


@pytest.mark.parametrize("V, Vp", [(1, 4), (61, 128), (5, 7), (1000, 1024)])
def test_classifier(low, V, Vp):
    logits, targets = 3 * draw(2, 3, Vp), tokens(2, 3, V=V)
    logits[..., V:] = 50.0  # would ruin the softmax if the padding took part
    targets[0, 0] = V - 1
    logits = logits.astype(low)
    agree("fused_classifier", nans(2, 3), logits, targets, None, V)
    agree("fused_classifier", nans(2, 3), logits, targets, 0.25, V)


# ---------------------------------------------------------------------------------------------------------- update

NUMBERS = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=3)


@pytest.mark.parametrize("has_master", [True, False])
@pytest.mark.parametrize("n", [7, 1000])
def test_adamw_rounds_by_the_referees_bits(low, n, has_master):
    exact, key = draw(n, seed=5), 2**32 + 77  # only the lower 32 bits count
    params, grads = exact.astype(low), draw(n, seed=1, dtype=low)
    arrays = params, grads, draw(n, seed=2), np.square(draw(n, seed=3)), exact if has_master else None
    numbers = NUMBERS | dict(factor=0.25, clear=True)
    settings = backend.adamw_settings(loss_scale=4.0, key=key, **NUMBERS)
    got = call(backend.adamw_update_by, *arrays, settings, clear=True)
    wanted = [a if a is None else a.copy() for a in arrays]
    referee.adamw_update_rounded(*wanted, key, **numbers)
    for mine, theirs in zip(got[1:4], wanted[1:4]):
        assert near(mine, theirs)
    if has_master:
        assert near(got[4], wanted[4])
        bits = mixed.random_bits(key, 0, n)
        expected = mixed.round_stochastically(got[4], bits) if low == bfloat16() else got[4].astype(low)
        assert (got[0] == expected).all()
    gap = np.abs(got[0].astype(np.float64) - wanted[0].astype(np.float64))
    assert (gap <= GAP[low.name] * np.abs(wanted[0].astype(np.float64))).all() and (gap == 0).mean() > 0.95


def test_a_norm_that_is_not_finite_changes_nothing(low):
    n = 20
    arrays = [draw(n, dtype=low), draw(n, dtype=low), draw(n), draw(n), draw(n)]
    arrays[1][3] = np.inf
    there = [cuda.asarray(a.copy()) for a in arrays]
    settings = backend.adamw_settings(loss_scale=8.0, key=1, **NUMBERS)
    norm = cuda.asarray(np.zeros(1))
    backend.clip(settings, norm, there[1], 1.0)
    assert not np.isfinite(float(norm[0]))
    adamw_update(*there, settings, clear=True)
    assert all((cuda.asnumpy(mine) == before).all() for mine, before in zip(there, arrays))


def test_gradients_are_clipped_without_the_loss_scale(low):
    grads = draw(100, dtype=low)
    length = np.linalg.norm(grads.astype(np.float64)) / 8
    settings, norm = backend.adamw_settings(loss_scale=8.0, key=1, **NUMBERS), cuda.asarray(np.zeros(1))
    backend.clip(settings, norm, cuda.asarray(grads), length / 2)
    factor, unscale = (float(settings[i]) for i in (6, 7))
    assert float(norm[0]) == pytest.approx(length, rel=1e-6) and unscale == 1 / 8
    assert factor == pytest.approx(0.5, rel=1e-6)


# ------------------------------------------------------------------------------------------------ on a GPU only


@on_gpu
@pytest.mark.parametrize("N, C_in, C_out", [(1, 768, 2304), (256, 768, 768), (1024, 768, 3072)])
def test_cublas_and_the_kernel_agree(low, N, C_in, C_out):
    x, w = draw(1, N, C_in, dtype=low), draw(C_out, C_in, seed=1, dtype=low)
    b, dout = draw(C_out, seed=2, dtype=low), draw(1, N, C_out, seed=3, dtype=low)
    results = []
    for way in ("cublas", "own"):
        backend.choose(way)
        results.append(call(backend.matmul_forward, nans(1, N, C_out, dtype=low), x, w, b)[:1])
        dx, dw = nans(1, N, C_in, dtype=low), np.zeros_like(w)
        results[-1] += call(backend.matmul_backward, dx, dw, b.copy(), dout, x, w)[:3]
    backend.choose()
    assert all(near(*pair) for pair in zip(*results))
