"""`llmc.parity.nearness`: gradients of one model in 16 bits, ours and PyTorch's."""

import sys

import numpy as np
import pytest

from llmc.errors import UserError
from llmc.parity import nearness
from llmc.parity.scoreboard import fixture


def test_distances_are_those_of_sixteen_bits(capsys):
    pytest.importorskip("torch")
    assert nearness.main("--data pydocs --backend cpu --preset tiny --steps 2 -B 1 -T 16".split()) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()[1:17]]
    assert len({name for name, *_ in rows}) == 16
    assert all(1e-4 < float(distance) < 0.1 for _, *distances in rows for distance in distances)
    assert "of 16 nearer than PyTorch's autocast" in out and "attention cudnn:" in err


def test_pytorchs_gradients_without_autocast_are_ours():
    pytest.importorskip("torch")
    from llmc.bench.torch_step import torch_gradients

    problem = fixture("odd")
    theirs = torch_gradients(problem.model("cpu"), problem.x, problem.y)
    assert theirs.keys() == problem.state.grads.keys()
    for name, grad in problem.state.grads.items():
        assert np.linalg.norm(theirs[name] - grad[: len(theirs[name])]) < 1e-5 * np.linalg.norm(grad), name


def test_without_pytorch_it_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import fails
    with pytest.raises(UserError, match="this comparison needs PyTorch; install it"):
        nearness.main("--data pydocs --backend cpu --preset tiny --steps 1 -B 1 -T 8".split())


def test_a_distance_is_relative():
    grads = dict(a=np.array([3.0, 4.0]), b=np.array([2.0]))
    assert nearness._apart(dict(a=np.array([3.0, 4.5]), b=np.array([2.0])), grads) == {"a": 0.1, "b": 0.0}
