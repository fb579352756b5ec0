"""The "cuda" backend against the "numpy" backend in float64, on the GPU if there is one, on the emulator if not.

Both get the same float32 numbers. What may differ is rounding: 2^-24 = 6e-8 for each operation, and sums of up to a
thousand terms, so agreement to 1e-5 of the largest element is what float32 allows and what a mistake would not pass.
"""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import MATMUL, Backend, get_backend, reference
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.kernels import classifier, matmul
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.sampling import generate

TOLERANCE = 1e-5
SMALL = GPT2Config(maxT=40, V=300, L=2, NH=2, C=32)
cuda_backend = get_backend("cuda")
on_gpu = pytest.mark.skipif(cuda.device() != "gpu", reason="needs a GPU")


def draw(*shape, seed=0, centre=0.0):
    return (np.random.RandomState(seed).standard_normal(shape) + centre).astype(np.float32)


def tokens(*shape, V, seed=0):
    return np.random.RandomState(seed).randint(0, V, shape).astype(np.int32)


def call(function, *arguments, **numbers):
    """Call a function of the cuda backend or of llmc/kernels on copies of the arrays. Returns all arguments."""
    there = [cuda.asarray(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
    function(*there, **numbers)
    return [cuda.asnumpy(a) if hasattr(a, "shape") else a for a in there]


def doubles(array):
    """A float64 copy of a float32 array; anything else as it is."""
    return array.astype(np.float64) if isinstance(array, np.ndarray) and array.dtype == np.float32 else array


def agree(function, *arguments, name=None, written=None, tolerance=TOLERANCE, **numbers):
    """The same call on both backends: every float array must agree to `tolerance` of its largest element."""
    expected = [doubles(a) for a in arguments]
    getattr(Backend(reference), name or function.__name__)(*expected, **numbers)
    for i, (got, wanted) in enumerate(zip(call(function, *arguments, **numbers), expected)):
        if isinstance(got, np.ndarray) and got.dtype == np.float32 and (written is None or i in written):
            assert np.isfinite(got).all(), f"argument {i}"
            worst = np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)
            assert worst <= tolerance, f"argument {i}: {worst}"


@pytest.fixture
def own_products():
    """Matmuls by our kernels."""
    cuda_backend.choose("own")
    yield
    cuda_backend.choose()


def nans(*shape):
    """An array that must be written and may not be read."""
    return np.full(shape, np.nan, np.float32)


# ---------------------------------------------------------------------------------------------------- layers

SIZES = [(1, 1, 1), (2, 3, 7), (3, 5, 127), (2, 9, 128), (1, 33, 260)]


@pytest.mark.parametrize("B, T, C", SIZES)
def test_encoder(B, T, C):
    ids = tokens(B, T, V=5)
    agree(cuda_backend.encoder_forward, nans(B, T, C), ids, draw(5, C), draw(T + 2, C, seed=1))
    agree(cuda_backend.encoder_backward, draw(5, C, seed=2), draw(T + 2, C, seed=3), draw(B, T, C, seed=4), ids)


def test_encoder_backward_of_one_token_in_all_places():
    ids = np.full((3, 200), 2, np.int32)
    agree(cuda_backend.encoder_backward, draw(4, 300), draw(200, 300), draw(3, 200, 300, seed=1), ids)


@pytest.mark.parametrize("B, T, C", SIZES[1:])
def test_layernorm(B, T, C):
    x, w, b, dout = draw(B, T, C, centre=2.0), draw(C, seed=1), draw(C, seed=2), draw(B, T, C, seed=3)
    mean, rstd = nans(B, T), nans(B, T)
    agree(cuda_backend.layernorm_forward, nans(B, T, C), mean, rstd, x, w, b)
    agree(cuda_backend.residual_layernorm_forward, nans(B, T, C), nans(B, T, C), mean, rstd, x, dout, w, b)
    reference.layernorm_forward(nans(B, T, C), mean, rstd, x, w, b)
    agree(cuda_backend.layernorm_backward, dout.copy(), w.copy(), b.copy(), dout, x, w, mean, rstd)


@pytest.mark.parametrize("n", [1, 31, 257, 4096, 10_001])
def test_pointwise(n):
    x, dout = 3 * draw(n), draw(n, seed=1)
    agree(cuda_backend.gelu_forward, nans(n), x)
    agree(cuda_backend.gelu_backward, nans(n), dout, x)
    agree(cuda_backend.residual_forward, nans(n), x, dout)
    agree(cuda_backend.scale, x, 0.3)
    grads, m, v = draw(n, seed=2), draw(n, seed=3), np.square(draw(n, seed=4))
    numbers = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=3)
    for clear in (False, True):
        agree(cuda_backend.adamw_update, x, grads, m, v, **numbers, clear=clear)
    assert cuda_backend.global_norm(cuda.asarray(x)) == pytest.approx(np.linalg.norm(doubles(x)), rel=1e-6)


