"""How the tests of CUDA's words run a kernel: on the emulator, from the body of a function to arrays of results."""

import numpy as np

from llmc.cuda.emulator.kernels import RawKernel

TYPES = {"float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16"}
TYPES |= {"int32": "int", "uint32": "unsigned", "int64": "long long", "uint64": "unsigned long long"}
TYPES |= {"int16": "short", "uint16": "unsigned short", "uint8": "unsigned char", "int8": "signed char"}


def run(body, check=True, threads=32, head="", blocks=1, **arrays):
    """Run `body` as a kernel whose parameters are the arrays, which it may write; `i` is the index of the thread."""
    parameters = ", ".join(f"{TYPES[array.dtype.name]}* {name}" for name, array in arrays.items())
    text = f'{head}\nextern "C" __global__ void words({parameters}) {{\n'
    text += f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    RawKernel(text, "words", check=check)((blocks,), (threads,), tuple(arrays.values()))


def each(expressions, n, check=True, head="", dtype=np.float32, **arrays):
    """(len(expressions), n): each expression, which may use `i` and the arrays, for n threads."""
    out = np.zeros((len(expressions), n), dtype)
    lines = [f"  if (i < {n}) out[{k * n} + i] = {expression};" for k, expression in enumerate(expressions)]
    threads = min(n, 256)
    run("\n".join(lines), check, threads, head, -(-n // threads), out=out, **arrays)
    return out
