"""Asynchronous copies: cuda_pipeline.h, cuda::pipeline, memcpy_async. Nothing is there before the wait."""

import re

import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
HEAD = "#include <cuda_pipeline.h>\n#include <cuda/pipeline>\n#include <cooperative_groups/memcpy_async.h>\n"
HEAD += "namespace cg = cooperative_groups;\n"
X = np.arange(64, dtype=np.float32) + 1
WAITS = {  # how 64 threads bring x[i] into s[i]
    "cp.async": "__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_commit(); __pipeline_wait_prior(0);",
    "group": "cg::memcpy_async(block, s, x, 256); cg::wait(block);",
    "elements": "cg::memcpy_async(block, s, 64, x, 99); cg::wait_prior<0>(block);",
    "own pipeline": """auto pipe = cuda::make_pipeline();
        pipe.producer_acquire(); cuda::memcpy_async(s + i, x + i, 4, pipe); pipe.producer_commit();
        pipe.consumer_wait(); pipe.consumer_release();""",
    "pipeline of the block": """__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        auto pipe = cuda::make_pipeline(block, &state);
        pipe.producer_acquire();
        cuda::memcpy_async(block, s, x, cuda::aligned_size_t<16>(256), pipe);
        pipe.producer_commit(); pipe.consumer_wait(); pipe.consumer_release();""",
    "barrier": """__shared__ cuda::barrier<cuda::thread_scope_block> arrived;
        if (i == 0) init(&arrived, 64);
        __syncthreads();
        cuda::memcpy_async(block, s, x, 256, arrived); arrived.arrive_and_wait();""",
}
START = "  auto block = cg::this_thread_block(); __shared__ float s[64];\n"


@CHECKED
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_what_was_copied_is_there_after_the_wait(wait, check):
    out = np.zeros(64, np.float32)
    run(f"{START}{wait}\n__syncthreads(); out[i] = s[63 - i];", check, 64, HEAD, x=X.copy(), out=out)
    np.testing.assert_array_equal(out, X[::-1])


TOO_EARLY = {  # what is asked for, and what to do about it
    "no wait": (
        "__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_commit();",
        "until the thread that made it waits for it: wait (`__pipeline_wait_prior(0)`), then",
    ),
    "no group, no wait": (
        "__pipeline_memcpy_async(s + i, x + i, 4);",
        "end the group (`__pipeline_commit()`), wait (`__pipeline_wait_prior(0)`), then",
    ),
    "no commit": (
        "__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_wait_prior(0);",
        "The copy is in no group: `__pipeline_commit()` has not come since it was asked for",
    ),
    "commits after the wait": (
        "__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_wait_prior(0); __pipeline_commit();",
        "Its group was ended only after the wait",
    ),
    "waits for an older group": (
        WAITS["cp.async"].replace("prior(0)", "prior(1)"),
        "`__pipeline_wait_prior(1)` does not wait for the last group, which includes this copy",
    ),
    "group": ("cg::memcpy_async(block, s, x, 256);", "wait (`cg::wait(block)`), then"),
    "barrier": (WAITS["barrier"].replace("arrived.arrive_and_wait();", ""), "wait (`barrier.arrive_and_wait()`), then"),
    "pipeline": (WAITS["own pipeline"].replace("pipe.consumer_wait();", ""), "wait (`pipe.consumer_wait()`), then"),
}


@pytest.mark.parametrize("copy, advice", TOO_EARLY.values(), ids=TOO_EARLY)
def test_reading_before_the_wait_is_named_with_both_lines(copy, advice):
    body = f"{START}{copy}\n__syncthreads();\nout[i] = s[i];"
    read = len((HEAD + body).splitlines()) + 3
    said = rf"(?s)race with an asynchronous copy.*, lines {read} and \d+.*before the asynchronous copy of line"
    with pytest.raises(KernelError, match=said + ".*" + re.escape(advice)):
        run(body, True, 64, HEAD, x=X.copy(), out=np.zeros(64, np.float32))


def test_other_threads_need_a_barrier_after_the_wait():
    out = np.zeros(64, np.float32)
    body = START + WAITS["cp.async"] + "\nout[i] = s[63 - i];"
    with pytest.raises(KernelError, match="before the asynchronous copy|race in shared memory"):
        run(body, True, 64, HEAD, x=X.copy(), out=out)


def test_a_new_copy_between_the_same_barriers_as_a_read_of_the_old_one_is_named():
    again = "__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_commit();"
    body = f"{START}{WAITS['cp.async']}\n__syncthreads(); {again}\nout[i] = s[63 - i];"
    with pytest.raises(KernelError, match="Between the same two barriers the other thread asks for a new copy"):
        run(body, True, 64, HEAD, x=X.copy(), out=np.zeros(64, np.float32))