def test_pointwise_on_slices_that_are_not_aligned():
    x, dout = cuda.asarray(3 * draw(1001)), cuda.asarray(draw(1001, seed=1))
    dx = cuda.asarray(nans(1001))
    cuda_backend.gelu_backward(dx[1:], dout[1:], x[1:])
    expected = np.empty(1000)
    reference.gelu_backward(expected, doubles(cuda.asnumpy(dout)[1:]), doubles(cuda.asnumpy(x)[1:]))
    assert np.abs(cuda.asnumpy(dx)[1:] - expected).max() < TOLERANCE
    assert np.isnan(cuda.asnumpy(dx)[0])


def test_gelu_backward_in_place_and_far_out():
    x = np.array([-1e4, -30, 0, 30, 1e4], np.float32)
    dx = cuda.asarray(np.ones_like(x))
    cuda_backend.gelu_backward(dx, dx, cuda.asarray(x))
    np.testing.assert_array_equal(cuda.asnumpy(dx), [0, 0, 0.5, 1, 1])


@pytest.mark.parametrize("version", [None, 1, 9])
@pytest.mark.parametrize("N, C_in, C_out", [(1, 1, 1), (5, 7, 3), (33, 48, 20), (129, 127, 130), (64, 32, 128)])
def test_matmul(N, C_in, C_out, version):
    x, w, b, dout = draw(1, N, C_in), draw(C_out, C_in, seed=1), draw(C_out, seed=2), draw(1, N, C_out, seed=3)

    def of(name):
        return lambda *arguments: getattr(matmul, name)(*arguments, version=version)

    out, dx, dw = nans(1, N, C_out), nans(1, N, C_in), draw(C_out, C_in, seed=4)
    agree(of("matmul_forward"), out, x, w, None, name="matmul_forward")
    agree(of("matmul_gelu_forward"), out, out, x, w, b, name="matmul_gelu_forward")
    agree(of("matmul_backward"), dx, dw, b, dout, x, w, name="matmul_backward")
    agree(of("matmul_backward"), None, dw, None, dout, x, w, name="matmul_backward")


def test_what_multiplies_can_be_chosen(own_products):
    agree(cuda_backend.matmul_forward, nans(1, 9, 5), draw(1, 9, 11), draw(5, 11, seed=1), draw(5, seed=2))
    with pytest.raises(UserError, match="matmul is fastest or cublas or own, not 'hand'"):
        cuda_backend.choose("hand")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("V, Vp", [(1, 4), (61, 128), (5, 7), (130, 133), (1000, 1024)])
def test_classifier(V, Vp, version):
    B, T = 2, 3
    logits, targets = 3 * draw(B, T, Vp), tokens(B, T, V=V)
    logits[..., V:] = 50.0  # would ruin the softmax if the padding took part
    targets[0, 0] = V - 1

    def run(*arguments):
        classifier.fused_classifier(*arguments, version=version)

    agree(run, nans(B, T), logits, targets, None, V, name="fused_classifier")
    agree(run, nans(B, T), logits, targets, 0.25, V, name="fused_classifier")


