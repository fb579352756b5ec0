"""Lesson 17: losses and gradients that hold NaN or infinities, and with which logits they do not."""

import numpy as np

from llmc.course.lessons.gpu_training.places import NOT_FINITE
from llmc.course.old.kernel_checks.not_finite import FAR, Case, arguments, profiles, refuse, told


def classifier(name, got, losses=False):
    """WrongAnswer unless the losses (N,), or the gradient (N, Vp), are finite."""
    refuse(name, got, NOT_FINITE[name], lambda: told(name, 0 if losses else 1, _of_logits(got)))


def _of_logits(got):
    """Cases for logits (N, Vp), of which the first V count; the target's is the largest of them, but for one case."""
    _, logits, targets, _, N, V, Vp = arguments()
    everywhere = np.ones(got.shape, bool)

    def case(words, asked, z, padding, target):
        rows = np.concatenate([z, np.full(Vp - V, padding)], dtype=np.float32)  # (Vp,)
        return Case(words, {1: np.tile(rows, (N, 1)), 2: np.full_like(targets, target)}, asked, everywhere)

    (zero, (z, asked)), *rest = profiles(V, idle=V < 32).items()
    yield case(zero.replace("scores", "logits"), asked, z, 0, 0)
    asked = "Neither the maximum nor the sum counts the padding: they are those of the first V logits."
    if np.isfinite(got[..., :V]).all():
        asked = "Only the padding's own gradient, which should be 0, is not finite."
    yield case(f"the padding holds {FAR:.0f}, and the logits 0", asked, z, FAR, 0)
    for words, (z, asked) in rest:
        yield case(words, asked, z, z.min(), z.argmax())
    z = np.where(np.arange(V) == 0, -FAR, 0)
    asked = "p of the target is 0 there, and log(0) is infinite: the loss is log(total) + top - the target's logit."
    yield case(f"the target's logit lies {FAR:.0f} below the others", asked, z, -FAR, 0)
