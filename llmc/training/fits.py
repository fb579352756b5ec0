"""Whether a run fits into memory and onto the disk: checked before its first step, not hours later."""

import os
import shutil

from llmc import available
from llmc.checkpoints import read_config
from llmc.config import preset
from llmc.data import count_tokens
from llmc.distributed.data_parallel import ALONE
from llmc.errors import UserError
from llmc.evaluation import BASELINE_TOKENS
from llmc.model import training_buffers
from llmc.precision import find_precision
from llmc.training.run_folder.find_models import find_model

FLOAT, GiB = 4, 2**30
PROGRAM = {"cpu": 95 * 2**20, "numpy": 50 * 2**20}  # bytes besides the arrays: kernels, the text, matplotlib
PROCESS = 130 * 2**20  # bytes of a process that has imported what training needs
COUNTING = 56  # bytes per token while the baselines are counted, before most of the model is allocated
MEMORY = "memory"  # whose it is, where it is not a GPU's
ON_GPU = 512 * 2**20  # bytes of a GPU that cuBLAS, kernels and graphs may take, for batches that are chosen
WITHOUT = "LLMC_UNCHECKED"  # a variable that lets runs start which seem too large


def check_memory(settings, encoding, train_tokens, model=None, jobs=1, ranks=ALONE):
    """Raise UserError if training would need more memory than is free; the message names a setting that fits.

    encoding: the run's tokenizer · train_tokens: its file or pattern · model: from the checkpoint that the run
    continues, with weights and moments already in memory · jobs: how many such runs there are at once, each in its own
    process · ranks: the run's ranks, which share their machine's memory.
    """
    s = settings
    config = model.config if model else config_of(s, encoding)
    there, where = free_memory(s.backend)
    if ranks.neighbours > 1 and where == MEMORY:
        there, where = there // ranks.neighbours, f"memory on each of {ranks.neighbours} ranks"
    parts = ranks.world if s.zero else 1

    def needed(B, T):
        kept = dict(precision=s.precision, master_weights=s.master_weights, recompute=s.recompute, parts=parts)
        one = memory_needed(config, B, T, s.backend, tokens, model is not None, **kept)
        return one if jobs == 1 else one + PROCESS

    tokens = count_tokens(train_tokens)
    one = needed(s.batch_size, s.sequence_length)
    if jobs * one <= there or os.environ.get(WITHOUT):
        return
    if one <= there:
        advice = f"--jobs {there // one} fits"
    else:
        advice = "close other programs, or resume it on a larger machine" if model else _smaller(s, needed, there)
    runs = f"{jobs} runs at a time, each" if jobs > 1 else "training"
    raise UserError(
        f"{runs} with B={s.batch_size:,} and T={s.sequence_length:,}{' takes' if jobs == 1 else ', take'} about"
        f" {_size(jobs * one)} of {where}, and {_size(there)} are free; {advice}, or set {WITHOUT}=1 to try"
        " anyway."
    )


def check_step(config, B, T, backend, precision="fp32", recompute=None):
    """Raise UserError if a single training step at (B, T), outside a run, does not fit into memory."""
    there, where = free_memory(backend)
    needed = memory_needed(config, B, T, backend, precision=precision, recompute=recompute)
    if needed > there:
        raise UserError(
            f"a step with B={B:,} and T={T:,} takes about {_size(needed)} of {where}, and {_size(there)} are free;"
            " choose a smaller batch or sequence length."
        )


def step_fits(config, T, backend, tokens=0, sharing=1, **kept):
    """A function of B: whether training at (B, T) fits into the memory that is free now, with some to spare.

    tokens: as in `memory_needed` · sharing: the number of processes that share the machine's memory · kept: precision,
    master_weights, recompute, parts.
    """
    there, where = free_memory(backend)
    there //= sharing if where == MEMORY else 1

    def fits(B):
        needed = memory_needed(config, B, T, backend, tokens, **kept)
        spare = ON_GPU + needed // 16 if on_gpu(backend) else needed // 6  # there, the estimate is within 15 percent
        return needed + spare <= there

    return fits


