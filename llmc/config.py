"""The shape of a GPT-2: its sizes, the table of its sixteen parameter tensors, and what one token costs to train on.

Follows the GPT-2 paper (Radford et al. 2019) and the header and tensor order of llm.c's train_gpt2.c.
"""

from dataclasses import dataclass, fields
from math import prod
from typing import NamedTuple

from llmc.errors import UserError

VOCABULARY_MULTIPLE = 128  # rows of wte are padded up to this, so that matmul tiles divide evenly


class Parameter(NamedTuple):
    """One parameter tensor, by its llm.c name.

    stacked: whether its first axis is the L layers · initial: how it is initialised: "normal", "residual" (normal, but
    smaller because it writes into the residual stream), "ones" or "zeros"; llmc/initialization.py has the numbers.
    """

    name: str
    shape: tuple[int, ...]
    stacked: bool
    initial: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def decayed(self) -> bool:
        """Whether weight decay applies: yes for matrices, no for vectors."""
        return len(self.shape) - self.stacked == 2


@dataclass(frozen=True)
class GPT2Config:
    """The sizes of a GPT-2. Raises UserError (a ValueError) with one sentence if they do not fit together.

    maxT: longest sequence · V: vocabulary · L: layers · NH: attention heads · C: channels.
    """

    maxT: int = 1024
    V: int = 50257
    L: int = 12
    NH: int = 12
    C: int = 768

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"{field.name} must be a positive whole number, not {value!r}.")
        if self.C % self.NH != 0:
            raise UserError(
                f"C={self.C} channels cannot be split evenly among NH={self.NH} heads; make C a multiple of NH."
            )

    @property
    def hs(self) -> int:
        """Head size: channels per attention head."""
        return self.C // self.NH

    @property
    def Vp(self) -> int:
        """Vocabulary padded up to a multiple of 128; 50257 -> 50304."""
        return -(-self.V // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE

    def check_sequence_length(self, T: int):
        """Raise UserError unless 1 <= T <= maxT."""
        if not 1 <= T <= self.maxT:
            raise UserError(f"sequence length T={T} must be between 1 and this model's maxT={self.maxT}.")

    def parameter_table(self) -> list[Parameter]:
        """The sixteen tensors, in the order of llm.c's model file; weights are (out, in), as in PyTorch's Linear."""
        L, C = self.L, self.C
        rows = [  # name, shape, stacked, initial
            ("wte", (self.Vp, C), False, "normal"),
            ("wpe", (self.maxT, C), False, "normal"),
            ("ln1w", (L, C), True, "ones"),
            ("ln1b", (L, C), True, "zeros"),
            ("qkvw", (L, 3 * C, C), True, "normal"),
            ("qkvb", (L, 3 * C), True, "zeros"),
            ("attprojw", (L, C, C), True, "residual"),
            ("attprojb", (L, C), True, "zeros"),
            ("ln2w", (L, C), True, "ones"),
            ("ln2b", (L, C), True, "zeros"),
            ("fcw", (L, 4 * C, C), True, "normal"),
            ("fcb", (L, 4 * C), True, "zeros"),
            ("fcprojw", (L, C, 4 * C), True, "residual"),
            ("fcprojb", (L, C), True, "zeros"),
            ("lnfw", (C,), False, "ones"),
            ("lnfb", (C,), False, "zeros"),
        ]
        return [Parameter(*row) for row in rows]

    @property
    def num_parameters_padded(self) -> int:
        """Number of elements stored and updated, including the padding rows of wte."""
        return sum(p.size for p in self.parameter_table())

    @property
    def num_parameters(self) -> int:
        """Number of parameters without padding; exactly 124,439,808 for gpt2."""
        return self.num_parameters_padded - (self.Vp - self.V) * self.C

    def flops_per_token(self, T: int) -> int:
        """Floating-point operations to train on one token at sequence length T: 6N + 6·L·C·T, as llm.c counts them for
        MFU.

        N is the padded parameter count: each weight takes one multiply-add in the forward pass and two in the backward
        pass.
        """
        return 6 * self.num_parameters_padded + 6 * self.L * self.C * T


PRESETS = {
    "tiny": GPT2Config(maxT=64, V=1024, L=2, NH=4, C=128),  # learns to write in two minutes on two CPU cores
    "d6": GPT2Config(L=6, C=384, NH=6),
    "d12": GPT2Config(L=12, C=768, NH=12),
    "d24": GPT2Config(L=24, C=1024, NH=16),
    "d36": GPT2Config(L=36, C=1280, NH=20),
    "d48": GPT2Config(L=48, C=1600, NH=25),
    # GPT-3's sizes as llm.c has them: attention is dense in every layer, and 1.3B has 16 heads, not the paper's 24
    "gpt3-125m": GPT2Config(maxT=2048, L=12, C=768, NH=12),
    "gpt3-350m": GPT2Config(maxT=2048, L=24, C=1024, NH=16),
    "gpt3-760m": GPT2Config(maxT=2048, L=24, C=1536, NH=16),
    "gpt3-1.3b": GPT2Config(maxT=2048, L=24, C=2048, NH=16),
}
ALIASES = {"gpt2": "d12", "gpt2-medium": "d24", "gpt2-large": "d36", "gpt2-xl": "d48"}
PRESETS.update({alias: PRESETS[name] for alias, name in ALIASES.items()})


def preset(name: str, **changes: int) -> GPT2Config:
    """The configuration of that name, with fields replaced: preset("tiny", V=512). Raises UserError for an unknown
    name."""
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}.")
    values = {field.name: getattr(PRESETS[name], field.name) for field in fields(GPT2Config)}
    return GPT2Config(**{**values, **changes})
