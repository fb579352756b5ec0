"""The products of the linear layer by our own kernels on tensor cores: --matmul own.

Versions 2 to 6, in matmul_wmma.cu, matmul_mma.cu and matmul_stages.cu, take any size. `matmul.py` launches them for the
engine and says what the arrays are.
"""

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, cublas, tensor_cores
from llmc.kernels.mixed import kernel_for

FILES = {2: "matmul_wmma", 3: "matmul_mma", 4: "matmul_mma", 5: "matmul_mma", 6: "matmul_stages"}
TILE, THREADS = 128, 256  # as in product.cuh
STAGES = 3  # of version 6
STAGE_BYTES = 2 * TILE * 64 * 2  # both factors, 64 numbers of k, 16 bits each
NEEDS = {2: {"bfloat16": 80, "float16": 70}, 3: {"bfloat16": 80, "float16": 80}}  # compute capability, from version on


def best(dtype) -> int | None:
    """The version that this device takes for 16-bit numbers of this type; None where no tensor cores multiply them."""
    kind = cuda.device()
    if kind == "emulator":
        return 6
    capability = tensor_cores.compute_capability(kind)
    able = [version for version, needs in NEEDS.items() if capability >= needs[np.dtype(dtype).name]]
    return 6 if 3 in able else 2 if able else None


def multiply(name, result, a, b, M, N, K, *, version, bias=None, add=False, pad=None):
    """result (M, N) = or with add += a · b, plus bias (N,) if there is one; sums over K numbers, in float32.

    name: one of cublas.PRODUCTS, which says how a and b lie in memory. pad: see PAD in product.cuh.
    """
    a_runs, b_runs, _ = cublas.PRODUCTS[name]
    defines = f"A_RUNS={int(a_runs)} B_RUNS={int(b_runs)} ADD={int(add)}"
    defines += "" if pad is None else f" PAD={pad}"
    function = kernel_for(result, FILES[version], f"matmul_v{version}", defines)
    shared = STAGES * STAGE_BYTES if version == 6 else 0
    if shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    blocks = ceil_div(M, TILE) * ceil_div(N, TILE)
    arguments = (result, a, b, 0 if bias is None else bias, np.int32(M), np.int32(N), np.int32(K))
    function((blocks,), (THREADS,), arguments, shared_mem=shared)
