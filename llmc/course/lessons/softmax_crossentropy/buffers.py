"""Lesson 05, the classifier in one buffer: what known mistakes leave there, in the logits and in the padding.

Mistakes are {sentence after "losses equals ": (wrong array, where to look)}, one such dict for each output.
"""

import numpy as np

from llmc.course.lessons.softmax_crossentropy.losses import at_target, cross_entropy_mistakes
from llmc.course.lessons.softmax_crossentropy.places import IN_PLACE, P_MINUS_Y, PADDING
from llmc.course.lessons.softmax_crossentropy.references import (
    classifier,
    cross_entropy,
    one_hot,
    softmax,
    softmax_backward,
)
from llmc.course.old.checks.explain import Named

ZEROS = "the reference with a padding of 0 in the softmax: exp(0) is 1"
ROW = "row n of logits begins at n · Vp"


def classifier_mistakes(logits, targets, dloss, V) -> dict:
    """Known wrong losses (B, T) and dlogits (B, T, V) of logits (B, T, Vp)."""
    whole, Vp = np.asarray(logits, np.float64), logits.shape[-1]  # (B, T, Vp)
    right, padded = classifier(whole, targets, dloss, V), classifier(whole, targets, dloss, Vp)
    zeros = classifier(np.where(np.arange(Vp) < V, whole, 0), targets, dloss, Vp)
    z, p, y = whole[..., :V], softmax(whole[..., :V]), one_hot(targets, V)  # (B, T, V) each
    losses = cross_entropy_mistakes(z, targets)["losses"]
    losses |= {
        "the reference with the padding in the softmax": (padded.losses, PADDING),
        ZEROS: (zeros.losses, PADDING),
        "the reference times dloss: the losses must not be scaled": (right.losses * dloss, IN_PLACE),
        "log(sum) - exp(z - max)[target]": (
            _target_too_late(z, targets),
            IN_PLACE,
        ),
        "the mean of the losses, everywhere": (np.full(targets.shape, right.losses.mean()), IN_PLACE),
    }
    lse = right.losses + (z * y).sum(axis=-1)  # (B, T)
    for what, later in {"the probabilities": p, "the gradient": right.dlogits[..., :V]}.items():
        losses |= {
            f"the loss of {what} in place of the logits": (
                cross_entropy(later, targets).losses,
                IN_PLACE,
            ),
            f"lse - {what} at the target, not the logit": (
                lse - (later * y).sum(axis=-1),
                IN_PLACE,
            ),
        }
    every = np.isin(np.arange(V), targets)  # (V,)   tokens that are a target anywhere
    dlogits = {
        "the reference with the padding in the softmax": (padded.dlogits[..., :V], PADDING),
        ZEROS: (zeros.dlogits[..., :V], PADDING),
        "p · dloss: y is not subtracted": (p * dloss, P_MINUS_Y),
        "the probabilities: neither y nor dloss is in them": (p, P_MINUS_Y),
        "p · dloss with -dloss at the target: y is subtracted from p there, and does not replace it": (
            np.where(y == 1, -1, p) * dloss,
            P_MINUS_Y,
        ),
        "p - y: dloss is missing": (p - y, IN_PLACE),
        "(p - y) / (B·T), whatever dloss is": ((p - y) / targets.size, IN_PLACE),
        "p · dloss - y: the 1 at the target must be scaled by dloss too": (p * dloss - y, IN_PLACE),
        "(p - y · dloss) · dloss: at the target dloss is in there twice": ((p - y * dloss) * dloss, IN_PLACE),
        "p - y · dloss: p must be scaled by dloss too": (p - y * dloss, IN_PLACE),
        "(exp(z - max) - y) · dloss: it is not divided by the sum": (
            (np.exp(z - z.max(axis=-1, keepdims=True)) - y) * dloss,
            P_MINUS_Y,
        ),
        "(exp(z - max) - y) · dloss / sum: y is divided by the sum, too": (
            (p - y / np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)) * dloss,
            P_MINUS_Y,
        ),
        "the reference with 1 subtracted in every row for every target of the batch": (
            (p - every) * dloss,
            "each row has one target; " + IN_PLACE,
        ),
        "the reference with the next position's target": ((p - one_hot(np.roll(targets, -1, 1), V)) * dloss, P_MINUS_Y),
        "-dloss at the target and 0 elsewhere: p is missing": (-y * dloss, P_MINUS_Y),
        "softmax's backward pass of (p - y) · dloss, which is the gradient of the logits already": (
            softmax_backward((p - y) * dloss, p),
            P_MINUS_Y,
        ),
        "-dloss / p at the target: that is the gradient of p, not of the logits": (-y * dloss / p, P_MINUS_Y),
    }
    if Vp > V:
        places = np.arange(targets.size).reshape(targets.shape) * V + targets  # (B, T) as if a row had V numbers
        losses[f"lse minus the number at n · V + target of the flat array: {ROW}"] = (
            lse - whole.ravel()[places],
            PADDING,
        )
        peak = z.max(axis=-1, keepdims=True)  # (B, T, 1)
        shifted = np.concatenate([z - peak, whole[..., V:]], axis=-1)  # (B, T, Vp)
        losses[f"log(sum) minus the shifted number at n · V + target of the flat array: {ROW}"] = (
            lse - peak[..., 0] - shifted.ravel()[places],
            PADDING,
        )
        flat = np.zeros(logits.size)  # (B·T·Vp,)
        flat[places] = 1
        dlogits[f"the reference with -dloss at n · V + target of the flat array: {ROW}"] = (
            (p - flat.reshape(logits.shape)[..., :V]) * dloss,
            PADDING,
        )
    return {"losses": losses, "dlogits": dlogits}


