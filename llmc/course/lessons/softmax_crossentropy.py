"""Lesson 05: the right results of softmax, cross-entropy and the classifier, in float64, and those of known mistakes.

References return the dtype of their input. Mistakes are {sentence after "p equals ": (wrong array, where to look)}, one
such dict for each output where there are several.
"""

import ast
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from llmc.course.checks.evidence import learners_function
from llmc.course.checks.explain import Named
from llmc.course.checks.held import no_more_than  # noqa: F401, for the check
from llmc.course.checks.text import tree_of

# where to look; a test compares these titles with the headings of notebooks/05_softmax_crossentropy.ipynb
SOFTMAX = 'lesson 05, section "2.1 · Softmax"'
MAXIMUM = 'lesson 05, section "2.2 · Overflow"'
LSE = 'lesson 05, section "2.3 · Log-sum-exp"'
LOSS = 'lesson 05, section "2.4 · Cross-entropy"'
TRAP = 'lesson 05, section "A trap"'
FRESH = 'lesson 05, section "3 · The loss of a fresh model"'
JACOBIAN = 'lesson 05, section "4.2 · The softmax Jacobian"'
PRODUCT = 'lesson 05, section "4.3 · Jacobian times vector"'
P_MINUS_Y = 'lesson 05, section "4.4 · Everything cancels"'
IN_PLACE = 'lesson 05, section "5.1 · One buffer"'
PADDING = 'lesson 05, section "5.2 · A padded vocabulary"'

# messages for answers that are right except for a small number, added to prevent 0/0 or log(0)
SAFE_SUM = (
    "a small number is added to exp(z) or to its sum, so the rows of p no longer add up to 1. None is needed: the "
    f"largest exp(z - max) is 1, so the sum is never 0; {MAXIMUM}"
)
SAFE_LSE = f"a small number is added to the sum inside lse. None is needed: the sum is at least 1; {LSE}"
SAFE_LOG = (
    "a small number is added to p before the logarithm, or p is kept from becoming 0. Where the model is very wrong, "
    f"the loss then no longer says how wrong it is. Use lse - z[target]; {TRAP}"
)
SHARED_MAXIMA = {  # of several rows, by the axes of (B, T, V) that the maximum runs over
    (0, 1, 2): "the whole batch",
    (1, 2): "its whole sequence",
    (0, 2): "all sequences at its position",
}
UNSCALED = (
    "a running sum that was not adjusted when the maximum grew: multiply the old sum by exp(old maximum - new maximum) "
    "before the next term is added"
)

ZEROS = "the reference with a padding of 0 in the softmax: exp(0) is 1, so leave the padding out of the sum"
ROW = "row n of logits begins at n · Vp"


class Losses(NamedTuple):
    """losses and lse, both (B, T)."""

    losses: np.ndarray
    lse: np.ndarray


class Classified(NamedTuple):
    """losses (B, T), dlogits (B, T, Vp)."""

    losses: np.ndarray
    dlogits: np.ndarray


def targets(rng, B, T, V):
    """Random targets (B, T) int32; in each sequence stands the largest token, and in the first one also token 0."""
    tokens, last = rng.integers(0, V, (B, T), dtype=np.int32), rng.integers(0, T, B)  # (B, T), (B,)
    tokens[np.arange(B), last] = V - 1
    if T > 1:
        tokens[0, last[0] - 1] = 0
    return tokens


def one_far_above(rng, logits, V, height):
    """Add height to one of the first V logits of each row (B, T, Vp), wherever that is; in the last row, to the last.

    Were it the same one in all rows, a maximum of some of the logits would often be right.
    """
    at = rng.integers(0, V, logits.shape[:-1])  # (B, T)
    at[-1, -1] = V - 1
    logits[(*np.indices(at.shape), at)] += height


def softmax(z):
    """Softmax of z (…, n) over the last axis."""
    z64 = np.asarray(z, np.float64)
    p = np.exp(z64 - z64.max(axis=-1, keepdims=True))  # (…, n)
    return (p / p.sum(axis=-1, keepdims=True)).astype(z.dtype)


