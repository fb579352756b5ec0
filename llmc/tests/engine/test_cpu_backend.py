"""The "cpu" backend beyond the contract: blocks, threads, both BLAS, no allocation, kernels kept on disk.

That each function does what the contract says is tested with the other backends', in test_layers.py and test_model.py.
"""

import os
import subprocess
import sys
import tracemalloc
from importlib import metadata

import numpy as np
import pytest
from numba import njit

from llmc.backends import cpu, reference
from llmc.backends.cpu import compiled, kept, matmul
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.model import GPT2

SMALL = GPT2Config(maxT=80, V=300, L=2, NH=2, C=32)


@njit
def exponentials(x):
    """e^x of an array (n,), by the function that kernels use."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = compiled.exp(x[i])
    return out


def draw(*shape, seed=0, dtype=np.float64):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def batch(config, B, T, seed=0):
    return np.random.RandomState(seed).randint(0, config.V, (B, T)).astype(np.int32)


# ------------------------------------------------------------------------------------------------ numbers


def test_ten_losses_are_the_numpy_backends():
    losses = {}
    for name in ("numpy", "cpu"):
        model = GPT2(SMALL, name)
        model.init_weights()
        x, y = batch(SMALL, 3, 80), batch(SMALL, 3, 80, seed=1)
        losses[name] = [training_step(model, x, y) for _ in range(10)]
    assert losses["cpu"] == pytest.approx(losses["numpy"], rel=1e-5)


@pytest.mark.parametrize("T", [1, 63, 64, 65, 130])
def test_attention_in_blocks_is_attention(T):
    B, NH, hs = 2, 3, 5
    C = NH * hs
    qkv, dout = draw(B, T, 3 * C), draw(B, T, C, seed=1)
    results = []
    for backend in (reference, cpu):
        out, stats = np.empty((B, T, C)), np.empty(backend.attention_stats_shape(B, T, NH))
        dqkv = np.full_like(qkv, np.nan)
        backend.attention_forward(out, stats, qkv, NH)
        backend.attention_backward(dqkv, dout, out, stats, qkv, NH)
        results.append((out, dqkv))
    for mine, theirs in zip(*results):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-12)


def test_attention_keeps_no_square():
    assert np.prod(cpu.attention_stats_shape(2, 1000, 3)) == 2 * 3 * 1000


def test_the_exponential_is_exact_to_the_last_bits_and_keeps_what_is_no_number():
    x = np.concatenate([np.linspace(-87, 88, 1_000_001), np.linspace(-1e-3, 1e-3, 1001)]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.max(np.abs(exponentials(x) / exact - 1)) < 1.5e-7
    assert exponentials(np.float32([-np.inf, -1e9, 1e9, np.inf])).tolist() == [0, 0, np.inf, np.inf]
    assert np.isnan(exponentials(np.float32([np.nan]))).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_loss_that_is_no_number_is_not_hidden(poison):
    model = GPT2(SMALL, "cpu")
    model.init_weights()
    x = batch(SMALL, 1, 8)
    model.params["lnfw"][3] = poison
    assert not np.isfinite(model.forward(x, x, dloss=1.0))
    model.backward()
    assert not np.isfinite(model.global_norm())


# ------------------------------------------------------------------------------------- threads and libraries


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 6, 7, 16])
@pytest.mark.parametrize("m, n", [(768, 256), (1, 1), (5, 50304), (128, 1024)])
def test_tiles_use_every_thread_and_cut_the_longer_side(parts, m, n):
    pm = matmul.tiles(parts, m, n)
    assert parts % pm == 0
    assert pm * (parts // pm) == parts and (pm >= parts // pm or n >= m)


def test_one_thread_computes_what_two_do():
    import numba

    losses = []
    before = numba.get_num_threads()
    try:
        for threads in {1, before}:
            numba.set_num_threads(threads)
            model = GPT2(SMALL, "cpu")
            model.init_weights()
            x = batch(SMALL, 2, 70)
            losses.append([training_step(model, x, x) for _ in range(3)])
    finally:
        numba.set_num_threads(before)
    assert losses[0] == pytest.approx(losses[-1], rel=1e-6)


RUN = """
import hashlib, numpy as np
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.bench.step import training_step
from llmc.backends.cpu.libraries import DESCRIPTION
model = GPT2(GPT2Config(maxT=80, V=300, L=2, NH=2, C=32), "cpu")
model.init_weights()
x = np.random.RandomState(0).randint(0, 300, (3, 70))
for _ in range(5):
    keep = np.zeros(np.random.randint(1, 3000))  # memory lies elsewhere in every run
    training_step(model, x, x)
print(DESCRIPTION.split()[0], hashlib.sha256(model.params_flat.tobytes()).hexdigest())
"""


def mkl_is_installed():
    try:
        return bool(metadata.version("mkl"))
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize("library", ["scipy", "mkl"])
def test_two_runs_give_the_same_bits(library):
    if library == "mkl" and not mkl_is_installed():
        pytest.skip("mkl is not installed")
    environment = {**os.environ, "LLMC_BLAS": library}
    command = [sys.executable, "-c", RUN]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.startswith("mkl") or library == "scipy"


def test_a_first_run_gives_the_bits_of_later_ones(tmp_path):
    """Numba's own code differs between the process that compiles and those that load: see kept.py."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert list(tmp_path.rglob("*.nbc")) and runs[0].stdout == runs[1].stdout


def test_a_library_that_does_not_exist_is_refused_in_one_sentence():
    environment = {**os.environ, "LLMC_BLAS": "fast"}
    command = [sys.executable, "-m", "llmc.cli", "bench", "--backend", "cpu"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 2 and run.stderr.count("\n") == 1 and "LLMC_BLAS" in run.stderr


# ---------------------------------------------------------------------------------------- memory and disk


def test_a_step_allocates_nothing_that_grows_with_the_model():
    model = GPT2(GPT2Config(maxT=64, V=1024, L=2, NH=4, C=64), "cpu")
    model.allocate(4, 64)
    model.init_weights()
    x = batch(model.config, 4, 64)
    training_step(model, x, x)
    tracemalloc.start()
    training_step(model, x, x)
    model.clip_gradients(1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64_000  # bytes; the smallest activation alone, (B, T, C), has 65,536


def test_arrays_begin_at_cache_lines():
    for n in (1, 7, 1000, 100_000):
        assert cpu.zeros(n, np.float32).ctypes.data % 64 == 0 and cpu.zeros(n, np.float32).size == n


def test_kernels_of_other_sources_are_forgotten(tmp_path):
    kernels = tmp_path / "__pycache__"
    kernels.mkdir()
    (tmp_path / "a.py").write_text("one")
    kept.forget_kernels_of_other_sources(tmp_path)
    (kernels / "a.f.nbi").write_text("kernel")
    kept.forget_kernels_of_other_sources(tmp_path)
    assert (kernels / "a.f.nbi").exists()
    (tmp_path / "a.py").write_text("two")
    kept.forget_kernels_of_other_sources(tmp_path)
    assert not (kernels / "a.f.nbi").exists()
