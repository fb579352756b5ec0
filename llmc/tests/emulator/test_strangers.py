"""Kernels like the hardest public ones: checked, without a problem, and in agreement with NumPy."""

import numpy as np
import pytest

from llmc.tests.emulator.gallery import draw, integers, zeros
from llmc.tests.emulator.strangers import ceil_div, close, module, run

pytestmark = pytest.mark.usefixtures("emulator")

I32, U8, U32, U64 = np.int32, np.uint8, np.uint32, np.uint64


# -------------------------------------------------------------------------------------------------------- scans


def test_scan_hillis_steele():
    x, out = integers(100, 200), zeros(200, dtype=I32)
    run("scans", "scan_hillis_steele", 1, 200, out, x, 200, shared_mem=1600)
    close(out, np.cumsum(x))


@pytest.mark.parametrize("n", [1, 300, 512])
def test_scan_blelloch_is_exclusive(n):
    x, out = integers(100, n), zeros(n, dtype=I32)
    run("scans", "scan_blelloch", 1, 256, out, x, n)
    close(out, np.cumsum(x) - x)


def test_scan_by_warps():
    x, out = integers(100, 256), zeros(256, dtype=I32)
    run("scans", "scan_by_warps", 1, 256, out, x)
    close(out, np.cumsum(x))


def test_scan_decoupled_look_back():
    n, block = 5000, 128
    x, out, tiles = integers(100, n, low=-100), zeros(n, dtype=I32), zeros(ceil_div(n, block), dtype=U64)
    run("scans", "scan_decoupled_look_back", tiles.size, block, out, x, tiles, zeros(1, dtype=U32), n)
    close(out, np.cumsum(x))


def test_scan_segmented():
    x, heads, out = integers(100, 32), (draw(32) > 0.7).astype(I32), zeros(32, dtype=I32)
    run("scans", "scan_segmented", 1, 32, out, x, heads)
    starts = [0, *np.flatnonzero(heads[1:]) + 1]
    close(out, np.concatenate([np.cumsum(part) for part in np.split(x, starts[1:])]))


# ------------------------------------------------------------------------------------------------------ sorting


def test_bitonic_in_shared_memory():
    x = draw(3, 128)
    expected = np.sort(x, axis=1)
    run("sorting", "bitonic_in_shared_memory", 3, 64, x, shared_mem=512)
    np.testing.assert_array_equal(x, expected)


def test_bitonic_over_blocks():
    x = draw(512)
    expected = np.sort(x)
    for size in 2 ** np.arange(1, 10):
        for stride in 2 ** np.arange(int(np.log2(size)) - 1, -1, -1):
            run("sorting", "bitonic_step", 4, 128, x, int(size), int(stride))
    np.testing.assert_array_equal(x, expected)


def test_radix_sort():
    n, block = 500, 128
    keys = integers(2**12, n, dtype=U32)
    out, expected, grid = np.empty_like(keys), np.sort(keys), ceil_div(n, block)
    counts = zeros(16 * grid, dtype=U32)
    for shift in (0, 4, 8):
        run("sorting", "radix_count", grid, block, counts, keys, n, shift)
        run("sorting", "radix_scan", 1, 32, counts, counts.size)
        run("sorting", "radix_scatter", grid, block, out, keys, counts, n, shift)
        keys, out = out, keys
    np.testing.assert_array_equal(keys, expected)


def test_top_k():
    x = draw(4, 300)
    values, indices = zeros(4, 5), zeros(4, 5, dtype=I32)
    run("sorting", "top_k", 4, 64, values, indices, x, 300, 5)
    np.testing.assert_array_equal(indices, np.argsort(-x, axis=1)[:, :5])
    np.testing.assert_array_equal(values, -np.sort(-x, axis=1)[:, :5])


def test_merge_path():
    a, b = np.sort(integers(1000, 333)), np.sort(integers(1000, 200, seed=1))
    out = zeros(533, dtype=I32)
    run("sorting", "merge_path", 2, 64, out, a, b, 333, 200, 5)
    np.testing.assert_array_equal(out, np.sort(np.concatenate([a, b])))


# ----------------------------------------------------------------------------------------------------- matrices


def test_gemm_double_buffered():
    a, b, c = draw(64, 40), draw(40, 96, seed=1), zeros(64, 96)
    run("matrices", "gemm_double_buffered", (3, 2), 64, c, a, b, 96, 40)
    close(c, a @ b)


def test_transpose_by_diagonals():
    x, out = draw(96, 64), zeros(64, 96)
    run("matrices", "transpose_by_diagonals", (2, 3), (32, 8), out, x, 96, 64)
    np.testing.assert_array_equal(out, x.T)


def test_lu_tile():
    x = draw(16, 16) + 8 * np.eye(16, dtype=np.float32)
    lu = x.copy()
    run("matrices", "lu_tile", 1, (16, 16), lu)
    close((np.tril(lu, -1) + np.eye(16)) @ np.triu(lu), x)