def _unscaled_sum(z):
    """Sum over the last axis of exp(z - the largest z so far): each term is left with the maximum of its time."""
    return np.exp(z - np.maximum.accumulate(z, axis=-1)).sum(axis=-1)


def at_target(array, targets):
    """The entry of each row (B, T, V) that its target names: (B, T)."""
    return np.take_along_axis(array, targets[..., None], axis=-1)[..., 0]


def cross_entropy(logits, targets) -> Losses:
    """Loss of every token, and log-sum-exp of every row, of logits (B, T, V)."""
    z = np.asarray(logits, np.float64)
    peak = z.max(axis=-1)  # (B, T)
    lse = peak + np.log(np.exp(z - peak[..., None]).sum(axis=-1))  # (B, T)
    return Losses((lse - at_target(z, targets)).astype(logits.dtype), lse.astype(logits.dtype))


def softmax_backward(dp, p):
    """dz (…, n) through the whole Jacobian of each row: slow, and not the formula of the lesson."""
    dp64, p64 = np.asarray(dp, np.float64), np.asarray(p, np.float64)
    jacobian = np.eye(p.shape[-1]) * p64[..., None, :] - p64[..., :, None] * p64[..., None, :]  # (…, n, n)
    return np.einsum("...i,...ij->...j", dp64, jacobian).astype(p.dtype)


def classifier(logits, targets, dloss, V) -> Classified:
    """Losses of logits (B, T, Vp) over their first V entries, and the gradient of dloss · sum(losses)."""
    z = np.asarray(logits, np.float64)[..., :V]  # (B, T, V)
    dlogits = np.zeros(logits.shape)  # (B, T, Vp)
    dlogits[..., :V] = dloss * (softmax(z) - one_hot(targets, V))
    return Classified(cross_entropy(z, targets).losses.astype(logits.dtype), dlogits.astype(logits.dtype))


def one_hot(targets, V):
    """(B, T, V): 1 at each target, else 0."""
    return (np.arange(V) == targets[..., None]).astype(np.float64)


def fresh_loss(V, C, std):
    """Expected loss of a GPT-2 whose logits are normal with variance C · std²; in nats."""
    return log(V) + C * std**2 / 2


# --------------------------------------------------------------------------------------------------- known mistakes


def overflow(lse, logits) -> str:
    """Why lse (B, T) of float32 rows around +1000, -1000, 50 and 0 is not finite. logits: (B, T, V)."""
    finite = np.isfinite(lse)
    with np.errstate(all="ignore"):
        without = np.log(np.exp(logits).sum(axis=-1))  # (B, T)
        for axes, words in SHARED_MAXIMA.items():
            shifted = logits - logits.max(axis=axes, keepdims=True)  # (B, T, V)
            if np.array_equal(finite, np.isfinite(np.log(np.exp(shifted).sum(axis=-1)))):
                where = f"lse is infinite where a row lies far below the largest logit of {words}"
                return f"{where}: subtract each row's own maximum, along the last axis; {LSE}"
    if np.array_equal(finite, logits.max(axis=-1) > -500) and np.isneginf(lse[~finite]).all():
        where = "rows around -1000 alone, where all powers of e are 0"
        return f"lse is infinite for {where}: subtract each row's own maximum, which is negative there; {LSE}"
    if bare := _bare(lse, without):
        return f"lse is NaN or infinite for logits around ±1000: {bare}see {LSE}"
    at = np.argwhere(~finite)[0]
    row = logits[tuple(at)]  # (V,)
    where = f"{at.tolist()}, where the logits go from {row.min():.4g} to {row.max():.4g}"
    return f"lse is NaN or infinite at {where}: is the largest of the row subtracted? {LSE}"


