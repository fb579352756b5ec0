"""Random programs of reads, writes and barriers: a race is reported exactly when two accesses are unordered.

One kernel reads what each thread does at each step from an array, so that a thousand programs need one compilation. The
oracle compares all pairs of accesses: that is what a race is by definition.
"""

import numpy as np
import pytest

from llmc.cuda import RawModule, device, inspect

PROGRAMS = 400
PLACES = 8
NOTHING, READ, WRITE, ATOMIC = range(4)
NO_BARRIER, BLOCK, WARP = range(3)
CODE = r"""
__device__ void interpret(int* s, int* out, const int* ops, const int* places, const int* barriers, int steps) {
    int t = threadIdx.x, sum = 0;
    for (int k = 0; k < steps; k++) {
        int op = ops[k * blockDim.x + t], place = places[k * blockDim.x + t];
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

extern "C" __global__ void in_global(int* out, int* x, const int* ops, const int* places, const int* barriers, int steps) {
    interpret(x, out, ops, places, barriers, steps);
}
"""


@pytest.fixture(scope="module")
def module():
    before = device()
    device("emulator")
    yield RawModule(code=CODE)
    device(before)


def program(random):
    """ops, places (steps, threads) and barriers (steps,): mostly idle threads, so that about half of all are clean."""
    steps, threads = random.randint(1, 9), int(random.choice([8, 32, 40, 64, 96]))
    ops = np.full((steps, threads), NOTHING, np.int32)
    for _ in range(random.randint(1, 9)):
        ops[random.randint(steps), random.randint(threads)] = random.choice([READ, WRITE, WRITE, ATOMIC])
    places = random.randint(0, PLACES, ops.shape).astype(np.int32)
    places[ops == ATOMIC] = PLACES - 1  # a place of their own: what an atomic does to a plain read is a matter of taste
    places[(ops == READ) & (places == PLACES - 1)] = 0
    return ops, places, random.choice([NO_BARRIER, NO_BARRIER, BLOCK, WARP], steps).astype(np.int32)


def races(ops, places, barriers):
    """{"race"} or {"missing-syncwarp"} for pairs in different warps or in one, both, or nothing."""
    block, warp = (np.cumsum(np.isin(barriers, kinds)) for kinds in ([BLOCK], [BLOCK, WARP]))
    epochs = [np.concatenate([[0], epoch[:-1]]) for epoch in (block, warp)]  # of a step: the barriers before it
    done = [(k, t) for k, t in np.argwhere(ops != NOTHING)]
    found = set()
    for n, (k, t) in enumerate(done):
        for j, u in done[:n]:
            both = {ops[k, t], ops[j, u]}
            if t == u or places[k, t] != places[j, u] or both in ({READ}, {ATOMIC}):
                continue
            same_warp = bool(t // 32 == u // 32)
            if epochs[same_warp][k] == epochs[same_warp][j]:
                found.add("missing-syncwarp" if same_warp else "race")
    return found


@pytest.mark.parametrize("space", ["shared", "global"])
def test_random_programs(module, space):
    clean = 0
    for seed in range(PROGRAMS):
        ops, places, barriers = program(np.random.RandomState(seed))
        scratch = [np.zeros(PLACES, np.int32)] if space == "global" else []
        arguments = (np.zeros(ops.shape[1], np.int32), *scratch, ops, places, barriers, len(barriers))
        report = inspect(module.get_function("in_" + space), (1,), (ops.shape[1],), arguments, measure=False)
        expected = races(ops, places, barriers)
        what = [(k, t, ops[k, t], places[k, t]) for k, t in np.argwhere(ops)]
        said = f"seed {seed}, barriers {barriers}\n{what}\n{report}"
        assert report.kinds == expected, said
        clean += not expected
    assert 0.2 < clean / PROGRAMS < 0.8
