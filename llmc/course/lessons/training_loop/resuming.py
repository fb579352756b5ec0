"""Lesson 10, the exercise about resuming: what a run's state must hold, and what is wrong with one that does not.

The run is a class of the exercise notebook, with plain attributes. Of these, KEPT are what the next step depends on.
"""

from numbers import Integral

import numpy as np

from llmc.course.checks.explain import describe

# where to look; a test holds these titles against the headings of notebooks/10_training_loop.ipynb
DEPENDS = 'lesson 10, section "6.1 · What the next step depends on"'
FORGOTTEN = 'lesson 10, section "6.2 · Make it break"'

KEPT = {  # name -> what happens without it
    "params": "without the weights there is nothing to go on with",
    "m": "AdamW's first moment would start at 0 again",
    "v": "AdamW's second moment would start at 0 again, and the first steps would be far too long",
    "t": "AdamW's bias correction would begin again; steps that made no update count in step, but not in t",
    "step": "the warmup of the learning rate would begin again",
    "seed": "the order of the text would be another one",
    "epoch": "the order of the text would be that of the first epoch",
    "place": "the run would go back to the beginning of its epoch",
    "rng": "the noise would be other noise",
    "recent": "the z-scores would be missing until the window is full again, and outliers would get through",
}
LEFT = {  # name -> why it is not kept
    "grads": "gradients are zeroed and made anew in every step",
    "logits": "activations are made anew by every forward pass",
    "tokens": "the text is in a file of its own, which is there already",
    "losses": "what was is in main.log; no step reads it",
}


def right_state(run) -> dict:
    """{name: copy} of what must be kept."""
    return {name: _copy(getattr(run, name)) for name in KEPT}


def _copy(value):
    return value.copy() if isinstance(value, np.ndarray) else list(value) if isinstance(value, list) else value


def explain_state(state, right, run):
    """What is wrong with a state, as a sentence with where to look; None when nothing is.

    state: what the learner returned · right: `right_state` at that moment · run: the run, which has gone on since.
    """
    wrong = _form(state, run) or _names(state) or _values(state, right, run)
    return wrong and f"{wrong}.\n→ Where to look: {FORGOTTEN if 'would' in wrong else DEPENDS}"


def _form(state, run):
    """A dict whose keys are attributes of the run."""
    if state is None:
        return "nothing was returned; is a `return` missing?"
    if not isinstance(state, dict):
        return f"a dict {{name: value}} is expected; you returned {describe(state)}"
    unknown = [name for name in state if not isinstance(name, str) or not hasattr(run, name)]
    return f"{unknown[0]!r} is no attribute of a Run: use its own names, as in its __init__" if unknown else None


def _names(state):
    """Something missing, then something too much."""
    for name, why in KEPT.items():
        if name not in state:
            return f"{name!r} is missing: {why}"
    for name, why in LEFT.items():
        if name in state:
            return f"{name!r} need not be kept: {why}. A checkpoint of GPT-2 124M would be larger for nothing"
    spare = state.keys() - KEPT.keys()
    return f"{spare.pop()!r} need not be kept: no step reads it" if spare else None


def _values(state, right, run):
    """Kind, sharing, then numbers."""
    for name, expected in right.items():
        value = state[name]
        if isinstance(expected, np.ndarray) and not isinstance(value, np.ndarray):
            return f"{name!r} should be an array, but is {describe(value)}"
        if isinstance(expected, int) and not isinstance(value, Integral):
            return f"{name!r} should be a whole number, but is {describe(value)}"
        if _shared(value, getattr(run, name)):
            return f"{name!r} is the run's own {_kind(expected)}, which training goes on to change: keep a copy"
    for name, expected in right.items():
        value = state[name]
        if isinstance(expected, np.ndarray) and value.dtype != expected.dtype:
            return f"{name!r} was kept as {value.dtype}, and is {expected.dtype}: digits would be lost, or memory"
        if not np.array_equal(np.asarray(value), np.asarray(expected)):
            return f"{name!r} does not hold what the run held, to the last bit"
    return None


def _shared(value, own):
    if isinstance(own, np.ndarray):
        return np.shares_memory(value, own)
    return value is own and isinstance(own, list)


def _kind(value):
    return "array" if isinstance(value, np.ndarray) else "list"
