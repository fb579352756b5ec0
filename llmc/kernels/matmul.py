"""The linear layer: products by a library (cuBLAS on a GPU, NumPy's BLAS without one) or by our kernels.

LLMC_MATMUL=kernel selects our own products; so does `multiply_by("kernel")`. LLMC_TF32=1 lets cuBLAS round inputs to
TF32 (10 bits of mantissa, sums in float32), which tensor cores multiply many times faster; so does `cublas.tf32(True)`.
It is off by default, as in PyTorch: then results agree with other backends to 1e-5, with TF32 to about 1e-3.

Versions 1 to 5 are in matmul.cu, 6 to 8 in matmul_tiles.cu, 9 in matmul_warp.cu.
"""

import os
from functools import lru_cache

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, kernel, scratch, tiling
from llmc.kernels.bias_backward import bias_backward
from llmc.kernels.pointwise import THREADS, blocks_at_once

VERSIONS = {"matmul_forward": 9, "matmul_gelu_forward": 9, "matmul_backward": 9}
BLOCKS = {  # version: (rows and columns of results of a block, its threads), as in matmul.cu and matmul_tiles.cu
    **{1: (16, 256), 2: (16, 256), 3: (32, 1024), 4: (64, 512), 5: (128, 256)},
    **{6: (128, 256), 7: (128, 256), 8: (128, 256)},
}
LARGEST = 2**31 - 2**20  # numbers in an array: indices have 32 bits, and loops run a little past the end
WAYS = ("library", "kernel")

_way = None  # what `multiply_by` has returned last


def multiply_by(way=None) -> str:
    """What multiplies, "library" or "kernel"; with an argument, from now on. Raises UserError for anything else."""
    global _way
    way = way or _way or os.environ.get("LLMC_MATMUL", "library")
    if way not in WAYS:
        raise UserError(f"matrices are multiplied by library or kernel (LLMC_MATMUL), not by {way!r}.")
    _way = way
    return _way


