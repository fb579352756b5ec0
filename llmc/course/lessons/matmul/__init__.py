"""Lesson 03, matmul: what its checks compare with (layer.py, fast.py), and whether an answer uses BLAS (blas.py)."""

from llmc.course.lessons.matmul.blas import uses_blas
from llmc.course.lessons.matmul.fast import fast_mistakes
from llmc.course.lessons.matmul.layer import (
    BIAS,
    FORWARD,
    INPUT,
    WEIGHT,
    Gradients,
    backward,
    backward_mistakes,
    cost,
    cost_mistakes,
    formula_of,
    forward,
    forward_mistakes,
    gradients_of,
    results,
)
from llmc.course.old.checks.no_race import no_race_in as no_race

__all__ = [
    "BIAS",
    "FORWARD",
    "INPUT",
    "WEIGHT",
    "Gradients",
    "backward",
    "backward_mistakes",
    "cost",
    "cost_mistakes",
    "fast_mistakes",
    "formula_of",
    "forward",
    "forward_mistakes",
    "gradients_of",
    "no_race",
    "results",
    "uses_blas",
]
