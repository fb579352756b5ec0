"""HellaSwag during training: the length-normalised accuracy every few steps, as with llm.c's `-h 1`."""

import math

from llmc.hellaswag import load_examples, score_examples
from llmc.hellaswag.scoring import NoNumbers
from llmc.training.start import in_turn


class Stopped(Exception):
    """A measurement was abandoned."""


class HellaSwag:
    """The examples, measured in batches of the run's own shape, so that nothing new is allocated.

    settings, encoding, config, ranks: of the run; each rank scores its share of the examples. Raises UserError if the
    examples are neither here nor can be downloaded.
    """

    def __init__(self, settings, encoding, config, ranks, say=None):
        with in_turn(ranks):  # the first one fetches them
            examples = load_examples(encoding=encoding, V=config.V, say=say)
        self.shape = settings.batch_size, settings.sequence_length
        self.all, self.count, self.own, self.ranks = examples, len(examples), examples[ranks.rank :: ranks.world], ranks

    def accuracy(self, model, stop=lambda: False):
        """The share of examples whose real ending costs least per token; None if stop() becomes true before the end.

        NaN if the model's losses are not finite numbers.
        """

        def watch(_):
            if stop():
                raise Stopped

        try:
            scores = score_examples(model, self.own, shape=self.shape, progress=watch) if self.own else None
        except Stopped:
            return None
        except NoNumbers:
            return self.ranks.mean(math.nan)
        correct = scores.accuracy_norm * len(self.own) if scores else 0.0
        return self.ranks.mean(correct) * self.ranks.world / self.count
