"""The kernels of fp8: copies of 8 bits, products of them, and the backend next to NumPy's."""

import ml_dtypes
import numpy as np
import pytest

from llmc import cuda, kernels
from llmc.backends import get_backend, reference
from llmc.bench.step import training_step
from llmc.errors import KernelError, UserError
from llmc.kernels import tensor_cores
from llmc.kernels.mixed import attention_hopper, matmul_fp8, matmul_hopper, matmul_own
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import bfloat16, find_precision
from llmc.tests.engine.test_fp8 import SMALL, X, Y
from llmc.tests.kernels.test_mixed_products import CLUSTER, checked, close, hopper

__all__ = ["checked"]
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def draw(*shape, seed=0, dtype=None):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype or bfloat16())


def eight(x, kind, scale=1.0):
    """x times scale in 8 bits, as bytes."""
    wide = x.astype(np.float32) * np.float32(scale)
    return np.clip(wide, -LARGEST[kind], LARGEST[kind]).astype(TYPES[kind]).view(np.uint8)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("N, C", [(1, 1), (130, 37), (144, 272), (128, 128)])
def test_copies(checked, kind, N, C):
    x = draw(N, C) * np.float32(30).astype(bfloat16())
    x.flat[0], x.flat[-1] = np.nan, 1e30
    wanted = eight(x, kind, 32.0)  # (N, C)
    rows, columns = matmul_fp8.copies("test", cuda.asarray(x), C, kind, 32.0)
    for factor, expected in ((rows, wanted), (columns, wanted.T)):
        got = cuda.asnumpy(factor.array).reshape(expected.shape)
        np.testing.assert_array_equal(*(each.view(TYPES[kind]).astype(np.float32) for each in (got, expected.copy())))
    kept, again = matmul_fp8.copies("test of bytes", cuda.asarray(wanted), C, kind, 32.0)
    np.testing.assert_array_equal(cuda.asnumpy(again.array).reshape(C, N), wanted.T)
    assert kept.scale == 32.0
    if N % 16 == 0:
        order = np.arange(N).reshape(-1, 2, 8).swapaxes(1, 2).ravel()  # 0, 8, 1, 9, …, 15, 16, 24, …
        paired = matmul_fp8.copies("test of pairs", cuda.asarray(wanted), C, kind, pairs=True)[1]
        np.testing.assert_array_equal(cuda.asnumpy(paired.array).reshape(C, N), wanted.T[:, order])


def factors(M, N, K, kind):
    """Both factors, as bytes where kernels run, and their product in float64 with the scale 8 divided out."""
    a, b = eight(draw(M, K), kind, 4.0), eight(draw(N, K, seed=1), "e4m3", 2.0)  # (M, K), (N, K)
    wide = [each.view(t).astype(np.float64) for each, t in ((a, TYPES[kind]), (b, TYPES["e4m3"]))]
    return cuda.asarray(a), cuda.asarray(b), wide[0] @ wide[1].T / 8  # …, (M, N)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (130, 24, 72), (64, 48, 160)])
@pytest.mark.parametrize("add", [False, True])
def test_products(checked, kind, M, N, K, add):
    a, b, wanted = factors(M, N, K, kind)
    bias, before = draw(N, seed=2), draw(M, N, seed=3)
    result = cuda.asarray(before.copy() if add else np.full((M, N), np.nan, bfloat16()))
    both = matmul_fp8.Factor(a, kind, 4.0), matmul_fp8.Factor(b, "e4m3", 2.0)
    matmul_fp8.product(result, *both, bias=cuda.asarray(bias), add=add)
    wanted = wanted + bias.astype(np.float64) + (before.astype(np.float64) if add else 0.0)
    allowed = dict(rtol=2.0**-7, atol=2e-3 * np.abs(wanted).max()) if cuda.device() == "gpu" else dict(rtol=2.0**-8)
    np.testing.assert_allclose(cuda.asnumpy(result).astype(np.float64), wanted, **allowed)


