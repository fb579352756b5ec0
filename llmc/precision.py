"""What a precision is: the data types of a model's buffers, declared here and nowhere else.

"fp32" computes and keeps everything in float32, "fp64" in float64, for gradient checks. "tf32" keeps everything in
float32, too, but matmuls and attention round the factors of their products to 10 bits of mantissa, as tensor cores do.
In "bf16" and "fp16" weights, activations and gradients take 16 bits; what a sum or a small difference decides stays
exact, in float32: the residual stream and its gradient, to which every layer adds a little, statistics of layernorm and
attention, losses, AdamW's moments, and master weights. These are the rules of llm.c's train_gpt2.cu, whose residual
stream has 16 bits, however, and of PyTorch's autocast.
"""

from dataclasses import dataclass

import numpy as np

from llmc.errors import UserError
from llmc.terminal import pip

TRAINED = ("fp32", "tf32", "bf16", "fp16")
NAMES = (*TRAINED, "fp64")


@dataclass(frozen=True)
class Precision:
    """The data types of one model. `exact` is that of the residual stream, statistics, moments and master weights."""

    name: str
    weights: np.dtype
    activations: np.dtype  # and their gradients
    gradients: np.dtype  # of weights
    exact: np.dtype

    @property
    def is_mixed(self) -> bool:
        """Whether weights are rounded more than the numbers of their updates."""
        return self.weights != self.exact

    @property
    def rounds_factors(self) -> bool:
        """Whether products round their factors, which have more digits in memory."""
        return self.name == "tf32"

    @property
    def overflows(self) -> bool:
        """Whether gradients need a loss scale: float16 ends at 65,504, and below 6e-8 it holds nothing."""
        return self.gradients == np.float16


def find_precision(name) -> Precision:
    """The precision of that name. Raises UserError if it is unknown, or if its data type is not installed."""
    if isinstance(name, Precision):
        return name
    if name not in NAMES:
        raise UserError(f"there is no precision {name!r}; choose one of {', '.join(NAMES)}.")
    if name in ("fp32", "tf32", "fp64"):
        dtype = np.dtype(np.float64 if name == "fp64" else np.float32)
        return Precision(name, dtype, dtype, dtype, dtype)
    low = np.dtype(np.float16) if name == "fp16" else bfloat16()
    return Precision(name, low, low, low, np.dtype(np.float32))


def bfloat16() -> np.dtype:
    """NumPy's data type bfloat16, which ml_dtypes provides. Raises UserError where that is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        raise UserError(f"bf16 needs ml_dtypes; run `{pip('install', 'ml_dtypes')}`.") from None
    return np.dtype(ml_dtypes.bfloat16)
