"""Lesson 10, the exercise about resuming: what a run's state must hold, and what is wrong with one that does not.

The run is a class of the exercise notebook, with plain attributes. The next step depends on those in KEPT.
"""

from numbers import Integral

import numpy as np

from llmc.course.old.checks.explain import describe

# where to look; a test compares these titles with the headings of notebooks/10_training_loop.ipynb
DEPENDS = 'lesson 10, section "6.1 · What the next step depends on"'
FORGOTTEN = 'lesson 10, section "6.2 · Make it break"'

KEPT = {  # name -> what happens without it
    "params": "without the weights there is nothing to continue",
    "m": "AdamW's first moment would start at 0 again",
    "v": "AdamW's second moment would start at 0 again, and the first steps would be far too long",
    "t": "AdamW's bias correction would begin again; a skipped step counts in step, but not in t",
    "step": "the warmup of the learning rate would begin again",
    "seed": "the text would come in a different order",
    "epoch": "the text would come in the order of the first epoch",
    "place": "the run would return to the beginning of its epoch",
    "rng": "the noise would be different",
    "recent": "the z-scores would be missing until the window is full again, and outliers would slip through",
}
LEFT = {  # name -> why it is not kept
    "grads": "gradients are zeroed and recomputed in every step",
    "logits": "activations are recomputed by every forward pass",
    "tokens": "the text is already in a file of its own",
    "losses": "the past is in main.log, and no step reads it",
}


def right_state(run) -> dict:
    """{name: a copy of its value} for everything that must be kept."""
    return {name: _copy(getattr(run, name)) for name in KEPT}


def _copy(value):
    return value.copy() if isinstance(value, np.ndarray) else list(value) if isinstance(value, list) else value


def explain_state(state, right, run):
    """What is wrong with a state, as a sentence with where to look; None when nothing is.

    state: what the learner returned · right: `right_state` at that moment · run: it has trained on since then.
    """
    wrong = _form(state, run) or _names(state) or _values(state, right, run)
    return wrong and f"{wrong}.\n→ Where to look: {FORGOTTEN if 'is missing' in wrong else DEPENDS}"


def _form(state, run):
    """A dict whose keys are attributes of the run."""
    if state is None:
        return "nothing was returned"
    if not isinstance(state, dict):
        return f"return a dict {{name: value}}; you returned {describe(state)}"
    unknown = [name for name in state if not isinstance(name, str) or not hasattr(run, name)]
    return f"{unknown[0]!r} is not an attribute of a Run: use the names in its __init__" if unknown else None


def _names(state):
    """What is missing, then what is too much."""
    for name, why in KEPT.items():
        if name not in state:
            return f"{name!r} is missing: {why}"
    for name, why in LEFT.items():
        if name in state:
            return f"{name!r} need not be kept: {why}. It would only make the checkpoint larger"
    spare = state.keys() - KEPT.keys()
    return f"{spare.pop()!r} need not be kept: no step reads it" if spare else None


def _values(state, right, run):
    """Types, sharing, then numbers."""
    for name, expected in right.items():
        value = state[name]
        if isinstance(expected, np.ndarray) and not isinstance(value, np.ndarray):
            return f"{name!r} should be an array, but is {describe(value)}"
        if isinstance(expected, int) and not isinstance(value, Integral):
            return f"{name!r} should be a whole number, but is {describe(value)}"
        if name == "rng" and not isinstance(value, int):
            return f"'rng' should be Python's own int, but is {type(value).__name__}, which overflows in the next step"
        if isinstance(expected, list) and not isinstance(value, list):
            return f"{name!r} should be a list, to which the next step can append, but is {describe(value)}"
        if _shared(value, getattr(run, name)):
            return f"{name!r} is the run's own {_kind(expected)}, which training will change: keep a copy"
    for name, expected in right.items():
        value = state[name]
        if isinstance(expected, np.ndarray) and value.dtype != expected.dtype:
            kept = f"{name!r} was kept as {value.dtype} but is {expected.dtype} in the run"
            return f"{kept}: that loses digits or wastes memory"
        if not np.array_equal(np.asarray(value), np.asarray(expected)):
            shown = f": it is {value}, and run.{name} was {expected}" if isinstance(expected, int) else ""
            return f"{name!r} does not hold exactly what the run held{shown}"
    return None


def _shared(value, own):
    if isinstance(own, np.ndarray):
        return np.shares_memory(value, own)
    return value is own and isinstance(own, list)


def _kind(value):
    return "array" if isinstance(value, np.ndarray) else "list"
