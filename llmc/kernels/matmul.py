"""The linear layer: products by a library (cuBLAS on a GPU, NumPy's BLAS without one) or by our kernels.

by="own" selects our own products, by="cublas" those of the library. By default it is the library's, with one exception:
in float32 on Hopper, our own on tensor cores are faster (version 10: each is three products of TF32 numbers, and as
precise as one in float32).

tf32=True lets either of them round factors to TF32 (10 bits of mantissa, sums in float32), which tensor cores multiply
many times faster; a model asks for it with the precision "tf32". Without it results agree with other backends to 1e-5,
with it to about 1e-3. The caller has made sure that the device can do it (`tensor_cores.has_tf32`).

Version 9 is in matmul_warp.cu, 10 and 11 are in matmul_tensor.cu; 1 to 8 are steps of lesson 15, in the folder ladder.
"""

from functools import lru_cache

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, cublas, kernel, scratch, tensor_cores, tiling
from llmc.kernels.bias_backward import bias_backward
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once, blocks_for, check_elements, multiprocessors

VERSIONS = {"matmul_forward": 9, "matmul_gelu_forward": 9, "matmul_backward": 9}
TENSOR_CORES = dict.fromkeys(VERSIONS, (10, 11))  # for GPUs that have them: exact, and with factors rounded to TF32
FASTER = 90, 128  # compute capability on which version 10 is faster than the library, from this many rows on
BLOCKS = {  # version: (rows and columns of results of a block, its threads), as in ladder/
    **{1: (16, 256), 2: (16, 256), 3: (32, 1024), 4: (64, 512), 5: (128, 256)},
    **{6: (128, 256), 7: (128, 256), 8: (128, 256)},
}


