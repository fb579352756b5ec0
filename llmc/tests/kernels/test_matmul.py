"""Our products: every version at any size, tiles and parts, the limits of the launchers, the tuner of tile sizes."""

import numpy as np
import pytest

from llmc import cuda
from llmc.bench.kernels import tuning
from llmc.errors import UserError
from llmc.kernels import cublas, matmul, tensor_cores, tiling
from llmc.kernels.tiling import TILES, Tile

VERSIONS = range(1, matmul.VERSIONS["matmul_forward"] + 1)
PRODUCTS = tuple(cublas.PRODUCTS)
SMALL = Tile(BM=32, BN=64, BK=8, WM=32, WN=32, TM=8, TN=4, STAGES=4, BLOCKS=1)  # none of llmc's, for variety
needs_tensor_cores = pytest.mark.skipif(
    cuda.device() == "gpu" and not tensor_cores.available("gpu"), reason="needs tensor cores that multiply in TF32"
)


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """On the emulator every launch is checked: races, bounds, what nothing has written."""
    monkeypatch.setenv("LLMC_CHECK", "1")


def draw(n, seed=0):
    """Normal numbers (n,), float32, where kernels run."""
    return cuda.asarray(np.random.RandomState(seed).standard_normal(n).astype(np.float32))  # (n,)


def multiply(name, M, N, K, launch):
    """(what launch(result, a, b) wrote, the product in float64), both (M, N)."""
    a_runs, b_runs, adds = cublas.PRODUCTS[name]
    a, b = draw(M * K, seed=1), draw(N * K, seed=2)
    before = draw(M * N, seed=3) if adds else cuda.asarray(np.full(M * N, np.nan, np.float32))  # (M * N,)
    result = before.copy().reshape(M, N)
    launch(result, a, b)
    a, b, before = (cuda.asnumpy(array).astype(np.float64) for array in (a, b, before))
    a = a.reshape(M, K) if a_runs else a.reshape(K, M).T
    b = b.reshape(N, K).T if b_runs else b.reshape(K, N)
    return cuda.asnumpy(result), a @ b + (before.reshape(M, N) if adds else 0.0)


def agrees(name, M, N, K, launch):
    mine, theirs = multiply(name, M, N, K, launch)
    assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (3, 5, 7), (17, 131, 9), (131, 33, 34), (60, 132, 36)])
def test_sizes_that_no_tile_divides(M, N, K, name, version):
    agrees(name, M, N, K, lambda *arrays: matmul._product(name, *arrays, N, K, version))


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_that_begin_anywhere(version):
    """An array that does not begin at a multiple of 16 bytes."""
    x, w, out = draw(5 * 8 + 1)[1:].reshape(1, 5, 8), draw(4 * 8, seed=1).reshape(4, 8), draw(5 * 4).reshape(1, 5, 4)
    matmul.matmul_forward(out, x, w, None, version=version)
    expected = cuda.asnumpy(x)[0].astype(np.float64) @ cuda.asnumpy(w).T
    assert np.abs(cuda.asnumpy(out)[0] - expected).max() < 1e-5


@pytest.mark.parametrize("parts", [1, 50])
@pytest.mark.parametrize("tile", [*TILES, SMALL], ids=lambda tile: f"{tile.BM}x{tile.BN}")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("M, N, K", [(100, 136, 44), (33, 35, 31)])
def test_every_tile_and_every_number_of_parts(M, N, K, name, tile, parts):
    agrees(name, M, N, K, lambda *arrays: matmul.in_warp_tiles(name, *arrays, M, N, K, tile=tile, parts=parts))


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("N", [36, 37])
def test_bias_and_gelu_on_the_way(N, parts):
    check_bias_and_gelu(N, parts, tile=TILES[0])


def check_bias_and_gelu(N, parts, **how):
    M, K = 21, 68
    x, w, b = draw(M * K), draw(N * K, seed=1), draw(N, seed=2)
    out, gelu_out = (cuda.asarray(np.full((M, N), np.nan, np.float32)) for _ in range(2))
    how |= dict(bias=b, gelu_out=gelu_out)
    matmul.in_warp_tiles("matmul_forward", out, x, w, M, N, K, parts=parts, **how)
    x, w, b = (cuda.asnumpy(array).astype(np.float64) for array in (x, w, b))
    expected = x.reshape(M, K) @ w.reshape(N, K).T + b  # (M, N)
    assert np.abs(cuda.asnumpy(out) - expected).max() < 1e-4
    gelu = 0.5 * expected * (1 + np.tanh(np.sqrt(2 / np.pi) * (expected + 0.044715 * expected**3)))  # (M, N)
    assert np.abs(cuda.asnumpy(gelu_out) - gelu).max() < 1e-4


