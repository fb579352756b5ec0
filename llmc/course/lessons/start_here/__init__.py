"""Lesson 00: the 2-token GPT-2 on paper, and its training."""
