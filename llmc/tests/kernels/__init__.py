"""The CUDA kernels and the "cuda" backend, on a GPU or on the emulator."""
