"""Lesson 07's solutions, which are its references: against llmc's model, its counts, and central differences."""

import numpy as np
import pytest

from llmc.config import PRESETS, GPT2Config
from llmc.course import check, gradient_check
from llmc.course.lessons.gpt2_model import exercises
from llmc.course.mutation.program import solution_of
from llmc.model import GPT2


def test_our_block_is_that_of_the_model():
    model = GPT2(GPT2Config(maxT=7, V=11, L=1, NH=3, C=12), precision="fp64")
    tokens = np.random.default_rng(5).integers(0, 11, (2, 7), dtype=np.int32)  # (B, T)
    for array in model.params.values():
        array[...] = np.random.default_rng(array.size).normal(0.3, 0.4, array.shape)
    model.loss(tokens, tokens)
    p = {name: model.params[name][0] for name in next(exercises.blocks(check("block_forward")))[1]}
    out, activations = exercises.block_forward(model._acts["encoded"], p, 3)
    acts = {name: model._acts[name][0] for name in activations if name != "probabilities"}
    for name, array in acts.items():
        assert np.allclose(activations[name], array, rtol=1e-9, atol=1e-12), name
    assert np.allclose(out, model._acts["residual3"][0], rtol=1e-9, atol=1e-12)


def test_our_block_backward_is_the_derivative_of_our_block():
    dout, x, p, a, NH = next(exercises.gradients(check("block_backward")))
    dx, g = solution_of("block_backward").function()(dout, x, p, a, NH)
    gradient_check(lambda x: exercises.block_forward(x, p, NH)[0], x, dx, dout, report=False)
    for name in p:
        varied = lambda value, name=name: exercises.block_forward(x, p | {name: value}, NH)[0]  # noqa: E731
        gradient_check(varied, p[name], g[name], dout, report=False, name=name)


def test_our_tied_gradient_is_the_derivative_in_both_places():
    dlogits, lnf, dencoded, tokens = next(exercises.tables(check("tied_gradient")))
    both = lambda wte: np.sum(dlogits * (lnf @ wte.T)) + np.sum(dencoded * wte[tokens])  # noqa: E731
    wte = np.random.default_rng(5).normal(size=(dlogits.shape[-1], lnf.shape[-1]))  # (Vp, C)
    gradient_check(both, wte, solution_of("tied_gradient").function()(dlogits, lnf, dencoded, tokens), report=False)


@pytest.mark.parametrize("name", ["d12", "d24", "d36", "d48"])
def test_our_count_is_the_config_s(name):
    c = PRESETS[name]
    assert solution_of("count_parameters").function()(c.maxT, c.V, c.L, c.C) == c.num_parameters
