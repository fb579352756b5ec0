"""Launches the kernels of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels.classifier import RESERVED
from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import check_rows, most_shared_memory, whole_warps


def fused_classifier(losses, logits, targets, dloss, V, dlogits=None, gradients=1.0):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: 16 bits (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    dlogits: uint8 (B, T, Vp), where the gradient times `gradients` goes in e5m2 if the fast kernel can take the logits.
    Returns what the gradient is in.
    """
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    rows = most_shared_memory(cuda.device()) // (2 * Vp + RESERVED)  # that a multiprocessor can keep
    if dloss is not None and rows and Vp % 8 == 0 and aligned(logits):
        dlogits, dloss = (logits, dloss) if dlogits is None else (dlogits, dloss * gradients)
        function = kernel_for(logits, "classifier", "fused_classifier_v2", out=dlogits)
        threads, sizes = min(512, whole_warps(Vp)), (np.int32(V), np.int32(Vp), np.float32(dloss))
        if function.max_dynamic_shared_size_bytes < 2 * Vp:
            function.max_dynamic_shared_size_bytes = 2 * Vp  # more than 48 KB must be requested
        grid = min(N, multiprocessors(cuda.device()) * min(rows, 1024 // threads))  # all at once, with their registers
        function((grid,), (threads,), (losses, dlogits, logits, targets, np.int32(N), *sizes), shared_mem=2 * Vp)
        return dlogits
    launch, sizes = kernel_for(logits, "classifier", "fused_classifier_v1"), (np.int32(V), np.int32(Vp))
    arguments = (losses, logits, targets, *sizes, np.float32(dloss or 0.0), np.int32(dloss is not None))
    launch((N,), (whole_warps(Vp),), arguments)
    return logits
