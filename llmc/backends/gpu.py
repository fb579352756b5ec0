"""The "cuda" backend: every layer by the kernels of llmc/kernels, on an NVIDIA GPU, or on the emulator without one.

Functions launch and return while the GPU is still computing; only `to_numpy` and `global_norm`, which need numbers on
the host, wait for it. All sums have a fixed order, so equal runs give equal bits.

It runs ahead of the host: a step is recorded once and then launched as a few CUDA graphs, its settings lie on the
device, and the training loop reads its loss and norm once the next step has been launched.
"""

import numpy as np

from llmc import cuda, kernels
from llmc.backends.contract import MATMUL, Backend, rows_of
from llmc.cuda import recorder
from llmc.errors import UserError
from llmc.kernels import (
    adamw,
    attention,
    classifier,
    cublas,
    encoder,
    layernorm,
    matmul,
    pointwise,
    tensor_cores,
)
from llmc.kernels import attention_cached as attention_decoding
from llmc.kernels import norm as norms
from llmc.switches import switch


class Cuda(Backend):
    """In float32; with tf32, the factors of matmuls and of attention are rounded to TF32.

    On the emulator, which has no cuBLAS, NumPy multiplies the rounded factors, and attention's instructions for tensor
    cores are imitated. attention_cached, and a matmul of a single row, have nothing to gain and stay in float32.
    """

    LAYERS = encoder, layernorm, pointwise, attention_decoding, classifier, norms  # for functions that are not below
    MATMUL = MATMUL
    RECOMPUTE = 1  # a fifth of the activations is not kept, for one more pass over 4C numbers per token and layer
    RUNS_AHEAD = True
    DTYPES = ("float32",)

    def __init__(self, tf32=False):
        super().__init__(layers=self.LAYERS, name="cuda")
        self.tf32 = tf32

    def in_precision(self, precision):
        """The backend for it: this one, if it is the same. Raises UserError for a GPU that is too old for TF32."""
        if precision.has_8_bit_factors:
            from llmc.backends.gpu_fp8 import CudaFp8  # which builds on this class

            return CudaFp8()
        if precision.is_mixed:
            from llmc.backends.gpu_mixed import CudaMixed

            return CudaMixed()
        if precision.rounds_factors and not tensor_cores.has_tf32(cuda.device()):
            found = tensor_cores.compute_capability(cuda.device()) / 10
            raise UserError(f"tf32 needs a GPU of compute capability 8.0 or more, and this one has {found}; use fp32.")
        return self if precision.rounds_factors == self.tf32 else Cuda(tf32=precision.rounds_factors)

    # --------------------------------------------------------------------------------------------- arrays

    synchronize = staticmethod(cuda.synchronize)
    from_numpy = staticmethod(cuda.asarray)
    to_numpy = staticmethod(cuda.asnumpy)
    overwrite = staticmethod(cuda.overwrite)
    later = staticmethod(cuda.asnumpy_later)

    def zeros(self, n, dtype):
        """A new flat array of n zeros on the device. Raises UserError for a dtype in which it does not compute."""
        if np.dtype(dtype).name not in self.DTYPES:
            raise UserError(f"the cuda backend does not compute in {np.dtype(dtype)}; use numpy or cpu for that.")
        return cuda.xp.zeros(n, dtype)  # (n,)

    def zero(self, array):
        """Set every element to zero."""
        array.fill(0)

    def repeat(self, key, arrays, work):
        """work() or, from the second time on with this key and these arrays, the CUDA graph of its launches."""
        libraries = self.matmul != "own" and not (cuda.device() == "gpu" and cublas.recordable())
        if switch("LLMC_CHECK") or not recorder.graphs() or libraries:
            work()
        else:
            chosen = self.tf32, self.matmul, self.attention, arrays[0].dtype.name, kernels.scratch_moves()
            recorder.repeat((key, *chosen), arrays, work)

    # --------------------------------------------------------------------------------------------- layers

    gelu_again = staticmethod(matmul.gelu_again)

    def matmul_forward(self, out, x, w, b):
        """*out = x · wᵀ + b."""
        matmul.matmul_forward(out, x, w, b, tf32=self.tf32, by=self.matmul)

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """*out = x · wᵀ + b, *gelu_out = GELU(out)."""
        matmul.matmul_gelu_forward(gelu_out, out, x, w, b, tf32=self.tf32, by=self.matmul)

    def matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """*dx = dout · w; +dw += doutᵀ · x (= it, without accumulate); +db += column sums of dout."""
        matmul.matmul_backward(dx, dw, db, dout, x, w, accumulate, tf32=self.tf32, by=self.matmul)

    def attention_stats_shape(self, B, T, NH):
        """One number per query, the logarithm of its sum of exponentials: (B, NH, T)."""
        return (B, NH, T)

    def attention_forward(self, out, stats, qkv, NH):
        """*out, *stats from qkv."""
        attention.attention_forward(out, stats, qkv, NH, tf32=self.tf32)

    def attention_backward(self, dqkv, dout, out, stats, qkv, NH):
        """*dqkv from dout and what the forward pass read and wrote."""
        attention.attention_backward(dqkv, dout, out, stats, qkv, NH, tf32=self.tf32)

    # ------------------------------------------------------------------------------------------ optimizer

    norm_on_device = staticmethod(norms.global_norm)
    adamw_update = staticmethod(adamw.adamw_update)

    def global_norm(self, grads):
        """√(sum of squares), summed in double precision."""
        return float(self.norm_on_device(grads)[0])

    def adamw_settings(self, loss_scale, key, **numbers):
        """The settings, on the device: always the same array, float32 (7,), which each call overwrites."""
        settings = kernels.scratch("adamw settings", (7,))
        settings[...] = cuda.asarray(adamw.settings(**numbers))
        return settings

    def clip(self, settings, norm, grads, max_norm):
        """*norm (1,), float64: the norm of grads, unless it is there already; +settings scale them down."""
        if grads is not None:
            norm[...] = norms.global_norm(grads)
        norms.clip_factor(settings[adamw.FACTOR :], norm, max_norm)

    def adamw_update_by(
        self, params, grads, m, v, master, settings, decayed=True, clear=False, tensor=0, place=0, rows=None
    ):
        """One AdamW step, row by row; float32 needs neither master weights nor random bits."""
        for row, _, weights in rows_of(params, grads.size, rows):
            adamw.adamw_update_by(weights, grads[row], m[row], v[row], settings, decayed, clear)
