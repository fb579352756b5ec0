"""How the kernels of clean/language.cu are launched, as in clean.py."""

import numpy as np

from llmc.tests.emulator.gallery import draw, integers, launch, zeros
from llmc.tests.emulator.gallery.maps import maps, maps_ints

I32, U32, U8, F16 = np.int32, np.uint32, np.uint8, np.float16


def in_place():
    x = draw(100)
    return [x, x, 100], {0: x + 1}


def overlapping_views():
    x = draw(101)
    return [zeros(100), x[:100], x[1:], 100], {0: x[:100] + x[1:]}


def halves():
    x = draw(96)
    return [zeros(96, dtype=F16), x], {0: x.astype(F16)}


def bfloat16(x):
    """The upper 16 bits of float32, rounded to the nearest, ties to even."""
    bits = x.view(U32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def bfloats():
    x = draw(96)
    return [zeros(96, dtype=np.uint16), x], {0: bfloat16(x)[::-1]}


def some_bytes():
    x = integers(256, 128, dtype=U8)
    return [zeros(128, dtype=U8), x], {0: (x.reshape(2, 64)[:, ::-1] ^ 0xFF).ravel()}


def smooth(x):
    return 2.0 * (0.5 * x + 0.25 * np.pad(x, (1, 0))[:-1] + 0.25 * np.pad(x, (0, 1))[1:])


def line():
    steps = np.array((1.5, 3), [("slope", np.float32), ("steps", I32)])[()]
    return [zeros(8), steps, np.float32(2)], {0: (2.0 + np.arange(8)) * 1.5**3}


def three_dimensions():
    z, y, x = np.indices((6, 6, 4))
    return [zeros(6, 6, 4, dtype=I32)], {0: 10000 * z + 100 * y + x}


def fibonacci():
    numbers = [0, 1]
    while len(numbers) < 16:
        numbers.append(numbers[-1] + numbers[-2])
    return [zeros(16, dtype=I32)], {0: numbers}


def hashes():
    x = integers(2**31, 32).astype(U32)
    h = x.copy()
    for _ in range(5):
        h = (h ^ (h >> U32(15))) * U32(2654435769) + U32(1)
    return [zeros(32, dtype=U32), x], {0: h + U32(16)}


def tensor_cores():
    a, b = draw(32, 32).astype(F16), draw(32, 32, seed=1).astype(F16)
    return [zeros(32, 32), a, b, 32], {0: a.astype(np.float32) @ b.astype(np.float32)}


LANGUAGE = {
    "grid_stride": launch(2, 33, maps(500, lambda x: 2 * x, 500)),
    "in_place": launch(2, 64, in_place),
    "add": launch(100, 1, overlapping_views),
    "half_neighbours": launch(3, 32, halves),
    "bfloat16_neighbours": launch(3, 32, bfloats),
    "bytes": launch(2, 64, some_bytes),
    "members_of_a_vector": launch(1, 64, maps(64, lambda x: x)),
    "vectors_and_a_tail": launch(1, 64, maps(103, lambda x: -x, 103)),
    "powers": launch(2, 64, maps(100, lambda x: x**3, 100), name="powers<float, 3>"),
    "constant_memory": launch(2, 64, maps(100, smooth, 100)),
    "struct_by_value": launch(1, 8, line),
    "three_dimensions": launch((2, 2, 2), (2, 3, 3), three_dimensions),
    "recursion": launch(1, 16, fibonacci),
    "local_array": launch(1, 10, maps_ints(130, lambda x: np.sort(x.reshape(10, 13), axis=1).ravel(), 13)),
    "function_pointers": launch(1, 32, maps(32, lambda x: np.where(np.arange(32) % 2, x * x, 2 * x))),
    "prints": launch(2, 32, lambda: [[3], {}]),
    "dynamic_shared_in_three_parts": launch(1, 40, maps(40, lambda x: x + x[::-1], 40), shared_mem=640),
    "unsigned_numbers_wrap": launch(1, 32, hashes),
    "pointer_from_one": launch(1, 33, maps(33, lambda x: x[::-1])),
    "matmul_by_tensor_cores": launch((2, 2), 32, tensor_cores),
}
