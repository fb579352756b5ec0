"""Launches the kernels of encoder.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div
from llmc.kernels.encoder import sort_positions
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.columns import across
from llmc.kernels.mixed.pointwise import EACH
from llmc.kernels.pointwise import THREADS, blocks_for, check_elements
from llmc.kernels.reductions import ROWS, WARP, check_rows


def encoder_forward(out, tokens, wte, wpe):
    """*out = wte[tokens] + wpe[:T].

    out (B, T, C): float32 or, in fp8, 16 bits. tokens: int32 (B, T), each below Vp. wte (Vp, C), wpe (maxT, C), T ≤
    maxT: 16 bits.
    """
    B, T, C = out.shape
    check_rows(B * T)
    check_elements(max(out.size, wte.size))
    sizes = np.int32(B * T), np.int32(T), np.int32(C)
    launch = kernel_for(wte, "encoder", "encoder_forward_v1", stream=out)
    launch((ceil_div(B * T, ROWS),), (THREADS,), (out, tokens, wte, wpe, *sizes))


def encoder_forward_at(out, tokens, wte, wpe, start):
    """*out = wte[tokens] + wpe[start], for a launch that is recorded and repeated.

    out (B, 1, C): likewise. tokens: int32 (B,), each below Vp. start: int32 (1,) where kernels run. The rest as above.
    """
    B, _, C = out.shape
    check_rows(B)
    launch = kernel_for(wte, "encoder", "encoder_forward_at_v1", stream=out)
    launch((ceil_div(B, ROWS),), (THREADS,), (out, tokens, wte, wpe, start, np.int32(B), np.int32(C)))


def encoder_backward(dwte, dwpe, dout, tokens):
    """+dwte, +dwpe from dout; a token that occurs twice receives both rows.

    dwte (Vp, C), dwpe (maxT, C), of which the first T rows change: 16 bits. dout (B, T, C): as out. tokens: int32
    (B, T), each below Vp.
    """
    B, T, C = dout.shape
    check_rows(B * T)
    check_elements(max(dout.size, dwte.size))
    launch = kernel_for(dwpe, "encoder", "encoder_backward_positions_v1", stream=dout)
    launch((blocks_for(T * C, EACH),), (THREADS,), (dwpe, dout, np.int32(B), np.int32(T), np.int32(C)))
    arguments = (dwte, dout, sort_positions(tokens), np.int32(B * T), np.int32(C))
    launch = kernel_for(dwte, "encoder", "encoder_backward_tokens_v1", stream=dout)
    launch((B * T, across(C)), (WARP, ROWS), arguments)