@hopper
@pytest.mark.parametrize(
    "kind, HIGH, BN, BUFFERS, shares, add, PROMOTE",
    [
        ("e4m3", 2, 128, 2, 0, False, 0),
        ("e5m2", 2, 64, 2, 0, True, 0),
        ("e5m2", 1, 64, 1, 5, True, 0),
        ("e4m3", 3, 128, 2, 0, False, 0),
        ("e4m3", 1, 128, 2, 0, False, 1),
        ("e5m2", 1, 128, 2, 0, True, 3),
        ("e5m2", 1, 128, 2, 5, True, 2),
        ("e4m3", 1, 192, 2, 5, False, 2),
    ],
)
def test_products_on_hopper(checked, kind, HIGH, BN, BUFFERS, shares, add, PROMOTE):
    M, N, K = 264, 336, 400
    a, b, wanted = factors(M, N, K, kind)
    before = draw(M, N, seed=3)
    result = cuda.asarray(before.copy())
    product = matmul_own.Product("matmul_forward", result, a, b, M, N, K, None, add, kind=kind, scale=1 / 8)
    assert matmul_hopper.fits(product)
    tile = matmul_hopper.Tile(HIGH, BN, 3, BUFFERS, 1 if BN == 64 else CLUSTER, 2, PROMOTE)
    matmul_hopper.multiply(product, tile, shares)
    wanted = wanted + (before.astype(np.float64) if add else 0.0)
    assert close_on_tensor_cores(cuda.asnumpy(result).astype(np.float64), wanted)


def close_on_tensor_cores(got, wanted):
    """Whether each number is the nearest of 16 bits, but for what a GPU's sums of 8 bits lose."""
    if cuda.device() == "emulator":
        return close(got, wanted, bfloat16())
    return np.abs(got - wanted).max() < 5e-3 * np.abs(wanted).max()


