"""Lesson 01: its exercises (exercises.py), its reference (rows.py), its experiment (networks.py) and its drawings."""

from llmc.course.lessons.layernorm.rows import EPS, backward, forward

__all__ = ["EPS", "backward", "forward"]
