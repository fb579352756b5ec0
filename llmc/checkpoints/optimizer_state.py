"""llm.c's optimizer state, `state_%08d_%05d.bin`: a header, then AdamW's m and v in float32, in the model's flat order.

If weights have 16 bits, their float32 master copy, if any, follows v. Processes that share the state (ZeRO-1) each
write a file with their part of every tensor (llmc/optimizer.py); any number of processes can read these.

The words that llm.c's load_state (train_gpt2.cu) reads are where it expects them, and describe a run in file order or
in the order of llm.c's shuffle, whose permutations follow the arrays. Values that only llmc needs are where llm.c does
not look: after everything else, and in the header from word 40 on. In llm.c's own files these words are zero, which is
the right value here too.
"""

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from llmc.backends import get_backend
from llmc.checkpoints.saved_files import state_path
from llmc.data.permuted import LLM_C, SEED, read_permutation
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import HashingFile
from llmc.files.floats import FLOAT32, read_floats, write_floats
from llmc.files.header import SIZE, make_header, read_header
from llmc.files.reading import file_size, opened
from llmc.optimizer import layers_of

MAGIC = 20240527
VERSION = 1
PROCESSES, RANK, MASTER, PERMUTATION, STEP = 2, 3, 4, 5, 10  # int32 words, as in llm.c
RNG, RNG_LAST = 20, 22  # like the positions, these are uint64, two words each
SHUFFLED, SKIPPED = 40, 41  # int32: whether llmc shuffled in its own way; number of steps without an update
POSITIONS = {"shard": 30, "sample": 32, "epoch": 42, "seed": 44}  # llm.c knows the first two
LOSSES, NORMS = 46, 47  # int32: how many float64 of each follow the arrays
LOSS_SCALE, GOOD_STEPS = 48, 49  # int32: log2 of the loss scale, and the steps since it changed
RANKS = 50  # int32: how many processes shared the batches; 0: as many as have a file
MOST_DOUBLED = 24  # log2 of the largest loss scale; no gradient needs more
HIGHEST = 2**63 - 1  # no counter comes near it; more means damage


@dataclass
class TrainState:
    """The state of a run: everything that the next step depends on, apart from the model.

    step: steps done · order: of the batches, as in TrainSettings · loader: {name: whole number}, as
    `DataLoader.state()` gives it (shard, sample, epoch; also seed if shuffled) · rng: uint64 · losses, norms: those of
    the last steps, oldest first, in float64, for detecting outliers among the next ones · loss_scale: (its log2, good
    steps since it changed), see training/loss_scale.py · about: what DONE says about the run (saved_files.py), in
    JSON's types; it is not in the state file itself · permutation: in llm.c's order, as `PermutedLoader.permutation`
    gives it.
    """

    step: int
    order: str = "files"
    loader: dict = field(default_factory=dict)
    rng: int = 0
    losses: tuple = ()
    norms: tuple = ()
    loss_scale: tuple = (0, 0)
    ranks: int = 1
    about: dict = field(default_factory=dict)
    permutation: bytes = b""


def write_optimizer_state(path, model, state: TrainState) -> str:
    """Write m, v, t and the master weights, and the state, under a temporary name until the file is complete.

    Returns the file's SHA-256. Raises UserError for a model in fp64, and if the file cannot be written.
    """
    _check_precision(model)
    model.start_master()
    header = _make_header(state, model)  # (256,)
    with atomic_write(path) as plain:
        file = HashingFile(plain)
        file.write(header.tobytes())
        for group in _groups(model):
            for tensor in group.values():  # in file order
                write_floats(file, tensor.reshape(-1), model.backend)  # (size,)
        file.write(state.permutation)
        file.write(np.array([*state.losses, *state.norms], "<f8").tobytes())
        return file.digest()


