"""Lesson 16: what its notebooks measure, draw and check."""
