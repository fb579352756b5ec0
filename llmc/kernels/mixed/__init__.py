"""The same layers for weights, activations and gradients of 16 bits: one text for bfloat16 and for float16.

Each file has what the file of that name one folder up has, in one simple version and, where that was worth it, in a
second: attention on tensor cores, layernorm's backward pass, the classifier and sums of columns in one reading, and
what a single token needs in sampling. For products there is a ladder of nine, some of it in ladder/mixed, and for
attention one of three, up to what only Hopper's GPUs have.
include/number.cuh is the place to begin: it widens 16-bit numbers to float when they are read, and rounds when they are
written, so that everything in between is float, sums most of all. Statistics, losses and AdamW's moments stay float in
memory too, and so do the residual stream and its gradient, but for fp8. Which array has which type is in
`llmc/precision.py`, and what the results must be in `backends/mixed.py`.
"""

import numpy as np

from llmc.kernels import kernel


def kernel_for(array, layer: str, name: str, defines: str = "", arch: str = "", out=None, stream=None):
    """The kernel `name` of mixed/<layer>.cu, for the type of array, bfloat16 or float16.

    defines, arch: as for `kernel` · out: an array that has 8 bits if only matmuls read it, in fp8 · stream: one of the
    residual stream, which has 16 bits then. Raises TypeError for an array of any other type: a kernel would misread it.
    """
    if array.dtype.name not in ("bfloat16", "float16"):
        raise TypeError(f"{name} takes 16-bit numbers, not {array.dtype.name}.")
    if out is not None and out.dtype.itemsize == 1:
        defines = f"FACTORS_8=1 {defines}"
    if stream is not None and stream.dtype.itemsize == 2:
        defines = f"STREAM16=1 {defines}"
    return kernel(f"mixed/{layer}", name, f"FLOAT16={int(array.dtype == np.float16)} {defines}".strip(), arch)