def clipped(lse, logits) -> dict:
    """Known wrong lse (B, T) of rows around +1000, -1000, 50 and 0: that of clipped logits, whatever the limits are."""
    peak = logits.max(axis=-1)  # (B, T)
    if np.shape(lse) != peak.shape:
        return {}
    high, low = (float(np.median(lse[far])) - log(logits.shape[-1]) for far in (peak > 500, peak < -500))
    if not -500 < low < high < 500:
        return {}
    limits = f"logits clipped to {low:.4g} … {high:.4g}, so that larger and smaller ones are lost"
    wrong = cross_entropy(np.clip(logits, low, high), np.zeros(peak.shape, int)).lse  # (B, T)
    return {f"that of {limits}: subtract each row's own maximum": (wrong, LSE)}


def infinite_loss(losses, expected, beside="lse") -> str:
    """What to say of losses (B, T) that are not finite where what was computed beside them is."""
    lost = ~np.isfinite(losses)
    kind, far = "NaN" if np.isnan(losses).any() else "infinite", expected[lost].min() > 100
    where = "where the model is sure and wrong" if far else f"at {[int(i) for i in np.argwhere(lost)[0]]}"
    return f"a loss is {kind} {where}, and {beside} is finite there: use lse - z[target]; see {TRAP}"


def _bare(got, without) -> str:
    """Words that name a missing maximum, if these numbers are not finite just where those without one are not."""
    same = np.array_equal(np.isfinite(got), np.isfinite(without))
    return "np.exp overflows from 89 on in float32, so subtract the maximum of each row first; " if same else ""


def softmax_overflow(p, z) -> str | None:
    """What is wrong with p of float32 rows z (4, n) around 1000, -1000, 0 and 90, the last with one far larger logit?

    None if there is nothing, or if the numbers have to say it.
    """
    if np.shape(p) != z.shape:
        return None
    if np.isfinite(p[0]).all() and np.ptp(p[0]) == 0 and p[0, 0] > 0:
        lost = "all of p is equal in the row around 1000: the differences between its logits are lost"
        clipped = "Is z clipped? Subtract the maximum of the row instead" if _clips() else "Subtract the row's maximum"
        return f"{lost}. {clipped}; {MAXIMUM}"
    finite = np.isfinite(p).all(axis=-1)  # (4,)
    if not finite[0]:
        return f"NaN for logits around 1000: {_bare(p, np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True))}see {MAXIMUM}"
    if not finite[1] and finite[2]:
        begins = "is the largest |z| subtracted there, or a maximum that starts at 0?"
        return f"NaN in the row around -1000 alone: {begins} The maximum of a row can be negative; {MAXIMUM}"
    if not finite[:3].all():
        return f"NaN in the low rows: each row needs its own maximum; {MAXIMUM}"
    return None if finite[3] else "NaN where one logit is far above the rest: subtract the maximum, nothing less"


def _clips() -> bool:
    """Does the text of the learner's function limit anything?"""
    tree = tree_of(learners_function())
    return tree is not None and any(word in ast.unparse(tree) for word in ("clip", "minimum", "min("))


