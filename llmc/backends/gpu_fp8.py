"""The "cuda" backend in fp8: that of bf16, with matmuls whose factors have 8 bits; `fp8.py` says what they compute."""

import numpy as np

from llmc.backends.contract import Backend
from llmc.backends.fp8 import GRADIENTS, HEAD_ROWS, few, gradient_scale
from llmc.backends.gpu_mixed import CudaMixed
from llmc.kernels import scratch
from llmc.kernels.mixed import attention, classifier, layernorm, matmul_fp8


class CudaFp8(CudaMixed):
    """The same for bfloat16 arrays."""

    PRECISIONS = ("fp8",)
    DTYPES = ("bfloat16", "float32", "uint8")
    HEAD_ROWS = HEAD_ROWS
    RECOMPUTE = 1  # it costs nothing: see gelu_again

    def __init__(self):
        matmul_fp8.check_device()
        super().__init__()
        self._gradients = GRADIENTS
        self._classify, self.fused_classifier = self.fused_classifier, self._fused_classifier

    def _fused_classifier(self, losses, logits, targets, dloss, V):
        """As in the contract; the gradients of this batch will be scaled by what dloss says."""
        self._classify(losses, logits, targets, dloss, V)
        if dloss is not None:
            self._gradients = gradient_scale(dloss)

    def classifier_gradient(self, losses, logits, targets, dloss, V):
        """As in the contract: in 8 bits, in memory of its own, if the kernel for that can take the logits."""
        if few(logits):
            return super().classifier_gradient(losses, logits, targets, dloss, V)
        self._gradients = gradient_scale(dloss)
        dlogits = scratch("dlogits of 8 bits", logits.shape, "uint8")  # (B, T, Vp)
        return classifier.fused_classifier(losses, logits, targets, dloss, V, dlogits, self._gradients)

    def layernorm_residual_backward(self, dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate=True):
        """As in the contract; with dsum, dx is rounded to 8 bits, and its columns are summed, in the same pass."""
        arguments = dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate
        if dsum is None or few(dout):
            return super().layernorm_residual_backward(*arguments)
        return layernorm.layernorm_backward_rounded(*arguments, gradients=self._gradients), None  # (B, T, C)

    def zeros(self, n, dtype):
        """As in the contract; numbers of 8 bits are bytes here, since CuPy has no type for them."""
        return super().zeros(n, np.uint8 if np.dtype(dtype).itemsize == 1 else dtype)

    def matmul_forward(self, out, x, w, b):
        """*out = x · wᵀ + b."""
        if few(x):
            super().matmul_forward(out, x, w, b)
        else:
            matmul_fp8.matmul_forward(out, x, w, b, by=self.matmul)

    def matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate."""
        if few(x):
            super().matmul_backward(dx, dw, db, dout, x, w, accumulate)
        else:
            matmul_fp8.matmul_backward(dx, dw, db, dout, x, w, self._gradients, accumulate, by=self.matmul)

    def matmul_gelu_forward(self, gelu_out, out, x, w, b):
        """*out = x · wᵀ + b, *gelu_out = GELU(out)."""
        if gelu_out.dtype == out.dtype:
            Backend.matmul_gelu_forward(self, gelu_out, out, x, w, b)
        else:
            matmul_fp8.matmul_gelu_forward(gelu_out, out, x, w, b, by=self.matmul)

    matmul_gelu_forward_once = Backend.matmul_gelu_forward_once

    def gelu_again(self, out, x):
        """Nothing: gelu_matmul_backward takes GELU from `pre` itself."""

    def attention_bias_backward(self, dqkv, db, dout, out, stats, qkv, NH, accumulate=True):
        """As in the contract, with the column sums; *dqkv has 8 bits."""
        arguments = dqkv, db, dout, out, stats, qkv, NH, self._gradients, accumulate
        attention.attention_backward_narrow(*arguments, by=self.attention)

    def gelu_matmul_backward(self, dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True):
        """As in the contract, with the column sums for dbpre; *dpre has 8 bits."""
        arguments = dpre, dw, db, dout, pre, w, self._gradients, dbpre, accumulate
        matmul_fp8.gelu_matmul_backward(*arguments, by=self.matmul)
