"""Lesson 01's experiment: what its two small networks share, the data, the first weights, the loss and the training.

A network is a function (params, points, labels, ln_backward) -> loss, {name: gradient}, drift.
"""

import numpy as np

C, LAYERS = 16, 4  # C: channels


def spirals(rng, n=100):
    """Three interleaved spirals of n points: points (3n, 3), each (x, y, 1), and labels (3n,).

    The 1 makes the last row of the first matrix a bias.
    """
    t = np.linspace(0.05, 1, n)  # (n,)   distance from the centre
    angles = [2 * np.pi * (t + k / 3) + rng.normal(0, 0.1, n) for k in range(3)]  # 3 × (n,)
    points = np.concatenate([np.stack([t * np.cos(a), t * np.sin(a), 0 * t + 1], axis=-1) for a in angles])  # (3n, 3)
    return points, np.repeat(np.arange(3), n)


def start(seed):
    """params {name: array}, points (N, 3) and labels (N,) of one training run; a chain does not use the matrices V."""
    rng = np.random.default_rng(seed)
    points, labels = spirals(rng)  # (N, 3), (N,)
    params = {"in": rng.normal(0, 1, (3, C)), "out": rng.normal(0, 0.25, (C, 3))}
    for k in range(LAYERS):
        params[f"W{k}"] = rng.normal(0, np.sqrt(2 / C), (C, C))
        params[f"V{k}"] = rng.normal(0, np.sqrt(1 / C) / 2, (C, C))
    return params, points, labels


def classify(x, W, labels):
    """Softmax and cross-entropy of the logits x @ W: loss, dx (N, C), dW (C, 3). Lesson 05 derives them."""
    logits = x @ W  # (N, 3)
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))  # (N, 3)
    p /= p.sum(axis=-1, keepdims=True)
    rows = np.arange(len(labels))  # (N,)
    loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1  # (N, 3)   p - y, the gradient of each row's loss
    dlogits = p / len(labels)  # (N, 3)
    return loss, dlogits @ W.T, x.T @ dlogits


def drift(x):
    """How far the means of the rows of x (N, C) are from 0, in standard deviations of the row: the mean over rows."""
    return np.mean(np.abs(x.mean(axis=-1)) / x.std(axis=-1))


def train(network, ln_backward, seed, steps=250, lr=0.005, after_step=None):
    """Train from the start `seed` with Adam (lesson 09); returns loss and drift of each step, (steps, 2).

    after_step: called with the params after each step.
    """
    params, points, labels = start(seed)
    m, v = ({name: np.zeros_like(p) for name, p in params.items()} for _ in range(2))
    history = []
    for t in range(1, steps + 1):
        loss, grads, drifted = network(params, points, labels, ln_backward)
        for name, grad in grads.items():
            m[name] += 0.1 * (grad - m[name])
            v[name] += 0.01 * (grad**2 - v[name])
            params[name] -= lr * (m[name] / (1 - 0.9**t)) / (np.sqrt(v[name] / (1 - 0.99**t)) + 1e-8)
        if after_step:
            after_step(params)
        history.append((loss, drifted))
    return np.array(history)