@pytest.mark.parametrize("n", [7, 32])
def test_cholesky_by_a_warp(n):
    a = draw(n, n)
    x = a @ a.T + n * np.eye(n, dtype=np.float32)
    factor = x.copy()
    run("matrices", "cholesky_by_a_warp", 1, 32, factor, n)
    close(factor, np.linalg.cholesky(x))


def test_floyd_warshall():
    n = 32
    distance = np.where(draw(n, n) > 0.8, np.abs(draw(n, n, seed=1)), 1e6).astype(np.float32)
    np.fill_diagonal(distance, 0)
    expected = distance.copy()
    for k in range(n):
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k])  # (n, n)
    for pivot in range(n // 8):
        for phase in range(3):
            run("matrices", "floyd_warshall", (n // 8, n // 8), (8, 8), distance, n, pivot, phase)
    close(distance, expected)


def test_spmv():
    dense = np.where(draw(50, 80) > 0.5, draw(50, 80, seed=1), 0).astype(np.float32)
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(51)).astype(I32)
    x, out = draw(80, seed=2), zeros(50)
    run("matrices", "spmv", 13, 128, out, starts, columns.astype(I32), dense[rows, columns], x, 50)
    close(out, dense @ x)


# ------------------------------------------------------------------------------------------------------- images


def test_convolution_with_halo():
    x, taps, out = draw(37, 45), draw(5, 5, seed=1), zeros(37, 45)
    constant = module("images").get_global("taps")
    np.ndarray((5, 5), np.float32, constant)[:] = taps
    run("images", "convolution_with_halo", (3, 3), (16, 16), out, x, 37, 45)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 2), (5, 5))  # (37, 45, 5, 5)
    close(out, (windows * taps).sum((2, 3)))


def test_stencil_along_z():
    x = draw(6, 13, 19)
    out, expected = zeros(6, 13, 19), zeros(6, 13, 19)
    run("images", "stencil_along_z", (3, 2), (8, 8), out, x, 19, 13, 6)
    for axis in range(3):
        expected += np.roll(x, 1, axis) + np.roll(x, -1, axis) - 2 * x
    inside = (slice(1, -1),) * 3
    close(out[inside], expected[inside])


def test_mandelbrot():
    out, expected = zeros(20, 30, dtype=I32), zeros(20, 30, dtype=I32)
    run("images", "mandelbrot", (2, 2), (16, 16), out, 20, 30, 50)
    c = -2 + 3 * np.arange(30) / 30 + 1j * (-1.5 + 3 * np.arange(20)[:, None] / 20)  # (20, 30)
    z = np.zeros_like(c)
    for _ in range(50):
        alive = np.abs(z) ** 2 <= 4
        expected += alive
        z[alive] = z[alive] ** 2 + c[alive]
    assert (out != expected).mean() < 0.01  # on the rim, the last bit decides


def test_life_in_bits():
    cells = (draw(10, 96) > 0.5).astype(U8)
    words = np.packbits(cells, axis=1, bitorder="little").view(U32)  # (10, 3)
    out = np.empty_like(words)
    run("images", "life_in_bits", 10, 3, out, words, 10, 3)
    around = sum(np.roll(cells, (r, c), (0, 1)) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c)
    expected = (around == 3) | ((around == 2) & (cells == 1))
    np.testing.assert_array_equal(np.unpackbits(out.view(U8), axis=1, bitorder="little"), expected)


def test_label_components():
    image = (draw(20, 20) > -0.2).astype(U8)
    labels, changed = np.arange(400, dtype=I32), np.ones(1, I32)
    while changed[0]:
        changed[0] = 0
        run("images", "label_components", (2, 2), (16, 16), labels, image, changed, 20, 20)
    lit = image.ravel().astype(bool)
    labels = labels.reshape(20, 20)
    for a, b, both in (
        (labels[1:], labels[:-1], image[1:] & image[:-1]),
        (labels[:, 1:], labels[:, :-1], image[:, 1:] & image[:, :-1]),
    ):
        assert (a == b)[both == 1].all()
    roots = np.unique(labels.ravel()[lit])
    assert (labels.ravel()[roots] == roots).all()  # the smallest cell of a component is its name


# ---------------------------------------------------------------------------------------------------- particles


def test_n_body():
    n = 150
    bodies, forces = np.abs(draw(n, 4)), zeros(n, 4)
    run("particles", "n_body", 3, 64, forces, bodies, n, np.float32(0.1), shared_mem=64 * 16)
    apart = bodies[None, :, :3] - bodies[:, None, :3]  # (n, n, 3)
    near = ((apart**2).sum(-1) + 0.1) ** -1.5 * bodies[:, 3]  # (n, n)
    close(forces[:, :3], (apart * near[..., None]).sum(1), 1e-3)


def test_random_words_are_philox():
    out = zeros(100, 4, dtype=U32)
    run("particles", "random_words", 2, 33, out, np.uint32(7), 100)
    state = np.zeros((100, 4), U64)
    state[:, 0] = np.arange(100)
    key = [7, 0]
    for _ in range(10):
        first, second = state[:, 0] * 0xD2511F53, state[:, 2] * 0xCD9E8D57
        state = np.stack([second >> 32 ^ state[:, 1] ^ key[0], second, first >> 32 ^ state[:, 3] ^ key[1], first], 1)
        state &= 0xFFFFFFFF
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    np.testing.assert_array_equal(out, state)


