"""Every layer's backward pass against central differences in float64, and forward and backward against PyTorch."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from llmc.backends import BACKENDS, Backend, get_backend, reference
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.parity.cases import CASES
from llmc.precision import find_precision
from llmc.tests.engine.finite_differences import assert_close, numeric_gradient

B, T, C, NH = 3, 5, 12, 3
# what a module must have to train; all else has a default
LAYERS = "encoder layernorm matmul gelu attention".split()
LAYERS = [f"{layer}_{way}" for layer in LAYERS for way in ("forward", "backward")]
LAYERS += ["residual_forward", "fused_classifier", "attention_stats_shape", "global_norm", "scale", "adamw_update"]
EXACT = 1e-7  # what central differences in float64 can see


def draw(*shape, seed=0, centre=0.0):
    return np.random.RandomState(seed).standard_normal(shape) + centre


def held(*shape, seed=9):
    """A gradient buffer that already holds something, and a copy of it."""
    values = draw(*shape, seed=seed)
    return values, values.copy()


def weighted(forward, dout):
    """A scalar whose gradient with respect to the output of forward() is dout."""
    return lambda: float((forward() * dout).sum())


# ----------------------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("name, precision", [*((name, None) for name in BACKENDS), ("cuda", "tf32")])
def test_every_backend_has_the_functions_of_the_contract(name, precision):
    found = get_backend(name, precision and find_precision(precision))
    for function, member in inspect.getmembers(Backend, inspect.isfunction):
        if not function.startswith("_") and not function.endswith("_numpy"):
            wanted = list(inspect.signature(member).parameters)[1:]
            takes = list(inspect.signature(getattr(found, function)).parameters)
            assert takes[: len(wanted)] == wanted and set(takes[len(wanted) :]) <= {"version", "precision"}, function


def test_only_a_few_functions_have_no_default():
    layers = SimpleNamespace(**{name: getattr(reference, name) for name in LAYERS})
    model = GPT2(CASES[0].config, layers)
    model.init_weights()
    whole = GPT2(CASES[0].config, "numpy")
    whole.init_weights()
    for each in (model, whole):
        for _ in range(2):
            each.forward(*CASES[0].batch(), dloss=1.0)
            each.backward(accumulate=False)
            each.update(1e-3, max_norm=0.5, weight_decay=0.1)
    np.testing.assert_array_equal(model.params_flat, whole.params_flat)
    with pytest.raises(UserError, match="this backend has no attention_cached"):
        model.backend.attention_cached()


def test_unknown_backend_is_refused_and_an_object_is_taken_as_it_is():
    with pytest.raises(UserError, match="no backend 'tpu'.*numpy"):
        get_backend("tpu")
    mine = get_backend(SimpleNamespace(scale="mine"))
    assert get_backend(mine) is mine and mine.scale == "mine"


def test_only_functions_of_layers_are_taken_and_constants_of_a_whole_module():
    module = SimpleNamespace(scale="mine", FEW=4)
    assert (Backend(module).scale, Backend(module).FEW) == ("mine", 4)
    assert (Backend(layers=[module]).scale, Backend(layers=[module]).FEW) == ("mine", 0)


# ------------------------------------------------------------------------- against central differences


def test_encoder(backend):
    tokens = np.array([[0, 4, 4, 2, 6], [4, 0, 1, 2, 3], [6, 6, 6, 6, 6]], np.int32)
    wte, wpe, dout = draw(7, C), draw(8, C, seed=1), draw(B, T, C, seed=2)
    out = np.empty((B, T, C))

    def forward():
        backend.encoder_forward(out, tokens, wte, wpe)
        return out

    assert_close(forward(), wte[tokens] + wpe[:T], 1e-15)
    (dwte, dwte0), (dwpe, dwpe0) = held(7, C), held(8, C)
    backend.encoder_backward(dwte, dwpe, dout, tokens)
    assert_close(dwte - dwte0, numeric_gradient(weighted(forward, dout), wte), EXACT, "dwte")
    assert_close(dwpe - dwpe0, numeric_gradient(weighted(forward, dout), wpe), EXACT, "dwpe")


def test_layernorm_adds_to_all_three_gradients(backend):
    x, w, b, dout = draw(B, T, C, centre=5.0), draw(C, seed=1), draw(C, seed=2), draw(B, T, C, seed=3)
    out, mean, rstd = np.empty((B, T, C)), np.empty((B, T)), np.empty((B, T))

    def forward():
        backend.layernorm_forward(out, mean, rstd, x, w, b)
        return out

    forward()
    assert_close(mean, x.mean(-1), 1e-14)
    assert_close(rstd, 1 / np.sqrt(x.var(-1) + 1e-5), 1e-13)
    (dx, dx0), (dw, dw0), (db, db0) = held(B, T, C), held(C), held(C)
    backend.layernorm_backward(dx, dw, db, dout, x, w, mean, rstd)
    assert_close(dx - dx0, numeric_gradient(weighted(forward, dout), x), 1e-6, "dx")
    assert_close(dw - dw0, numeric_gradient(weighted(forward, dout), w), EXACT, "dw")
    assert_close(db - db0, numeric_gradient(weighted(forward, dout), b), EXACT, "db")


def test_layernorm_keeps_its_precision_far_from_zero(backend):
    x = (draw(B, T, C) + 1000.0).astype(np.float32)
    w, b = np.ones(C, np.float32), np.zeros(C, np.float32)
    out, mean, rstd = np.empty_like(x), np.empty((B, T), np.float32), np.empty((B, T), np.float32)
    backend.layernorm_forward(out, mean, rstd, x, w, b)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    assert_close(out, exact, 2e-4)


def test_residual_and_its_fusion_with_layernorm(backend):
    x1, x2, w, b = draw(B, T, C), draw(B, T, C, seed=1), draw(C, seed=2), draw(C, seed=3)
    residual, out, mean, rstd = np.empty((B, T, C)), np.empty((B, T, C)), np.empty((B, T)), np.empty((B, T))
    backend.residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b)
    total, norm, mean2, rstd2 = (np.empty_like(a) for a in (residual, out, mean, rstd))
    backend.residual_forward(total, x1, x2)
    backend.layernorm_forward(norm, mean2, rstd2, total, w, b)
    assert_close(total, x1 + x2, 1e-15)
    for got, expected in ((residual, total), (out, norm), (mean, mean2), (rstd, rstd2)):
        assert_close(got, expected, 1e-13)


@pytest.mark.parametrize("bias", [True, False])
def test_matmul(backend, bias):
    x, w, dout = draw(B, T, C), draw(7, C, seed=1), draw(B, T, 7, seed=2)
    b = draw(7, seed=3) if bias else None
    out = np.empty((B, T, 7))

    def forward():
        backend.matmul_forward(out, x, w, b)
        return out

    assert_close(forward(), x @ w.T + (b if bias else 0), 1e-14)
    dx = np.full((B, T, C), np.nan)  # must be written, not added to
    (dw, dw0), (db, db0) = held(7, C), held(7)
    backend.matmul_backward(dx, dw, db if bias else None, dout, x, w)
    assert_close(dx, numeric_gradient(weighted(forward, dout), x), EXACT, "dx")
    assert_close(dw - dw0, numeric_gradient(weighted(forward, dout), w), EXACT, "dw")
    if bias:
        assert_close(db - db0, numeric_gradient(weighted(forward, dout), b), EXACT, "db")
    backend.matmul_backward(None, dw, None, dout, x, w)  # dx and db may both be None


def test_gelu(backend):
    x, dout = draw(B, T, C) * 3, draw(B, T, C, seed=1)
    out = np.empty_like(x)

    def forward():
        backend.gelu_forward(out, x)
        return out

    assert_close(forward(), 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), 1e-14)
    dx = np.full_like(x, np.nan)
    backend.gelu_backward(dx, dout, x)
    assert_close(dx, numeric_gradient(weighted(forward, dout), x), EXACT, "dx")
    in_place = dout.copy()
    backend.gelu_backward(in_place, in_place, x)
    assert_close(in_place, dx, 1e-15, "dx in place of dout")


def test_gelu_survives_huge_inputs(backend):
    x = np.array([[[-1e4, -30.0, 0.0, 30.0, 1e4]]], np.float32)
    out, dx = np.empty_like(x), np.empty_like(x)
    backend.gelu_forward(out, x)
    backend.gelu_backward(dx, np.ones_like(x), x)
    np.testing.assert_array_equal(out, [[[0, 0, 0, 30, 1e4]]])
    np.testing.assert_array_equal(dx, [[[0, 0, 0.5, 1, 1]]])


def attention(backend, qkv):
    out, stats = np.empty((B, T, C)), np.empty(backend.attention_stats_shape(B, T, NH))

    def forward():
        backend.attention_forward(out, stats, qkv, NH)
        return out

    return out, stats, forward


def test_attention(backend):
    qkv, dout = draw(B, T, 3 * C), draw(B, T, C, seed=1)
    out, stats, forward = attention(backend, qkv)
    forward()
    dqkv = np.full((B, T, 3 * C), np.nan)
    backend.attention_backward(dqkv, dout, out, stats, qkv, NH)
    assert_close(dqkv, numeric_gradient(weighted(forward, dout), qkv), 1e-6, "dqkv")


def test_attention_does_not_see_the_future(backend):
    qkv = draw(B, T, 3 * C)
    before = attention(backend, qkv)[2]().copy()
    qkv[:, 3:] += 100.0
    after = attention(backend, qkv)[2]()
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert np.abs(after[:, 3:] - before[:, 3:]).max() > 1


def test_attention_survives_huge_scores(backend):
    _, _, forward = attention(backend, draw(B, T, 3 * C) * 1e3)
    assert np.isfinite(forward()).all()


def test_fused_classifier(backend):
    V, Vp, dloss = 7, 10, 0.25
    z, targets = draw(B, T, Vp) * 3, np.random.RandomState(1).randint(0, V, (B, T)).astype(np.int32)
    z[..., V:] = 50.0  # would ruin the softmax if the padding took part
    losses = np.empty((B, T))

    def forward():
        kept = z.copy()
        backend.fused_classifier(losses, kept, targets, None, V)
        np.testing.assert_array_equal(kept, z)  # without dloss the logits are only read
        return losses

    p = np.exp(z[..., :V]) / np.exp(z[..., :V]).sum(-1, keepdims=True)
    assert_close(forward(), -np.log(np.take_along_axis(p, targets[..., None], -1))[..., 0], 1e-12)
    dlogits = z.copy()
    backend.fused_classifier(losses, dlogits, targets, dloss, V)
    numeric = numeric_gradient(lambda: float(dloss * forward().sum()), z)
    assert_close(dlogits, numeric, EXACT, "dlogits")
    assert not dlogits[..., V:].any()


def test_fused_classifier_survives_huge_logits(backend):
    z, targets = np.array([[[1e4, -1e4, 0.0]]], np.float32), np.array([[1]], np.int32)
    losses = np.empty((1, 1), np.float32)
    backend.fused_classifier(losses, z, targets, 1.0, 3)
    assert losses[0, 0] == 2e4
    np.testing.assert_array_equal(z, [[[1, -1, 0]]])


# ------------------------------------------------------------------------------------------- optimizer


def test_global_norm_and_scale(backend):
    grads = draw(200_000).astype(np.float32)
    assert backend.global_norm(grads) == pytest.approx(np.linalg.norm(grads.astype(np.float64)), rel=1e-6)
    expected = grads * np.float32(0.5)
    backend.scale(grads, 0.5)
    np.testing.assert_array_equal(grads, expected)


def test_adamw_follows_pytorch(backend):
    torch = pytest.importorskip("torch")
    n = 70_001  # more than one chunk, and an odd one
    start = draw(n).astype(np.float32)
    p, m, v = start.copy(), np.zeros(n, np.float32), np.zeros(n, np.float32)
    q = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.AdamW([q], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for t in range(1, 6):
        g = draw(n, seed=t).astype(np.float32)
        q.grad = torch.tensor(g)
        optimizer.step()
        backend.adamw_update(p, g, m, v, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, t=t)
    assert_close(p, q.detach().numpy(), 1e-6)


# ------------------------------------------------------------------------------------- against PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def draw32(*shape, seed=0):
    """float32 numbers, for larger arrays than above."""
    return draw(*shape, seed=seed).astype(np.float32)


def with_gradient(torch, *arrays):
    """A leaf tensor for each array."""
    return [torch.tensor(a, requires_grad=True) for a in arrays]


def assert_pairs(*pairs):
    """(ours, PyTorch's) arrays agree to 1e-5 of the largest element."""
    for got, expected in pairs:
        assert_close(got, expected.detach().numpy(), 1e-5)


def test_layernorm_agrees_with_pytorch(backend, torch):
    x, w, b, dout = draw32(2, 33, 48), draw32(48, seed=1), draw32(48, seed=2), draw32(2, 33, 48, seed=3)
    tx, tw, tb = with_gradient(torch, x, w, b)
    expected = torch.nn.functional.layer_norm(tx, (48,), tw, tb)
    expected.backward(torch.tensor(dout))
    out, mean, rstd = np.empty_like(x), np.empty((2, 33), np.float32), np.empty((2, 33), np.float32)
    dx, dw, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
    backend.layernorm_forward(out, mean, rstd, x, w, b)
    backend.layernorm_backward(dx, dw, db, dout, x, w, mean, rstd)
    assert_pairs((out, expected), (dx, tx.grad), (dw, tw.grad), (db, tb.grad))


def test_gelu_agrees_with_pytorch(backend, torch):
    x, dout = draw32(2, 33, 48), draw32(2, 33, 48, seed=1)
    (tx,) = with_gradient(torch, x)
    expected = torch.nn.functional.gelu(tx, approximate="tanh")
    expected.backward(torch.tensor(dout))
    out, dx = np.empty_like(x), np.empty_like(x)
    backend.gelu_forward(out, x)
    backend.gelu_backward(dx, dout, x)
    assert_pairs((out, expected), (dx, tx.grad))


def test_attention_agrees_with_pytorch(backend, torch):
    qkv, dout = draw32(2, 33, 3 * 48), draw32(2, 33, 48, seed=1)
    (tqkv,) = with_gradient(torch, qkv)
    q, k, v = (part.view(2, 33, 4, 12).transpose(1, 2) for part in tqkv.split(48, dim=2))
    attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = attended.transpose(1, 2).reshape(2, 33, 48)
    expected.backward(torch.tensor(dout))
    out, dqkv = np.empty_like(dout), np.empty_like(qkv)
    stats = np.empty(backend.attention_stats_shape(2, 33, 4), np.float32)
    backend.attention_forward(out, stats, qkv, 4)
    backend.attention_backward(dqkv, dout, out, stats, qkv, 4)
    assert_pairs((out, expected), (dqkv, tqkv.grad))


def test_matmul_agrees_with_pytorch(backend, torch):
    x, w, b, dout = draw32(2, 33, 48), draw32(20, 48, seed=1), draw32(20, seed=2), draw32(2, 33, 20, seed=3)
    tx, tw, tb = with_gradient(torch, x, w, b)
    expected = torch.nn.functional.linear(tx, tw, tb)
    expected.backward(torch.tensor(dout))
    out, dx, dw, db = np.empty_like(dout), np.empty_like(x), np.zeros_like(w), np.zeros_like(b)
    backend.matmul_forward(out, x, w, b)
    backend.matmul_backward(dx, dw, db, dout, x, w)
    assert_pairs((out, expected), (dx, tx.grad), (dw, tw.grad), (db, tb.grad))


def test_encoder_agrees_with_pytorch(backend, torch):
    tokens = np.random.RandomState(0).randint(0, 20, (2, 33)).astype(np.int32)
    wte, wpe, dout = draw32(20, 48), draw32(33, 48, seed=1), draw32(2, 33, 48, seed=2)
    twte, twpe = with_gradient(torch, wte, wpe)
    expected = torch.nn.functional.embedding(torch.tensor(tokens, dtype=torch.int64), twte) + twpe
    expected.backward(torch.tensor(dout))
    out, dwte, dwpe = np.empty_like(dout), np.zeros_like(wte), np.zeros_like(wpe)
    backend.encoder_forward(out, tokens, wte, wpe)
    backend.encoder_backward(dwte, dwpe, dout, tokens)
    assert_pairs((out, expected), (dwte, twte.grad), (dwpe, twpe.grad))


def test_classifier_agrees_with_pytorch(backend, torch):
    logits, targets = draw32(2, 33, 20), np.random.RandomState(0).randint(0, 20, (2, 33)).astype(np.int32)
    (tlogits,) = with_gradient(torch, logits)
    expected = torch.nn.functional.cross_entropy(tlogits.view(-1, 20), torch.tensor(targets).long().view(-1))
    expected.backward()
    losses = np.empty((2, 33), np.float32)
    backend.fused_classifier(losses, logits, targets, 1.0 / 66, 20)
    assert_pairs((losses.mean(), expected), (logits, tlogits.grad))
