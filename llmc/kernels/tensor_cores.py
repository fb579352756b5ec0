"""Whether a device has tensor cores that multiply in TF32, and which versions of a kernel use them."""

from functools import lru_cache

from llmc import cuda


@lru_cache
def compute_capability(kind) -> int:
    """90 for a Hopper GPU; 0 on the emulator."""
    return int(cuda.xp.cuda.Device().compute_capability) if kind == "gpu" else 0


def available(kind) -> bool:
    """Whether this device has them, as GPUs since Ampere do. The emulator only imitates their instructions, slowly."""
    return compute_capability(kind) >= 80


def has_tf32(kind) -> bool:
    """Whether this device can round factors to TF32: where there are tensor cores, or an imitation of them."""
    return kind == "emulator" or available(kind)


def newest(plain, tensor, kind, tf32) -> int:
    """The version that the engine takes: `plain`, or one of `tensor`, the exact one and the one that rounds to TF32."""
    if tf32:
        return tensor[1]
    return tensor[0] if available(kind) else plain
