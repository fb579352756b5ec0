"""Small GPT-2s with awkward sizes, their weights and a batch, which are the same numbers on every machine.

fixtures/NAME.npz holds what PyTorch computed for each in float64; `python -m llmc.tests.make_fixtures` writes it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llmc.config import GPT2Config

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Case:
    """A config, and the shape of a batch for it."""

    name: str
    config: GPT2Config
    B: int
    T: int

    @property
    def fixture(self) -> Path:
        """The file with what PyTorch computed: logits, loss, gradients ("dwte", …), losses_A and losses_B."""
        return FIXTURES / f"{self.name}.npz"

    def weights(self):
        """{name: float64 array}: far from initial weights, so that biases and layernorm weights matter; padding rows
        are zero.

        NumPy promises that RandomState's streams never change, so fixtures made elsewhere match these weights.
        """
        random = np.random.RandomState(len(self.name) + self.config.C)
        values = {}
        for p in self.config.parameter_table():
            scale = 0.2 if p.decayed else 0.1
            centre = 1.0 if p.initial == "ones" else 0.0
            values[p.name] = (centre + scale * random.standard_normal(p.shape)).astype(np.float32).astype(np.float64)
        values["wte"][self.config.V :] = 0.0
        return values

    def batch(self):
        """x, y (B, T) int32, including the first and last token of the vocabulary and some repetitions."""
        random = np.random.RandomState(self.B * 1000 + self.T)
        tokens = random.randint(0, self.config.V, size=(self.B, self.T + 1)).astype(np.int32)
        tokens[0, :2] = 0, self.config.V - 1
        tokens[-1] = tokens[0]
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


CASES = [
    Case("odd", GPT2Config(maxT=11, V=61, L=2, NH=3, C=21), B=3, T=7),
    Case("one_of_each", GPT2Config(maxT=4, V=2, L=1, NH=1, C=8), B=1, T=1),
    Case("full_length", GPT2Config(maxT=9, V=130, L=3, NH=2, C=10), B=2, T=9),
    Case("no_padding", GPT2Config(maxT=16, V=128, L=1, NH=5, C=40), B=4, T=5),
]
