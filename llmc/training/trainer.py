"""The model, the data and the settings of one run, and the two things it does: a training step and a validation.

Knows nothing of files, screens or signals; `loop.py` drives it. Follows the main loop of llm.c's train_gpt2.cu.
"""

from functools import partial
from math import isfinite

import numpy as np

from llmc.backends import get_backend
from llmc.config import preset
from llmc.data import find_corpus
from llmc.data.loader import DataLoader
from llmc.data.tokenizer import read_tokenizer, token_lengths
from llmc.evaluation import baselines, batch_losses, bits_per_byte
from llmc.model import GPT2
from llmc.training.batches import ShuffledLoader
from llmc.training.schedule import learning_rate


class Diverged(ArithmeticError):
    """The loss or the gradient norm is not a finite number; its one argument says which."""


def check_before_data(settings):
    """Raise UserError for what can be known to be wrong before the corpus is there: preset, length, backend."""
    preset(settings.preset).check_sequence_length(settings.sequence_length)
    get_backend(settings.backend)


class Trainer:
    """One run in memory. `step` counts the updates made; parameters are those after `step` updates."""

    def __init__(self, settings, say=None):
        s = self.settings = settings
        corpus = find_corpus(s.data, say=say)
        self.encoding = read_tokenizer(corpus.tokenizer)
        self.config = preset(s.preset, V=self.encoding.n_vocab)
        shape = (s.batch_size, s.sequence_length, self.config.V)
        order = partial(ShuffledLoader, seed=s.seed) if s.shuffle else DataLoader
        self.train_loader, self.val_loader = order(corpus.train, *shape), DataLoader(corpus.val, *shape)
        self.val_batches = min(s.val_batches or self.val_loader.num_batches, self.val_loader.num_batches)
        self._measure_validation_text()
        self.model = GPT2(self.config, s.backend)
        self.model.init_weights(s.seed)
        self.model.allocate(s.batch_size, s.sequence_length)
        self.step = 0

    def _measure_validation_text(self):
        """What bits per byte and the baselines need of the validation tokens that are measured on, and no others."""
        measured = self.val_batches * self.settings.batch_size * self.settings.sequence_length
        tokens = self.val_loader.tokens[: measured + 1]  # (measured + 1,)
        self._targets, self._lengths = tokens[1:], token_lengths(self.encoding)  # (measured,), (V,)
        self.baselines = baselines(self.train_loader.tokens, tokens, self.config.V)
        self.bytes_per_token = float(np.mean(self._lengths[self._targets]))

    def train_step(self):
        """One update. Returns (loss in nats per token, learning rate, gradient norm before clipping).

        Raises Diverged, with the parameters as they were, when loss or norm is not finite.
        """
        s, model = self.settings, self.model
        lr = learning_rate(self.step, s.learning_rate, s.warmup, s.steps, s.final_fraction, s.schedule)
        x, y = self.train_loader.next_batch()  # (B, T) int32 both
        model.zero_grad()
        loss = model.forward(x, y, dloss=1.0)
        if not isfinite(loss):
            raise Diverged(f"the loss is {loss}")
        model.backward()
        norm = model.clip_gradients(s.clip)
        if not isfinite(norm):
            raise Diverged(f"the gradient norm is {norm}")
        model.update(lr, beta1=s.beta1, beta2=s.beta2, weight_decay=s.weight_decay)
        self.step += 1
        return loss, lr, norm

    def validate(self, stop=lambda: False):
        """Mean loss (nats per token) on the validation batches, or None when stop() becomes true in between."""
        total = 0.0
        for loss in batch_losses(self.model, self.val_loader, self.val_batches):
            total += loss
            if stop():
                return None
        return total / self.val_batches

    def bits_per_byte(self, val_loss) -> float:
        """A loss that `validate` returned, as bits per byte of the validation text."""
        return bits_per_byte(val_loss, self._targets, self._lengths)
