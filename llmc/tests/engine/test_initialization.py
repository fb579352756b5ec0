import numpy as np
import pytest

from llmc.config import GPT2Config
from llmc.initialization import CHUNK, initial_weights, normal


@pytest.mark.parametrize("n", [16, 17, 100, 4096, CHUNK - 5, CHUNK, CHUNK + 16, 2 * CHUNK + 33])
def test_normal_is_pytorchs(n):
    torch = pytest.importorskip("torch")
    torch.manual_seed(42)
    first, second = torch.empty(n).normal_(0, 0.02).numpy(), torch.empty(64).normal_(0, 0.02).numpy()
    generator = np.random.RandomState(42)
    np.testing.assert_allclose(normal(generator, n, 0.02), first, atol=2e-8, rtol=0)
    np.testing.assert_allclose(normal(generator, 64, 0.02), second, atol=2e-8, rtol=0)  # the same state afterwards


def test_first_numbers_of_seed_42():
    """The first values of torch.manual_seed(42); torch.empty(16).normal_(0, 0.02). Needs no PyTorch."""
    expected = [0.038538303, 0.029745681, 0.018014343, -0.042110417, 0.013568369, -0.024690896]
    np.testing.assert_allclose(normal(np.random.RandomState(42), 16, 0.02)[:6], expected, atol=2e-8)


def test_whole_model_draws_in_llmcs_order():
    torch = pytest.importorskip("torch")
    config = GPT2Config(maxT=10, V=37, L=3, NH=2, C=12)
    values = dict(initial_weights(config, seed=42))
    torch.manual_seed(42)

    def draw(*shape, std=0.02):
        return torch.empty(*shape).normal_(0, std).numpy()

    residual = 0.02 / (2 * config.L) ** 0.5
    expected = [("wte", draw(37, 12)), ("wpe", draw(10, 12))]
    for l in range(config.L):
        for name, shape, std in (
            ("qkvw", (36, 12), 0.02),
            ("attprojw", (12, 12), residual),
            ("fcw", (48, 12), 0.02),
            ("fcprojw", (12, 48), residual),
        ):
            expected.append(((name, l), draw(*shape, std=std)))
    for key, want in expected:
        got = values[key[0]][key[1]] if isinstance(key, tuple) else values[key][: len(want)]
        np.testing.assert_allclose(got, want, atol=2e-8, rtol=0, err_msg=str(key))
    assert not values["wte"][37:].any()


def test_biases_are_zero_and_layernorms_are_the_identity():
    values = dict(initial_weights(GPT2Config(maxT=4, V=5, L=2, NH=1, C=8)))
    for name, tensor in values.items():
        if name in ("ln1w", "ln2w", "lnfw"):
            assert (tensor == 1).all()
        elif name.endswith("b"):
            assert not tensor.any()


def test_another_seed_gives_another_model():
    config = GPT2Config(maxT=4, V=5, L=1, NH=1, C=8)
    one, two = (dict(initial_weights(config, seed))["wte"] for seed in (1, 2))
    assert (one[:5] != two[:5]).all()
