"""Lesson 01: what its checks compare with (rows.py, mistakes.py), its experiment (networks.py) and its drawings."""

from llmc.course.lessons.layernorm.mistakes import (
    EPSILON,
    FAR,
    FORMULA,
    FORWARD,
    OWN_EPS,
    PARAMETERS,
    RECOMPUTE,
    backward_mistakes,
    forward_mistakes,
    lost_digits,
    nearly_right,
    other_type,
    scratch_mistakes,
)
from llmc.course.lessons.layernorm.rows import EPS, backward, forward

__all__ = [
    "EPS",
    "EPSILON",
    "FAR",
    "FORMULA",
    "FORWARD",
    "OWN_EPS",
    "PARAMETERS",
    "RECOMPUTE",
    "backward",
    "backward_mistakes",
    "forward",
    "forward_mistakes",
    "lost_digits",
    "nearly_right",
    "other_type",
    "scratch_mistakes",
]
