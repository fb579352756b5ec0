"""Whether a run fits into memory, and the largest batch that does: checked before its first step, not hours later.

The batch of `--batch-size auto` is a power of two, for which kernels are fastest. The number of tokens per update, if
given, is usually one too, so that the batches divide it. `settings.json` keeps the number, so a resumed run has the
same batches.
"""

import os
import sys
from bisect import bisect
from dataclasses import replace
from pathlib import Path

import numpy as np

from llmc import cuda
from llmc.backends.fp8 import HEAD_ROWS
from llmc.data.shards import Shards, count_tokens
from llmc.distributed.data_parallel import ALONE
from llmc.errors import UserError
from llmc.evaluation import BASELINE_TOKENS
from llmc.model import training_buffers
from llmc.precision import find_precision
from llmc.training.start import config_of, part_of

FLOAT, GiB = 4, 2**30
PROGRAM = {"cpu": 95 * 2**20, "numpy": 50 * 2**20}  # bytes besides the arrays: kernels, the text, matplotlib
PROCESS = 130 * 2**20  # bytes of a process that has imported what training needs
COUNTING = 56  # bytes per token while the baselines are counted, before most of the model is allocated
ON_GPU = 512 * 2**20  # bytes of a GPU that cuBLAS, kernels and graphs may take, for batches that are chosen
WITHOUT = "LLMC_UNCHECKED"  # a variable that lets runs start even if they seem too large
OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")  # in messages
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")  # where Linux keeps its numbers, and the limits of a container


# ---------------------------------------------------------------------------------------------------- what is needed


def memory_needed(
    config, B, T, backend, tokens=0, resumed=False, precision="fp32", master_weights=True, recompute=None, parts=1
) -> int:
    """Bytes that training at (B, T) adds to what this process already holds before it makes the model.

    tokens: in the training data · resumed: whether weights and moments are already in memory · the rest:
    as for `training_buffers`.
    """
    buffers = training_buffers(config, backend, B, T, precision, master_weights, recompute, parts).values()
    weights, gradients, *moments, activations, their_gradients = (buffer.nbytes for buffer in buffers)
    held = 0 if resumed else sum(moments)  # with the master weights
    arrays = gradients + held + activations + their_gradients + _passing(config, B, T, backend, precision)
    counting = COUNTING * min(tokens, BASELINE_TOKENS)
    return PROGRAM.get(backend, 0) + (0 if resumed else weights) + max(counting, arrays)


def _passing(config, B, T, backend, precision) -> int:
    """Bytes of the largest temporary arrays in a step."""
    p = find_precision(precision)
    if backend == "cuda" and p.has_8_bit_factors:  # copies of the logits' gradient, and of the other factors, in bytes
        return 2 * config.Vp * min(B * T, HEAD_ROWS) + 12 * config.C * B * T
    widened = backend != "cuda" and p.is_mixed
    numbers = 2 * config.Vp * (B * T + config.C) if widened else 0  # logits and wte, once widened, twice
    if backend == "numpy":  # the others work in place: GELU, attention, a validation
        numbers += B * T * max(6 * 4 * config.C, 2 * config.NH * T, config.Vp)
    return FLOAT * numbers


def _kept(s, ranks) -> dict:
    """What a run's settings tell `memory_needed`, besides sizes."""
    numbers = dict(precision=s.precision, master_weights=s.master_weights, recompute=s.recompute)
    return numbers | dict(parts=part_of(s, ranks)[1])


# ------------------------------------------------------------------------------------------------------ what is there


def on_gpu(backend) -> bool:
    """Whether this backend computes in the memory of a GPU."""
    return backend == "cuda" and cuda.device() == "gpu"


def free_memory(backend, ranks=1) -> tuple[int, str]:
    """(bytes, whose memory it is) for the device where this backend computes, for each of `ranks` on this machine."""
    if on_gpu(backend):  # each rank has one
        return cuda.free_memory(), "the GPU's memory"
    return host_memory() // ranks, "memory" if ranks == 1 else f"memory on each of {ranks} ranks"


def host_memory() -> int:
    """Bytes that this process could still allocate; sys.maxsize where the system does not say (except on Linux)."""
    return max(0, min(_machine(), _address_space(), *_containers()))


def _machine() -> int:
    """Free memory, memory that the system can free by dropping caches, and free swap."""
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        return 1024 * (kibibytes["MemAvailable"] + kibibytes.get("SwapFree", 0))
    except (OSError, ValueError, KeyError, IndexError):
        return sys.maxsize


