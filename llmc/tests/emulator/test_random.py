"""A thousand random launches, right and wrong: each agrees with NumPy or gets the diagnosis that was predicted."""

import numpy as np
import pytest

from llmc.cuda import KernelError, RawKernel, RawModule, device, inspect

LAUNCHES = 150  # of each family
CODE = r"""
extern "C" __global__ void strided(float* out, const float* x, int n, int stride, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i * stride + offset] = 2.0f * x[i * stride + offset];
}

extern "C" __global__ void tree(float* out, const float* x, int n, int barriers) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) s[t] += x[i];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        if (barriers) __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

extern "C" __global__ void histogram(int* counts, const int* x, int n, int atomic) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (atomic) atomicAdd(&counts[x[i]], 1);
    else counts[x[i]] += 1;
}

extern "C" __global__ void shuffle(int* out, const int* x, unsigned mask, int delta) {
    int lane = threadIdx.x;
    if (mask >> lane & 1) out[lane] = __shfl_sync(mask, x[lane], lane + delta);
}

extern "C" __global__ void cube(int* out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int i = (z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x;
    if (i < n) out[i] = 3 * i;
}

extern "C" __global__ void meeting(int* out, int first, int last) {
    int t = threadIdx.x;
    if (t >= first && t < last) __syncthreads();
    __syncthreads();
    out[t] = t;
}

extern "C" __global__ void mirror(float* out, const float* x, int bytes) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[blockDim.x - 1 - t];
}

extern "C" __global__ void remainder_of(int* out, const int* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 1000 % x[i];
}
"""


@pytest.fixture(scope="module")
def module():
    before = device()
    device("emulator")
    yield RawModule(code=CODE)
    device(before)


def agrees(module, name, grid, block, arguments, expected=None, kinds=frozenset(), shared_mem=0, outputs=()):
    """One launch: exactly these kinds of problems, and if there are none, these values in the first argument."""
    report = inspect(module.get_function(name), grid, block, arguments, shared_mem, outputs, measure=False)
    said = f"{name} {grid} {block} {arguments[2:]} {shared_mem}\n{report}"
    assert report.kinds & kinds if kinds else report.ok, said
    assert report.kinds <= kinds, said
    if not kinds:
        np.testing.assert_allclose(arguments[0], expected, rtol=1e-4, atol=1e-4, err_msg=said)


def sizes(random):
    """A grid, a block and a number of elements that fit each other roughly."""
    grid, block = int(random.randint(1, 6)), int(random.choice([1, 7, 31, 32, 33, 64, 97, 128, 256]))
    return grid, block, int(random.randint(0, int(1.2 * grid * block) + 2))


def strided(module, random):
    grid, block, n = sizes(random)
    x = random.standard_normal(random.randint(1, 2000)).astype(np.float32)
    stride, offset = int(random.randint(-3, 5)), int(random.randint(-1, 4))
    if stride < 0 and random.rand() < 0.8:
        offset = x.size - 1
    out, at = np.zeros_like(x), np.arange(min(n, grid * block)) * stride + offset  # (threads,)
    inside = ((at >= 0) & (at < x.size)).all()
    expected = np.zeros_like(x)
    if inside:
        expected[at] = 2 * x[at]
    kinds = frozenset() if inside else frozenset({"out-of-bounds"})
    agrees(module, "strided", (grid,), (block,), (out, x, n, stride, offset), expected, kinds)


def tree(module, random):
    grid, block = int(random.randint(1, 5)), 2 ** int(random.randint(0, 9))
    x = random.standard_normal(random.randint(1, 3000)).astype(np.float32)
    barriers = int(random.rand() < 0.7 or block <= 2)  # with one or two threads there is no one to race with
    padded = np.pad(x, (0, -x.size % (grid * block))).reshape(-1, grid, block)  # (turns, grid, block)
    kinds = frozenset() if barriers else frozenset({"race", "missing-syncwarp"})
    out, shared = np.zeros(grid, np.float32), 4 * block
    agrees(module, "tree", (grid,), (block,), (out, x, x.size, barriers), padded.sum((0, 2)), kinds, shared)


def histogram(module, random):
    grid, block, n = sizes(random)
    bins = int(random.choice([1, 10, 10000]))
    x = random.randint(0, bins, grid * block).astype(np.int32)
    n, atomic = min(n, x.size), int(random.rand() < 0.5)
    expected = np.bincount(x[:n], minlength=bins)
    clash = not atomic and expected.max() > 1
    kinds = frozenset({"race", "missing-syncwarp"}) if clash else frozenset()
    counts = np.zeros(bins, np.int32)
    agrees(module, "histogram", (grid,), (block,), (counts, x, n, atomic), expected, kinds)


def shuffle(module, random):
    x, lanes = random.randint(0, 1000, 32).astype(np.int32), np.arange(32)
    mask = int(random.choice([0xFFFFFFFF, 0x0000FFFF, 0xFF00FF00, 1, random.randint(1, 2**31)]))
    delta = int(random.randint(-40, 40))
    source, here = (lanes + delta) % 32, (mask >> lanes) & 1 == 1
    kinds = frozenset() if here[source[here]].all() else frozenset({"inactive-lane"})
    out = np.zeros(32, np.int32)
    agrees(module, "shuffle", (1,), (32,), (out, x, np.uint32(mask), delta), np.where(here, x[source], 0), kinds)


