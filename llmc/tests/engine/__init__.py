"""The model, its backends, sampling and evaluation, against finite differences and PyTorch."""
