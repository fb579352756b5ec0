"""All settings of a training run, checked before anything starts; the defaults suit a two-core laptop.

Each setting is declared once, here; its option of `llmc train`, its check, its help and its line in settings.json
follow.
"""

import os
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from llmc.backends import WHOSE_ATTENTION, WHOSE_MATMUL
from llmc.blocks import RECOMPUTE
from llmc.data.permuted import LLM_C
from llmc.errors import UserError
from llmc.precision import TRAINED
from llmc.training.schedule import KINDS

AUTO = "auto"  # what the machine decides: a batch size by the memory that is free


class Bound(NamedTuple):
    """Allowed values of a setting: `open`, and those of `type` for which holds(value) is true (`what`, in words)."""

    type: type | tuple
    holds: object
    what: str
    open: tuple = ()

    def or_(self, *values):
        """The same, but it also allows these values."""
        return self._replace(open=values)

    def allows(self, value) -> bool:
        """Whether the setting allows this value."""
        if any(value is each or value == each and isinstance(each, str) for each in self.open):
            return True
        return isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool)) and self.holds(value)


def one_of(*choices):
    """A Bound that allows only these choices."""
    *others, last = map(str, choices)
    return Bound(type(choices[0]), lambda x: x in choices, f"{', '.join(others)} or {last}")


TEXT = Bound((str, os.PathLike), lambda x: str(x) and "\0" not in str(x), "a text")
COUNT = Bound(int, lambda x: x >= 1, "a whole number of at least 1")
WHOLE = Bound(int, lambda x: x >= 0, "a whole number of zero or more")
POSITIVE = Bound((int, float), lambda x: x > 0 and isfinite(x), "a number above zero")
NOT_NEGATIVE = Bound((int, float), lambda x: x >= 0 and isfinite(x), "a number of zero or more")
SHARE = Bound((int, float), lambda x: 0 <= x <= 1, "a number from 0 to 1")
BELOW_ONE = Bound((int, float), lambda x: 0 <= x < 1, "a number from 0 to less than 1")  # 1: bias correction by 0
TRUTH = Bound(bool, lambda x: True, "true or false")


def _setting(group, default, bound, help="", fixed=False, place=False):
    """A field of TrainSettings; its option appears in this group.

    help: the option's help, "" if commands/train.py adds the option itself · fixed: whether another value would make it
    a different run, because the weights and the order of the batches depend on it · place: whether it only says where
    the run goes.
    """
    return field(default=default, metadata=dict(bound=bound, group=group, help=help, fixed=fixed, place=place))


_model, _step, _run = (partial(_setting, group) for group in ("model and data", "each step", "the run"))


