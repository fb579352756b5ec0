"""The "cuda" backend in bf16 and fp16: every layer by the kernels of llmc/kernels/mixed, on a GPU or on the emulator.

The arrays' own type says which of the two it is. What `mixed.py` computes in NumPy is what is computed here, up to the
order of sums: weights are rounded by the same random bits. All that concerns no numbers is `gpu.py`'s; like it, this
backend runs ahead of the host.
"""

import numpy as np

from llmc import cuda, kernels
from llmc.backends import gpu
from llmc.errors import UserError
from llmc.kernels import norm
from llmc.kernels.adamw import FACTOR
from llmc.kernels.mixed import adamw, attention, classifier, encoder, layernorm, matmul, pointwise

PRECISIONS = ("bf16", "fp16")  # whose arrays it takes
HEAD_ROWS = 1 << 14  # so products still fill a large GPU; logits of GPT-2 then take 1.6 GB at most
OVERWRITES = True  # matmul_backward and the fused functions of a backward pass take accumulate
attention_stats_shape = gpu.attention_stats_shape
from_numpy = gpu.from_numpy
later = gpu.later
overwrite = gpu.overwrite
norm_there = adamw.global_norm
synchronize = gpu.synchronize
to_numpy = gpu.to_numpy
zero = gpu.zero

encoder_forward = encoder.encoder_forward
encoder_forward_at = encoder.encoder_forward_at
encoder_backward = encoder.encoder_backward
layernorm_forward = layernorm.layernorm_forward
layernorm_again = layernorm.layernorm_again
layernorm_backward = layernorm.layernorm_backward
layernorm_backward_rounded = layernorm.layernorm_backward_rounded
residual_layernorm_forward = layernorm.residual_layernorm_forward
matmul_gelu_forward = matmul.matmul_gelu_forward
matmul_gelu_forward_once = matmul.matmul_gelu_forward_once
matmul_backward = matmul.matmul_backward
gelu_matmul_backward = matmul.gelu_matmul_backward
gelu_forward = pointwise.gelu_forward
gelu_again = pointwise.gelu_forward  # it is what matmul_gelu_forward launches
gelu_backward = pointwise.gelu_backward
attention_forward = attention.attention_forward
attention_backward = attention.attention_backward
attention_cached = attention.attention_cached
attend_by = attention.attend_by
matmul_by = matmul.matmul_by
fused_classifier = classifier.fused_classifier
scale = pointwise.scale
adamw_update_by = adamw.adamw_update


def zeros(n, dtype):
    """A new flat array of n zeros on the device. Raises UserError unless dtype is bfloat16, float16 or float32."""
    dtype = np.dtype(dtype)
    if dtype.name not in ("bfloat16", "float16", "float32"):
        raise UserError(f"the cuda backend does not compute in {dtype}; use numpy or cpu for that.")
    return cuda.xp.zeros(n, dtype)  # (n,)


def global_norm(grads):
    """√(sum of squares), summed in double precision."""
    return float(adamw.global_norm(grads)[0])


def adamw_update_rounded(params, grads, m, v, master, key, place=0, factor=1.0, clear=False, **numbers):
    """AdamW in float32 on the master weights, or without them on the weights, which become their rounding.

    params, grads: (n,) 16 bits · m, v, master: (n,) float32; master may be None. The rest is as in `mixed.py`.
    """
    there = adamw_settings(loss_scale=1.0, key=key, **numbers)
    there[FACTOR] = factor
    adamw_update_by(params, grads, m, v, master, there, clear=clear, place=place)


def matmul_forward(out, x, w, b):
    """*out = x · wᵀ + b in 16 bits; arrays of float32 alone are multiplied in float32, as in `mixed.py`."""
    (gpu if w.dtype == np.float32 else matmul).matmul_forward(out, x, w, b)


def residual_forward(out, x1, x2):
    """*out = x1 + x2, of which x2 has 16 bits; or none has."""
    (gpu if x2.dtype == np.float32 else pointwise).residual_forward(out, x1, x2)


# ------------------------------------------------------------------------------------------- ahead of the host


def repeat(key, arrays, work):
    """`repeat` of gpu.py. Recordings for bfloat16 and for float16 differ, also where the arrays lie in one place."""
    gpu.repeat((arrays[0].dtype.name, attention.attend_by(), matmul.matmul_by(), key), arrays, work)


def adamw_settings(loss_scale, key, **numbers):
    """The numbers of an AdamW step, on the device: always the same array, float32 (9,), which each call overwrites."""
    settings = kernels.scratch("adamw settings of 16 bits", (9,))
    settings[...] = cuda.asarray(adamw.settings(loss_scale, key, **numbers))
    return settings


def clip(settings, result, grads, max_norm):
    """*result (1,), float64: the norm of grads without the loss scale; *settings such that AdamW scales them down.

    grads None: the norm is there already.
    """
    if grads is not None:
        result[...] = adamw.global_norm(grads, settings)
    norm.clip_factor(settings[FACTOR:], result, max_norm)
