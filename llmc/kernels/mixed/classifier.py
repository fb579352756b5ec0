"""Launches the kernel of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels.mixed import kernel_for
from llmc.kernels.reductions import check_rows, whole_warps


def fused_classifier(losses, logits, targets, dloss, V):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: 16 bits (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    """
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    numbers = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0), np.int32(dloss is not None)
    launch = kernel_for(logits, "classifier", "fused_classifier_v1")
    launch((N,), (whole_warps(Vp),), (losses, logits, targets, *numbers))
