"""Lesson 03: its exercises (exercises.py), and whether an answer uses BLAS (blas.py)."""
