"""Lesson 07: what a block and its backward pass should give, computed in float64 and independently of llmc.backends.

Results have x's dtype. A wrong block is the right one with one switch thrown, so that each of its tensors can be
recognised: block_mistakes says what a switch means.
"""

import numpy as np

from llmc.course.lessons.matmul import results
from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.course.old.checks.inputs import read_only

PARTS = ("ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb", "ln2w", "ln2b", "fcw", "fcb", "fcprojw", "fcprojb")


def weights(random, C):
    """One block's twelve tensors from random(*shape): as awkward as `c.random` makes them, but of moderate size."""
    shapes = {"qkvw": (3 * C, C), "attprojw": (C, C), "fcw": (4 * C, C), "fcprojw": (C, 4 * C)}
    shapes |= {"qkvb": (3 * C,), "fcb": (4 * C,)}
    p = {name: random(*shapes.get(name, (C,))) for name in PARTS}
    scales = {"qkvw": 0.06}  # scores of moderate size: attention must mix, not choose
    return locked({name: value * scales.get(name, 0.15 if value.ndim == 2 else 0.4) for name, value in p.items()})


def locked(arrays) -> dict:
    """The arrays of a dict, read-only; `c.call` locks only those that are arguments themselves."""
    return {name: read_only(array) for name, array in arrays.items()}


def named_arrays(got, first, second):
    """An array and a dict, as a block returns them. Raises WrongAnswer in a plain sentence when they are not that."""
    out, a = results(got, first, f"the dict of {second}")
    if not isinstance(a, dict):
        raise WrongAnswer(f"the second value should be the dict of {second}, {{name: array}}, but is {describe(a)}.")
    return out, a


def block_forward(x, p, NH, wrong=""):
    """out (B, T, C) and the activations by name. wrong: the switch that is thrown."""
    dtype, x = x.dtype, np.asarray(x, np.float64)
    p = {name: np.asarray(value, np.float64) for name, value in p.items()}
    a = {}
    a["ln1"], a["ln1_mean"], a["ln1_rstd"] = _norm(x, p["ln1w"], p["ln1b"])  # (B, T, C), (B, T), (B, T)
    a["qkv"] = (x if wrong == "no ln1" else a["ln1"]) @ p["qkvw"].T + p["qkvb"]  # (B, T, 3C)
    a["atty"], a["probabilities"] = _attention(a["qkv"], NH)  # (B, T, C), (B, NH, T, T)
    attproj = a["atty"] @ p["attprojw"].T + p["attprojb"]  # (B, T, C)
    straight = {"no residual": 0, "no first": 0, "from ln1": a["ln1"]}.get(wrong, x)  # (B, T, C)
    a["residual2"] = straight + (a["atty"] if wrong == "no attproj" else attproj)  # (B, T, C)
    if wrong == "normalised later":
        a["ln1"], a["ln1_mean"], a["ln1_rstd"] = _after_attention(x, p, NH)
    read = {"mlp of x": x, "mlp of branch": attproj}.get(wrong, a["residual2"])  # (B, T, C)
    one = "1" if wrong == "ln1 twice" else "2"
    a["ln2"], a["ln2_mean"], a["ln2_rstd"] = _norm(read, p[f"ln{one}w"], p[f"ln{one}b"])  # (B, T, C), (B, T), (B, T)
    read = {"no ln2": a["residual2"], "normalised later": a["ln1"]}.get(wrong, a["ln2"])  # (B, T, C)
    a["fch"] = read @ p["fcw"].T + p["fcb"]  # (B, T, 4C)
    a["fch_gelu"] = a["fch"] if wrong == "no gelu" else _gelu(a["fch"])[0]  # (B, T, 4C)
    fcproj = a["fch_gelu"] @ p["fcprojw"].T + p["fcprojb"]  # (B, T, C)
    straight = {"no residual": 0, "no second": 0, "second from x": x, "from ln2": a["ln2"]}.get(wrong, a["residual2"])
    return (straight + fcproj).astype(dtype), {name: value.astype(dtype) for name, value in a.items()}


def _after_attention(x, p, NH):
    """The first layernorm where the Transformer of 2017 had it: after attention of x and the residual."""
    atty = _attention(x @ p["qkvw"].T + p["qkvb"], NH)[0]  # (B, T, C)
    return _norm(x + atty @ p["attprojw"].T + p["attprojb"], p["ln1w"], p["ln1b"])


