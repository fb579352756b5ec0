"""The "cuda" backend: every layer by the kernels of llmc/kernels, on an NVIDIA GPU, or on the emulator without one.

float32 only. Functions launch and return while the GPU is still computing; only `to_numpy` and `global_norm`, which
need numbers on the host, wait for it. All sums have a fixed order, so equal runs give equal bits.

It runs ahead of the host, so it has what the contract says about that: a step is recorded once and then launched as a
few CUDA graphs, its settings lie on the device, and the loss and the norm are read when all is launched.
"""

import inspect
import os
from functools import wraps

import numpy as np

from llmc import cuda, kernels
from llmc.cuda import recorder
from llmc.errors import UserError
from llmc.kernels import adamw, attention, classifier, cublas, encoder, gelu, layernorm, matmul, norm, residual
from llmc.kernels import attention_backward as attention_back
from llmc.kernels import attention_cached as attention_decoding
from llmc.kernels import encoder_backward as encoder_back
from llmc.kernels import gelu_backward as gelu_back
from llmc.kernels import layernorm_backward as layernorm_back

synchronize = cuda.synchronize  # waits until everything launched so far is done; for clocks
GELU_AGAIN = True  # a fifth of the activations is not kept, for one more pass over 4C numbers per token and layer
later = cuda.asnumpy_later  # for numbers that are read when more has been launched


def has_tf32() -> bool:
    """Whether matmuls now round their inputs to TF32: on a GPU, with LLMC_TF32=1."""
    return matmul.rounds()


def zeros(n, dtype):
    """A new flat array of n zeros on the device. Raises UserError unless dtype is float32."""
    if np.dtype(dtype) != np.float32:
        raise UserError(f"the cuda backend computes in float32, not in {np.dtype(dtype)}; use numpy or cpu for that.")
    return cuda.xp.zeros(n, np.float32)  # (n,)


def from_numpy(array):
    """The same numbers on the device."""
    return cuda.asarray(array)


def to_numpy(array):
    """The same numbers on the host, once they are there."""
    return cuda.asnumpy(array)


def zero(array):
    """Set every element to zero."""
    array.fill(0)


def attention_stats_shape(B, T, NH):
    """One number per query, the logarithm of its sum of exponentials: (B, NH, T)."""
    return (B, NH, T)


def global_norm(grads):
    """√(sum of squares), summed in double precision."""
    return float(norm.global_norm(grads)[0])


# ------------------------------------------------------------------------------------------- ahead of the host


def repeat(key, arrays, work):
    """work(), or from the second time with this key and these arrays on, the CUDA graph of its launches."""
    multiply = matmul.multiply_by()
    if os.environ.get("LLMC_CHECK") == "1" or (multiply != "kernel" and not (_on_gpu() and cublas.recordable())):
        work()
    else:
        recorder.repeat((key, multiply, cublas.tf32(), kernels.scratch_moves()), arrays, work)


def _on_gpu():
    return cuda.device() == "gpu"


def adamw_settings(**numbers):
    """The numbers of an AdamW step, on the device: always the same array, float32 (7,), which each call overwrites."""
    settings = kernels.scratch("adamw settings", (7,))
    settings[...] = cuda.asarray(adamw.settings(**numbers))
    return settings


def clip(settings, result, grads, max_norm):
    """*result (1,), float64: the norm of grads; *settings such that `adamw_update_by` scales them down to max_norm."""
    result[...] = norm.global_norm(grads)
    norm.clip_factor(settings[adamw.FACTOR :], result, max_norm)


# --------------------------------------------------------------------------------------------------- layers


def _newest(function):
    """A launcher of llmc/kernels with the contract's signature: it always takes its default `version`."""

    @wraps(function)
    def launch(*arguments, **named):
        function(*arguments, **named)

    signature = inspect.signature(function)
    wanted = [p for name, p in signature.parameters.items() if name != "version"]
    launch.__signature__ = signature.replace(parameters=wanted)
    return launch


encoder_forward = _newest(encoder.encoder_forward)
encoder_backward = _newest(encoder_back.encoder_backward)
layernorm_forward = _newest(layernorm.layernorm_forward)
layernorm_backward = _newest(layernorm_back.layernorm_backward)
residual_forward = _newest(residual.residual_forward)
residual_layernorm_forward = _newest(layernorm.residual_layernorm_forward)
matmul_forward = _newest(matmul.matmul_forward)
matmul_gelu_forward = _newest(matmul.matmul_gelu_forward)
matmul_backward = _newest(matmul.matmul_backward)
gelu_forward = _newest(gelu.gelu_forward)
gelu_backward = _newest(gelu_back.gelu_backward)
attention_forward = _newest(attention.attention_forward)
attention_backward = _newest(attention_back.attention_backward)
attention_cached = _newest(attention_decoding.attention_cached)
fused_classifier = _newest(classifier.fused_classifier)
scale = _newest(norm.scale)
adamw_update = _newest(adamw.adamw_update)
adamw_update_by = _newest(adamw.adamw_update_by)
