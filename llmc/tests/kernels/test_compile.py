"""Every .cu file of llmc/kernels compiles for the GPUs of 2018 to today, by NVRTC with the options that CuPy uses.

Skipped where NVRTC is not found: `pip install nvidia-cuda-nvrtc` brings it, and needs no GPU.
"""

import ctypes
import ctypes.util
import json
import re
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from llmc.course.exercises.layout import checkout
from llmc.kernels import FOLDER, SOURCES, STEPS, source
from llmc.kernels.mixed.matmul_hopper import MORE

ARCHITECTURES = ("sm_75", "compute_80", "sm_90")  # the kernels tell no others apart; compute_: only to PTX, quicker
OPTIMISED = (
    "sm_90"  # the others are read, checked and translated, but optimised as little as NVRTC can: five times as fast
)


@lru_cache
def nvrtc():
    """NVRTC, loaded; None if it is not found. pip's package has it in a folder of its own."""
    packages = [Path(folder) / "nvidia" for folder in sys.path]
    found = [str(file) for folder in packages for file in sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    for name in [ctypes.util.find_library("nvrtc"), *found]:
        if name:
            for part in Path(name).parent.glob("libnvrtc-builtins.so.*"):  # which NVRTC 13.0, PyTorch's, fails to find
                ctypes.CDLL(str(part))
            return ctypes.CDLL(name)
    return None


def compile_log(code, *options):
    """What NVRTC says about the code: "" when it compiles without a warning."""
    return compiled(code, *options)[0]


def compiled(code, *options):
    """What NVRTC says about the code, and the PTX that it makes, if it does."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None) == 0
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), words)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(max(1, size.value))
    library.nvrtcGetPTX(program, ptx)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if status or log.value else "", ptx.value.decode()


@lru_cache
def unoptimised():
    """The option, as a tuple, that leaves the optimiser out; () for an NVRTC of before CUDA 12.8, which has none."""
    option = "--Ofast-compile=max"
    return (option,) if compile_log("__global__ void k() {}", "-arch=sm_80", option) == "" else ()


@pytest.fixture(autouse=True)
def needs_nvrtc():
    if nvrtc() is None:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layer", [*SOURCES, *STEPS])
def test_compiles(layer, architecture):
    effort = () if architecture == OPTIMISED else unoptimised()
    assert compile_log(source(layer), f"-arch={architecture}", "-std=c++17", *effort) == ""


SIXTEEN = {path.stem: path for folder in ("mixed", "ladder/mixed") for path in FOLDER.glob(f"{folder}/*.cu")}
HOPPERS = {stem for stem, path in SIXTEEN.items() if '"wgmma.cuh"' in path.read_text(encoding="utf-8")}


@pytest.mark.parametrize("float16, architecture", [(0, "compute_75"), (1, "compute_75"), (0, "sm_90")])
@pytest.mark.parametrize("layer", sorted({*SIXTEEN} - HOPPERS))
def test_compiles_for_16_bits(layer, float16, architecture):
    options = (f"-arch={architecture}", "-std=c++17", f"-DFLOAT16={float16}")
    assert compile_log(source(f"mixed/{layer}"), *options) == ""


WAYS = {
    "attention_hopper": ["HS=64", "FLOAT16=1 HS=128 KEYS=64 STAGES=3 GROUPS=3 TURNS=0"],
    "attention_hopper_backward": [""],
    "matmul_tma": [""],
    "matmul_roles": ["FLOAT16=1"],
    "matmul_persistent": ["", f"A_RUNS=0 B_RUNS=0 ADD=1 GELU=0 {MORE[0].defines}", f"GELU=1 {MORE[1].defines}"]
    + [f"A_RUNS=1 B_RUNS=1 ADD={gelu == 0:d} A_TYPE=e5m2 GELU={gelu} {MORE[0].defines}" for gelu in range(3)],
}


@pytest.mark.parametrize("layer, defines", [(layer, each) for layer in sorted(HOPPERS) for each in WAYS[layer]])
def test_compiles_for_hopper(layer, defines):
    """Without a register in memory, and without wgmma waiting for itself: the assembler says so where it must."""
    said = assembled(source(f"mixed/{layer}"), *(f"-D{define}" for define in defines.split()))
    assert not re.search("error|warning|serialized", said)
    assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}


def assembled(code, *defines):
    return compile_log(code, "-arch=sm_90a", "-std=c++17", "--ptxas-options=-v", *defines)


def test_serialised_products_are_found():
    code = source("mixed/matmul_tma")
    used_early = code.replace("wait_products<0>();", "wait_products<1>(); sums[0] *= 2.0f;")
    assert used_early != code and "serialized" in assembled(used_early)


@pytest.mark.parametrize(
    "layer, size",
    [
        ("attention", 32),
        ("attention", 128),
        ("attention_tensor", 32),
        ("attention_tensor", 128),
        ("attention_tensor_backward", 32),
        ("attention_tensor_backward", 128),
        ("attention_cached", 7),
        ("attention_cached", 80),
    ],
)
def test_attention_of_16_bits_compiles_for_other_heads(layer, size):
    assert compile_log(source(f"mixed/{layer}"), "-arch=compute_80", "-std=c++17", f"-DHS={size}") == ""


@pytest.mark.parametrize("layer, size", [("tiles", 32), ("tiles", 128), ("flash", 32), ("tensor", 32), ("tensor", 64)])
def test_attention_compiles_for_other_heads(layer, size):
    options = ("-arch=compute_80", "-std=c++17", f"-DHS={size}", "-DEXACT=1")
    assert compile_log(source(f"attention_{layer}"), *options) == ""


@pytest.mark.parametrize("size", [7, 80])
def test_cached_attention_compiles_for_other_heads(size):
    assert compile_log(source("attention_cached"), "-arch=compute_80", "-std=c++17", f"-DHS={size}") == ""


def test_lesson_14_has_eight_loads_under_way_and_a_test_between_them_if_the_step_is_unsigned():
    notebook = json.loads((checkout() / "notebooks/14_backward_kernels.ipynb").read_text(encoding="utf-8"))
    (code,) = ("".join(cell["source"]) for cell in notebook["cells"] if cell["id"] == "v4")
    code, most = code.split('"""')[1], []
    for text in (code, code.replace("step = gridDim", "none = 0; unsigned step = gridDim")):
        said, ptx = compiled(text, "-arch=compute_90")
        assert said == "" or "none" in said  # never used
        most.append(max(part.count("ld.global") for part in re.split(r"\bbra\b", ptx)))
    assert most == [8, 1]


MISTAKES = {
    "name": "x[0] = y;",
    "shared memory": "__shared__ float s[1 << 18]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[threadIdx.x ^ 1];",
    "ptx": 'asm("no.such.instruction;");',
    "newer ptx": 'asm volatile("cp.async.wait_all;");',
    "unused": "int unused;",
    "assertion": "static_assert(sizeof(x) == 4);",
}


@pytest.mark.parametrize("quickly", [False, True])
@pytest.mark.parametrize("line", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found(line, quickly):
    code = f"__global__ void k(float* x) {{ {line} }}"
    assert compile_log(code, "-arch=sm_75", *(unoptimised() if quickly else ())) != ""
