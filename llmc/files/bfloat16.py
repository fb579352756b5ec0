"""bfloat16, the upper half of a float32: 1 sign bit, 8 exponent bits, 7 fraction bits. NumPy has no such type."""

import numpy as np


def bfloat16_to_float32(halves):
    """Convert uint16 bit patterns (any shape) to the same numbers as float32, exactly.

    0x3F80 -> 1.0
    """
    return (halves.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values):
    """Convert float32 (any shape) to uint16 bit patterns, rounded to nearest, ties to even; NaN stays NaN.

    1.0 -> 0x3F80
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    lowest_kept = (bits >> 16) & 1  # ties go to the even neighbour
    rounded = ((bits + np.uint32(0x7FFF) + lowest_kept) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
