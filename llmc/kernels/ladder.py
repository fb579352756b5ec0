"""The steps that led to the kernels of this folder, from simple to clever: what only lessons, benches and tests run.

ladder/<layer>.cu has the older versions of the kernels in <layer>.cu, which it includes if it needs a function from
there; ladder/mixed has those of 16 bits. A function here launches the steps that it names; its arguments
are described in the one of its name in <layer>.py, which comes here when asked for a step (`laddered`). Softmax is a
ladder of its own: a training step computes it within attention and within the loss. The steps of the products are
launched where the others are, in matmul.py, mixed/matmul_own.py and mixed/matmul_hopper.py: they differ in little but
their kernels.
"""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import adamw, ceil_div, cublas, kernel, layernorm, scratch
from llmc.kernels import attention_cached as decoding
from llmc.kernels.attention import MOST, WARPS
from llmc.kernels.attention import check_rows as check_queries
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once, blocks_for, check_elements
from llmc.kernels.reductions import (
    KEPT,
    ROWS,
    WARP,
    blocks_of_warps,
    check_rows,
    chunks_of,
    power_of_two,
    quads_of_lane,
    whole_warps,
)

VERSIONS = {"softmax_forward": 7}
LONGEST = 6144  # numbers of a row whose two sums fit in 48 KB of shared memory, in layernorm_backward's v2 and v3


# ------------------------------------------------------------------------------------------------ element by element


def gelu_forward(out, x, version):
    """v1, v3, v4."""
    _launch_each("pointwise", "gelu_forward", version, x.size, (out, x, np.int32(x.size)), walks=version == 3)


def gelu_backward(dx, dout, x, version):
    """v1, v2."""
    _launch_each("pointwise", "gelu_backward", version, x.size, (dx, dout, x, np.int32(x.size)))


def residual_forward(out, x1, x2, version):
    """v1, v3."""
    _launch_each("pointwise", "residual_forward", version, out.size, (out, x1, x2, np.int32(out.size)))


def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False, *, version):
    """v1, v2."""
    numbers = adamw.settings(lr, beta1, beta2, eps, weight_decay, t)[: adamw.FACTOR]
    arguments = (params, grads, m, v, np.int32(params.size), *numbers, np.int32(clear))
    _launch_each("adamw", "adamw_update", version, params.size, arguments)


def _launch_each(layer, function, version, n, arguments, walks=True):
    """A launch with a thread for each of n elements in v1, else for every four; walks: with a grid-stride loop."""
    grid = blocks_for(n) if version == 1 else blocks_at_once(n, each=4) if walks else blocks_for(n, each=4)
    kernel(layer, f"{function}_v{version}")((grid,), (THREADS,), arguments)


def scale(grads, factor, version):
    """v1."""
    arguments = (grads, np.float32(factor), np.int32(grads.size))
    kernel("norm", f"scale_v{version}")((blocks_at_once(grads.size),), (THREADS,), arguments)


# ------------------------------------------------------------------------------------------------------- the encoder


def encoder_forward(out, tokens, wte, wpe, version):
    """v1 to v3."""
    B, T, C = out.shape
    check_elements(max(out.size, wte.size))
    check_rows(B * T)
    grid = {1: blocks_for(B * T), 2: blocks_for(B * T * C), 3: blocks_for(B * T * C, each=4)}[version]
    sizes = np.int32(B), np.int32(T), np.int32(C)
    kernel("encoder", f"encoder_forward_v{version}")((grid,), (THREADS,), (out, tokens, wte, wpe, *sizes))


def encoder_backward(dwte, dwpe, dout, tokens, version):
    """v1, v2."""
    B, T, C = dout.shape
    sizes, blocks = (np.int32(B), np.int32(T), np.int32(C)), blocks_for(dout.size)
    if version == 1:
        kernel("encoder", "encoder_backward_v1")((blocks,), (THREADS,), (dwte, dwpe, dout, tokens, *sizes))
        return
    positions = kernel("encoder", "encoder_backward_positions_v2")
    positions((blocks_for(T * C),), (THREADS,), (dwpe, dout, *sizes))
    grid, arguments = (B * T, ceil_div(C, THREADS)), (dwte, dout, tokens, np.int32(B * T), np.int32(C))
    kernel("encoder", "encoder_backward_tokens_v2")(grid, (THREADS,), arguments)


# ---------------------------------------------------------------------------------------------------- sums over rows


