"""What threads do together on the emulator: shuffles, votes, cooperative groups, wmma and cuda::barrier."""

import ml_dtypes
import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import each, run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
GROUPS = "".join(f"#include <cooperative_groups{part}.h>\n" for part in ("", "/reduce", "/scan", "/memcpy_async"))
GROUPS += "namespace cg = cooperative_groups;\n"
LANES = np.arange(32)


# ---------------------------------------------------------------------------------------------- shuffles and votes


def shuffled(kind, by, width):
    """(32,): the lane that each lane reads, as PTX defines shfl.sync."""
    clamp, segment = (0 if kind == "_up" else 31), 32 - width
    lowest = LANES & segment
    highest = lowest | (clamp & ~segment)
    by &= 31
    source = {"": lowest | (by & ~segment), "_up": LANES - by, "_down": LANES + by, "_xor": LANES ^ by}[kind]
    inside = source >= highest if kind == "_up" else source <= highest
    return np.where(inside, source, LANES)


@pytest.mark.parametrize("kind", ["", "_up", "_down", "_xor"])
@CHECKED
def test_shuffles_of_every_width(kind, check):
    cases = [(by, width) for width in (1, 2, 4, 8, 16, 32) for by in (0, 1, 2, 3, 5, 8, 15, 16, 31, 32, 37)]
    out = each([f"__shfl{kind}_sync(~0u, i, {by}, {width})" for by, width in cases], 32, check, dtype=np.int32)
    for got, (by, width) in zip(out, cases):
        np.testing.assert_array_equal(got, shuffled(kind, by, width), f"by {by} width {width}")


