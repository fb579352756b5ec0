"""CUB's primitives of a warp and of a block, against NumPy."""

import numpy as np
import pytest

from llmc.cuda.emulator.kernels import RawKernel
from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
HEAD = "#include <cub/cub.cuh>\n"
I32 = np.int32


def numbers(n, seed=0):
    return np.random.default_rng(seed).integers(-50, 50, n).astype(I32)


@CHECKED
@pytest.mark.parametrize("threads", [32, 96, 100])
def test_reductions_of_a_block(threads, check):
    x, out = numbers(4 * threads), np.zeros(4, I32)
    run(f"""  using Reduce = cub::BlockReduce<int, {threads}>;
        __shared__ typename Reduce::TempStorage storage;
        int four[4] = {{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]}};
        int all = Reduce(storage).Sum(four); __syncthreads();
        int largest = Reduce(storage).Reduce(x[i], cub::Max()); __syncthreads();
        int some = Reduce(storage).Sum(x[i], 37); __syncthreads();
        int last = Reduce(storage).Reduce(i, [](int a, int b) {{ return b; }});
        if (i == 0) out[0] = all, out[1] = largest, out[2] = some, out[3] = last;""",
        check, threads, HEAD, x=x, out=out)  # fmt: skip
    assert out.tolist() == [x.sum(), x[:threads].max(), x[: min(37, threads)].sum(), threads - 1]


@CHECKED
def test_scans_of_a_block(check):
    x, out = numbers(100), np.zeros((6, 100), I32)
    run("""  using Scan = cub::BlockScan<int, 100>;
        __shared__ typename Scan::TempStorage storage;
        int y, sum;
        Scan(storage).InclusiveSum(x[i], y); out[i] = y; __syncthreads();
        Scan(storage).ExclusiveSum(x[i], y, sum); out[100 + i] = y; out[200 + i] = sum; __syncthreads();
        Scan(storage).ExclusiveScan(x[i], y, -7, cub::Max()); out[300 + i] = y; __syncthreads();
        Scan(storage).InclusiveScan(x[i], y, cub::Min(), sum); out[400 + i] = y; __syncthreads();
        auto twice = [](int total) { return 2 * total; };
        Scan(storage).ExclusiveSum(x[i], y, twice); out[500 + i] = y;""", check, 100, HEAD, x=x, out=out)  # fmt: skip
    before = np.cumsum(x) - x
    highest = np.maximum.accumulate(np.append(-7, x))[:-1]
    expected = [np.cumsum(x), before, np.full(100, x.sum()), highest, np.minimum.accumulate(x), before + 2 * x.sum()]
    np.testing.assert_array_equal(out, expected)


@CHECKED
@pytest.mark.parametrize("algorithm", ["DIRECT", "STRIPED", "VECTORIZE", "TRANSPOSE", "WARP_TRANSPOSE"])
def test_tiles_are_loaded_scanned_and_stored(algorithm, check):
    x, out = numbers(200), np.full(256, -1, I32)
    run(f"""  using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_{algorithm}>;
        using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_{algorithm}>;
        using Scan = cub::BlockScan<int, 64>;
        __shared__ union {{ typename Load::TempStorage load; typename Store::TempStorage store;
                            typename Scan::TempStorage scan; }} storage;
        int items[4];
        Load(storage.load).Load(x, items, 200, 0); __syncthreads();
        if ({int(algorithm != "STRIPED")}) Scan(storage.scan).InclusiveSum(items, items);
        __syncthreads();
        Store(storage.store).Store(out, items, 190);""", check, 64, HEAD, x=x, out=out)  # fmt: skip
    expected = x if algorithm == "STRIPED" else np.cumsum(x)
    np.testing.assert_array_equal(out, np.append(expected[:190], np.full(66, -1)))


@CHECKED
def test_warps(check):
    x, out = numbers(64), np.zeros((5, 64), I32)
    run("""  using Reduce = cub::WarpReduce<int>; using Scan = cub::WarpScan<int, 8>;
        __shared__ Reduce::TempStorage a[2]; __shared__ Scan::TempStorage b[8];
        int y, total;
        out[i] = Reduce(a[i / 32]).Sum(x[i]);
        out[64 + i] = cub::WarpReduce<int, 16>(*(cub::WarpReduce<int, 16>::TempStorage*)a).Reduce(x[i], cub::Max(), 5);
        Scan(b[i / 8]).InclusiveSum(x[i], y, total); out[128 + i] = y; out[192 + i] = total;
        Scan(b[i / 8]).ExclusiveScan(x[i], y, 3, cub::Max()); out[256 + i] = y;""",
        check, 64, HEAD, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out[0, ::32], x.reshape(2, 32).sum(1))
    np.testing.assert_array_equal(out[1, ::16], x.reshape(4, 16)[:, :5].max(1))
    eights = x.reshape(8, 8)
    np.testing.assert_array_equal(out[2], np.cumsum(eights, 1).ravel())
    np.testing.assert_array_equal(out[3], np.repeat(eights.sum(1), 8))
    highest = np.maximum.accumulate(np.c_[np.full(8, 3), eights], 1)[:, :-1]
    np.testing.assert_array_equal(out[4], highest.ravel())