@dataclass(frozen=True)
class TrainSettings:
    """The settings of one run, described in `llmc train --help`. Raises UserError, in one sentence, for a wrong value.

    order: "random" is our own random order of the batches (data/loader.py), "llm.c" that of llm.c's programs
    (data/permuted.py), "files" that of the text in the files · master_weights: whether 16-bit weights are also kept in
    float32 · recompute: None leaves the choice to the backend · val_batches: None uses all of the validation data. For
    settings that count steps between events, 0 means only at the end.
    """

    preset: str = _model("tiny", TEXT, "model size; see llmc/config.py", fixed=True)
    model: str | None = _model(
        None,
        TEXT.or_(None),
        "a model file, a run or openai-community/gpt2 to start from, instead of fresh weights",
        fixed=True,
    )
    data: str = _model("pydocs", TEXT, "a corpus, or a folder with train.bin, val.bin and tokenizer.bin")
    seed: int = _model(42, WHOLE, "random seed for weights, batches and samples", fixed=True)
    backend: str = _model("cpu", TEXT, "the code that computes the layers: numpy, cpu or cuda")
    precision: str = _model(
        "fp32",
        one_of(*TRAINED),
        f"compute precision: fp32, tf32 (on a GPU), bf16, fp16 or fp8; {AUTO}: bf16 if the processor supports it",
        fixed=True,
    )
    recompute: int | None = _model(
        None,
        one_of(*RECOMPUTE).or_(None),
        "what to recompute to save memory: 0 nothing, 1 GELU, 2 both GELU and layernorm, 3 layernorm",
    )
    attention: str = _model("own", TEXT, WHOSE_ATTENTION)
    matmul: str = _model("fastest", TEXT, WHOSE_MATMUL)
    zero: int = _model(
        0, one_of(0, 1), "1 splits the optimizer's state between ranks (ZeRO-1); 0 gives each rank all of it"
    )
    batch_size: int | str = _step(
        16, COUNT.or_(AUTO), "sequences per batch, B; auto: the largest power of two that fits into free memory"
    )
    sequence_length: int = _step(64, COUNT, "tokens per sequence, T", fixed=True)
    total_batch_size: int | None = _step(
        None, COUNT.or_(None), "tokens per update, accumulated over batches of B x T (default: B x T)"
    )
    learning_rate: float = _step(4e-3, POSITIVE, "the highest learning rate")
    warmup: int = _step(50, WHOLE, "number of steps over which the learning rate rises")
    schedule: str = _step("cosine", one_of(*KINDS), "cosine, linear, constant or wsd")
    final_fraction: float = _step(0.0, SHARE, "final learning rate, as a fraction of the highest")
    weight_decay: float = _step(0.1, SHARE, "AdamW's weight decay, on matrices and embeddings")
    beta1: float = _step(0.9, BELOW_ONE, "AdamW's decay rate for the mean of the gradient")
    beta2: float = _step(0.95, BELOW_ONE, "AdamW's decay rate for the mean of the squared gradient")
    eps: float = _step(1e-8, POSITIVE, "AdamW's epsilon, added to the denominator")
    clip: float = _step(1.0, NOT_NEGATIVE, "clip the gradient's norm to this value; 0 for no limit")
    skip_loss_z: float = _step(
        0.0,
        NOT_NEGATIVE,
        "skip an update if its loss lies X standard deviations above the mean of the last 128; 0 to skip none",
    )
    skip_norm_z: float = _step(0.0, NOT_NEGATIVE, "the same for the norm of the gradient")
    steps: int = _run(2500, COUNT, "total number of steps")
    val_every: int = _run(200, COUNT, "steps between validations")
    val_batches: int | None = _run(None, COUNT.or_(None), "batches per validation (default: all the validation data)")
    hellaswag_every: int = _run(0, WHOLE, "steps between measurements on HellaSwag, which is downloaded; 0 for none")
    sample_every: int = _run(0, WHOLE, "steps between samples; 0 for only one at the end")
    sample_tokens: int = _run(200, WHOLE, "tokens per sample")
    checkpoint_every: int = _run(200, WHOLE, "steps between checkpoints; 0 for only one at the end")
    keep: int = _run(2, WHOLE, "how many of the newest checkpoints to keep; 0 for all")
    out: str | None = _run(
        None, TEXT.or_(None), "the run folder, which must be empty or not exist yet (default: runs/NAME)", place=True
    )
    name: str | None = _run(
        None,
        TEXT.or_(None),
        "name of the run folder in runs/; if it exists, NAME-2 and so on (default: the preset or model)",
        place=True,
    )
    order: str = _run(
        "random",
        one_of("random", LLM_C, "files"),
        f"order of the batches: random, {LLM_C} (that of llm.c's programs, as in recipes) or files (that of the text)",
        fixed=True,
    )
    master_weights: bool = _run(True, TRUTH, fixed=True)

    def __post_init__(self):
        for each in fields(self):
            bound, value = each.metadata["bound"], getattr(self, each.name)
            if not bound.allows(value):
                raise UserError(f"{each.name.replace('_', ' ')} must be {bound.what}, not {value!r}.")
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
        """The name of a run with these settings: its own name, or else its model's or its preset's."""
        return self.name or (Path(self.model).stem if self.model else self.preset)

    def shared_by(self, world) -> "TrainSettings":
        """The settings for `world` ranks; unless total_batch_size is set, each rank adds B·T tokens to a step.

        They do not change while B is still unknown. Raises UserError if a step cannot be divided among the ranks.
        """
        if world == 1 or self.batch_size == AUTO:
            return self
        once = self.batch_size * self.sequence_length * world
        if self.total_batch_size is not None and self.total_batch_size % once:
            raise UserError(
                f"{world} ranks of {self.batch_size} x {self.sequence_length} tokens take {once:,} at a time, and"
                f" {self.total_batch_size:,} tokens per step is not a multiple of that; change --batch-size or"
                " --total-batch-size."
            )
        return replace(self, total_batch_size=self.total_batch_size or once)


FIXED, PLACE = (tuple(f.name for f in fields(TrainSettings) if f.metadata[which]) for which in ("fixed", "place"))
