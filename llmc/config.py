"""The shape of a GPT-2: its sizes, its sixteen parameter tensors in file order, and what a token costs.

Follows the GPT-2 paper (Radford et al. 2019) and the header and tensor order of llm.c's train_gpt2.c.
"""

from dataclasses import dataclass, fields
from math import prod

from llmc.errors import UserError

VOCABULARY_MULTIPLE = 128  # rows of wte are padded up to this, so that matmul tiles divide evenly


@dataclass(frozen=True)
class Parameter:
    """One parameter tensor: its llm.c name, its shape (stacked over the L layers), and whether weight decay applies."""

    name: str
    shape: tuple[int, ...]
    decayed: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class GPT2Config:
    """Sizes of one GPT-2. Raises UserError (a ValueError) with one sentence when they do not fit together.

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
            raise UserError(f"C={self.C} channels cannot be shared by NH={self.NH} heads; choose C a multiple of NH.")

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
        """The sixteen tensors in the order of llm.c's model file; weights are (out, in), as in PyTorch's Linear."""
        L, C = self.L, self.C
        rows = [
            ("wte", (self.Vp, C), True),
            ("wpe", (self.maxT, C), True),
            ("ln1w", (L, C), False),
            ("ln1b", (L, C), False),
            ("qkvw", (L, 3 * C, C), True),
            ("qkvb", (L, 3 * C), False),
            ("attprojw", (L, C, C), True),
            ("attprojb", (L, C), False),
            ("ln2w", (L, C), False),
            ("ln2b", (L, C), False),
            ("fcw", (L, 4 * C, C), True),
            ("fcb", (L, 4 * C), False),
            ("fcprojw", (L, C, 4 * C), True),
            ("fcprojb", (L, C), False),
            ("lnfw", (C,), False),
            ("lnfb", (C,), False),
        ]
        return [Parameter(*row) for row in rows]

    @property
    def num_parameters_padded(self) -> int:
        """Elements stored and updated, the padding rows of wte included."""
        return sum(p.size for p in self.parameter_table())

    @property
    def num_parameters(self) -> int:
        """Parameters of the model proper; exactly 124,439,808 for gpt2."""
        return self.num_parameters_padded - (self.Vp - self.V) * self.C

    def flops_per_token(self, T: int) -> int:
        """Floating point operations to train on one token at sequence length T: 6N + 6·L·C·T, as llm.c counts for MFU.

        N is the padded parameter count: each weight takes one multiply-add forward and two backward.
        """
        return 6 * self.num_parameters_padded + 6 * self.L * self.C * T


def _sizes(L: int, C: int, NH: int) -> GPT2Config:
    return GPT2Config(L=L, C=C, NH=NH)


PRESETS = {
    "tiny": GPT2Config(maxT=64, V=1024, L=2, NH=4, C=128),  # learns to write in two minutes on two CPU cores
    "d6": _sizes(6, 384, 6),
    "d12": _sizes(12, 768, 12),
    "d24": _sizes(24, 1024, 16),
    "d36": _sizes(36, 1280, 20),
    "d48": _sizes(48, 1600, 25),
}
ALIASES = {"gpt2": "d12", "gpt2-medium": "d24", "gpt2-large": "d36", "gpt2-xl": "d48"}
PRESETS.update({alias: PRESETS[name] for alias, name in ALIASES.items()})


def preset(name: str, **changes: int) -> GPT2Config:
    """The named configuration, with fields replaced: preset("tiny", V=512). Raises UserError for an unknown name."""
    if name not in PRESETS:
        raise UserError(f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}.")
    values = {field.name: getattr(PRESETS[name], field.name) for field in fields(GPT2Config)}
    return GPT2Config(**{**values, **changes})
