"""Checks of kernels in CUDA C: launched on the emulator, compared, and held to what they may move."""
