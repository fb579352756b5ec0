"""Lesson 07: the GPT-2 model."""
