"""Lesson 24: its drawings, the bill of a training run, and the known mistakes of its exercises."""