def read_optimizer_state(path, model) -> TrainState:
    """Fill the model's m, v and t, and its master weights if the file holds them; returns the state.

    path: rank 0's file, if several processes have written one each. A float32 model without a master copy takes llm.c's
    as its weights. Raises UserError if a file is missing, damaged or another model's.
    """
    _check_precision(model)
    header = read_header(path, MAGIC, (VERSION,), "an optimizer state")  # (256,)
    state, t = _parse_header(path, header)
    arrays, losses, norms = (int(n) for n in (2 + header[MASTER], header[LOSSES], header[NORMS]))
    size = SIZE + 8 * (losses + norms)  # without the arrays
    whole, parts = 4 * arrays * model.config.num_parameters_padded, int(header[PROCESSES])
    if state.order == LLM_C:
        parts, permutation = _find_permutation(path, parts, whole, size)
        state = replace(state, permutation=permutation)
        size += len(permutation)
    elif parts > 1 and file_size(path) == size + whole:  # llm.c without ZeRO: each process has written all of it
        parts = 1
    if model.config.C % parts:
        raise UserError(
            f"{path} is one of {parts:,} parts, into which this model cannot be split; it belongs to another model."
        )
    paths = [path] if parts == 1 else [state_path(path.parent, state.step, rank) for rank in range(parts)]
    for each in paths:
        _check_size(each, size + whole // parts)
    groups = [model.m, model.v, model.params if model.master is None else model.master][:arrays]
    recent = _read_groups(paths, model, groups, len(state.permutation), losses + norms)
    model.has_master = model.master is not None and arrays == 3
    model.t, state.losses, state.norms = t, tuple(recent[:losses]), tuple(recent[losses:])
    return state


def _find_permutation(path, parts, whole, size):
    """(1 or parts, whichever the file holds, and its permutation) for a state in llm.c's order.

    whole, size: bytes of all arrays, and of everything else except the permutation. Raises UserError if there is none.
    """
    for n in (parts, 1):  # 1: llm.c without ZeRO, where each process has written all of the arrays
        with opened(path) as file, suppress(ValueError):
            file.seek(SIZE + whole // n)
            permutation = read_permutation(file, file_size(path))
            if file_size(path) == size + whole // n + len(permutation):
                return n, permutation
    raise UserError(
        f"{path} is truncated, damaged or another model's: it does not end with llm.c's order of batches; resume from"
        " another checkpoint."
    )


def _read_groups(paths, model, groups, skip, count) -> list:
    """Fill the model's part of these buffers from the parts in the files.

    Returns the `count` numbers that follow, `skip` bytes later.
    """
    parts = len(paths)
    with ExitStack() as stack:
        files = [stack.enter_context(opened(path)) for path in paths]
        for file in files:
            file.seek(SIZE)
        for group in groups:
            ours = (0, 1) if group is model.params else model.part
            for tensor in model.table:
                if ours[1] == parts == 1:
                    read_floats(files[0], group[tensor.name].reshape(-1), model.backend)  # (size,)
                else:
                    _read_tensor(files, group[tensor.name].reshape(-1), tensor, ours, model.backend)
        files[0].seek(skip, 1)
        return np.fromfile(files[0], "<f8", count).tolist()


def _read_tensor(files, flat, tensor, ours, backend):
    """Fill our part (n,) of a tensor, (which, of how many), from the next numbers of files that each hold one part."""
    which, parts = ours
    layers = layers_of(tensor, max(parts, len(files)))
    each = prod(tensor.shape) // (layers * len(files))
    whole = np.empty((layers, len(files), each), FLOAT32)  # (layers, files, size / (layers · files))
    for place, file in enumerate(files):
        part = np.empty(whole[:, place].size, FLOAT32)  # (size / files,)
        read_floats(file, part, get_backend("numpy"))
        whole[:, place] = part.reshape(layers, -1)
    flat[...] = backend.from_numpy(whole.reshape(layers, parts, -1)[:, which].reshape(-1))  # (n,)


def _groups(model) -> list:
    """The buffers in a file, in its order."""
    return [buffer for buffer in (model.m, model.v, model.master) if buffer is not None]


def _check_precision(model):
    if model.precision.exact != np.float32:
        raise UserError(
            f"an optimizer state holds float32, but this model computes in {model.precision.name}; use another"
            " precision."
        )


def _check_size(path, expected):
    if file_size(path) != expected:
        raise UserError(
            f"{path} has {file_size(path):,} bytes, but the optimizer state of this model takes {expected:,}: it is"
            " truncated, or another model's; resume from another checkpoint."
        )


def _make_header(state, model):
    """(256,) int32 of a state and its model."""
    header = make_header(MAGIC, VERSION)
    header[PERMUTATION] = state.order == LLM_C
    header[RANK], header[PROCESSES] = model.part
    header[STEP], header[MASTER], header[RANKS] = state.step, model.master is not None, state.ranks
    header[SHUFFLED], header[SKIPPED] = state.order == "random", state.step - model.t
    header[LOSS_SCALE], header[GOOD_STEPS] = state.loss_scale
    header[LOSSES], header[NORMS] = len(state.losses), len(state.norms)
    long = header.view("<u8")  # (128,)
    long[RNG // 2] = long[RNG_LAST // 2] = state.rng
    for name, value in state.loader.items():
        long[POSITIONS[name] // 2] = value
    return header


def _parse_header(path, header):
    """(TrainState, t) from a header (256,). Raises UserError if the state is damaged or cannot be used here."""
    step, t = int(header[STEP]), int(header[STEP]) - int(header[SKIPPED])
    loader = {name: int(header.view("<u8")[word // 2]) for name, word in POSITIONS.items()}
    rng = int(header.view("<u8")[RNG // 2])
    flags, counts = header[[MASTER, SHUFFLED, PERMUTATION]], header[[LOSSES, NORMS]]  # (3,), (2,)
    counts = *counts, header[LOSS_SCALE], header[GOOD_STEPS], header[RANKS]
    in_range = min(step, t, *counts) >= 0 and header[LOSS_SCALE] <= MOST_DOUBLED
    in_range &= header[PROCESSES] >= 1 and header[RANK] == 0  # the other ranks' files are read with that of rank 0
    in_range &= all(flag in (0, 1) for flag in flags) and flags[1:].sum() < 2
    if not in_range or max(loader.values()) > HIGHEST:
        raise UserError(f"the header of {path} is damaged; resume from another checkpoint.")
    if header[PERMUTATION] and not header[RANKS]:  # llm.c's own file, which has no seed in it
        loader["seed"] = SEED
    elif not header[PERMUTATION] and not header[SHUFFLED]:
        del loader["seed"]
    scale = int(header[LOSS_SCALE]), int(header[GOOD_STEPS])
    ranks = int(header[RANKS] or header[PROCESSES])
    order = LLM_C if header[PERMUTATION] else "random" if header[SHUFFLED] else "files"
    return TrainState(step, order, loader, rng=rng, loss_scale=scale, ranks=ranks), t
