"""llmc doctor: what it says on machines that we do not have, made of faked facts; and that it never fails or waits."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmc.cli import main
from llmc.course import doctor
from llmc.course.machine import advice, caches, diagnoses, equipment, facts, openblas, several
from llmc.course.machine.advice import Row
from llmc.course.machine.doctor import examine
from llmc.cuda.emulator.compiling import toolchain
from llmc.errors import NoCompiler

ROOT = Path(__file__).resolve().parents[3]
modes = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has none")
ZEN4 = {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"}


def answers(value):
    """A function that returns this, or raises it."""

    def function(*args, **kwargs):
        if isinstance(value, Exception):
            raise value
        return value

    return function


@pytest.fixture
def fake(monkeypatch):
    """fake(module, name=value, ...): its functions answer so; environment variables are out of the way."""
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)

    def set_answers(module, **values):
        for name, value in values.items():
            monkeypatch.setattr(module, name, answers(value))

    return set_answers


def test_this_machine():
    report = doctor()
    assert [row.what for row in report][:3] == ["system", "Python", "packages"] and report["BLAS"].found
    assert all(row.found and row.status in ("ok", "missing", "later", "warning") for row in report)
    assert all(row.costs for row in report if row.status != "ok")
    assert not any(row.costs or row.command for row in report if row.status == "ok")
    for text in (str(report), report._repr_html_()):
        assert str(Path.home()) not in text or len(str(Path.home())) < 2


def test_command(capsys):
    assert main(["doctor", "--json"]) == 0
    assert {"what", "found", "status", "costs", "command"} == set(json.loads(capsys.readouterr().out)[0])


def test_a_look_that_raises_or_hangs_costs_its_row_only(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere/ada")
    monkeypatch.setenv("USERPROFILE", "/somewhere/ada")
    looks = [("well", lambda what: Row(what, "in /somewhere/ada/data")), ("broken", answers(RuntimeError("no")))]
    looks += [("asleep", lambda what: time.sleep(5))]
    well, broken, asleep = examine(looks, deadline=0.2)
    assert well == Row("well", "in ~/data")
    assert (broken.found, broken.status) == ("unknown (RuntimeError)", "warning")
    assert (asleep.found, asleep.status) == ("no answer in time", "warning")


def test_text_and_html_of_the_three_kinds():
    Report = type(doctor())
    report = Report([Row("a", "1"), Row("b", "<2>", "missing", "time", "mend b"), Row("c", "3", "later", "", "get c")])
    assert str(report).split("\n")[:5] == ["✓ a  1", "– b  <2>", "     costs: time", "     fix:   mend b", "– c  3"]
    assert "&lt;2&gt;" in report._repr_html_() and "<code>mend b</code>" in report._repr_html_()
    assert report.summary == "Worth a look: b." and Report([Row("a", "1")]).summary == "Nothing to fix."


@pytest.mark.parametrize(
    ("there", "costs", "variable"),
    [
        ({"NUMBA_CACHE_DIR": "made/later", "LLMC_CACHE": "later"}, "", ""),
        ({"NUMBA_CACHE_DIR": ".", "LLMC_CACHE": "file/cache"}, "CUDA", "LLMC_CACHE"),
        ({"NUMBA_CACHE_DIR": "file", "XDG_CACHE_HOME": "file"}, "training", "NUMBA_CACHE_DIR"),
        pytest.param({"NUMBA_CACHE_DIR": ".", "LLMC_CACHE": "open"}, "CUDA", "LLMC_CACHE", marks=modes),
        pytest.param({"NUMBA_CACHE_DIR": "open"}, "training", "NUMBA_CACHE_DIR", marks=modes),
    ],
)
def test_whether_compiled_kernels_have_a_place(there, costs, variable, monkeypatch, tmp_path):
    """Nowhere else: llmc itself lies where nothing can be written, in a file instead of a folder."""
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir(), (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(caches.llmc, "__file__", str(tmp_path / "file" / "__init__.py"))
    for name, place in there.items():
        monkeypatch.setenv(name, str(tmp_path / place))
    row = caches.compiled("compiled kernels")
    assert row.status == ("warning" if costs else "ok") and costs in row.costs and variable in row.command
    assert not costs or row.command != caches.compiled("again").command  # nobody can guess it, and make it first


@pytest.mark.parametrize(
    "library, flags, status, words",
    [
        (True, {"avx512_bf16"}, "ok", "own instructions, with onednn 9.9"),
        (False, {"amx_bf16"}, "missing", "though this processor has instructions for it"),
        (False, ZEN4, "ok", "no instructions for it"),
    ],
)
def test_what_multiplies_bfloat16(library, flags, status, words, fake):
    from llmc.backends.cpu import onednn

    fake(onednn, multiplies_bfloat16=library, description="onednn 9.9")
    fake(facts, cpu_flags=flags)
    row = equipment.training_bfloat16("bfloat16 in training")
    assert row.status == status and words in row.found and ("onednn-cpu-gomp" in row.command) == (status == "missing")


@pytest.mark.parametrize(
    "library, kernels, threads, flags, variable, status, command",
    [
        ("openblas", "Haswell", 2, ZEN4, "", "warning", "export OPENBLAS_CORETYPE=SkylakeX"),
        ("openblas", "Haswell", 2, ZEN4, "OPENBLAS_CORETYPE", "warning", "unset OPENBLAS_CORETYPE"),
        ("openblas", "Nehalem", 2, {"avx", "avx2"}, "", "warning", "export OPENBLAS_CORETYPE=Haswell"),
        ("openblas", "SkylakeX", 2, ZEN4, "", "ok", ""),
        ("openblas", "Haswell", 2, {"avx", "avx2", "avx512f"}, "", "ok", ""),  # half an AVX-512 is none for OpenBLAS
        ("openblas", "NeoverseN1", 2, {"asimd"}, "", "ok", ""),
        ("openblas", "OfNextYear", 2, ZEN4, "", "ok", ""),
        ("openblas", "SkylakeX", 1, ZEN4, "OMP_NUM_THREADS", "warning", "unset OMP_NUM_THREADS"),
        ("openblas", "SkylakeX", 1, ZEN4, "", "ok", ""),  # no variable: OpenBLAS has its reasons
        ("accelerate", None, 0, ZEN4, "", "ok", ""),
        ("", None, 0, ZEN4, "", "missing", "numpy"),
    ],
)
def test_blas(library, kernels, threads, flags, variable, status, command, fake, monkeypatch):
    fake(openblas, build=(library, "0.3"), loaded=kernels and (kernels, threads))
    fake(facts, cpu_flags=flags, cores=(2, 2))
    monkeypatch.setattr(sys, "platform", "linux")
    if variable:
        monkeypatch.setenv(variable, "1")
    row = diagnoses.blas("BLAS")
    assert row.status == status and (kernels or library) in row.found and variable in row.command
    assert row.command.endswith(command) and bool(row.command) == bool(command)


@pytest.mark.skipif("openblas" not in openblas.build()[0] or sys.platform != "linux", reason="NumPy has another BLAS")
def test_the_loaded_library_answers_for_its_variable():
    code = "from llmc.course.machine import openblas; print(*openblas.loaded())"
    variables = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, cwd=ROOT)
    kernels, threads = run.stdout.split()
    has_haswell = openblas.best_level(facts.cpu_flags()) in ("AVX-512", "AVX2")
    assert threads == "1" and (kernels == "Haswell" or not has_haswell)


def test_no_compiler(fake, monkeypatch):
    monkeypatch.delenv("LLMC_CXX", raising=False)
    fake(toolchain, find=NoCompiler("there is none"))
    for platform, words in {"darwin": "xcode-select --install", "win32": "wsl", "linux": "sudo dnf"}.items():
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(advice.shutil, "which", lambda name: name == "dnf")
        row = diagnoses.compiler("C++ compiler")
        assert row.status == "missing" and row.command.startswith(words)
        assert ("pip install ziglang" in row.costs) == (platform != "win32")
    monkeypatch.setattr(advice.shutil, "which", lambda name: None)
    assert diagnoses.compiler("C++ compiler").command.endswith("-m pip install ziglang")


@pytest.mark.parametrize(
    "answer, found, status",
    [
        ("NVIDIA H200, 143771, 570.86.15", "NVIDIA H200, 140 GiB", "ok"),
        ("NVIDIA L4, 23034, 580.1\nNVIDIA L4, 23034, 580.1", "2 × NVIDIA L4, 22 GiB", "ok"),
        ("NVIDIA GB10, [N/A], 580.95", "NVIDIA GB10", "ok"),
        (None, "no NVIDIA GPU", "missing"),
        ("No devices were found", "nvidia-smi does not", "warning"),
        ("NVIDIA L4, many, new", "nvidia-smi does not", "warning"),
        (subprocess.CalledProcessError(9, "nvidia-smi"), "nvidia-smi does not", "warning"),
    ],
)
def test_gpu(answer, found, status, fake):
    fake(facts, ask=answer)
    fake(facts.shutil, which=answer and "nvidia-smi")
    row = diagnoses.gpu("GPU")
    assert row.found.startswith(found) and row.status == status
    assert equipment.cupy("CuPy").what == "CuPy"  # with a driver that does not answer, too


@pytest.fixture
def machine(fake, monkeypatch):
    """machine(driver, gpus, installed, mpirun, LLMC_DEVICE): one with these GPUs and packages, and no others."""

    def make(driver=0, gpus=1, installed=(), mpirun=None, device=""):
        fake(facts, gpus=[("NVIDIA L4", 22.5, driver)] * gpus if driver else [])
        fake(several.shutil, which=mpirun)
        fake(several.ctypes.util, find_library=None)
        for module in (several, equipment):
            monkeypatch.setattr(module, "_version", dict(installed).get)
        monkeypatch.setenv("LLMC_DEVICE", device)

    return make


def has(**versions):
    return {name.replace("_", "-"): version for name, version in versions.items()}


CUDA12, CUDA13 = has(cupy_cuda12x="14.0.1"), has(cupy_cuda13x="14.0.1")
UNUSED = {"driver": 580, "installed": CUDA13, "device": "emulator"}


@pytest.mark.parametrize(
    "look, there, status, found, command",
    [
        (several.mpi, {}, "missing", "not installed", ""),
        (several.mpi, {"installed": has(mpi4py="4.1"), "mpirun": "/bin/mpirun"}, "ok", "mpi4py 4.1, /bin/mpirun", ""),
        (several.mpi, {"installed": has(mpi4py="4.1")}, "warning", "no mpirun", "install mpich"),
        (several.mpi, {"mpirun": "/bin/mpirun"}, "warning", "no mpi4py", "install mpi4py"),
        (several.nccl, {"driver": 580}, "missing", "not installed", ""),
        (several.nccl, {"driver": 550, "gpus": 2, "installed": CUDA12}, "missing", "", "install nvidia-nccl-cu12"),
        (several.nccl, {"driver": 580, "gpus": 2}, "missing", "", "install nvidia-nccl-cu13"),
        (several.nccl, {"driver": 580, "gpus": 2, "installed": has(nvidia_nccl_cu13="2.28")}, "ok", "2.28", ""),
        (equipment.cupy, {}, "missing", "not installed", ""),
        (equipment.cupy, {"driver": 580}, "missing", "", "install 'cupy-cuda13x[ctk]>=14'"),
        (equipment.cupy, {"driver": 550}, "missing", "", "install 'cupy-cuda12x[ctk]>=14'"),
        (equipment.cupy, {"driver": 470}, "missing", "", ""),
        (equipment.cupy, {"driver": 550, "installed": CUDA12}, "ok", "cupy-cuda12x 14.0.1", ""),
        (equipment.cupy, {"driver": 550, "installed": CUDA13}, "warning", "", "uninstall cupy-cuda13x"),
        (equipment.cupy, {"driver": 550, "installed": has(cupy="13.6")}, "warning", "", "install 'cupy-cuda12x[ctk]"),
        (equipment.kernels, {}, "ok", "on the emulator: no GPU here", ""),
        (equipment.kernels, {"driver": 580}, "ok", "on the emulator: no CuPy here", ""),
        (equipment.kernels, {"driver": 550, "installed": CUDA13}, "ok", "on the emulator: an old driver here", ""),
        (equipment.kernels, {"driver": 580, "installed": CUDA13, "device": "gpu"}, "ok", "on the GPU, with cupy", ""),
        (equipment.kernels, UNUSED, "warning", "on the emulator, because LLMC_DEVICE says so", "LLMC_DEVICE"),
        (equipment.kernels, {"device": "gpu"}, "warning", "no GPU, and LLMC_DEVICE is gpu", "LLMC_DEVICE"),
        (equipment.kernels, {"device": "cuda"}, "warning", "on no device: LLMC_DEVICE is cuda", "LLMC_DEVICE"),
        (equipment.packages, {"installed": has(numpy="2.1")}, "missing", "not installed: matplotlib", "jupyterlab"),
    ],
)
def test_what_is_installed_for_the_gpus_there_are(look, there, status, found, command, machine):
    machine(**there)
    row = look("a row")
    assert row.status == status and found in row.found
    assert command in row.command and bool(command) == bool(row.command)


@pytest.mark.parametrize("text, quota", [("max 100000", None), ("150000 100000", 1.5), ("damaged", None), (None, None)])
def test_a_container_with_a_part_of_the_cores(text, quota, monkeypatch, tmp_path):
    monkeypatch.setattr(facts, "CGROUP", tmp_path)
    monkeypatch.setattr(facts.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(facts.os, "sched_getaffinity", lambda pid: set(range(4)), raising=False)
    if text:
        (tmp_path / "cpu.max").write_text(text)
    assert facts.cores() == (quota or 4, 8)
    assert diagnoses.cores("cores").status == ("warning" if quota else "ok")


@pytest.mark.parametrize("text, size", [("536870912", 2**29), ("max", 2**34), ("9223372036854771712", 2**34)])
def test_a_container_with_a_part_of_the_memory(text, size, fake, monkeypatch, tmp_path):
    monkeypatch.setattr(facts, "CGROUP", tmp_path)
    fake(facts, _physical_memory=2**34)
    (tmp_path / "memory.max").write_text(text)
    assert facts.memory() == size
    assert diagnoses.memory("memory").status == ("warning" if size < 2**30 else "ok")


def test_a_folder_that_was_moved_or_copied_after_the_installation(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT / "llmc")
    assert equipment.python("Python").status == "ok"
    (tmp_path / "copied" / "solutions").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "copied")
    row = equipment.python("Python")
    Path(equipment.MARKER).touch()
    assert equipment.python("Python").status == "ok"  # in an own copy
    assert row.status == "warning" and "moved or copied" in row.costs and row.command.endswith("install -e .")


def test_corpus(monkeypatch, tmp_path):
    from llmc.data import write_tokens

    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path))
    assert equipment.corpus("corpus", "pydocs").found == "not prepared"
    write_tokens(tmp_path / "pydocs" / "train.bin", [1, 2, 3])
    assert equipment.corpus("corpus", "pydocs").found == "incomplete"
    write_tokens(tmp_path / "pydocs" / "val.bin", [1, 2])
    (tmp_path / "pydocs" / "tokenizer.bin").write_bytes(b"")
    assert equipment.corpus("corpus", "pydocs") == Row("corpus", "3 tokens to train on, 2 to validate")
    (tmp_path / "pydocs" / "train.bin").write_bytes(b"damaged")
    row = equipment.corpus("corpus", "pydocs")
    assert (row.found, row.status) == ("damaged", "warning") and row.command.endswith("llmc data pydocs")


def test_full_disk(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "not" / "there" / "yet"))
    assert "GiB free" in equipment.disk("disk").found
    fake(equipment.shutil, disk_usage=type("Usage", (), {"free": 2**28}))
    assert equipment.disk("disk").status == "warning"


def test_tokens(monkeypatch, tmp_path):
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert equipment.tokens("tokens").status == "later"
    # The names under which tiktoken keeps vocab.bpe and encoder.json
    (tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee").write_bytes(bytes(456_318))
    (tmp_path / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6").write_bytes(bytes(1_042_300))
    assert equipment.tokens("tokens").status == "later"  # cut short: tiktoken would fetch it again
    (tmp_path / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6").write_bytes(bytes(1_042_301))
    assert equipment.tokens("tokens") == Row("tokens", "in tiktoken's cache")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert equipment.tokens("tokens").status == "warning"