def _address_space() -> int:
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        taken = int((PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # Windows, macOS
        return sys.maxsize
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - taken


def _containers():
    """What is left in each of this process's groups: limit - used + caches, which the system would drop."""
    try:
        lines = [line.split(":", 2) for line in (PROC / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":  # version 2
            root, names, total = CGROUP, ("max", "current"), ""
        elif "memory" in controllers.split(","):  # version 1
            root, names, total = CGROUP / "memory", ("limit_in_bytes", "usage_in_bytes"), "total_"
        else:
            continue
        inner = root / path.strip("/")  # groups that contain ours count too; in a container ours may be the root
        yield from (_left(place, names, total) for place in {root, inner, *inner.parents} if place.is_relative_to(root))


def _left(folder, names, total) -> int:
    try:
        most, now = (int((folder / f"memory.{name}").read_text()) for name in names)
        rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - now + sum(int(rows.get(f"{total}{name}", 0)) for name in ("inactive_file", "active_file"))
    except (OSError, ValueError):  # no such group here, or its limit is "max"
        return sys.maxsize


# ---------------------------------------------------------------------------------------------------- does it fit?


def check_memory(settings, encoding, train_tokens, model=None, jobs=1, ranks=ALONE):
    """Raise UserError if training would need more memory than is free; the message names a setting that fits.

    encoding: the run's tokenizer · train_tokens: its file or pattern · model: from the checkpoint that the run
    continues, with weights and moments already in memory · jobs: how many such runs there are at once, each in its own
    process · ranks: the run's ranks, which share their machine's memory.
    """
    s = settings
    config = model.config if model else config_of(s, encoding)
    free, where = free_memory(s.backend, ranks.neighbours)
    tokens = count_tokens(train_tokens)

    def needed(B, T):
        one = memory_needed(config, B, T, s.backend, tokens, model is not None, **_kept(s, ranks))
        return one if jobs == 1 else one + PROCESS

    one = needed(s.batch_size, s.sequence_length)
    if jobs * one <= free or os.environ.get(WITHOUT):
        return
    if one <= free:
        advice = f"--jobs {free // one} fits"
    else:
        advice = "close other programs, or resume it on a larger machine" if model else _smaller(s, needed, free)
    runs = f"{jobs} runs at a time, each" if jobs > 1 else "training"
    raise UserError(
        f"{runs} with B={s.batch_size:,} and T={s.sequence_length:,}{' takes' if jobs == 1 else ', take'} about"
        f" {size(jobs * one)} of {where}, but only {size(free)} is free; {advice}, or set {WITHOUT}=1 to try"
        " anyway."
    )


def check_step(config, B, T, backend, precision="fp32", recompute=None):
    """Raise UserError if a single training step at (B, T), outside a run, does not fit into memory."""
    free, where = free_memory(backend)
    needed = memory_needed(config, B, T, backend, precision=precision, recompute=recompute)
    if needed > free:
        raise UserError(
            f"a step with B={B:,} and T={T:,} needs about {size(needed)} of {where}, but only {size(free)} is free;"
            " choose a smaller batch or sequence length."
        )


def _smaller(s, needed, free) -> str:
    """The largest batch that fits, or, where no batch does, the longest sequence."""
    B = _largest(s.batch_size, lambda B: needed(B, s.sequence_length) <= free)
    while B and s.total_batch_size and s.total_batch_size % (B * s.sequence_length):
        B -= 1
    if B:
        return f"--batch-size {B} fits"
    T = _largest(s.sequence_length, lambda T: needed(1, T) <= free)
    return f"--batch-size 1 --sequence-length {T} fits" if T else "choose a smaller model with --preset"


def _largest(high, holds) -> int:
    """The largest number below `high` for which `holds`, which is true for small numbers, is true; 0 if none is."""
    return bisect(range(1, high), False, key=lambda n: not holds(n))


def size(n) -> str:
    """ "1.4 GiB"; smaller sizes in MiB."""
    return f"{n / GiB:,.1f} GiB" if n >= GiB else f"{n / 2**20:,.0f} MiB"


# -------------------------------------------------------------------------------------------------- the largest batch


def largest_batch(config, T, backend, ranks=1, allowed=lambda B: True, **needs) -> int:
    """The largest power of two at which training fits into the memory that is free now, with some to spare; 1 if none.

    needs: keywords of `memory_needed` · ranks: as in `free_memory` · allowed: a function that must be true
    too, and is true for small numbers.
    """
    free, _ = free_memory(backend, ranks)
    B = 1
    while allowed(2 * B):
        needed = memory_needed(config, 2 * B, T, backend, **needs)
        spare = ON_GPU + needed // 16 if on_gpu(backend) else needed // 6  # there, the estimate is within 15 percent
        if needed + spare > free:
            break
        B *= 2
    return B


def choose_batch(settings, config, corpus=None, ranks=ALONE):
    """The settings with a number instead of `auto`: the largest batch that fits next to what is already in memory.

    With several ranks, it fits on each of them. B·T·world divides total_batch_size, if that is given, and the smallest
    file of the corpus, if it exists already, has enough tokens for the batches of all ranks.
    """
    s = settings
    train, val = ([], []) if corpus is None else (Shards(path).sizes for path in (corpus.train, corpus.val))
    most = min([*train, *val], default=sys.maxsize) - 1

    def allowed(B):
        at_once = B * s.sequence_length * ranks.world
        return at_once <= most and not (s.total_batch_size or 0) % at_once

    limits = dict(tokens=sum(train), ranks=ranks.neighbours, allowed=allowed)
    B = largest_batch(config, s.sequence_length, s.backend, **limits, **_kept(s, ranks))
    return replace(s, batch_size=min(ranks.exchange(B, int)))


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
    except Exception as error:  # memory has run out, for CuPy's arrays or for what CUDA and cuBLAS allocate themselves
        ran_out = isinstance(error, MemoryError) or any(name in str(error) for name in OUT_OF_MEMORY)
        if B == 1 or not ran_out:
            raise
        return False


def try_step(model, B, T):
    """Run a forward and a backward pass, so that they allocate memory and choose kernels; the model is unchanged."""
    tokens = np.zeros((B, T), np.int32)
    model.forward(tokens, tokens, dloss=1.0)
    model.backward(accumulate=False)
    model.zero_grad()
