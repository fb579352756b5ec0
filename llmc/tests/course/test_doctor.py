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
from llmc.errors import NoCompiler, UserError

ROOT = Path(__file__).resolve().parents[3]
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


# ------------------------------------------------------------------------------------------ the whole report


def test_this_machine():
    before = sum(os.times()[:4])
    report = doctor()
    assert sum(os.times()[:4]) - before < 2  # seconds of processor time, of the programs it asks, too
    assert [row.what for row in report][:3] == ["system", "Python", "packages"] and report["BLAS"].found
    assert all(row.found and row.status in ("ok", "missing", "warning") for row in report)
    assert all(row.costs for row in report if row.status != "ok")
    assert not any(row.costs or row.command for row in report if row.status == "ok")
    for text in (str(report), report._repr_html_()):
        assert str(Path.home()) not in text or len(str(Path.home())) < 2


def test_command(capsys):
    assert main(["doctor"]) == 0
    assert "BLAS" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"what", "found", "status", "costs", "command"} == set(rows[0])


def test_a_look_that_raises_or_hangs_costs_its_row_only(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere/ada")
    monkeypatch.setenv("USERPROFILE", "/somewhere/ada")
    looks = [
        ("well", lambda what: Row(what, "in /somewhere/ada/data")),
        ("broken", answers(RuntimeError("no"))),
        ("asleep", lambda what: time.sleep(5)),
    ]
    well, broken, asleep = examine(looks, deadline=0.2)
    assert well == Row("well", "in ~/data")
    assert (broken.found, broken.status) == ("unknown (RuntimeError)", "warning")
    assert (asleep.found, asleep.status) == ("no answer in time", "warning")


def test_text_and_html_of_the_three_kinds():
    Report = type(doctor())
    report = Report([Row("a", "1"), Row("b", "<2>", "missing", "time", "mend b"), Row("c", "3", "warning", "speed")])
    assert str(report).split("\n")[:4] == ["✓ a  1", "– b  <2>", "     costs: time", "     fix:   mend b"]
    assert "&lt;2&gt;" in report._repr_html_() and "<code>mend b</code>" in report._repr_html_()
    assert report.summary == "Worth a look: b." and Report([Row("a", "1")]).summary == "Nothing to fix."


# ------------------------------------------------------------------------------------------ compiled kernels


def test_kernels_that_have_a_place(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "made" / "later"))
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "later"))
    assert caches.compiled("compiled kernels").status == "ok" and list(tmp_path.iterdir()) == []