def test_shuffles_of_every_type():
    types = ["int", "unsigned", "long", "unsigned long", "long long", "unsigned long long", "float", "double"]
    calls = [f"__shfl_sync(~0u, ({t})(i * 3), i / 2)" for t in types]
    calls += [
        "__shfl_xor_sync(~0u, (1ll << 40) * i, 1) >> 40",
        "__shfl_sync(i < 16 ? 0xffffu : 0xffff0000u, i, i < 16 ? 3 : 20)",
    ]
    out = each(calls, 32, dtype=np.float64)
    for got in out[: len(types)]:
        np.testing.assert_array_equal(got, LANES // 2 * 3)
    np.testing.assert_array_equal(out[-2], LANES ^ 1)
    np.testing.assert_array_equal(out[-1], np.where(LANES < 16, 3, 20))


@CHECKED
def test_votes_matches_and_reductions(check):
    odd = 0xAAAAAAAA
    expected = {
        "__ballot_sync(~0u, i % 2)": odd,
        "__any_sync(~0u, i == 5)": 1,
        "__any_sync(~0u, 0)": 0,
        "__all_sync(~0u, i < 32)": 1,
        "__all_sync(~0u, i < 31)": 0,
        "__match_any_sync(~0u, i % 2)": np.where(LANES % 2, odd, odd >> 1),
        "__match_any_sync(~0u, (double)(i / 16))": np.where(LANES < 16, 0xFFFF, 0xFFFF0000),
        "match_all(7)": 2**32 - 1,
        "match_all(i / 31)": 0,
        "__reduce_add_sync(~0u, (unsigned)i)": 496,
        "__reduce_max_sync(~0u, i - 40) + 40": 31,
        "__reduce_min_sync(~0u, i + 3)": 3,
        "__reduce_and_sync(~0u, i | 8u)": 8,
        "__reduce_or_sync(~0u, 1u << i)": 2**32 - 1,
        "__reduce_xor_sync(~0u, 1u << i % 16)": 0,
        "__activemask()": 2**32 - 1,
    }
    head = """__device__ unsigned match_all(int x) {
        int all;
        unsigned lanes = __match_all_sync(~0u, x, &all);
        return all ? lanes : 0;
    }"""
    out = each(expected, 32, check, head=head, dtype=np.uint32)
    for got, (call, wanted) in zip(out, expected.items()):
        np.testing.assert_array_equal(got, np.broadcast_to(wanted, 32), call)


@CHECKED
def test_block_barriers_count(check):
    out = np.zeros((4, 96), np.int32)
    run("""  __shared__ int kept[96];
        kept[i] = i; __syncthreads(); out[i] = kept[95 - i];
        out[96 + i] = __syncthreads_count(i % 3 == 0);
        out[192 + i] = __syncthreads_and(i < 95); out[288 + i] = __syncthreads_or(i == 95);""",
        check, 96, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, [np.arange(96)[::-1], np.full(96, 32), np.zeros(96), np.ones(96)])


# ------------------------------------------------------------------------------------------------ groups over a warp


@CHECKED
def test_ranks_in_the_grid(check):
    head = GROUPS + "#define GRID auto grid = cg::this_grid();\n"
    names = [
        "thread_rank()",
        "block_rank()",
        "num_threads()",
        "size()",
        "num_blocks()",
        "block_index().x",
        "dim_blocks().x",
    ]
    head += "".join(f"__device__ int v{k}() {{ GRID return grid.{name}; }}\n" for k, name in enumerate(names))
    out = each([f"v{k}()" for k in range(len(names))], 600, check, head, np.int32)  # 3 blocks of 256
    i = np.arange(600)
    expected = [i, i // 256, 768 + 0 * i, 768 + 0 * i, 3 + 0 * i, i // 256, 3 + 0 * i]
    np.testing.assert_array_equal(out, expected)


@CHECKED
def test_a_grid_of_one_block_can_meet_and_others_cannot(check):
    x = np.zeros(64, np.int32)
    run("  __shared__ int s[64]; s[i] = i; cg::this_grid().sync(); x[i] = s[63 - i];", check, 64, GROUPS, x=x)
    np.testing.assert_array_equal(x, np.arange(64)[::-1])
    said = r"not on the emulator: .*, line \d+: `cg::sync.* makes all blocks of the grid wait(.|\n)*launch a second one"
    with pytest.raises(KernelError, match=said):
        run("  auto grid = cg::this_grid();\n  cg::sync(grid); x[i] = 1;", check, 32, GROUPS, 2, x=x)


LARGE = """  __shared__ cg::block_tile_memory<256> memory; auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
"""


@CHECKED
def test_tiles_over_a_warp(check):
    out = np.zeros((8, 256), np.int32)
    run(LARGE + """  cg::thread_block_tile<64> same = tile;
        out[i] = tile.thread_rank(); out[256 + i] = tile.meta_group_rank(); out[512 + i] = same.meta_group_size();
        out[768 + i] = cg::reduce(tile, i, cg::plus<int>()); out[1024 + i] = tile.shfl(i, 5);
        out[1280 + i] = tile.any(i == 70); out[1536 + i] = tile.all(i < 200); out[1792 + i] = tile.size();""",
        check, 256, GROUPS, out=out)  # fmt: skip
    i = np.arange(256)
    first = i // 64 * 64
    sums = 64 * first + 63 * 64 // 2
    rows = [i % 64, i // 64, 4 + 0 * i, sums, first + 5, i // 64 == 1, first + 63 < 200, 64 + 0 * i]
    np.testing.assert_array_equal(out, rows)


@CHECKED
def test_large_tiles_meet_each_on_their_own(check):
    out = np.zeros(256, np.int32)
    run(LARGE + """  __shared__ int s[256];
        for (int k = 0; k <= tile.meta_group_rank(); k++) {
            s[i] = i + k; tile.sync(); out[i] += s[i ^ 63]; tile.sync();
        }""", check, 256, GROUPS, out=out)  # fmt: skip
    i = np.arange(256)
    rounds = i // 64 + 1
    np.testing.assert_array_equal(out, rounds * (i ^ 63) + rounds * (rounds - 1) // 2)


def test_a_large_tile_without_its_barrier_races():
    body = LARGE + "  __shared__ int s[256]; s[i] = i; tile.sync(); out[i] = s[i ^ 63];\n  s[i] = 0;"
    with pytest.raises(KernelError, match="race in shared memory"):
        run(body, True, 256, GROUPS, out=np.zeros(256, np.int32))


# ------------------------------------------------------------------------------------------------ cooperative groups


@CHECKED
def test_ranks_and_sizes_of_groups(check):
    head = GROUPS + """
    #define BLOCK auto block = cg::this_thread_block(); auto warp = cg::tiled_partition<32>(block); \\
        auto tile = cg::tiled_partition<4>(warp);
    #define VALUE(name, expression) __device__ int name() { BLOCK return expression; }
    VALUE(a, block.thread_rank()) VALUE(b, block.size()) VALUE(c, warp.thread_rank()) VALUE(d, warp.meta_group_rank())
    VALUE(e, warp.meta_group_size()) VALUE(f, tile.thread_rank()) VALUE(g, tile.meta_group_rank())
    VALUE(h, tile.meta_group_size())
    VALUE(k, tile.size()) VALUE(l, block.group_index().x * 100 + block.thread_index().x) VALUE(m, block.dim_threads().x)
    VALUE(n, cg::tiled_partition<8>(block).meta_group_rank()) VALUE(o, cg::tiled_partition(block, 16).thread_rank())
    VALUE(p, cg::thread_rank(tile) + cg::group_size(warp) + cg::this_thread().size())
    """  # fmt: skip
    i = np.arange(64)
    expected = [
        i,
        64 + 0 * i,
        i % 32,
        i // 32,
        2 + 0 * i,
        i % 4,
        i % 32 // 4,
        8 + 0 * i,
        4 + 0 * i,
        i,
        64 + 0 * i,
        i // 8,
        i % 16,
        i % 4 + 33,
    ]
    out = each([f"{name}()" for name in "abcdefghklmnop"], 64, check, head, np.int32)
    np.testing.assert_array_equal(out, expected)


@CHECKED
def test_what_tiles_do(check):
    out = np.zeros((16, 64), np.float32)
    run("""  auto block = cg::this_thread_block();
        cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
        auto t = cg::tiled_partition<8>(warp);
        struct Big { double a; float b[3]; } big = {1.0 * i, {1, 2, (float)i}};
        float values[] = {
            (float)t.shfl(i, 3), (float)t.shfl_up(i, 2), (float)t.shfl_down(i, 3), (float)t.shfl_xor(i, 5),
            (float)t.ballot(i % 2), (float)t.any(i == 9), (float)t.all(i < 60), (float)t.match_any(i % 2),
            cg::reduce(t, (float)i, cg::plus<float>()), (float)cg::reduce(warp, i, cg::greater<int>()),
            (float)cg::reduce(t, i, [](int a, int b) { return a < b ? a : b; }),
            (float)cg::reduce(t, 1u << i % 8, cg::bit_or<unsigned>()),
            (float)cg::inclusive_scan(t, i, cg::plus<int>()), (float)cg::exclusive_scan(warp, 2),
            warp.shfl(big, 7).b[2] + (float)warp.shfl(big, 8).a, (float)cg::reduce(warp, i, cg::less<int>())};
        for (int k = 0; k < 16; k++) out[64 * k + i] = values[k];
        t.sync(); warp.sync(); block.sync(); cg::sync(t);""", check, 64, GROUPS, out=out)  # fmt: skip
    i = np.arange(64)
    r, first, warp = i % 8, i // 8 * 8, i // 32 * 32
    expected = [
        *(first + 3, np.where(r < 2, i, i - 2), np.where(r > 4, i, i + 3), i ^ 5, 0xAA + 0 * i, first == 8, first < 56),
        *(np.where(i % 2, 0xAA, 0x55), first * 8 + 28, warp + 31, first, 255 + 0 * i),
        *([i[a : b + 1].sum() for a, b in zip(first, i)], i % 32 * 2, 2 * warp + 15, warp),
    ]
    np.testing.assert_array_equal(out, expected)


@CHECKED
def test_coalesced_groups_and_partitions(check):
    out = np.full((6, 32), -1, np.int32)
    run("""  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
        if (i % 3 == 1) {
            auto active = cg::coalesced_threads();
            out[i] = active.thread_rank(); out[32 + i] = active.size(); out[64 + i] = active.shfl(i, 4);
            out[96 + i] = cg::reduce(active, i, cg::plus<int>()) + active.shfl_down(i, 1) - active.shfl_up(i, 1);
        }
        __syncwarp();
        auto same = cg::labeled_partition(warp, i / 10);
        out[128 + i] = same.size() * 100 + same.thread_rank();
        out[160 + i] = cg::binary_partition(warp, i > 20).size() + same.ballot(i % 2);""",
        check, 32, GROUPS, out=out)  # fmt: skip
    active = LANES[LANES % 3 == 1]
    wanted = [np.arange(11), np.full(11, 11), np.full(11, 13)]
    wanted += [active.sum() + np.append(active[1:], 31) - np.insert(active[:-1], 0, 1)]
    for got, want in zip(out, wanted):
        assert got[active].tolist() == want.tolist() and set(np.delete(got, active)) == {-1}
    sizes = np.where(LANES < 30, 10, 2)
    np.testing.assert_array_equal(out[4], sizes * 100 + LANES % 10)
    np.testing.assert_array_equal(out[5], np.where(LANES > 20, 11, 21) + np.where(LANES < 30, 0b1010101010, 0b10))


@CHECKED
def test_memcpy_async_and_barriers_of_arrivals(check):
    x, out = np.arange(128, dtype=np.float32), np.zeros((3, 128), np.float32)
    run("""  __shared__ __align__(16) float a[128], b[128];
        __shared__ cuda::barrier<cuda::thread_scope_block> ready, done;
        auto block = cg::this_thread_block();
        if (block.thread_rank() == 0) { init(&ready, block.size()); init(&done, 96); }
        block.sync();
        cg::memcpy_async(block, a, x, sizeof(float) * 128); cg::wait(block);
        out[i] = a[127 - i];
        for (int round = 1; round <= 3; round++) {  // each phase begins where the last ended
            b[i] = a[i] * round;
            auto token = ready.arrive();
            ready.wait(std::move(token));
            out[128 + i] = b[i ^ 64];
            ready.arrive_and_wait();
        }
        if (i < 32) { done.arrive(); return; }
        if (i < 64) { a[i] = 1; done.arrive_and_drop(); return; }
        if (i < 96) done.arrive_and_wait();
        else done.wait_parity(false);
        out[256 + i] = a[i - 32] + a[i - 64];""",
        check, 128, GROUPS + "#include <cuda/barrier>", x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out[0], x[::-1])
    np.testing.assert_array_equal(out[1], 3 * x[np.arange(128) ^ 64])
    a = np.where((x >= 32) & (x < 64), 1, x)
    np.testing.assert_array_equal(out[2, 64:], a[32:96] + a[:64])


# ------------------------------------------------------------------------------------------------------------ wmma

WMMA = "#include <mma.h>\nusing namespace nvcuda;\n"
INPUTS = {
    "half": np.float16,
    "__nv_bfloat16": ml_dtypes.bfloat16,
    "signed char": np.int8,
    "wmma::precision::tf32": np.float32,
}
SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]


@pytest.mark.parametrize("by", [("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")], ids="-".join)
@pytest.mark.parametrize(
    "t, m, n, k", [(t, *shape) for t in list(INPUTS)[:3] for shape in SHAPES] + [(list(INPUTS)[3], 16, 16, 8)]
)
def test_wmma(t, m, n, k, by):
    rng, ld, dtype = np.random.RandomState(0), 48, INPUTS[t]
    whole = dtype == np.int8
    a, b = ((rng.randint(-8, 8, shape) / (1 if whole else 4)).astype(dtype) for shape in ((m, k), (k, n)))
    c = rng.randint(-9, 9, (m, n)).astype(np.int32 if whole else np.float32)
    stored = [np.zeros((48, ld), x.dtype) for x in (a, b, c)]
    for x, to, way in zip((a, b, c), stored, (*by, "row")):
        to[: x.shape[0], : x.shape[1]] = x if way == "row" else 0
        to[: x.shape[1], : x.shape[0]] = x.T if way == "col" else to[: x.shape[1], : x.shape[0]]
    sum_type, d = ("int" if whole else "float"), np.zeros((48, ld), c.dtype)
    run(f"""  wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {t}, wmma::{by[0]}_major> fa;
        wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {t}, wmma::{by[1]}_major> fb;
        wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {sum_type}> fc, fd;
        wmma::load_matrix_sync(fa, a, {ld}); wmma::load_matrix_sync(fb, b, {ld});
        wmma::load_matrix_sync(fc, c, {ld}, wmma::mem_row_major);
        wmma::fill_fragment(fd, 0);
        for (int e = 0; e < fc.num_elements; e++) fd.x[e] = fc.x[e] * 2;
        wmma::mma_sync(fd, fa, fb, fd);
        wmma::mma_sync(fd, fa, fb, fd);
        wmma::store_matrix_sync(d, fd, {ld}, wmma::mem_col_major);""", head=WMMA,
        a=stored[0], b=stored[1], c=stored[2], d=d)  # fmt: skip
    wide = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(d[:n, :m].T, 2 * c + 2 * wide)
    assert not d[n:].any() and not d[:, m:].any()


@CHECKED
def test_wmma_with_sums_in_half_and_tiles_in_shared_memory(check):
    rng = np.random.RandomState(0)
    a, b, d = (rng.randint(-3, 4, (16, 16)).astype(np.float16) for _ in range(3))
    run("""  __shared__ __align__(32) half ta[16 * 24];
        for (int k = i; k < 256; k += 32) ta[k / 16 * 24 + k % 16] = a[k];
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> fc;
        wmma::fill_fragment(fc, __float2half(0.5f));
        wmma::load_matrix_sync(fa, ta, 24); wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);""", check, head=WMMA, a=a, b=b, d=d)  # fmt: skip
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32) + 0.5)


def test_wmma_ignores_the_last_13_bits_of_a_float():
    rng = np.random.RandomState(0)
    a, b = rng.standard_normal((16, 8)).astype(np.float32), rng.standard_normal((8, 16)).astype(np.float32)
    out = np.zeros((2, 16, 16), np.float32)
    run("""  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
        wmma::load_matrix_sync(fa, a, 8); wmma::load_matrix_sync(fb, b, 16);
        for (int round = 0; round < 2; round++) {
            wmma::fill_fragment(sum, 0.0f);
            wmma::mma_sync(sum, fa, fb, sum);
            wmma::store_matrix_sync(out + 256 * round, sum, 16, wmma::mem_row_major);
            for (auto& x : fa.x) x = wmma::__float_to_tf32(x);
            for (auto& x : fb.x) x = wmma::__float_to_tf32(x);
        }""", head=WMMA, a=a.reshape(-1), b=b.reshape(-1), out=out.reshape(-1))  # fmt: skip
    for got, add in zip(out, (0, 0x1000)):  # cut off, then rounded
        kept = [((x.view(np.uint32) + np.uint32(add)) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
        np.testing.assert_allclose(got, kept[0].astype(np.float64) @ kept[1], rtol=1e-5, atol=1e-5)


def test_elements_of_a_fragment_lie_where_a_gpu_has_them():
    x, row, column = np.arange(256, dtype=np.float32), np.zeros((8, 32)), np.zeros((8, 32))
    run("""  wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
        wmma::load_matrix_sync(f, x, 16, wmma::mem_row_major);
        for (int e = 0; e < f.num_elements; e++) {
            row[32 * e + i] = (int)f.x[e] / 16; column[32 * e + i] = (int)f.x[e] % 16;
        }""",
        head=WMMA, x=x, row=row, column=column)  # fmt: skip
    e = np.arange(8)[:, None]
    np.testing.assert_array_equal(row, LANES // 4 + e // 2 % 2 * 8)
    np.testing.assert_array_equal(column, LANES % 4 * 2 + e % 2 + e // 4 * 8)
