"""Tensor maps and bulk copies: boxes of one to five axes, swizzles, what lies past the edge, wrong maps."""

import re

import ml_dtypes
import numpy as np
import pytest

from llmc.cuda import RawKernel, inspect, tensor_map
from llmc.cuda.emulator.calling.maps import described_by
from llmc.errors import KernelError

pytestmark = pytest.mark.usefixtures("emulator")

CODE = r"""
#include <cuda.h>
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void there(unsigned char* out, const __grid_constant__ CUtensorMap map, int bytes,
                                 int loads COORDINATES) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ unsigned long long full;
    int t = threadIdx.x;
    if (loads) {
        if (t == 0) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full)));
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&full)), "r"(bytes));
            asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                " [%0], [%1, {PLACES}], [%2], %3;" ::"r"(shared_address(tile)), "l"(&map), "r"(shared_address(&full)),
                "l"(0x1000000000000000ull), VALUES);
        }
        __syncthreads();
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(shared_address(&full)));
        for (int i = t; i < bytes; i += 32) out[i] = tile[i];
    } else {
        for (int i = t; i < bytes; i += 32) tile[i] = out[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (t == 0) {
            asm volatile("cp.async.bulk.tensor.RANKd.global.shared::cta.bulk_group [%0, {PLACES}], [%1];"
                         ::"l"(&map), "r"(shared_address(tile)), "r"(0), "r"(0), VALUES);
            asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
        }
    }
}
"""


def prepared(array, box, at, swizzle=0, loads=True, tile=None, check=True):
    """(kernel, its arguments, the box of shared memory) for what `copied` does."""
    rank = array.ndim
    code = CODE.replace("RANK", str(rank)).replace("COORDINATES", "".join(f", int x{k}" for k in range(rank)))
    code = code.replace("PLACES", ", ".join(f"%{4 + k}" for k in range(rank)))
    code = code.replace("VALUES", ", ".join(f'"r"(x{k})' for k in range(rank)))
    out = np.zeros(box, array.dtype) if tile is None else tile
    words = out.reshape(-1).view(np.uint8)
    arguments = (words, tensor_map(array, box, swizzle), words.size, int(loads), *map(int, at[::-1]))
    return RawKernel(code, "there", check=check), arguments, out


def copied(*what, **how):
    """The box of shared memory (box) after a load from `at`, an index along each axis; or store `tile` there."""
    kernel, arguments, out = prepared(*what, **how)
    kernel((1,), (32,), arguments, shared_mem=out.nbytes)
    return out


def numbers(shape, dtype=np.float32):
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)


def cut(array, box, at):
    """What lies in the box, zeros outside of the array."""
    out = np.zeros(box, array.dtype)
    for index in np.ndindex(*box):
        place = tuple(a + i for a, i in zip(at, index))
        if all(0 <= p < n for p, n in zip(place, array.shape)):
            out[index] = array[place]
    return out


BOXES = [
    ((40,), (16,), (20,)),
    ((40,), (16,), (28,)),  # past the end
    ((20, 24), (4, 8), (3, 4)),
    ((20, 24), (4, 8), (-2, 20)),  # before the first row, past the last column
    ((20, 24), (4, 8), (50, 0)),  # nothing of it inside
    ((5, 6, 8), (2, 3, 4), (1, 4, 4)),
    ((3, 4, 5, 8), (2, 2, 3, 4), (0, 1, 2, 4)),
    ((2, 3, 4, 5, 8), (1, 2, 3, 2, 8), (1, 1, 2, 4, 0)),
]


@pytest.mark.parametrize("shape, box, at", BOXES)
@pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
def test_load(shape, box, at, check):
    array = numbers(shape)
    np.testing.assert_array_equal(copied(array, box, at, check=check), cut(array, box, at))


