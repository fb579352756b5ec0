"""Lesson 07, exercise 6: are a learner's layers right, in a model and one by one?

The layers are exercises of lessons 01 to 06, whose references and known mistakes explain them.
"""

from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module

import numpy as np

from llmc.course.checks.diagnosis import WrongAnswer
from llmc.course.checks.exercise import Exercise, exercise_named
from llmc.course.your_layers.adapters import writes_in_place
from llmc.course.your_layers.plug import learner_backend
from llmc.errors import UserError
from llmc.parity.scoreboard import fixture, scoreboard

B, T, C, C_out, NH, V, Vp, maxT = 2, 5, 6, 8, 2, 9, 12, 7
TOPICS = "embeddings layernorm matmul gelu_residual softmax_crossentropy attention".split()
LAYERS = {  # what each of them is given; in this order they are looked at
    "encoder_forward": "tokens wte wpe",
    "layernorm_forward": "x w b",
    "matmul_forward": "x w b",
    "attention_forward": "qkv NH",
    "gelu_forward": "x",
    "residual_forward": "x dout",
    "gelu_backward": "dout x",
    "matmul_backward": "dout x w",
    "encoder_backward": "dout tokens V maxT",
    "layernorm_backward": "dout x w mean rstd",
    "attention_backward": "dout qkv p NH",
    "fused_classifier": "losses logits targets dloss V",
}
PRODUCT = np.ones((256, 64), np.float32), np.ones((64, 256), np.float32)

Exercise("faster_layers", "07", slow="In GELU, `x**3` takes longer than `x * x * x`, and float64 than float32 (hint 2).")
Exercise("residual_forward", "07", reference=lambda x1, x2: x1 + x2, returns="out", look="2.2 · One block")


def sgemm():
    """A large float32 product, (256, 64) · (64, 256)."""
    return PRODUCT[0] @ PRODUCT[1]


def sgemms_in_a_step(model, tokens=256, T=64):
    """How many of them have the FLOPs of one training step."""
    return tokens * model.config.flops_per_token(T) / (2 * 256 * 64 * 256)


def judge_layers(c, layers, given):
    """The backend made of a learner's layers {name: function}; WrongAnswer if one of them is wrong.

    given: the layers that the notebook has had before.
    """
    if not isinstance(layers, dict):
        raise WrongAnswer("return a dict {name: function}")
    for name in layers.keys() - LAYERS.keys():
        close = [f"; {each!r} is one" for each in get_close_matches(str(name), LAYERS, n=1)]
        raise WrongAnswer(f"{name!r} is not one of LAYERS, so it would not be used{''.join(close)}")
    mine = {name: f for name, f in layers.items() if f is not given.get(name)}
    if not mine:
        raise WrongAnswer("these are all functions that you had before: none can be faster")
    backend = _through_a_model(c, layers)
    red = [row.name for row in scoreboard(backend).rows if not row.okay]
    if len(backend.yours) < 6:
        raise WrongAnswer(f"{len(backend.yours)} of the functions are yours; at least six must be")
    for topic in TOPICS:
        import_module(f"llmc.course.lessons.{topic}.exercises")
    for name in LAYERS:
        if name in mine and (red or name == "fused_classifier"):  # a model whose padding is 0 hides one mistake
            _judge_layer(c, name, mine)
    culprits = f"{', '.join(backend.differing)} differs from the reference, and so " * bool(backend.differing)
    if red:
        raise WrongAnswer(f"{culprits}these rows of the scoreboard are red: {', '.join(red)}")
    c.calls.clear()  # from here on, none of these is what went wrong
    return backend


def _through_a_model(c, layers):
    """The backend made of the layers, after a run with inputs that cannot be written to.

    What a layer raised comes out unchanged; a wrong return value comes out as a plain sentence.
    """
    guarded = {name: lambda *given, f=f: c.call(f, *given) for name, f in layers.items() if name != "fused_classifier"}
    problem = fixture()
    try:
        model = problem.model(learner_backend(guarded))
        model.forward(problem.x, problem.y, dloss=1.0)
        model.backward()
        c.calls.clear()
        return learner_backend(layers)
    except UserError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise WrongAnswer(str(error)) from None


def _judge_layer(c, name, mine):
    """WrongAnswer if the learner's layer of that name is wrong on small arrays. mine: {name: function}."""
    with c.explained_as(name):
        for k, size in enumerate((1, 0.003)):  # the rows of the smaller one show eps
            arrays = _arrays(c, name, size, None if k else 0.37)
            try:
                _compare(c, name, mine[name], arrays)
            except WrongAnswer as error:
                forward, told = name.replace("backward", "forward"), f"in your {name}, {error.diagnosis.sentence}"
                if forward != name and forward in mine:
                    c.call(mine[forward], *(arrays[each] for each in LAYERS[forward].split()))
                    with suppress(WrongAnswer):
                        _compare(c, name, mine[name], arrays)
                        told = f"{name} is right only after {forward} has been called with the same arrays"
                        told += ": in a model, that was called for another block meanwhile"
                error.diagnosis.sentence = told
                raise


def _compare(c, name, function, arrays):
    """A call, and all of its results against the reference: in float64, if float32 is not what it computes in."""
    inputs = [arrays[each] for each in LAYERS[name].split()]
    if name != "fused_classifier":
        made = c.call(function, *inputs)
        if any(np.asarray(each).dtype != np.float32 for each in (made if isinstance(made, tuple) else (made,))):
            inputs = [_wide(each) for each in inputs]
        c.compare(function, *inputs)
    elif writes_in_place(function):
        c.compare(function, *inputs)
    elif c.call(function, arrays["logits"].copy(), arrays["targets"], V)[1][..., V:].any():  # the other form
        raise WrongAnswer("numbers are left in the padding of the gradient of logits, columns V and up: all must be 0")


def _arrays(c, name, size, dloss) -> dict:
    """What the layers are given, float32; x is so large. dloss: a number or None."""
    new = lambda *shape: c.random(*shape, dtype=np.float32)  # noqa: E731
    linear, tokens = name.startswith("matmul"), c.rng.integers(0, V, (B, T))  # (B, T)
    tokens[0, 0] = tokens[0, 1] = tokens[1, 0]
    x, qkv, w = np.float32(size) * new(B, T, C), new(B, T, 3 * C), new(C_out, C) if linear else new(C)
    _, mean, rstd = exercise_named("layernorm_forward").reference(x, x[0, 0], x[0, 0])  # (B, T) each
    _, p = exercise_named("attention_forward").reference(qkv, NH)  # (B, NH, T, T)
    arrays = {"x": x, "qkv": qkv, "w": w, "mean": mean, "rstd": rstd, "p": p, "tokens": tokens, "targets": tokens}
    arrays |= {"b": new(len(w)), "dout": new(B, T, C_out if linear and "backward" in name else C), "NH": NH, "V": V}
    arrays |= {"wte": new(V, C), "wpe": new(maxT, C), "maxT": maxT, "dloss": dloss}
    return arrays | {"losses": c.buffer(B, T, dtype=np.float32), "logits": c.buffer(B, T, Vp, dtype=np.float32)}


def _wide(value):
    """Float32 arrays in float64; anything else as it is."""
    return value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
