"""Lesson 25: bf16 training in which factors of matmuls are rounded to 8 bits in any of several ways, and its losses.

`python -m llmc.course.lessons.fp8_training.trials` trains the runs of CURVES (20 minutes on one core) and writes
curves.npz: {name: losses (STEPS,)}. The model is `tiny`, on the documentation that comes with Python.
"""

from collections import deque
from pathlib import Path

import numpy as np

from llmc.backends import reference
from llmc.backends.fp8 import WEIGHTS, gradient_scale
from llmc.backends.mixed import Mixed
from llmc.config import preset
from llmc.course.lessons.number_formats.formats import E4M3, E5M2
from llmc.model import GPT2
from llmc.precision import bfloat16, e4m3, e5m2

FILE = Path(__file__).parent / "curves.npz"
STEPS, B, T = 400, 8, 64
DTYPES = {E4M3: e4m3, E5M2: e5m2}
MEMORY = 16  # steps whose amax delayed scaling remembers
NAMES = {(3, 1): "qkv", (1, 1): "attproj", (4, 1): "fc", (1, 4): "fcproj"}  # by the sides of w, in C


def quantised(x, scale, fmt):
    """x (any shape), float32, rounded to a Format of 8 bits after a multiplication by scale; saturating."""
    inside = np.clip(x * scale, -fmt.largest, fmt.largest).astype(np.float32)  # the shape of x
    return (inside.astype(DTYPES[fmt]()).astype(np.float32) / scale).astype(np.float32)


def by_row(x, fmt, axis=-1):
    """Scales (N, 1) of the rows of x (N, K), or with axis=0 (1, K): their largest number becomes the format's."""
    amax = np.abs(x).max(axis=axis, keepdims=True)  # (N, 1) or (1, K)
    return fmt.largest / np.where(amax > 0, amax, 1.0)


class Eight(Mixed):
    """Mixed precision of the reference backend with matmuls of 8 bits.

    scaling: "static" (llmc's), "unscaled" (the same, but for gradients), "now", "before", or a function as above ·
    gradients: the Format of dout · skip: names of products, numbers of blocks, "forward" or "backward": what stays in
    16 bits. seen: {(name, block): {"x", "w", "dout": (N, K)}} of the last step.
    """

    def __init__(self, scaling="static", gradients=E5M2, skip=()):
        super().__init__(reference)
        self.scaling, self.formats, self.skip = scaling, dict(x=E4M3, w=E4M3, dout=gradients), {*skip}
        self.history, self.seen, self._places = {}, {}, {}
        self._in_16_bits = self.matmul_forward, self.matmul_backward
        self.matmul_forward, self.matmul_backward = self._matmul_forward, self._matmul_backward

    def name_of(self, w) -> tuple:
        """("qkv", 0), say: the product that w (C_out, C_in) belongs to, and its block; the logits' is -1."""
        side = min(w.shape)
        name = NAMES.get((w.shape[0] // side, w.shape[1] // side), "logits")
        places = self._places.setdefault(name, [])
        address = w.__array_interface__["data"][0]
        places += [address] * (address not in places)
        return name, places.index(address) if name != "logits" else -1

    def factor(self, name, role, x, axis=-1):
        """The factor x (N, K) of a product, rounded; float32. role: x, w, dout. axis: along which the product adds."""
        x, fmt = x.reshape(-1, x.shape[-1]).astype(bfloat16()).astype(np.float32), self.formats[role]  # (N, K)
        self.seen.setdefault(name, {})[role] = x
        if callable(self.scaling):
            return quantised(x, self.scaling(x, fmt, axis), fmt)  # (N, K)
        if self.scaling in ("static", "unscaled"):
            dout = gradient_scale(1 / (B * T)) if self.scaling == "static" else 1.0
            return quantised(x, dict(x=1.0, w=WEIGHTS, dout=dout)[role], fmt)  # (N, K)
        history = self.history.setdefault((name, role, axis), deque(maxlen=MEMORY))
        known = max(history) if self.scaling == "before" and history else np.abs(x).max()
        history.append(np.abs(x).max())
        return quantised(x, fmt.largest / (known or 1.0), fmt)  # (N, K)

    def _matmul_forward(self, out, x, w, b):
        name = self.name_of(w)
        if self.skip & {*name, "forward"}:
            return self._in_16_bits[0](out, x, w, b)
        made = self.factor(name, "x", x) @ self.factor(name, "w", w).T  # (N, C_out)
        out[...] = (made + (0 if b is None else b.astype(np.float32))).reshape(out.shape)

    def _matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        name = self.name_of(w)
        if self.skip & {*name, "backward"}:
            return self._in_16_bits[1](dx, dw, db, dout, x, w, accumulate=accumulate)
        if dx is not None:
            dx[...] = (self.factor(name, "dout", dout) @ self.factor(name, "w", w, 0)).reshape(dx.shape)
        more = self.factor(name, "dout", dout, 0).T @ self.factor(name, "x", x, 0)  # (C_out, C_in)
        dw[...] = more + (dw.astype(np.float32) if accumulate else 0)
        if db is not None:
            sums = dout.reshape(-1, len(w)).astype(np.float32).sum(axis=0)  # (C_out,)
            db[...] = sums + (db.astype(np.float32) if accumulate else 0)


CURVES = {  # name: (precision, backend)
    "fp32": ("fp32", lambda: "numpy"),
    "bf16": ("bf16", lambda: "numpy"),
    "fp8, known beforehand (llmc)": ("fp8", lambda: "numpy"),
    "fp8, amax of now": ("bf16", lambda: Eight("now")),
    "fp8, amax of before": ("bf16", lambda: Eight("before")),
    "fp8, amax of each row": ("bf16", lambda: Eight(by_row)),
    "fp8, gradients in e4m3": ("bf16", lambda: Eight("now", gradients=E4M3)),
    "fp8, gradients not scaled": ("bf16", lambda: Eight("unscaled")),
}


def batches(seed=42):
    """A loader of the text that every Python brings."""
    from llmc.data import ShuffledLoader, find_corpus

    return ShuffledLoader(find_corpus("pydocs").train, B, T, preset("tiny").V, seed=seed)


def train(precision="bf16", backend="numpy", shown=STEPS):
    """(losses (shown,), model): a warm-up, then a cosine that is 0 after STEPS."""
    model, loader, losses = GPT2(preset("tiny"), backend, precision), batches(), []
    model.init_weights(42)
    for step in range(shown):
        losses.append(_there_and_back(model, loader.next_batch()))
        lr = 1e-3 * min(1, (step + 1) / 40) * 0.5 * (1 + np.cos(np.pi * step / STEPS))
        model.update(lr, beta2=0.95, weight_decay=0.1, max_norm=1.0)
    return np.array(losses), model


def gradients(weights, batch, precision="bf16", backend="numpy"):
    """(n,) float32: the gradient of the loss of a batch, with these weights (n,), all of them."""
    model = GPT2(preset("tiny"), backend, precision)
    model.init_weights(42)
    model.params_flat[...] = weights
    _there_and_back(model, batch)
    return model.grads_flat.astype(np.float32)


def _there_and_back(model, batch):
    model.zero_grad()
    loss = model.forward(*batch, dloss=1.0)
    model.backward()
    return loss


def main():
    """Train all, and write them."""
    found = {name: train(precision, backend())[0] for name, (precision, backend) in CURVES.items()}
    np.savez_compressed(FILE, **{name: losses.astype(np.float32) for name, losses in found.items()})


if __name__ == "__main__":
    main()
