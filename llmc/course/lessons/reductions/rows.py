"""Lesson 13: what its kernels should give. References return float32 from float64 arithmetic."""

import numpy as np

from llmc.course.lessons import layernorm, softmax_crossentropy
from llmc.course.lessons.fast_on_cpu.fused import residual_layernorm
from llmc.course.lessons.reductions import merging
from llmc.course.lessons.reductions.places import PICTURE
from llmc.course.old.checks.explain import WrongAnswer
from llmc.cuda.emulator.findings.absences import why_not_all


def row_sums(x):
    """(N, C) -> (N,)."""
    return x.astype(np.float64).sum(axis=1).astype(x.dtype)


def softmax(x):
    """(N, C) -> (N, C)."""
    return softmax_crossentropy.softmax(x)


def normed(x, w, b):
    """out (N, C), mean and rstd (N,) of rows x (N, C)."""
    return layernorm.forward(x, w, b)


def fused(x1, x2, w, b):
    """residual, out (N, C), mean, rstd (N,)."""
    return residual_layernorm(x1, x2, w, b)


def finite(name, got, why):
    """WrongAnswer where got holds a NaN or an infinity, with what `merge` makes of parts, or else with `why`."""
    if not np.isfinite(got).all():
        said = merging.asked()
        reason = f".\n{said}\n→ Where to look: {why.rpartition('; ')[2]}" if said else f": {why}"
        raise WrongAnswer(f"{name} has NaN or infinite entries{reason}.")


def finite_sums(name, got, why):
    """WrongAnswer with that reason for quotients by sums that are 0 everywhere, or not finite."""
    if np.isposinf(got).all():
        raise WrongAnswer(f"{name} is infinite everywhere: {why}.")
    if not np.isfinite(got).all():
        raise WrongAnswer(f"{name} has NaN or infinite entries: {why}.")
    if not got.any():
        raise WrongAnswer(
            f"{name} is all zeros, and each row should add up to 1.\n→ Where to look: {why.rpartition('; ')[2]}."
        )


def all_arrive(report):
    """WrongAnswer where threads had left before a barrier: a GPU lets them, but here they are needed after it."""
    for note in report.notes:
        if note.kind == "early-return":
            raise WrongAnswer(
                f"barrier not reached by all, line {note.line}.\n{note.text.split(': ', 2)[-1]}\n"
                f"Here they are needed after it. {why_not_all(report.raw.code, note.line)}\n"
                f"→ Where to look: {PICTURE}."
            )