@CHECKED
@pytest.mark.parametrize("key, dtype", [("int", I32), ("float", np.float32), ("unsigned", np.uint32)])
def test_radix_sort(key, dtype, check):
    x = (numbers(96, 4) + (50 if key == "unsigned" else 0)).astype(dtype)
    keys, values, down = x.copy(), np.arange(96, dtype=I32), x.copy()
    run(f"""  using Sort = cub::BlockRadixSort<{key}, 32, 3, int>;
        __shared__ typename Sort::TempStorage storage;
        {key} k[3]; int v[3];
        for (int j = 0; j < 3; j++) k[j] = keys[3 * i + j], v[j] = values[3 * i + j];
        Sort(storage).Sort(k, v);
        for (int j = 0; j < 3; j++) keys[3 * i + j] = k[j], values[3 * i + j] = v[j];
        __syncthreads();
        for (int j = 0; j < 3; j++) k[j] = down[3 * i + j];
        cub::BlockRadixSort<{key}, 32, 3>().SortDescendingBlockedToStriped(k);
        for (int j = 0; j < 3; j++) down[32 * j + i] = k[j];""",
        check, 32, HEAD, keys=keys, values=values, down=down)  # fmt: skip
    np.testing.assert_array_equal(keys, np.sort(x))
    np.testing.assert_array_equal(values, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(down, np.sort(x)[::-1])


@CHECKED
def test_shuffles_within_groups_of_a_warp(check):
    x, out = numbers(32), np.zeros((3, 32), I32)
    run("""  out[i] = cub::ShuffleIndex<8>(x[i], 3, 0xffffffff);
        out[32 + i] = cub::ShuffleUp<8>(x[i], 2, 1, 0xffffffff);
        out[64 + i] = cub::ShuffleDown<8>(x[i], 2, 6, 0xffffffff);""", check, 32, HEAD, x=x, out=out)  # fmt: skip
    lane = np.arange(32)
    np.testing.assert_array_equal(out[0], x[lane // 8 * 8 + 3])
    np.testing.assert_array_equal(out[1], x[np.where(lane % 8 >= 3, lane - 2, lane)])
    np.testing.assert_array_equal(out[2], x[np.where(lane % 8 <= 4, lane + 2, lane)])


@CHECKED
def test_each_warp_exchanges_its_own_items(check):
    x, out = numbers(192), np.zeros((2, 64, 3), I32)
    run("""  using Exchange = cub::BlockExchange<int, 64, 3>; __shared__ Exchange::TempStorage storage;
        int v[3] = {x[3 * i], x[3 * i + 1], x[3 * i + 2]};
        Exchange(storage).BlockedToWarpStriped(v);
        for (int k = 0; k < 3; k++) out[3 * i + k] = v[k];
        __syncwarp();
        Exchange(storage).WarpStripedToBlocked(v, v);
        for (int k = 0; k < 3; k++) out[192 + 3 * i + k] = v[k];""", check, 64, HEAD, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out[0], x.reshape(2, 3, 32).transpose(0, 2, 1).reshape(64, 3))
    np.testing.assert_array_equal(out[1].ravel(), x)


def test_a_scan_makes_no_note_about_variables_of_ours():
    code = """extern "C" __global__ void k(int* x) {
        using Scan = cub::BlockScan<int, 128>; __shared__ Scan::TempStorage storage; int v[4], sum;
        for (int k = 0; k < 4; k++) v[k] = x[4 * threadIdx.x + k];
        Scan(storage).ExclusiveSum(v, v, sum);
        for (int k = 0; k < 4; k++) x[4 * threadIdx.x + k] = v[k] + sum; }"""
    report = RawKernel(HEAD + code, "k").examine((1,), (128,), (np.ones(512, I32),))
    assert report.ok and not report.notes


def test_using_the_storage_again_without_a_barrier_is_a_race():
    x, out = numbers(64), np.zeros(64, I32)
    body = """  using Scan = cub::BlockScan<int, 64>; __shared__ Scan::TempStorage storage; int y;
        Scan(storage).InclusiveSum(x[i], y);
        Scan(storage).InclusiveSum(y, out[i]);"""
    with pytest.raises(KernelError, match="race in shared memory"):
        run(body, True, 64, HEAD, x=x, out=out)
