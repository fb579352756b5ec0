"""Launches the kernels of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels.classifier import RESERVED
from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import check_rows, most_shared_memory, whole_warps


def fused_classifier(losses, logits, targets, dloss, V):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: 16 bits (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    """
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    sizes = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0)
    rows = most_shared_memory(cuda.device()) // (2 * Vp + RESERVED)  # that a multiprocessor can keep
    if dloss is not None and rows and Vp % 8 == 0 and aligned(logits):
        function, threads = kernel_for(logits, "classifier", "fused_classifier_v2"), min(512, whole_warps(Vp))
        if function.max_dynamic_shared_size_bytes < 2 * Vp:
            function.max_dynamic_shared_size_bytes = 2 * Vp  # more than 48 KB must be requested
        grid = min(N, multiprocessors(cuda.device()) * min(rows, 1024 // threads))  # all at once, with their registers
        function((grid,), (threads,), (losses, logits, targets, np.int32(N), *sizes), shared_mem=2 * Vp)
        return
    launch = kernel_for(logits, "classifier", "fused_classifier_v1")
    launch((N,), (whole_warps(Vp),), (losses, logits, targets, *sizes, np.int32(dloss is not None)))
