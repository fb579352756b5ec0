"""Every number that a training run depends on, checked before anything starts; the defaults fit a two-core laptop."""

from dataclasses import dataclass
from math import isfinite

from llmc.errors import UserError
from llmc.training.schedule import KINDS

AT_LEAST_ONE = ("batch_size", "sequence_length", "steps", "val_every", "val_batches")
AT_LEAST_ZERO = ("warmup", "seed", "sample_every", "sample_tokens")
POSITIVE = ("learning_rate", "clip")
SHARES = ("final_fraction", "weight_decay", "beta1", "beta2")


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one run. Raises UserError, in one sentence, for a number that makes no sense.

    preset: a name in llmc.config.PRESETS, its vocabulary replaced by the tokenizer's · data: a corpus or a folder
    with train.bin, val.bin, tokenizer.bin · warmup, val_every, sample_every in steps · val_batches: None measures on
    all of the validation data · shuffle: False takes llm.c's order · weight_decay: on matrices and embeddings · clip:
    largest gradient norm · out: the run folder, which must not hold a run yet; None takes runs/NAME, and runs/NAME-2,
    … when that is there · name: None takes the preset's.
    """

    preset: str = "tiny"
    data: str = "pydocs"
    batch_size: int = 16
    sequence_length: int = 64
    steps: int = 1500
    learning_rate: float = 4e-3
    warmup: int = 50
    schedule: str = "cosine"
    final_fraction: float = 0.0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    clip: float = 1.0
    seed: int = 42
    shuffle: bool = True
    backend: str = "numpy"
    val_every: int = 200
    val_batches: int | None = None
    sample_every: int = 0
    sample_tokens: int = 200
    out: str | None = None
    name: str | None = None

    def __post_init__(self):
        for name in AT_LEAST_ONE:
            if getattr(self, name) is not None or name != "val_batches":
                self._check(name, int, lambda x: x >= 1, "a whole number of at least 1")
        for name in AT_LEAST_ZERO:
            self._check(name, int, lambda x: x >= 0, "a whole number of zero or more")
        for name in POSITIVE:
            self._check(name, (int, float), lambda x: x > 0 and isfinite(x), "a number above zero")
        for name in SHARES:
            self._check(name, (int, float), lambda x: 0 <= x <= 1, "a number from 0 to 1")
        if not self.preset or not str(self.data):
            raise UserError("a run needs a preset and data; leave the options out to take the defaults.")
        if self.schedule not in KINDS:
            raise UserError(f"there is no schedule {self.schedule!r}; choose one of {', '.join(KINDS)}.")

    def _check(self, name, kind, holds, what):
        value = getattr(self, name)
        if not isinstance(value, kind) or isinstance(value, bool) or not holds(value):
            raise UserError(f"{name.replace('_', ' ')} must be {what}, not {value!r}.")
