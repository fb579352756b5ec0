"""Launches the kernels of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel
from llmc.kernels.reductions import whole_warps

VERSIONS = {"fused_classifier": 2}


def fused_classifier(losses, logits, targets, dloss, V, version=None):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: float32 (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    All are C-contiguous. version: 1 or 2, None is the last.
    """
    Vp = logits.shape[-1]
    version = version or VERSIONS["fused_classifier"]
    numbers = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0), np.int32(dloss is not None)
    arguments = (losses, logits, targets, *numbers)
    kernel("classifier", f"fused_classifier_v{version}")((targets.size,), (whole_warps(Vp),), arguments)
