"""Lesson 07: what the block, its backward pass, the tied table, the count and the first weights should give.

Each comes with its known mistakes.

References compute in float64 and independently of llmc.backends; those of the block return x's dtype. A wrong block is
the right one with one switch thrown, so that each of its tensors can be recognised.
"""

from contextlib import contextmanager
from difflib import get_close_matches

import numpy as np

from llmc.course.checks.contrast import outcome
from llmc.course.checks.explain import WrongAnswer, describe
from llmc.course.checks.inputs import read_only
from llmc.course.checks.polynomials import compared
from llmc.course.lessons.matmul import results
from llmc.errors import UserError

# where to look; a test compares these titles with the headings of notebooks/07_gpt2_model.ipynb
BLOCK = 'lesson 07, section "2.2 · One block"'
COUNT = 'lesson 07, section "4.1 · Every tensor, to the last number"'
FRESH = 'lesson 07, section "3.1 · What a fresh model should say"'
INIT = 'lesson 07, section "3.2 · Why 1/√(2L)"'
FORK = 'lesson 07, section "5.1 · The fork"'
CHAIN = 'lesson 07, section "5.2 · The block, last line first"'
TIED = 'lesson 07, section "5.3 · One table, two places"'

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


# ------------------------------------------------------------------------------------------------------- block

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


FORWARD_SWITCHES = {
    "normalised later": "the layernorm of x plus attention: GPT-2 normalises x first, and attention reads ln1",
    "no ln1": "the reference with qkv made of x: it is made of ln1",
    "no first": "the branch alone: x is not added to it",
    "no residual": "the reference without either residual: each branch is added to what went into it",
    "from ln1": "the reference with ln1 added in place of x: the stream itself goes on, not its layernorm",
    "no attproj": "the reference without attprojw and attprojb: atty goes through a linear layer first",
    "mlp of x": "the reference with ln2 made of x: the second half of the block reads residual2",
    "mlp of branch": "the reference with ln2 made of the branch alone: it reads residual2",
    "ln1 twice": "the reference with ln1w and ln1b in place of ln2w and ln2b",
    "no ln2": "the reference with fch made of residual2: it is made of ln2",
    "no gelu": "the reference without GELU",
    "no second": "the branch alone: residual2 is not added to it",
    "second from x": "the reference with x added in place of residual2: what attention wrote is lost",
    "from ln2": "the reference with ln2 added in place of residual2: the stream itself goes on, not its layernorm",
}


def named_arrays(got, first, second):
    """An array and a dict, as a block returns them. Raises WrongAnswer in a plain sentence when they are not that."""
    out, a = results(got, first, f"the dict of {second}")
    if not isinstance(a, dict):
        raise WrongAnswer(f"the second value should be the dict of {second}, {{name: array}}, but is {describe(a)}.")
    return out, a


def block_forward_mistakes(x, p, NH) -> dict:
    """{activation or "out": {sentence: (array, where to look)}}."""
    known = {}
    for wrong, sentence in FORWARD_SWITCHES.items():
        out, a = block_forward(x, p, NH, wrong)
        for name, array in (a | {"out": out}).items():
            known.setdefault(name, {})[sentence] = (array, BLOCK)
    return known


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
    read = {"ln2 at x": x, "ln2 at ln2": a["ln2"]}.get(wrong, a["residual2"])  # (B, T, C)
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


