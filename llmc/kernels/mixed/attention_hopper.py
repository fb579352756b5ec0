"""Launches version 3 of attention's forward pass, attention_hopper.cu, whose instructions only Hopper's GPUs have."""

from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, tensor_cores
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.matmul_hopper import ARCH, SIDE, SLACK, SQUARE_BYTES, multiprocessors, tensor_map
from llmc.kernels.pointwise import aligned

SIZES = (32, 64, 128)  # of heads


class Tile(NamedTuple):
    """Keys of a stage, stages, warpgroups with 64 queries each; see the macros of attention_hopper.cu."""

    KEYS: int = 128
    STAGES: int = 2
    GROUPS: int = 2

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


def attention_forward(out, stats, qkv, NH, tile=None):
    """*out, *stats from qkv, for which `fits` is true. Shapes and types: see attention.py."""
    B, T, C = out.shape
    hs, tile = C // NH, tile or Tile()
    function = kernel_for(out, "attention_hopper", "attention_forward_v3", f"HS={hs} {tile.defines}", ARCH)
    if tile.shared(hs) > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = tile.shared(hs)
    blocks = min(multiprocessors(cuda.device()), B * NH * ceil_div(T, SIDE * tile.GROUPS))
    arguments = (out, stats, tensor_map(qkv, B, T, 3 * C), *(np.int32(n) for n in (B, T, NH)))
    function((blocks,), (128 * (1 + tile.GROUPS),), arguments, shared_mem=tile.shared(hs))
