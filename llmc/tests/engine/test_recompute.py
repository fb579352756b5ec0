"""What is computed again instead of kept: the same bits in every precision, and the memory that this saves."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import BACKENDS, get_backend
from llmc.bench.step import training_step
from llmc.blocks import RECOMPUTE
from llmc.config import GPT2Config, preset
from llmc.errors import UserError
from llmc.model import GPT2, training_buffers
from llmc.parity.cases import CASES, Case

HOST = [(backend, precision) for backend in ("numpy", "cpu") for precision in ("fp32", "bf16", "fp16", "fp64")]
WAYS = [*HOST, ("cuda", "fp32"), ("cuda", "tf32")]
WIDE = Case("wide", GPT2Config(maxT=48, V=200, L=3, NH=3, C=72), B=3, T=37)  # vectors of 8 and 16, and a rest


def build(case, backend, precision, recompute):
    model = GPT2(case.config, backend, precision, recompute=recompute)
    for name, values in case.weights().items():
        model.params[name][...] = model.backend.from_numpy(values.astype(model.precision.weights))
    return model


def trained(model, case, levels):
    """(losses, bytes of weights and moments) after a step at each of these levels."""
    losses = []
    for level in levels:
        model.recompute = level
        losses.append(training_step(model, *case.batch()))
    return losses, [cuda.asnumpy(buffer.flat).tobytes() for buffer in (model.params, model.m, model.v)]


@pytest.mark.parametrize("backend, precision", WAYS)
@pytest.mark.parametrize("case", [*CASES, WIDE], ids=lambda case: case.name)
def test_the_bits_do_not_depend_on_it(case, backend, precision):
    """Also when it changes from step to step, as in a resumed run."""
    found = [
        trained(build(case, backend, precision, 0), case, levels)
        for levels in ((0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3), (2, 0, 1))
    ]
    assert all(each == found[0] for each in found[1:])
    assert np.isfinite(found[0][0]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("C", [1, 7, 16, 36, 127, 768])
def test_layernorm_again_is_what_either_layernorm_wrote(backend, C):
    be, draw = get_backend(backend), np.random.default_rng(C)
    x1, x2 = (be.from_numpy(draw.normal(3, 2, (2, 5, C)).astype(np.float32)) for _ in range(2))
    w, b = (be.from_numpy(draw.standard_normal(C).astype(np.float32)) for _ in range(2))
    new = lambda *shape: be.from_numpy(np.full(shape, np.nan, np.float32))  # noqa: E731
    residual, out, again, mean, rstd = new(2, 5, C), new(2, 5, C), new(2, 5, C), new(2, 5), new(2, 5)
    be.layernorm_forward(out, mean, rstd, x1, w, b)
    be.layernorm_again(again, x1, w, b, mean, rstd)
    np.testing.assert_array_equal(be.to_numpy(again), be.to_numpy(out))
    be.residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b)
    be.layernorm_again(again, residual, w, b, mean, rstd)
    np.testing.assert_array_equal(be.to_numpy(again), be.to_numpy(out))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gelu_again_is_what_the_matmul_wrote(backend):
    be, draw = get_backend(backend), np.random.default_rng(0)
    for N, C_in, C_out in ((1, 3, 5), (70, 33, 132), (300, 96, 389)):
        sizes = ((1, N, C_in), (C_out, C_in), (C_out,))
        x, w, b = (be.from_numpy(draw.standard_normal(size).astype(np.float32)) for size in sizes)
        out, gelu, again = (be.from_numpy(np.full((1, N, C_out), np.nan, np.float32)) for _ in range(3))
        be.matmul_gelu_forward(gelu, out, x, w, b)
        be.gelu_again(again, out)
        np.testing.assert_array_equal(be.to_numpy(again), be.to_numpy(gelu))


def test_one_layers_arrays_serve_all_layers():
    B, T = 4, 1024
    config = preset("d12")
    L, C = config.L, config.C
    acts = [
        training_buffers(config, "numpy", B, T, recompute=level)[f"activations (B={B}, T={T})"] for level in RECOMPUTE
    ]
    shapes = [{tensor.name: tensor.shape for tensor in each.table} for each in acts]
    assert shapes[0]["fch_gelu"] == (L, B, T, 4 * C) and shapes[1]["fch_gelu"] == (B, T, 4 * C)
    assert shapes[1]["ln1"] == (L, B, T, C) and shapes[2]["ln1"] == shapes[2]["ln2"] == (B, T, C)
    assert shapes[3]["ln1"] == shapes[3]["ln2"] == (B, T, C) and shapes[3]["fch_gelu"] == (L, B, T, 4 * C)
    assert shapes[0].keys() == shapes[1].keys() == shapes[2].keys() == shapes[3].keys()
    saved = [(acts[0].nbytes - each.nbytes) / (4 * B * T * C * (L - 1)) for each in acts]
    assert saved == [0, 4, 6, 2]  # of C numbers a token and layer


def test_a_backend_has_a_choice_of_its_own_and_the_user_another():
    config = CASES[0].config
    assert [GPT2(config, backend).recompute for backend in ("numpy", "cpu", "cuda")] == [0, 0, 1]
    assert GPT2(config, "cuda", "bf16").recompute == 0
    assert GPT2(config, "cuda", recompute=0).recompute == 0 and GPT2(config, "numpy", recompute=2).recompute == 2
    for wrong in (4, -1, "1"):
        with pytest.raises(UserError, match=f"recompute must be 0, 1, 2 or 3, not {wrong!r}"):
            GPT2(config, "numpy", recompute=wrong)