def softmax_mistakes(z) -> dict:
    """Known wrong p for z (…, n) with at least two axes and moderate values."""
    z = np.asarray(z, np.float64)
    e = np.exp(z - z.max(axis=-1, keepdims=True))  # (…, n)
    p = e / e.sum(axis=-1, keepdims=True)  # (…, n)
    everything, shares = np.exp(z - z.max()), "each row is normalised on its own: " + SOFTMAX  # (…, n)
    axes = tuple(range(1, z.ndim))
    in_each = np.exp(z - z.max(axis=axes, keepdims=True))  # (…, n)
    tables = {  # the same as the reference for two axes
        "the reference with one sum for all of each z[i]: the rows of z[i] each have a sum of their own": (
            in_each / in_each.sum(axis=axes, keepdims=True),
            shares,
        )
    }
    return (tables if z.ndim > 2 else {}) | {
        "exp(z - max): it is not divided by its sum": (e, SOFTMAX),
        "z divided by the sum of its row: the exp is missing": (z / z.sum(axis=-1, keepdims=True), SOFTMAX),
        "the reference with the sum over the whole array": (everything / everything.sum(), shares),
        "exp(z - max) divided by the sum over the whole array, not over its own row": (e / e.sum(), shares),
        "the reference with the sum over the first axis": (_softmax_over(z, 0), shares),
        "the reference with the sum over the axis before the last": (_softmax_over(z, -2), shares),
        "exp(z - max) divided by the sum of exp(z): the maximum must be the same above and below": (
            e / np.exp(z).sum(axis=-1, keepdims=True),
            MAXIMUM,
        ),
        "exp(z) minus its maximum, divided by the sum of that: subtract the maximum before exp": (
            (e - 1) / (e - 1).sum(axis=-1, keepdims=True),
            MAXIMUM,
        ),
        "log(softmax)": (np.log(p), SOFTMAX),
        "1 for the largest logit of each row and 0 for the others: they have a share, too": (e == 1, SOFTMAX),
        f"the reference with {UNSCALED}": (e / _unscaled_sum(z)[..., None], MAXIMUM),
        "softmax(-z): a larger logit must give a larger probability": (softmax(-z), SOFTMAX),
        "softmax with powers of 2 instead of powers of e": (softmax(z * log(2)), SOFTMAX),
        "exp(z - max) divided by its length (the root of the sum of squares)": (
            e / np.sqrt(np.square(e).sum(axis=-1, keepdims=True)),
            SOFTMAX,
        ),
    }


def _softmax_over(z, axis):
    """Softmax over another axis."""
    e = np.exp(z - z.max(axis=axis, keepdims=True))  # (…, n)
    return e / e.sum(axis=axis, keepdims=True)


def cross_entropy_mistakes(logits, targets) -> dict:
    """Known wrong losses and lse of logits (B, T, V)."""
    z = np.asarray(logits, np.float64)
    losses, lse = cross_entropy(z, targets)  # (B, T) each
    p, peak, V = softmax(z), z.max(axis=-1), z.shape[-1]
    wrong_lse = {
        "log(sum(exp(z - max))): the maximum is not added back": (lse - peak, LSE),
        "the maximum itself": (peak, LSE),
        "sum(exp(z)): the logarithm is missing": (np.exp(lse), LSE),
        "log(mean(exp(z))): a sum, not a mean, belongs there": (lse - log(V), LSE),
        "2 · maximum + log(sum(exp(z - max)))": (lse + peak, LSE),
        f"the reference with {UNSCALED}": (peak + np.log(_unscaled_sum(z)), LSE),
        "max + log2(sum(exp(z - max))): the logarithm must be the natural one, np.log": (
            peak + (lse - peak) / log(2),
            LSE,
        ),
        "log2(sum(exp(z))): the logarithm must be the natural one, np.log": (lse / log(2), LSE),
        "log10(sum(exp(z))): the logarithm must be the natural one, np.log": (lse / log(10), LSE),
        "the losses: return losses first, then lse": (losses, "the docstring says in which order"),
    }
    wrong_losses = {
        "the log-sum-exp: the logit of the target is not subtracted": (lse, LOSS),
        "-z[target]: log-sum-exp is missing": (-at_target(z, targets), LOSS),
        "log(sum(exp(z - max))) - z[target]: the maximum is subtracted in one place only": (losses - peak, LSE),
        f"the reference with {UNSCALED}": (losses - lse + peak + np.log(_unscaled_sum(z)), LSE),
        "-p[target]: the logarithm is missing": (-at_target(p, targets), LOSS),
        "1 - p[target]": (1 - at_target(p, targets), LOSS),
        "the loss in bits (log2): it should be in nats (np.log)": (losses / log(2), LOSS),
        "the loss with log10: it should be in nats (np.log)": (losses / log(10), LOSS),
        "max + log2(sum(exp(z - max))) - z[target]: the logarithm must be the natural one, np.log": (
            losses + (lse - peak) * (1 / log(2) - 1),
            LSE,
        ),
        "-log(p) summed over the whole vocabulary": (-np.log(p).sum(axis=-1), LOSS),
        "-log(p) of the largest logit, not of the target": (-np.log(p).min(axis=-1), LOSS),
        "-sum(p · log(p)), the entropy of the model's own p: the target is not used": (
            -(p * np.log(p)).sum(axis=-1),
            LOSS,
        ),
        "the loss of the next position's target": (cross_entropy(z, np.roll(targets, -1, axis=1)).losses, LOSS),
        "the loss of the previous position's target": (cross_entropy(z, np.roll(targets, 1, axis=1)).losses, LOSS),
    }
    return {"lse": wrong_lse, "losses": wrong_losses}