BACKWARD_SWITCHES = {
    "fch for fch_gelu": ("the reference with fch in place of fch_gelu: what was fcprojw multiplied by?", CHAIN),
    "no gelu": ("the reference without gelu_backward", CHAIN),
    "slope at fch_gelu": (
        "the reference with gelu_backward at fch_gelu: the slope is taken where GELU was, at fch",
        CHAIN,
    ),
    "residual2 for ln2": ("the reference with residual2 in place of ln2: what was fcw multiplied by?", CHAIN),
    "ln2 at x": ("the reference with x in place of residual2: ln2 normalised residual2", CHAIN),
    "ln2 at ln2": (
        "the reference with ln2 in place of residual2: layernorm_backward needs what went into the layernorm, "
        "ln2 is what came out",
        CHAIN,
    ),
    "no second": ("the reference without the straight branch of the second residual: dout itself goes on, too", FORK),
    "no straight": (
        "the reference without the straight branch of either residual: the gradient also goes on untouched",
        FORK,
    ),
    "second twice": ("the reference with dout counted twice at the second residual", FORK),
    "no mlp branch": ("the reference without what comes back through ln2: both branches of the fork add up", FORK),
    "dout again": ("the reference with dout in place of dresidual2: past the fork, the gradient is a sum", FORK),
    "branch only": ("the reference with the branch through ln2 in place of dresidual2: add dout to it", FORK),
    "x for ln1": ("the reference with x in place of ln1: what was qkvw multiplied by?", CHAIN),
    "ln1 at residual2": ("the reference with residual2 in place of x: ln1 normalised x", CHAIN),
    "ln1 at ln1": (
        "the reference with ln1 in place of x: layernorm_backward needs what went into the layernorm, "
        "ln1 is what came out",
        CHAIN,
    ),
    "no first": (
        "the reference without the straight branch of the first residual: dresidual2 itself goes on, too",
        FORK,
    ),
    "dout at the end": ("the reference with dout in place of dresidual2 at the first residual", FORK),
    "dout once more": ("the reference with dout added once more: it is already in dresidual2", FORK),
    "no attention branch": (
        "the reference without what comes back through ln1: both branches of the fork add up",
        FORK,
    ),
}


def block_backward_mistakes(dout, x, p, NH) -> dict:
    """{tensor or "dx": {sentence: (array, where to look)}}."""
    known = {}
    for wrong, (sentence, where) in BACKWARD_SWITCHES.items():
        dx, g = block_backward(dout, x, p, NH, wrong)
        for name, array in (g | {"dx": dx}).items():
            known.setdefault(name, {})[sentence] = (array, where)
    return known


# ------------------------------------------------------------------------------------------------------- tied


def tied_gradient(dlogits, lnf, dencoded, tokens):
    """dwte (Vp, C) from both places, one token at a time."""
    dtype = lnf.dtype
    dwte = np.einsum("btv,btc->vc", np.asarray(dlogits, np.float64), np.asarray(lnf, np.float64))  # (Vp, C)
    for index, token in np.ndenumerate(tokens):
        dwte[token] += dencoded[index]  # (C,)
    return dwte.astype(dtype)


def tied_mistakes(dlogits, lnf, dencoded, tokens) -> dict:
    """{sentence: (array, where to look)}."""
    head = tied_gradient(dlogits, lnf, 0 * dencoded, tokens)  # (Vp, C)
    lookup = tied_gradient(0 * dlogits, lnf, dencoded, tokens)  # (Vp, C)
    once, written, lone = head.copy(), head.copy(), np.zeros_like(head)  # (Vp, C) each
    once[tokens] += dencoded
    written[tokens] = dencoded
    lone[tokens] = dencoded
    shifted = np.roll(lookup, 1, axis=0)  # (Vp, C)
    early, late = (np.zeros_like(head) for _ in range(2))  # (Vp, C) each
    np.add.at(early, tokens[:, 1:], dencoded[:, :-1])
    np.add.at(late, tokens[:, :-1], dencoded[:, 1:])
    round_early, round_late = (
        tied_gradient(0 * dlogits, lnf, np.roll(dencoded, shift, axis=1), tokens) for shift in (1, -1)
    )  # (Vp, C) each
    belongs = "dencoded[b, t] belongs to tokens[b, t]"
    wrong = {
        "the head's part alone: the table is also looked up at the bottom, where its gradient is dencoded": head,
        "the lookup's part alone: the table is also the output head": lookup,
        "the reference with only one of the rows of a token that occurs twice: += with an index array adds once": once,
        "the head's part with rows overwritten by the lookup's: add them": written,
        "the lookup's part alone, with only one of the rows of a token that occurs twice": lone,
        "the mean of the two parts: a variable in two places collects the sum": (head + lookup) / 2,
        "the head's part minus the lookup's: add them": head - lookup,
        "the product of the two parts: add them": head * lookup,
        "the reference with tokens counted from 1": head + shifted,
        f"the reference with dencoded[:, :-1] added at tokens[:, 1:]: {belongs}": head + early,
        f"the reference with dencoded[:, 1:] added at tokens[:, :-1]: {belongs}": head + late,
        f"the reference with each row of dencoded added at the next position's token: {belongs}": head + round_early,
        f"the reference with each row of dencoded added at the previous position's token: {belongs}": head + round_late,
        "the head's part plus the mean of the lookup's rows": head + lookup / tokens.size,
        "the reference with the head's part divided by B·T: dlogits already belongs to the mean loss": head
        / tokens.size
        + lookup,
        "the reference with the head's part averaged over the sequences: add them up": head / len(tokens) + lookup,
    }
    return {text: (array, TIED) for text, array in wrong.items()}


