"""Tensor maps as kernels on the emulator get them; ../../tensor_maps.py makes them."""

import struct

import numpy as np

SIZE, MAGIC = 128, 0x70616D5F636D6C6C  # bytes of a map, and what they begin with


class TensorMap(np.ndarray):
    """(1,), one element of 128 bytes, as CuPy passes structs: a CUtensorMap by value. It describes `array`."""

    array = box = swizzle = None

    def __array_finalize__(self, other):
        for name in ("array", "box", "swizzle"):
            setattr(self, name, getattr(other, name, None))

    @property
    def memory(self) -> np.ndarray:
        """The array or, for one with gaps or in another order, all that lies between its first and last elements."""
        if self.array.flags.c_contiguous:
            return self.array
        item = self.array.itemsize
        reach = sum((n - 1) * stride for n, stride in zip(self.array.shape, self.array.strides)) + item
        return np.lib.stride_tricks.as_strided(self.array, (reach // item,), (item,))  # (elements,)

    def at(self, address: int) -> bytes:
        """The emulator's map, with the array at another address."""
        return struct.pack("<QQ", MAGIC, address) + self.tobytes()[16:]


def described_by(value) -> TensorMap | None:
    """The map that an argument is, or was before np.asarray; None for anything else."""
    while isinstance(value, np.ndarray) and not isinstance(value, TensorMap):
        value = value.base
    return value if isinstance(value, TensorMap) and value.nbytes == SIZE else None


def packed(address, item, mode, sizes, strides, box) -> bytes:
    """The bytes of a map, as `TensorMap` in ../runtime/hopper.h: axis 0 is the innermost, `mode` its swizzle."""

    def fives(values, count):
        return (*values, *[0] * (count - len(values)))

    filled = struct.pack(
        "<QQ4Q5I5H3B",
        *(MAGIC, address, *fives(strides, 4), *fives(sizes, 5), *fives(box, 5)),
        *(len(sizes), item, mode),
    )
    return filled.ljust(SIZE, b"\0")
