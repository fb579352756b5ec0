"""Lesson 11: fused kernels, races, attention without its table, BLAS kernels, measuring, figures."""
