"""Tensor maps: how a GPU's copy machine (TMA) learns the shape of an array, and which box of it to copy at once.

    map_a = tensor_map(a, box=(64, 64), swizzle=128)
    kernel((grid,), (128,), (map_a, …))  # void kernel(const __grid_constant__ CUtensorMap map_a, …)

The same lines work on a GPU and on the emulator. A pointer `const CUtensorMap*` takes the map too: on a GPU, its bytes
in the GPU's memory, xp.asarray(map_a.view("u1")).
"""

import ctypes

import numpy as np

from llmc.cuda.emulator.calling.maps import SIZE, TensorMap, packed
from llmc.errors import KernelError

SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes of a row -> the driver's number
MOST_IN_BOX, MOST_AXES = 256, 5
DRIVER_TYPES = {  # by name of the dtype
    **{"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5},
    **{"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "int8": 0, "int16": 1, "bool": 0},
    **{"float8_e4m3fn": 0, "float8_e5m2": 0},
}


def tensor_map(array, box, swizzle: int = 0) -> TensorMap:
    """The map of an array of xp (one to five axes, the last one contiguous), from which `box` is copied at once.

    box: elements along each axis, in the array's order. swizzle: 0, 32, 64 or 128, the bytes of a row within which
    pieces of 16 bytes change places, so that columns do not meet in one bank. A kernel counts axes the other way
    round: its first coordinate is along the array's last axis. Raises KernelError for what the copy machine cannot do.
    """
    name, item = array.dtype.name, array.dtype.itemsize
    steps = enumerate(zip(array.shape, array.strides))
    box = tuple(int(n) for n in ((box,) if isinstance(box, (int, np.integer)) else box))
    # nothing steps along an axis of one element, where NumPy may give any stride
    strides = tuple(int(stride) if n > 1 else (16, item)[i == array.ndim - 1] for i, (n, stride) in steps)
    _check(name, item, tuple(array.shape), strides, box, swizzle)
    address = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    if address % 16:
        raise _wrong("the array begins at an address that is not a multiple of 16 bytes: copy it")
    inner = (tuple(array.shape)[::-1], strides[::-1][1:], box[::-1])  # axis 0 of a map is the last of an array
    on_host = isinstance(array, np.ndarray)
    filled = packed(address, item, SWIZZLES[swizzle], *inner) if on_host else _drivers(address, name, swizzle, *inner)
    made = TensorMap((1,), f"V{SIZE}")  # its own memory: so NumPy finds it again behind np.asarray
    made[:] = np.frombuffer(filled, made.dtype)  # (1,)
    made.array, made.box, made.swizzle = array, box, swizzle
    return made


def _check(name, item, shape, strides, box, swizzle):
    if name not in DRIVER_TYPES:
        raise _wrong(f"it does not support {name}; view the array as unsigned integers of the same size")
    if not 1 <= len(shape) <= MOST_AXES or 0 in shape:
        raise _wrong(f"the array has shape {shape}; it takes one to five axes, none of them empty")
    if len(box) != len(shape):
        raise _wrong(f"the box {box} has {len(box)} axes, the array {len(shape)}")
    if not all(1 <= n <= MOST_IN_BOX for n in box):
        raise _wrong(f"the box is {box}; along each axis it takes 1 to {MOST_IN_BOX} elements")
    if strides[-1] != item:
        raise _wrong(f"the last axis is not contiguous (strides {strides}): pass a copy, np.ascontiguousarray")
    for axis, stride in enumerate(strides[:-1]):
        if stride % 16 or not 0 < stride < 1 << 40:
            raise _wrong(
                f"along axis {axis} elements lie {stride} bytes apart, not a positive multiple of 16: pad the rows"
            )
    row = box[-1] * item
    if row % 16:
        raise _wrong(f"a row of the box has {box[-1]} · {item} = {row} bytes, which is not a multiple of 16")
    if swizzle not in SWIZZLES:
        raise _wrong(f"swizzle is {swizzle!r}; it must be 0, 32, 64 or 128")
    if swizzle and row > swizzle:
        raise _wrong(
            f"a row of the box has {box[-1]} · {item} = {row} bytes, but with swizzle={swizzle} at most {swizzle} fit: "
            f"make the box {swizzle // item} elements wide and copy several"
        )


def _wrong(what):
    return KernelError(f"tensor_map: {what}.")


def _drivers(address, name, swizzle, sizes, strides, box) -> bytes:
    """The driver's cuTensorMapEncodeTiled."""
    storage = ctypes.create_string_buffer(SIZE + 64)
    start = -(-ctypes.addressof(storage) // 64) * 64  # it must begin at a multiple of 64
    rank = len(sizes)
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(start),
        ctypes.c_int(DRIVER_TYPES[name]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*sizes),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),  # every element, none left out
        *(ctypes.c_int(0), ctypes.c_int(SWIZZLES[swizzle]), ctypes.c_int(2), ctypes.c_int(0)),  # 2: L2 lines of 128 B
    )
    if status:
        raise _wrong(f"the driver refuses it (CUDA error {status}); is this a Hopper GPU or a newer one?")
    return ctypes.string_at(start, SIZE)
