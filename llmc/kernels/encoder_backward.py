"""Launches the kernels of encoder_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import THREADS, blocks_for

VERSIONS = {"encoder_backward": 1}


def encoder_backward(dwte, dwpe, dout, tokens, version=None):
    """+dwte, +dwpe from dout; a token that occurs twice receives both rows, in the order of their positions.

    dwte: float32 (Vp, C). dwpe: float32 (maxT, C), of which the first T rows change. dout: float32 (B, T, C).
    tokens: int32 (B, T), each below Vp. All are C-contiguous.
    """
    B, T, C = dout.shape
    grid, sizes = (B * T, ceil_div(C, THREADS)), (np.int32(B * T), np.int32(C))
    kernel("encoder_backward", "encoder_backward_tokens_v1")(grid, (THREADS,), (dwte, dout, tokens, *sizes))
    arguments = (dwpe, dout, np.int32(B), np.int32(T), np.int32(C))
    kernel("encoder_backward", "encoder_backward_positions_v1")((blocks_for(T * C),), (THREADS,), arguments)