def _target_too_late(z, targets):
    """Losses (B, T) from a buffer z (B, T, V) that already holds exp(z - max)."""
    e = np.exp(z - z.max(axis=-1, keepdims=True))  # (B, T, V)
    return np.log(e.sum(axis=-1)) - at_target(e, targets)


def all_cleared(V) -> Named:
    """What to say of logits that are all 0 where there is no padding, and were right where there was some."""
    return Named(
        f"logits is all zeros, where there is no padding: V = Vp = {V}. With n = 0, `[..., -n:]` "
        f"is all of an array; {PADDING}"
    )


def no_padding(padding, V, case=""):
    """Raise AssertionError unless the gradient of the padding, (B, T, Vp - V), is 0."""
    width, left = padding.shape[-1], np.flatnonzero(padding.any(axis=(0, 1)))
    places = ", ".join(str(V + k) for k in left[:6]) + ", …" * (len(left) > 6)
    columns = f"column{'s' * (len(left) > 1)} {places}"
    still = f"; not 0: {columns}, of {V} … {V + width - 1}" if len(left) < width else ""
    assert not len(left), f"logits[..., V:], the padding, must be 0 afterwards{case}{still}: {PADDING}"


def untouched(logits, before, V):
    """Raise AssertionError if a call with dloss=None changed the padding of logits (B, T, Vp), and nothing else."""
    same = np.array_equal(logits[..., :V], before[..., :V])
    left = logits[..., V:]  # (B, T, Vp - V)
    if same and not np.array_equal(left, before[..., V:], equal_nan=True):
        holds = f": it holds {left.flat[0]:.6g} now" if (left == left.flat[0]).all() else ""
        raise AssertionError(f"with dloss=None the padding must stay as it is, and it was changed{holds}; {IN_PLACE}")


def untouched_mistakes(logits, V) -> dict:
    """What logits (B, T, Vp) hold after a call with dloss=None that did not leave them alone."""
    z = np.array(logits, np.float64)
    changed = {
        "logits - max: with dloss=None they must stay as they are": z[..., :V] - z[..., :V].max(axis=-1, keepdims=True),
        "the probabilities: with dloss=None the logits must stay as they are": softmax(z[..., :V]),
    }
    known = {}
    for sentence, array in changed.items():
        known[sentence] = (_joined(array, z, 1), IN_PLACE)
        known[sentence + ", the padding too"] = (_joined(array, z, 0), IN_PLACE)
    return known


def _joined(part, z, factor):
    """(B, T, Vp): part (B, T, V), followed by the padding of z times factor."""
    return np.concatenate([part, factor * z[..., part.shape[-1] :]], axis=-1)
