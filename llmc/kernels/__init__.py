"""The kernels of GPT-2: CUDA C in <layer>.cu, and beside it <layer>.py, which chooses grid and block and launches.

A .cu file is compiled as it stands: by NVRTC, through CuPy, where there is a GPU, and by the emulator's compiler where
there is none. Its header lists the versions of each kernel, from simple to clever; llmc uses the last, or the one that
FASTEST in the .py file names. The functions in the .py file have the signatures of the contract
(`llmc/backends/__init__.py`) and one argument more: version.

Nothing here waits for the GPU, and nothing is allocated but scratch memory, once.
"""

import os
from functools import cache
from pathlib import Path

from llmc import cuda

FOLDER = Path(__file__).parent
LAYERS = tuple(sorted(path.stem for path in FOLDER.glob("*.cu")))


def source(layer: str) -> str:
    """The text of <layer>.cu."""
    return (FOLDER / f"{layer}.cu").read_text(encoding="utf-8")


def kernel(layer: str, name: str, defines: str = ""):
    """The kernel `name` of <layer>.cu, compiled when it is first asked for: kernel("gelu", "gelu_forward_v1").

    defines: what the file leaves to its caller, "HS=64". Launches are not checked, for speed, unless LLMC_CHECK=1.
    """
    return _function(layer, name, defines, cuda.device(), os.environ.get("LLMC_CHECK") == "1")


@cache
def _function(layer, name, defines, device, check):
    return _module(layer, defines, device, check).get_function(name)


@cache
def _module(layer, defines, device, check):
    options = ("-std=c++17", *(f"-D{define}" for define in defines.split()))
    return cuda.RawModule(code=source(layer), options=options, check=check)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up: how many blocks of b threads cover a elements."""
    return -(-a // b)


_kept = {}


def scratch(name: str, size: int, dtype="float32"):
    """A flat array (size,) with anything in it, the same memory at every call of this name; it grows when it must."""
    key = (name, cuda.device())
    if key not in _kept or _kept[key].size < size:
        _kept[key] = cuda.xp.empty(size, dtype)
    return _kept[key][:size]
