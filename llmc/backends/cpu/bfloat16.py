"""bfloat16 in kernels: 16 bits, the upper half of a float32. Kept as uint16, computed with as float32.

Numba does not know the type, so kernels see such an array as uint16, and read and write elements with `load` and
`store`: a shift, and a rounding to the nearest. For arrays of floats the two do no more than `a[i]`, so one text
serves every precision. Arithmetic is always that of float32.
"""

from functools import wraps

import numpy as np
from numba import njit, types
from numba.extending import overload

from llmc.backends.cpu.instructions import rounding

HALF_WORD, LOWEST_KEPT = np.uint32(16), np.uint32(1)
ALMOST_HALF = np.uint32(0x7FFF)  # of the last bit that is kept; one more for an odd number, so that ties go to even
WHOLE = {  # integers of as many bits, and the type to view their bits as again
    types.uint16: (np.int16, np.uint16),
    types.float32: (np.int32, np.float32),
    types.float64: (np.int64, np.float64),
}
QUIET_NAN = np.uint32(0x0040)  # a bit that stays set when the lower half is cut off


def in_bits(function):
    """That function of the contract, for which arrays of bfloat16 are arrays of uint16."""

    @wraps(function)
    def call(*arguments, **named):
        return function(*map(bits, arguments), **named)

    return call


def bits(argument):
    """An array of bfloat16 as one of uint16; anything else as it is."""
    is_narrow = isinstance(argument, np.ndarray) and argument.itemsize == 2
    return argument.view(np.uint16) if is_narrow else argument


def exact(dtype):
    """The dtype that is computed in: float32 for bfloat16's bits, and any other dtype itself."""
    return np.dtype(np.float32) if dtype == np.uint16 else dtype


def load(a, i):
    """Element i of an array, an index or a tuple of them: float32 for bfloat16."""
    raise NotImplementedError("only inside a compiled kernel")


def store(a, i, value):
    """a[i] = value, rounded if need be."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(load)
def _load(a, i):
    return (lambda a, i: widened(a[i])) if a.dtype == types.uint16 else (lambda a, i: a[i])


@overload(store)
def _store(a, i, value):
    def narrow(a, i, value):
        a[i] = rounded(value)

    def plain(a, i, value):
        a[i] = value

    return narrow if a.dtype == types.uint16 else plain


def highest(a):
    """The largest number of a (n,): float32 for bfloat16; it may be a NaN."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(highest)
def _highest(a):
    """Found among integers in the same order: the compiler vectorises those, whereas for floats, NaN prevents it.

    A negative float has the bits of its absolute value, and a sign: of two, the larger has the smaller bits.
    """
    whole, floating = WHOLE[a.dtype]
    sign, all_but_sign = whole(8 * whole(0).itemsize - 1), np.iinfo(whole).max
    lowest = np.iinfo(whole).min

    @njit
    def find(a):
        bits, top = a.view(whole), whole(lowest)
        for i in range(bits.size):
            ordered = whole(bits[i] ^ whole(whole(bits[i] >> sign) & whole(all_but_sign)))
            top = ordered if ordered > top else top
        return whole(top ^ whole(whole(top >> sign) & whole(all_but_sign))).view(floating)

    return (lambda a: widened(find(a))) if a.dtype == types.uint16 else (lambda a: find(a))


@njit
def widened(bits):
    """The float32 whose upper half is bits, a uint16."""
    return np.uint32(np.uint32(bits) << HALF_WORD).view(np.float32)


def in_integers(value):
    """The uint16 of a float32: to the nearest, ties to even. NaN stays NaN."""
    bits = np.float32(value).view(np.uint32)
    upper = np.uint32(bits >> HALF_WORD)
    up = np.uint32(np.uint32(bits + ALMOST_HALF) + np.uint32(upper & LOWEST_KEPT))
    return np.uint16(upper | QUIET_NAN) if value != value else np.uint16(up >> HALF_WORD)


rounded = rounding(otherwise=in_integers)


@njit
def product(a, b):
    """a · b, rounded before anything is added to it: the compiler may not fuse it with a sum."""
    return a * b
