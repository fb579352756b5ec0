"""llmc.cuda: which device is used, and what it does with CuPy, as far as that shows without a GPU."""

import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import llmc.cuda as cuda
from llmc.cuda import devices, gpu
from llmc.errors import UserError
from llmc.tests.cuda.small_kernels import CODE

pytestmark = pytest.mark.usefixtures("on_the_emulator")


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
        ({"nvrtc": ImportError("libnvrtc.so.12")}, "NVRTC, which it needs to compile kernels (libnvrtc.so.12)"),
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
