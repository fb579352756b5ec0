"""Lesson 10: accumulation, validation, resuming, saving; its drawings, and the process that it kills."""
