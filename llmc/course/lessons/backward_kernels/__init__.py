"""Lesson 14: kernels in which thousands of rows add to the same few numbers."""
