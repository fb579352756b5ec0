"""Call every function of the "cpu" backend once, on tiny arrays: so all of its kernels are compiled.

Run by `kept.py` in a process of its own. Numba compiles a kernel for the types that it is called with; these are those
of training, evaluation and sampling in float32, with the cache and without.
"""

from math import prod

import numpy as np

from llmc.backends import cpu
from llmc.backends.cpu.compiled import KERNELS

B, T, C, NH, V, Vp = 1, 3, 4, 2, 5, 6


def array(*shape):
    """As a model has them: C-contiguous float32, from the backend's own memory."""
    return cpu.zeros(prod(shape), np.float32).reshape(shape)


def main():
    """Touch every kernel."""
    for kernel in KERNELS:
        kernel.enable_caching()
    layers()
    attention()
    optimizer()


def layers():
    """What runs in training and, forward, in evaluation and sampling."""
    x, out, hidden, gelu = array(B, T, C), array(B, T, C), array(B, T, 4 * C), array(B, T, 4 * C)
    mean, rstd, w, b = array(B, T), array(B, T), array(C), array(C)
    wte, wpe, fcw, fcb, logits = array(Vp, C), array(T, C), array(4 * C, C), array(4 * C), array(B, T, Vp)
    tokens = np.zeros((B, T), np.int32)
    cpu.encoder_forward(out, tokens, wte, wpe)
    cpu.layernorm_forward(out, mean, rstd, x, w, b)
    cpu.residual_forward(out, x, x)
    cpu.residual_layernorm_forward(array(B, T, C), out, mean, rstd, x, x, w, b)
    cpu.matmul_forward(logits, x, wte, None)
    cpu.matmul_gelu_forward(gelu, hidden, x, fcw, fcb)
    cpu.gelu_forward(gelu, hidden)
    for dloss in (None, 1.0):
        cpu.fused_classifier(array(B, T), logits, tokens, dloss, V)
    cpu.gelu_backward(gelu, gelu, hidden)
    cpu.matmul_backward(out, array(4 * C, C), fcb, gelu, x, fcw)
    cpu.layernorm_backward(out, array(C), array(C), x, x, w, mean, rstd)
    cpu.encoder_backward(wte, wpe, out, tokens)


def attention():
    """Over a sequence, backward, and with a cache: a prompt, then another token."""
    out, qkv, cache = array(B, T, C), array(B, T, 3 * C), array(2, B, NH, T + 1, C // NH)
    stats = array(*cpu.attention_stats_shape(B, T, NH))
    cpu.attention_forward(out, stats, qkv, NH)
    cpu.attention_backward(array(B, T, 3 * C), out, out, stats, qkv, NH)
    cpu.attention_cached(out, cache, qkv, NH, 0)
    cpu.attention_cached(array(B, 1, C), cache, array(B, 1, 3 * C), NH, T)


def optimizer():
    """What runs on flat arrays."""
    params, grads, m, v = (array(7) for _ in range(4))
    cpu.zero(grads)
    cpu.global_norm(grads)
    cpu.scale(grads, 0.5)
    cpu.adamw_update(params, grads, m, v, lr=0.1, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=1, clear=True)


if __name__ == "__main__":
    main()
