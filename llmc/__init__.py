"""llmc: GPT-2 training rebuilt from nothing, the small engine that the course in `notebooks/` builds up to.

Importing it needs NumPy alone: no GPU, no PyTorch, no network, no compiler.
"""

__version__ = "0.1.0"
