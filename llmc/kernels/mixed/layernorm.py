"""Launches the kernels of layernorm.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, scratch
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.columns import across, add_chunks, bias_backward
from llmc.kernels.mixed.pointwise import EACH
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import ROWS, WARP, check_rows, chunks_that_fill, most_shared_memory

EIGHTS = 7  # of a row that a lane can hold in registers: rows of up to 1792 numbers
WARPS, ROOM = 12, 156 * 1024  # of a block of the backward pass, at most; on an H200, with more of them it was slower
FEW_ROWS = 8  # rows up to which each has a block for itself


def layernorm_forward(out, mean, rstd, x, w, b):
    """*out = (x - *mean) · *rstd · w + b, over the last axis.

    out (B, T, C): 16 bits, or uint8 for e4m3. w, b (C,): 16 bits. mean, rstd (B, T): float32. x (B, T, C), of the
    residual stream: float32, or 16 bits.
    """
    _launch_rows("layernorm_forward_v1", mean.size, w, (out, mean, rstd, x, w, b), out, x)


def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b):
    """*residual = x1 + x2, then layernorm_forward of it, in one kernel.

    out (B, T, C): as above. x2 (B, T, C), w, b (C,): 16 bits. residual, x1 (B, T, C), mean, rstd (B, T): float32;
    the former two may have 16 bits.
    """
    N, C, arguments = mean.size, w.size, (residual, out, mean, rstd, x1, x2, w, b)
    if C % EACH == 0 and C <= WARP * EACH * EIGHTS and aligned(residual, out, x1, x2, w, b):
        check_rows(N)
        launch = kernel_for(w, "layernorm", "residual_layernorm_forward_v2", _defines(C, x1), out=out, stream=x1)
        rows = 1 if N <= FEW_ROWS else 4
        launch((ceil_div(N, rows),), (rows * WARP,), (*arguments, np.int32(N), np.int32(C)))
        return
    _launch_rows("residual_layernorm_forward_v1", N, w, arguments, out, x1)


def layernorm_again(out, x, w, b, mean, rstd):
    """*out = (x - mean) · rstd · w + b, over the last axis, bit for bit what the functions above wrote.

    Shapes and types are the same.
    """
    _launch_rows("layernorm_again_v1", mean.size, w, (out, x, w, b, mean, rstd), out, x)


def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd):
    """+dx, +dw, +db from dout and what the forward pass stored.

    dout (B, T, C), dw, db, w (C,): 16 bits. mean, rstd (B, T): float32. dx, x (B, T, C): float32, or 16 bits.
    """
    if _in_registers_fits(dx, dout, x, w):
        partial = _in_registers(dx, None, dout, x, w, mean, rstd)
    else:
        partial = _two_readings(dx, dout, x, w, mean, rstd)
    add_chunks((dw, db), partial, kept=2)


def layernorm_backward_rounded(dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate=True, gradients=None):
    """layernorm_backward, and +dsum (C,), 16 bits, += column sums of dx in 16 bits; = them, without accumulate.

    Returns dx in 16 bits, (B, T, C), in memory that the next call overwrites. gradients: what that is multiplied by and
    rounded to e5m2, uint8, if the fast kernel can take these arrays.
    """
    fits = _in_registers_fits(dx, dout, x, w)
    rounded = scratch("rounded", dx.shape, "uint8" if fits and gradients else w.dtype)  # (B, T, C)
    if fits:
        partial = _in_registers(dx, rounded, dout, x, w, mean, rstd, gradients or 1.0)
        add_chunks((dw, db, dsum), partial, kept=2 + accumulate)
    else:
        layernorm_backward(dx, dw, db, dout, x, w, mean, rstd)
        if dx.dtype == w.dtype:
            bias_backward(dsum, dx, accumulate=accumulate)
            return dx
        bias_backward(dsum, dx, rounded, accumulate)
    return rounded


def _in_registers_fits(dx, dout, x, w):
    """Whether versions 2 and 3 can take these arrays."""
    C = w.size
    fits = C <= WARP * EACH * EIGHTS and _block(C, x)[0] > 0
    return fits and C % EACH == 0 and aligned(dx, dout, x, w)


def _block(C, x) -> tuple[int, int]:
    """Warps of a block in the backward pass, and bytes of shared memory: for each, two rows of x, dx and dout.

    x: of the residual stream, (…, C), for its type.
    """
    rows = 2 * ceil_div(C, WARP * EACH) * WARP * EACH * (2 * x.dtype.itemsize + 2)
    warps = min(WARPS, min(ROOM, most_shared_memory(cuda.device())) // rows)
    warps -= warps % 2 if warps > 2 else 0  # a multiprocessor has four parts, which should have the same to do
    return warps, warps * rows


def _defines(C, x) -> str:
    """The same for both passes, so that the file is compiled once."""
    return f"EIGHTS={ceil_div(C, WARP * EACH)} WARPS={max(_block(C, x)[0], 1)}"


def _in_registers(dx, rounded, dout, x, w, mean, rstd, scale=1.0):
    """+dx, and sums of dw and db, (blocks, 2C), by version 2; with *rounded, by version 3, which sums that too: 3C."""
    N, C = mean.size, w.size
    check_rows(N)
    warps, room = _block(C, x)
    blocks = min(multiprocessors(cuda.device()), ceil_div(N, warps))
    name, also = "layernorm_backward_v2", ()
    if rounded is not None:
        name, also = "layernorm_backward_v3", (rounded, np.float32(scale))
    partial = scratch("layernorm", (blocks, (3 if also else 2) * C))
    launch = kernel_for(w, "layernorm", name, _defines(C, x), out=rounded, stream=x)
    if launch.max_dynamic_shared_size_bytes < room:
        launch.max_dynamic_shared_size_bytes = room  # more than 48 KB must be requested
    arguments = (dx, *also, partial, dout, x, w, mean, rstd, np.int32(N), np.int32(C))
    launch((blocks,), (warps * WARP,), arguments, shared_mem=room)
    return partial


def _two_readings(dx, dout, x, w, mean, rstd):
    """+dx, and sums of dw and db, (chunks, 2C), by version 1, for all rows."""
    N, C = mean.size, w.size
    _launch_rows("layernorm_backward_input_v1", N, w, (dx, dout, x, w, mean, rstd), stream=x)
    chunks = chunks_that_fill(N, across(C))
    partial = scratch("layernorm", (chunks, 2 * C))
    launch = kernel_for(w, "layernorm", "layernorm_backward_columns_v1", stream=x)
    arguments = (partial, dout, x, mean, rstd, np.int32(N), np.int32(C))
    launch((across(C), chunks), (WARP, ROWS), arguments)
    return partial


def _launch_rows(name, N, w, arguments, out=None, stream=None):
    """A launch with one warp for each of N rows as long as w."""
    check_rows(N)
    kernel_for(w, "layernorm", name, out=out, stream=stream)(
        (ceil_div(N, ROWS),), (ROWS * WARP,), (*arguments, np.int32(N), np.int32(w.size))
    )
