"""Lesson 09: the optimizers' steps, schedules and decay groups."""