def test_equal_runs_give_equal_bits():
    """Also where blocks share a tile: the parts are added in a fixed order."""
    name, M, N, K = "matmul_backward_weight", 40, 48, 300
    runs = []
    for _ in range(2):
        launch = lambda *arrays: matmul.in_warp_tiles(name, *arrays, M, N, K, tile=SMALL, parts=7)  # noqa: E731
        runs.append(multiply(name, M, N, K, launch)[0])
    np.testing.assert_array_equal(*runs)


# ------------------------------------------------------------------------------------------------------- tensor cores


def rounded(array):
    """The nearest TF32 numbers: 10 bits of mantissa. As float64."""
    bits = cuda.asnumpy(array).view(np.uint32) + np.uint32(1 << 12)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@needs_tensor_cores
@pytest.mark.parametrize("version, tolerance", [(10, 1e-6), (11, 3e-3)])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (33, 20, 48), (99, 133, 37), (100, 136, 68)])
def test_products_of_tensor_cores(M, N, K, name, parts, version, tolerance):
    how = dict(tile=tiling.TENSOR_CORES[0], parts=parts, version=version)
    mine, theirs = multiply(name, M, N, K, lambda *arrays: matmul.in_warp_tiles(name, *arrays, M, N, K, **how))
    error = np.abs(mine - theirs).max() / np.abs(theirs).max()
    assert error <= tolerance
    assert version == 10 or K < 37 or error > 1e-5  # it does round


@needs_tensor_cores
@pytest.mark.parametrize("name", PRODUCTS)
def test_tensor_cores_round_their_factors_and_nothing_else(name):
    M, N, K = 33, 20, 48
    a_runs, b_runs, adds = cublas.PRODUCTS[name]
    a, b, result = draw(M * K, seed=1), draw(N * K, seed=2), draw(M * N, seed=3).reshape(M, N)
    x = rounded(a).reshape(M, K) if a_runs else rounded(a).reshape(K, M).T  # (M, K)
    y = rounded(b).reshape(N, K).T if b_runs else rounded(b).reshape(K, N)  # (K, N)
    expected = x @ y + (cuda.asnumpy(result) if adds else 0.0)  # (M, N)
    matmul.in_warp_tiles(name, result, a, b, M, N, K, tile=tiling.TENSOR_CORES[0], version=11)
    assert np.abs(cuda.asnumpy(result) - expected).max() <= 1e-6 * np.abs(expected).max()


@needs_tensor_cores
@pytest.mark.parametrize("N", [36, 37])
def test_bias_and_gelu_after_tensor_cores(N):
    check_bias_and_gelu(N, 1, tile=tiling.TENSOR_CORES[0], version=10)


@pytest.mark.parametrize(
    "way, capability, tf32, chosen",
    [
        ("fastest", 90, False, 10),
        ("fastest", 90, True, None),
        ("fastest", 86, False, None),
        ("cublas", 90, False, None),
        ("own", 90, False, 10),
        ("own", 86, True, 11),
        ("own", 75, False, 9),
    ],
)
def test_what_multiplies(way, capability, tf32, chosen, monkeypatch):
    monkeypatch.setattr(tensor_cores, "compute_capability", lambda kind: capability)
    monkeypatch.setattr(cuda, "device", lambda: "gpu")
    assert matmul._chosen(4096, tf32, way) == chosen
    assert matmul._chosen(1, tf32, way) == (chosen if way == "own" else None)  # a few rows are not worth a tile
    if chosen:
        assert matmul.description(tf32, way).startswith(f"matmul version {chosen} ({'TF32' if tf32 else 'float32'}")


# --------------------------------------------------------------------------------------------------- choosing a tile


def test_small_results_with_long_sums_are_cut_into_parts():
    """(768, 768) has fewer tiles than a GPU has multiprocessors; (32768, 50304) has plenty of them."""
    assert tiling.choose(768, 768, 32768, 132)[1] > 1
    assert tiling.choose(32768, 50304, 768, 132)[1] == 1
    assert tiling.choose(32768, 768, 50304, 132)[1] == 1


