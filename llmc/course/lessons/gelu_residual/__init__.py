"""Lesson 04: GELU, and residual blocks."""