def cube(module, random):
    grid, block = ([int(k) for k in random.randint(1, high, 3)] for high in (4, 7))
    threads = int(np.prod(grid) * np.prod(block))
    n, limit = int(random.randint(1, threads + 20)), int(random.randint(1, threads + 20))
    out = np.full(n, -1, np.int32)
    kinds = frozenset(
        {"out-of-bounds"} if min(limit, threads) > n else {"never-written"} if min(limit, threads) < n else ()
    )
    agrees(module, "cube", tuple(grid), tuple(block), (out, limit), 3 * np.arange(n), kinds, outputs=("out",))


def meeting(module, random):
    block = int(random.choice([1, 2, 32, 33, 64, 100]))
    first, last = (int(k) for k in random.choice([0, 0, 1, 16, 32, 50, block, block], 2))
    some = 0 < min(last, block) - first < block
    out = np.zeros(block, np.int32)
    kinds = frozenset({"barrier-divergence"}) if some else frozenset()
    agrees(module, "meeting", (1,), (block,), (out, first, last), np.arange(block), kinds)


def mirror(module, random):
    block = int(random.randint(1, 257))
    x = random.standard_normal(block).astype(np.float32)
    shared = 4 * int(random.choice([block, block, block + 3, random.randint(0, block)]))
    kinds = frozenset() if shared >= 4 * block else frozenset({"out-of-bounds"})
    agrees(module, "mirror", (1,), (block,), (np.zeros_like(x), x, shared), x[::-1], kinds, shared)


def remainder_of(module, random):
    x = random.randint(-1 if random.rand() < 0.5 else 1, 50, random.randint(1, 100)).astype(np.int32)
    kinds = frozenset({"division-by-zero"}) if (x == 0).any() else frozenset()
    expected = np.fmod(1000, np.where(x == 0, 1, x))
    agrees(module, "remainder_of", (1,), (int(random.randint(1, 65)),), (np.zeros_like(x), x, x.size), expected, kinds)


@pytest.mark.parametrize("family", [strided, tree, histogram, shuffle, cube, meeting, mirror, remainder_of])
def test_random_launches(module, family):
    for seed in range(LAUNCHES):
        family(module, np.random.RandomState(seed))


def test_impossible_launches_are_refused(module):
    """What CUDA refuses, and a few things that it accepts and should not: all are refused before the launch."""
    random, x = np.random.RandomState(0), np.zeros(64, np.float32)
    good = dict(grid=(1,), block=(32,), args=(x.copy(), x, 64, 1, 0), shared_mem=0)
    bad = dict(
        grid=[(0,), (-1,), (1, 65536), (1, 1, 65536), (2**31,), (1, 1, 1, 1), (1.5,)],
        block=[(0,), (1025,), (32, 33), (1, 1, 65), (1, 2, 3, 4), (-32,)],
        args=[(), (x, x), good["args"] + (1,), (x, 1.0, 64, 1, 0), (x, x, x, 1, 0), (x, x, 0.5, 1, 0)]
        + [(x.astype(t), x, 64, 1, 0) for t in (np.float64, np.int32, np.float16)]
        + [(x, x[::2], 64, 1, 0), (x, x, 2**31, 1, 0), (x, "x", 64, 1, 0), (x, None, 64, 1, 0)],
        shared_mem=[49 * 1024, 300 * 1024, -1],
    )
    attempt(module, **good)
    for _ in range(200):
        key = list(bad)[random.randint(len(bad))]
        wrong = bad[key][random.randint(len(bad[key]))]
        with pytest.raises(KernelError, match=r"\w+"):
            attempt(module, **good | {key: wrong})


def attempt(module, grid, block, args, shared_mem):
    module.get_function("strided")(grid, block, args, shared_mem=shared_mem)


def test_blocks_run_on_all_cores_at_once(monkeypatch):
    """Four workers, many blocks: static and dynamic shared memory, barriers and warps are each block's own."""
    monkeypatch.setenv("LLMC_EMULATOR_THREADS", "4")
    code = r"""
    extern "C" __global__ void sums(float* out, const float* x, int n, int* busy) {
        extern __shared__ float dynamic[];
        __shared__ float s[96];
        int t = threadIdx.x, block = blockIdx.x;
        s[t] = x[block * 96 + t];
        dynamic[t] = s[t];
        __syncthreads();
        float sum = 0.0f;
        for (int k = 0; k < 96; k++) sum += s[k] + dynamic[95 - k];
        for (int gap = 16; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffff, sum, gap);
        if (t % 32 == 0) out[block * 3 + t / 32] = sum;
        if (t == 0) atomicAdd(busy, 1);
    }"""
    kernel = RawKernel(code, "sums", check=False)
    x = np.random.RandomState(0).standard_normal((2000, 96)).astype(np.float32)  # (blocks, threads)
    out, busy = np.zeros((2000, 3), np.float32), np.zeros(1, np.int32)  # (blocks, warps)
    for _ in range(5):
        kernel((2000,), (96,), (out, x, np.int32(96), busy), shared_mem=4 * 96)
        expected = 64 * x.astype(np.float64).sum(axis=1, keepdims=True)  # (blocks, 1): twice the sum, 32 lanes
        assert np.abs(out - expected).max() < 1e-3
    assert busy[0] == 5 * 2000
