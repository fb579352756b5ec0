"""Operations of CUDA C on the numbers at which processors differ, and the bits that an H200 gives: operations.json.

    python -m llmc.tests.emulator.operations        on a GPU: write what it gives

The file has a row for each operation: the types of its arguments x, y, z (f float, d double, i int, u unsigned,
l long long, h __half, b __nv_bfloat16), the type of its result, the expression, how many units in the last place it may
differ (-1: any number), and the bits for each combination of the numbers below.
"""

import json
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.precision import bfloat16

FILE = Path(__file__).with_name("operations.json")
TYPES = dict(f="float", d="double", i="int", u="unsigned", l="long long", h="__half", b="__nv_bfloat16")
TYPES |= dict(v="unsigned long long")
DTYPES = dict(f="f4", d="f8", i="i4", u="u4", l="i8", v="u8", h="f2", b="u2")


def _bits(dtype, numbers, more=()):
    return [*np.array(numbers, dtype).view(f"u{np.dtype(dtype).itemsize}").tolist(), *more]


LARGE = [16777217, 2147483520, -2147483648, 3e9, -3e9, 5e9, 1e19, -1e19, 3e38, -3e38, np.inf, -np.inf]
SMALL = [
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.7,
    -3.7,
    0.1,
    100.25,
    -1000.5,
    255.5,
    256,
    1e-3,
    -1.25e-5,
    1e-20,
    2e-38,
]
EXPONENTS = [65504, 65520, 88.5, -104, 127, -149.5, 6.2831855, 1e5]
NANS = [0x7FFFFFFF, 0x7FC00000, 0xFFC00001, 0x7F800001]
FLOATS = _bits("f4", SMALL + LARGE + EXPONENTS, NANS)
PAIRED = _bits("f4", [0, -0.0, 1, -1.5, 2, 0.1, 7.25, -1e10, 3e38, 2e-38, np.inf, -np.inf], [0x7FC00000])
TRIPLED = _bits("f4", [0, -0.0, 1, -1.5, 1.0000001, 1e20, -1e-10, np.inf], [0x7FC00000])
BEYOND = [
    1e300,
    -1e300,
    1e-300,
    3.5e38,
    2147483647.5,
    -2147483648.7,
    4503599627370497.5,
    1.00048828125,
    1.0039062500001,
]
DOUBLES = _bits("f8", SMALL[:12] + LARGE[3:8] + BEYOND + [np.inf, -np.inf, np.nan, 1 / 3, 65519.99, 65520])
DOUBLE_PAIRS = _bits("f8", [0, -0.0, 1, -1.5, 0.1, 1e300, -1e-100, np.inf, -np.inf, np.nan, 7])
EDGES = [0, 1, -1, 2, 7, -7, 31, 100, -128, 128, 255, 256, 32767, 32768, 65535, 65536, 16777217, 305419896, -16777219]
INTS = _bits("i4", [*EDGES, 2147483647, -2147483648, -2147483647])
LONGS = _bits("i8", [0, 1, -1, 7, -7, 1 << 31, 1 << 32, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 123456789012345])
HALVES = [0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x3800, 0x3E00, 0x4100, 0x5640, 0x3555, 0x7BFF, 0x7C00, 0x7E00, 0x7FFF]
BFLOATS = [0, 0x80, 0x2000, 0x3F80, 0x3F81, 0x3F00, 0x3FC0, 0x4020, 0x42C8, 0x3EAB, 0x7F7F, 0x7F80, 0x7FC0, 0x7FFF]
SIXTEEN = [[*numbers, *(x | 0x8000 for x in numbers[:-2])] for numbers in (HALVES, BFLOATS)]
ONE = dict(f=FLOATS, d=DOUBLES, i=INTS, u=INTS, l=LONGS, h=SIXTEEN[0], b=SIXTEEN[1])
TWO = dict(f=PAIRED, d=DOUBLE_PAIRS, i=INTS[::2], u=INTS[::2], l=LONGS, h=SIXTEEN[0], b=SIXTEEN[1])


def rows():
    """The file's rows: [types, result, expression, units in the last place, bits as hex digits]."""
    return json.loads(FILE.read_text(encoding="utf-8"))["rows"]


def arguments(types):
    """The arguments' arrays: every combination of the numbers."""
    numbers = [{1: ONE, 2: TWO}.get(len(types), dict(f=TRIPLED))[type_] for type_ in types]
    dtypes = [f"u{np.dtype(DTYPES[type_]).itemsize}" for type_ in types]
    grid = np.meshgrid(*(np.array(each, dtype) for each, dtype in zip(numbers, dtypes)), indexing="ij")
    return [np.ascontiguousarray(each.ravel()) for each in grid]


def _typed(array, type_):
    return array.view(bfloat16() if type_ == "b" else DTYPES[type_])


def kernel(types, result, expressions) -> str:
    """CUDA C: out[k * n + i] is the k-th expression for the i-th arguments."""
    n, out = arguments(types)[0].size, TYPES[result]
    takes = ", ".join(f"const {TYPES[type_]}* {name}s" for type_, name in zip(types, "xyz"))
    given = " ".join(f"{TYPES[type_]} {name} = {name}s[i];" for type_, name in zip(types, "xyz"))
    lines = "".join(f"    out[{k * n} + i] = ({out})({each});\n" for k, each in enumerate(expressions))
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" if {"h", "b"} & {*types, result} else ""
    return (
        f'{head}extern "C" __global__ void operations({out}* out, {takes}) {{\n    int i = threadIdx.x, e;\n'
        f"    float w;\n    {given}\n{lines}}}\n"
    )


def computed(types, result, expressions):
    """(len(expressions), n) bits, by whatever runs kernels here; unchecked, for the edges of numbers are its point."""
    given = arguments(types)
    out = np.zeros(len(expressions) * given[0].size, f"u{np.dtype(DTYPES[result]).itemsize}")
    run = cuda.RawKernel(kernel(types, result, expressions), "operations", check=False)
    arrays = [cuda.asarray(_typed(each, type_)) for each, type_ in zip([out, *given], [result, *types])]
    run((1,), (given[0].size,), tuple(arrays))
    return cuda.asnumpy(arrays[0]).view(out.dtype).reshape(len(expressions), -1)


def groups() -> dict:
    """{(types, result): rows}."""
    found = {}
    for row in rows():
        found.setdefault((row[0], row[1]), []).append(row)
    return found


def main():
    """Write what this GPU gives."""
    new = []
    for (types, result), same in groups().items():
        for row, bits in zip(same, computed(types, result, [row[2] for row in same])):
            new.append([*row[:4], bits.astype(f">u{bits.itemsize}").tobytes().hex()])
    lines = ",\n".join(json.dumps(row) for row in new)
    FILE.write_text(f'{{"device": "{cuda.name_of_gpu()}", "rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
