"""The "cpu" backend beyond the contract: blocks, threads, both BLAS, no allocation, kernels kept on disk.

That each function does what the contract says is tested with the other backends', in test_layers.py and test_model.py.
"""

import os
import pickle
import subprocess
import sys
import tracemalloc
from importlib import metadata
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import njit

from llmc.backends import get_backend, reference
from llmc.backends.cpu import compiled, kernel_cache, matmul
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.tests.engine.first_run import first_and_later

cpu = get_backend("cpu")
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


def test_the_exponential_is_exact_to_the_last_bits_and_keeps_nan():
    x = np.concatenate([np.linspace(-87, 88, 1_000_001), np.linspace(-1e-3, 1e-3, 1001)]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.max(np.abs(exponentials(x) / exact - 1)) < 1.5e-7
    assert exponentials(np.float32([-np.inf, -1e9, 1e9, np.inf])).tolist() == [0, 0, np.inf, np.inf]
    assert np.isnan(exponentials(np.float32([np.nan]))).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_not_hidden(poison):
    model = GPT2(SMALL, "cpu")
    model.init_weights()
    x = batch(SMALL, 1, 8)
    model.params["lnfw"][3] = poison
    assert not np.isfinite(model.forward(x, x, dloss=1.0))
    model.backward()
    assert not np.isfinite(model.global_norm())


# ------------------------------------------------------------------------------------------- threads and BLAS


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 6, 7, 16])
@pytest.mark.parametrize("m, n", [(768, 256), (1, 1), (5, 50304), (128, 1024)])
def test_tiles_use_every_thread_and_cut_the_longer_side(parts, m, n):
    pm = matmul.tiles(parts, m, n)
    assert parts % pm == 0
    assert pm * (parts // pm) == parts and (pm >= parts // pm or n >= m)


def test_one_thread_computes_what_two_do():
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
from llmc.backends.cpu.blas import description
from llmc.backends.cpu.compiled import KERNELS
from llmc.bench.step import training_step
from llmc.config import GPT2Config
from llmc.model import GPT2
from llmc.sampling import generate
model = GPT2(GPT2Config(maxT=80, V=300, L=2, NH=2, C=32), "cpu")
model.init_weights()
x = np.random.RandomState(0).randint(0, 300, (3, 70))
x.flags.writeable = False
for _ in range(5):
    keep = np.zeros(np.random.randint(1, 3000))  # memory is elsewhere in every run
    training_step(model, x, x)
print(description().split()[0], hashlib.sha256(model.params_flat.tobytes()).hexdigest(), model.loss(x, x))
training_step(model, x, x)
model.clip_gradients(1e-6), model.zero_grad()
print([list(generate(model, [1, 2, 3], 9, window=8, cache=cache)) for cache in (True, False)])
print("compiled here:", *(kernel.py_func.__name__ for kernel in KERNELS if kernel.stats.cache_misses))
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
    """Kernels round differently in the process that compiles them (see kernel_cache.py), so no run compiles its own."""
    first, later = first_and_later(tmp_path, RUN)
    assert first == later and first.endswith("compiled here:\n")


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
    for _ in range(2):  # the first one loads the kernels
        tracemalloc.start()
        training_step(model, x, x)
        model.clip_gradients(1.0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64_000  # bytes; the smallest activation alone, (B, T, C), has 65,536


def test_arrays_begin_at_cache_lines():
    for n in (1, 7, 1000, 100_000):
        assert cpu.zeros(n, np.float32).ctypes.data % 64 == 0 and cpu.zeros(n, np.float32).size == n


COMPILER = """
import os, sys
from pathlib import Path
place = Path(os.environ["NUMBA_CACHE_DIR"], "cpu_1")
place.mkdir(parents=True, exist_ok=True)
(place / f"{sys.argv[1]}.nbc").write_bytes(b"67")
(place / "a.nbc").write_bytes(b"12345")
(place / "a.nbi").write_bytes(b"an index")
raise SystemExit(Path(__file__).with_name("error").read_text() or None)
"""


class Kernel:
    """As much of one of Numba's dispatchers as kernel_cache.py uses: the folder where Numba would keep it now."""

    def __init__(self, default):
        self.default, self.stats = default, SimpleNamespace()

    def enable_caching(self):
        place = Path(numba.config.CACHE_DIR or self.default)
        if not (numba.config.CACHE_DIR or place.is_dir()):
            raise RuntimeError("cannot cache function: no locator available")
        self.stats.cache_path = str(place)


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """keep(error="", …) -> the folder that kernels are kept in. Their compiler writes files, then ends with error."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    (tmp_path / "fake_compiler.py").write_text(COMPILER)
    (tmp_path / "cache").mkdir(0o700)
    kernel = Kernel(tmp_path / "cache")

    def keep(error="", precision="fp32"):
        (tmp_path / "error").write_text(error)
        kernel_cache.keep([kernel], compiler="fake_compiler", precision=precision)
        assert numba.config.CACHE_DIR == ""
        return Path(kernel.stats.cache_path)

    return keep


def test_kernels_are_compiled_once(keep, tmp_path):
    folder = keep()
    assert folder.parent == tmp_path / "cache" and folder.name == kernel_cache.fingerprint(
        Path(kernel_cache.__file__).parent
    )
    (folder / "cpu_1" / "a.1.nbc").write_bytes(b"of float64")  # what Numba adds later stays
    assert keep() == folder and (folder / "cpu_1" / "a.1.nbc").is_file()
    assert os.listdir(folder.parent) == [folder.name]


def test_another_precision_is_compiled_when_it_is_wanted_and_what_is_there_stays(keep):
    folder = keep()
    assert kernel_cache.is_whole(folder, "fp32") and not kernel_cache.is_whole(folder, "bf16")
    written = (folder / "cpu_1" / "fp32.nbc").stat().st_mtime_ns
    assert keep(precision="bf16") == folder and (folder / "cpu_1" / "bf16.nbc").is_file()
    assert kernel_cache.is_whole(folder, "fp32") and kernel_cache.is_whole(folder, "bf16")
    assert (folder / "cpu_1" / "fp32.nbc").stat().st_mtime_ns == written
    keep("stopped", precision="bf16")  # there is nothing to compile
    (folder / "cpu_1" / "fp32.nbc").unlink()
    assert not kernel_cache.is_whole(folder, "bf16")
    keep(precision="bf16")
    assert kernel_cache.is_whole(folder, "bf16") and not kernel_cache.is_whole(folder, "fp32")


def to_a_folder(file):
    file.unlink()
    (file / "below").mkdir(parents=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"1234"),
        lambda file: file.write_bytes(b"1234x"),
        lambda file: file.write_bytes(b""),
        lambda file: file.unlink(),
        to_a_folder,
    ],
    ids=["short", "flipped", "empty", "gone", "folder"],
)
@pytest.mark.parametrize("name", ["cpu_1/a.nbc", "cpu_1/a.nbi", kernel_cache.LIST])
def test_damaged_kernels_are_compiled_again(keep, name, damage):
    folder = keep()
    before = {path.name: path.read_bytes() for path in (folder / "cpu_1").iterdir()}
    damage(folder / name)
    assert not kernel_cache.is_whole(folder)
    assert keep() == folder and kernel_cache.is_whole(folder)
    assert {path.name: path.read_bytes() for path in (folder / "cpu_1").iterdir()} == before


def test_an_index_that_numba_has_added_to_is_whole(keep):
    folder = keep()
    index = folder / "cpu_1" / "a.nbi"
    index.write_bytes(pickle.dumps("0.60") + pickle.dumps(("stamp", {"float64": "a.1.nbc"})))
    assert kernel_cache.is_whole(folder)


def test_a_file_in_place_of_the_folder_is_replaced(keep):
    folder = keep()
    rmtree(folder)
    folder.write_text("mine")
    assert keep() == folder and kernel_cache.is_whole(folder)


def test_kernels_of_other_sources_are_forgotten_and_those_of_other_machines_are_not(keep, tmp_path):
    sources = kernel_cache.fingerprint(Path(kernel_cache.__file__).parent).rpartition("-")[0]
    for other in ("kernels-older-machine", f"{sources}-other", "something else"):
        (tmp_path / "cache" / other).mkdir()
    folder = keep()
    assert set(os.listdir(tmp_path / "cache")) == {folder.name, f"{sources}-other", "something else"}


def test_a_compiler_that_fails_costs_nothing_but_its_time(keep):
    folder = keep("stopped")
    assert not folder.exists() and os.listdir(folder.parent) == []
    assert keep() == folder and kernel_cache.is_whole(folder)


@pytest.mark.parametrize("opened", ["", "cache", "."] if hasattr(os, "geteuid") else [""])
def test_where_nothing_may_be_kept_kernels_are_in_a_temporary_folder(keep, tmp_path, monkeypatch, capsys, opened):
    """Said once; the processes that this one starts look there, too."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    kernel_cache.temporary_folder.cache_clear()
    if opened:
        (tmp_path / opened).chmod(0o777)
    else:
        (tmp_path / "cache").rmdir()  # of the Kernel below, which then finds no folder
    first, second = keep(), keep()
    kernel_cache.temporary_folder.cache_clear()
    assert first == second and kernel_cache.is_whole(first) and first.is_relative_to(os.environ["NUMBA_CACHE_DIR"])
    err = capsys.readouterr().err
    assert err.startswith(f"llmc: {tmp_path / opened} belongs to another user, or" if opened else "llmc: there is no")
    assert err.count("\n") == 1 and "NUMBA_CACHE_DIR" in err


def test_a_machine_without_any_folder_compiles_in_each_process(keep, tmp_path, monkeypatch):
    def refuse(**options):
        raise FileNotFoundError("no usable temporary directory")

    (tmp_path / "cache").rmdir()
    monkeypatch.setattr(kernel_cache, "TemporaryDirectory", refuse)
    kernel_cache.temporary_folder.cache_clear()
    kernel_cache.keep([Kernel(tmp_path / "cache")], compiler="none")


def broken_cache(tmp_path, monkeypatch):
    """A Forgiving whose kernel's files are all damaged."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    cache = kernel_cache.Forgiving(compiled.bounds.py_func)
    (tmp_path / "kernels" / kernel_cache.LIST).write_text("list")
    Path(cache._cache_file._index_path).write_bytes(b"\x80garbage")
    return cache


def test_damage_that_shows_only_later_costs_the_time_to_compile(tmp_path, monkeypatch):
    cache = broken_cache(tmp_path, monkeypatch)
    context = SimpleNamespace(refresh=lambda: None, codegen=lambda: SimpleNamespace(magic_tuple=tuple))
    assert cache.load_overload((), context) is None
    assert not (tmp_path / "kernels" / kernel_cache.LIST).exists()  # so that the next start fills the folder anew
    cache.save_overload((), None)


@pytest.mark.parametrize(
    "variable, value, words",
    [
        ("NUMBA_NUM_THREADS", "0", "must be > 0"),
        ("NUMBA_NUM_THREADS", "many", "'many'"),
        ("NUMBA_NUM_THREADS", "5000", "far more"),
        ("NUMBA_OPT", "fast", "'fast'"),
        ("NUMBA_THREADING_LAYER", "fibres", "fibres"),
        ("NUMBA_DISABLE_JIT", "1", "numpy"),
    ],
)
def test_variables_that_numba_cannot_use_are_one_sentence(variable, value, words):
    code = "from llmc.backends import get_backend; from llmc.errors import UserError\ntry:\n    get_backend('cpu')\n"
    code += "except UserError as error:\n    print(error)"
    environment = {**os.environ, "PYTHONWARNINGS": "error", variable: value}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.count("\n") == 1 and variable in done.stdout and words in done.stdout


def test_the_fingerprint_is_that_of_the_sources(tmp_path):
    (tmp_path / "a.py").write_text("one")
    before = kernel_cache.fingerprint(tmp_path)
    (tmp_path / "a.txt").write_text("two")
    assert kernel_cache.fingerprint(tmp_path) == before
    (tmp_path / "a.py").write_text("two")
    assert kernel_cache.fingerprint(tmp_path) != before and kernel_cache.fingerprint(tmp_path)[-12:] == before[-12:]
