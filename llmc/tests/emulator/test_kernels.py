"""Kernels with CuPy's call style on the emulator, with their launches checked and without."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import llmc.cuda as cuda
from llmc.cuda.emulator import kernels
from llmc.cuda.emulator.calling.packing import Packer
from llmc.tests.cuda.small_kernels import CODE

pytestmark = pytest.mark.usefixtures("on_the_emulator")
both = pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])


@both
def test_a_kernel_runs(check):
    kernel = cuda.RawKernel(CODE, "scale", check=check)
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    for a in (2, 3):
        kernel((8,), (128,), (out, x, np.float32(a), x.size))
        np.testing.assert_array_equal(out, a * x)


def test_check_is_the_default_and_the_environment_turns_it_off(monkeypatch):
    assert cuda.RawKernel(CODE, "scale").check
    monkeypatch.setenv("LLMC_CHECK", "0")
    assert not cuda.RawKernel(CODE, "scale").check and cuda.RawKernel(CODE, "scale", check=True).check


def test_a_bad_launch_raises_its_report():
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(cuda.KernelError, match="out of bounds") as error:
        cuda.RawKernel(CODE, "scale")((1,), (128,), (out, x, np.float32(1), 101))
    assert error.value.report.kinds == {"out-of-bounds"}


@both
def test_a_bad_call_raises_before_the_launch(check):
    kernel = cuda.RawKernel(CODE, "scale", check=check)
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(cuda.KernelError, match=r"scale: argument 2 \(a\) is a Python float"):
        kernel((1,), (128,), (out, x, 1.0, 100))
    with pytest.raises(cuda.KernelError, match="2048 threads"):
        kernel((1,), (2048,), (out, x, np.float32(1), 100))
    with pytest.raises(cuda.KernelError, match="grid is 1; CuPy needs a tuple"):
        kernel(1, (128,), (out, x, np.float32(1), 100))
    assert not out.any()


@both
def test_what_a_kernel_prints_is_shown(check, capsys):
    cuda.RawKernel(CODE, "talk", check=check)((1,), (2,), (5,))
    assert capsys.readouterr().out == "n is 5\nn is 5\n"


@both
def test_variables_of_the_device(check):
    module = cuda.RawModule(code=CODE, check=check)
    cuda.xp.ndarray((4,), np.float32, module.get_global("table"))[...] = [5, 6, 7, 8]
    out = np.zeros(4, np.float32)
    module.get_function("look")((1,), (4,), (out,))
    assert out.tolist() == [5, 6, 7, 8]
    out[:] = 0
    assert cuda.inspect(module.get_function("look"), (1,), (4,), (out,)).ok
    assert out.tolist() == [5, 6, 7, 8]
    with pytest.raises(cuda.KernelError, match="variable 'tables' at file scope; there is table"):
        module.get_global("tables")


@both
def test_instances_of_templates(check):
    module = cuda.RawModule(code=CODE, name_expressions=["fill<float, 3>", "fill<int,4>"], check=check)
    out, integers = np.zeros(4, np.float32), np.zeros(4, np.int32)
    module.get_function("fill<float, 3>")((1,), (4,), (out,))
    module.get_function("fill<int,4>")((1,), (4,), (integers,))
    assert out.tolist() == [3] * 4 and integers.tolist() == [4] * 4
    with pytest.raises(cuda.KernelError, match=r"argument 0 \(out\) is int32"):
        module.get_function("fill<float, 3>")((1,), (4,), (integers,))


def test_a_kernel_within_an_if():
    out = np.zeros(1, np.int32)
    cuda.RawModule(code=CODE, options=("-DEXTRA=9",)).get_function("extra")((1,), (1,), (out,))
    assert out[0] == 9


@pytest.mark.parametrize(
    ("name", "told"),
    [("fill", "a template; use RawModule"), ("cpp", 'extern "C" __global__ void cpp'), ("fill<float, 3>", "template")],
)
def test_names_that_cupy_would_not_find(name, told):
    with pytest.raises(cuda.KernelError, match=told):
        cuda.RawKernel(CODE, name)
    with pytest.raises(cuda.KernelError, match=told):
        cuda.RawModule(code=CODE).get_function(name)


def test_a_name_that_is_not_there():
    with pytest.raises(cuda.KernelError, match="no kernel 'scales' in this module; there is scale, look, talk, tile"):
        cuda.RawModule(code=CODE).get_function("scales")
    with pytest.raises(cuda.KernelError, match="no kernel 'scales' in this code"):
        cuda.RawKernel(CODE, "scales").compile()


@both
def test_shared_memory_beyond_48_kib_wants_asking(check):
    kernel, out = cuda.RawKernel(CODE, "tile", check=check), np.zeros(8, np.float32)
    assert kernel.shared_size_bytes == 4096 and kernel.max_dynamic_shared_size_bytes == 45056
    with pytest.raises(cuda.KernelError, match="50000 bytes of dynamic shared memory plus 4096"):
        kernel((1,), (8,), (out,), shared_mem=50000)
    kernel.max_dynamic_shared_size_bytes = 60000
    kernel((1,), (8,), (out,), shared_mem=50000)
    assert out.tolist() == list(range(8)) and kernel.attributes["max_dynamic_shared_size_bytes"] == 60000


FILE_SCOPE = r"""
extern __shared__ float s[];
{helper}
extern "C" __global__ void k(float* out) {{
    s[threadIdx.x] = threadIdx.x;
    *(s + blockDim.x + threadIdx.x) = 1;
    __syncthreads();
    float2 first = reinterpret_cast<float2*>(&s[0])[0];
    float last = sum((float*)s, blockDim.x);
    out[threadIdx.x] = first.y + last + ((int*)s)[0];
}}
"""
HELPERS = {
    "macro": "__device__ float sum(float* v, int n) { float t = 0; for (int i = 0; i < n; i++) t += v[i]; return t; }",
    "object": "__device__ float sum(float* s, int n) { float t = 0; for (int i = 0; i < n; i++) t += s[i]; return t; }",
}


@both
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_dynamic_shared_memory_at_file_scope(helper, check):
    out = np.zeros(4, np.float32)
    cuda.RawKernel(FILE_SCOPE.format(helper=helper), "k", check=check)((1,), (4,), (out,), shared_mem=32)
    assert out.tolist() == [7] * 4


def test_python_threads_may_launch_the_same_kernel():
    kernel = cuda.RawKernel(CODE, "scale", check=False)
    x = np.arange(256, dtype=np.float32)

    def launch(a):
        out = np.zeros(256, np.float32)
        for _ in range(50):
            kernel((2,), (128,), (out, x, np.float32(a), 256))
        return np.array_equal(out, a * x)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(launch, range(8)))


def test_python_threads_whose_first_launches_meet_share_a_packer(monkeypatch):
    def slow(*arguments):
        time.sleep(0.1)
        return Packer(*arguments)

    monkeypatch.setattr(kernels, "Packer", slow)
    test_python_threads_may_launch_the_same_kernel()


@both
def test_the_static_shared_memory_of_other_kernels_does_not_count(check):
    body = (
        "(float* out) { __shared__ float s[8000]; int t = threadIdx.x; s[t] = 1; __syncthreads(); out[t] = s[31 - t]; }"
    )
    code = "".join(f'extern "C" __global__ void {name}{body}\n' for name in ("first", "second"))
    kernel, out = cuda.RawModule(code=code, check=check).get_function("second"), np.zeros(32, np.float32)
    kernel((1,), (32,), (out,))
    assert kernel.shared_size_bytes == 32000 and out.all()


def test_the_static_shared_memory_of_other_instances_does_not_count():
    code = """template <class T, int N> __global__ void turn(T* out, const T* x) {
            __shared__ T s[N]; int t = threadIdx.x; s[t] = x[t]; __syncthreads(); out[t] = s[31 - t]; }
        namespace more { template <int N> __global__ void more(float* x) {
            __shared__ float s[N]; s[0] = 1; *x = s[0]; } }
    """
    names = "turn<float, 9000>", "turn<float, 900>", "turn<double, 6000>", "more::more<12000>"
    module, out = cuda.RawModule(code=code, name_expressions=names), np.zeros(32, np.float32)
    sizes = [module.get_function(name).shared_size_bytes for name in names]
    assert sizes == [36000, 3600, 48000, 48000]
    module.get_function(names[0])((1,), (32,), (out, np.arange(32, dtype=np.float32)))
    assert out.tolist() == [*range(31, -1, -1)]
