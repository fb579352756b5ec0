"""Lesson 09, the exercises about names and learning rates: which tensors decay, and the rate at every step.

`explain_groups` says in a sentence what is wrong; mistakes of a schedule are {sentence: (array, where to look)}.
"""

import ast
import math
from contextlib import contextmanager

import numpy as np

from llmc.course.old.checks import causes
from llmc.course.old.checks.evidence import learners_function
from llmc.course.old.checks.explain import describe
from llmc.course.old.checks.text import tree_of

# where to look; a test compares these titles with the headings of notebooks/09_adamw.ipynb
NOT_DECAYED = 'lesson 09, section "4.3 · Which tensors are not decayed"'
SCHEDULE = 'lesson 09, section "6 · The learning rate over a run"'

TABLES = ("wte", "wpe")
MATRICES = (*TABLES, "qkvw", "attprojw", "fcw", "fcprojw")  # what decays
VECTORS = ("qkvb", "attprojb", "fcb", "fcprojb", "ln1w", "ln1b", "ln2w", "ln2b", "lnfw", "lnfb")

# --------------------------------------------------------------------------------------------------- decay groups


def decay_groups(shapes):
    """(decayed, left alone): two lists of the names, in the order of shapes."""
    return [n for n in shapes if n in MATRICES], [n for n in shapes if n not in MATRICES]


@contextmanager
def some_missing(given):
    """Around a call of decay_groups: a KeyError says that this tensor is not among those that were given."""
    try:
        yield
    except KeyError as error:
        if error.args and error.args[0] in (*MATRICES, *VECTORS) and error.args[0] not in given:
            error.add_note(f"    shapes holds {len(given)} of the sixteen tensors here, without {error.args[0]}")
        raise


def explain_groups(got, shapes):
    """What is wrong with the two lists `got`, in a sentence with where to look; None if they are right."""
    wrong = _not_two_lists(got, shapes) or _wrong_names(*got, shapes)
    return wrong and f"{wrong}.\n→ Where to look: {NOT_DECAYED}"


def _not_two_lists(got, shapes):
    """The form of the answer."""
    if got is None:
        return "nothing was returned"
    if not isinstance(got, tuple | list) or len(got) != 2 or not all(isinstance(part, tuple | list) for part in got):
        return f"two lists of names are expected, decayed and left alone; you returned {_kind(got)}"
    names = [*got[0], *got[1]]
    unknown = [name for name in names if not isinstance(name, str) or name not in shapes]
    if unknown:
        return f"{unknown[0]!r} is not one of the names in shapes"
    twice = [name for name in shapes if names.count(name) > 1]
    if twice:
        return f"{twice[0]} appears twice: every tensor belongs in one list"
    missing = [name for name in shapes if name not in names]
    return f"{missing[0]} is in neither list" if missing else None


def _kind(got):
    """What was returned instead of two lists: "a dict", "a list of 16", "a set and a set, which keep no order"."""
    if isinstance(got, tuple | list) and len(got) == 2 and not any(isinstance(part, str) for part in got):
        order = ", and a set keeps no order" if any(isinstance(part, set | frozenset) for part in got) else ""
        return f"a {type(got[0]).__name__} and a {type(got[1]).__name__}{order}"
    return f"a {type(got).__name__}" if isinstance(got, dict | set | frozenset) else describe(got)


def _wrong_names(decayed, plain, shapes):
    """Names in the wrong list, then their order."""
    right = decay_groups(shapes)
    if set(decayed) == set(right[1]) and set(plain) == set(right[0]) and shapes:
        return "the two lists are swapped: the decayed ones come first"
    for name in shapes:
        if name in decayed and name not in MATRICES:
            always = "" if plain else _always_holds(learners_function())
            return f"{_why_vector(name, shapes[name])}{always}"
        if name in plain and name in MATRICES:
            what = "a table of embeddings is a matrix too" if name in TABLES else "in each layer it is a matrix"
            return f"{name} {shapes[name]} should be decayed: {what}{_as_many_as_layers(name, shapes)}"
    for which, mine, names in zip(("first", "second"), (decayed, plain), right):
        if list(mine) != names:
            return f"the names are right, but not in the order of shapes; the {which} list should be {', '.join(names)}"
    return None


def _as_many_as_layers(name, shapes) -> str:
    """Words for a table with as many rows as there are layers; "" for others."""
    layers = {shape[0] for other, shape in shapes.items() if other not in TABLES and len(shape) > 1}
    if name not in TABLES or layers != {shapes[name][0]}:
        return ""
    return f". There are as many layers, {shapes[name][0]}, as it has rows"


def _always_holds(function) -> str:
    """A sentence about an `or` of which one part is a text alone, if the function has one; else ""."""
    for node in ast.walk(tree_of(function) or ast.Module([], [])):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            for part in node.values:
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                    return (
                        f".\n`{ast.unparse(node)}` always holds, because {part.value!r} alone, a text, counts as true"
                    )
    return ""


