"""llmc.cuda: which device is used, and kernels with CuPy's call style on either."""

import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import llmc.cuda as cuda
from llmc.cuda import cubins, devices, gpu
from llmc.cuda.emulator import kernels
from llmc.cuda.emulator.calling import unwritten
from llmc.cuda.emulator.calling.packing import Packer
from llmc.errors import KernelError, UserError

CODE = r"""
__constant__ float table[4];
extern "C" __global__ void scale(float* out, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i];
}
extern "C" __global__ void look(float* out) { out[threadIdx.x] = table[threadIdx.x]; }
extern "C" __global__ void talk(int n) { printf("n is %d\n", n); }
extern "C" __global__ void tile(float* out) {
    extern __shared__ float s[];
    __shared__ float fixed[1024];
    s[threadIdx.x] = fixed[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = (s[threadIdx.x] + fixed[threadIdx.x]) / 2;
}
template <class T, int N> __global__ void fill(T* out) { out[threadIdx.x] = N; }
__global__ void cpp(float* out) {}
#ifdef EXTRA
extern "C" __global__ void extra(int* out) { *out = EXTRA; }
#endif
"""
both = pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    monkeypatch.setattr(devices, "_forced", "emulator")
    monkeypatch.delenv("LLMC_CHECK", raising=False)


# -------------------------------------------------------------------------------------------------- which device


