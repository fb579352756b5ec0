"""A backend made of the learner's functions: it trains, it borrows what is missing, and it tells what is wrong."""

import ctypes
import json
import math
from pathlib import Path

import numpy as np
import pytest

from llmc.backends import reference
from llmc.config import GPT2Config
from llmc.course.your_layers.plug import ADAPTERS, learner_backend
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.scoreboard import scoreboard

ROOT = Path(__file__).resolve().parents[3]
CONFIG = GPT2Config(maxT=8, V=30, L=2, NH=2, C=8)


def written_in_the_lessons():
    """The solutions of lessons 01 to 06, as they stand in their notebooks: names and signatures must fit together."""
    functions = {"np": np, "math": math}
    for path in sorted((ROOT / "solutions").glob("0[1-6]_*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            mark = cell["metadata"].get("llmc", {})
            if mark.get("role") == "answer" and mark["exercise"] in ADAPTERS:
                exec("".join(cell["source"]), functions)
    return functions


def residual_forward(x1, x2):  # an addition is no exercise
    return x1 + x2


def of_the_mean(logits, targets, V):
    losses, dlogits = np.empty(targets.shape), logits.copy()
    reference.fused_classifier(losses, dlogits, targets, 1 / targets.size, V)
    return losses, dlogits


def of_each_token(logits, targets, V):
    losses, dlogits = of_the_mean(logits, targets, V)
    return losses, dlogits * targets.size


def in_place(losses, logits, targets, dloss, V):
    reference.fused_classifier(losses, logits, targets, dloss, V)


ALL = written_in_the_lessons() | {"residual_forward": residual_forward}
pytestmark = pytest.mark.skipif(
    "gelu_forward" not in ALL, reason="needs a checkout: the functions are in its solutions"
)


def losses_of(backend, steps=4):
    model = GPT2(CONFIG, backend)
    model.init_weights()
    tokens = np.random.default_rng(0).integers(0, CONFIG.V, (3, 7))
    told = []
    for _ in range(steps):
        model.zero_grad()
        told.append(model.forward(tokens[:, :-1], tokens[:, 1:], dloss=1.0))
        model.backward()
        model.update(1e-2)
    return told


def test_what_the_lessons_have_written_plugs_in():
    backend = learner_backend(ALL)
    assert backend.yours == list(ADAPTERS) and not backend.differing
    assert "12 of 12 functions are yours." in repr(backend)
    assert scoreboard(backend).okay


@pytest.mark.parametrize("name", ADAPTERS)
def test_one_function_alone_trains_like_the_reference(name):
    backend = learner_backend({name: ALL[name]})
    assert backend.yours == [name]
    assert losses_of(backend) == pytest.approx(losses_of("numpy"), abs=1e-5)


def quarter_gradients(backend):
    """Of one of four micro-batches."""
    model = GPT2(CONFIG, backend, "fp64")
    model.init_weights()
    tokens = np.arange(12).reshape(2, 6)
    model.forward(tokens, tokens, dloss=0.25)
    model.backward()
    return model.grads_flat


CLASSIFIERS = [
    of_the_mean,
    of_each_token,
    in_place,
    lambda *a: in_place(*a),  # and what passes its arguments on
    lambda *a, f=of_the_mean, **k: f(*a, **k),
    lambda losses, logits, targets, dloss, V, f=in_place: f(losses, logits, targets, dloss, V),
    lambda logits, targets, V, f=of_the_mean: f(logits, targets, V),
]


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_a_classifier_may_have_any_of_three_forms(classifier):
    backend = learner_backend({"fused_classifier": classifier})
    assert not backend.differing
    np.testing.assert_allclose(quarter_gradients(backend), quarter_gradients("numpy"), atol=1e-12)


def test_validation_leaves_the_logits():
    model = GPT2(CONFIG, learner_backend({"fused_classifier": of_the_mean}))
    model.init_weights()
    tokens = np.arange(12).reshape(2, 6)
    before = model.logits(tokens).copy()
    model.loss(tokens, tokens)
    np.testing.assert_array_equal(model._acts["logits"], before)


def test_stubs_and_strangers_are_left_to_the_reference():
    def gelu_forward(x):
        raise NotImplementedError

    backend = learner_backend({"gelu_forward": gelu_forward, "np": np, "progress": 3})
    assert backend.yours == [] and backend.stubs == ["gelu_forward"]
    assert "gelu_forward         the reference's (a stub here)" in repr(backend)
    assert losses_of(backend) == losses_of("numpy")


def test_a_wrong_function_is_used_and_told():
    backend = learner_backend(ALL | {"gelu_forward": lambda x: np.maximum(x, 0)})
    assert backend.differing == ["gelu_forward"]
    assert "gelu_forward         yours, but it differs from the reference" in repr(backend)
    assert not scoreboard(backend).okay


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("matmul_forward", lambda x, w, b: x.reshape(-1, x.shape[2]) @ w.T, r"out of your matmul_forward is of shape"),
        ("layernorm_forward", lambda x, w, b: x, "returned one value instead of 3: out, mean, rstd"),
        ("gelu_forward", lambda x: None, "out of your gelu_forward is None"),
        ("gelu_forward", lambda: 1, "your gelu_forward stopped on a small input with TypeError"),
        ("gelu_backward", lambda dout, x: np.multiply(dout, x, out=dout), "gelu_backward wrote to one of its inputs"),
        ("gelu_forward", 3, "gelu_forward must be a function, not int"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(name, function, words):
    with pytest.raises(UserError, match=words) as error:
        learner_backend({name: function})
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_a_shape_that_is_wrong_later_is_told_too():
    def gelu_forward(x):
        return x if x.shape[0] == 2 else x[0]

    with pytest.raises(UserError, match=r"out of your gelu_forward is of shape \(6, 32\), but should be"):
        losses_of(learner_backend({"gelu_forward": gelu_forward}))


def test_code_that_takes_no_read_only_arrays_gets_copies():
    def added(x1, x2):
        for x in (x1, x2):
            (ctypes.c_float * x.size).from_buffer(x)  # as C does
        return x1 + x2

    backend = learner_backend({"residual_forward": added})
    assert backend.yours == ["residual_forward"] and not backend.differing
