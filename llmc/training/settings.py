"""All numbers that a training run depends on, checked before anything starts; the defaults suit a two-core laptop."""

import os
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from llmc.blocks import RECOMPUTE
from llmc.data.permuted import LLM_C
from llmc.errors import UserError
from llmc.precision import TRAINED
from llmc.training.schedule import KINDS

AUTO = "auto"  # what the machine decides: a batch size by the memory that is free
PLACE = ("out", "name")  # where the run goes: the only settings that are not part of the run itself
AT_LEAST_ONE = ("batch_size", "sequence_length", "total_batch_size", "steps", "val_every", "val_batches")
OPTIONAL = ("total_batch_size", "val_batches")
AT_LEAST_ZERO = ("warmup", "seed", "sample_every", "sample_tokens", "checkpoint_every", "keep", "hellaswag_every")
POSITIVE = ("learning_rate", "eps")
NOT_NEGATIVE = ("clip", "skip_loss_z", "skip_norm_z")
SHARES = ("final_fraction", "weight_decay")
BELOW_ONE = ("beta1", "beta2")
TEXTS = ("preset", "model", "data", "schedule", "backend", "precision", "attention", "matmul", "out", "name")


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one run. Raises UserError, in one sentence, for a number that makes no sense.

    Model and data: preset, a name in llmc.config.PRESETS, with the tokenizer's vocabulary in place of its own · model:
    a model file or a run to start from instead (fine-tuning) · data: a corpus, or a folder with train.bin, val.bin and
    tokenizer.bin · shuffle: True takes batches in a random order of our own (data/shuffled.py), "llm.c" in that of
    llm.c's programs (data/permuted.py), False in that of the files · seed: for weights, batches and samples · backend:
    see llmc/backends · precision: see llmc/precision.py · master_weights: where weights have 16 bits, whether they are
    also kept in float32 · recompute: what the backward pass computes again, see llmc/blocks.py; None takes what the
    backend prefers · attention: "own", or "cudnn" for NVIDIA's, on a GPU in 16 bits · matmul: "cublas" for NVIDIA's,
    "own", or the "fastest" of both, likewise · zero: 1 shares the optimizer's memory between ranks, see
    llmc/distributed/data_parallel.py.
    A step: batch_size sequences of sequence_length tokens at a time ("auto": see batch_size.py), on each rank, repeated
    until there are total_batch_size tokens (None: once) · warmup, schedule, final_fraction: see schedule.py ·
    weight_decay: on matrices and embeddings · clip: largest gradient norm, 0 for no limit · skip_loss_z, skip_norm_z:
    see outliers.py, 0 skips nothing.
    Between steps: val_every, sample_every, checkpoint_every in steps, 0 for only at the end (val_every: at least 1) ·
    val_batches: None measures on all of the validation data · hellaswag_every: steps between measurements on HellaSwag,
    0 for none · keep: how many of the newest checkpoints to keep, 0 for all · out: the run folder, which must not hold
    a run yet; None takes runs/NAME, or runs/NAME-2, … if that exists · name: None takes the name of the preset or the
    model.
    """

    preset: str = "tiny"
    model: str | None = None
    data: str = "pydocs"
    batch_size: int | str = 16
    sequence_length: int = 64
    total_batch_size: int | None = None
    steps: int = 2500
    learning_rate: float = 4e-3
    warmup: int = 50
    schedule: str = "cosine"
    final_fraction: float = 0.0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0
    skip_loss_z: float = 0.0
    skip_norm_z: float = 0.0
    seed: int = 42
    shuffle: bool | str = True
    backend: str = "cpu"
    precision: str = "fp32"
    master_weights: bool = True
    recompute: int | None = None
    attention: str = "own"
    matmul: str = "fastest"
    zero: int = 0
    val_every: int = 200
    val_batches: int | None = None
    hellaswag_every: int = 0
    sample_every: int = 0
    sample_tokens: int = 200
    checkpoint_every: int = 200
    keep: int = 2
    out: str | None = None
    name: str | None = None

    def __post_init__(self):
        for name in AT_LEAST_ONE:
            left_open = {"batch_size": AUTO} | dict.fromkeys(OPTIONAL)
            if name not in left_open or getattr(self, name) != left_open[name]:
                self._check(name, int, lambda x: x >= 1, "a whole number of at least 1")
        for name in AT_LEAST_ZERO:
            self._check(name, int, lambda x: x >= 0, "a whole number of zero or more")
        for name in POSITIVE:
            self._check(name, (int, float), lambda x: x > 0 and isfinite(x), "a number above zero")
        for name in NOT_NEGATIVE:
            self._check(name, (int, float), lambda x: x >= 0 and isfinite(x), "a number of zero or more")
        for name in SHARES:
            self._check(name, (int, float), lambda x: 0 <= x <= 1, "a number from 0 to 1")
        for name in BELOW_ONE:  # 1 would divide by zero in the bias correction
            self._check(name, (int, float), lambda x: 0 <= x < 1, "a number from 0 to less than 1")
        for name in TEXTS:
            if getattr(self, name) is not None:
                self._check(name, (str, os.PathLike), lambda x: "\0" not in str(x), "a text")
        if not isinstance(self.master_weights, bool):
            raise UserError(f"master weights must be true or false, not {self.master_weights!r}.")
        if not isinstance(self.shuffle, bool) and self.shuffle != LLM_C:
            raise UserError(f"shuffle must be true, false or {LLM_C}, not {self.shuffle!r}.")
        if self.precision not in TRAINED:
            raise UserError(f"there is no training in {self.precision!r}; choose one of {', '.join(TRAINED)}.")
        if self.recompute is not None:
            self._check("recompute", int, lambda x: x in RECOMPUTE, "0, 1, 2 or 3")
        self._check("zero", int, lambda x: x in (0, 1), "0 or 1")
        if not self.preset or not str(self.data):
            raise UserError("a run needs a preset and data; leave the options out to take the defaults.")
        if self.schedule not in KINDS:
            raise UserError(f"there is no schedule {self.schedule!r}; choose one of {', '.join(KINDS)}.")
        B = 1 if self.batch_size == AUTO else self.batch_size
        if (self.total_batch_size or 0) % (B * self.sequence_length):
            once = f"{B} x {self.sequence_length} = {B * self.sequence_length:,} tokens"
            raise UserError(
                f"total batch size must be a multiple of batch size x sequence length, {once}, not"
                f" {self.total_batch_size:,}."
            )

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one update learns from."""
        return self.total_batch_size or self.batch_size * self.sequence_length

    @property
    def micro_batches(self) -> int:
        """How many batches of B·T tokens are accumulated for one update."""
        return self.tokens_per_step // (self.batch_size * self.sequence_length)

    @property
    def title(self) -> str:
        """The name of a run with these settings: its own, else its model's, else its preset's."""
        return self.name or (Path(self.model).stem if self.model else self.preset)

    def shared_by(self, world) -> "TrainSettings":
        """The settings of a run of so many ranks, whose step has B·T tokens of each unless it says how many.

        They stay as they are while B is not known yet. Raises UserError when a step cannot be shared by the ranks.
        """
        if world == 1 or self.batch_size == AUTO:
            return self
        once = self.batch_size * self.sequence_length * world
        if self.total_batch_size is not None and self.total_batch_size % once:
            raise UserError(
                f"{world} ranks of {self.batch_size} x {self.sequence_length} tokens take {once:,} at a time, and"
                f" {self.total_batch_size:,} tokens per step are no multiple of that; change --batch-size or"
                " --total-batch-size."
            )
        return replace(self, total_batch_size=self.total_batch_size or once)

    def _check(self, name, kind, holds, what):
        value = getattr(self, name)
        if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
            raise UserError(f"{name.replace('_', ' ')} must be {what}, not {value!r}.")
