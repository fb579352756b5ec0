"""16-bit weights, activations and gradients for a backend that computes in float32: readable mixed precision.

Each function widens the 16-bit arrays that it is given, computes in float32, and rounds what it wrote. A matmul also
rounds what it reads in float32: the gradient of the residual stream. So a product of two rounded numbers is exact, a
sum is a float32 one, and every result is rounded once, to the nearest. That is what hardware for 16-bit numbers
computes, up to the order of its sums; here it takes longer than float32, not less.

Weights are the exception: they are rounded stochastically (llm.c's train_gpt2.cu does so, too), because most updates
are smaller than half the gap between two bfloat16 numbers, and rounding to the nearest would undo all of these.
"""

from functools import wraps
from math import sqrt

import numpy as np

from llmc.backends.contract import WRITES, Backend

CHUNK = 1 << 18  # elements that AdamW and the norm handle at a time
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}  # what becomes of larger numbers in 8 bits


class Mixed(Backend):
    """The contract of `llmc/backends` for 16-bit arrays; whatever is not about numbers is the other backend's."""

    PRECISIONS = ("bf16", "fp16")

    def __init__(self, exact):
        """exact: a backend that computes in float32, on NumPy arrays."""
        self._exact = exact = exact if isinstance(exact, Backend) else Backend(exact)
        super().__init__(name=exact.name)
        self.zeros, self.attention_stats_shape = exact.zeros, exact.attention_stats_shape
        for name, outputs in WRITES.items():
            setattr(self, name, _in_float32(getattr(exact, name), outputs, rounds=name.startswith("matmul")))

    def global_norm(self, grads):
        """Euclidean norm of grads, a flat array."""
        norms = (self._exact.global_norm(grads[c].astype(np.float32)) for c in _chunks(grads.size))
        return sqrt(sum(norm * norm for norm in norms))

    def adamw_update_rounded(self, params, grads, m, v, master, key, place=0, factor=1.0, clear=False, **numbers):
        """AdamW in float32 on the master weights or, without them, on the weights; these become their rounding.

        params, grads: (n,) 16 bits · m, v, master: (n,) float32; master may be None · key: a whole number that only
        this tensor and step have · place: of the first weight in its tensor · factor: what multiplies the gradients,
        for clipping and loss scaling · numbers: those of `adamw_update`.
        """
        for c in _chunks(params.size):
            exact = params[c].astype(np.float32) if master is None else master[c]  # (≤ CHUNK,)
            g = grads[c].astype(np.float32) * np.float32(factor)  # (≤ CHUNK,)
            self._exact.adamw_update(exact, g, m[c], v[c], **numbers)
            bits = random_bits(key, place + c.start, exact.size)  # (≤ CHUNK,)
            params[c] = round_stochastically(exact, bits) if params.dtype.name == "bfloat16" else exact
            if clear:
                grads[c] = 0


def _in_float32(function, outputs, rounds):
    """That function for arrays of 16 bits. An array that is given twice is one array in float32, too.

    rounds: whether it multiplies only numbers of 16 bits, and so rounds what it reads in float32.
    """

    @wraps(function)
    def call(*arguments, **named):
        wide = {id(a): a.astype(np.float32) for a in arguments if _bits(a) in (8, 16)}
        # Above 65,504 float16 only has infinity, and NaN once a product sums it; training looks at the norm.
        with np.errstate(over="ignore", invalid="ignore"):
            if rounds and wide:
                low = next(a.dtype for a in arguments if _bits(a) == 16)
                inputs = (a for a in arguments[outputs:] if isinstance(a, np.ndarray) and id(a) not in wide)
                wide |= {id(a): a.astype(low).astype(np.float32) for a in inputs}
            result = function(*(wide.get(id(a), a) for a in arguments), **named)
            for array in arguments[:outputs]:
                if id(array) in wide:
                    numbers = wide[id(array)]
                    if _bits(array) == 8:
                        numbers = np.clip(numbers, -LARGEST[array.dtype.name], LARGEST[array.dtype.name])
                    array[...] = numbers  # rounds to the nearest, ties to even
        return result

    return call


def _bits(argument) -> int:
    return 8 * argument.dtype.itemsize if isinstance(argument, np.ndarray) else 0


def _chunks(n):
    """Slices that cover n elements, CHUNK at a time."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


# --------------------------------------------------------------------------------------------- stochastic rounding


def round_stochastically(values, bits):
    """float32 (n,) to bfloat16: up or down, up with the probability of its distance from below, so right on average.

    bits: (n,) uint32 of which the lower 16 are used. Adding them to the 16 bits that rounding cuts off carries into the
    others as often as it should (Gupta et al. 2015). What is not finite stays so.
    """
    from llmc.precision import bfloat16

    pattern = values.view(np.uint32)  # (n,)
    upper = ((pattern + (bits & np.uint32(0xFFFF))) >> np.uint32(16)).astype(np.uint16).view(bfloat16())  # (n,)
    return np.where(np.isfinite(values), upper, values.astype(bfloat16()))  # (n,)


def random_bits(key, start, n):
    """(n,) uint32, the elements start … start + n - 1 of a sequence of random numbers that belongs to `key`.

    Computed from their places alone, so it does not matter in which order, or by how many threads.
    """
    places = np.arange(start, start + n, dtype=np.uint32)  # (n,)
    return _mixed(_mixed(places) + _mixed(np.full(1, key & 0xFFFFFFFF, np.uint32)))  # (n,)


def _mixed(x):
    """A permutation of uint32 in which every bit of the result depends on all bits (constants of Wellons 2018)."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))
