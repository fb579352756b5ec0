"""The learning rate over a run: it rises during warmup, then falls along a curve.

Follows llm.c's schedulers.h (cosine, linear, constant, wsd). One difference: warmup also applies to "constant".
"""

from math import cos, pi, sqrt

from llmc.errors import UserError

WSD_STABLE = 0.8  # warmup-stable-decay holds the maximum for this share of the run


def _cosine(progress):
    return 0.5 * (1.0 + cos(pi * progress))  # 1 -> 0, flat at both ends


def _linear(progress):
    return 1.0 - progress


def _constant(progress):
    return 1.0


CURVES = {"cosine": _cosine, "linear": _linear, "constant": _constant}
KINDS = (*CURVES, "wsd")


def learning_rate(step, max_lr, warmup, total, final_fraction=0.0, kind="cosine") -> float:
    """The learning rate for the update at `step` (0 … total - 1).

    warmup: number of steps with a linear rise, max_lr·(step + 1)/warmup.
    total: number of steps in the run.
    final_fraction: where the curve ends, as a share of max_lr.
    kind: "cosine", "linear", "constant" or "wsd" (constant until 80%, then 1 - √progress).

    Raises UserError for an unknown kind. Example: learning_rate(0, 1e-3, warmup=10, total=100) == 1e-4.
    """
    if kind not in KINDS:
        raise UserError(f"there is no schedule {kind!r}; choose one of {', '.join(KINDS)}.")
    if step < warmup:
        return max_lr * (step + 1) / warmup
    min_lr = final_fraction * max_lr
    if kind == "wsd":
        return min_lr + (max_lr - min_lr) * (1.0 - sqrt(_progress(step, WSD_STABLE * total, total)))
    return min_lr + (max_lr - min_lr) * CURVES[kind](_progress(step, warmup, total))


def _progress(step, start, end) -> float:
    """Where `step` lies between start (0.0) and end (1.0), never outside; a curve of zero length counts as finished."""
    if end <= start:
        return 1.0
    return min(max((step - start) / (end - start), 0.0), 1.0)
