"""Lesson 17: a training step on a GPU, its launches, its memory, its fusions."""
