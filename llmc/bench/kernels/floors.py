"""The minimum that a call of a backend function must move and compute, for a profile to show next to its time.

Bytes: every input is read once and every output written once; arrays that are added to are both read and written.
Operations: the multiplications and additions of matrix products; everything else is bound by memory.
"""


def least(name, arguments, named) -> tuple[int, int] | None:
    """(bytes, operations) of a call to the function of this name in the contract; None for others."""
    return LEAST[name](*arguments, **named) if name in LEAST else None


def _sum(*arrays) -> int:
    """The total bytes of these arrays; None counts as 0. Give an array twice if it is read and written."""
    return sum(array.nbytes for array in arrays if array is not None)


def _forward(out, x, w, b):
    return _sum(out, x, w, b), 2 * out.size * w.shape[1]


def _gelu_forward(gelu_out, out, x, w, b):
    return _sum(gelu_out, out, x, w, b), 2 * out.size * w.shape[1]


def _backward(dx, dw, db, dout, x, w, accumulate=True):
    products = 1 if dx is None else 2
    return _sum(dx, dw, dw if accumulate else None, dout, x, w), products * 2 * dout.size * w.shape[1]


def _gelu_and_backward(dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True):
    moved, operations = _backward(dpre, dw, db, dout, x, w, accumulate)
    return moved + pre.nbytes, operations


def _layernorm_residual_backward(dx, dsum, dw, db, dout, x, w, mean, rstd, accumulate=True):
    returned = None if dsum is None else dout  # its rounded dx is as large
    return _sum(dx, dx, dout, returned, x, mean, rstd), 0


def _attention_forward(out, stats, qkv, NH):
    return _sum(out, stats, qkv), 2 * out.size * out.shape[1]  # two products, half of each masked


def _attention_backward(dqkv, dout, out, stats, qkv, NH):
    return _sum(dqkv, dout, out, stats, qkv), 5 * out.size * out.shape[1]  # five


def _attention_bias_backward(dqkv, db, dout, out, stats, qkv, NH, accumulate=True):
    return _attention_backward(dqkv, dout, out, stats, qkv, NH)


def _adamw(params, grads, m, v, master, settings, decayed=True, clear=False, **named):
    params = params[: grads.size]  # all that is updated, even where it lies in rows
    weights = params if master is None else master  # in 16 bits, weights are read from it, and become its rounding
    return _sum(params, weights, master, m, m, v, v, grads) + clear * grads.nbytes, 0


LEAST = {
    "zero": lambda array: (array.nbytes, 0),
    "encoder_forward": lambda out, tokens, wte, wpe: (2 * out.nbytes + out[0].nbytes, 0),
    "encoder_backward": lambda dwte, dwpe, dout, tokens: (3 * dout.nbytes + 2 * dout[0].nbytes, 0),
    "layernorm_forward": lambda out, mean, rstd, x, w, b: (_sum(out, mean, rstd, x), 0),
    "layernorm_again": lambda out, x, w, b, mean, rstd: (_sum(out, x, mean, rstd), 0),
    "layernorm_backward": lambda dx, dw, db, dout, x, w, mean, rstd: (_sum(dx, dx, dout, x, mean, rstd), 0),
    "layernorm_residual_backward": _layernorm_residual_backward,
    "residual_layernorm_forward": lambda residual, out, mean, rstd, x1, x2, w, b: (_sum(residual, out, x1, x2), 0),
    "matmul_forward": _forward,
    "matmul_gelu_forward": _gelu_forward,
    "matmul_gelu_forward_once": _gelu_forward,
    "matmul_backward": _backward,
    "gelu_matmul_backward": _gelu_and_backward,
    "gelu_forward": lambda out, x: (_sum(out, x), 0),
    "gelu_again": lambda out, x: (_sum(out, x) if out.dtype == x.dtype else 0, 0),  # in 8 bits, nobody reads it
    "gelu_backward": lambda dx, dout, x: (_sum(dx, dout, x), 0),
    "attention_forward": _attention_forward,
    "attention_backward": _attention_backward,
    "attention_bias_backward": _attention_bias_backward,
    "fused_classifier": lambda losses, logits, targets, dloss, V: (_sum(logits, logits), 0),
    "classifier_gradient": lambda losses, logits, *_: (logits.nbytes + logits.size, 0),  # writes 8 bits, or more
    "clip": lambda settings, norm, grads, max_norm: (grads.nbytes, 0),
    "adamw_update_by": _adamw,
}
