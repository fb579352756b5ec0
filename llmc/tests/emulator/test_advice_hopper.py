"""What is said about Hopper's mistakes: the numbers and names in the sentences, and what to do."""

import re

import numpy as np
import pytest

from llmc import cuda
from llmc.cuda import inspect
from llmc.tests.emulator.gallery import module
from llmc.tests.emulator.gallery.broken import BROKEN

pytestmark = pytest.mark.usefixtures("emulator", "one_second")

SAID = {
    "expects_the_wrong_number_of_bytes": "all arrivals have come, but 16,384 bytes were expected and 8,192 arrive",
    "fewer_arrivals_than_counted": "waits for phase 0 of the mbarrier full[0] to end, but 96 of its 128 arrivals come",
    "parity_begins_with_1": "waits for phase 1 of the mbarrier full[0] to end, but 0 of its 128 arrivals come",
    "more_arrivals_than_counted": "more often than its phase allows: a phase needs 2 arrivals, and 0 of them",
    "barrier_not_initialised": "uses the mbarrier full[0], which nobody has initialised",
    "barrier_written_over": "over which something else has been written",
    "same_parity_in_every_round": "is this the parity of the phase that counts this copy?",
    "tile_read_without_a_wait": "A bulk copy is visible to those who have waited for its mbarrier",
    "another_swizzle": "with the 64-byte swizzle, but the copy of line {LOAD(s.a}: `LOAD(s.a",
    "tile_misaligned": "which is not at a multiple of 128 bytes",
    "product_without_a_fence": "comes before any wgmma.fence",
    "sums_cleared_without_a_fence": "since the last wgmma.fence (line {d[0] = 0}: `d[0] = 0;",
    "product_of_ordinary_stores": "`fence.proxy.async.shared::cta;` by every thread that wrote, then a barrier",
    "sums_read_too_early": "`wgmma.wait_group.sync.aligned 0;` waits for all groups",
    "product_in_no_group": "It is in no group yet",
    "product_never_waited_for": "Its sums never reach the registers",
    "store_never_waited_for": "`cp.async.bulk.wait_group 0;` waits for all groups",
    "product_by_three_warps": "is executed by 3 whole warps of a warpgroup, but it takes all 4",
    "product_by_two_warps": "takes the 128 threads of a warpgroup, but the block's last one has fewer",
}


def line_of(code, kernel, text) -> int:
    """The first line of a kernel that has this text."""
    lines = code.splitlines()
    start = next(i for i, line in enumerate(lines) if f"void {kernel}(" in line)
    return next(i for i, line in enumerate(lines[start:], start + 1) if text in line)


@pytest.mark.parametrize("name", SAID)
def test_sentences(name):
    launch, texts = BROKEN["hopper"][name], module("broken/hopper.cu")
    report = inspect(texts.get_function(name), launch.grid, launch.block, launch.make(), measure=False)
    wanted = re.sub(r"\{(.*?)\}", lambda mark: str(line_of(texts.code, name, mark[1])), SAID[name])
    assert wanted in str(report)


ONE_COPY = r"""
extern "C" __global__ void one_copy(float* out, const float* x)
{
    __shared__ __align__(128) float line[32];
    __shared__ unsigned long long there;
    unsigned to = (unsigned)__cvta_generic_to_shared(line), by = (unsigned)__cvta_generic_to_shared(&there);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(by) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(by) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     ::"r"(to), "l"(x), "r"(by) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred over;\nagain: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], 0;\n"
                 "@!over bra again;\n}" ::"r"(by) : "memory");
    out[threadIdx.x] = line[threadIdx.x];
}
"""


def test_a_copy_that_ends_a_launch_is_not_under_way_in_the_next_one():
    kernel, out = cuda.RawKernel(ONE_COPY, "one_copy"), np.empty(32, np.float32)
    kinds = [[p.kind for p in inspect(kernel, (1,), (32,), (out, np.ones(n, np.float32))).problems] for n in (16, 32)]
    assert "out-of-bounds" in kinds[0] and not kinds[1]