@hopper
def test_promoted_sums_are_as_exact_as_their_rounding():
    """Sums of 4,200 numbers, of which tensor cores alone would keep 14 bits, by the tile that such sums get."""
    a, b, wanted = factors(128, 128, 4200 // 16 * 16, "e4m3")
    result = cuda.asarray(np.zeros((128, 128), bfloat16()))
    product = matmul_own.Product("matmul_forward", result, a, b, 128, 128, a.shape[1], kind="e4m3", scale=1 / 8)
    matmul_hopper.multiply(product)
    got = cuda.asnumpy(result).astype(np.float64)
    assert np.linalg.norm(got - wanted) < 1.9e-3 * np.linalg.norm(wanted)  # bfloat16 alone: 1.7e-3


@hopper
@pytest.mark.parametrize("gelu, M", [(1, 264), (2, 264), (2, 272)])
def test_gelu_leaves_hopper_in_8_bits(checked, gelu, M):
    """GELU in e4m3 beside the product; GELU' times the product in e5m2, with the scale of a, and its column sums; GELU
    of what comes before, transposed, where rows come in words."""
    N, K = 336, 272
    a, b, exact = factors(M, N, K, "e4m3" if gelu == 1 else "e5m2")
    bias, pre = draw(N, seed=2), draw(M, N, seed=3)
    low, sums = cuda.asarray(pre.copy()), cuda.asarray(draw(N, seed=4))
    more = dict(to_gelu=low) if gelu == 1 else dict(before_gelu=low)
    result = cuda.asarray(np.zeros((M, N), np.uint8))
    kind, scale = ("e4m3", 1 / 8) if gelu == 1 else ("e5m2", 1 / 2)
    vector = cuda.asarray(bias) if gelu == 1 else None
    product = matmul_own.Product("matmul_forward", result, a, b, M, N, K, vector, **more, kind=kind, scale=scale)
    tile, columns = matmul_hopper.Tile(2, 128, 3, 4, CLUSTER, DOWN=2), (sums, False) if gelu == 2 else None
    active = cuda.asarray(np.zeros((N, M), np.uint8)) if M % 16 == 0 else None
    matmul_hopper.multiply(product, tile, column_sums=columns, unscale=1 / 4, active=active)
    if active is not None:
        copy = matmul_fp8.copies("test", cuda.asarray(pre), N, rows=False, gelu=True, pairs=True)[1].array
        assert (cuda.asnumpy(active).ravel() == cuda.asnumpy(copy)).all()
    wanted = np.zeros((M, N))
    if gelu == 1:
        exact = exact + bias.astype(np.float64)
        reference.gelu_forward(wanted, exact)
        assert close_on_tensor_cores(cuda.asnumpy(low).astype(np.float64), exact)
    else:
        reference.gelu_backward(wanted, exact, pre.astype(np.float64))
        got = cuda.asnumpy(sums).astype(np.float64)
        assert np.abs(got - wanted.sum(axis=0)).max() < 2.0**-7 * np.abs(wanted).sum(axis=0).max()
    got = cuda.asnumpy(result).view(TYPES[kind]).astype(np.float64) / (1 if gelu == 1 else 4)
    gap = 2.0**-4 if gelu == 1 else 2.0**-3
    np.testing.assert_allclose(got, wanted, rtol=1.1 * gap, atol=2.0**-9 + 5e-3 * np.abs(wanted).max())


@hopper
@pytest.mark.parametrize("accumulate", [True, False])
def test_attentions_gradient_leaves_hopper_in_8_bits(checked, accumulate):
    """It is the one of 16 bits, rounded further, and its column sums."""
    (B, T, NH), scale = (2, 200, 2), 64.0
    qkv, dout, db = draw(B, T, 192 * NH), draw(B, T, 64 * NH, seed=1), draw(192 * NH, seed=2)
    out, stats = cuda.asarray(np.empty_like(dout)), cuda.asarray(np.empty((B, NH, T), np.float32))
    wide, narrow, sums = (cuda.asarray(each) for each in (np.empty_like(qkv), np.zeros(qkv.shape, np.uint8), db.copy()))
    qkv, dout = cuda.asarray(qkv), cuda.asarray(dout)
    attention_hopper.attention_forward(out, stats, qkv, NH)
    attention_hopper.attention_backward(wide, dout, out, stats, qkv, NH)
    of_8_bits = dict(db=sums, accumulate=accumulate, gradients=scale)
    attention_hopper.attention_backward(narrow, dout, out, stats, qkv, NH, **of_8_bits)
    wide = cuda.asnumpy(wide).astype(np.float32)  # (B, T, 3C)
    got = cuda.asnumpy(narrow).view(TYPES["e5m2"]).astype(np.float32)  # (B, T, 3C)
    np.testing.assert_allclose(got / scale, wide, rtol=2.0**-3, atol=2.0**-16 / scale)
    wanted = wide.sum((0, 1)) + accumulate * db.astype(np.float32)  # (3C,)
    np.testing.assert_allclose(cuda.asnumpy(sums).astype(np.float32), wanted, rtol=2.0**-7, atol=0.02)


def step(name, config, batch, **options):
    """(loss, gradients in float64) of a model with the same weights."""
    model = GPT2(config, name, "fp8", **options)
    model.init_weights()
    loss = model.forward(*batch, dloss=1.0)
    model.backward()
    return loss, cuda.asnumpy(model.grads_flat).astype(np.float64)


@pytest.mark.parametrize(
    "config, batch",
    [(SMALL, (X, Y)), (CASES[0].config, CASES[0].batch()), (SMALL, (X[:1, :16], Y[:1, :16]))],
    ids=["small", "uneven", "few rows"],
)
def test_a_model_is_numpys(config, batch):
    (loss, grads), (expected, wanted) = (step(name, config, batch) for name in ("cuda", "numpy"))
    assert loss == pytest.approx(expected, abs=2e-3)
    assert np.linalg.norm(grads - wanted) < 3e-2 * np.linalg.norm(wanted)


def test_logits_in_parts_send_their_gradient_in_8_bits(monkeypatch):
    batch = [np.concatenate([each, each[::-1]]) for each in (X, Y)]  # (4, 20)
    whole = step("cuda", SMALL, batch)
    monkeypatch.setattr("llmc.backends.gpu_fp8.CudaFp8.HEAD_ROWS", 20)  # 40 with what shares the logits' memory
    model = GPT2(SMALL, "cuda", "fp8")
    model.allocate(4, 20)
    assert len(model._acts["logits"]) < 4
    loss, grads = step("cuda", SMALL, batch)
    assert loss == pytest.approx(whole[0], abs=1e-4)  # cuBLAS may sum logits in another order
    assert np.linalg.norm(grads - whole[1]) < 3e-2 * np.linalg.norm(whole[1])


@pytest.mark.parametrize("by", ["fastest", "cublas", "own"])
def test_two_steps_give_the_same_bits_whoever_multiplies(by):
    found = set()
    for _ in range(2):
        model = GPT2(SMALL, "cuda", "fp8")
        model.init_weights()
        model.backend.choose(by)
        for _ in range(2):
            training_step(model, X, Y)
        found.add(cuda.asnumpy(model.params_flat).tobytes())
    assert len(found) == 1


@pytest.mark.skipif(cuda.device() == "gpu", reason="what the emulator has to say")
def test_no_kernel_of_a_step_gets_a_diagnosis(monkeypatch):
    monkeypatch.setenv("LLMC_CHECK", "1")
    model = GPT2(CASES[0].config, "cuda", "fp8")
    model.init_weights()
    training_step(model, *CASES[0].batch())


def test_a_gpu_without_tensor_cores_for_8_bits_is_one_sentence(monkeypatch):
    monkeypatch.setattr(cuda, "device", lambda *forced: "gpu")
    monkeypatch.setattr(tensor_cores, "compute_capability", lambda kind: 86)
    with pytest.raises(UserError, match="fp8 needs a GPU of compute capability 8.9 or more, and this one has 8.6; use"):
        get_backend("cuda", find_precision("fp32")).in_precision(find_precision("fp8"))


BROKEN = {
    "a barrier less before columns are read": ("fp8.cu", "if (!columns) return;\n    __syncthreads();", "", "copies"),
    "a column too many": ("fp8.cu", "task < SIDE * 8", "task < SIDE * 9", "copies"),
    "columns that the matrix does not have": ("fp8.cu", "if (c0 + column < C) put", "put", "copies"),
    "tiles that are read before they are there": (
        "matmul.cu",
        "fetch<B_RUNS>(bs, b, n0, k0, N, K);\n        __syncthreads();",
        "fetch<B_RUNS>(bs, b, n0, k0, N, K);",
        "product",
    ),
    "results that leave unpublished": ("matmul_persistent.cu", "publish_writes();", "", "gelu"),
}


@pytest.mark.skipif(cuda.device() == "gpu", reason="what the emulator has to say")
@pytest.mark.parametrize("mistake", BROKEN)
def test_a_mistake_in_a_kernel_is_found(monkeypatch, mistake):
    file, old, new, what = BROKEN[mistake]
    text = kernels._text

    def with_mistake(path):
        code = text(path)
        assert path.name != file or old in code
        return code.replace(old, new) if path.name == file else code

    monkeypatch.setattr(kernels, "_text", with_mistake)
    monkeypatch.setenv("LLMC_CHECK", "1")
    _forget_kernels()
    try:
        with pytest.raises(KernelError):
            _launch(what)
    finally:
        _forget_kernels()


def _forget_kernels():
    kernels._function.cache_clear(), kernels._module.cache_clear()


def _launch(what):
    if what == "copies":
        matmul_fp8.copies("mistaken", cuda.asarray(draw(48, 80)), 80)
    elif what == "product":
        a, b, _ = factors(64, 64, 96, "e4m3")
        result = cuda.asarray(np.zeros((64, 64), bfloat16()))
        matmul_fp8.product(result, matmul_fp8.Factor(a, "e4m3", 1.0), matmul_fp8.Factor(b, "e4m3", 1.0))
    else:
        test_gelu_leaves_hopper_in_8_bits(None, 1, 264)
    cuda.synchronize()