def matmul_forward(out, x, w, b, version=None):
    """*out = x · wᵀ + b.

    out: float32 (B, T, C_out). x: float32 (B, T, C_in). w: float32 (C_out, C_in). b: float32 (C_out,) or None.
    All are C-contiguous. version: 1 to 9 for our own product; None is the library's, or as `multiply_by` says.
    Raises UserError for an array too large for 32-bit indices.
    """
    _check("matmul_forward", out, x, w)
    if _product("matmul_forward", out, x, w, *w.shape, version, bias=b) or b is None:
        return
    arguments = (out, b, np.int32(out.size), np.int32(b.size))
    kernel("matmul", "bias_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def matmul_gelu_forward(gelu_out, out, x, w, b, version=None):
    """*out as by matmul_forward, *gelu_out = GELU(out), float32 (B, T, C_out).

    In version 9 it is all one kernel; else bias and GELU are.
    """
    _check("matmul_gelu_forward", out, x, w)
    if _product("matmul_forward", out, x, w, *w.shape, version, bias=b, gelu_out=gelu_out):
        return
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    kernel("matmul", "bias_gelu_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def matmul_backward(dx, dw, db, dout, x, w, version=None):
    """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout. dx and db may be None.

    dx, x: float32 (B, T, C_in). dw, w: float32 (C_out, C_in). db: float32 (C_out,). dout: float32 (B, T, C_out).
    All are C-contiguous. version as in matmul_forward. Raises UserError for an array too large for 32-bit indices.
    """
    _check("matmul_backward", dout, x, w)
    C_out, C_in = w.shape
    if dx is not None:
        _product("matmul_backward_input", dx, dout, w, C_in, C_out, version)
    _product("matmul_backward_weight", dw, dout, x, C_in, dout.size // C_out, version)
    if db is not None:
        bias_backward(db, dout)


def _check(name, *arrays):
    """Raise UserError if one of them has more numbers than a kernel can count."""
    largest = max(array.size for array in arrays)
    if largest > LARGEST:
        raise UserError(
            f"{name} has an array of {largest:,} numbers, but its kernels count to {LARGEST:,}; use a smaller batch."
        )


def _product(name, result, a, b, N, K, version, bias=None, gelu_out=None) -> bool:
    """result (M, N) = or += a · b, sums over K numbers. True if bias and GELU are done too.

    Version 9 does both, the library only a bias: its GELU would take longer than a kernel for it.
    """
    version = version or (VERSIONS["matmul_forward"] if multiply_by() == "kernel" else None)
    M = result.size // N
    if version == 9:
        tile, parts = tiling.choose(M, N, K, tiling.multiprocessors(cuda.device()))
        in_warp_tiles(name, result, a, b, M, N, K, tile=tile, parts=parts, bias=bias, gelu_out=gelu_out)
    elif version is None:
        multiply = cublas.on_gpu if cuda.device() == "gpu" else cublas.on_cpu
        multiply(name, result, a, b, M, N, K, bias if gelu_out is None else None)
    else:
        tile, threads = BLOCKS[version]
        file, word = ("matmul", None) if version < 6 else ("matmul_tiles", _word(name, (result, a, b), M, N, K))
        blocks = ceil_div(M, tile) * ceil_div(N, tile)
        function = kernel(file, f"matmul_v{version}", _defines(name, word))
        function((blocks,), (threads,), (result, a, b, np.int32(M), np.int32(N), np.int32(K)))
    return version == 9 or (version is None and gelu_out is None)


def in_warp_tiles(name, result, a, b, M, N, K, *, tile, parts=1, bias=None, gelu_out=None):
    """Version 9 with a tile of tiling.py; several blocks share each tile if parts > 1, and a second kernel adds.

    name: one of cublas.PRODUCTS. result (M, N), a, b: float32, as there. bias: (N,) or None. gelu_out: (M, N) or None.
    """
    given = [array for array in (result, a, b, bias, gelu_out) if array is not None]
    word = _word(name, given, M, N, K)
    bias, gelu_out = 0 if bias is None else bias, 0 if gelu_out is None else gelu_out  # 0 is the null pointer
    part = ceil_div(ceil_div(K, parts), tile.BK) * tile.BK
    parts = ceil_div(K, part)
    grid, block, sizes = (tile.blocks(M, N), parts), (tile.threads,), [np.int32(n) for n in (M, N, K, part)]
    function = kernel("matmul_warp", "matmul_v9", _defines(name, word, tile, add=parts == 1))
    if tile.shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = tile.shared  # more than 48 KB must be requested
    if parts == 1:
        function(grid, block, (result, gelu_out, a, b, bias, *sizes), shared_mem=tile.shared)
        return
    sums = scratch("matmul", (parts, M, N))
    function(grid, block, (sums, 0, a, b, 0, *sizes), shared_mem=tile.shared)
    arguments = (result, gelu_out, sums, bias, np.int32(parts), np.int32(M * N), np.int32(N))
    function = kernel("matmul", "matmul_add_parts_v1", _defines(name))
    function((blocks_at_once(M * N),), (THREADS,), arguments)


def _word(name, arrays, M, N, K) -> int:
    """Floats that can go together: 4 if every row of the result, a and b begins at a multiple of 16 bytes, else 1."""
    a_runs, b_runs, _ = cublas.PRODUCTS[name]
    rows = (N, K if a_runs else M, K if b_runs else N)
    addresses = [a.ctypes.data if isinstance(a, np.ndarray) else a.data.ptr for a in arrays]
    return 4 if all(n % 4 == 0 for n in rows) and all(address % 16 == 0 for address in addresses) else 1


@lru_cache
def _defines(name, word=None, tile=None, add=True) -> str:
    """The macros of a product: see matmul.cu, matmul_tiles.cu and matmul_warp.cu."""
    a_runs, b_runs, adds = cublas.PRODUCTS[name]
    defines = f"A_RUNS={int(a_runs)} B_RUNS={int(b_runs)} ADD={int(adds and add)}"
    return defines + (f" WORD={word}" if word else "") + (f" {tile.defines}" if tile else "")
