"""Lesson 06: results that are not what they should be, before their numbers are compared: types, pairs, the mask."""

import ast
import re

import numpy as np

from llmc.course.lessons.attention.references import HEAD, HEADS, MASK, SOFTMAX, Forward, others_only, seen
from llmc.course.old.checks import causes, evidence, text
from llmc.course.old.checks.explain import WrongAnswer

INFINITY = re.compile(r"\binf\b")  # in a learner's text
FAR = 100.0  # below all scores: what lies there has been masked, with a number


def dtype_kept(name, got, like):
    """Raise WrongAnswer if got, made from the float32 input `like`, is a float64 array."""
    if like.dtype == np.float32 and isinstance(got, np.ndarray) and got.dtype == np.float64:
        why = causes.why_wide(got) or text.asks_for_float64(evidence.learners_function())
        told = f"for float32 inputs {name} should be float32 too, but is float64"
        raise WrongAnswer(f"{told}. {why}" if why else f"{told}.")


def two_results(got, expected: Forward):
    """Return got if it may be the pair (out, probabilities); else raise WrongAnswer with a plain sentence."""
    if isinstance(got, np.ndarray):
        which = {x.shape: name for name, x in expected._asdict().items()}.get(got.shape, "an array")
        raise WrongAnswer(f"only {which} was returned, but the exercise needs two arrays: `return out, probabilities`.")
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        return got
    if [np.shape(x) for x in got] == [expected.probabilities.shape, expected.out.shape]:
        raise WrongAnswer("the two results are in the wrong order: `return out, probabilities`.")
    B, T, C = expected.out.shape
    if np.shape(got[0]) == (B, T, C):
        return got
    hs = C // expected.probabilities.shape[1]
    if np.shape(got[0]) in ((B * C // hs, T, hs), (B * T * C // hs, hs)):
        raise WrongAnswer(
            f"out has shape {np.shape(got[0])}, expected {expected.out.shape}: the heads lie one after the other along "
            f"the first axis.\n→ Where to look: {HEADS}."
        )
    return got


def three_parts(got, expected):
    """Raise WrongAnswer if dq, dk and dv were joined along the wrong axis; got should be dqkv (B, T, 3C)."""
    B, T, width = expected.shape
    along = {(3 * B, T, width // 3): "first axis", (B, 3 * T, width // 3): "token axis"}
    if np.shape(got) in along:
        raise WrongAnswer(
            f"dqkv has shape {np.shape(got)}, expected {expected.shape}: dq, dk and dv lie one after the other along "
            f"the {along[np.shape(got)]}, and should lie side by side along the last."
        )


def no_infinite_gradient(name, got, hidden=None):
    """Raise WrongAnswer if got holds infinity or NaN as it does when ds was masked with -inf.

    hidden: where exactly the -inf would be; None if a matmul has spread them, and the learner's text must tell.
    """
    if not isinstance(got, np.ndarray) or np.isfinite(got).all():
        return
    if _names(INFINITY) if hidden is None else hidden.any() and np.array_equal(got == -np.inf, hidden):
        holds = "NaN or infinity" if hidden is None else "-inf for future keys"
        raise WrongAnswer(
            f"{name} holds {holds}. Where p is 0, ds = p · (dp - D) "
            f'is 0 already, so the backward pass needs no mask.\n→ Where to look: {SOFTMAX}, "And the mask?".'
        )


def without_future(got, expected):
    """Return got with 0 in place of the -inf of future keys, or raise WrongAnswer that says how the mask is wrong.

    Anything but an array of the right shape is returned unchanged: `compare` explains it.
    """
    if not isinstance(got, np.ndarray) or got.shape != expected.shape:
        return got
    right = seen(len(got))  # (T, T)
    if np.isnan(got).any():
        raise WrongAnswer(f"scores holds NaN{_why_nan(got)}\n→ Where to look: {HEAD}.")
    hidden = got == -np.inf
    lost = hidden & right
    if lost.any() and not expected[lost].any() and (hidden | right).all():
        at = [int(i) for i in np.argwhere(lost)[0]]
        zero = "a score of 0 is a score like any other"
        raise WrongAnswer(f"scores is -inf at {at}, where the score is 0: {zero}.\n→ Where to look: {MASK}.")
    sentence = _mask_mistake(hidden, got, right)
    if sentence:
        raise WrongAnswer(f"{sentence}.\n→ Where to look: {MASK}.")
    return np.where(right, got, 0).astype(got.dtype)


def _why_nan(got) -> str:
    """What follows "scores holds NaN": where it comes from, if that is known."""
    why = causes.why_nan(got)
    if why and "0 · inf" in why:
        return f": 0 · ∞ is NaN. {why}"
    return f". {why}" if why else ", where there should be numbers, or -inf for future keys."


def _names(pattern) -> bool:
    """Does the text of the learner's function name it?"""
    tree = text.tree_of(evidence.learners_function())
    return tree is not None and bool(pattern.search(ast.unparse(tree)))


def _mask_mistake(hidden, got, right):
    """What is wrong with hidden (T, T), where got is -inf; None if it is exactly the future."""
    if np.array_equal(hidden, ~right):
        return None
    future = got[~right]
    if len(got) > 1 and (got >= 0).all() and np.allclose(got.sum(axis=-1), 1, atol=1e-3):
        return "scores holds shares, because every row adds up to 1, and not the scores themselves, before the softmax"
    if np.array_equal(hidden, ~right.T):
        return "scores has the past masked instead of the future: row t may look at columns 0 … t"
    if np.array_equal(hidden, np.triu(np.ones_like(right))):
        return "scores has its diagonal masked too: a token may look at itself (and the first has nothing else)"
    if np.array_equal(hidden, ~others_only(len(got))):
        return "scores has its diagonal masked too, from row 1 on: a token may look at itself"
    if np.array_equal(hidden, np.triu(np.ones_like(right), 2)):
        return "scores lets each token see the next one: the mask begins one column too late"
    if len(got) > 2 and hidden[:, 1:].all() and not hidden[:, 0].any():
        return "scores is -inf in every column but the first: row t may look at columns 0 … t"
    if hidden.any():
        i, j = np.argwhere(hidden == right)[0]
        others = (hidden & right).sum() - 1 if hidden[i, j] else 0
        more = f" and at {others} more with j <= i" if others else ""
        return f"scores is {got[i, j]:.6g} at [{i}, {j}]{more}: -inf belongs where column j > row i, and nowhere else"
    if (future == 0).all():
        return "scores is 0 for future keys: e to the power of 0 is 1, so they would still get a share"
    if (future == future[0]).all() and future[0] < 0:
        return f"scores is {future[0]:g} for future keys: -np.inf belongs there, whose share is always exactly 0"
    if future.max() < got[right].min() - FAR:
        return f"scores is about {future.max():.2g} for future keys: -np.inf belongs there, whose share is exactly 0"
    return "scores is nowhere -inf: it belongs where the key comes after the query (column > row)"
