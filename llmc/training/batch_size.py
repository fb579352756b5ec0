"""`--batch-size auto`: the largest batch that fits into free memory, found before the first step.

It is a power of two, for which kernels are fastest. The number of tokens per update, if given, is usually one too, so
that the batches divide it. `settings.json` keeps the number, so a resumed run has the same batches.
"""

from dataclasses import replace

import numpy as np

from llmc.data.shards import Shards
from llmc.distributed.data_parallel import ALONE
from llmc.training.fits import on_gpu, step_fits

OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")  # in messages


def largest_batch(fits, allowed=lambda B: True) -> int:
    """The largest power of two for which both functions, which are true for small numbers, are true; 1 if none is."""
    B = 1
    while allowed(2 * B) and fits(2 * B):
        B *= 2
    return B


def choose_batch(settings, config, corpus=None, ranks=ALONE):
    """The settings with a number instead of `auto`: the largest batch that fits next to what is already in memory.

    With several ranks, it fits on each of them. B·T·world divides total_batch_size, if that is given, and the smallest
    file of the corpus, if it exists already, has enough tokens for the batches of all ranks.
    """
    s = settings
    T, paths = s.sequence_length, [] if corpus is None else [corpus.train, corpus.val]
    most = min((ntok - 1 for path in paths for ntok in Shards(path).sizes), default=None)

    def allowed(B):
        at_once = B * T * ranks.world
        whole = not s.total_batch_size or s.total_batch_size % at_once == 0
        return whole and (most is None or at_once <= most)

    tokens = 0 if corpus is None else sum(Shards(corpus.train).sizes)
    kept = dict(precision=s.precision, master_weights=s.master_weights, recompute=s.recompute)
    parts = ranks.world if s.zero else 1
    fits = step_fits(config, T, s.backend, tokens=tokens, sharing=ranks.neighbours, parts=parts, **kept)
    return replace(s, batch_size=min(ranks.exchange(largest_batch(fits, allowed), int)))


def batch_for_step(config, T, backend, **kept) -> int:
    """The largest batch with which a single training step fits into memory; kept: precision, recompute."""
    return largest_batch(step_fits(config, T, backend, **kept))


def allocate_or_halve(model, settings, say=None, ranks=ALONE):
    """Allocate what training takes, halving the batch whenever memory runs out on any rank; returns the settings.

    On a GPU, where kernels and cuBLAS take memory too, one forward and backward pass is tried, which changes nothing
    that training depends on. say(line), if given, is told of each halving. If B = 1 does not fit, the error is raised.
    """
    while True:
        B = settings.batch_size
        if all(ranks.exchange(_allocated(model, B, settings.sequence_length, settings.backend), bool)):
            return settings
        model.free_activations()
        settings = replace(settings, batch_size=B // 2)
        if say:
            say(f"B={B:,} does not fit after all, so the batch size is {B // 2:,}")


def _allocated(model, B, T, backend) -> bool:
    """Whether there was memory for it. Anything that an error held on to is free by the time this returns."""
    try:
        model.allocate(B, T)
        if on_gpu(backend):
            try_step(model, B, T)
        return True
    except Exception as error:
        if B == 1 or not _out_of_memory(error):
            raise
        return False


def _out_of_memory(error) -> bool:
    """Whether memory has run out, for CuPy's arrays or for what CUDA and cuBLAS allocate themselves."""
    return isinstance(error, MemoryError) or any(name in str(error) for name in OUT_OF_MEMORY)


def try_step(model, B, T):
    """Run a forward and a backward pass, so that they allocate memory and choose kernels; the model is unchanged."""
    tokens = np.zeros((B, T), np.int32)
    model.forward(tokens, tokens, dloss=1.0)
    model.backward(accumulate=False)
    model.zero_grad()
