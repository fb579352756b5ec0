"""Lesson 07, exercise 6: what is wrong with the first of a learner's layers that differs from those of the notebook?

The layers come from lessons 01 to 06, and so do the mistakes that are looked for.
"""

from contextlib import suppress
from inspect import signature
from typing import NamedTuple

import numpy as np

from llmc.course.lessons import embeddings, softmax_crossentropy
from llmc.course.lessons.attention import heads
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.layernorm import mistakes as layernorm
from llmc.course.lessons.matmul import layer as matmul
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.your_layers.adapters import writes_in_place

B, T, C, NH, V, Vp, MAXT = 2, 5, 6, 2, 9, 12, 7
SIZES = {"C": C, "B·T": B * T, "T": T}
SEVERAL = "such a layer in each block, so what the last forward pass has left behind is another block's"


class Layer(NamedTuple):
    """Shapes of a layer's arrays (a number is passed on as it is), names of its results, their known mistakes."""

    inputs: tuple
    results: tuple
    mistakes: object = None  # function of the inputs, {result: {sentence: (array, where to look)}}


def _forward(table):
    return lambda *inputs: {"out": table(*inputs)}


TOKENS, X = "tokens", (B, T, C)
LAYERS = {
    "encoder_forward": Layer((TOKENS, (V, C), (MAXT, C)), ("out",), embeddings.forward_mistakes),
    "layernorm_forward": Layer((X, (C,), (C,)), ("out", "mean", "rstd"), layernorm.forward_mistakes),
    "matmul_forward": Layer((X, (8, C), (8,)), ("out",), matmul.forward_mistakes),
    "attention_forward": Layer(((B, T, 3 * C), NH), ("out", "probabilities"), heads.forward_mistakes),
    "gelu_forward": Layer((X,), ("out",), _forward(gelu.forward_mistakes)),
    "residual_forward": Layer((X, X), ("out",)),
    "gelu_backward": Layer((X, X), ("dx",), lambda dout, x: {"dx": gelu.backward_mistakes(dout, x)}),
    "matmul_backward": Layer(((B, T, 8), X, (8, C)), ("dx", "dw", "db"), matmul.backward_mistakes),
    "encoder_backward": Layer((X, TOKENS, V, MAXT), ("dwte", "dwpe"), embeddings.backward_mistakes),
}


def first_wrong_layer(c, layers, given):
    """Raise WrongAnswer about the first of the learner's layers whose results are not those of the given ones.

    c: the running check. layers, given: {name: function}. Returns when all of them agree on small arrays.
    """
    mine = {name: f for name, f in layers.items() if f is not given.get(name)}
    for name, layer in LAYERS.items():
        for size in (1, 0.003) if name in mine else ():  # the smaller ones show eps
            inputs = [_input(c, shape) for shape in layer.inputs]
            if name == "layernorm_forward":
                inputs[0] *= np.float32(size)
            expected = given[name](*map(_wide, inputs))
            _keeps_nothing(c, name, mine, given, inputs, expected)
            _compare_layer(c, name, mine[name], inputs, layer.results, expected)
    for name in ("layernorm_backward", "attention_backward", "fused_classifier"):
        if name in layers and layers[name] is not given.get(name):
            _LATER[name](c, layers[name], given)


def _keeps_nothing(c, name, mine, given, inputs, expected):
    """Raise WrongAnswer if a layer's backward pass is right only when its forward pass has just had the same inputs."""
    forward = name.replace("backward", "forward")
    if forward == name or forward not in mine:
        return
    named = dict(zip(signature(given[name]).parameters, inputs))
    needs = signature(given[forward]).parameters
    if not named.keys() >= needs.keys() or _near(c.call(mine[name], *inputs), expected):
        return
    c.call(mine[forward], *(named[each] for each in needs))
    if _near(c.call(mine[name], *inputs), expected):
        after = f"{name} is right only after {forward} has been called with the same arrays"
        raise WrongAnswer(f"{after}: a model has {SEVERAL}.")


def _near(got, expected) -> bool:
    return np.shape(got) == np.shape(expected) and np.allclose(got, expected, rtol=1e-3, atol=1e-4)


def _compare_layer(c, name, function, inputs, names, expected, known=None):
    """One call, and every result of it against what is expected; the mistakes are those of the layer's own lesson."""
    with c.explained_as(name):
        got = c.call(function, *inputs)
        got = got if isinstance(got, tuple | list) else (got,)
        expected = expected if isinstance(expected, tuple) else (expected,)
        if known is None:
            known = _known(LAYERS[name], inputs)
        for result, array, right in zip(names, got, expected):
            narrow = np.asarray(array, np.float32)  # a layer may compute in float64: the model's buffers are float32
            compare(f"{result} of {name}", narrow, right.astype(np.float32), known=known.get(result), sizes=SIZES)


