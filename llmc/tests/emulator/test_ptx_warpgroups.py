"""wgmma in its forms, against NumPy: shapes, types, layouts in shared memory, A from registers, signs."""

import re

import numpy as np
import pytest

from llmc.cuda import RawKernel
from llmc.errors import KernelError
from llmc.tests.emulator.wgmma import HEAD, Form, dtypes, module, result

pytestmark = pytest.mark.usefixtures("emulator")

MIXED = [Form(n=128, type=a, type_b=b, adds=False) for a, b in (("e4m3", "e5m2"), ("e5m2", "e4m3"))]
FORMS = (
    *(Form(n=n) for n in (8, 24, 256)),
    *(Form(swizzle=swizzle) for swizzle in (0, 32, 64)),
    *(Form(n=16, type="f16", sum=sums) for sums in ("f32", "f16")),
    *(Form(n=40, type="tf32", swizzle=swizzle) for swizzle in (0, 128)),
    *(Form(n=128, m_major=True, n_major=True, swizzle=swizzle) for swizzle in (0, 32, 64, 128)),
    Form(n=72, m_major=True),
    Form(n=192, n_major=True, type="f16"),
    *(Form(n=32, from_registers=True, type=type) for type in ("bf16", "f16", "tf32")),
    Form(n=64, from_registers=True, n_major=True),
    Form(adds=False, minus_a=True),
    Form(minus_a=True, minus_b=True),
    Form(minus_b=True, type="tf32"),
    *(Form(n=40, type="e4m3", swizzle=swizzle) for swizzle in (0, 32, 64, 128)),
    *(Form(n=32, type="e5m2", sum=sums, minus_a=True, steps=9) for sums in ("f32", "f16")),
    *(Form(n=16, from_registers=True, type=a, type_b=b) for a, b in (("e4m3", "e5m2"), ("e5m2", "e5m2"))),
    *MIXED,
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_product(form):
    got, expected = result(form, module(FORMS, True).get_function(form.name))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("form", MIXED, ids=lambda form: form.name)
def test_every_number_of_8_bits(form):
    of_a, of_b = dtypes(form)
    for is_a, dtype in enumerate((of_b, of_a)):
        every = np.arange(256, dtype=np.uint8).view(dtype)
        every = np.resize(every[np.isfinite(every.astype(np.float32))], (64 if is_a else 128, 128)).astype(dtype)
        every[0, 5] = np.nan
        operands = (every, np.eye(128).astype(of_b)) if is_a else (np.eye(64, 128).astype(of_a), every)
        np.testing.assert_array_equal(*result(form, module(FORMS, True).get_function(form.name), operands))


def test_product_without_checks():
    form = FORMS[1]
    np.testing.assert_array_equal(*result(form, module((form,), False).get_function(form.name)))


ANYTHING = (
    HEAD
    + r"""
__device__ void multiply(float* d, unsigned at) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(descriptor(at, 16, 1024, 1)));
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WAIT asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory")
__device__ __noinline__ float once(unsigned at) {
    float d[4] = {};
    FENCE;
    multiply(d, at);
    WAIT;
    return d[0] + d[1] + d[2] + d[3];
}
__device__ __noinline__ float twice(unsigned at) {
    float more[9] = {}, *d = more + 3;
    FENCE;
    multiply(d, at);
    multiply(d, at);
    WAIT;
    return d[0] + d[1] + d[2] + d[3];
}
__device__ __noinline__ void leaves(unsigned at) {
    float d[4] = {};
    FENCE;
    multiply(d, at);
}
extern "C" __global__ void in_turns(float* out) {
    __shared__ __align__(1024) __nv_bfloat16 s[64 * 64];
    unsigned at = shared_address(s);
    for (int i = threadIdx.x; i < 64 * 64; i += 128) s[i] = __float2bfloat16(1);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 3; i++) sum += once(at) + twice(at);
    leaves(at);
    WAIT;
    out[threadIdx.x] = sum;
}
"""
)


WRONG = {
    "m64n8k16.f32.e4m3.e4m3": "for wgmma it supports m64nNk16 of f16 and bf16, m64nNk8 of tf32 and m64nNk32 of e4m3",
    "m64n8k32.f32.bf16.bf16": "does not run the PTX instruction `wgmma.mma_async.sync.aligned.m64n8k32.f32.bf16.bf16`",
    "m64n8k32.f32.e4m3.e5m2": "has 6 operands, not 8",  # fp8 lies along k: there is no transposition
}


@pytest.mark.parametrize("kind, said", WRONG.items(), ids=WRONG)
def test_forms_that_there_are_not(kind, said):
    with pytest.raises(KernelError, match=re.escape(said)):
        RawKernel(ANYTHING.replace("m64n8k16.f32.bf16.bf16", kind), "in_turns")((1,), (128,), (np.zeros(128, "f4"),))


@pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
def test_sums_are_variables_of_functions_that_come_and_go(check):
    out = np.zeros(128, np.float32)
    RawKernel(ANYTHING, "in_turns", check=check)((1,), (128,), (out,))
    assert (out == 3 * 4 * (16 + 2 * 16)).all()
