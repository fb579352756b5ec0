"""Lesson 24: its drawings, the bill of a training run, and its exercises."""
