"""Launches the kernels of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels.classifier import RESERVED
from llmc.kernels.mixed import factors_of, kernel_for
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import check_rows, most_shared_memory, whole_warps


def fused_classifier(losses, logits, targets, dloss, V, dlogits=None):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: 16 bits (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    dlogits: uint8 (B, T, Vp), which the gradient goes to in e5m2, if one_reading says so of logits.
    """
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    sizes = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0)
    if dloss is not None and one_reading(logits):
        dlogits = logits if dlogits is None else dlogits
        function = kernel_for(logits, "classifier", "fused_classifier_v2", factors_of(dlogits))
        rows, threads = _rows_kept(Vp), min(512, whole_warps(Vp))
        if function.max_dynamic_shared_size_bytes < 2 * Vp:
            function.max_dynamic_shared_size_bytes = 2 * Vp  # more than 48 KB must be requested
        grid = min(N, multiprocessors(cuda.device()) * min(rows, 1024 // threads))  # all at once, with their registers
        function((grid,), (threads,), (losses, dlogits, logits, targets, np.int32(N), *sizes), shared_mem=2 * Vp)
        return
    launch = kernel_for(logits, "classifier", "fused_classifier_v1")
    launch((N,), (whole_warps(Vp),), (losses, logits, targets, *sizes, np.int32(dloss is not None)))


def one_reading(logits) -> bool:
    """Whether version 2 can take logits (…, Vp): a row fits in shared memory, and consists of 128-bit words."""
    Vp = logits.shape[-1]
    return _rows_kept(Vp) > 0 and Vp % 8 == 0 and aligned(logits)


def _rows_kept(Vp) -> int:
    """How many rows a multiprocessor can keep."""
    return most_shared_memory(cuda.device()) // (2 * Vp + RESERVED)