def softmax_forward(out, x, version=7):
    """*out = exp(x - max) / sum of exp(x - max), over the last axis.

    out, x: float32 (…, C), C-contiguous; out may be x. version: 1 to 7; 7 falls back to 6 for rows that are too long
    for it or do not consist of 128-bit words.
    """
    C = x.shape[-1]
    N = x.size // C
    check_rows(N)
    if version == 7 and not (quads_of_lane(C) and aligned(out, x)):
        version = 6
    keep = C <= KEPT
    shared_mem = 4 * C if version == 6 and keep else 0  # bytes
    grid, block = (N, whole_warps(C)) if version == 6 else _row_grid(version, N, C)
    sizes = (np.int32(N), np.int32(C)) + ((np.int32(keep),) if version == 6 else ())
    defines = f"QUADS={quads_of_lane(C)}" if version == 7 else ""
    function = kernel("softmax", f"softmax_forward_v{version}", defines)
    function((grid,), (block,), (out, x, *sizes), shared_mem=shared_mem)


def layernorm_forward(out, mean, rstd, x, w, b, version):
    """v1 to v5."""
    C = w.size
    N = x.size // C
    check_rows(N)
    grid, block = _row_grid(version, N, C)
    arguments = (out, mean, rstd, x, w, b, np.int32(N), np.int32(C))
    kernel("layernorm", f"layernorm_forward_v{version}")((grid,), (block,), arguments)


def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b, version):
    """v1."""
    C = w.size
    N = x1.size // C
    check_rows(N)
    arguments = (residual, out, mean, rstd, x1, x2, w, b, np.int32(N), np.int32(C))
    kernel("layernorm", f"residual_layernorm_forward_v{version}")((ceil_div(N, ROWS),), (ROWS * WARP,), arguments)


def _row_grid(version, N, C):
    """Blocks and threads for N rows of C: a thread for each, a tree, whole warps, and from v4 on a warp for each."""
    if version <= 3:
        return {1: (ceil_div(N, 4 * WARP), 4 * WARP), 2: (N, power_of_two(C)), 3: (N, whole_warps(C))}[version]
    return ceil_div(N, ROWS), ROWS * WARP


def fused_classifier(losses, logits, targets, dloss, V, version):
    """v1."""
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    numbers = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0), np.int32(dloss is not None)
    function = kernel("classifier", f"fused_classifier_v{version}")
    function((N,), (whole_warps(Vp),), (losses, logits, targets, *numbers))


# ------------------------------------------------------------------------------------------------- sums over columns


def bias_backward(db, dout, version):
    """v1, v2."""
    C = db.size
    N = dout.size // C
    check_rows(N)
    grid, block = {1: ((ceil_div(C, 64),), (64,)), 2: ((ceil_div(C, WARP), chunks_of(N)), (WARP, ROWS))}[version]
    kernel("bias_backward", f"bias_backward_v{version}")(grid, block, (db, dout, np.int32(N), np.int32(C)))


def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd, version):
    """v1 to v3. Raises UserError for rows too long for v2 and v3."""
    C = x.shape[-1]
    N = x.size // C
    check_rows(N)
    if version > 1 and C > LONGEST:
        raise UserError(
            f"layernorm_backward's version {version} takes rows of up to {LONGEST}, not {C}; use version 4."
        )
    numbers = dout, x, w, mean, rstd, np.int32(N), np.int32(C)
    blocks = ceil_div(N, ROWS) if version == 1 else blocks_of_warps(N)
    shared = 0 if version == 1 else 8 * C  # bytes
    if version == 3:
        partial = scratch("layernorm", (blocks, 2, C))
        function = kernel("layernorm_backward", "layernorm_backward_partial_v3")
        function((blocks,), (ROWS * WARP,), (dx, partial, *numbers), shared_mem=shared)
        layernorm.add_partial(dw, db, partial)
    else:
        function = kernel("layernorm_backward", f"layernorm_backward_v{version}")
        function((blocks,), (ROWS * WARP,), (dx, dw, db, *numbers), shared_mem=shared)


def global_norm(grads, version):
    """v1, which adds in any order."""
    grid = blocks_at_once(grads.size, each=4)
    norm = scratch("norm", (grid + 1,), "float64")[:1]  # (1,)
    norm.fill(0)
    kernel("norm", f"global_norm_v{version}")((grid,), (THREADS,), (norm, grads, np.int32(grads.size)))
    kernel("norm", "global_norm_root_v1")((1,), (1,), (norm,))
    return norm


