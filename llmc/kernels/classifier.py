"""Launches the kernels of classifier.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels import kernel, laddered
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import check_rows, most_shared_memory, whole_warps

VERSIONS = {"fused_classifier": 3}
RESERVED = 2048  # bytes of shared memory in each block for what is not the row


@laddered(1)
def fused_classifier(losses, logits, targets, dloss, V, *, version=3):
    """*losses = cross-entropy in nats; with dloss (a float), logits become their own gradient, zero in the padding.

    losses: float32 (B, T). logits: float32 (B, T, Vp), of which only [..., :V] count. targets: int32 (B, T), below V.
    All are C-contiguous. version: 1 to 3; 3 falls back to 2 without dloss, and for rows that do not
    fit in shared memory or do not consist of 128-bit words.
    """
    N, Vp = targets.size, logits.shape[-1]
    check_rows(N)
    room = most_shared_memory(cuda.device()) // (4 * Vp + RESERVED)  # rows that a multiprocessor can keep
    if version == 3 and (dloss is None or not room or Vp % 4 or not aligned(logits)):
        version = 2
    function, threads = kernel("classifier", f"fused_classifier_v{version}"), whole_warps(Vp)
    if version == 3:
        if function.max_dynamic_shared_size_bytes < 4 * Vp:
            function.max_dynamic_shared_size_bytes = 4 * Vp  # more than 48 KB must be requested
        grid = min(N, multiprocessors(cuda.device()) * min(room, 2048 // threads))
        sizes = np.int32(N), np.int32(V), np.int32(Vp), np.float32(dloss)
        function((grid,), (threads,), (losses, logits, targets, *sizes), shared_mem=4 * Vp)
        return
    numbers = np.int32(V), np.int32(Vp), np.float32(dloss or 0.0), np.int32(dloss is not None)
    function((N,), (threads,), (losses, logits, targets, *numbers))
