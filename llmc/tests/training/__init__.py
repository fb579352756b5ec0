"""Training runs: they learn, repeat, stop, resume."""
