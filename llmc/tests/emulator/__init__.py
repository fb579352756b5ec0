"""The CUDA emulator: what it runs, what it reports."""
