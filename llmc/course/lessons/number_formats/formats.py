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
    over = property(lambda self: (1 << self.bits - 1) - (1 << self.mantissa * self.infinite))  # pattern of ∞, or NaN
    largest = property(lambda self: float(decode(self.over - 1, self)))


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
    code = np.where((code >= fmt.over) | np.isinf(x), fmt.over, code)
    nan = fmt.over + (fmt.infinite << fmt.mantissa - 1)
    return np.where(np.isnan(x), nan, code) | (np.signbit(x).astype(np.int64) << fmt.bits - 1)


def decode(codes, fmt):
    """The numbers (float64) that bit patterns stand for."""
    codes = np.asarray(codes).astype(np.int64)
    pattern = codes & (1 << fmt.bits - 1) - 1  # without the sign
    field, mantissa = np.divmod(pattern, 1 << fmt.mantissa)
    steps = (mantissa + ((field > 0) << fmt.mantissa)).astype(np.float64)  # the leading 1 is not stored
    size = np.ldexp(steps, np.maximum(field, 1) - fmt.bias - fmt.mantissa)
    size = np.where(pattern < fmt.over, size, np.where(fmt.infinite & (pattern == fmt.over), np.inf, np.nan))
    return np.where(codes >> fmt.bits - 1 & 1, -size, size)


def rounded(x, fmt):
    """x (any shape) rounded to a format; float64."""
    return decode(encode(x, fmt), fmt)


def fields(code, fmt) -> str:
    """ "0 01111111 0000000": sign, exponent and mantissa of a bit pattern, here 0x3F80 in bf16."""
    text = f"{int(code):0{fmt.bits}b}"
    return f"{text[0]} {text[1 : 1 + fmt.exponent]} {text[1 + fmt.exponent :]}"


def meaning(code, fmt) -> str:
    """ "+1.5 · 2^1 = 3": how a bit pattern is read."""
    value = float(decode(code, fmt))
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "infinity" if value > 0 else "minus infinity"
    sign, (field, mantissa) = "+−"[int(np.signbit(value))], divmod(int(code) % (1 << fmt.bits - 1), 1 << fmt.mantissa)
    digits, power = (field > 0) + mantissa * fmt.eps, max(field, 1) - fmt.bias
    subnormal = " (subnormal)" * (field == 0)
    return f"{sign}{digits:.9g} · 2^{power} = {value:.9g}{subnormal}" if value else f"{sign}0"