def fresh(code, **environment):
    """Standard output of a new interpreter."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": "", **environment})
    assert run.returncode == 0, run.stderr
    return run.stdout


ROOT = {"PYTHONPATH": str(Path(cuda.__file__).parents[2])}


def test_import_brings_neither_cupy_nor_the_emulator():
    code = "import sys, llmc.cuda; print(sorted({m.split('.')[0] for m in sys.modules} & {'cupy', 'numba', 'torch'}))"
    assert fresh(code, **ROOT) == "[]\n"
    assert fresh("import sys, llmc.cuda; print('llmc.cuda.emulator' in sys.modules)", **ROOT) == "False\n"


def test_the_environment_chooses():
    code = "import llmc.cuda as c; print(c.device(), c.xp.__name__)"
    assert fresh(code, LLMC_DEVICE="emulator", **ROOT) == "emulator numpy\n"


def test_unknown_devices_are_refused(monkeypatch):
    with pytest.raises(UserError, match="^device is 'tpu'; choose 'gpu' or 'emulator'"):
        cuda.device("tpu")
    monkeypatch.setattr(devices, "_forced", None)
    monkeypatch.setenv("LLMC_DEVICE", "cpu")
    with pytest.raises(UserError, match="^LLMC_DEVICE is 'cpu'"):
        cuda.device()


def pretend(monkeypatch, count=1, nvrtc=(12, 4)):
    """A CuPy of a few lines: arrays live on the host, launches are noted down and not run."""

    def answer(value):
        def call():
            if isinstance(value, Exception):
                raise value
            return value

        return call

    cupy = types.ModuleType("cupy")
    runtime = types.SimpleNamespace(getDeviceCount=answer(count))
    cupy.cuda = types.SimpleNamespace(runtime=runtime, nvrtc=types.SimpleNamespace(getVersion=answer(nvrtc)))
    cupy.launched = []
    cupy.RawKernel, cupy.RawModule = Kernel, Module
    cupy.asarray = lambda array, dtype=None: Array(np.asarray(array, dtype))
    cupy.ndarray = lambda shape, dtype, pointer: Array(np.ndarray(shape, dtype, pointer))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(devices, "find_spec", lambda name: True)
    monkeypatch.setattr(devices, "_forced", None)
    devices.reason.cache_clear()
    return cupy


class Array:
    def __init__(self, host):
        self.host, self.shape, self.dtype, self.strides = host, host.shape, host.dtype, host.strides
        self.data, self.flags = types.SimpleNamespace(ptr=host.ctypes.data), host.flags

    def get(self):
        return self.host.copy()


Array.__module__ = "cupy"


class Kernel:
    def __init__(self, code, name, options=()):
        self.code, self.name, self.options, self.max_dynamic_shared_size_bytes = code, name, options, 49152

    def compile(self):
        if "wrong" in self.name:
            said = (
                '/tmp/tmpab/12cd.cubin.cu(3): error: identifier "y" is undefined\n\n1 error detected in "/tmp/tmpab".'
            )
            raise type("CompileException", (Exception,), {})(said)

    def __call__(self, grid, block, args, *, shared_mem=0):
        sys.modules["cupy"].launched.append((self.name, grid, block, shared_mem))


class Module:
    def __init__(self, *, code, options=(), name_expressions=None):
        self.code, self.options = code, options
        self.table = np.arange(4, dtype=np.float32)
        self.compile = lambda: None

    def get_function(self, name):
        return Kernel(self.code, name if "<" not in name else "_Z4fillI", self.options)

    def get_global(self, name):
        return self.table


@pytest.fixture
def forget_reason():
    yield
    devices.reason.cache_clear()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"count": 0}, "finds no NVIDIA GPU"),
        ({"count": RuntimeError("InsufficientDriver: too old.\nmore")}, "(InsufficientDriver: too old)"),
        ({"nvrtc": ImportError("libnvrtc.so.12")}, "no NVRTC to compile kernels with (libnvrtc.so.12)"),
    ],
    ids=["no-gpu", "driver", "nvrtc"],
)
def test_a_gpu_that_cannot_be_used_means_the_emulator(monkeypatch, forget_reason, options, told):
    pretend(monkeypatch, **options)
    assert cuda.device() == "emulator" and told in cuda.reason() and "\n" not in cuda.reason()
    assert cuda.xp is np
    with pytest.raises(UserError, match="^no GPU can be used here: CuPy .*; choose the emulator"):
        cuda.device("gpu")


def test_without_cupy_the_reason_says_so(monkeypatch, forget_reason):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    devices.reason.cache_clear()
    assert cuda.reason() == "CuPy is not installed"


# ----------------------------------------------------------------------------------- on a GPU, as far as it goes here


def test_on_a_gpu_kernels_are_cupys(monkeypatch, forget_reason):
    cupy = pretend(monkeypatch)
    assert cuda.device() == "gpu" and cuda.xp is cupy and cuda.reason() == ""
    kernel = cuda.RawKernel(CODE, "scale")
    assert type(kernel) is Kernel
    x = cuda.asarray(np.ones(4, np.float32))
    assert type(x) is Array and cuda.asnumpy(x).tolist() == [1, 1, 1, 1]


def test_on_a_gpu_an_error_names_the_line_and_no_file_of_cupys(monkeypatch, forget_reason):
    pretend(monkeypatch)
    with pytest.raises(cuda.KernelError, match='^line 3: identifier "y" is undefined$') as error:
        cuda.RawKernel(CODE, "wrong")
    assert error.value.line == 3


def test_on_a_gpu_inspect_gives_the_emulator_the_text_that_was_written(monkeypatch, forget_reason):
    pretend(monkeypatch)
    code = 'extern "C" __global__ void fill(float* out) { out[threadIdx.x] = INFINITY; }'
    kernel, out = cuda.RawKernel(code, "fill"), cuda.asarray(np.ones(4, np.float32))
    assert kernel.code != code and cuda.inspect(kernel, (1,), (4,), (out,)).raw.code == code


def test_on_a_gpu_a_checked_kernel_is_tried_first(monkeypatch, forget_reason):
    cupy = pretend(monkeypatch)
    kernel = cuda.RawKernel(CODE, "scale", check=True)
    x, out = (cuda.asarray(np.ones(4, np.float32)) for _ in range(2))
    kernel((1,), (32,), (out, x, np.float32(2), 4))
    assert cupy.launched == [("scale", (1,), (32,), 0)]
    with pytest.raises(cuda.KernelError) as error:
        kernel((1,), (32,), (out, x, np.float32(2), 5))
    assert error.value.report.kinds == {"out-of-bounds"} and len(cupy.launched) == 1
    assert out.host.tolist() == [1, 1, 1, 1]


def test_on_a_gpu_a_checked_kernel_has_no_more_shared_memory_than_its_twin(monkeypatch, forget_reason):
    """CuPy's kernels of one text are one: another RawKernel may have asked for more already."""
    pretend(monkeypatch)
    kernel = cuda.RawKernel(CODE, "tile", check=True)
    kernel._theirs.max_dynamic_shared_size_bytes = 60000
    assert kernel.max_dynamic_shared_size_bytes == 45056
    kernel.max_dynamic_shared_size_bytes = 60000
    assert kernel.max_dynamic_shared_size_bytes == 60000


def test_on_a_gpu_inspect_takes_cupys_kernels(monkeypatch, forget_reason):
    pretend(monkeypatch)
    out = cuda.asarray(np.ones(4, np.float32))
    module = cuda.RawModule(code=CODE, name_expressions=["fill<float, 3>"])
    assert cuda.inspect(module.get_function("fill<float, 3>"), (1,), (4,), (out,)).ok
    assert cuda.inspect(cuda.RawKernel(CODE, "tile"), (1,), (4,), (out,), 16).ok


def test_on_a_gpu_a_checked_module_lends_its_variables(monkeypatch, forget_reason):
    pretend(monkeypatch)
    seen = np.zeros(4, np.float32)
    module = cuda.RawModule(code=CODE, check=True)
    assert module.get_function("look").examine((1,), (4,), (seen,)).ok
    assert seen.tolist() == [0, 1, 2, 3]


def test_an_array_that_is_passed_twice_stays_one():
    x = Array(np.zeros(3, np.float32))
    first, second, third = gpu.on_host((x, x, Array(np.zeros(3, np.float32))))
    assert first is second and first is not third


# ---------------------------------------------------------------------------------------------- on the emulator


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


# ---------------------------------------------------------------------------------------------- inspect and empty