# ----------------------------------------------------------------------------------------------------- model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_model_agrees_with_pytorch_in_float64(case):
    expected = np.load(case.fixture)
    model = GPT2(case.config, "cuda")
    for name, values in case.weights().items():
        model.params[name][...] = cuda.asarray(values.astype(np.float32))
    x, y = case.batch()
    logits = cuda.asnumpy(model.logits(x))[..., : case.config.V]
    assert np.abs(logits - expected["logits"]).max() <= TOLERANCE * np.abs(expected["logits"]).max()
    assert model.forward(x, y, dloss=1.0) == pytest.approx(float(expected["loss"]), rel=TOLERANCE)
    model.backward()
    for name, gradient in model.grads.items():
        wanted = expected["d" + name]
        assert np.abs(cuda.asnumpy(gradient)[: len(wanted)] - wanted).max() <= TOLERANCE * np.abs(wanted).max(), name


def small_model(backend="cuda"):
    model = GPT2(SMALL, backend)
    model.init_weights()
    return model


X, Y = tokens(2, 40, V=300), tokens(2, 40, V=300, seed=1)


def test_ten_losses_are_the_numpy_backends():
    losses = [[training_step(model, X, Y) for _ in range(10)] for model in (small_model("numpy"), small_model())]
    assert losses[1] == pytest.approx(losses[0], rel=TOLERANCE)


def test_two_runs_give_the_same_bits():
    models = small_model(), small_model()
    for model in models:
        for _ in range(2):
            training_step(model, X, Y)
    np.testing.assert_array_equal(*(cuda.asnumpy(model.params_flat) for model in models))


def test_gradients_accumulate_and_are_clipped():
    model, whole = small_model(), small_model()
    for rows in (slice(0, 1), slice(1, 2)):
        model.forward(X[rows], Y[rows], dloss=0.5)
        model.backward()
    whole.forward(X, Y, dloss=1.0)
    whole.backward()
    difference = np.abs(cuda.asnumpy(model.grads_flat) - cuda.asnumpy(whole.grads_flat)).max()
    assert difference <= TOLERANCE * np.abs(cuda.asnumpy(whole.grads_flat)).max()
    norm = model.clip_gradients(0.1)
    assert norm > 0.1 and model.global_norm() == pytest.approx(0.1, rel=1e-4)


def test_the_loss_can_be_read_late():
    model = small_model()
    loss = model.forward(X, Y, dloss=1.0)
    assert model.launch(X, Y, dloss=1.0) is None
    model.backward()
    assert model.mean_loss() == loss


@pytest.mark.parametrize("cache", [True, False])
def test_sampling_gives_the_numpy_backends_ids(cache):
    ids = [
        list(generate(small_model(name), [7, 8], 12, temperature=0.7, window=10, cache=cache))
        for name in ("numpy", "cuda")
    ]
    assert ids[0] == ids[1]


def test_float64_is_refused_in_one_sentence():
    with pytest.raises(UserError, match="does not compute in float64"):
        GPT2(SMALL, "cuda", "fp64")


@pytest.mark.skipif(cuda.device() == "gpu", reason="what the emulator has to say")
def test_no_kernel_of_a_step_gets_a_diagnosis(monkeypatch):
    monkeypatch.setenv("LLMC_CHECK", "1")
    case = CASES[0]
    model = GPT2(case.config, "cuda")
    model.init_weights()
    for way in MATMUL:
        model.backend.choose(way)
        training_step(model, *case.batch())
        model.clip_gradients(0.1)


# ------------------------------------------------------------------------------------------------ on a GPU only


@on_gpu
def test_a_step_allocates_nothing():
    model = small_model()
    training_step(model, X, Y)
    pool = cuda.xp.get_default_memory_pool()
    before = pool.total_bytes()
    for _ in range(3):
        training_step(model, X, Y)
        model.clip_gradients(1.0)
    assert pool.total_bytes() == before
