"""The "cpu" backend: BLAS for matmuls, Numba for the rest. The same contract as `reference.py`, several times faster.

Arrays are float32 (or float64), or, in the precision bf16, bfloat16: `bfloat16.py` says how a kernel serves both, and
`matmul_bfloat16.py` what multiplies them.

One pool of threads: Numba's (`threads.py`). A kernel cuts its work into one part for each thread, and a thread calls a
BLAS that has no threads of its own (`blas.py`), so no two pools compete for the cores. A step allocates nothing after
the first one of a size: outputs are the caller's, scratch memory is kept (`scratch.py`). There are as many threads as
cores, or NUMBA_NUM_THREADS; sums depend on their number, and the same number gives the same results, bit for bit.
Kernels are compiled once and kept on the disk (`kernel_cache.py`); `prepare` sees to that, not the import.
"""

from functools import cache

from llmc.backends.cpu import blas
from llmc.backends.cpu.adamw import adamw_update, adamw_update_rounded
from llmc.backends.cpu.attention import attention_backward, attention_cached, attention_forward, attention_stats_shape
from llmc.backends.cpu.classifier import fused_classifier
from llmc.backends.cpu.compiled import KERNELS
from llmc.backends.cpu.decode import one_token
from llmc.backends.cpu.encoder import encoder_backward, encoder_forward
from llmc.backends.cpu.kernel_cache import keep
from llmc.backends.cpu.layernorm import (
    layernorm_again,
    layernorm_backward,
    layernorm_forward,
    residual_layernorm_forward,
)
from llmc.backends.cpu.matmul import FEW, matmul_backward, matmul_forward, matmul_gelu_forward
from llmc.backends.cpu.pointwise import gelu_backward, gelu_forward, global_norm, residual_forward, scale, zero
from llmc.backends.cpu.scratch import zeros
from llmc.backends.cpu.threads import load_pool
from llmc.backends.numba_variables import check_threads

PRECISIONS = ("bf16",)  # those with 16 bits that the functions here take; `mixed.py` does the others


@cache
def prepare(precision="fp32"):
    """Load the threads and BLAS, and compile the kernels that are not on disk yet (10 to 30 s, once).

    precision: "fp32", or one of PRECISIONS.
    """
    load_pool()
    check_threads()
    blas.choose()
    keep(KERNELS, compiler="llmc.backends.cpu.compile_kernels", precision=precision)
