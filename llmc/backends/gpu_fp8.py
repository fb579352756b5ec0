"""The "cuda" backend in fp8: that of bf16, with matmuls whose factors have 8 bits; `fp8.py` says what they compute."""

from llmc.backends.contract import Backend
from llmc.backends.fp8 import GRADIENTS, few, gradient_scale
from llmc.backends.gpu_mixed import CudaMixed
from llmc.errors import UserError
from llmc.kernels.mixed import matmul_fp8


class CudaFp8(CudaMixed):
    """The same for bfloat16 arrays."""

    PRECISIONS = ("fp8",)

    def __init__(self):
        matmul_fp8.check_device()
        super().__init__()
        self._gradients = GRADIENTS
        self._classify, self.fused_classifier = self.fused_classifier, self._fused_classifier

    def choose(self, matmul="fastest", attention="own"):
        """As in the contract. Raises UserError for our own products, which there are only of 16 bits."""
        if matmul == "own":
            raise UserError("our own matmuls multiply 16 bits; use --matmul cublas with --precision fp8.")
        super().choose(matmul, attention)

    def _fused_classifier(self, losses, logits, targets, dloss, V):
        """As in the contract; the gradients of this batch will be scaled by what dloss says."""
        self._classify(losses, logits, targets, dloss, V)
        if dloss is not None:
            self._gradients = gradient_scale(dloss)

    def matmul_forward(self, out, x, w, b):
        """*out = x · wᵀ + b."""
        if few(x):
            super().matmul_forward(out, x, w, b)
        else:
            matmul_fp8.matmul_forward(out, x, w, b)

    def matmul_backward(self, dx, dw, db, dout, x, w, accumulate=True):
        """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate."""
        if few(x):
            super().matmul_backward(dx, dw, db, dout, x, w, accumulate)
        else:
            matmul_fp8.matmul_backward(dx, dw, db, dout, x, w, self._gradients, accumulate)

    matmul_gelu_forward = Backend.matmul_gelu_forward
    matmul_gelu_forward_once = Backend.matmul_gelu_forward_once
    gelu_matmul_backward = Backend.gelu_matmul_backward
