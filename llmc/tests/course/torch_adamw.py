"""Ten steps of PyTorch's AdamW in float64 on six awkward weights: what lesson 09 compares with, live or stored.

`python -m llmc.tests.course.torch_adamw` stores them, with the [test] extra installed. Then nobody needs PyTorch.
"""

import numpy as np
import torch

from llmc.course.lessons.adamw.optimizer import SETTINGS, TEN_STEPS


def problem():
    """start (6,) and grads (10, 6): ordinary, huge and tiny slopes, none, a single spike, a sign that alternates."""
    rng = np.random.default_rng(9)
    start = rng.normal(0, 1, 6)  # (6,)
    grads = rng.normal(1, 1, (10, 6)) * [1, 1e4, 1e-7, 0, 0.1, 1]  # (10, 6)
    grads[4, 4] = 500.0
    grads[:, 5] = np.abs(grads[:, 5]) * (-1.0) ** np.arange(10)  # (10,)
    return start, grads


def run(start, grads):
    """params (steps, 6) after each step of torch.optim.AdamW."""
    w = torch.tensor(start, requires_grad=True)  # (6,)
    s = SETTINGS
    betas = (s["beta1"], s["beta2"])
    optimizer = torch.optim.AdamW([w], lr=s["lr"], betas=betas, eps=s["eps"], weight_decay=s["weight_decay"])
    history = []
    for g in grads:
        w.grad = torch.tensor(g)
        optimizer.step()
        history.append(w.detach().numpy().copy())
    return np.array(history)


def main():
    """Write the fixture."""
    start, grads = problem()
    np.savez_compressed(TEN_STEPS, start=start, grads=grads, params=run(start, grads))
    print(TEN_STEPS.name, f"written with PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
