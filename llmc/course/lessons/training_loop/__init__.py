"""Lesson 10: accumulation, validation, resuming, saving."""