# ------------------------------------------------------------------------------------------------------ count


def count(maxT, V, L, C) -> int:
    """Parameters of a GPT-2 with tied tables, each of the sixteen tensors written out."""
    block = 2 * C + (3 * C * C + 3 * C) + (C * C + C) + 2 * C + (4 * C * C + 4 * C) + (4 * C * C + C)
    return V * C + maxT * C + L * block + 2 * C


OTHER = (9, 23, 5, 17)  # maxT, V, L, C: sizes at which two mistakes hardly give the same count


def explain_count(got, maxT, V, L, C, function=None):
    """Which mistake gives this count, as a sentence; None when it is right. function: the learner's, for more calls."""
    right = count(maxT, V, L, C)
    if got == right:
        return None
    off = f"{abs(int(got) - right):,} too {'many' if got > right else 'few'}"
    why = _known_count(int(got), maxT, V, L, C)
    if why and function and _known_count(outcome(function, *OTHER), *OTHER) != why:
        why = None  # it has the same number at these sizes alone
    why = why or _rounded_sum(int(got), right) or _fixed_size(int(got) - right, maxT, V, L, C)
    once = lambda term: term.count("L") < 2 and term.count("C") < 3 and max(map(term.count, term), default=0) < 3  # noqa: E731
    terms = compared("Your count", function, count, ("maxT", "V", "L", "C"), 3, only=once) if function else None
    said = [words[0].upper() + words[1:] for words in (why, terms) if words]
    return ". ".join([off, *said])


