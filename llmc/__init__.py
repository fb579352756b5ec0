"""llmc: GPT-2 training rebuilt from scratch, the small engine that the course in `notebooks/` builds up to.

To import it you only need NumPy: no GPU, PyTorch, network or compiler.
"""

__version__ = "0.1.0"