def _known(layer, inputs):
    """The mistakes that its lesson knows, as far as they can be made on these inputs."""
    with suppress(Exception):  # a mistake may need other sizes
        return layer.mistakes(*inputs) if layer.mistakes else {}
    return {}


def _layernorm_backward(c, function, given):
    x, w, dout = (_input(c, shape) for shape in (X, (C,), X))
    _, mean, rstd = given["layernorm_forward"](_wide(x), _wide(w), 0.0)  # (B, T) both
    inputs = dout, x, w, mean.astype(np.float32), rstd.astype(np.float32)
    known, expected = layernorm.backward_mistakes(dout, x, w), given["layernorm_backward"](*map(_wide, inputs))
    _compare_layer(c, "layernorm_backward", function, inputs, ("dx", "dw", "db"), expected, known)


def _attention_backward(c, function, given):
    dout, qkv = _input(c, X), _input(c, (B, T, 3 * C))
    p = given["attention_forward"](_wide(qkv), NH)[1].astype(np.float32)  # (B, NH, T, T)
    expected = given["attention_backward"](*map(_wide, (dout, qkv, p, NH)))  # (B, T, 3C)
    with c.explained_as("attention_backward"):
        got = np.asarray(c.call(function, dout, qkv, p, NH), np.float32)
        known = heads.backward_mistakes(dout, qkv, NH)
        for k, name in enumerate(("dq", "dk", "dv") if got.shape == expected.shape else ()):
            part = slice(k * C, (k + 1) * C)
            right = expected[..., part].astype(np.float32)
            compare(f"{name} of attention_backward", got[..., part], right, known=known[name], sizes=SIZES)
        compare("dqkv of attention_backward", got, expected.astype(np.float32))


def _fused_classifier(c, function, given):
    drawn, targets, dloss = _input(c, (B, T, Vp)), c.rng.integers(0, V, (B, T)), 0.37
    if not writes_in_place(function):  # the other form that a model takes
        _no_padding(c.call(function, drawn, targets, V)[1])
        return
    losses, logits = c.buffer(B, T, dtype=np.float32), c.buffer(B, T, Vp, dtype=np.float32)
    logits[...] = drawn
    right, expected = np.zeros((B, T)), drawn.astype(np.float64)  # (B, T), (B, T, Vp)
    given["fused_classifier"](right, expected, targets, dloss, V)
    with c.explained_as("fused_classifier"):
        c.call(function, losses, logits, targets, dloss, V)
        known = softmax_crossentropy.classifier_mistakes(drawn, targets, dloss, V)
        compare("losses of fused_classifier", losses, right.astype(np.float32), known=known["losses"], sizes=SIZES)
        wanted = expected[..., :V].astype(np.float32)
        compare("dlogits of fused_classifier", logits[..., :V], wanted, known=known["dlogits"], sizes=SIZES)
        _no_padding(logits)


def leaves_logits(c, layers, given):
    """WrongAnswer if a fused_classifier that writes in place changes the logits when no gradient is wanted."""
    function = layers.get("fused_classifier")
    if function in (None, given["fused_classifier"]) or not writes_in_place(function):
        return
    losses, logits = c.buffer(B, T, dtype=np.float32), c.buffer(B, T, Vp, dtype=np.float32)
    logits[...] = _input(c, (B, T, Vp))
    before = logits.copy()
    c.call(function, losses, logits, c.rng.integers(0, V, (B, T)), None, V)
    if not np.array_equal(logits, before):
        raise WrongAnswer(
            "fused_classifier changes logits with dloss=None: then only the losses are wanted, and logits stay as they "
            "are."
        )


def _no_padding(dlogits):
    """Only a model whose wte has numbers in its padding rows shows what is wrong here."""
    if dlogits[..., V:].any():
        raise WrongAnswer(
            "fused_classifier leaves numbers in the padding of the gradient of logits, columns V and up. "
            "They must all be 0."
        )


_LATER = {
    "layernorm_backward": _layernorm_backward,
    "attention_backward": _attention_backward,
    "fused_classifier": _fused_classifier,
}


def _input(c, shape):
    """What a Layer's shape stands for: an awkward array, tokens (B, T) of which one repeats, or a number itself."""
    if isinstance(shape, int):
        return shape
    if shape == TOKENS:
        tokens = c.rng.integers(0, V, (B, T))
        tokens[0, 0] = tokens[0, 1] = tokens[1, 0]
        return tokens
    return c.random(*shape, dtype=np.float32)


def _wide(value):
    """Float32 arrays in float64, for a reference; anything else as it is."""
    return value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
