"""Only a real GPU can show that check=True keeps it safe and that it agrees with the emulator. Skipped elsewhere."""

import numpy as np
import pytest

from llmc import cuda

if cuda.device() != "gpu":
    pytest.skip("needs a GPU", allow_module_level=True)

CODE = r"""
__constant__ float factor[1];
extern "C" __global__ void scale(float* out, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = factor[0] * x[i];
}
"""
RIGHT = CODE.replace("<=", "<")


def set_factor(module, value):
    cuda.xp.ndarray((1,), np.float32, module.get_global("factor"))[...] = value  # (1,)


@pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])
def test_a_kernel_runs(check):
    module = cuda.RawModule(code=RIGHT, check=check)
    set_factor(module, 3)
    x, out = cuda.xp.arange(100, dtype=np.float32), cuda.xp.zeros(100, np.float32)  # (100,) both
    module.get_function("scale")((4,), (32,), (out, x, np.int32(100)))
    assert np.array_equal(cuda.asnumpy(out), 3 * np.arange(100))


def test_a_bad_launch_never_reaches_the_gpu():
    module = cuda.RawModule(code=CODE, check=True)
    x, out = cuda.xp.ones(100, np.float32), cuda.xp.full(100, 7, np.float32)  # (100,) both
    with pytest.raises(cuda.KernelError, match="scale") as error:
        module.get_function("scale")((4,), (32,), (out, x, np.int32(100)))
    assert "out-of-bounds" in error.value.report.kinds
    cuda.synchronize()  # the context is alive
    assert (cuda.asnumpy(out) == 7).all()


def test_inspect_leaves_the_gpus_arrays_alone():
    kernel = cuda.RawModule(code=RIGHT).get_function("scale")
    x, out = cuda.xp.ones(100, np.float32), cuda.xp.full(100, 7, np.float32)  # (100,) both
    report = cuda.inspect(kernel, (4,), (32,), (out, x, np.int32(100)))
    assert report.ok and report.sectors > 0 and (cuda.asnumpy(out) == 7).all()


def test_gpu_and_emulator_agree_on_every_number():
    code = r"""
    extern "C" __global__ void mix(float* out, const float* x, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float v = i < n ? x[i] : 0.0f;
        for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(0xffffffffu, v, gap);
        if (i < n) out[i] = fmaf(v, 0.5f, x[i]) * rsqrtf(2.0f + x[i] * x[i]);
    }"""
    x = np.random.RandomState(0).standard_normal(1000).astype(np.float32)  # (1000,)
    args = np.zeros(1000, np.float32), x, np.int32(1000)
    given = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    cuda.RawKernel(code, "mix")((4,), (256,), tuple(given))
    assert cuda.inspect(cuda.RawKernel(code, "mix"), (4,), (256,), args).ok
    assert np.allclose(cuda.asnumpy(given[0]), args[0], rtol=1e-6, atol=1e-7)
