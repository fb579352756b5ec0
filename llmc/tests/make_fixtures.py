"""Write llmc/parity/fixtures/*.npz: the results of PyTorch in float64 for the models of cases.py.

Run once, with the [test] extra installed: python -m llmc.tests.make_fixtures. The tests then need no PyTorch.
"""

import numpy as np
import torch

from llmc.parity.cases import CASES
from llmc.tests.engine import torch_gpt2


def main():
    """Write one file per case: logits, loss, gradients (float32) and the ten losses of both recipes (float64)."""
    for case in CASES:
        values, (x, y) = case.weights(), case.batch()
        logits, loss, grads = torch_gpt2.loss_and_gradients(case.config, values, x, y, torch.float64)
        arrays = {"d" + name: g.astype(np.float32) for name, g in grads.items()}
        for recipe in "AB":
            arrays["losses_" + recipe] = torch_gpt2.adamw_losses(case.config, values, x, y, torch.float64, recipe)
        np.savez_compressed(case.fixture, logits=logits.astype(np.float32), loss=loss, **arrays)
        print(case.name, loss)


if __name__ == "__main__":
    main()
