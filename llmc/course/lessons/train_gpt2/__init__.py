"""Lesson 22: its drawings, the learning-rate finder, a budget of operations, and logs with one broken setting."""