def _why_vector(name, shape):
    """Why this tensor is left alone."""
    if len(shape) == 1:
        return f"{name} {shape} should be left alone: it is a vector"
    kind = "bias of a linear layer"
    if name.startswith("ln"):
        kind = ("shift" if name.endswith("b") else "scale") + " of a layer norm"
    return (
        f"{name} {shape} should be left alone: in each layer it is a vector {shape[1:]}, the {kind}. Its first axis "
        "only counts the layers"
    )


# ------------------------------------------------------------------------------------------------------ schedules


def learning_rates(steps, max_lr, warmup, total, final_fraction, kind):
    """(len(steps),) learning rates; the formulas of the exercise, all steps at once."""
    s = np.asarray(steps, np.float64)  # (steps,)
    curve = _fall(_progress(s, _begin(warmup, total, kind), total), max_lr, final_fraction, kind)  # (steps,)
    return np.where(s < warmup, max_lr * (s + 1) / max(warmup, 1), curve)


def _begin(warmup, total, kind):
    """The step at which the curve begins."""
    return 0.8 * total if kind == "wsd" else warmup


def _progress(s, begin, end):
    """0 at the start of the curve, 1 at its end and beyond; a curve of no length is over."""
    return np.ones_like(s) if end <= begin else np.clip((s - begin) / (end - begin), 0, 1)


def _fall(x, max_lr, final_fraction, kind):
    """The curve at progress x, from max_lr down to final_fraction · max_lr."""
    with np.errstate(invalid="ignore"):  # a mistake may ask for the root of a negative number
        shape = {"constant": 1 + 0 * x, "linear": 1 - x, "cosine": (1 + np.cos(np.pi * x)) / 2}
        return max_lr * (final_fraction + (1 - final_fraction) * shape.get(kind, 1 - np.sqrt(x)))


def first_wrong(rates, expected):
    """The first step whose rate is missing or wrong; None if all are right."""
    for step, (got, want) in enumerate(zip(rates, expected, strict=True)):
        if got is None or not abs(got - want) <= 1e-7 * max(expected):
            return step
    return None


def why_wrong(steps, rates, *settings):
    """A function of nothing: which small change of the learner's gives the right rates of these steps? Or None.

    settings: what the learner's function takes besides the step.
    """
    calls = [((step, *settings), rate) for step, rate in zip(steps, rates)]
    right = lambda step, *rest: learning_rates([step], *rest)[0]  # noqa: E731
    same = lambda a, b: math.isclose(a, b, rel_tol=1e-9)  # noqa: E731
    return lambda: causes.whole("rates", calls, right, same)


def learning_rate_mistakes(steps, max_lr, warmup, total, final_fraction, kind) -> dict:
    """Known wrong learning rates (len(steps),)."""
    s, end = np.asarray(steps, np.float64), final_fraction * max_lr
    right = learning_rates(steps, max_lr, warmup, total, final_fraction, kind)
    x = _progress(s, _begin(warmup, total, kind), total)  # (steps,)
    curves = _wrong_progress(s, x, max_lr, warmup, total, final_fraction, kind)
    curves |= _wrong_constant(s, x, max_lr, end, total) if kind == "constant" else _wrong_ends(x, max_lr, end, kind)
    curves |= {"cosine": _wrong_cosines, "wsd": _wrong_roots}.get(kind, lambda *none: {})(x, max_lr, end)
    wrong = {sentence: np.where(s < warmup, right, curve) for sentence, curve in curves.items()}
    if warmup:
        wrong |= _wrong_warmups(s, right, max_lr, end, warmup)
        what = (
            "a constant rate from step 0 on: it has its warmup, too"
            if kind == "constant"
            else "the reference without warmup"
        )
        wrong[what] = np.where(s < warmup, _fall(x, max_lr, final_fraction, kind), right)
    return {sentence: (array, SCHEDULE) for sentence, array in wrong.items() if np.isfinite(array).all()}


def _wrong_warmups(s, right, max_lr, end, warmup):
    """Whole schedules (steps,) that begin wrongly."""
    return {
        "the reference with step instead of step + 1: the first step would not move": np.where(
            s < warmup, max_lr * s / warmup, right
        ),
        "the reference with (step + 1) / (warmup + 1): it must reach max_lr at step warmup - 1": np.where(
            s < warmup, max_lr * (s + 1) / (warmup + 1), right
        ),
        "the reference with a warmup that rises from final_fraction · max_lr: it rises from 0": np.where(
            s < warmup, end + (max_lr - end) * (s + 1) / warmup, right
        ),
        "the reference with a warmup from final_fraction · max_lr, and step instead of step + 1: it rises from 0, and "
        "is max_lr · (step + 1) / warmup": np.where(s < warmup, end + (max_lr - end) * s / warmup, right),
        "the reference with one warmup step too many: the curve begins at step warmup": np.where(
            s <= warmup, max_lr * (s + 1) / warmup, right
        ),
    }


