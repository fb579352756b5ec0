"""An update that is cut into parts, one for each process, makes the same weights as one update of everything."""

import numpy as np
import pytest

from llmc import kernels
from llmc.backends import BACKENDS
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.optimizer import own_pieces, pieces

CONFIG = GPT2Config(maxT=8, V=60, L=2, NH=2, C=32)
HOW = dict(lr=1e-2, weight_decay=0.1, zero_grad=True)


def trained(backend, precision, master_weights, part, steps=3):
    """A model of which `part` was updated, always with the same random gradients."""
    random = np.random.default_rng(0)
    model = GPT2(CONFIG, backend, precision, master_weights)
    model.keep_part(*part)
    model.init_weights(1)
    model.allocate(1, 8)
    for _ in range(steps):
        gradients = random.standard_normal(model.grads_flat.size).astype(np.float32)  # (n,)
        model.grads_flat[...] = model.backend.from_numpy(gradients.astype(model.grads_flat.dtype))
        if part[1] > 1:
            ours = own_pieces(model.grads, model.table, *part)
            for own, whole in zip(pieces(model.own_grads, model.table, part[1]), ours):
                own[...] = whole
        norm = np.linalg.norm(model.backend.to_numpy(model.grads_flat).astype(np.float64))
        model.update(**HOW, max_norm=1.0, norm=float(norm))
    return model


def parts_of(model, name, which, parts):
    buffer = getattr(model, name)
    cut = own_pieces(buffer, model.table, which, parts) if model.part == (0, 1) else pieces(buffer, model.table, parts)
    return np.concatenate([np.array(model.backend.to_numpy(piece), np.float32) for piece in cut])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision, master", [("fp32", True), ("bf16", True), ("bf16", False)])
def test_parts_of_an_update_are_those_of_the_whole(backend, precision, master):
    whole = trained(backend, precision, master, (0, 1))
    for which in range(2):
        part = trained(backend, precision, master, (which, 2))
        for name in ("m", "v") + ("master",) * (part.master is not None):
            assert (parts_of(part, name, which, 2) == parts_of(whole, name, which, 2)).all(), name
        updated = own_pieces(part.params, part.table, which, 2)
        for mine, theirs in zip(updated, own_pieces(whole.params, whole.table, which, 2)):
            assert (part.backend.to_numpy(mine) == whole.backend.to_numpy(theirs)).all()


@pytest.mark.parametrize("part", [(0, 1), (1, 2)])
def test_a_part_is_updated_in_as_many_launches_as_the_whole(part):
    launched = []
    with kernels.watched(lambda name, launch: launched.append(name) or launch()):
        trained("cuda", "bf16", True, part, steps=1)
    assert launched.count("adamw_update_v1") == len(CONFIG.parameter_table())


def test_the_plan_of_memory_counts_parts():
    model = GPT2(CONFIG, "numpy", "bf16")
    model.keep_part(0, 4)
    model.allocate(1, 8)
    n = CONFIG.num_parameters_padded
    buffers = {name: getattr(model, name).nbytes for name in ("params", "grads", "own_grads", "m", "v", "master")}
    assert buffers == dict(params=2 * n, grads=2 * n, own_grads=n // 2, m=n, v=n, master=n)
    assert "our part of the gradients" in model.memory_plan(1, 8)
