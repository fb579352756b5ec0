"""Launches version 3 of attention, attention_hopper*.cu, whose instructions only Hopper's GPUs have."""

from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, scratch, tensor_cores
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.columns import add_chunks
from llmc.kernels.mixed.matmul_hopper import ARCH, SIDE, SLACK, SQUARE_BYTES, tensor_map
from llmc.kernels.pointwise import aligned, multiprocessors

SIZES = (32, 64, 128)  # of heads
LARGEST_BACK = 64  # of heads in the backward pass
OWN = 128  # queries or keys of a block there
STAGES_BACK, SUMS_BACK = 3, 4 * 2 * 4 * 64  # stages, and bytes of sums, of a block there
TOGETHER = 44  # heads whose keys and values stay in L2, see heads.cuh


class Tile(NamedTuple):
    """Keys of a stage, stages, warpgroups with 64 queries each, turns, heads; see the macros of attention_hopper.cu."""

    KEYS: int = 128
    STAGES: int = 3
    GROUPS: int = 2
    TURNS: int = 1
    TOGETHER: int = TOGETHER

    def shared(self, hs) -> int:
        """Bytes of shared memory of a block: queries twice, keys and values in each stage."""
        return (2 * self.GROUPS + 2 * self.STAGES * self.KEYS // SIDE) * ceil_div(hs, SIDE) * SQUARE_BYTES + SLACK

    @property
    def defines(self) -> str:
        """ "KEYS=128 …", for the compiler."""
        return " ".join(f"{name}={value}" for name, value in zip(self._fields, self))


def fits(out, qkv, NH) -> bool:
    """Whether this device has the instructions, and the kernel takes heads of this size."""
    hopper = cuda.device() == "emulator" or tensor_cores.compute_capability(cuda.device()) == 90
    return hopper and out.shape[2] // NH in SIZES and aligned(out, qkv)


def tile_for(hs) -> Tile:
    """As many stages as there is room for."""
    return Tile(STAGES=3 if hs <= SIDE else 2)


def attention_forward(out, stats, qkv, NH, tile=None):
    """*out, *stats from qkv, for which `fits` is true. Shapes and types: see attention.py."""
    B, T, C = out.shape
    hs, tile = C // NH, tile or tile_for(C // NH)
    function = kernel_for(out, "attention_hopper", "attention_forward_v3", f"HS={hs} {tile.defines}", ARCH)
    if tile.shared(hs) > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = tile.shared(hs)
    blocks = min(multiprocessors(cuda.device()), B * NH * ceil_div(T, SIDE * tile.GROUPS))
    arguments = (out, stats, tensor_map(qkv, B, T, 3 * C), *(np.int32(n) for n in (B, T, NH)))
    function((blocks,), (128 * (1 + tile.GROUPS),), arguments, shared_mem=tile.shared(hs))


def attention_backward(dqkv, dout, out, stats, qkv, NH, together=TOGETHER, db=None, accumulate=True, gradients=1.0):
    """*dqkv from dout and what the forward pass read and wrote; heads have 32 or 64 numbers, and 64 for 8 bits.

    dqkv may be uint8: e5m2, multiplied by gradients. Then +db (3C,), 16 bits, += its column sums before that; = them,
    without accumulate.
    """
    B, T, C = out.shape
    hs, delta = C // NH, scratch("delta", (B, NH, T))
    sizes = [np.int32(n) for n in (B * NH, T, NH, hs)]
    launch = kernel_for(out, "attention_tensor_backward", "attention_backward_delta_v2", f"HS={hs}")
    launch((ceil_div(B * NH * T, 16),), (128,), (delta, dout, out, *sizes))
    maps = tensor_map(qkv, B, T, 3 * C), tensor_map(dout, B, T, C)
    rows = B * ceil_div(T, OWN) * OWN // SIDE
    partial = 0 if db is None else scratch("attention bias", (rows, 3 * C))
    arguments = (dqkv, partial, np.float32(gradients), stats, delta, *maps, *(np.int32(n) for n in (B, T, NH)))
    shared = (2 * 2 * OWN // SIDE + STAGES_BACK * 2) * SQUARE_BYTES + SUMS_BACK + SLACK
    blocks = min(multiprocessors(cuda.device()), B * NH * ceil_div(T, OWN))
    for which in ("query", "key"):
        name, defines = f"attention_backward_{which}_v3", f"HS={hs} STAGES={STAGES_BACK} TOGETHER={together}"
        function = kernel_for(out, "attention_hopper_backward", name, defines, ARCH, out=dqkv)
        if shared > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = shared
        function((blocks,), (384,), arguments, shared_mem=shared)
    if db is not None:
        add_chunks((db,), partial, kept=int(accumulate))