def softmax_backward_mistakes(dp, p) -> dict:
    """Known wrong dz."""
    dp, p = np.asarray(dp, np.float64), np.asarray(p, np.float64)
    along = (dp * p).sum(axis=-1, keepdims=True)  # (…, 1)
    once = p * (dp - along)  # (…, n)
    return {
        "p · dp: the sum over the row is missing": (p * dp, "moving one logit moves every probability: " + JACOBIAN),
        "p · (1 - p) · dp: that is the diagonal of the Jacobian alone": (p * (1 - p) * dp, JACOBIAN),
        "dp - sum(dp · p): the p in front is missing": (dp - along, PRODUCT),
        "p · dp - sum(dp · p): the sum is not multiplied by p": (p * dp - along, PRODUCT),
        "p · (dp + sum(dp · p)): the sign of the sum is wrong": (p * (dp + along), JACOBIAN),
        "p · (dp - sum(dp)): the p is missing in the sum": (p * (dp - dp.sum(axis=-1, keepdims=True)), PRODUCT),
        "p · (dp - p · sum(dp)): the sum must be that of dp · p": (
            p * (dp - p * dp.sum(axis=-1, keepdims=True)),
            PRODUCT,
        ),
        "p · (dp - mean(dp)): a sum weighted by p belongs there": (p * (dp - dp.mean(axis=-1, keepdims=True)), PRODUCT),
        "p · (dp - mean(dp · p)): a sum, not a mean, belongs there": (p * (dp - along / p.shape[-1]), PRODUCT),
        "the reference with the sum over the whole array": (p * (dp - (dp * p).sum()), PRODUCT),
        "p · (1 - p): dp is missing": (p * (1 - p), PRODUCT),
        "p - dp: that form is of softmax and cross-entropy in one, p - y; here any dp may come": (p - dp, PRODUCT),
        "p - y, with 1 in y where dp is largest: that is of softmax and cross-entropy in one; here any dp may come": (
            p - (dp == dp.max(axis=-1, keepdims=True)),
            PRODUCT,
        ),
        "the reference applied twice": (p * (once - (once * p).sum(axis=-1, keepdims=True)), PRODUCT),
        "dp - p · sum(dp): that is the gradient of the logarithm of softmax": (
            dp - p * dp.sum(axis=-1, keepdims=True),
            PRODUCT,
        ),
    }


def all_cleared(V) -> Named:
    """What to say of logits that are all 0 where there is no padding, and were right where there was some."""
    return Named(
        f"logits is all zeros, where there is no padding: V = Vp = {V}. Does a slice from the end, as in `[..., -n:]`, "
        f"clear the padding? With n = 0 it is all of the array: `[..., V:]` is what comes after V; {PADDING}"
    )


def no_padding(padding, V, case=""):
    """Raise AssertionError unless the gradient of the padding, (B, T, Vp - V), is 0."""
    width, left = padding.shape[-1], np.flatnonzero(padding.any(axis=(0, 1)))
    places = ", ".join(str(V + k) for k in left[:6]) + ", …" * (len(left) > 6)
    columns = f"column{'s' * (len(left) > 1)} {places}"
    still = f"; not 0: {columns}, of {V} … {V + width - 1}" if len(left) < width else ""
    assert not len(left), f"logits[..., V:], the padding, must be 0 afterwards{case}{still}: {PADDING}"


