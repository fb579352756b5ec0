"""A kernel's arguments: sizes, random arrays, and the minimum that a call must move and compute."""

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """B, T, C, NH, V and Vp as everywhere else; parameters: how many parameters AdamW updates."""

    B: int
    T: int
    C: int
    NH: int
    V: int
    Vp: int
    parameters: int


GPT2 = Sizes(B=8, T=1024, C=768, NH=12, V=50257, Vp=50304, parameters=124_475_904)
GPT2_32 = replace(GPT2, B=32)  # where memory sets the pace: arrays of 100 MB, more than any cache holds
ODD = Sizes(B=3, T=61, C=129, NH=3, V=59, Vp=131, parameters=4099)  # rows that no block divides, no 128-bit words
ONE_ROW = Sizes(B=1, T=999, C=768, NH=12, V=50257, Vp=50304, parameters=1_000_003)  # small enough for NumPy to check
SMALL = Sizes(B=2, T=67, C=96, NH=3, V=257, Vp=384, parameters=10_001)  # for the emulator


@dataclass(frozen=True)
class Case:
    """A call of a launcher. arguments: arrays and numbers by the contract's names · written: names of the results.

    nbytes, flops: the minimum, see calls.py · expected: None, or a function that computes `written` with NumPy if the
    reference backend has no function of that name or keeps different results.
    """

    shape: str
    arguments: dict
    written: list
    nbytes: int
    flops: int
    expected: object = field(default=None, repr=False)


class Numbers:
    """Random arrays in the memory where kernels run, cut from one block of normal numbers: fast to make, and never
    zero."""

    def __init__(self, xp, seed=0):
        self.xp, self.random = xp, np.random.RandomState(seed)
        self.noise = xp.asarray(self.random.standard_normal(1 << 20).astype(np.float32))  # (2^20,)

    def normal(self, *shape):
        """float32, mean 0, standard deviation 1; each call starts at a different place in the block."""
        flat = self.xp.empty(int(np.prod(shape)), np.float32)  # (n,)
        done = 0
        while done < flat.size:
            start = self.random.randint(self.noise.size // 2)
            n = min(flat.size - done, self.noise.size - start)
            flat[done : done + n] = self.noise[start : start + n]  # (n,)
            done += n
        return flat.reshape(shape)

    def nans(self, *shape):
        """An array that a kernel must write but may not read."""
        return self.xp.full(shape, np.nan, np.float32)

    def tokens(self, s):
        """(B, T) int32, all different as far as V allows, except for the last, which repeats the first."""
        ids = self.random.permutation(max(s.V, s.B * s.T))[: s.B * s.T] % s.V  # (B * T,)
        ids[-1] = ids[0]
        return self.xp.asarray(ids.reshape(s.B, s.T).astype(np.int32))  # (B, T)
