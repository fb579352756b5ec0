"""How kernels are compiled, and what they share: decorators, how work is cut into parts, an exponential for vectors.

Float constants in a kernel are float32 where that is exact (0, 1, 0.5); others are arguments in the arrays' own dtype.
To Numba a bare 0.1 is a float64, and would turn a float32 kernel into a slower float64 one.
"""

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

KERNELS = []  # all compiled functions that are kept on disk (`kernel_cache.py`)

# To use the vector unit, the compiler may regroup and fuse sums and products, and ignore the sign of zero. It may not
# assume that there is no NaN: a diverged loss must stay visible.
FAST = {"contract", "reassoc", "nsz", "arcp"}
# Of all that parallel=True offers, only prange is used; leaving out the rest halves the time to compile.
PRANGE = {name: False for name in ("comprehension", "reduction", "setitem", "numpy", "stencil", "fusion")}


def _kernel(**options):
    """A decorator: njit with these options, and an entry in KERNELS (njit's own cache=True would touch the disk)."""

    def decorate(function):
        KERNELS.append(njit(**options)(function))
        return KERNELS[-1]

    return decorate


parallel = _kernel(parallel=PRANGE, fastmath=FAST, error_model="numpy")
serial = _kernel(fastmath=FAST, error_model="numpy")

ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0.0, 0.5, 1.0, 2.0))


@njit(inline="always")
def bounds(part, parts, n):
    """(start, end) of one of `parts` nearly equal parts of range(n)."""
    return part * n // parts, (part + 1) * n // parts


def exp(x):
    """e^x in a kernel. float32: to about one unit in the last place, 0 below -87.6, inf above 88.3."""
    raise NotImplementedError("only inside a compiled kernel")


@overload(exp)
def _exp(x):
    return (lambda x: exp_float32(x)) if x == types.float32 else (lambda x: math.exp(x))


LOWEST, HIGHEST = np.float32(-88.0), np.float32(89.0)  # where 2^n has the bits of 0 and of infinity
LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = (
    np.float32(0.693145751953125),
    np.float32(1.42860682030941723e-6),
)  # ln 2 in two pieces
P0, P1, P2, P3, P4, P5 = (
    np.float32(c) for c in (0.5, 1 / 6, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
)  # the Taylor series of (e^r - 1 - r) / r², its last terms bent to fit |r| ≤ ln 2 / 2 (Cephes' minimax coefficients)
BIAS, FRACTION_BITS = np.int32(127), np.int32(23)  # of the exponent in a float32
SHIFT = np.float32(1.5 * 2**23)  # n + SHIFT has n in its lowest bits: a conversion that every vector unit has
SHIFTS_BITS = np.int32(SHIFT.view(np.int32))


@_kernel(fastmath={"contract", "nsz"})  # regrouped, the two pieces of ln 2 would be one again
def exp_float32(x):
    """e^x = 2^n · e^r with n whole and |r| ≤ ln 2 / 2: a polynomial for e^r, and n put into the exponent's bits.

    It has neither calls nor branches, so that 8 or 16 values are computed at once. NaN stays NaN.
    """
    above = LOWEST if x < LOWEST else x  # in this order a NaN passes
    inside = HIGHEST if above > HIGHEST else above
    n = np.floor(inside * LOG2_E + HALF)
    r = (inside - n * LN2_HIGH) - n * LN2_LOW
    series = ((((P5 * r + P4) * r + P3) * r + P2) * r + P1) * r + P0
    whole = np.int32(np.float32(n + SHIFT).view(np.int32) - SHIFTS_BITS)
    power = np.int32((whole + BIAS) << FRACTION_BITS).view(np.float32)  # 2^n
    return (series * r * r + r + ONE) * power


# What a forward pass computes and the backward pass computes again. Regrouped with what is around them, these would
# differ between the two in the last bit.


@_kernel(fastmath={"contract", "nsz"}, error_model="numpy")
def gelu(x, linear, cubic):
    """GELU of one number: x / (1 + e^(-2u)), where -2u = linear · x + cubic · x³."""
    return x / (ONE + exp(x * (linear + cubic * x * x)))


@_kernel(fastmath={"contract", "nsz"}, error_model="numpy")  # what is not given here, it would take from its caller
def normalised(x, centre, r, w, b):
    """One number of layernorm's output."""
    return (x - centre) * r * w + b