def classifier_mistakes(logits, targets, dloss, V) -> dict:
    """Known wrong losses (B, T) and dlogits (B, T, V) of logits (B, T, Vp)."""
    z = np.asarray(logits, np.float64)
    right, padded = classifier(z, targets, dloss, V), classifier(z, targets, dloss, z.shape[-1])
    zeros = classifier(np.where(np.arange(z.shape[-1]) < V, z, 0), targets, dloss, z.shape[-1])
    at_flat = z.ravel()[np.arange(targets.size) * V + targets.ravel()].reshape(targets.shape)  # (B, T)
    z, p, y = z[..., :V], softmax(z[..., :V]), one_hot(targets, V)  # (B, T, V) each
    losses = cross_entropy_mistakes(z, targets)["losses"]
    losses |= {
        "the reference with the padding in the softmax": (padded.losses, PADDING),
        ZEROS: (zeros.losses, PADDING),
        "the reference times dloss: the losses must not be scaled": (right.losses * dloss, IN_PLACE),
        "log(sum) - exp(z - max)[target]: take the logit of the target before exp overwrites it": (
            _target_too_late(z, targets),
            IN_PLACE,
        ),
        "the mean of the losses, everywhere": (np.full(targets.shape, right.losses.mean()), IN_PLACE),
    }
    lse = right.losses + (z * y).sum(axis=-1)  # (B, T)
    for what, later in {"the probabilities": p, "the gradient": right.dlogits[..., :V]}.items():
        losses |= {
            f"the loss of {what} in place of the logits: compute it before they are overwritten": (
                cross_entropy(later, targets).losses,
                IN_PLACE,
            ),
            f"lse - {what} at the target: take the logit of the target before it is overwritten": (
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
        "(p - y) / (B·T): use the argument dloss, whatever it is": ((p - y) / targets.size, IN_PLACE),
        "p · dloss - y: the 1 at the target must be scaled by dloss too": (p * dloss - y, IN_PLACE),
        "(p - y · dloss) · dloss: at the target dloss is in there twice": ((p - y * dloss) * dloss, IN_PLACE),
        "p - y · dloss: p must be scaled by dloss too": (p - y * dloss, IN_PLACE),
        "(exp(z - max) - y) · dloss: it is not divided by the sum": (
            (np.exp(z - z.max(axis=-1, keepdims=True)) - y) * dloss,
            P_MINUS_Y,
        ),
        "(exp(z - max) - y) · dloss / sum: y is divided by the sum, too; subtract it after the division": (
            (p - y / np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)) * dloss,
            P_MINUS_Y,
        ),
        "the reference with 1 subtracted in every row for every target of the batch": (
            (p - every) * dloss,
            "each row has one target: use np.put_along_axis, or an index for each of the three axes; " + IN_PLACE,
        ),
        "the reference with the next position's target": ((p - one_hot(np.roll(targets, -1, 1), V)) * dloss, P_MINUS_Y),
        "-dloss at the target and 0 elsewhere: p is missing": (-y * dloss, P_MINUS_Y),
        "-dloss / p at the target: that is the gradient of p, not of the logits": (-y * dloss / p, P_MINUS_Y),
    }
    if logits.shape[-1] > V:
        losses[f"lse minus the number at n · V + target of the flat array: {ROW}"] = (lse - at_flat, PADDING)
        flat = np.zeros(logits.size)  # (B·T·Vp,)
        flat[np.arange(targets.size) * V + targets.ravel()] = 1
        dlogits[f"the reference with -dloss at n · V + target of the flat array: {ROW}"] = (
            (p - flat.reshape(logits.shape)[..., :V]) * dloss,
            PADDING,
        )
    return {"losses": losses, "dlogits": dlogits}


# a number as small as 1e-9 hides below the tolerance of `compare`; these three find it by its exact effect