def _wrong_progress(s, x, max_lr, warmup, total, final_fraction, kind):
    """Curves (steps,) that begin, end or last wrongly."""
    begin = _begin(warmup, total, kind)
    wrong = {}
    if begin < total:
        wrong["a curve that goes on past its end: from step total on it no longer changes"] = (
            (s - begin).clip(0) / (total - begin)  # not held at 1
        )
    if kind == "wsd":
        wrong["a fall that begins at 80% of what warmup leaves: it begins at 80% of the whole run"] = _progress(
            s, warmup + 0.8 * (total - warmup), total
        )
        for share in (0.2, 0.9):
            sentence = f"a fall that begins at {share:.0%} of the run: it begins at 80%"
            wrong[sentence] = _progress(s, share * total, total)
        wrong["a fall that begins where warmup ends: it begins at 80% of the run"] = _progress(s, warmup, total)
        for first, where in {warmup: "the end of warmup", 0: "step 0"}.items():
            sentence = f"a progress of the fall that is counted from {where}: it is 0 where the fall begins, at 80%"
            wrong[sentence] = np.where(s < begin, 0, _progress(s, first, total))
        for rounded in dict.fromkeys((math.floor(begin), math.ceil(begin))):
            sentence = f"0.8 · total rounded to {rounded}: do not round it"
            wrong[sentence] = _progress(s, rounded, total)
        wrong["(step - 0.8 total) / total: the fall lasts 0.2 total"] = _progress(s, 0.8 * total, 1.8 * total)
    else:
        wrong["a curve that begins at step 0: it begins where warmup ends"] = _progress(s, 0, total)
        wrong["(step - warmup) / total: the curve has total - warmup steps"] = _progress(s, warmup, warmup + total)
        wrong["total - warmup - 1 steps for the curve: it ends at step total"] = _progress(s, warmup, total - 1)
    if begin >= total:
        wrong["x = 0 where the curve has no length (total <= warmup): such a curve is over, x = 1"] = 0 * s
        wrong["x = 0 at step warmup where the curve has no length (total <= warmup): it is over at once, x = 1"] = (
            s - begin
        ).clip(0, 1)
    fall = {f"the reference with {text}": _fall(y, max_lr, final_fraction, kind) for text, y in wrong.items()}
    return fall | {"the curve upside down: it goes up, not down": _fall(1 - x, max_lr, final_fraction, kind)}


def _wrong_constant(s, x, max_lr, end, total):
    """Curves (steps,) instead of constant."""
    return {
        "a constant that drops at step total: it stays at max_lr for ever": np.where(s < total, max_lr, end),
        "a constant that is 0 from step total on: it stays at max_lr for ever": np.where(s < total, max_lr, 0.0),
        "a constant final_fraction · max_lr: constant stays at max_lr": 0 * x + end,
        "a linear fall: constant stays at max_lr": max_lr + (end - max_lr) * x,
    }


def _wrong_ends(x, max_lr, end, kind):
    """Curves (steps,) that use final_fraction wrongly."""
    shape, share = _fall(x, 1.0, 0.0, kind), end / max_lr
    return {
        "the reference with final_fraction left out: the curve ends at final_fraction · max_lr": max_lr * shape,
        "the reference with final_fraction taken for a learning rate: it is a share of max_lr": (
            share + (max_lr - share) * shape
        ),
        "the reference with max_lr instead of max_lr - min_lr: it starts above max_lr": end + max_lr * shape,
        "the larger of the curve and final_fraction · max_lr: the curve ends there, it is not cut off": np.maximum(
            max_lr * shape, end
        ),
        "max_lr, constant": 0 * x + max_lr,
    }


def _wrong_cosines(x, max_lr, end):
    """Curves (steps,) of other cosines."""
    shapes = {
        "the cosine alone, which falls to -1: (1 + cos) / 2 is needed": np.cos(np.pi * x),
        "1 + cos, not halved: that falls from 2 to 0, and (1 + cos) / 2 from 1 to 0": 1 + np.cos(np.pi * x),
        "1 + cos / 2: the sum is halved, (1 + cos) / 2": 1 + np.cos(np.pi * x) / 2,
        "cos(π/2 · progress): half a period is needed, cos(π · progress)": np.cos(np.pi / 2 * x),
        "a whole period: half of one is needed, cos(π · progress)": (1 + np.cos(2 * np.pi * x)) / 2,
    }
    return {f"the reference with {text}": end + (max_lr - end) * shape for text, shape in shapes.items()}


def _wrong_roots(x, max_lr, end):
    """Curves (steps,) of other falls for wsd."""
    shapes = {
        "1 - progress": 1 - x,
        "1 - progress²": 1 - x * x,
        "√(1 - progress)": np.sqrt(1 - x),
        "a cosine": (1 + np.cos(np.pi * x)) / 2,
    }
    return {
        f"the reference with {text} instead of 1 - √progress": end + (max_lr - end) * y for text, y in shapes.items()
    }
