"""The "cuda" backend in bf16 and fp16: every layer by the kernels of llmc/kernels/mixed, on a GPU or on the emulator.

The arrays' own type says which of the two it is. What `mixed.py` computes in NumPy is what is computed here, up to the
order of sums: weights are rounded by the same random bits.
"""

import numpy as np

from llmc import cuda, kernels
from llmc.backends.contract import ATTENTION
from llmc.backends.gpu import Cuda
from llmc.errors import UserError
from llmc.kernels import norm as norms
from llmc.kernels import pointwise as pointwise_exact
from llmc.kernels.adamw import FACTOR
from llmc.kernels.mixed import (
    adamw,
    attention,
    attention_cudnn,
    classifier,
    encoder,
    layernorm,
    matmul,
    matmul_own,
    pointwise,
)


class CudaMixed(Cuda):
    """The same for arrays of 16 bits; calls with float32 alone, as in the head of a model, are Cuda's."""

    LAYERS = (encoder, layernorm, pointwise, attention, classifier, *Cuda.LAYERS)
    ATTENTION = ATTENTION
    PRECISIONS = ("bf16", "fp16")
    DTYPES = ("bfloat16", "float16", "float32")
    RECOMPUTE = 0
    HEAD_ROWS = 1 << 14  # so products still fill a large GPU; logits of GPT-2 then take 1.6 GB at most

    def in_precision(self, precision):
        """Itself, in 16 bits."""
        return self if precision.name in self.PRECISIONS else super().in_precision(precision)

    def choose(self, matmul="fastest", attention="own"):
        """As in the contract. Raises UserError where cuDNN, or the tensor cores for our own products, are missing."""
        if attention == "cudnn":
            attention_cudnn.library()
        if matmul == "own" and matmul_own.best(np.float16) is None:
            raise UserError(
                "our own matmuls need a GPU with tensor cores (compute capability 7.0); use --matmul cublas."
            )
        super().choose(matmul, attention)

    gelu_again = staticmethod(pointwise.gelu_forward)  # it is what matmul_gelu_forward launches

    def residual_forward(self, out, x1, x2):
        """*out = x1 + x2, where x2 has 16 bits, or neither has."""
        (pointwise_exact if x2.dtype == np.float32 else pointwise).residual_forward(out, x1, x2)

    def layernorm_residual_backward(self, dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate=True):
        """As in the contract; with dsum, dx is rounded, and its columns are summed, in the same pass."""
        if dsum is None:
            return super().layernorm_residual_backward(dx, dsum, dw, db, dout, x, w, mean, rstd)
        rounded = layernorm.layernorm_backward_rounded(dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate)
        return rounded, None  # (B, T, C)

    def matmul_forward(self, out, x, w, b):
        """*out = x · wᵀ + b in 16 bits; arrays of float32 alone are multiplied in float32, as in `mixed.py`."""
        if w.dtype == np.float32:
            super().matmul_forward(out, x, w, b)
        else:
            matmul.matmul_forward(out, x, w, b, by=self.matmul)

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """*out = x · wᵀ + b, *gelu_out = GELU(out)."""
        matmul.matmul_gelu_forward(gelu_out, out, x, w, b, by=self.matmul)

    def matmul_gelu_forward_once(self, gelu_out, out, x, w, b):
        """The same; cuBLAS computes GELU before it rounds the product."""
        matmul.matmul_gelu_forward_once(gelu_out, out, x, w, b, by=self.matmul)

    def matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate."""
        matmul.matmul_backward(dx, dw, db, dout, x, w, accumulate, by=self.matmul)

    def gelu_matmul_backward(self, dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True):
        """As in the contract, with the column sums for dbpre."""
        matmul.gelu_matmul_backward(dpre, dw, db, dout, pre, x, w, dbpre, accumulate, by=self.matmul)

    def attention_forward(self, out, stats, qkv, NH):
        """*out, *stats from qkv."""
        attention.attention_forward(out, stats, qkv, NH, by=self.attention)

    def attention_backward(self, dqkv, dout, out, stats, qkv, NH):
        """*dqkv from dout and what the forward pass read and wrote."""
        attention.attention_backward(dqkv, dout, out, stats, qkv, NH, by=self.attention)

    # ------------------------------------------------------------------------------------------ optimizer

    norm_on_device = staticmethod(adamw.global_norm)
    adamw_update_by = staticmethod(adamw.adamw_update)

    def adamw_settings(self, loss_scale, key, **numbers):
        """The settings, on the device: always the same array, float32 (9,), which each call overwrites."""
        settings = kernels.scratch("adamw settings of 16 bits", (9,))
        settings[...] = cuda.asarray(adamw.settings(loss_scale, key, **numbers))
        return settings

    def clip(self, settings, norm, grads, max_norm):
        """*norm (1,), float64: the norm of grads without the loss scale; +settings scale them down.

        grads None: the norm is there already.
        """
        if grads is not None:
            norm[...] = adamw.global_norm(grads, settings)
        norms.clip_factor(settings[FACTOR:], norm, max_norm)
