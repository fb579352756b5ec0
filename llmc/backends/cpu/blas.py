"""Which BLAS the kernels call. It has one thread: the kernels cut the work themselves.

It is SciPy's (OpenBLAS from pip, or whatever conda has chosen), whose addresses scipy.linalg.cython_blas publishes; on
an Intel processor it is Intel's MKL, if `pip install mkl` has brought it: faster for the few hundred rows of a training
batch. The variable LLMC_BLAS=scipy or LLMC_BLAS=mkl decides otherwise. Both round a sum by its place in memory and by
the processor, so arrays begin at cache lines (`scratch.py`).
"""

import ctypes
import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from llmc.errors import UserError
from llmc.terminal import pip

GEMM = {np.dtype(np.float32): "sgemm", np.dtype(np.float64): "dgemm"}
SEQUENTIAL = 1  # MKL's number for: no threads of its own


def address(dtype) -> int:
    """Where sgemm or dgemm is in this process: what kernels hand to `gemm`."""
    return choose()[0][dtype]


def description() -> str:
    """ "openblas 0.3.30 (SkylakeX)"."""
    return choose()[1]


@cache
def choose():
    """({dtype: address}, description) of the BLAS to use. Raises UserError for an LLMC_BLAS that is not there."""
    wanted = os.environ.get("LLMC_BLAS", "")
    if wanted not in ("", "scipy", "mkl"):
        raise UserError(f"LLMC_BLAS is {wanted!r}; set it to scipy or mkl, or unset it.")
    found = _mkl() if wanted == "mkl" or (not wanted and is_intel()) else None
    if found is None and wanted == "mkl":
        install = pip("install", "mkl")
        raise UserError(f"LLMC_BLAS asks for mkl, which is not installed; run `{install}`, or unset LLMC_BLAS.")
    return found or _scipy()


def is_intel() -> bool:
    """Whether the processor is Intel's."""
    cpuinfo = Path("/proc/cpuinfo")
    return "GenuineIntel" in (cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else platform.processor())


def _mkl():
    """({dtype: address}, description) of the MKL that pip installed; None when there is none."""
    try:
        files = [file for file in metadata.files("mkl") or () if "mkl_rt" in file.name]
        library = ctypes.CDLL(str(Path(files[0].locate()).resolve()))
    except (metadata.PackageNotFoundError, IndexError, OSError):
        return None
    library.MKL_Set_Threading_Layer(SEQUENTIAL)
    addresses = {t: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for t, name in GEMM.items()}
    return addresses, f"mkl {metadata.version('mkl')}"


def _scipy():
    """({dtype: address}, description) of SciPy's BLAS, which has one thread from now on."""
    import scipy.linalg.cython_blas  # noqa: F401, loads it
    from numba.extending import get_cython_function_address

    description = "BLAS of SciPy"
    for library in _all_but_numpys():
        library.set_num_threads(1)
        kernels = getattr(library, "architecture", None)
        description = f"{library.internal_api} {library.version}" + (f" ({kernels})" if kernels else "")
    return {t: get_cython_function_address("scipy.linalg.cython_blas", name) for t, name in GEMM.items()}, description


def _all_but_numpys():
    """threadpoolctl's controllers of all BLAS libraries that are loaded, except for NumPy's own copy of one."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [lib for lib in found if not any(p.name.startswith("numpy") for p in list(Path(lib.filepath).parents)[:2])]
