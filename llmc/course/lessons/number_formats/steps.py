"""Training steps to look into: a small model on letters, and a backend that does something to all that it computes.

`After` wraps a backend: whatever its functions write goes through a function of ours, which may round it (a simulated
low precision) or keep it (to look at). Weights, and the sums inside a function, stay as the backend has them.
"""

import re
from functools import lru_cache

import numpy as np

from llmc.backends import get_backend
from llmc.config import GPT2Config
from llmc.model import GPT2

LETTERS = "abcdefghijklmnopqrstuvwxyz "
# what a function writes: places of its arguments; parameters' gradients are not among them, because they accumulate
ACTIVATIONS = {"encoder_forward": (0,), "layernorm_forward": (0,), "residual_layernorm_forward": (0, 1)}
ACTIVATIONS |= {"matmul_forward": (0,), "matmul_gelu_forward": (0, 1), "attention_forward": (0,)}
GRADIENTS = {"fused_classifier": (1,), "matmul_backward": (0,), "gelu_backward": (0,)}
GRADIENTS |= {"layernorm_backward": (0,), "attention_backward": (0,)}


class After:
    """A backend whose results go through functions of ours, in place: activation(array), gradient(array); None: none.

    The two get float32 arrays (any shape) that they may change.
    """

    def __init__(self, backend, activation=None, gradient=None):
        self._backend, self._then = get_backend(backend), ((ACTIVATIONS, activation), (GRADIENTS, gradient))

    def __getattr__(self, name):
        function = getattr(self._backend, name)
        after = [(places[name], then) for places, then in self._then if then is not None and name in places]
        if not after:
            return function

        def wrapped(*arguments, **options):
            result = function(*arguments, **options)
            for places, then in after:
                for place in places:
                    then(arguments[place])
            return result

        return wrapped


@lru_cache
def letters(n=100_000):
    """(n,) int32, read-only: letters and spaces of the manual that comes with Python, 0 … 26."""
    from pydoc_data.topics import topics

    text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())[:n]
    ids = np.array([LETTERS.index(letter) for letter in text], np.int32)
    ids.setflags(write=False)
    return ids


class Letters:
    """Batches of letters: next_batch() gives x, y, (B, T) int32 both, in an order that a seed decides."""

    def __init__(self, B=8, T=16, seed=0):
        self.ids, self.B, self.T, self.rng = letters(), B, T, np.random.default_rng(seed)

    def next_batch(self):
        starts = self.rng.integers(0, len(self.ids) - self.T, self.B)  # (B,)
        rows = self.ids[starts[:, None] + np.arange(self.T + 1)]  # (B, T + 1)
        return rows[:, :-1], rows[:, 1:]


def letter_model(backend="numpy", C=32):
    """A GPT-2 with two blocks for letters, its weights from seed 42."""
    model = GPT2(GPT2Config(maxT=16, V=27, L=2, NH=2, C=C), backend)
    model.init_weights(42)
    return model