def safe_sum(p, z) -> bool:
    """Is p (…, n) in float64 the softmax of z, apart from a small number added to exp(z - max) or to its sum?"""
    total = np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1)  # (…)
    return np.shape(p) == z.shape and _constant(total * (1 / np.sum(p, axis=-1) - 1))


def safe_lse(got, expected, z) -> bool:
    """Is got (B, T) in float64 the log-sum-exp of z (B, T, V), apart from a small number added inside the logarithm?"""
    return np.shape(got) == expected.shape and _constant(np.expm1(got - expected) * np.exp(expected - z.max(axis=-1)))


def safe_log(got, expected) -> bool:
    """Are the losses got (B, T) those of p plus a small number, or do they level off where they should pass 100?"""
    if np.shape(got) != expected.shape:
        return False
    high = got[expected > 100]
    cut_off = high.size > 1 and np.isfinite(high).all() and np.ptp(high) < 0.01 and high.max() < 100
    return bool(cut_off) or _constant(np.exp(-got) - np.exp(-expected))


def _constant(numbers) -> bool:
    """Are they, three at least, all the same small number, larger than what rounding would leave?"""
    middle = abs(np.median(numbers))
    return bool(np.size(numbers) > 2 and 2e-13 < middle < 0.1 and np.ptp(numbers) < 0.05 * middle)


def _target_too_late(z, targets):
    """Losses (B, T) from a buffer z (B, T, V) that already holds exp(z - max)."""
    e = np.exp(z - z.max(axis=-1, keepdims=True))  # (B, T, V)
    return np.log(e.sum(axis=-1)) - at_target(e, targets)


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


def fresh_loss_mistakes(V, C, std) -> dict:
    """Known wrong predictions."""
    variance = C * std**2
    rounded = {"ln V + C // 2 · std²: an odd C is rounded down": (log(V) + C // 2 * std**2, FRESH)}
    return (rounded if C % 2 else {}) | {
        "ln V: the fresh logits are not all equal, and that costs half their variance": (log(V), FRESH),
        "log2(V) + half the variance: it should be in nats (ln)": (log(V) / log(2) + variance / 2, FRESH),
        "log2(V): it should be in nats (ln), and half the variance of the logits is missing": (log(V) / log(2), FRESH),
        "log10(V) + half the variance: it should be in nats (ln)": (log(V) / log(10) + variance / 2, FRESH),
        "ln V + the variance: only half of it belongs there": (log(V) + variance, FRESH),
        "ln V + half the standard deviation: the variance (its square) belongs there": (
            log(V) + sqrt(variance) / 2,
            FRESH,
        ),
        "ln V + std² / 2: a logit is a sum of C products, its variance is C · std²": (log(V) + std**2 / 2, FRESH),
        "ln V + C² · std² / 2: variances add up, not standard deviations": (log(V) + (C * std) ** 2 / 2, FRESH),
        "ln V - half the variance": (log(V) - variance / 2, FRESH),
        "ln V + the standard deviation: half the variance (its square) belongs there": (log(V) + sqrt(variance), FRESH),
        "ln V + C · std / 2: variances add up, so std must be squared": (log(V) + C * std / 2, FRESH),
        "ln V + twice the variance: only half of it belongs there": (log(V) + 2 * variance, FRESH),
        "half the variance alone: ln V is missing": (variance / 2, FRESH),
        "ln V + V · std² / 2: a logit is a sum of C products, not of V": (log(V) + V * std**2 / 2, FRESH),
        "ln V + C · 0.02² / 2: `std` is not used": (log(V) + C * 0.02**2 / 2, FRESH),
        "V, the perplexity of a guess: the loss is its logarithm, plus half the variance": (float(V), FRESH),
        "-ln V: that is ln(1/V), but the loss is -ln(1/V), and half the variance is missing": (-log(V), FRESH),
        "-ln V + half the variance: -ln(1/V) is +ln V": (-log(V) + variance / 2, FRESH),
        "1/V, the probability of a guess: the loss is minus its logarithm, plus half the variance": (1 / V, FRESH),
    }