@pytest.mark.parametrize("shape, box, at", BOXES)
def test_store_leaves_out_what_lies_outside(shape, box, at):
    array, tile, expected = np.zeros(shape, np.float32), numbers(box), np.zeros(shape, np.float32)
    copied(array, box, at, loads=False, tile=tile)
    for index in np.ndindex(*box):
        place = tuple(a + i for a, i in zip(at, index))
        if all(0 <= p < n for p, n in zip(place, shape)):
            expected[place] = tile[index]
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("swizzle, turns", [(32, (1, 4)), (64, (3, 2)), (128, (7, 1))])
def test_swizzle_exchanges_pieces_of_16_bytes(swizzle, turns):
    mask, rows = turns  # after so many rows the next pattern begins
    array = numbers((16, swizzle // 2), np.uint16)
    got = copied(array, array.shape, (0, 0), swizzle).reshape(16, -1, 8)  # (rows, pieces, elements)
    for row in range(16):
        order = [piece ^ (row // rows & mask) for piece in range(swizzle // 16)]
        np.testing.assert_array_equal(got[row, order].reshape(-1), array[row])
    again = np.zeros_like(array)
    copied(again, array.shape, (0, 0), swizzle, loads=False, tile=got.reshape(array.shape).copy())
    np.testing.assert_array_equal(again, array)


def test_arrays_with_gaps_and_in_another_order():
    wide = numbers((8, 32), ml_dtypes.bfloat16)
    part = wide[2:, 8:24]
    np.testing.assert_array_equal(copied(part, (4, 8), (1, 8)), part[1:5, 8:])
    blocks = wide.reshape(8, 4, 8).transpose(1, 0, 2)  # (blocks, rows, 8): as a wide tile is copied in one go
    np.testing.assert_array_equal(copied(blocks, (4, 2, 8), (0, 3, 0)), blocks[:, 3:5])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_numbers_of_8_bits(dtype):
    array = np.random.default_rng(0).integers(0, 256, (96, 256), np.uint8).view(dtype)
    tile = copied(array, (64, 128), (32, 128), 128).view(np.uint8)
    for row in range(64):
        order = np.arange(8) ^ row % 8
        np.testing.assert_array_equal(tile[row].reshape(8, 16)[order].reshape(-1), array.view(np.uint8)[32 + row, 128:])
    again = np.zeros_like(array)
    copied(again, tile.shape, (32, 128), 128, loads=False, tile=tile.view(dtype))
    np.testing.assert_array_equal(again.view(np.uint8)[32:, 128:], array.view(np.uint8)[32:, 128:])
    assert not again.view(np.uint8)[:32].any() and not again.view(np.uint8)[:, :128].any()


@pytest.mark.parametrize("loads", [True, False])
def test_a_copy_is_one_request_for_whole_sectors(loads):
    array = numbers((8, 32))  # rows of four sectors
    kernel, arguments, out = prepared(array, (4, 12), (2, 4), loads=loads)  # bytes 16 to 63 of a row: two sectors
    report = inspect(kernel, (1,), (32,), arguments, out.nbytes)
    (use,) = (use for use in report.lines if use.name == "map")
    assert (use.requests, use.sectors, use.ideal, use.write) == (1, 8, 6, not loads)


WRONG = {
    "rows of the box": (lambda: (numbers((8, 8)), (4, 3)), "3 · 4 = 12 bytes, which is not a multiple of 16"),
    "too large": (lambda: (numbers((512, 8)), (512, 8)), "1 to 256 elements"),
    "swizzle": (lambda: (numbers((8, 64)), (8, 64), 128), "at most 128 fit: make the box 32 elements wide"),
    "swizzle of bytes": (lambda: (numbers((8, 256), np.uint8), (8, 256), 128), "make the box 128 elements wide"),
    "no swizzle": (lambda: (numbers((8, 64)), (8, 4), 16), "it must be 0, 32, 64 or 128"),
    "axes": (lambda: (numbers((8, 64)), (8,)), "1 axes, the array 2"),
    "strides": (lambda: (numbers((8, 6)), (4, 4)), "24 bytes apart, not a positive multiple of 16"),
    "order": (lambda: (numbers((8, 8)).T, (4, 4)), "the last axis is not contiguous"),
    "dtype": (lambda: (np.zeros((8, 8), complex), (4, 4)), "it does not support complex128"),
    "address": (lambda: (numbers((64,))[1:33], (4,)), "not a multiple of 16 bytes: copy it"),
}


@pytest.mark.parametrize("make, said", WRONG.values(), ids=WRONG)
def test_wrong_maps(make, said):
    with pytest.raises(KernelError, match=re.escape(said)):
        tensor_map(*make())


def test_a_map_by_pointer_and_who_it_belongs_to():
    x, out = numbers((4, 8)), np.zeros(8, np.float32)
    found = tensor_map(x, (2, 4))
    assert described_by(np.asarray(found)) is found and described_by(x) is None
    assert described_by(found.view(np.uint8)[:64]) is None
    code = """
    #include <cuda/barrier>
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    namespace cde = cuda::device::experimental;
    extern "C" __global__ void k(float* out, const CUtensorMap* map) {
        __shared__ alignas(128) float s[8];
        __shared__ barrier bar;
        if (threadIdx.x == 0) { init(&bar, 32); cde::fence_proxy_async_shared_cta(); }
        __syncthreads();
        barrier::arrival_token token;
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_tensor_2d_global_to_shared(s, map, 4, 1, bar);
            token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(s));
        } else token = bar.arrive();
        bar.wait(std::move(token));
        if (threadIdx.x < 8) out[threadIdx.x] = s[threadIdx.x];
    }"""
    for check in (True, False):
        out[:] = 0
        RawKernel(code, "k", check=check)((1,), (32,), (out, np.asarray(found)))
        np.testing.assert_array_equal(out.reshape(2, 4), x[1:3, 4:])


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("dtype, x", [(np.float32, 5), (np.float32, -2), (np.uint16, 20)])
def test_a_row_that_does_not_begin_at_16_bytes(loads, dtype, x):
    tile = None if loads else numbers((4, 8), dtype)
    with pytest.raises(
        KernelError, match=rf"begins at element {x} of a row, byte {x * np.dtype(dtype).itemsize}, which is not"
    ):
        copied(numbers((20, 24), dtype), (4, 8), (3, x), loads=loads, tile=tile)


def test_what_is_no_map_is_named():
    code = (
        CODE.replace("RANK", "1").replace("COORDINATES", ", int x").replace("PLACES", "%4").replace("VALUES", '"r"(x)')
    )
    arguments = (np.zeros(64, np.uint8), np.zeros(128, np.uint8), 64, 1, 0)
    with pytest.raises(KernelError, match="wrong tile(?s:.*)finds no tensor map"):
        RawKernel(code, "there")((1,), (32,), arguments, shared_mem=64)
    with pytest.raises(KernelError, match="gives 1 coordinate, but the tensor map has 2 axes"):
        arguments = (arguments[0], tensor_map(numbers((4, 4)), (4, 4)), 64, 1, 0)
        RawKernel(code, "there")((1,), (32,), arguments, shared_mem=64)
