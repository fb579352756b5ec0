"""Precisions: the data types of a model's buffers, declared here and nowhere else.

"fp32" computes and keeps everything in float32; "fp64" does so in float64, for gradient checks. "tf32" also keeps
everything in float32, but matmuls and attention round their inputs to 10 bits of mantissa, as tensor cores do. In
"bf16" and "fp16", weights, activations and gradients take 16 bits. Whatever depends on sums or small differences stays
in float32: the residual stream and its gradient, to which every layer adds a little, the statistics of layernorm and
attention, losses, AdamW's moments, and master weights. PyTorch's autocast follows the same rules, and so does llm.c's
train_gpt2.cu, except that its residual stream has 16 bits.

"fp8" is bf16 in which the factors of matmuls are rounded once more, to 8 bits, and the residual stream has 16 bits, as
in llm.c: see `backends/fp8.py`.
"""

from dataclasses import dataclass

import numpy as np

from llmc.errors import UserError
from llmc.terminal import pip

TRAINED = ("fp32", "tf32", "bf16", "fp16", "fp8")
NAMES = (*TRAINED, "fp64")
WEIGHTS = 32.0  # what weights are multiplied by before they are rounded to 8 bits; activations, by 1


@dataclass(frozen=True)
class Precision:
    """The data types of one model.

    exact: for statistics, moments and master weights · stream: for the residual stream and its gradient · factors: for
    activations that only matmuls read · dfactors: for gradients that only they read.
    """

    name: str
    weights: np.dtype
    activations: np.dtype  # and their gradients
    gradients: np.dtype  # of weights
    exact: np.dtype
    stream: np.dtype
    factors: np.dtype
    dfactors: np.dtype

    @property
    def kinds(self) -> dict:
        """{kind: dtype} of activations that differ from the others, for a FlatBuffer."""
        return dict(exact=self.exact, stream=self.stream, factor=self.factors)

    @property
    def dkinds(self) -> dict:
        """The same of their gradients."""
        return self.kinds | dict(factor=self.dfactors)

    @property
    def is_mixed(self) -> bool:
        """Whether the weights are rounded more coarsely than their updates."""
        return self.weights != self.exact

    @property
    def rounds_factors(self) -> bool:
        """Whether products round their inputs, which have more digits in memory."""
        return self.name == "tf32"

    @property
    def has_8_bit_factors(self) -> bool:
        """Whether products of 16-bit arrays round their inputs to 8 bits."""
        return self.factors.itemsize == 1

    @property
    def overflows(self) -> bool:
        """Whether gradients need a loss scale, because float16 ends at 65,504 and cannot hold anything below 6e-8."""
        return self.gradients == np.float16


def find_precision(name) -> Precision:
    """The precision with this name. Raises UserError if it is unknown, or if its data type is not installed."""
    if isinstance(name, Precision):
        return name
    if name not in NAMES:
        raise UserError(f"there is no precision {name!r}; choose one of {', '.join(NAMES)}.")
    if name in ("fp32", "tf32", "fp64"):
        dtype = np.dtype(np.float64 if name == "fp64" else np.float32)
        return Precision(name, *[dtype] * 7)
    low = np.dtype(np.float16) if name == "fp16" else bfloat16()
    exact = np.dtype(np.float32)
    more = (low, e4m3(), e5m2()) if name == "fp8" else (exact, low, low)
    return Precision(name, low, low, low, exact, *more)


def bfloat16() -> np.dtype:
    """The data type bfloat16 for NumPy, which ml_dtypes provides. Raises UserError if ml_dtypes is not installed."""
    return np.dtype(_ml_dtypes("bf16").bfloat16)


def e4m3() -> np.dtype:
    """The data type of 4 bits of exponent and 3 of mantissa for NumPy."""
    return np.dtype(_ml_dtypes("fp8").float8_e4m3fn)


def e5m2() -> np.dtype:
    """The data type of 5 bits of exponent and 2 of mantissa for NumPy."""
    return np.dtype(_ml_dtypes("fp8").float8_e5m2)


def _ml_dtypes(precision):
    try:
        import ml_dtypes
    except ImportError:
        raise UserError(f"{precision} needs ml_dtypes; run `{pip('install', 'ml_dtypes')}`.") from None
    return ml_dtypes
