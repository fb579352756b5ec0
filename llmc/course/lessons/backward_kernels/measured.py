"""Lesson 14's own measurements on a GPU: which kernels repeat their bits, and what frequent tokens cost.

The lesson reads what the authors stored: notebooks/reference/h200_order.json (llmc/course/authoring/tables.py).
"""

import json
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.config import preset
from llmc.course.lessons.embeddings import zipf_tokens
from llmc.cuda import recorder
from llmc.kernels import INSTEAD, bias_backward, encoder, layernorm
from llmc.model import GPT2

STORED = Path("reference/h200_order.json")  # in the lessons' folder
V = 50257  # GPT-2's tokens
BY_ATOMICS = {"bias_backward": 2, "encoder_backward": 1, "layernorm_backward": 1}  # the versions that add by atomics


def measure(small=False) -> dict:
    """Everything, ready for JSON. small: few numbers, a few steps, no times; it runs anywhere."""
    B, T, runs, steps = (2, 32, 3, 2) if small else (8, 1024, 100, 200)
    device = "emulator" if cuda.device() == "emulator" else cuda.xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {
        "device": device,
        "shape": [B, T, 768],
        "runs": {name: _runs(launch, runs) for name, launch in _sums(B, T, 768).items()},
        "tokens_us": {} if small else _tokens(B, T, 768),
        "losses": {order: [_losses(order, steps, small) for _ in range(2)] for order in ("fixed", "atomics")},
    }


def stored(path=STORED) -> dict | None:
    """What the authors measured; None where that is missing."""
    return json.loads(Path(path).read_text(encoding="utf-8")) if Path(path).is_file() else None


def _sums(B, T, C) -> dict:
    """{"bias_backward_v2": a function that adds into zeros and returns the sums (C,)}."""
    xp, random = cuda.xp, np.random.RandomState(14)
    dout, x = (xp.asarray(random.standard_normal((B, T, C)).astype(np.float32)) for _ in range(2))  # (B, T, C)
    w, mean, rstd = xp.ones(C, np.float32), xp.zeros((B, T), np.float32), xp.ones((B, T), np.float32)
    dx = xp.zeros((B, T, C), np.float32)

    def bias(version):
        db = xp.zeros(C, np.float32)  # (C,)
        bias_backward.bias_backward(db, dout, version=version)
        return db

    def norm(version):
        dw, db = xp.zeros(C, np.float32), xp.zeros(C, np.float32)  # (C,) each
        layernorm.layernorm_backward(dx, dw, db, dout, x, w, mean, rstd, version=version)
        return dw

    sums = {f"bias_backward_v{v}": partial(bias, v) for v in range(1, 5)}
    return sums | {f"layernorm_backward_v{v}": partial(norm, v) for v in range(1, 6)}


def _runs(launch, runs) -> dict:
    """How many different results identical runs give, and the values of the number that varies most."""
    found = np.stack([cuda.asnumpy(launch()) for _ in range(runs)])  # (runs, C)
    most = int(np.argmax([len(np.unique(column)) for column in found.T]))
    different = len(np.unique(found, axis=0))
    return {"runs": runs, "different": different, "number": most, "values": found[:, most].astype(float).tolist()}


def token_kinds(B, T, C):
    """dout (B, T, C), and {which tokens: (B, T) int32}: the same in every run."""
    rng = np.random.default_rng(14)
    dout = rng.standard_normal((B, T, C)).astype(np.float32)  # (B, T, C)
    return dout, {
        "all different": rng.permutation(V)[: B * T].reshape(B, T).astype(np.int32),
        "as in a text": zipf_tokens(rng, B, T, V),
        "one token": np.full((B, T), 11, np.int32),
    }


def _tokens(B, T, C) -> dict:
    """{which tokens: {"v1": microseconds of encoder_backward}}."""
    from llmc.bench.kernels.times import microseconds

    xp = cuda.xp
    numbers, kinds = token_kinds(B, T, C)
    dwte, dwpe = xp.zeros((V, C), np.float32), xp.zeros((T, C), np.float32)  # (V, C), (T, C)
    dout = xp.asarray(numbers)  # (B, T, C)
    return {
        kind: {
            f"v{v}": microseconds([partial(encoder.encoder_backward, dwte, dwpe, dout, xp.asarray(tokens), version=v)])
            for v in (1, 2, 3)
        }
        for kind, tokens in kinds.items()
    }


@contextmanager
def _adding_by(order):
    """Inside the block, layers that have a version with atomics use it, if the order is "atomics".

    Nothing is recorded meanwhile: a graph would repeat the launches of another version.
    """
    graphs = recorder.graphs()
    recorder.graphs(False)
    INSTEAD.update(BY_ATOMICS if order == "atomics" else {})
    try:
        yield
    finally:
        INSTEAD.clear()
        recorder.graphs(graphs)


def _losses(order, steps, small) -> list:
    """The losses of a small model that is trained on the same few tokens."""
    B, T = (1, 8) if small else (8, 64)
    model = GPT2(preset("tiny"), "cuda")
    x, y = np.random.RandomState(14).randint(0, 300, (2, B, T)).astype(np.int32)  # (B, T) each
    model.init_weights()
    found = []
    with _adding_by(order):
        for _ in range(steps):
            found.append(float(model.forward(x, y, dloss=1.0)))
            model.backward()
            model.update(1e-3, zero_grad=True)
    return found
