"""Call every function of the "cpu" backend once, on tiny arrays: so that all of its kernels get compiled.

Run by `kernel_cache.py` in processes of their own, one for each half of the work. Numba compiles a kernel for the types
that it is called with; these are those of training, evaluation and sampling in float32 and in bfloat16, with the cache
and without.
"""

import sys
from functools import partial
from math import prod

import numpy as np

from llmc.backends import cpu
from llmc.backends.cpu import attention_bfloat16
from llmc.backends.cpu.compiled import KERNELS
from llmc.backends.cpu.kernel_cache import enable
from llmc.backends.cpu.matmul_bfloat16 import in_float32
from llmc.config import GPT2Config

B, T, C, NH, V, Vp = 1, 5, 4, 2, 5, 6


def array(*shape, dtype=np.float32):
    """An array as a model has it: C-contiguous, in the backend's own memory. The backend sees bfloat16 as uint16."""
    return cpu.zeros(prod(shape), dtype).reshape(shape)


def main(precision, half):
    """Touch half of the kernels that this precision needs: "fp32" or "bf16", half "0" or "1" (equally long)."""
    for kernel in KERNELS:
        enable(kernel)
    low = partial(array, dtype=np.uint16 if precision == "bf16" else np.float32)
    if half == "0":
        layers(low)
        return
    attention(low)
    optimizer(low(7), low(7))
    w = low(C, C)
    cpu.matmul_forward(low(1, C), low(1, C), w, w[0])  # a single row, as in sampling
    decoding(low)
    if precision == "bf16":
        for a, b in ((w, w), (w, w.T), (w.T, w)):  # also where a library takes its place
            in_float32(low(C, C), a, b)
        attention_of_a_library(low)


def layers(low):
    """What runs in training and, forward, in evaluation and sampling. low(*shape): an array of the model's dtype."""
    x, out, hidden, gelu = array(B, T, C), low(B, T, C), low(B, T, 4 * C), low(B, T, 4 * C)
    mean, rstd, w, b = array(B, T), array(B, T), low(C), low(C)
    wte, wpe, fcw, fcb, logits = low(Vp, C), low(T, C), low(4 * C, C), low(4 * C), low(B, T, Vp)
    tokens = np.zeros((B, T), np.int32)
    cpu.encoder_forward(x, tokens, wte, wpe)
    cpu.layernorm_forward(out, mean, rstd, x, w, b)
    cpu.layernorm_again(out, x, w, b, mean, rstd)
    cpu.residual_forward(x, x, out)
    cpu.residual_layernorm_forward(array(B, T, C), out, mean, rstd, x, out, w, b)
    cpu.matmul_forward(logits, out, wte, None)
    cpu.matmul_gelu_forward(gelu, hidden, out, fcw, fcb)
    cpu.gelu_forward(gelu, hidden)
    for dloss in (None, 1.0):
        cpu.fused_classifier(array(B, T), logits, tokens, dloss, V)
    cpu.gelu_backward(gelu, gelu, hidden)
    cpu.matmul_backward(out, low(4 * C, C), fcb, gelu, out, fcw)
    cpu.matmul_backward(out, low(C, C), w, x, out, low(C, C))
    cpu.layernorm_backward(x, low(C), low(C), out, x, w, mean, rstd)
    cpu.encoder_backward(wte, wpe, x, tokens)


def attention(low):
    """Over a sequence, backward, and with a cache: a prompt, then another token."""
    out, qkv, cache = low(B, T, C), low(B, T, 3 * C), low(2, B, NH, T + 1, C // NH)
    stats = array(*cpu.attention_stats_shape(B, T, NH))
    cpu.attention_forward(out, stats, qkv, NH)
    cpu.attention_backward(low(B, T, 3 * C), out, out, stats, qkv, NH)
    cpu.attention_cached(out, cache, qkv, NH, 0)
    cpu.attention_cached(low(B, 1, C), cache, low(B, 1, 3 * C), NH, T)


def decoding(low):
    """One more token, as in sampling; not through a model, which would start compiling the kernels itself."""
    config = GPT2Config(maxT=T, V=V, L=1, NH=NH, C=C)
    params = {tensor.name: low(*tensor.shape) for tensor in config.parameter_table()}
    exact = {name: array(B, 1, C) for name in ("encoded", "residual2", "residual3")}
    exact |= {name: array(B, 1) for name in ("ln1_mean", "ln1_rstd")}
    acts = {name: low(B, 1, C) for name in ("ln1", "atty", "attproj")} | {"qkv": low(B, 1, 3 * C)} | exact
    acts |= {"fch": low(B, 1, 4 * C), "fch_gelu": low(B, 1, 4 * C), "logits": low(B, 1, config.Vp)}
    cpu.one_token(acts, low(1, 2, B, NH, T, C // NH), params, np.zeros((B, 1), np.int32), 0, NH)


def attention_of_a_library(low):
    """Compiled even where there is no library, by a call with no heads."""
    heads, sums, rows, out = low(1, 4, T, C), array(1, T, C), low(0, T, 3 * C), low(0, T, C)
    plans, space = array(1, 5, 1, 10, dtype=np.int64), array(1, 64, dtype=np.uint8)
    stats, scale, inner = array(0, NH, T), np.float32(1), array(1, T)
    room = array(1, 2, T, T), low(1, 2, T, T)
    attention_bfloat16.attend(plans, space, out, stats, rows, NH, scale, heads, *(tiles[:, 0] for tiles in room))
    attention_bfloat16.attend_backward(plans, space, rows, out, out, stats, rows, NH, scale, heads, sums, inner, *room)


def optimizer(params, grads):
    """What runs on flat arrays."""
    m, v = array(7), array(7)
    cpu.zero(grads)
    cpu.zero(m)
    cpu.global_norm(grads)
    cpu.scale(grads, 0.5)
    numbers = dict(lr=0.1, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=1, clear=True)
    if params.dtype == m.dtype:
        cpu.adamw_update(params, grads, m, v, **numbers)
    else:
        for master in (None, array(7)):
            cpu.adamw_update_rounded(params, grads, m, v, master, 0, **numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
