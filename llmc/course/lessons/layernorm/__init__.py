"""Lesson 01, layernorm: what its checks compare with (rows.py), its experiment (networks.py) and its drawings."""

from llmc.course.lessons.layernorm.rows import (
    EPS,
    EPSILON,
    FORMULA,
    FORWARD,
    PARAMETERS,
    RECOMPUTE,
    backward,
    backward_mistakes,
    forward,
    forward_mistakes,
)

__all__ = [
    "EPS",
    "EPSILON",
    "FORMULA",
    "FORWARD",
    "PARAMETERS",
    "RECOMPUTE",
    "backward",
    "backward_mistakes",
    "forward",
    "forward_mistakes",
]
