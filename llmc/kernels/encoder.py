"""Launches the kernels of encoder.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import THREADS, blocks_for, check_elements
from llmc.kernels.reductions import ROWS, check_rows

VERSIONS = {"encoder_forward": 4}


def encoder_forward(out, tokens, wte, wpe, version=None):
    """*out = wte[tokens] + wpe[:T].

    out: float32 (B, T, C). tokens: int32 (B, T), each below Vp. wte: float32 (Vp, C). wpe: float32 (maxT, C), T ≤ maxT.
    All are C-contiguous. version: 1 to 4, None is the last.
    """
    version = version or VERSIONS["encoder_forward"]
    B, T, C = out.shape
    check_elements(max(out.size, wte.size))
    check_rows(B * T)
    grid = {
        1: blocks_for(B * T),
        2: blocks_for(B * T * C),
        3: blocks_for(B * T * C, each=4),
        4: ceil_div(B * T, ROWS),
    }[version]
    sizes = np.int32(B), np.int32(T), np.int32(C)
    kernel("encoder", f"encoder_forward_v{version}")((grid,), (THREADS,), (out, tokens, wte, wpe, *sizes))


def encoder_forward_at(out, tokens, wte, wpe, start):
    """*out = wte[tokens] + wpe[start], for a launch that is recorded and repeated.

    out: float32 (B, 1, C). tokens: int32 (B,), each below Vp. start: int32 (1,) where kernels run. The rest as above.
    """
    B, _, C = out.shape
    check_rows(B)
    arguments = (out, tokens, wte, wpe, start, np.int32(B), np.int32(C))
    kernel("encoder", "encoder_forward_at_v1")((ceil_div(B, ROWS),), (THREADS,), arguments)