def test_parts_are_chosen_on_the_emulator_too(monkeypatch):
    M, N, K = 16, 16, 300
    monkeypatch.setattr(tiling, "LAUNCH", 0)
    tiling.choose.cache_clear()
    name, seen = "matmul_backward_weight", []
    own = matmul.in_warp_tiles
    monkeypatch.setattr(matmul, "in_warp_tiles", lambda *a, **k: (seen.append(k["parts"]), own(*a, **k)))
    agrees(name, M, N, K, lambda *arrays: matmul._product(name, *arrays, N, K, 9))
    tiling.choose.cache_clear()
    assert seen[0] > 1


def test_the_tile_is_chosen_that_leaves_the_least_idle():
    """(4096, 768) has 192 tiles of 128 x 128 for the 264 blocks of 132 multiprocessors, and 258 of 96 x 128."""
    tile, parts = tiling.choose(4096, 768, 768, 132)
    assert (tile.blocks(4096, 768) * parts, tile.BM) == (258, 96)
    assert tiling.choose(4096, 4096, 4096, 132) == (TILES[0], 1)


# ------------------------------------------------------------------------------------------------------------- limits


class Huge:
    """An array of which only the size matters."""

    def __init__(self, *shape):
        self.shape, self.size = shape, int(np.prod(shape))


@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_arrays_that_32_bits_cannot_count_are_refused(version):
    x, w, out = Huge(1, 2**20, 1024), Huge(2048, 1024), Huge(1, 2**20, 2048)
    with pytest.raises(UserError, match="up to 2,146,435,072 elements"):
        matmul.matmul_forward(out, x, w, None, version=version)
    with pytest.raises(UserError, match="up to 2,146,435,072 elements"):
        matmul.matmul_gelu_forward(out, out, x, w, None, version=version)
    with pytest.raises(UserError, match="up to 2,146,435,072 elements"):
        matmul.matmul_backward(x, w, None, out, x, w, version=version)


@pytest.mark.parametrize("version", [1, 2, 9])
def test_more_rows_than_a_grid_has_along_y(version, monkeypatch):
    """65,535 blocks of 16 rows were the limit of version 1: 1,048,560."""
    monkeypatch.setenv("LLMC_CHECK", "0")
    rows = 1_048_576 + 3
    x, w = draw(rows).reshape(1, rows, 1), draw(1, seed=1).reshape(1, 1)
    out = cuda.asarray(np.full((1, rows, 1), np.nan, np.float32))
    matmul.matmul_forward(out, x, w, None, version=version)
    np.testing.assert_array_equal(cuda.asnumpy(out), cuda.asnumpy(x) * cuda.asnumpy(w)[0])


# -------------------------------------------------------------------------------------------------------------- tuner


def test_all_candidates_can_work():
    found = tuning.candidates()
    assert len(found) > 50 and all(tuning.problem(tile) is None for tile in (*found, *TILES, SMALL))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(TM=8), "64 threads fill 64 x 64"),
        (dict(BM=120), "warps of 32"),
        (dict(STAGES=1), "STAGES at least 2"),
        (dict(BM=64, BN=64, WM=32, WN=32, TM=16, TN=2), "multiples of 4"),
        (dict(BN=192, WN=48, TM=8, TN=12, BLOCKS=1), "equally"),
        (dict(BLOCKS=3), "registers"),
        (dict(BK=32, STAGES=4), "shared memory"),
    ],
)
def test_a_tile_that_cannot_work_is_refused_in_a_sentence(changes, words):
    with pytest.raises(UserError, match=words):
        tuning.tune("matmul_forward", 8, 8, 8, [TILES[0]._replace(**changes)])


def test_the_tuner_checks_and_shows_a_table(monkeypatch):
    if cuda.device() == "gpu":  # a launch that is checked cannot be recorded, and what is timed is
        monkeypatch.setenv("LLMC_CHECK", "0")
    rows = tuning.tune("matmul_backward_input", 40, 68, 36, [TILES[0], SMALL], parts=(1, 2))
    assert all(row["right"] for row in rows) and "WRONG" not in tuning.table(rows)
    lines = tuning.table(rows).splitlines()
    assert lines[0].split()[:3] == ["BM", "BN", "BK"] and len(lines) == 1 + len(rows)

    own = matmul.in_warp_tiles
    monkeypatch.setattr(matmul, "in_warp_tiles", lambda *a, **k: own(*a[:-1], a[-1] - 4, **k))  # a sum too short
    rows = tuning.tune("matmul_backward_input", 40, 68, 36, [SMALL])
    assert "WRONG" in tuning.table(rows)
