"""Six number formats by their bits: sign | exponent | mantissa, what they can hold, and rounding to them.

Sources: IEEE 754 (fp32, fp16), NVIDIA's tf32, Google's bfloat16, and "FP8 Formats for Deep Learning" (Micikevicius et
al. 2022) for e5m2 and e4m3, which has no infinity and is called float8_e4m3fn in ml_dtypes and PyTorch.
Rounding is to the nearest, ties to even. What overflows becomes infinity, or NaN where there is none.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    """exponent, mantissa: numbers of bits; the sign has one. infinite: is there an infinity?"""

    name: str
    exponent: int
    mantissa: int
    infinite: bool = True

    bits = property(lambda self: 1 + self.exponent + self.mantissa)
    bias = property(lambda self: 2 ** (self.exponent - 1) - 1)  # what is subtracted from the exponent's field
    eps = property(lambda self: 2.0**-self.mantissa)  # the distance from 1 to the next larger number
    smallest_normal = property(lambda self: 2.0 ** (1 - self.bias))
    smallest = property(lambda self: self.smallest_normal * self.eps)  # the smallest subnormal number above 0

    @property
    def largest(self) -> float:
        """The largest finite number: without infinity, only the very last bit pattern is lost, to NaN."""
        top = 2**self.exponent - (2 if self.infinite else 1) - self.bias
        return (2 - self.eps * (1 if self.infinite else 2)) * 2.0**top


FP32, TF32 = Format("fp32", 8, 23), Format("tf32", 8, 10)
BF16, FP16 = Format("bf16", 8, 7), Format("fp16", 5, 10)
E5M2, E4M3 = Format("e5m2", 5, 2), Format("e4m3", 4, 3, infinite=False)
FORMATS = {f.name: f for f in (FP32, TF32, BF16, FP16, E5M2, E4M3)}


def encode(x, fmt):
    """Bit patterns (the shape of x, int64) of numbers, rounded to the nearest, ties to even."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        x = np.asarray(x, np.float64)
    size = np.where(np.isfinite(x), np.abs(x), 0.0)
    lowest = 1 - fmt.bias  # exponent of the subnormal numbers, and of 0
    exponent = np.where(size > 0, np.maximum(np.frexp(size)[1] - 1, lowest), lowest)
    steps = np.rint(np.ldexp(size, fmt.mantissa - exponent)).astype(np.int64)  # rint: ties to even
    code = ((exponent + fmt.bias - 1).astype(np.int64) << fmt.mantissa) + steps  # a carry goes into the exponent
    nan = (1 << fmt.bits - 1) - 1 if not fmt.infinite else ((1 << fmt.exponent + 1) - 1) << fmt.mantissa - 1
    over = nan if not fmt.infinite else ((1 << fmt.exponent) - 1) << fmt.mantissa
    code = np.where((code >= over) | np.isinf(x), over, code)
    return np.where(np.isnan(x), nan, code) | (np.signbit(x).astype(np.int64) << fmt.bits - 1)


def decode(codes, fmt):
    """The numbers (float64) that bit patterns stand for."""
    codes = np.asarray(codes).astype(np.int64)
    field, mantissa = codes >> fmt.mantissa & (1 << fmt.exponent) - 1, codes & (1 << fmt.mantissa) - 1
    normal = field > 0
    steps = (mantissa + (normal << fmt.mantissa)).astype(np.float64)  # the leading 1 is not stored
    size = np.ldexp(steps, np.maximum(field, 1) - fmt.bias - fmt.mantissa)
    top = field == (1 << fmt.exponent) - 1
    if fmt.infinite:
        size = np.where(top, np.where(mantissa == 0, np.inf, np.nan), size)
    else:
        size = np.where(top & (mantissa == (1 << fmt.mantissa) - 1), np.nan, size)
    return np.where(codes >> fmt.bits - 1 & 1, -size, size)


def rounded(x, fmt):
    """x (any shape) rounded to a format; float64."""
    return decode(encode(x, fmt), fmt)


def fields(code, fmt) -> str:
    """ "0 01111111 0000000": sign, exponent and mantissa of a bit pattern.

    >>> fields(0x3F80, BF16)
    '0 01111111 0000000'
    """
    text = f"{int(code):0{fmt.bits}b}"
    return f"{text[0]} {text[1 : 1 + fmt.exponent]} {text[1 + fmt.exponent :]}"


def meaning(code, fmt) -> str:
    """ "+1.5 · 2^1 = 3": how a bit pattern is read."""
    value = float(decode(code, fmt))
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "infinity" if value > 0 else "minus infinity"
    field, mantissa = int(code) >> fmt.mantissa & (1 << fmt.exponent) - 1, int(code) & (1 << fmt.mantissa) - 1
    sign = "−" if int(code) >> fmt.bits - 1 & 1 else "+"
    if field == 0 and mantissa == 0:
        return f"{sign}0"
    share = mantissa / 2**fmt.mantissa
    power = max(field, 1) - fmt.bias
    return f"{sign}{(field > 0) + share:.9g} · 2^{power} = {value:.9g}" + (" (subnormal)" if field == 0 else "")