def test_a_copy_for_a_later_turn_into_what_this_one_reads_is_named():
    body = f"{START}{WAITS['cp.async'].replace('__pipeline_wait_prior(0);', '')}\n"
    body += """for (int k = 0; k < 2; k++) {
        __pipeline_wait_prior(0);
        __syncthreads();
        __pipeline_memcpy_async(s + i, x + i, 4); __pipeline_commit();
        out[i] = s[i];
    }"""
    with pytest.raises(KernelError, match="then starts another copy into the place in s that line"):
        run(body, True, 64, HEAD, x=X.copy(), out=np.zeros(64, np.float32))


@pytest.mark.parametrize("second", ["__pipeline_memcpy_async(s + i, x + 63 - i, 4)", "s[i] = 0"])
def test_a_thread_that_writes_where_its_own_copy_still_has_to_arrive_is_told_to_wait(second):
    body = f"{START}__pipeline_memcpy_async(s + i, x + i, 4); __pipeline_commit();\n{second};\n"
    body += "__pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); out[i] = s[63 - i];"
    with pytest.raises(KernelError, match=r"(?s)copy into s\[0\] was still under way when.*Which.*luck: wait") as error:
        run(body, True, 64, HEAD, x=X.copy(), out=np.zeros(64, np.float32))
    assert "another thread" not in str(error.value) and "atomicAdd" not in str(error.value)


def test_a_copy_over_what_others_still_read_is_a_race():
    body = f"{START}{WAITS['cp.async']}\n__syncthreads(); out[i] = s[63 - i];\n{WAITS['cp.async']}\nout[i] += s[i];"
    with pytest.raises(KernelError, match="race in shared memory"):
        run(body, True, 64, HEAD, x=X.copy(), out=np.zeros(64, np.float32))


@CHECKED
def test_two_stages_in_turn(check):
    x, out = np.arange(320, dtype=np.float32), np.zeros(64, np.float32)
    run("""  __shared__ float s[2][64];
        __pipeline_memcpy_async(&s[0][i], x + i, 4); __pipeline_commit();
        for (int k = 0; k < 5; k++) {
            if (k < 4) __pipeline_memcpy_async(&s[(k + 1) % 2][i], x + 64 * (k + 1) + i, 4);
            __pipeline_commit(); __pipeline_wait_prior(1); __syncthreads();
            out[i] += s[k % 2][63 - i];
            __syncthreads();
        }""", check, 64, HEAD, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, x.reshape(5, 64)[:, ::-1].sum(0))


@CHECKED
def test_producers_and_consumers_share_a_pipeline(check):
    x, out = np.arange(512, dtype=np.float32), np.zeros(32, np.float32)
    run("""  auto block = cg::this_thread_block(); __shared__ float s[2][32];
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        bool producer = i < 32;
        auto role = producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
        auto pipe = cuda::make_pipeline(block, &state, role);
        for (int k = 0; k < 16; k++) {
            if (producer) {
                pipe.producer_acquire();
                cuda::memcpy_async(&s[k % 2][i], x + 32 * k + i, 4, pipe);
                pipe.producer_commit();
            } else {
                pipe.consumer_wait();
                out[i - 32] += s[k % 2][63 - i];
                pipe.consumer_release();
            }
        }""", check, 64, HEAD, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, x.reshape(16, 32)[:, ::-1].sum(0))


def test_zeros_and_vectors_and_global_destinations():
    x, out = np.arange(1, 129, dtype=np.float32), np.zeros(128, np.float32)
    run("""  __shared__ float4 s[32];
        __pipeline_memcpy_async(s + i, (const float4*)x + i, 16, 4 * (i % 4)); __pipeline_commit();
        __pipeline_wait_prior(0);
        ((float4*)out)[i] = s[i];""", head=HEAD, x=x, out=out)  # fmt: skip
    kept = np.tri(4)[::-1][np.arange(32) % 4]  # the last i % 4 elements are zeros
    np.testing.assert_array_equal(out, x * kept.ravel())
    run("  cg::memcpy_async(cg::this_thread_block(), out, x, 512);", head=HEAD, x=x, out=out)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        ("__pipeline_memcpy_async(s + i, x + i + 1, 4);", r"out of bounds.*reads x\[64\]"),
        ("__pipeline_memcpy_async(s + i + 1, x + i, 4);", "out of bounds.*shared memory"),
        ("__pipeline_memcpy_async(s + i, x + i / 4 * 4, 16);", "misaligned"),
        ("__pipeline_memcpy_async(s + i, x + i, 2);", "copies 4, 8 or 16 bytes"),
    ],
)
def test_wrong_copies(copy, said):
    with pytest.raises(KernelError, match=f"(?s){said}"):
        run(START + copy, True, 64, HEAD, x=X.copy())


def test_a_copy_that_nobody_waited_for_is_forgotten_with_its_block():
    body = """  __shared__ float s[64];
        if (blockIdx.x == 0) __pipeline_memcpy_async(s + threadIdx.x, x + threadIdx.x, 4);
        else out[i - 64] = s[threadIdx.x];"""
    with pytest.raises(KernelError, match="nothing has written yet"):
        run(body, True, 64, HEAD, 2, x=X.copy(), out=np.zeros(64, np.float32))
