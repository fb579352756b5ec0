"""Lesson 25: matmuls whose factors have eight bits, their scales, and training with them."""
