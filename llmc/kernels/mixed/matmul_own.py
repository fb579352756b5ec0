"""The products of the linear layer by our own kernels on tensor cores: --matmul own.

Versions 2 to 6 take any size: 2 is in matmul_wmma.cu, 6 in matmul_stages.cu, and the steps between them are lesson
19's, in ladder/mixed. Versions 7 and up need Hopper: see matmul_hopper.py. `matmul.py` launches them for the engine and
says what the arrays are.
"""

from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, cublas, tensor_cores
from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import check_elements

FILES = {2: "matmul_wmma", 3: "matmul_mma", 4: "matmul_mma", 5: "matmul_mma", 6: "matmul_stages"}
TILE, THREADS = 128, 256  # as in product_tiles.cuh
STAGES = 3  # of version 6
STAGE_BYTES = 2 * TILE * 64 * 2  # both factors, 64 numbers of k, 16 bits each
NEEDS = {2: {"bfloat16": 80, "float16": 70}, 3: {"bfloat16": 80, "float16": 80}}  # compute capability from a version on


class Product(NamedTuple):
    """result (M, N) = or, with add, += a · b, plus bias (N,) unless that is None; sums over K numbers, in float32.

    name: one of cublas.PRODUCTS, which says how a and b lie in memory · to_gelu (M, N) or None: the product goes there,
    and GELU of it to result · before_gelu (M, N) or None: the product is multiplied by GELU' of it · kind: "" or, where
    a and b are uint8, the type of a, "e4m3" or "e5m2"; b is e4m3 · scale: what such a product is multiplied by.
    """

    name: str
    result: object
    a: object
    b: object
    M: int
    N: int
    K: int
    bias: object = None
    add: bool = False
    to_gelu: object = None
    before_gelu: object = None
    kind: str = ""
    scale: float = 1.0

    @property
    def runs(self) -> tuple[bool, bool]:
        """Whether k runs through memory in a, and in b."""
        return cublas.PRODUCTS[self.name][:2]

    @property
    def low(self):
        """An array of 16 bits, whose type the kernels are compiled for."""
        return next(a for a in (self.to_gelu, self.before_gelu, self.result) if a is not None)

    @property
    def defines(self) -> str:
        """The macros that say so."""
        types = f" A_TYPE={self.kind}" if self.kind else ""
        return "A_RUNS={:d} B_RUNS={:d} ADD={:d}".format(*self.runs, self.add) + types


def best(dtype) -> int | None:
    """The version that this device takes for 16-bit numbers of this type; None where no tensor cores multiply them.

    The emulator takes the last one that GPUs of several generations have.
    """
    kind = cuda.device()
    capability = 80 if kind == "emulator" else tensor_cores.compute_capability(kind)
    able = [version for version, needs in NEEDS.items() if capability >= needs[np.dtype(dtype).name]]
    return 6 if 3 in able else 2 if able else None


def multiply(product: Product, version: int, pad=None):
    """Launch version 2 to 6, which leave GELU to others: the product goes to to_gelu, if that is given.

    pad: PAD of product_tiles.cuh. Raises UserError for arrays with more numbers than the kernels can count.
    """
    M, N, K = product.M, product.N, product.K
    result = product.result if product.to_gelu is None else product.to_gelu
    check_elements(max(array.size for array in (result, product.a, product.b)))
    defines = product.defines + ("" if pad is None else f" PAD={pad}")
    function = kernel_for(result, FILES[version], f"matmul_v{version}", defines)
    shared = STAGES * STAGE_BYTES if version == 6 else 0
    if shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    blocks = ceil_div(M, TILE) * ceil_div(N, TILE)
    bias = 0 if product.bias is None else product.bias
    arguments = (result, product.a, product.b, bias, np.int32(M), np.int32(N), np.int32(K))
    function((blocks,), (THREADS,), arguments, shared_mem=shared)