def _known_count(got, maxT, V, L, C) -> str | None:
    """The sentence of the known mistake that gives this count; None if none does."""
    right, padded = count(maxT, V, L, C), -(-V // 128) * 128
    biases = L * (3 * C + C + 4 * C + C)
    wrong = {
        right + V * C: "the table is counted twice: the output head is wte itself, not a tensor of its own",
        right + V * C + V: "the output head is counted, with a bias: it is wte itself, and it has none",
        right + V: "a bias of the output head is counted: it has none",
        right - V * C: "the token table wte is missing",
        right - maxT * C: "the position table wpe is missing: positions have a table too",
        right + (L - 1) * 2 * C: "the last layernorm is counted in every block: there is only one, after all of them",
        right - 2 * C: "the last layernorm is missing (lnfw, lnfb): it comes after the blocks",
        right - C: "one vector of C numbers is missing: every layernorm has a weight and a bias",
        right + (padded - V) * C: "the padding rows of wte are counted: they are not parameters of the model",
        right - biases: "the biases of the four linear layers are missing",
        right
        - biases
        - 4 * L * C
        - 2 * C: "all vectors are missing: the biases, and the layernorms' weights and biases",
        right - 4 * L * C: "4C numbers are missing in each block: its two layernorms have 4C together, "
        "the MLP's first bias has 4C, and the biases of qkv and attproj have 3C + C",
        right - 4 * L * C - 2 * C: "the layernorms are missing",
        right - 2 * L * C - C: "each layernorm has a weight and a bias: one of them is missing",
        right - 2 * L * C: "2C numbers are missing in each block: each of its two layernorms has 2C, "
        "the bias of qkv has 3C, not C, and the biases of attproj and fcproj have C each",
        right - 2 * L * C * C: "the matrix qkvw is 3C × C: queries, keys and values",
        right - 2 * L * (C * C + C): "the layer qkv is 3C wide: queries, keys and values",
        right - L * C * C: "the matrix attprojw is missing: heads are mixed by a C × C matrix",
        right - L * (C * C + C): "the layer attproj is missing: heads are mixed by a C × C matrix and a bias",
        right
        - 3
        * L
        * (C * C + C): "the layer qkv is missing: it makes queries, keys and values, a 3C × C matrix and a bias",
        right - 3 * L * C * C: "the matrix qkvw is missing: queries, keys and values, 3C × C",
        right - 4 * L * C * C: "4C² numbers are missing in each block: the MLP has two matrices of 4C², "
        "and qkv and attproj have 3C² and C²",
        right - 6 * L * C * C: "the MLP is counted as if it were C wide: it is 4C wide inside",
        right + 3 * L * C: "the MLP's second bias, fcprojb, has C numbers, not 4C: that layer comes back to C",
        right
        - 3
        * L
        * C: "three vectors of C numbers are missing in each block: the bias of qkv has 3C, and the MLP's first 4C",
        right - (L - 1) * (right - V * C - maxT * C - 2 * C) // L: "only one block is counted: there are L",
    }
    return wrong.get(got)


def _rounded_sum(got, right) -> str | None:
    """A sentence if only the last digits of a large count are wrong."""
    if right < 2**24 or abs(got - right) > 1e-6 * right:
        return None
    return (
        "the first digits are right, as after a sum in float32, whose whole numbers have gaps from 2²⁴ = 16,777,216 on"
    )


def _fixed_size(off, maxT, V, L, C) -> str | None:
    """A sentence if the count has GPT-2's own number in place of one of the sizes."""
    block = 12 * C * C + 13 * C
    sizes = [("V", V, C, (50257, 50304)), ("maxT", maxT, C, (1024,)), ("L", L, block, (12,))]
    sizes += [("4C, the MLP's inner width,", 4 * C, L * (2 * C + 1), (3072,))]
    for what, size, each, usual in sizes:
        for other in usual:
            if off == (other - size) * each != 0:
                return f"it has {other} where {what} belongs, which is {size} here: every size comes from the arguments"
    return None


# ------------------------------------------------------------------------------------------------------- init


def explain_initial(name, shape, L, got, drawn=True):
    """What is wrong with the initial values `got` of tensor `name`, and where to look; None when nothing is.

    drawn: has the generator that was given moved on?
    """
    wrong, where = _wrong_start(name, shape, got, drawn), FRESH
    if wrong is None and name not in ONES and not name.endswith("b"):
        wrong, where = _wrong_width(name, shape, L, got)
    return wrong and f"{wrong}.\n→ Where to look: {where}"


ONES = ("ln1w", "ln2w", "lnfw")


def _wrong_start(name, shape, got, drawn):
    """Shape, dtype, the ones and zeros, and whether the rest is drawn from a normal distribution, with this rng."""
    if not isinstance(got, np.ndarray) or got.shape != shape:
        return f"{name} should be an array of shape {shape}, not {getattr(got, 'shape', type(got).__name__)}"
    if got.dtype != np.float32:
        return f"{name} has dtype {got.dtype}, expected float32: end with .astype(np.float32)"
    if name in ONES:
        return None if (got == 1).all() else f"{name} should be ones: a layernorm starts by changing nothing"
    if name.endswith("b"):
        return None if (got == 0).all() else f"{name} should be zeros: it is a bias"
    std = float(got.std())
    if std == 0:
        return f"{name} is constant: its numbers must differ, or all channels learn the same thing"
    if not drawn:
        return f"{name} was not drawn from the given rng: the caller decides, with its seed, which numbers come"
    largest = float(np.abs(got).max())
    if largest < 1.9 * std:  # a normal distribution's largest of thousands is beyond 3
        return f"{name} is uniform, between ±{largest:.2g}: draw from a normal distribution"
    near = float((np.abs(got - got.mean()) < std).mean())
    if not 0.63 < near < 0.73:  # 0.68 of a normal distribution; 0.58 of a uniform one, 0.76 of a Laplace distribution
        return f"{name} is not from a normal distribution: {near:.0%} lie within one standard deviation, not 68%"
    if got.ndim == 3 and (got[0] == got[1]).all():
        return f"{name} is the same in every layer: draw new numbers for each layer"
    return f"{name} has mean {got.mean():.3g}, expected 0" if abs(float(got.mean())) > 0.1 * std else None


def _wrong_width(name, shape, L, got):
    """(what is wrong with the standard deviation, where to look), or (None, None)."""
    scale, std = np.sqrt(2 * L), float(got.std())
    layers = [float(layer.std()) for layer in got] if got.ndim == 3 else [std]
    if max(layers) > 1.1 * min(layers):
        each = ", ".join(f"{one:.5f}" for one in layers[:3])
        told = f"the layers of {name} have different standard deviations, {each}{', …' * (len(layers) > 3)}"
        return f"{told}: it is the same for all, with the number of layers in it, not the layer's own", INIT
    wanted = 0.02 / scale if name in ("attprojw", "fcprojw") else 0.02
    if abs(std / wanted - 1) < 5 / np.sqrt(2 * got.size):  # five times what chance does to it
        return None, None
    reasons = {
        0.02: (f"{name} writes to the residual stream, so it needs 1/√(2L) too", INIT),
        0.02 / scale: (f"{name} does not write to the residual stream: only attprojw and fcprojw get the factor", INIT),
        0.02 / np.sqrt(L): (
            f"{name} is divided by √L, but every block writes to the stream twice: divide by √(2L)",
            INIT,
        ),
        0.02 / (2 * L): ("1/(2L) lacks a root: variances add up, so the factor is 1/√(2L)", INIT),
        0.02 / L: ("1/L lacks a root, and every block writes twice: the factor is 1/√(2L)", INIT),
        0.02 * scale: ("It is multiplied by √(2L), where it should be divided", INIT),
        0.02**0.5: ("0.02 is the standard deviation, not the variance", FRESH),
        0.02**0.5 / scale: ("0.02 is the standard deviation, not the variance", FRESH),
        0.02**2: ("0.02 is already the standard deviation, so do not square it", FRESH),
        0.02 / np.sqrt(2): (f"{name}: where is L in the factor 1/√(2L)?", INIT),
        1.0: (f"{name} is not scaled by 0.02", FRESH),
        1 / np.sqrt(shape[-1]): (f"{name} has 1/√(its inputs); here it is 0.02 for all of them", FRESH),
    }
    close = (reason for value, reason in reasons.items() if abs(std / value - 1) < 0.05)
    reason, where = next(close, ("", FRESH if wanted == 0.02 else INIT))
    return f"{name} has standard deviation {std:.5f}, expected {wanted:.5f}" + f". {reason}" * bool(reason), where


# ----------------------------------------------------------------------------------------------------- plugging in


@contextmanager
def in_their_code():
    """Around the use of `learner_backend` in a check: an error in a learner's function is reported as such.

    What a function raised comes out unchanged; a wrong return value comes out as a plain sentence.
    """
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise WrongAnswer(str(error)) from None


def stranger(names, known):
    """A sentence about the first unknown name, with the one that may be meant; None when all are known."""
    for name in names:
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            return f"{name!r} is not one of LAYERS, so it would not be used" + f": do you mean {close[0]!r}?" * bool(
                close
            )
    return None
