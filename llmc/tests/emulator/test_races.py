"""Random programs of reads, writes and barriers: a race is reported where two accesses are unordered, and only there.

One kernel reads what each thread does at each step from an array, so that a thousand programs need one compilation. The
oracle compares all pairs of accesses, which is what a race is by definition. The emulator remembers less than that of
each place (llmc/cuda/emulator/runtime/shadow.cpp), so it may miss one program in a hundred, but it never accuses one.
"""

import numpy as np
import pytest

from llmc.cuda import RawModule, device, inspect

PROGRAMS = 500
PLACES = 8
NOTHING, READ, WRITE, ATOMIC = range(4)
NO_BARRIER, BLOCK, WARP = range(3)
CODE = r"""
__device__ void interpret(int* s, int* out, const int* ops, const int* places, const int* barriers, int steps) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, sum = 0;
    for (int k = 0; k < steps; k++) {
        int op = ops[k * threads + t], place = places[k * threads + t];
        if (op == 1) sum += s[place];
        if (op == 2) s[place] = 1000 * k + t;
        if (op == 3) atomicAdd(&s[place], 1);
        if (barriers[k] == 1) __syncthreads();
        if (barriers[k] == 2) __syncwarp();
    }
    out[t] = sum;
}

extern "C" __global__ void in_shared(int* out, const int* ops, const int* places, const int* barriers, int steps) {
    __shared__ int s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();
    interpret(s, out, ops, places, barriers, steps);
}

extern "C" __global__ void in_global(int* out, const int* ops, const int* places, const int* barriers, int steps,
                                     int* x) {
    interpret(x, out, ops, places, barriers, steps);
}
"""


@pytest.fixture(scope="module")
def module():
    before = device()
    device("emulator")
    yield RawModule(code=CODE)
    device(before)


def program(random, blocks):
    """ops, places (steps, threads) and barriers (steps,): mostly idle threads, so that about half of all are clean."""
    steps, threads = random.randint(1, 9), blocks * int(random.choice([8, 32, 40, 64, 96]))
    ops = np.full((steps, threads), NOTHING, np.int32)
    for _ in range(random.randint(1, 9)):
        ops[random.randint(steps), random.randint(threads)] = random.choice([READ, WRITE, WRITE, ATOMIC])
    places = random.randint(0, PLACES, ops.shape).astype(np.int32)
    if blocks > 1:
        ops[ops == ATOMIC] = WRITE  # an atomic could order the blocks
    return ops, places, random.choice([NO_BARRIER, NO_BARRIER, BLOCK, WARP], steps).astype(np.int32)


def races(ops, places, barriers, block):
    """{"race"} or {"missing-syncwarp"} for pairs in different warps or in one, both, or nothing. block: its threads."""
    passed = {
        kind: np.cumsum([0, *np.isin(barriers, kinds)]) for kind, kinds in ((False, [BLOCK]), (True, [BLOCK, WARP]))
    }
    done, found = [(k, t) for k, t in np.argwhere(ops != NOTHING)], set()
    for n, (k, t) in enumerate(done):
        for j, u in done[:n]:
            if t == u or places[k, t] != places[j, u] or {ops[k, t], ops[j, u]} in ({READ}, {ATOMIC}):
                continue
            same_block = t // block == u // block
            same_warp = bool(same_block and t % block // 32 == u % block // 32)
            if not same_block or passed[same_warp][k] == passed[same_warp][j]:
                found.add("missing-syncwarp" if same_warp else "race")
    return found


@pytest.mark.parametrize("name, blocks", [("in_shared", 1), ("in_global", 1), ("in_global", 3)])
def test_random_programs(module, name, blocks):
    clean, missed = 0, 0
    for seed in range(PROGRAMS):
        ops, places, barriers = program(np.random.RandomState(seed), blocks)
        block = ops.shape[1] // blocks
        arguments = [np.zeros(ops.shape[1], np.int32), ops, places, barriers, len(barriers)]
        arguments += [np.zeros(PLACES, np.int32)] if name == "in_global" else []
        report = inspect(module.get_function(name), (blocks,), (block,), arguments, measure=False)
        expected = races(ops, places, barriers, block)
        assert report.kinds <= expected, f"seed {seed}\n{report}"
        missed += report.kinds != expected
        clean += not expected
    assert 0.2 < clean / PROGRAMS < 0.8
    assert missed <= PROGRAMS // 100