def test_inspect_never_raises_for_what_a_kernel_does():
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel = cuda.RawKernel(CODE, "scale", check=False)
    assert cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 100)).ok
    assert not cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 101)).ok


@pytest.mark.parametrize("outputs", ["out", ("out",), (0,)], ids=["text", "name", "index"])
def test_outputs_must_be_written_wholly(outputs):
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel = cuda.RawKernel(CODE, "scale")
    assert cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 100), outputs=outputs).ok
    report = cuda.inspect(kernel, (1,), (128,), (out, x, np.float32(1), 97), outputs=outputs)
    assert report.kinds == {"never-written"} and "out[97]" in str(report)


@pytest.mark.parametrize("output", ["y", "x", "n", 7])
def test_outputs_that_are_none(output):
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(cuda.KernelError, match=f"{output!r} is not an array that the kernel can write; those are: out"):
        cuda.inspect(cuda.RawKernel(CODE, "scale"), (1,), (128,), (out, x, np.float32(1), 100), outputs=(output,))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.float64], ids=lambda dtype: dtype.__name__)
def test_reading_an_empty_array(dtype):
    word = {"float32": "float", "float16": "unsigned short", "int32": "int", "float64": "double"}[dtype.__name__]
    code = f'extern "C" __global__ void copy({word}* to, const {word}* from) {{ to[threadIdx.x] = from[threadIdx.x]; }}'
    view = np.uint16 if dtype is np.float16 else dtype
    source, target = cuda.empty(8, dtype), np.zeros(8, dtype)
    kernel = cuda.RawKernel(code, "copy")
    report = cuda.inspect(kernel, (1,), (8,), (target.view(view), source.view(view)))
    assert report.kinds == {"uninitialised"}
    source[:4] = -1
    assert cuda.inspect(kernel, (1,), (4,), (target.view(view), source.view(view))).ok
    assert cuda.inspect(kernel, (1,), (5,), (target.view(view), source.view(view))).kinds == {"uninitialised"}
    source[...] = np.nan if np.dtype(dtype).kind == "f" else -1
    assert cuda.inspect(kernel, (1,), (8,), (target.view(view), source.view(view))).ok


def test_an_array_written_by_kernels_is_no_longer_empty():
    x, middle, out = np.arange(64, dtype=np.float32), cuda.empty(64), cuda.empty(64)
    kernel = cuda.RawKernel(CODE, "scale")
    kernel((1,), (32,), (middle, x, np.float32(2), 32))
    kernel((1,), (32,), (out, middle, np.float32(2), 32))
    with pytest.raises(cuda.KernelError, match=r"reads middle|reads x\[32\]"):
        kernel((1,), (64,), (out, middle, np.float32(2), 64))
    kernel((1,), (64,), (middle, x, np.float32(2), 64))
    kernel((1,), (64,), (out, middle, np.float32(2), 64))
    np.testing.assert_array_equal(out, 4 * x)
    assert id(middle) not in unwritten._known


def test_forgotten_arrays_are_forgotten():
    before = len(unwritten._known)
    array = cuda.empty((3, 4))
    assert len(unwritten._known) == before + 1 and unwritten.elements(array[1:]).sum() == 8
    del array
    assert len(unwritten._known) == before


@pytest.mark.parametrize("check", [False, True], ids=["plain", "checked"])
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


def test_machine_code_for_one_kind_of_gpu_is_compiled_once(monkeypatch, tmp_path):
    asked = []

    def compile_program(program, options):
        asked.append(options)
        if "-DWRONG" in options:
            raise RuntimeError

    nvrtc = types.SimpleNamespace(getVersion=lambda: (13, 0), createProgram=lambda *texts: 1, NVRTCError=RuntimeError)
    nvrtc.compileProgram, nvrtc.getCUBIN = compile_program, lambda program: b"code"
    nvrtc.destroyProgram = lambda program: None
    nvrtc.getProgramLog = lambda program: "kernel.cu(1): error: no such thing"
    package = types.ModuleType("cupy")
    package.__file__ = str(tmp_path / "cupy" / "__init__.py")
    monkeypatch.setitem(sys.modules, "cupy", package)
    monkeypatch.setitem(sys.modules, "cupy.cuda", types.SimpleNamespace(nvrtc=nvrtc, get_cuda_path=lambda: "toolkit"))
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    assert cubins.wanted(("-std=c++17", "-arch=sm_90a")) and not cubins.wanted(("-std=c++17",))
    path = cubins.compiled("text", ("-arch=sm_90a",))
    assert cubins.compiled("text", ("-arch=sm_90a",)) == path != cubins.compiled("other", ("-arch=sm_90a",))
    assert open(path, "rb").read() == b"code" and len(asked) == 2
    assert all("-Itoolkit/include" in options for options in asked)
    assert cubins.source_of(path, "k") == ("text", "k", ("-arch=sm_90a",))
    with pytest.raises(KernelError, match="no such thing"):
        cubins.compiled("text", ("-arch=sm_90a", "-DWRONG"))
    assert len(list((tmp_path / "cache").iterdir())) == 2