def test_kernels_that_have_no_place(monkeypatch, tmp_path):
    """A checkout and a home that cannot be written: a file is where the folder should be."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LLMC_CACHE", str(tmp_path / "file" / "cache"))
    row = caches.compiled("compiled kernels")
    assert row.status == "warning" and "CUDA" in row.costs and "LLMC_CACHE=" in row.command.replace('"', "")
    monkeypatch.setattr(caches.llmc, "__file__", str(tmp_path / "file" / "__init__.py"))
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file"))
    row = caches.compiled("compiled kernels")
    assert row.status == "warning" and "training" in row.costs and "NUMBA_CACHE_DIR" in row.command


def test_a_variable_that_numba_cannot_use(monkeypatch):
    monkeypatch.setattr(caches.numba_variables, "check", answers(UserError("NUMBA_OPT is 'x', which is wrong.")))
    monkeypatch.setenv("NUMBA_OPT", "x")
    row = equipment.training_blas("BLAS in training")
    assert "NUMBA_OPT is 'x'" in row.found and row.status == "warning" and "NUMBA_OPT" in row.command


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


# ------------------------------------------------------------------------------------------ BLAS


@pytest.mark.parametrize(
    "kernels, flags, slow",
    [
        ("Haswell", ZEN4, True),
        ("SkylakeX", ZEN4, False),
        ("Nehalem", {"avx", "avx2"}, True),
        ("Haswell", {"avx", "avx2"}, False),
        ("Haswell", {"avx", "avx2", "avx512f"}, False),  # half an AVX-512 is none that OpenBLAS can use
        ("NeoverseN1", {"asimd"}, False),
        ("OfNextYear", ZEN4, False),
    ],
)
def test_kernels_beside_the_cpu(kernels, flags, slow, fake):
    fake(openblas, build=("openblas", "0.3"), loaded=(kernels, 2))
    fake(facts, cpu_flags=flags, cores=(2, 2))
    row = diagnoses.blas("BLAS")
    assert row.status == ("warning" if slow else "ok") and kernels in row.found


def test_avx512_cpu_with_haswell_kernels(fake, monkeypatch):
    fake(openblas, build=("scipy-openblas", "0.3"), loaded=("Haswell", 2))
    fake(facts, cpu_flags=ZEN4, cores=(2, 2))
    monkeypatch.setattr(sys, "platform", "linux")
    row = diagnoses.blas("BLAS")
    assert "AVX-512" in row.costs and row.command == "export OPENBLAS_CORETYPE=SkylakeX"
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    row = diagnoses.blas("BLAS")
    assert "OPENBLAS_CORETYPE" in row.costs and row.command == "unset OPENBLAS_CORETYPE"
    monkeypatch.setattr(sys, "platform", "win32")
    assert diagnoses.blas("BLAS").command == "Remove-Item Env:OPENBLAS_CORETYPE"


@pytest.mark.parametrize(
    "name, status", [("accelerate", "ok"), ("mkl-sdl", "ok"), ("scipy-openblas", "ok"), ("", "missing")]
)
def test_no_openblas(name, status, fake):
    fake(openblas, build=(name, "1"), loaded=None)
    row = diagnoses.blas("BLAS")
    assert row.status == status and (name in row.found if name else "numpy" in row.command)


def test_threads_held_back_by_a_variable(fake, monkeypatch):
    fake(openblas, build=("openblas", "0.3"), loaded=("SkylakeX", 1))
    fake(facts, cpu_flags=ZEN4, cores=(8, 8))
    assert diagnoses.blas("BLAS").status == "ok"  # no variable: OpenBLAS has its reasons
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    row = diagnoses.blas("BLAS")
    assert row.costs == "matrix products use 1 of 8 cores" and row.command.endswith("OMP_NUM_THREADS")


@pytest.mark.skipif("openblas" not in openblas.build()[0] or sys.platform != "linux", reason="NumPy has another BLAS")
def test_the_loaded_library_answers_for_its_variable():
    code = "from llmc.course.machine import openblas; print(*openblas.loaded())"
    variables = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, cwd=ROOT
    )
    kernels, threads = run.stdout.split()
    assert threads == "1" and (
        kernels == "Haswell" or openblas.best_level(facts.cpu_flags()) not in ("AVX-512", "AVX2")
    )


# ------------------------------------------------------------------------------------------ compiler, GPU, CuPy


NONE = NoCompiler("there is none")


def test_no_compiler(fake, monkeypatch):
    monkeypatch.delenv("LLMC_CXX", raising=False)
    fake(toolchain, find=NONE)
    for platform, words in {"darwin": "xcode-select --install", "win32": "wsl", "linux": "sudo dnf"}.items():
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(advice.shutil, "which", lambda name: name == "dnf")
        row = diagnoses.compiler("C++ compiler")
        assert row.status == "missing" and row.command.startswith(words)
        assert ("pip install ziglang" in row.costs) == (platform != "win32")
    monkeypatch.setattr(advice.shutil, "which", lambda name: None)
    assert diagnoses.compiler("C++ compiler").command.endswith("-m pip install ziglang")


def test_a_compiler_that_is_wished_for_and_not_there(fake, monkeypatch):
    monkeypatch.setenv("LLMC_CXX", "g++-99")
    fake(toolchain, find=NONE)
    row = diagnoses.compiler("C++ compiler")
    assert "g++-99" in row.found and row.command == "unset LLMC_CXX"


@pytest.mark.parametrize("program, there", [("/usr/bin/c++", False), ("/opt/homebrew/bin/g++-14", True)])
def test_compiler_does_not_wake_the_dialog_of_macos(program, there, fake, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    fake(facts, ask=subprocess.CalledProcessError(2, "xcode-select"))
    fake(toolchain, find=toolchain.Toolchain((program,), True, ""))
    assert bool(facts.compiler()) == there


@pytest.mark.parametrize(
    "command, found",
    [
        (("/somewhere/ada/bin/g++-14",), "g++-14"),
        (("/a/bin/python3", "-m", "ziglang", "c++"), "python3 -m ziglang c++"),
    ],
)
def test_compiler_shows_no_path(command, found, fake):
    fake(toolchain, find=toolchain.Toolchain(command, False, ""))
    assert diagnoses.compiler("C++ compiler").found == found


@pytest.mark.parametrize(
    "answer, found, status",
    [
        ("NVIDIA H200, 143771, 570.86.15", "NVIDIA H200, 140 GiB", "ok"),
        ("NVIDIA L4, 23034, 580.1\nNVIDIA L4, 23034, 580.1", "2 × NVIDIA L4, 22 GiB", "ok"),
        ("NVIDIA GB10, [N/A], 580.95", "NVIDIA GB10", "ok"),
        ("", "no NVIDIA GPU", "missing"),
        ("No devices were found", "nvidia-smi does not", "warning"),
        ("NVIDIA L4, many, new", "nvidia-smi does not", "warning"),
        (subprocess.CalledProcessError(9, "nvidia-smi"), "nvidia-smi does not", "warning"),
        (subprocess.TimeoutExpired("nvidia-smi", 4), "nvidia-smi does not", "warning"),
    ],
)
def test_gpu(answer, found, status, fake):
    fake(facts, ask=answer)
    fake(facts.shutil, which="nvidia-smi")
    row = diagnoses.gpu("GPU")
    assert row.found.startswith(found) and row.status == status
    assert equipment.cupy("CuPy").what == "CuPy"


@pytest.mark.parametrize(
    "installed, mpirun, status, words",
    [
        ({}, None, "missing", ""),
        ({"mpi4py": "4.1"}, "/bin/mpirun", "ok", ""),
        ({"mpi4py": "4.1"}, None, "warning", "install mpich"),
        ({}, "/bin/mpirun", "warning", "install mpi4py"),
    ],
)
def test_mpi(installed, mpirun, status, words, fake, monkeypatch):
    fake(several.shutil, which=mpirun)
    monkeypatch.setattr(several, "_version", installed.get)
    row = several.mpi("MPI")
    assert row.status == status and words in row.command and bool(words) == bool(row.command)


@pytest.mark.parametrize(
    "gpus, installed, status, words",
    [
        (0, {}, "missing", ""),
        (1, {}, "missing", ""),
        (2, {"cupy-cuda12x": "14.2"}, "missing", "install nvidia-nccl-cu12"),
        (2, {}, "missing", "install nvidia-nccl-cu13"),
        (2, {"nvidia-nccl-cu13": "2.28"}, "ok", ""),
        (ValueError("driver"), {}, "missing", ""),
    ],
)
def test_nccl(gpus, installed, status, words, fake, monkeypatch):
    fake(facts, gpus=gpus if isinstance(gpus, Exception) else [("NVIDIA H200", 139.8, 580)] * gpus)
    fake(several.ctypes.util, find_library=None)
    monkeypatch.setattr(several, "_version", installed.get)
    row = several.nccl("NCCL")
    assert row.status == status and words in row.command and bool(words) == bool(row.command)


def test_no_driver(fake):
    fake(facts.shutil, which=None)
    assert diagnoses.gpu("GPU").status == "missing"


@pytest.mark.parametrize(
    "driver, installed, status, words",
    [
        (0, {}, "missing", ""),
        (580, {}, "missing", "install 'cupy-cuda13x[ctk]>=14'"),
        (550, {}, "missing", "install 'cupy-cuda12x[ctk]>=14'"),
        (470, {}, "missing", ""),
        (550, {"cupy-cuda12x": "14.0.1"}, "ok", ""),
        (550, {"cupy-cuda13x": "14.0.1"}, "warning", "uninstall cupy-cuda13x"),
        (550, {"cupy-cuda12x": "13.6.0"}, "warning", "install 'cupy-cuda12x[ctk]>=14'"),
        (0, {"cupy": "14.0.1"}, "ok", ""),
    ],
)
def test_cupy(driver, installed, status, words, fake, monkeypatch):
    fake(facts, gpus=[("NVIDIA L4", 22.5, driver)] if driver else [])
    monkeypatch.setattr(equipment, "_version", installed.get)
    row = equipment.cupy("CuPy")
    assert row.status == status and words in row.command and bool(words) == bool(row.command)


@pytest.mark.parametrize(
    "driver, installed, forced, found, status",
    [
        (0, {}, "", "on the emulator: no GPU here", "ok"),
        (580, {}, "", "on the emulator: no CuPy here", "ok"),
        (550, {"cupy-cuda13x": "14.0.1"}, "", "on the emulator: an old driver here", "ok"),
        (580, {"cupy-cuda13x": "14.0.1"}, "", "on the GPU, with cupy-cuda13x", "ok"),
        (580, {"cupy-cuda13x": "14.0.1"}, "gpu", "on the GPU, with cupy-cuda13x", "ok"),
        (580, {"cupy-cuda13x": "14.0.1"}, "emulator", "on the emulator, because LLMC_DEVICE says so", "warning"),
        (0, {}, "emulator", "on the emulator: no GPU here", "ok"),
        (0, {}, "gpu", "on no device: no GPU, and LLMC_DEVICE is gpu", "warning"),
        (0, {}, "cuda", "on no device: LLMC_DEVICE is cuda", "warning"),
    ],
)
def test_where_kernels_run(driver, installed, forced, found, status, fake, monkeypatch):
    fake(facts, gpus=[("NVIDIA L4", 22.5, driver)] if driver else [])
    monkeypatch.setattr(equipment, "_version", installed.get)
    monkeypatch.setenv("LLMC_DEVICE", forced)
    row = equipment.kernels("CUDA kernels")
    assert (row.found, row.status) == (found, status) and bool(row.command) == (status == "warning")


# ------------------------------------------------------------------------------------------ cores, memory, packages


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


def test_memory_of_macos(fake, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    fake(facts, ask="17179869184")
    assert facts.memory() == 2**34
    fake(facts, ask="damaged")
    assert [row.found for row in examine([("memory", diagnoses.memory)])] == ["unknown (ValueError)"]


def test_flags_of_a_cpu_that_linux_does_not_describe(fake, monkeypatch):
    monkeypatch.setattr(facts.Path, "read_text", answers(FileNotFoundError()))
    assert all(flag == flag.lower() for flag in facts.cpu_flags())


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(equipment, "_version", lambda name: None if name == "numba" else "1.0")
    row = equipment.packages("packages")
    assert row.status == "missing" and "not installed: numba" in row.found and row.command.endswith("pip install numba")


def test_a_folder_that_was_moved_or_copied_after_the_installation(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT / "llmc")
    assert equipment.python("Python").status == "ok"
    (tmp_path / "copied" / "solutions").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "copied")
    row = equipment.python("Python")
    assert row.status == "warning" and "moved or copied" in row.costs and row.command.endswith("install -e .")


# ------------------------------------------------------------------------------------------ files


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
    assert equipment.tokens("tokens").status == "missing"
    # The names under which tiktoken keeps vocab.bpe and encoder.json
    (tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee").write_bytes(bytes(456_318))
    (tmp_path / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6").write_bytes(bytes(1_042_300))
    assert equipment.tokens("tokens").status == "missing"  # cut short: tiktoken would fetch it again
    (tmp_path / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6").write_bytes(bytes(1_042_301))
    assert equipment.tokens("tokens") == Row("tokens", "in tiktoken's cache")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert equipment.tokens("tokens").status == "warning"
