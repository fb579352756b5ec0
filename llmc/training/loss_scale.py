"""The loss scale of a run in float16, which finds its own size (Micikevicius et al. 2018; PyTorch's GradScaler).

float16 holds nothing below 6e-8, and many gradients are smaller. A loss that counts 65,536 times makes all gradients
so many times as large, and AdamW divides them again, in float32. When one becomes too large for float16, that step
makes no update and the scale is halved; after many good steps it is doubled. Powers of two round nothing.
"""

from llmc.checkpoints.optimizer_state import MOST_DOUBLED

START = 16  # log2 of PyTorch's 65,536
GROW_AFTER = 2000  # good steps in a row


class LossScale:
    """`log2` and `good_steps` are all of its state."""

    def __init__(self, log2: int = START, good_steps: int = 0):
        self.log2, self.good_steps = log2, good_steps

    @property
    def value(self) -> float:
        """How many times as large gradients are as they should be."""
        return 2.0**self.log2

    @property
    def is_smallest(self) -> bool:
        """Whether there is nothing left to halve: gradients that overflow now are not the scale's fault."""
        return self.log2 == 0

    def good_step(self):
        """A step whose gradients were finite; after the 2000th in a row the scale is doubled."""
        self.good_steps += 1
        if self.good_steps == GROW_AFTER:
            self.log2, self.good_steps = min(self.log2 + 1, MOST_DOUBLED), 0

    def overflow(self):
        """A step whose gradients were not: half the scale from now on."""
        self.log2, self.good_steps = max(self.log2 - 1, 0), 0
