"""The "cpu" backend: BLAS for matmuls, Numba for the rest. The same contract as `reference.py`, several times faster.

One pool of threads: Numba's (`threads.py`). A kernel cuts its work into one part for each thread, and a thread calls a
BLAS that has no threads (`libraries.py`), so no two pools compete for the cores. Nothing is allocated in a step, but by
the first one at a size: outputs are the caller's, scratch memory is kept (`scratch.py`). The number of threads is that
of the cores, or NUMBA_NUM_THREADS; sums depend on it, so the same number gives the same results, bit for bit. Kernels
are compiled once and kept on disk (`kept.py`).
"""

from pathlib import Path

from llmc.backends.cpu import pointwise
from llmc.backends.cpu.attention import attention_backward, attention_cached, attention_forward, attention_stats_shape
from llmc.backends.cpu.classifier import fused_classifier
from llmc.backends.cpu.embeddings import encoder_backward, encoder_forward
from llmc.backends.cpu.gelu import gelu_backward, gelu_forward
from llmc.backends.cpu.kept import compile_once
from llmc.backends.cpu.layernorm import layernorm_backward, layernorm_forward, residual_layernorm_forward
from llmc.backends.cpu.matmul import matmul_backward, matmul_forward, matmul_gelu_forward
from llmc.backends.cpu.pointwise import adamw_update, global_norm, residual_forward, scale, zero
from llmc.backends.cpu.scratch import zeros
from llmc.backends.reference import from_numpy, to_numpy

__all__ = [
    "adamw_update",
    "attention_backward",
    "attention_cached",
    "attention_forward",
    "attention_stats_shape",
    "encoder_backward",
    "encoder_forward",
    "from_numpy",
    "fused_classifier",
    "gelu_backward",
    "gelu_forward",
    "global_norm",
    "layernorm_backward",
    "layernorm_forward",
    "matmul_backward",
    "matmul_forward",
    "matmul_gelu_forward",
    "residual_forward",
    "residual_layernorm_forward",
    "scale",
    "to_numpy",
    "zero",
    "zeros",
]

compile_once(Path(__file__).parent, pointwise.kept_in())
