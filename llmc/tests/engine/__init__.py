"""The model, its backends and what is computed with them, against finite differences and PyTorch."""