def test_hash_table():
    n, slots = 400, 257
    new = integers(200, n, dtype=U32)
    keys, values, found = np.full(slots, 2**32 - 1, U32), zeros(slots, dtype=I32), zeros(210, dtype=I32)
    run("particles", "hash_insert", 4, 128, keys, values, new, n, np.uint32(slots))
    run("particles", "hash_find", 2, 128, found, keys, values, 210, np.uint32(slots))
    expected = np.bincount(new, np.arange(n), 210)
    np.testing.assert_array_equal(found, np.where(np.isin(np.arange(210), new), expected, -1))


def graph(nodes, edges):
    """starts, targets of random edges in both directions, and the edges as pairs."""
    pairs = integers(nodes, edges, 2, seed=5)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.searchsorted(both[:, 0], np.arange(nodes + 1)).astype(I32), both[:, 1].copy(), pairs


def test_breadth_first_search():
    starts, targets, _ = graph(200, 300)
    levels, frontier, level = np.full(200, -1, I32), np.zeros(200, I32), 0
    levels[0], size, expected, reached = 0, 1, {0: 0}, [0]
    while size:
        level += 1
        following, following_size = zeros(200, dtype=I32), zeros(1, dtype=I32)
        step = (levels, following, following_size, frontier, size, starts, targets, level)
        run("particles", "bfs_step", ceil_div(size, 32), 32, *step)
        frontier, size = following, int(following_size[0])
    for node in reached:  # the list grows while it is walked
        for other in targets[starts[node] : starts[node + 1]].tolist():
            if other not in expected:
                expected[other] = expected[node] + 1
                reached.append(other)
    np.testing.assert_array_equal(levels, [expected.get(node, -1) for node in range(200)])


def test_union_find():
    _, _, pairs = graph(300, 200)
    parents, expected = np.arange(300, dtype=I32), np.arange(300)
    run("particles", "union_find", 4, 64, parents, pairs, len(pairs))
    for a, b in pairs:
        low, high = sorted(expected[[a, b]])
        expected[expected == high] = low
    while (parents[parents] != parents).any():
        parents = parents[parents]
    np.testing.assert_array_equal(parents, expected)


def test_work_queue():
    queue, ready, one = zeros(200, dtype=I32), zeros(200, dtype=I32), np.ones(1, I32)
    queue[0], ready[0], tail, head, work = 60, 1, one.copy(), zeros(1, dtype=I32), one.copy()
    run("particles", "work_queue", 4, 32, queue, ready, tail, head, work, 200)
    expected = [60]
    for n in expected:  # it grows too
        expected += [n // d for d in (2, 3) if n // d]
    assert tail[0] == head[0] == len(expected) and work[0] == 0
    np.testing.assert_array_equal(np.sort(queue[: len(expected)]), np.sort(expected))


# ------------------------------------------------------------------------------------------------- transformers


@pytest.mark.parametrize("T", [16, 45])
def test_flash_attention(T):
    q, k, v = (draw(2, T, 32, seed=s) for s in range(3))
    out = zeros(2, T, 32)
    run(
        "transformers",
        "flash_attention",
        (ceil_div(T, 16), 2),
        128,
        out,
        q,
        k,
        v,
        T,
        np.float32(32**-0.5),
        shared_mem=7232,
        names=NAMES,
    )
    scores = q @ k.transpose(0, 2, 1) * 32**-0.5  # (2, T, T)
    scores[:, ~np.tri(T, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    close(out, weights / weights.sum(-1, keepdims=True) @ v)


def test_layernorm_welford():
    x, w, b = draw(5, 768) + 100, draw(768, seed=1), draw(768, seed=2)
    out = np.empty_like(x)
    run("transformers", "layernorm_welford", 5, 128, out, x, w, b, 768, names=NAMES)
    exact = x.astype(np.float64)
    close(out, (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5) * w + b, 1e-3)


def test_softmax_half2():
    x = (3 * draw(5, 130)).astype(np.float16)
    out = np.empty_like(x)
    run("transformers", "softmax_half2", 3, 64, out, x, 5, 65, names=NAMES)
    e = np.exp(x.astype(np.float32) - x.max(-1, keepdims=True))
    close(out, e / e.sum(-1, keepdims=True), 1e-3)


def test_embedding_backward():
    tokens, dout, dw = integers(10, 100), draw(100, 50), draw(10, 50, seed=1)
    expected = dw.copy()
    np.add.at(expected, tokens, dout)
    run("transformers", "embedding_backward", 10, 64, dw, dout, tokens, 100, 50, names=NAMES)
    close(dw, expected)


NAMES = tuple(f"reduce<{block}>" for block in (64, 128, 256))


@pytest.mark.parametrize("block", [64, 128, 256])
def test_reduce(block):
    x, out = draw(3000), zeros(1)
    run("transformers", f"reduce<{block}>", 3, block, out, x, 3000, names=NAMES)
    close(out, [x.sum(dtype=np.float64)], 1e-3)
