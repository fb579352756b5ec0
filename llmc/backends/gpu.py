"""The "cuda" backend: every layer by the kernels of llmc/kernels, on an NVIDIA GPU, or on the emulator without one.

All arrays are float32; `in_tf32()` is the same backend with the factors of products rounded to TF32, `in_16_bits()` the
one for arrays of 16 bits. Functions launch and return while the GPU is still computing; only `to_numpy` and
`global_norm`, which need numbers on the host, wait for it. All sums have a fixed order, so equal runs give equal bits.

It runs ahead of the host, so it has what the contract says about that: a step is recorded once and then launched as a
few CUDA graphs, its settings lie on the device, and the training loop reads its loss and norm when the next step has
been launched.
"""

import inspect
from functools import wraps

import numpy as np

from llmc import cuda, kernels
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
    norm,
    pointwise,
    tensor_cores,
)
from llmc.kernels import attention_cached as attention_decoding
from llmc.switches import switch

synchronize = cuda.synchronize  # waits until everything launched so far is done; for clocks
RECOMPUTE = 1  # a fifth of the activations is not kept, for one more pass over 4C numbers per token and layer
norm_there = norm.global_norm
overwrite = cuda.overwrite
later = cuda.asnumpy_later  # for numbers that are read when more has been launched


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
    alone = switch("LLMC_CHECK") or not recorder.graphs()
    if alone or (multiply != "kernel" and not (_on_gpu() and cublas.recordable())):
        work()
    else:
        recorder.repeat((key, multiply, kernels.scratch_moves()), arrays, work)


def _on_gpu():
    return cuda.device() == "gpu"


def adamw_settings(**numbers):
    """The numbers of an AdamW step, on the device: always the same array, float32 (7,), which each call overwrites."""
    settings = kernels.scratch("adamw settings", (7,))
    settings[...] = cuda.asarray(adamw.settings(**numbers))
    return settings


def clip(settings, result, grads, max_norm):
    """*result (1,), float64: the norm of grads; *settings such that `adamw_update_by` scales them down to max_norm.

    grads None: the norm is there already.
    """
    if grads is not None:
        result[...] = norm.global_norm(grads)
    norm.clip_factor(settings[adamw.FACTOR :], result, max_norm)


# --------------------------------------------------------------------------------------------------- layers


def _newest(function, **chosen):
    """A launcher of llmc/kernels with the contract's signature: its default `version`, and the options `chosen`."""

    @wraps(function)
    def launch(*arguments, **named):
        function(*arguments, **named, **chosen)

    signature = inspect.signature(function)
    wanted = [p for name, p in signature.parameters.items() if name not in ("version", "tf32")]
    launch.__signature__ = signature.replace(parameters=wanted)
    return launch


encoder_forward = _newest(encoder.encoder_forward)
encoder_forward_at = encoder.encoder_forward_at
encoder_backward = _newest(encoder.encoder_backward)
layernorm_forward = _newest(layernorm.layernorm_forward)
layernorm_again = _newest(layernorm.layernorm_again)
layernorm_backward = _newest(layernorm.layernorm_backward)
residual_forward = _newest(pointwise.residual_forward)
residual_layernorm_forward = _newest(layernorm.residual_layernorm_forward)
matmul_forward = _newest(matmul.matmul_forward)
matmul_gelu_forward = _newest(matmul.matmul_gelu_forward)
matmul_backward = _newest(matmul.matmul_backward)
gelu_forward = _newest(pointwise.gelu_forward)
gelu_again = _newest(matmul.gelu_again)
gelu_backward = _newest(pointwise.gelu_backward)
attention_forward = _newest(attention.attention_forward)
attention_backward = _newest(attention.attention_backward)
attention_cached = _newest(attention_decoding.attention_cached)
fused_classifier = _newest(classifier.fused_classifier)
scale = _newest(norm.scale)
adamw_update = _newest(adamw.adamw_update)
adamw_update_by = _newest(adamw.adamw_update_by)


# ----------------------------------------------------------------------------------------- other precisions


def in_tf32():
    """This backend in TF32. Raises UserError for a GPU that is too old for it."""
    if not tensor_cores.has_tf32(cuda.device()):
        capability = tensor_cores.compute_capability(cuda.device()) / 10
        raise UserError(f"tf32 needs a GPU of compute capability 8.0 or more, and this one has {capability}; use fp32.")
    return InTF32()


class InTF32:
    """This backend with the factors of matmuls and of attention rounded to TF32; all else is as in float32.

    On the emulator, which has no cuBLAS, NumPy multiplies the rounded factors, and attention's instructions for tensor
    cores are imitated. attention_cached, and a matmul of a single row, have nothing to gain and stay in float32.
    """

    def __init__(self):
        for function in (matmul.matmul_forward, matmul.matmul_gelu_forward, matmul.matmul_backward):
            setattr(self, function.__name__, _newest(function, tf32=True))
        for function in (attention.attention_forward, attention.attention_backward):
            setattr(self, function.__name__, _newest(function, tf32=True))

    def __getattr__(self, name):
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(name) from None

    def repeat(self, key, arrays, work):
        """`repeat` with recordings of its own: those in float32 multiply otherwise."""
        repeat((key, "TF32"), arrays, work)


def in_16_bits():
    """This backend for weights, activations and gradients of 16 bits."""
    from llmc.backends import gpu_mixed  # it builds on this module

    return gpu_mixed
