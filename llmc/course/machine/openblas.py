"""Which BLAS multiplies NumPy's matrices, and does it use its kernels for this CPU, or those for an older one?

OpenBLAS holds kernels for many CPUs and chooses when it is loaded. It can choose kernels that are too old: in a virtual
machine that hides its CPU's name, or because of a forgotten OPENBLAS_CORETYPE. We ask the library that NumPy loaded.
"""

import ctypes
import os
import sys
from pathlib import Path

LEVELS = {"AVX-512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "AVX2": {"avx2"}, "AVX": {"avx"}}  # best first
KERNELS = {  # OpenBLAS's name for its kernels, lower case -> the instructions they use
    **dict.fromkeys(["skylakex", "cooperlake", "sapphirerapids"], "AVX-512"),
    **dict.fromkeys(["haswell", "zen"], "AVX2"),
    **dict.fromkeys(["sandybridge", "bulldozer", "piledriver", "steamroller"], "AVX"),
    **dict.fromkeys(["katmai", "coppermine", "northwood", "prescott", "banias", "atom", "core2", "penryn"], "SSE"),
    **dict.fromkeys(["dunnington", "nehalem", "athlon", "opteron", "opteron_sse3", "barcelona", "bobcat"], "SSE"),
}
FORCE = {
    "AVX-512": "SkylakeX",
    "AVX2": "Haswell",
    "AVX": "Sandybridge",
}  # OPENBLAS_CORETYPE that every such CPU can run


def build() -> tuple[str, str]:
    """(name, version) of the BLAS that NumPy was built with: ("scipy-openblas", "0.3.31"); ("", "") for none."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return (blas.get("name", ""), blas.get("version", "")) if blas.get("found", True) else ("", "")


def best_level(flags) -> str:
    """The widest instructions that a CPU with these flags has: "AVX-512", "AVX2", "AVX", or "" (not x86, or SSE)."""
    return next((level for level, needed in LEVELS.items() if needed <= flags), "")


def falls_short(kernels: str, flags) -> bool:
    """Does the CPU have wider instructions than these OpenBLAS kernels use? False for kernels that we do not know."""
    order = [*LEVELS, "SSE"]
    level, best = KERNELS.get(kernels.lower()), best_level(flags)
    return bool(level and best) and order.index(level) > order.index(best)


def loaded() -> tuple[str, int] | None:
    """(name of the kernels, threads) of the OpenBLAS in this process, ("SkylakeX", 2); None when there is none."""
    libraries = (_handle(path) for path in _places())
    return next((found for library in libraries if library and (found := _interview(library))), None)


def _places() -> list[Path]:
    """Files that may be NumPy's OpenBLAS: in its wheel, in a conda environment, or among those Linux has loaded."""
    import numpy as np

    package = Path(np.__file__).parent
    folders = [package.parent / "numpy.libs", package / ".dylibs", package / ".libs"]
    folders += [Path(sys.prefix, "lib"), Path(sys.prefix, "Library", "bin")]
    return [path for folder in folders for path in sorted(folder.glob("*openblas*"))] + _mapped()


def _mapped() -> list[Path]:
    """Each line of that file ends with the path of a loaded library."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return []
    return sorted({Path(line.split(maxsplit=5)[5]) for line in lines if "openblas" in line})


def _handle(path):
    """The library if this process has already loaded it, else None: a second copy would tell us nothing."""
    try:
        if sys.platform == "win32":
            get = ctypes.windll.kernel32.GetModuleHandleW
            get.argtypes, get.restype = [ctypes.c_wchar_p], ctypes.c_void_p
            return ctypes.CDLL(str(path), handle=handle) if (handle := get(str(path))) else None
        return ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def _interview(library):
    """(kernels, threads). The functions' names depend on who built the library: scipy_openblas_get_corename64_, ..."""
    for form in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"):
        name, threads = (getattr(library, form.format(what), None) for what in ("get_corename", "get_num_threads"))
        if name and threads:
            name.restype, name.argtypes, threads.restype, threads.argtypes = ctypes.c_char_p, [], ctypes.c_int, []
            return name().decode("ascii", "replace"), threads()
    return None
