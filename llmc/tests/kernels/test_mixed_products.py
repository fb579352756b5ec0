"""Our products of 16-bit numbers on tensor cores, every version, against float64."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import MATMUL, get_backend, reference
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.kernels import cublas, tensor_cores
from llmc.kernels.mixed import attention_hopper, matmul, matmul_hopper, matmul_own
from llmc.model import GPT2
from llmc.precision import bfloat16, find_precision
from llmc.tests.kernels.mixed import GAP, agree, backend, nans, tokens
from llmc.tests.kernels.mixed import draw as drawn

SIZES = [(1, 1, 1), (130, 24, 72), (33, 135, 67)]
PRODUCTS = tuple(cublas.PRODUCTS)


def draw(*shape, dtype, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def product(name, M, N, K, dtype, add=False, bias=None, **how):
    """(what a version of ours computes, the product in float64), both (M, N)."""
    a_runs, b_runs, _ = cublas.PRODUCTS[name]
    a, b = draw(M, K, dtype=dtype), draw(K, N, dtype=dtype, seed=1)
    before = draw(M, N, dtype=dtype, seed=3) if add else np.full((M, N), np.nan, dtype)  # may not be read
    wanted = a.astype(np.float64) @ b.astype(np.float64) + (before.astype(np.float64) if add else 0.0)
    wanted += 0.0 if bias is None else bias.astype(np.float64)
    there = [cuda.asarray(np.ascontiguousarray(each)) for each in (before, a if a_runs else a.T, b.T if b_runs else b)]
    bias = None if bias is None else cuda.asarray(bias)
    matmul_own.multiply(matmul_own.Product(name, *there, M, N, K, bias, add), **how)
    return cuda.asnumpy(there[0]).astype(np.float64), wanted


def close(got, wanted, dtype) -> bool:
    """Whether each number is rounded to one of its neighbours, but for what float32 loses in a sum."""
    allowed = 0.51 * GAP[np.dtype(dtype).name] * np.abs(wanted) + 1e-5 * np.abs(wanted).max()
    return np.isfinite(got).all() and (np.abs(got - wanted) <= allowed).all()


WAYS = [("bfloat16", version, name) for version in matmul_own.FILES for name in PRODUCTS]
WAYS += [("float16", version, PRODUCTS[0]) for version in (2, 6)]  # the text is the same but for two instructions


@pytest.fixture
def checked(monkeypatch):
    """On the emulator every launch is checked: races, bounds, what nothing has written."""
    if cuda.device() == "emulator":
        monkeypatch.setenv("LLMC_CHECK", "1")


@pytest.mark.parametrize("M, N, K", SIZES)
@pytest.mark.parametrize("dtype, version, name", WAYS)
def test_products(checked, dtype, version, name, M, N, K):
    dtype, add = bfloat16() if dtype == "bfloat16" else np.dtype(dtype), name == "matmul_backward_weight"
    bias = draw(N, dtype=dtype, seed=2) if name == "matmul_forward" else None
    assert close(*product(name, M, N, K, dtype, version=version, add=add, bias=bias), dtype)


# ------------------------------------------------------------------------------------------------- Hopper's

hopper = pytest.mark.skipif(
    cuda.device() == "gpu" and tensor_cores.compute_capability("gpu") != 90, reason="needs a Hopper GPU"
)
CLUSTER = 1 if cuda.device() == "emulator" else 2  # the emulator has no clusters


def made(name, M, N, K, add=False, bias=False, gelu=0):
    """(a Product of bfloat16 numbers whose results are NaN, what its arrays must become in float64)."""
    dtype, (a_runs, b_runs, _) = bfloat16(), cublas.PRODUCTS[name]
    a, b, vector = draw(M, K, dtype=dtype), draw(K, N, dtype=dtype, seed=1), draw(N, dtype=dtype, seed=2)
    result = draw(M, N, dtype=dtype, seed=3) if add else nans(M, N, dtype=dtype)
    other = nans(M, N, dtype=dtype) if gelu == 1 else draw(M, N, dtype=dtype, seed=4)
    wanted = exact = a.astype(np.float64) @ b.astype(np.float64) + vector.astype(np.float64) * bias
    wanted = exact + (result.astype(np.float64) if add else 0.0)
    if gelu == 1:
        wanted = np.zeros((M, N))
        reference.gelu_forward(wanted, exact)
    if gelu == 2:
        reference.gelu_backward(wanted, exact, other.astype(np.float64))
    a, b = np.ascontiguousarray(a if a_runs else a.T), np.ascontiguousarray(b.T if b_runs else b)
    result, a, b, vector, other = (cuda.asarray(each) for each in (result, a, b, vector, other))
    more = dict(to_gelu=other if gelu == 1 else None, before_gelu=other if gelu == 2 else None)
    product = matmul_own.Product(name, result, a, b, M, N, K, vector if bias else None, add, **more)
    return product, wanted, exact


def check(product, wanted, exact):
    """Whether the arrays of a product have become what they must be."""
    assert matmul_hopper.fits(product)
    assert close(cuda.asnumpy(product.result).astype(np.float64), wanted, bfloat16())
    if product.to_gelu is not None:
        assert close(cuda.asnumpy(product.to_gelu).astype(np.float64), exact, bfloat16())


@hopper
@pytest.mark.parametrize("version, N, name", [(7, 136, PRODUCTS[0]), (7, 136, PRODUCTS[2]), (8, 72, PRODUCTS[1])])
def test_products_by_one_tile_of_a_block(checked, version, N, name):
    product, *expected = made(name, 136, N, 200, add=name == "matmul_backward_weight", bias=name == "matmul_forward")
    matmul_hopper.multiply_one(product, version, BN=64, STAGES=3)
    check(product, *expected)


@hopper
@pytest.mark.parametrize(
    "name, HIGH, BN, BUFFERS, shares, how",
    [
        ("matmul_forward", 2, 128, 2, 0, dict(bias=True)),
        ("matmul_forward", 1, 128, 2, 0, dict(bias=True, gelu=1)),
        ("matmul_backward_input", 2, 64, 2, 0, dict(gelu=2)),
        ("matmul_backward_weight", 1, 64, 1, 0, dict(add=True)),
        ("matmul_backward_weight", 2, 64, 2, 4, dict(add=True)),
        ("matmul_backward_weight", 1, 128, 2, 7, {}),
    ],
)
def test_products_by_a_persistent_grid(checked, name, HIGH, BN, BUFFERS, shares, how):
    """With more tiles than blocks, the last of which hang over both edges."""
    product, *expected = made(name, 264, 328, 200, **how)
    cluster = 1 if BN == 64 else CLUSTER
    matmul_hopper.multiply(product, matmul_hopper.Tile(HIGH, BN, 3, BUFFERS, cluster, DOWN=2), shares)
    check(product, *expected)


@hopper
@pytest.mark.parametrize("accumulate", [True, False])
def test_column_sums_of_a_product_times_gelus_slope(checked, accumulate):
    product, *expected = made("matmul_backward_input", 264, 328, 200, gelu=2)
    db = draw(328, dtype=bfloat16(), seed=5)
    sums = cuda.asarray(db.copy())
    tile = matmul_hopper.Tile(2, 128, 3, 4, CLUSTER, DOWN=2)
    matmul_hopper.multiply(product, tile, column_sums=(sums, accumulate))
    check(product, *expected)
    wanted = expected[0].sum(axis=0) + accumulate * db.astype(np.float64)  # (N,)
    assert close(cuda.asnumpy(sums).astype(np.float64), wanted, bfloat16())


def test_tiles_fit_and_leave_no_multiprocessor_idle():
    tiles = matmul_hopper.PLAIN + matmul_hopper.MORE
    assert all(tile.shared <= 227 << 10 for tile in tiles)
    assert all(attention_hopper.tile_for(hs).shared(hs) <= 227 << 10 for hs in attention_hopper.SIZES)
    assert matmul_hopper.choose(768, 768, 32768, matmul_hopper.PLAIN, 132)[1] > 100  # 24 tiles for 132 multiprocessors
    assert matmul_hopper.choose(768, 768, 32768, matmul_hopper.PLAIN, 132, divisible=False)[1] == 0
    for M, N in ((32768, 2304), (50304, 768)):
        assert matmul_hopper.choose(M, N, 768, matmul_hopper.PLAIN, 132) == (matmul_hopper.PLAIN[0], 0)


# ---------------------------------------------------------------------------------------------- --matmul own


@pytest.fixture
def own():
    """--matmul own, for as long as a test lasts."""
    backend.choose("own")
    yield
    backend.choose()


def test_layers_by_our_own(own):
    N, C_in, C_out, low = 70, 40, 24, bfloat16()
    x, w, b = drawn(1, N, C_in, dtype=low), drawn(C_out, C_in, seed=1, dtype=low), drawn(C_out, seed=2, dtype=low)
    out, dx, dw = nans(1, N, C_out, dtype=low), nans(1, N, C_in, dtype=low), np.zeros((C_out, C_in), low)
    agree("matmul_forward", out, x, w, None)
    agree("matmul_gelu_forward", out, out.copy(), x, w, b)
    agree("matmul_backward", dx, dw, b.copy(), drawn(1, N, C_out, seed=3, dtype=low), x, w)


@pytest.mark.parametrize("backend, precision", [("cpu", "bf16"), ("numpy", "fp16")])
def test_own_matmuls_are_for_a_gpu(backend, precision):
    found = get_backend(backend, find_precision(precision))
    for whose in ("own", "cublas"):
        with pytest.raises(UserError, match=f"--matmul {whose} is for --backend cuda; leave it out here"):
            found.choose(whose)
    with pytest.raises(UserError, match="matmul is fastest or cublas or own, not 'cutlass'"):
        found.choose("cutlass")


@pytest.mark.parametrize(
    "capability, dtype, version",
    [(61, "float16", None), (75, "float16", 2), (75, "bfloat16", None), (80, "bfloat16", 6), (90, "float16", 6)],
)
def test_the_version_that_a_gpu_takes(monkeypatch, capability, dtype, version):
    monkeypatch.setattr(cuda, "device", lambda: "gpu")
    monkeypatch.setattr(tensor_cores, "compute_capability", lambda kind: capability)
    assert matmul_own.best(bfloat16() if dtype == "bfloat16" else dtype) == version
    if capability < 70:
        with pytest.raises(UserError, match="need a GPU with tensor cores"):
            backend.choose("own")
        assert backend.matmul == "fastest"


@pytest.mark.parametrize("gelu", [0, 1, 2])
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("whose", MATMUL)
def test_which_products_are_hoppers(monkeypatch, gelu, fits, whose):
    product, *_ = made("matmul_backward_input" if gelu == 2 else "matmul_forward", 8, 16, 24, gelu=gelu)
    monkeypatch.setattr(matmul_hopper, "fits", lambda product: fits)
    wanted = whose == "own" or whose == "fastest" and gelu > 0
    assert matmul._by_hoppers(product, whose) == (fits and wanted)


def test_a_model_learns_as_with_the_others():
    """Weights and gradients differ by what the order of sums changes, before they are rounded."""
    config, found = GPT2Config(maxT=16, V=100, L=1, NH=2, C=32), {}
    for whose in ("own", "cublas"):
        model = GPT2(config, "cuda", "bf16")
        model.backend.choose(whose)
        model.init_weights()
        losses = [training_step(model, tokens(2, 12, V=100), tokens(2, 12, V=100, seed=1)) for _ in range(3)]
        found[whose] = losses, cuda.asnumpy(model.grads.flat).astype(np.float64)
    (losses, grads), (theirs, wanted) = found["own"], found["cublas"]
    assert np.abs(np.subtract(losses, theirs)).max() < 2e-3 and losses[2] < losses[0]
    assert np.linalg.norm(grads - wanted) < 2.0**-7 * np.linalg.norm(wanted)
