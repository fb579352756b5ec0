"""Lesson 11: fused kernels, races, attention without its table, kernels of BLAS."""