def matmul_forward(out, x, w, b, version=None, tf32=False, by="fastest"):
    """*out = x · wᵀ + b.

    out: float32 (B, T, C_out). x: float32 (B, T, C_in). w: float32 (C_out, C_in). b: float32 (C_out,) or None.
    All are C-contiguous. version: 1 to 11 for our own product; None is as `by` says, "fastest", "cublas" or "own", with
    factors rounded to TF32 if tf32. Raises UserError for an array too large for 32-bit indices.
    """
    check_elements(max(array.size for array in (out, x, w)))
    if _product("matmul_forward", out, x, w, *w.shape, version, tf32, by, bias=b) or b is None:
        return
    arguments = (out, b, np.int32(out.size), np.int32(b.size))
    kernel("matmul", "bias_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def matmul_gelu_forward(gelu_out, out, x, w, b, version=None, tf32=False, by="fastest"):
    """*out as in matmul_forward, *gelu_out = GELU(out), float32 (B, T, C_out).

    From version 9 on, all of it is one kernel; otherwise bias and GELU are one.
    """
    check_elements(max(array.size for array in (out, x, w)))
    if _product("matmul_forward", out, x, w, *w.shape, version, tf32, by, bias=b, gelu_out=gelu_out):
        return
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    kernel("matmul", "bias_gelu_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def gelu_again(out, x):
    """*out = GELU(x) as in matmul_gelu_forward, to the last bit; both float32 (B, T, C_out), C-contiguous."""
    grid = (blocks_for(x.size, each=4),)
    kernel("matmul", "gelu_again_v1")(grid, (THREADS,), (out, x, np.int32(x.size)))


def matmul_backward(dx, dw, db, dout, x, w, accumulate=True, version=None, tf32=False, by="fastest"):
    """*dx = dout · w; +dw += doutᵀ · x (= it, without accumulate); +db += column sums of dout. dx, db may be None.

    dx, x: float32 (B, T, C_in). dw, w: float32 (C_out, C_in). db: float32 (C_out,). dout: float32 (B, T, C_out).
    All are C-contiguous. version, tf32, by: as in matmul_forward. Raises UserError for an array too large for 32-bit
    indices.
    """
    check_elements(max(array.size for array in (dout, x, w)))
    C_out, C_in = w.shape
    if dx is not None:
        _product("matmul_backward_input", dx, dout, w, C_in, C_out, version, tf32, by)
    _product("matmul_backward_weight", dw, dout, x, C_in, dout.size // C_out, version, tf32, by, accumulate=accumulate)
    if db is not None:
        bias_backward(db, dout)


def _product(name, result, a, b, N, K, version, tf32=False, by="fastest", bias=None, gelu_out=None, accumulate=True):
    """result (M, N) = or += a · b, sums over K numbers. Returns True if bias and GELU are done too.

    Versions from 9 on do both, the library only a bias: its GELU would take longer than a kernel for it.
    """
    M = result.size // N
    version = version or _chosen(M, tf32, by)
    if version is None:
        multiply = cublas.on_gpu if cuda.device() == "gpu" else cublas.on_cpu
        multiply(name, result, a, b, M, N, K, bias if gelu_out is None else None, tf32, accumulate)
    elif version >= 9:
        tiles = tiling.TILES if version == 9 else tiling.TENSOR_CORES
        tile, parts = tiling.choose(M, N, K, multiprocessors(cuda.device(), imitated=16), tiles)
        how = dict(tile=tile, parts=parts, version=version, accumulate=accumulate)
        in_warp_tiles(name, result, a, b, M, N, K, **how, bias=bias, gelu_out=gelu_out)
    else:
        tile, threads = BLOCKS[version]
        file, word = ("matmul", None) if version < 6 else ("matmul_tiles", _word(name, (result, a, b), M, N, K))
        blocks = ceil_div(M, tile) * ceil_div(N, tile)
        function = kernel(file, f"matmul_v{version}", _defines(name, word, add=accumulate))
        function((blocks,), (threads,), (result, a, b, np.int32(M), np.int32(N), np.int32(K)))
    return version in (9, 10, 11) or (version is None and gelu_out is None)


def _chosen(M, tf32, by) -> int | None:
    """The version for a product with M rows, None for the library's."""
    kind = cuda.device()
    if by == "own":
        return tensor_cores.newest(VERSIONS["matmul_forward"], TENSOR_CORES["matmul_forward"], kind, tf32)
    own = by == "fastest" and kind == "gpu" and not tf32 and M >= FASTER[1]
    return TENSOR_CORES["matmul_forward"][0] if own and tensor_cores.compute_capability(kind) == FASTER[0] else None


def description(tf32=False, by="fastest") -> str:
    """What multiplies large matrices: "cuBLAS 13.1.0 (TF32)", "matmul version 10 (float32 on tensor cores)"."""
    version = _chosen(FASTER[1], tf32, by)
    if version is None:
        return cublas.description(tf32)
    numbers = "TF32" if version == 11 else "float32"
    return f"matmul version {version} ({numbers}{' on tensor cores' if version >= 10 else ''})"


def in_warp_tiles(name, result, a, b, M, N, K, *, tile, parts=1, version=9, bias=None, gelu_out=None, accumulate=True):
    """Version 9, 10 or 11 with a tile of tiling.py; several blocks share each if parts > 1, and a second kernel adds.

    name: one of cublas.PRODUCTS. result (M, N), a, b: float32, as there. bias: (N,) or None. gelu_out: (M, N) or None.
    """
    given = [array for array in (result, a, b, bias, gelu_out) if array is not None]
    word = _word(name, given, M, N, K)
    bias, gelu_out = 0 if bias is None else bias, 0 if gelu_out is None else gelu_out  # 0 is the null pointer
    part = ceil_div(ceil_div(K, parts), tile.BK) * tile.BK
    parts = ceil_div(K, part)
    grid, block, sizes = (tile.blocks(M, N), parts), (tile.threads,), [np.int32(n) for n in (M, N, K, part)]
    defines = _defines(name, word, tile, add=accumulate and parts == 1)
    if version == 9:
        function, shared = kernel("matmul_warp", "matmul_v9", defines), tile.shared
    else:
        function = kernel("matmul_tensor", "matmul_v10", f"{defines} EXACT={int(version == 10)}")
        shared = tile.shared_unturned
    if shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    if parts == 1:
        function(grid, block, (result, gelu_out, a, b, bias, *sizes), shared_mem=shared)
        return
    sums = scratch("matmul", (parts, M, N))
    function(grid, block, (sums, 0, a, b, 0, *sizes), shared_mem=shared)
    arguments = (result, gelu_out, sums, bias, np.int32(parts), np.int32(M * N), np.int32(N))
    function = kernel("matmul", "matmul_add_parts_v1", _defines(name, add=accumulate))
    function((blocks_at_once(M * N),), (THREADS,), arguments)


def _word(name, arrays, M, N, K) -> int:
    """Floats that can go together: 4 if every row of the result, a and b begins at a multiple of 16 bytes, else 1."""
    a_runs, b_runs, _ = cublas.PRODUCTS[name]
    rows = (N, K if a_runs else M, K if b_runs else N)
    return 4 if all(n % 4 == 0 for n in rows) and aligned(*arrays) else 1


@lru_cache
def _defines(name, word=None, tile=None, add=True) -> str:
    """The macros of a product: see matmul.cu, matmul_tiles.cu and matmul_warp.cu."""
    a_runs, b_runs, adds = cublas.PRODUCTS[name]
    defines = f"A_RUNS={int(a_runs)} B_RUNS={int(b_runs)} ADD={int(adds and add)}"
    return defines + (f" WORD={word}" if word else "") + (f" {tile.defines}" if tile else "")
