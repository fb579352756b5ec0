"""Whether this GPU has tensor cores that multiply in TF32, and which versions of a kernel use them."""

from functools import lru_cache

from llmc import cuda
from llmc.kernels import cublas


@lru_cache
def compute_capability(kind) -> int:
    """90 for a Hopper GPU; 0 on the emulator."""
    return int(cuda.xp.cuda.Device().compute_capability) if kind == "gpu" else 0


def available(kind) -> bool:
    """Whether this device has them, as GPUs since Ampere do. The emulator only imitates their instructions, slowly."""
    return compute_capability(kind) >= 80


def newest(plain, tensor, kind) -> int:
    """The version that the engine takes: `plain`, or one of `tensor`, the exact one and the one that rounds to TF32."""
    return tensor[cublas.tf32()] if available(kind) else plain
