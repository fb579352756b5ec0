"""Lesson 17: what fused kernels do, by kernels apart: the classifier in three launches, bias and GELU in two."""

from pathlib import Path

import numpy as np

from llmc.kernels import ceil_div

CLASSIFIER, BIAS_GELU = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("classifier.cu", "bias_gelu.cu")
)


def classifier(launches, losses, probs, dlogits, logits, targets, dloss, V, threads=256):
    """The classifier in three launches. losses (N,), probs, dlogits, logits (N, Vp), targets (N,).

    launches: {name: kernel, or a function that is called like one}.
    """
    N, Vp = logits.shape
    sizes = np.int32(V), np.int32(Vp)
    launches["probabilities"]((N,), (threads,), (probs, logits, *sizes))
    launches["cross_entropy"]((ceil_div(N, threads),), (threads,), (losses, probs, targets, np.int32(N), sizes[1]))
    launches["dlogits_of"]((N,), (threads,), (dlogits, probs, targets, sizes[1], np.float32(dloss)))


def bias_gelu(launches, gelu_out, out, b, threads=256):
    """Bias and GELU in two launches. gelu_out, out: (N, C), b: (C,)."""
    grid, n = (ceil_div(out.size, threads),), np.int32(out.size)
    launches["add_bias"](grid, (threads,), (out, b, n, np.int32(b.size)))
    launches["gelu_of"](grid, (threads,), (gelu_out, out, n))
