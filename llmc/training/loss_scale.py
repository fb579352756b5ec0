"""The loss scale of a run in float16, which adjusts itself (Micikevicius et al. 2018; PyTorch's GradScaler).

float16 cannot hold numbers below 6e-8, and many gradients are smaller. Multiplying the loss by 65,536 makes all
gradients that much larger, and AdamW divides by it again, in float32. If a gradient becomes too large for float16, that
step makes no update and the scale is halved; after many good steps it is doubled. Powers of two cause no rounding.
"""

from llmc.checkpoints.optimizer_state import MOST_DOUBLED

START = 16  # log2 of PyTorch's 65,536
GROW_AFTER = 2000  # good steps in a row


class LossScale:
    """Its whole state is `log2` and `good_steps`."""

    def __init__(self, log2: int = START, good_steps: int = 0):
        self.log2, self.good_steps = log2, good_steps

    @property
    def value(self) -> float:
        """The factor by which the gradients are enlarged."""
        return 2.0**self.log2

    @property
    def is_smallest(self) -> bool:
        """Whether there is nothing left to halve: if gradients overflow now, it is not the scale's fault."""
        return self.log2 == 0

    def good_step(self):
        """Record a step whose gradients were finite; after 2000 in a row, the scale is doubled."""
        self.good_steps += 1
        if self.good_steps == GROW_AFTER:
            self.log2, self.good_steps = min(self.log2 + 1, MOST_DOUBLED), 0

    def overflow(self):
        """Record a step whose gradients were not finite: halve the scale."""
        self.log2, self.good_steps = max(self.log2 - 1, 0), 0
