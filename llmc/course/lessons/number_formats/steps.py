"""Training steps to look into: a small model on letters, and a backend that does something to all that it computes.

`After` wraps a backend: whatever its functions write goes through a function of ours, which may round it (a simulated
low precision) or keep it (to look at). Weights, and the sums inside a function, stay as the backend has them.
"""

import re
from functools import lru_cache

import numpy as np

from llmc.backends import get_backend
from llmc.backends.contract import Around
from llmc.config import GPT2Config
from llmc.model import GPT2

LETTERS = "abcdefghijklmnopqrstuvwxyz "
# what a function writes: places of its arguments; parameters' gradients are not among them, because they accumulate
ACTIVATIONS = {"encoder_forward": (0,), "layernorm_forward": (0,), "residual_layernorm_forward": (0, 1)}
ACTIVATIONS |= {"matmul_forward": (0,), "matmul_gelu_forward": (0, 1), "attention_forward": (0,)}
GRADIENTS = {"fused_classifier": (1,), "matmul_backward": (0,), "gelu_backward": (0,)}
GRADIENTS |= {"layernorm_backward": (0,), "attention_backward": (0,)}


class After(Around):
    """A backend whose results go through functions of ours, in place: activation(array), gradient(array); None: none.

    The two get float32 arrays (any shape) that they may change.
    """

    def __init__(self, backend, activation=None, gradient=None):
        self._then = (ACTIVATIONS, activation), (GRADIENTS, gradient)
        super().__init__(get_backend(backend), self._around)

    def _around(self, name, function):
        after = [(place, then) for places, then in self._then if then for place in places.get(name, ())]

        def wrapped(*arguments, **options):
            result = function(*arguments, **options)
            for place, then in after:
                then(arguments[place])
            return result

        return wrapped if after else function


@lru_cache
def letters(n=100_000):
    """(n,) int32: letters and spaces of the manual that comes with Python, 0 … 26."""
    from pydoc_data.topics import topics

    text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())[:n]
    return np.array([LETTERS.index(letter) for letter in text], np.int32)


class Letters:
    """Batches of letters: next_batch() gives x and y, both (B, T) int32, in an order that depends on the seed."""

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


@lru_cache
def real_tensors() -> dict:
    """{name: float32 array} of a small GPT-2 on letters, in the middle of its 60th step."""
    from threadpoolctl import threadpool_limits  # here, because importing a check needs NumPy alone

    batches, gradients = Letters(), []
    model = letter_model(After("numpy", gradient=lambda array: gradients.append(array.copy())))
    with threadpool_limits(1, user_api="blas"):  # the arrays are small: more threads would only wait for each other
        for _ in range(60):
            gradients.clear()
            model.zero_grad()
            model.forward(*batches.next_batch(), dloss=1.0)
            model.backward()
            model.update(2e-3, weight_decay=0.1)
    V = model.config.V
    return {
        "weights of fc": model.params["fcw"][0].copy(),  # (4C, C)
        "gradient of the logits": gradients[0][..., :V],  # (B, T, V)
        "gradient of wte": model.grads["wte"][:V].copy(),  # (V, C)
        "gradient of qkv": gradients[-3],  # (B, T, 3C)
    }
