"""CUDA C as people write it, for NVRTC: names and headers of the C and C++ libraries that it lacks, and host code.

The emulator takes all of this. A text that needs none of it stays as it is; in the others no line moves.
"""

import re
from functools import lru_cache
from pathlib import Path

from llmc.cuda.emulator.compiling.rules import host_functions
from llmc.cuda.emulator.compiling.source import INCLUDE
from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.compiling.units import WORD
from llmc.errors import KernelError

# Headers that NVRTC cannot open. What kernels may use of them comes from here, and from CUDA's own copies of them.
HEADERS = frozenset(
    "algorithm array assert.h cassert cfloat chrono climits cmath cstddef cstdint cstdio cstdlib cstring ctime cuda.h "
    "cudaTypedefs.h device_functions.h float.h fstream functional initializer_list iomanip iostream iterator limits "
    "limits.h map math.h math_functions.h memory numeric random set sm_30_intrinsics.h sstream stdbool.h stddef.h "
    "stdexcept stdint.h stdio.h stdlib.h string string.h thread time.h type_traits unordered_map utility vector".split()
)
WARP, BLOCK = "reduce scan", "exchange load radix_sort reduce scan store"
CUB = [f"cub/{part}/{part}_{each}.cuh" for part, all_ in (("warp", WARP), ("block", BLOCK)) for each in all_.split()]
INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./]+)[>\"]", re.MULTILINE)
STD = [f"cuda/std/{part}" for part in "array cmath functional limits type_traits utility".split()]
USES_STD = re.compile(r"\bstd\s*::|\busing\s+namespace\s+std\b")
AS_STD = """namespace cuda { namespace std {} }
namespace std {
using namespace cuda::std;
template <class T> __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __device__ constexpr const T& clamp(const T& x, const T& a, const T& b) { return max(a, min(x, b)); }
}
"""
TENSOR_MAP = "struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };\n"
DEFINED = re.compile(r"^#define (\w+) (.+)$|^typedef (.+ )(\w+);$", re.MULTILINE)
OF_NVRTC = {"size_t", "ptrdiff_t", "clock_t", "NULL"}
VALUES = {
    "INFINITY": "__builtin_bit_cast(float, 0x7f800000)",  # as a function it would not be a constant
    "NAN": "__builtin_bit_cast(float, 0x7fffffff)",
    "HUGE_VALF": "__builtin_bit_cast(float, 0x7f800000)",
    "HUGE_VAL": "__builtin_bit_cast(double, 0x7ff0000000000000ll)",
    "ssize_t": "long",
}
NUMBERS = ["cuda/std/cstdint", "cuda/std/climits", "cuda/std/cfloat"]


@lru_cache(maxsize=1)
def _names() -> dict:
    """{name: its definition, "" where CUDA's headers have one} of all names that the emulator's kernels see."""
    found = {}
    for name, value, type_, alias in DEFINED.findall((INCLUDE / "llmc_limits.h").read_text(encoding="utf-8")):
        found |= {name: f"#define {name} {value}\n" if name.startswith("M_") else ""} if name else {}
        found |= {alias: "" if "__" in type_ else f"typedef {type_}{alias};\n"} if alias else {}
    found |= {name: f"#define {name} {value}\n" for name, value in VALUES.items()}
    return {name: definition for name, definition in found.items() if name not in OF_NVRTC}


@lru_cache(maxsize=256)
def for_gpu(code: str) -> str:
    """The text for NVRTC; the line numbers of messages about it are those of `code`, in "kernel.cu"."""
    masked = mask(code)
    used = _names().keys() & set(WORD.findall(masked))
    text = code
    for unit in reversed(host_functions(code)):
        text = text[: unit.start] + "\n" * text.count("\n", unit.start, unit.end) + text[unit.end :]
    included = {match[1] for match in INCLUDED.finditer(text)}
    text = INCLUDED.sub(lambda match: "" if match[1] in HEADERS | {"cub/cub.cuh"} else match[0], text)
    needed = NUMBERS if used else []
    needed = needed + ["math_constants.h"] * any(name.startswith("CUDART_") for name in used)
    needed = needed + CUB * ("cub/cub.cuh" in included) + STD * bool(USES_STD.search(masked))
    head = "".join(f"#include <{name}>\n" for name in needed)
    head += "".join(f"#ifndef {name}\n{_names()[name]}#endif\n" for name in sorted(used) if _names()[name])
    head += AS_STD * (STD[0] in needed) + TENSOR_MAP * ("CUtensorMap" in masked and "cuda.h" in included)
    return code if text == code and not head else f'{head}#line 1 "kernel.cu"\n{text}'


ERROR = re.compile(r"^(.*)\((\d+)\): (?:catastrophic )?error: (.*)", re.MULTILINE)


def said_by_nvrtc(log: str) -> KernelError:
    """The first error that NVRTC names, with its line of the kernel: not with the path of a file that CuPy made."""
    errors = ERROR.findall(log)
    if not errors:
        return KernelError(log)
    file, line, what = errors[0]
    others = f" ({len(errors) - 1} more errors)" if len(errors) > 1 else ""
    if not file.endswith(".cu"):
        return KernelError(f"{Path(file).name}, line {line}: {what}{others}")
    return KernelError(f"line {line}: {what}{others}", int(line))
