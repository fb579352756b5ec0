"""Where kernels run: on an NVIDIA GPU through CuPy, or on the emulator. Decided when first needed, not on import."""

import os
from functools import lru_cache
from importlib.util import find_spec

from llmc.errors import UserError
from llmc.terminal import llmc_command

DEVICES = ("gpu", "emulator")

_forced = None


def device(name: str | None = None) -> str:
    """Where kernels run, "gpu" or "emulator"; with a name, they run there from now on.

    Unless a name was given, the environment variable LLMC_DEVICE decides, or else whether there is a GPU that works. An
    `xp` that was imported earlier stays what it was. Raises UserError for a GPU that cannot be used.
    """
    global _forced
    if name is not None:
        _check(name, "device")
        _forced = name
    if _forced:
        return _forced
    wanted = os.environ.get("LLMC_DEVICE", "")
    return _check(wanted, "LLMC_DEVICE") if wanted else "emulator" if reason() else "gpu"


def _check(name, where):
    if name not in DEVICES:
        raise UserError(f"{where} is {name!r}; choose 'gpu' or 'emulator'.")
    if name == "gpu" and reason():
        raise UserError(f"no GPU can be used here: {reason()}; choose the emulator, or see `{llmc_command('doctor')}`.")
    return name


def number_of_gpus() -> int:
    """How many GPUs kernels could run on here; 0 on the emulator."""
    if device() == "emulator":
        return 0
    import cupy

    return cupy.cuda.runtime.getDeviceCount()


def name_of_gpu() -> str:
    """ "NVIDIA H200"."""
    import cupy

    runtime = cupy.cuda.runtime
    return runtime.getDeviceProperties(runtime.getDevice())["name"].decode()


@lru_cache(maxsize=1)
def reason() -> str:
    """Why no GPU can be used, "" if one can: no CuPy, a CuPy that does not start, no GPU, no NVRTC."""
    if find_spec("cupy") is None:
        return "CuPy is not installed"
    try:
        import cupy
    except Exception as error:  # a broken installation may raise anything: ImportError, OSError, RuntimeError
        return f"CuPy cannot be imported ({_first_line(error)})"
    try:
        if cupy.cuda.runtime.getDeviceCount() < 1:
            return "CuPy finds no NVIDIA GPU"
    except Exception as error:
        return f"CuPy finds no NVIDIA GPU that it can use ({_first_line(error)})"
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return f"CuPy cannot find NVRTC, which it needs to compile kernels ({_first_line(error)})"
    return ""


def _first_line(error):
    """The first line of what an error says, without a full stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".:")
