"""Every number that a training run depends on, checked before anything starts; the defaults fit a two-core laptop."""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from llmc.errors import UserError
from llmc.training.schedule import KINDS

AT_LEAST_ONE = ("batch_size", "sequence_length", "total_batch_size", "steps", "val_every", "val_batches")
OPTIONAL = ("total_batch_size", "val_batches")
AT_LEAST_ZERO = ("warmup", "seed", "sample_every", "sample_tokens", "checkpoint_every", "keep")
POSITIVE = ("learning_rate", "eps")
NOT_NEGATIVE = ("clip", "skip_loss_z", "skip_norm_z")
SHARES = ("final_fraction", "weight_decay", "beta1", "beta2")


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one run. Raises UserError, in one sentence, for a number that makes no sense.

    What is trained: preset, a name in llmc.config.PRESETS, its vocabulary replaced by the tokenizer's · model: a model
    file or a run to start from instead (fine-tuning) · data: a corpus or a folder with train.bin, val.bin,
    tokenizer.bin · shuffle: False takes llm.c's order · seed: of weights, batches and samples.
    A step: batch_size sequences of sequence_length tokens at a time, as often as total_batch_size (tokens; None: once)
    asks for · warmup, schedule, final_fraction: see schedule.py · weight_decay: on matrices and embeddings · clip:
    largest gradient norm, 0 for any · skip_loss_z, skip_norm_z: see outliers.py, 0 skips nothing.
    Beside the steps: val_every, sample_every, checkpoint_every in steps, 0 for only at the end (val_every: at least
    1) · val_batches: None measures on all of the validation data · keep: newest checkpoints that stay, 0 for all ·
    out: the run folder, which must not hold a run yet; None takes runs/NAME, and runs/NAME-2, … when that is there ·
    name: None takes the preset's or the model's.
    """

    preset: str = "tiny"
    model: str | None = None
    data: str = "pydocs"
    batch_size: int = 16
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
    shuffle: bool = True
    backend: str = "cpu"
    val_every: int = 200
    val_batches: int | None = None
    sample_every: int = 0
    sample_tokens: int = 200
    checkpoint_every: int = 200
    keep: int = 2
    out: str | None = None
    name: str | None = None

    def __post_init__(self):
        for name in AT_LEAST_ONE:
            if getattr(self, name) is not None or name not in OPTIONAL:
                self._check(name, int, lambda x: x >= 1, "a whole number of at least 1")
        for name in AT_LEAST_ZERO:
            self._check(name, int, lambda x: x >= 0, "a whole number of zero or more")
        for name in POSITIVE:
            self._check(name, (int, float), lambda x: x > 0 and isfinite(x), "a number above zero")
        for name in NOT_NEGATIVE:
            self._check(name, (int, float), lambda x: x >= 0 and isfinite(x), "a number of zero or more")
        for name in SHARES:
            self._check(name, (int, float), lambda x: 0 <= x <= 1, "a number from 0 to 1")
        if not self.preset or not str(self.data):
            raise UserError("a run needs a preset and data; leave the options out to take the defaults.")
        if self.schedule not in KINDS:
            raise UserError(f"there is no schedule {self.schedule!r}; choose one of {', '.join(KINDS)}.")
        if self.tokens_per_step % (self.batch_size * self.sequence_length):
            once = f"{self.batch_size} x {self.sequence_length} = {self.batch_size * self.sequence_length:,} tokens"
            raise UserError(
                f"total batch size must be a multiple of batch size x sequence length, {once}, not"
                f" {self.total_batch_size:,}."
            )

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one update has seen."""
        return self.total_batch_size or self.batch_size * self.sequence_length

    @property
    def micro_batches(self) -> int:
        """How many batches of B·T tokens one update adds up."""
        return self.tokens_per_step // (self.batch_size * self.sequence_length)

    @property
    def title(self) -> str:
        """What a run of these settings is called: its name, else its model's, else its preset."""
        return self.name or (Path(self.model).stem if self.model else self.preset)

    def _check(self, name, kind, holds, what):
        value = getattr(self, name)
        if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
            raise UserError(f"{name.replace('_', ' ')} must be {what}, not {value!r}.")
