"""Operations of CUDA C on the numbers at which processors differ, and the bits that an H200 gives: operations.json.

    python -m llmc.tests.emulator.operations        on a GPU: write what it gives

The file has the bits of the numbers that functions of 1, 2 and 3 arguments get (all combinations of them), by their
types (f float, d double, i int, u unsigned, l long long, v unsigned long long, s unsigned short, h __half, b
__nv_bfloat16), and a row for each operation: the types of its arguments x, y, z, the type of its result, the expression
or the instruction of PTX, how many units in the last place it may differ (-1: any number), and the bits of all results.
"""

import json
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.precision import bfloat16

FILE = Path(__file__).with_name("operations.json")
TYPES = dict(f="float", d="double", i="int", u="unsigned", l="long long", h="__half", b="__nv_bfloat16")
TYPES |= dict(v="unsigned long long", s="unsigned short")
DTYPES = dict(f="f4", d="f8", i="i4", u="u4", l="i8", v="u8", s="u2", h="f2", b="u2")
REGISTERS = dict(f="f", d="d", i="r", u="r", l="l", v="l", s="h")  # the letters of inline PTX
TABLE = json.loads(FILE.read_text(encoding="utf-8"))
GROUPS = {}  # (types, result): rows
for row in TABLE["rows"]:
    GROUPS.setdefault((row[0], row[1]), []).append(row)


def arguments(types):
    """The arguments' arrays of bits: every combination of the numbers."""
    numbers = [np.array(TABLE["numbers"][str(len(types))][each], f"u{DTYPES[each][1]}") for each in types]
    return [np.ascontiguousarray(each.ravel()) for each in np.meshgrid(*numbers, indexing="ij")]


def as_numbers(bits, type_):
    """The numbers of a type that have these bits."""
    return bits.view(bfloat16() if type_ == "b" else DTYPES[type_])


def kernel(types, result, expressions) -> str:
    """CUDA C: out[k * n + i] is the k-th expression for the i-th arguments."""
    n, out = arguments(types)[0].size, TYPES[result]
    takes = ", ".join(f"const {TYPES[type_]}* {name}s" for type_, name in zip(types, "xyz"))
    given = " ".join(f"{TYPES[type_]} {name} = {name}s[i];" for type_, name in zip(types, "xyz"))
    inputs = ", ".join(f'"{REGISTERS.get(type_)}"({name})' for type_, name in zip(types, "xyz"))
    asm = f'{{{{ {out} r; asm volatile("{{}}" : "={REGISTERS.get(result)}"(r) : {inputs}); out[{{}} + i] = r; }}}}'
    lines = "".join(
        f"    {asm.format(each, k * n) if each.endswith((';', '}')) else f'out[{k * n} + i] = ({out})({each});'}\n"
        for k, each in enumerate(expressions)
    )
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" if {"h", "b"} & {*types, result} else ""
    return (
        f'{head}extern "C" __global__ void operations({out}* out, {takes}) {{\n    int i = threadIdx.x, e;\n'
        f"    float w;\n    {given}\n{lines}}}\n"
    )


def computed(types, result, expressions):
    """(len(expressions), n) bits, by whatever runs kernels here; unchecked, for the edges of numbers are its point."""
    given = arguments(types)
    out = np.zeros(len(expressions) * given[0].size, f"u{DTYPES[result][1]}")
    run = cuda.RawKernel(kernel(types, result, expressions), "operations", check=False)
    arrays = [cuda.asarray(as_numbers(each, type_)) for each, type_ in zip([out, *given], [result, *types])]
    run((1,), (given[0].size,), tuple(arrays))
    return cuda.asnumpy(arrays[0]).view(out.dtype).reshape(len(expressions), -1)


if __name__ == "__main__":
    for (types, result), same in GROUPS.items():
        for row, bits in zip(same, computed(types, result, [row[2] for row in same])):
            row[4] = bits.astype(f">u{bits.itemsize}").tobytes().hex()
    TABLE["device"] = cuda.name_of_gpu()
    FILE.write_text(json.dumps(TABLE).replace("], [", "],\n["), encoding="utf-8")
