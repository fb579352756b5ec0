"""bfloat16 in the "cpu" backend: every function against mixed.py, the same update bit for bit, matrix products."""

import gc
import os
import platform
import subprocess
import sys
import tracemalloc
from importlib import metadata

import numpy as np
import pytest
from numba import njit

from llmc.backends import get_backend, mixed, reference
from llmc.backends.contract import WRITES
from llmc.backends.mixed import Mixed
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.kv_cache import KeyValueCache
from llmc.model import GPT2
from llmc.precision import bfloat16, find_precision
from llmc.tests.engine.first_run import first_and_later

cpu = get_backend("cpu", find_precision("bf16"))
from llmc.backends.cpu import attention_bfloat16, matmul_bfloat16, onednn  # noqa: E402, they need a prepared backend
from llmc.backends.cpu.bfloat16 import highest, rounded  # noqa: E402

SMALL = GPT2Config(maxT=80, V=300, L=2, NH=2, C=32)
B, T, C, NH, V, Vp = 2, 70, 24, 3, 301, 304
ULP = 2.0**-7  # of a bfloat16, relative, at most


def exact(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def low(*shape, seed=0):
    return exact(*shape, seed=seed + 100).astype(bfloat16())


def tokens():
    return np.random.default_rng(0).integers(0, 40, (B, T)).astype(np.int32)  # most of them occur more than once


def calls():
    """(name, arguments) of every function of the contract with numbers of 16 bits."""
    stats = exact(B, T), np.exp(exact(B, T, seed=1))  # mean, rstd
    norm, hidden, qkv = (low(C), low(C, seed=1)), low(B, T, 4 * C), low(B, T, 3 * C)
    p = exact(B, NH, T)
    out = low(B, T, C)
    yield "encoder_forward", (exact(B, T, C), tokens(), low(Vp, C), low(T, C))
    yield "encoder_backward", (low(Vp, C), low(T + 5, C), exact(B, T, C), tokens())
    yield "layernorm_forward", (out, *stats, exact(B, T, C), *norm)
    yield "residual_layernorm_forward", (exact(B, T, C), out, *stats, exact(B, T, C), low(B, T, C), *norm)
    yield "layernorm_backward", (exact(B, T, C), *norm, out, exact(B, T, C), low(C), *stats)
    yield "residual_forward", (exact(B, T, C), exact(B, T, C, seed=1), out)
    yield "matmul_forward", (hidden, out, low(4 * C, C), low(4 * C))
    yield "matmul_forward", (low(1, 2, 4 * C), low(1, 2, C), low(4 * C, C), low(4 * C))  # a few rows, as in sampling
    yield "matmul_forward", (low(1, 1, Vp), low(1, 1, C), low(Vp, C), None)
    yield "matmul_gelu_forward", (hidden, low(B, T, 4 * C), out, low(4 * C, C), low(4 * C))
    yield "matmul_backward", (out, low(4 * C, C), low(4 * C), hidden, low(B, T, C), low(4 * C, C, seed=1))
    yield "matmul_backward", (hidden, low(C, 4 * C), low(C), exact(B, T, C), low(B, T, 4 * C), low(C, 4 * C, seed=1))
    yield "matmul_backward", (None, low(4 * C, C), None, hidden, low(B, T, C), low(4 * C, C, seed=1))
    yield "gelu_forward", (hidden, low(B, T, 4 * C, seed=1))
    yield "gelu_backward", (hidden, low(B, T, 4 * C, seed=1), low(B, T, 4 * C, seed=2))
    yield "attention_forward", (out, p, qkv, NH)
    yield "attention_cached", (low(B, 9, C), low(2, B, NH, T, C // NH), low(B, 9, 3 * C), NH, 0)
    yield "attention_cached", (low(B, 2, C), low(2, B, NH, T, C // NH), low(B, 2, 3 * C), NH, 17)
    for dloss in (None, 0.01):
        yield "fused_classifier", (exact(B, T), low(B, T, Vp), tokens(), dloss, V)
    yield "scale", (low(1000), 0.3)


OUTPUTS = WRITES | {"residual_layernorm_forward": 4, "matmul_gelu_forward": 2}


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def check_near(mine, theirs):
    """Equal, but for a rounding that a sum in another order has tipped."""
    mine, theirs, is_low = mine.astype(np.float32), theirs.astype(np.float32), mine.dtype == bfloat16()
    np.testing.assert_allclose(mine, theirs, rtol=ULP if is_low else 1e-5, atol=2e-5)
    assert not is_low or (mine != theirs).mean() < 0.02


@pytest.mark.parametrize("name, arguments", list(calls()), ids=lambda x: x if isinstance(x, str) else "")
def test_a_function_is_that_of_mixed(name, arguments, monkeypatch):
    monkeypatch.setattr(attention_bfloat16, "LEAST", T + 1)  # it rounds more; its own tests are below
    results = []
    for backend in (cpu, Mixed(cpu)):
        given = copies(arguments)
        getattr(backend, name)(*given)
        results.append(given)
        n = OUTPUTS[name]
        assert all((a == b).all() for a, b in zip(given[n:], arguments[n:]) if isinstance(a, np.ndarray))
    for mine, theirs in zip(*(given[: OUTPUTS[name]] for given in results)):
        if mine is not None:
            check_near(mine, theirs)


def test_every_function_is_compared():
    assert {name for name, _ in calls()} | {"attention_backward"} == set(OUTPUTS)


def installed():
    try:
        return bool(metadata.version(onednn.WHEEL))
    except metadata.PackageNotFoundError:
        return False


def computes_bfloat16():
    """Whether oneDNN is there and takes bfloat16: with instructions for it, or, slowly, without."""
    if onednn.library() is None:
        return False
    a = np.zeros((2, 2), np.uint16)
    try:
        onednn.product(a, a, a)
    except RuntimeError:
        return False
    return True


@pytest.fixture
def short_attention_by_onednn(monkeypatch):
    if not computes_bfloat16():
        pytest.skip("oneDNN is not installed, or takes no bfloat16 on this processor")
    monkeypatch.setattr(onednn, "multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(attention_bfloat16, "LEAST", 1)
    monkeypatch.setattr(attention_bfloat16, "BLOCK", 64)


LENGTHS = [1, 63, 64, 65, 130]


@pytest.mark.parametrize("length", LENGTHS)
def test_attention_and_its_gradient(length):
    check_attention(length)


@pytest.mark.parametrize("length", LENGTHS)
def test_attention_by_onednn(length, short_attention_by_onednn):
    assert attention_bfloat16.is_faster(low(B, length, 3 * C).view(np.uint16))
    check_attention(length)


def check_attention(length):
    qkv, dout = low(B, length, 3 * C), low(B, length, C, seed=1)
    results = []
    for backend in (cpu, Mixed(reference)):
        out, stats = np.empty_like(dout), np.empty(backend.attention_stats_shape(B, length, NH), np.float32)
        dqkv = np.full_like(qkv, np.nan)
        backend.attention_forward(out, stats, qkv, NH)
        backend.attention_backward(dqkv, dout, results[0][0] if results else out, stats, qkv, NH)
        results.append((out, dqkv))
    for pair in zip(*results):
        mine, theirs = (array.astype(np.float64) for array in pair)
        assert np.linalg.norm(mine - theirs) < 2.0**-8 * np.linalg.norm(theirs)


@pytest.mark.parametrize("has_master", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.37])
def test_an_update_is_mixeds_bit_for_bit(has_master, factor):
    n = 3 * mixed.CHUNK // 2 + 5
    params, grads, m, v = low(n), low(n, seed=1), exact(n), np.square(exact(n, seed=1))
    grads[:3] = np.nan, np.inf, -np.inf
    arrays = [params, grads, m, v, params.astype(np.float32) * np.float32(1.001) if has_master else None]
    numbers = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)
    mine, theirs = ([None if a is None else a.copy() for a in arrays] for _ in range(2))
    for t in (1, 2, 3):
        for backend, given in ((cpu, mine), (Mixed(cpu), theirs)):
            backend.adamw_update_rounded(*given, key=77 + t, factor=factor, t=t, clear=t == 3, **numbers)
    for a, b in zip(mine, theirs):
        assert a is None or a.view(np.uint16).tobytes() == b.view(np.uint16).tobytes()
    assert not mine[1].any() and np.isnan(mine[0][0].astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_highest_number(dtype):
    find = njit(lambda a: highest(a))
    for seed, shift in ((0, 0), (1, -9), (2, 9)):
        numbers = (exact(77, seed=seed) + shift).astype(bfloat16() if dtype == "bfloat16" else dtype)
        bits = numbers.view(np.uint16) if dtype == "bfloat16" else numbers
        assert find(bits) == numbers.astype(np.float64).max()
        numbers[5] = np.nan
        assert np.isnan(find(bits))
        numbers[:] = -np.inf
        assert find(bits) == -np.inf


def test_rounding_is_to_the_nearest_for_every_exponent():
    numbers = np.arange(0, 2**32, 99991).astype(np.uint32).view(np.float32)
    normal = ~(np.abs(numbers) < np.finfo(np.float32).tiny)  # others may be zero

    @njit
    def rounds(out, x):
        for i in range(x.size):
            out[i] = rounded(x[i])

    out = np.empty(numbers.size, np.uint16)
    rounds(out, numbers)
    with np.errstate(invalid="ignore"):
        wanted = numbers.astype(bfloat16()).astype(np.float32)
    np.testing.assert_array_equal(out.view(bfloat16()).astype(np.float32)[normal], wanted[normal])
    assert np.isnan(wanted).any() and np.abs(wanted[np.isfinite(wanted)]).max() > 3.3e38


ROUNDS = """
from numba import njit, types
from llmc.backends.cpu.bfloat16 import rounded
rounds = njit(lambda value: rounded(value))
rounds.compile((types.float32,))
print("vcvtneps2bf16" in rounds.inspect_asm(rounds.signatures[0]))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the instruction is one of x86-64")
@pytest.mark.parametrize("name, has_it", [("skylake-avx512", False), ("sapphirerapids", True)])
def test_rounding_is_one_instruction_where_the_processor_has_it(name, has_it):
    features = "+avx512f,+avx512vl,+avx512bw" + ",+avx512bf16" * has_it
    environment = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run([sys.executable, "-c", ROUNDS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(has_it)


def test_the_norm_and_zero():
    grads = low(100_003)
    assert cpu.global_norm(grads) == pytest.approx(np.linalg.norm(grads.astype(np.float64)), rel=1e-12)
    cpu.zero(grads)
    assert not grads.any()


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (300, 520, 257), (256, 256, 600)])
def test_products_in_tiles_are_those_of_float64(m, n, k):
    a, b, bias, out = low(m, k), low(k, n), low(n), low(m, n)
    right = a.astype(np.float64) @ b.astype(np.float64)  # (m, n)
    forms = (a, b), (np.ascontiguousarray(a.T).T, b), (a, np.ascontiguousarray(b.T).T)
    for left, other in forms:
        for extra, add in ((None, False), (bias, False), (None, True)):
            total = right + (0 if extra is None else extra.astype(np.float64)) + (out.astype(np.float64) if add else 0)
            mine = out.copy()
            bits = [None if x is None else x.view(np.uint16) for x in (mine, left, other, extra)]
            matmul_bfloat16.in_float32(*bits, add)
            np.testing.assert_allclose(mine.astype(np.float64), total, rtol=2.0**-8, atol=1e-4)


@pytest.mark.skipif(not installed(), reason="onednn-cpu-gomp is not installed")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("m, n, k", [(5, 1, 1), (9, 5, 7), (300, 520, 257)])
def test_products_of_onednn_are_those_of_float64(dtype, m, n, k):
    if dtype == "bfloat16" and not onednn.multiplies_bfloat16():
        pytest.skip("the processor has no instructions for bfloat16")
    draw = low if dtype == "bfloat16" else exact
    x, w, b, dout, dw, dx, out = (draw(*shape) for shape in ((m, k), (n, k), (n,), (m, n), (n, k), (m, k), (m, n)))
    wide = {name: a.astype(np.float64) for name, a in dict(x=x, w=w, b=b, dout=dout, dw=dw).items()}
    right = [wide["x"] @ wide["w"].T + wide["b"], wide["dout"] @ wide["w"], wide["dw"] + wide["dout"].T @ wide["x"]]
    seen = [a.view(np.uint16) if dtype == "bfloat16" else a for a in (x, w, b, dout, dw, dx, out)]
    x_, w_, b_, dout_, dw_, dx_, out_ = seen
    onednn.product(out_, x_, w_.T, b_)
    onednn.product(dx_, dout_, w_)
    onednn.product(dw_, dout_.T, x_, add=True)
    rtol, atol = (2.0**-8, 1e-4) if dtype == "bfloat16" else (1e-5, 1e-4)
    for mine, theirs in zip((out, dx, dw), right):
        np.testing.assert_allclose(mine.astype(np.float64), theirs, rtol=rtol, atol=atol)


@pytest.mark.skipif(not installed(), reason="onednn-cpu-gomp is not installed")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("add", [False, True])
def test_several_products_at_once(dtype, add):
    """Of heads in the rows of qkv, into a part of an array."""
    if dtype == "bfloat16" and not onednn.multiplies_bfloat16():
        pytest.skip("the processor has no instructions for bfloat16")
    rows, p, sums = (low if dtype == "bfloat16" else exact)(20, 3 * C), exact(NH, 20, 7), exact(NH, 30, C // NH)
    v, p = rows[:7, :C].reshape(7, NH, -1).transpose(1, 0, 2), p.astype(rows.dtype)  # (NH, 7, hs)
    right = sums[:, :20] * add + p.astype(np.float64) @ v.astype(np.float64)
    untouched = sums[:, 20:].copy()
    onednn.product(sums[:, :20], *(a.view(np.uint16) if dtype == "bfloat16" else a for a in (p, v)), add=add)
    np.testing.assert_allclose(sums[:, :20], right, rtol=1e-5, atol=1e-5)
    assert (sums[:, 20:] == untouched).all()


@pytest.mark.skipif(not installed(), reason="onednn-cpu-gomp is not installed")
@pytest.mark.parametrize("block", [32, 64, 256])
def test_attention_by_onednn_in_float32(block, monkeypatch):
    """Which every processor multiplies: the same products, in the same memory."""
    monkeypatch.setattr(attention_bfloat16, "BLOCK", block)
    qkv, dout, results = exact(B, 150, 3 * C), exact(B, 150, C, seed=1), []
    for forward, backward in (
        (attention_bfloat16.forward, attention_bfloat16.backward),
        (attention_bfloat16.forward, attention_bfloat16.backward),
        (cpu.attention_forward, cpu.attention_backward),
    ):
        out, stats, dqkv = np.empty_like(dout), np.empty((B, NH, 150), np.float32), np.full_like(qkv, np.nan)
        forward(out, stats, qkv, NH)
        backward(dqkv, dout, out, stats, qkv, NH)
        results.append((out, stats, dqkv))
    for mine, again, theirs in zip(*results):
        assert mine.tobytes() == again.tobytes()
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not installed(), reason="onednn-cpu-gomp is not installed")
def test_attention_by_onednn_allocates_nothing(monkeypatch):
    monkeypatch.setattr(attention_bfloat16, "BLOCK", 64)
    qkv, out, dqkv, stats = exact(1, 256, 3 * C), exact(1, 256, C), exact(1, 256, 3 * C), exact(1, NH, 256)
    for _ in range(2):
        tracemalloc.start()
        attention_bfloat16.forward(out, stats, qkv, NH)
        attention_bfloat16.backward(dqkv, out, out, stats, qkv, NH)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 24_000  # bytes, of views of arrays; the scores of a tile have 49,152


@pytest.mark.skipif(not installed(), reason="onednn-cpu-gomp is not installed")
def test_a_product_that_is_refused_leaves_one_error(monkeypatch):
    unseen = []
    monkeypatch.setattr(sys, "unraisablehook", unseen.append)
    with pytest.raises(RuntimeError, match="oneDNN failed"):
        onednn.product(exact(2, 2), exact(2, 3), exact(4, 2))
    gc.collect()
    assert not unseen


@pytest.mark.parametrize("position", [0, 63, 64, 100, 129])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, 1e9])
def test_a_key_that_outweighs_the_others(position, value, short_attention_by_onednn):
    """It takes all, in any block; and no query that sees it hides that it is no number."""
    qkv, outs = np.abs(low(1, 130, 3 * C)), [low(1, 130, C) for _ in range(2)]
    for out in outs:  # without, with
        cpu.attention_forward(out, np.empty((1, NH, 130), np.float32), qkv, NH)
        qkv[0, position, C : 2 * C] = value
    before, after = (out[0].astype(np.float32) for out in outs)
    assert (before[:position] == after[:position]).all()
    if value == 1e9:
        assert (after[position:] == qkv[0, position, 2 * C :].astype(np.float32)).all()
    else:
        assert np.isnan(after[position:]).all()


def test_without_onednn_there_is_none(monkeypatch):
    monkeypatch.setattr(onednn, "WHEEL", "a-wheel-that-does-not-exist")
    onednn.library.cache_clear()
    try:
        assert onednn.library() is None and not onednn.multiplies_bfloat16()
    finally:
        monkeypatch.undo()
        onednn.library.cache_clear()


# ---------------------------------------------------------------------------------------------------- whole models


def batch():
    return np.random.default_rng(0).integers(0, SMALL.V, (3, 70)).astype(np.int32)


def test_losses_are_those_of_mixed():
    losses = []
    for backend in (cpu, Mixed(cpu)):
        model = GPT2(SMALL, backend, "bf16")
        model.init_weights()
        losses.append([training_step(model, batch(), batch()) for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=2e-4)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_not_hidden(poison):
    model = GPT2(SMALL, "cpu", "bf16")
    model.init_weights()
    model.params["lnfw"][3] = poison
    assert not np.isfinite(model.forward(batch(), batch(), dloss=1.0))
    model.backward()
    assert not np.isfinite(model.global_norm())


def test_sampling_with_the_cache_reads_what_was_written():
    model = GPT2(SMALL, "cpu", "bf16")
    model.init_weights()
    x = batch()[:1, :20]
    whole = model.logits(x)[0, -1].astype(np.float32)
    kept = KeyValueCache(model, T=20)
    model.forward_cached(x[:, :15], kept)
    for t in range(15, 20):
        last = model.forward_cached(x[:, t : t + 1], kept)[0, 0].astype(np.float32)
    np.testing.assert_allclose(last, whole, atol=0.02 * np.abs(whole).max())


def test_a_step_allocates_nothing_that_grows_with_the_model():
    model = GPT2(GPT2Config(maxT=64, V=1024, L=2, NH=4, C=64), "cpu", "bf16")
    model.allocate(4, 64)
    model.init_weights()
    x = np.random.default_rng(0).integers(0, 1024, (4, 64)).astype(np.int32)
    training_step(model, x, x)
    tracemalloc.start()
    training_step(model, x, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000  # bytes; the smallest activation alone, (B, T, C), has 32,768


RUN = """
import hashlib, numpy as np
from llmc.backends.cpu import attention_bfloat16, onednn
from llmc.backends.cpu.compiled import KERNELS
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.sampling import generate
model = GPT2(GPT2Config(maxT=80, V=300, L=2, NH=2, C=32), "cpu", "bf16")
model.init_weights()
x = np.random.RandomState(0).randint(0, 300, (3, 70))
for _ in range(5):
    keep = np.zeros(np.random.randint(1, 3000))  # memory is elsewhere in every run
    training_step(model, x, x)
print(hashlib.sha256(model.params_flat.tobytes() + model.master.flat.tobytes()).hexdigest(), model.loss(x, x))
print([list(generate(model, [1, 2, 3], 9, window=8, cache=cache)) for cache in (True, False)])
if onednn.multiplies_bfloat16():
    attention_bfloat16.LEAST = 1
    qkv, out, stats = (model.backend.zeros(n, dtype) for n, dtype in ((288, "uint16"), (96, "uint16"), (6, "float32")))
    out, stats, qkv = out.reshape(1, 3, 32), stats.reshape(1, 2, 3), qkv.reshape(1, 3, 96)
    model.backend.attention_forward(out, stats, qkv, 2)
    model.backend.attention_backward(qkv, out, out, stats, qkv, 2)
print("compiled here:", *(kernel.py_func.__name__ for kernel in KERNELS if kernel.stats.cache_misses))
"""


def test_a_first_run_gives_the_bits_of_later_ones(tmp_path):
    first, later = first_and_later(tmp_path, RUN)
    assert first == later and first.endswith("compiled here:\n")