def block_backward(dout, x, p, NH, wrong=""):
    """dx (B, T, C) and {name: gradient} of the twelve tensors. wrong: the switch that is thrown."""
    dtype = x.dtype
    dout, x = np.asarray(dout, np.float64), np.asarray(x, np.float64)  # (B, T, C) each
    p = {name: np.asarray(value, np.float64) for name, value in p.items()}
    a, g = block_forward(x, p, NH)[1], {}
    read = "fch" if wrong == "fch for fch_gelu" else "fch_gelu"
    dfch_gelu, g["fcprojw"], g["fcprojb"] = _linear_backward(dout, a[read], p["fcprojw"])  # (B, T, 4C)
    slope = {"no gelu": 1.0, "slope at fch_gelu": _gelu(a["fch_gelu"])[1]}.get(wrong, _gelu(a["fch"])[1])  # (B, T, 4C)
    read = a["residual2"] if wrong == "residual2 for ln2" else a["ln2"]  # (B, T, C)
    dln2, g["fcw"], g["fcb"] = _linear_backward(dfch_gelu * slope, read, p["fcw"])  # (B, T, C)
    read = {"ln2 at x": x, "ln2 at ln2": a["ln2"], "ln2 at atty": x + a["atty"]}.get(wrong, a["residual2"])  # (B, T, C)
    branch, g["ln2w"], g["ln2b"] = _norm_backward(dln2, read, p["ln2w"], a["ln2_mean"], a["ln2_rstd"])  # (B, T, C)
    straight = {"no second": 0, "no straight": 0, "second twice": 2 * dout}.get(wrong, dout)  # (B, T, C)
    dresidual2 = straight + (0 if wrong == "no mlp branch" else branch)  # (B, T, C)
    above = {"dout again": dout, "branch only": branch}.get(wrong, dresidual2)  # (B, T, C)
    datty, g["attprojw"], g["attprojb"] = _linear_backward(above, a["atty"], p["attprojw"])  # (B, T, C)
    dqkv = _attention_backward(datty, a["qkv"], a["probabilities"], NH)  # (B, T, 3C)
    read = x if wrong == "x for ln1" else a["ln1"]  # (B, T, C)
    dln1, g["qkvw"], g["qkvb"] = _linear_backward(dqkv, read, p["qkvw"])  # (B, T, C)
    read = {"ln1 at residual2": a["residual2"], "ln1 at ln1": a["ln1"]}.get(wrong, x)  # (B, T, C)
    branch, g["ln1w"], g["ln1b"] = _norm_backward(dln1, read, p["ln1w"], a["ln1_mean"], a["ln1_rstd"])  # (B, T, C)
    straight = {"no first": 0, "no straight": 0, "dout at the end": dout}.get(wrong, dresidual2)  # (B, T, C)
    straight = dresidual2 + dout if wrong == "dout once more" else straight
    dx = straight + (0 if wrong == "no attention branch" else branch)  # (B, T, C)
    return dx.astype(dtype), {name: value.astype(dtype) for name, value in g.items()}


# ---------------------------------------------------------------------------------------------- layers, plainly


def _norm(x, w, b):
    """Layernorm of x (B, T, C): out, mean, rstd."""
    mean = x.mean(-1, keepdims=True)  # (B, T, 1)
    rstd = (np.square(x - mean).mean(-1, keepdims=True) + 1e-5) ** -0.5  # (B, T, 1)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


def _norm_backward(dout, x, w, mean, rstd):
    """dx, dw, db, through the Jacobian of each row."""
    n = (x - mean[..., None]) * rstd[..., None]  # (B, T, C)
    jacobian = np.eye(x.shape[-1]) - 1 / x.shape[-1] - n[..., :, None] * n[..., None, :] / x.shape[-1]  # (B, T, C, C)
    dx = np.einsum("btij,bti->btj", jacobian, dout * w) * rstd[..., None]  # (B, T, C)
    return dx, np.einsum("btc,btc->c", dout, n), np.einsum("btc->c", dout)


def _linear_backward(dout, x, w):
    """dx, dw, db of x · wᵀ + b."""
    return np.einsum("bto,oi->bti", dout, w), np.einsum("bto,bti->oi", dout, x), np.einsum("bto->o", dout)


def _gelu(x):
    """GELU and its derivative, any shape."""
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)
    t = np.tanh(u)
    slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope


def _qkv(array, NH):
    """(B, T, 3C) -> (3, B, NH, T, hs)."""
    B, T, width = array.shape
    return array.reshape(B, T, 3, NH, width // (3 * NH)).transpose(2, 0, 3, 1, 4)


def _attention(qkv, NH):
    """out (B, T, C) and probabilities (B, NH, T, T)."""
    q, k, v = _qkv(qkv, NH)  # (B, NH, T, hs) each
    B, _, T, hs = q.shape
    scores = np.where(np.tri(T), np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(hs), -np.inf)  # (B, NH, T, T)
    e = np.exp(scores - scores.max(-1, keepdims=True))  # (B, NH, T, T)
    p = e / e.sum(-1, keepdims=True)  # (B, NH, T, T)
    return np.einsum("bhij,bhjd->bihd", p, v).reshape(B, T, NH * hs), p


def _attention_backward(dout, qkv, p, NH):
    """dqkv (B, T, 3C)."""
    q, k, v = _qkv(qkv, NH)  # (B, NH, T, hs) each
    B, _, T, hs = q.shape
    do = dout.reshape(B, T, NH, hs)  # (B, T, NH, hs)
    dp = np.einsum("bihd,bhjd->bhij", do, v)  # (B, NH, T, T)
    ds = p * (dp - np.einsum("bhij,bhij->bhi", p, dp)[..., None]) / np.sqrt(hs)  # (B, NH, T, T)
    parts = (("bhij,bhjd->bihd", ds, k), ("bhij,bhid->bjhd", ds, q), ("bhij,bihd->bjhd", p, do))
    return np.concatenate([np.einsum(*part).reshape(B, T, NH * hs) for part in parts], axis=-1)