def memory_needed(config, B, T, backend, tokens=0, resumed=False, precision="fp32", **kept) -> int:
    """Bytes that training at (B, T) adds to what this process already holds before it makes the model.

    tokens: in the training data · resumed: whether weights and moments are already in memory · kept: master_weights,
    recompute, parts.
    """
    buffers = training_buffers(config, backend, B, T, precision, **kept).values()
    weights, gradients, *moments, activations, their_gradients = (buffer.nbytes for buffer in buffers)
    moments, activations = sum(moments), activations + their_gradients  # with the master weights
    if resumed:
        weights = moments = 0
    counting = COUNTING * min(tokens, BASELINE_TOKENS)
    arrays = gradients + moments + activations + _temporaries(config, B, T, backend)
    arrays += _widened(config, B, T, backend, precision)
    return PROGRAM.get(backend, 0) + weights + max(counting, arrays)


def _temporaries(config, B, T, backend) -> int:
    """Bytes of the largest temporary arrays in a step: those of GELU, of attention, and of a validation."""
    if backend != "numpy":
        return 0  # "cpu" and "cuda" work in place
    return FLOAT * B * T * max(6 * 4 * config.C, 2 * config.NH * T, config.Vp)


def _widened(config, B, T, backend, precision) -> int:
    """Bytes of the largest 16-bit arrays that a function takes, once widened: the logits and wte, twice."""
    if backend == "cuda" or not find_precision(precision).is_mixed:
        return 0
    return 2 * FLOAT * config.Vp * (B * T + config.C)


def free_memory(backend) -> tuple[int, str]:
    """(bytes, whose memory it is) for the device where this backend computes."""
    if not on_gpu(backend):
        return available.memory(), MEMORY
    from llmc import cuda

    return cuda.free_memory(), "the GPU's memory"


def on_gpu(backend) -> bool:
    """Whether this backend computes in the memory of a GPU."""
    from llmc import cuda

    return backend == "cuda" and cuda.device() == "gpu"


def config_of(s, encoding):
    """The sizes of the model with which a run with these settings and this tokenizer begins."""
    return read_config(find_model(s.model)) if s.model else preset(s.preset, V=encoding.n_vocab)


def _smaller(s, needed, there) -> str:
    """The largest batch that fits, or, where no batch does, the longest sequence."""
    B = _largest(s.batch_size, lambda B: needed(B, s.sequence_length) <= there)
    while B and s.total_batch_size and s.total_batch_size % (B * s.sequence_length):
        B -= 1
    if B:
        return f"--batch-size {B} fits"
    T = _largest(s.sequence_length, lambda T: needed(1, T) <= there)
    return f"--batch-size 1 --sequence-length {T} fits" if T else "choose a smaller model with --preset"


def _largest(high, holds) -> int:
    """The largest number below `high` for which `holds`, which is true for small numbers, is true; 0 if none is."""
    low = 0  # holds, or is 0; `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# --------------------------------------------------------------------------------------------------------- disk


def check_disk(settings, config, folder, saved=(), step=0):
    """Raise UserError if a run's checkpoints would not fit onto the disk that holds its folder.

    saved: the steps of the checkpoints that already exist · step: where the run begins.
    """
    s, there = settings, shutil.disk_usage(folder).free
    each = checkpoint_bytes(config, s.precision, s.master_weights)
    left = -(-(s.steps - step) // s.checkpoint_every) if s.checkpoint_every else 1  # checkpoints still to be written
    most = min(left, s.keep + 1 - len(saved)) if s.keep else left  # one more than are kept, while it is written
    if each * most <= there or os.environ.get(WITHOUT):
        return
    raise UserError(
        f"{most:,} checkpoints of {_size(each)} each do not fit onto the disk of {folder}, which has"
        f" {_size(there)} free; {_fewer(there // each - 1)}, or set {WITHOUT}=1 to try anyway."
    )


def checkpoint_bytes(config, precision="fp32", master_weights=True) -> int:
    """Bytes of the weights, both moments and, if weights have 16 bits, the master weights; headers hardly count."""
    p = find_precision(precision)
    exact = 3 if p.is_mixed and master_weights else 2
    return (p.weights.itemsize + exact * p.exact.itemsize) * config.num_parameters_padded


def _fewer(keep) -> str:
    return f"--keep {keep} fits" if keep > 0 else "free some space, or choose another disk with --out"


def _size(n) -> str:
    """ "1.4 GiB"; smaller sizes in MiB."""
    return f"{n / GiB:,.1f} GiB" if n >= GiB else f"{n / 2**20:,.0f} MiB"
