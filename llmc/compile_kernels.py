"""One training step and two sampled tokens of the smallest GPT-2: so all of the "cpu" backend is compiled.

Run by `llmc/backends/cpu/kept.py` in a process of its own.
"""

import numpy as np

from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.sampling import generate


def main():
    """Touch every kernel in float32."""
    model = GPT2(GPT2Config(maxT=8, V=10, L=2, NH=1, C=4), "cpu")
    model.init_weights()
    x = np.zeros((1, 8), np.int32)  # (B, T)
    model.forward(x, x, dloss=1.0)
    model.backward()
    model.clip_gradients(1e-6)
    model.update(1e-4, zero_grad=True)
    list(generate(model, [1, 2], 2))
    list(generate(model, [1], 1, cache=False))


if __name__ == "__main__":
    main()
