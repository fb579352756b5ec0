"""Checks of exercises whose answer is CUDA C: `kernel_check` runs it on the emulator and explains what it reports."""