# --------------------------------------------------------------------------------------------------------- attention


def attention_forward(out, stats, qkv, NH, version, tf32=False):
    """v1 and v2: scores, softmax, values, with all probabilities in memory. Raises UserError if those are too many."""
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    check_queries(B, NH, T)
    if heads * T * T > MOST:
        raise UserError(
            f"versions 1 and 2 of attention keep B·NH·T² = {heads * T * T:,} probabilities, more than {MOST:,}; "
            "use a later version."
        )
    p = scratch("probabilities", (B, NH, T, T))
    sizes = [np.int32(size) for size in (T, NH, hs)]
    if version == 2:
        attention_scores(p, qkv)
    else:
        arguments = (p, qkv, np.int32(heads), *sizes)
        kernel("attention", "attention_scores_v1")((blocks_at_once(p.size),), (THREADS,), arguments)
    arguments = (p, stats, np.int32(heads), np.int32(T))
    kernel("attention", "attention_softmax_v1")((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
    if version == 2:
        attention_values(out, p, qkv)
    else:
        arguments = (out, p, qkv, np.int32(B), *sizes)
        kernel("attention", "attention_values_v1")((blocks_at_once(out.size),), (THREADS,), arguments)


def attention_cached(out, cache, qkv, NH, start, version):
    """v2."""
    B, n, _ = out.shape
    if not decoding.splits(cache, qkv, n, start):
        decoding.attention_cached(out, cache, qkv, NH, start)
        return
    check_queries(B, NH, n)
    hs = cache.shape[-1]
    splits, found, sizes = decoding.shares(out, cache, NH, start)
    split = kernel("attention_cached", f"attention_cached_split_v{version}", f"HS={hs}")
    split((B * NH * n, splits), (32 * WARPS,), (found, cache, qkv, *sizes))
    combine = kernel("attention_cached", f"attention_cached_combine_v{version}", f"HS={hs}")
    combine((B * NH * n,), (64,), (out, found, np.int32(n), np.int32(NH), np.int32(splits)))


def attention_scores(p, qkv):
    """*p (B, NH, T, T) = q · kᵀ / √hs for all pairs, later keys included; qkv (B, T, 3C)."""
    B, NH, T, _ = p.shape
    hs = qkv.shape[-1] // 3 // NH
    q, k, _ = _heads(qkv, NH)
    if cuda.device() == "emulator":
        np.matmul(q, k.swapaxes(-1, -2), out=p)  # (B, NH, T, T)
        p *= np.float32(hs**-0.5)
        return
    row = qkv.shape[-1]
    for b in range(B):  # the heads of a sequence are hs numbers apart
        _batched((1, k[b], row, hs), (0, q[b], row, hs), (p[b], T, T * T), (T, T, hs), NH, alpha=hs**-0.5)


def attention_values(out, p, qkv):
    """*out (B, T, C) = p · v; p (B, NH, T, T), qkv (B, T, 3C)."""
    B, NH, T, _ = p.shape
    hs = qkv.shape[-1] // 3 // NH
    v = _heads(qkv, NH)[2]
    heads = out.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)  # (B, NH, T, hs), a view
    if cuda.device() == "emulator":
        heads[...] = p @ v  # (B, NH, T, hs)
        return
    for b in range(B):
        _batched((0, v[b], qkv.shape[-1], hs), (0, p[b], T, T * T), (heads[b], NH * hs, hs), (hs, T, T), NH)


def _heads(qkv, NH):
    """q, k, v: (B, NH, T, hs) each, views of qkv (B, T, 3C)."""
    B, T, C = qkv.shape
    return qkv.reshape(B, T, 3, NH, C // 3 // NH).transpose(2, 0, 3, 1, 4)


def _batched(first, second, target, sizes, count, alpha=1.0):
    """`count` products on the current stream. A factor: (transposed?, array, numbers from row to row, to the next)."""
    from cupy.cuda import cublas as library
    from cupy.cuda import device

    numbers = np.array([alpha, 0.0], np.float32)
    library.gemmStridedBatchedEx(
        *(device.get_cublas_handle(), first[0], second[0], *sizes, numbers.ctypes.data),
        *(first[1].data.ptr, cublas.R_32F, first[2], first[3], second[1].data.ptr, cublas.R_32F, second[2], second[3]),
        *(numbers.ctypes.data + 4, target[0].data.ptr, cublas.R_32F, target[1], target[2], count),
        *(cublas.COMPUTE_32F, cublas.DEFAULT),
    )
