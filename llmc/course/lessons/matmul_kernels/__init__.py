"""Lesson 15: matrix products, from one thread a result to tiles within tiles."""
