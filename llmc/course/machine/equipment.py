"""The doctor's rows about what is installed and prepared: versions, packages, CuPy, disk, corpora, GPT-2's tokens."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from llmc.course.exercises.layout import MARKER
from llmc.course.machine import caches, facts
from llmc.course.machine.advice import Row, unset_variables
from llmc.errors import UserError
from llmc.terminal import llmc_command, pip, python_command

GiB = 2**30
ENOUGH_DISK = 1 * GiB  # a corpus and a run take a fraction of it
PACKAGES = {  # package -> what stops without it; without NumPy nothing would run at all
    "matplotlib": "every figure",
    "tiktoken": "training and sampling",
    "numba": "the compiled CPU kernels",
    "scipy": "the CPU kernels, whose BLAS comes with it",
    "jupyterlab": "the lessons",
}
CUPY = {"cupy-cuda13x": 580, "cupy-cuda12x": 525, "cupy": 525}  # package -> major version of the driver that it needs
CUPY_MAJOR = 14  # the first with bfloat16
BFLOAT16 = {"amx_bf16", "avx512_bf16"}  # instructions that multiply it
GPT2_FILES = (
    "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"  # where tiktoken has GPT-2's tokens from
)
GPT2_SIZES = {"vocab.bpe": 456_318, "encoder.json": 1_042_301}  # bytes; tiktoken fetches a damaged one again


def python(what) -> Row:
    """The interpreter, and the llmc that it imports; a warning when that is not the one in the folder we are in."""
    from llmc import __version__

    found = f"{platform.python_version()}, llmc {__version__}"
    if not _is_elsewhere():
        return Row(what, found)
    costs = "this folder was moved or copied after the installation: the course that runs is in another folder"
    return Row(what, f"{found}, from another folder", "warning", costs, pip("install", "-e", "."))


def _is_elsewhere() -> bool:
    """Are we in a checkout, not a learner's copy, whose llmc is not the one that was imported?"""
    around = Path.cwd(), *Path.cwd().parents
    roots = [place for place in around if (place / "solutions").is_dir() and not (place / MARKER).exists()]
    return bool(roots) and roots[0].resolve() != Path(__file__).resolve().parents[3]


def packages(what) -> Row:
    """Versions of the packages that llmc needs, and those that are missing."""
    versions = {name: _version(name) for name in ("numpy", *PACKAGES)}
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    gone = [name for name, version in versions.items() if not version and name in PACKAGES]
    if not gone:
        return Row(what, found)
    costs = ", ".join(PACKAGES[name] for name in gone)
    return Row(what, f"{found}; not installed: {', '.join(gone)}", "missing", costs, pip("install", *gone))


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cupy(what) -> Row:
    """CuPy's version, from its metadata: importing CuPy takes seconds."""
    driver = _driver()
    here = next(((name, version) for name in CUPY if (version := _version(name))), None)
    fitting = next((name for name, needed in CUPY.items() if driver >= needed), "")
    install = pip("install", f"{fitting}[ctk]>={CUPY_MAJOR}", "ml_dtypes>=0.5") if fitting else ""
    if here is None:
        costs = "the GPU stays idle" + f"; CuPy needs driver {min(CUPY.values())} or newer" * (not fitting)
        return Row(what, "not installed", "missing", costs if driver else "nothing on a machine without a GPU", install)
    name, version = here
    if driver and driver < CUPY[name]:
        costs = f"the GPU stays idle: {name} needs driver {CUPY[name]} or newer, and this is {driver}"
        return Row(what, f"{name} {version}", "warning", costs, pip("uninstall", name))
    if driver and int(version.split(".")[0]) < CUPY_MAJOR:
        return Row(what, f"{name} {version}", "warning", f"no bfloat16, which begins with CuPy {CUPY_MAJOR}", install)
    return Row(what, f"{name} {version}")


def _driver() -> int:
    """Major version of NVIDIA's driver; 0 for none that answers."""
    try:
        return max((driver for _, _, driver in facts.gpus()), default=0)
    except (ValueError, OSError, subprocess.SubprocessError):
        return 0


def kernels(what) -> Row:
    """Where llmc.cuda would run kernels, and why: from the same facts, without importing CuPy."""
    driver, forced = _driver(), os.environ.get("LLMC_DEVICE", "")
    here = next((name for name in CUPY if _version(name)), None)
    lacking = "no GPU" if not driver else "no CuPy" if not here else "an old driver" if driver < CUPY[here] else ""
    if forced not in ("", "gpu", "emulator") or (forced == "gpu" and lacking):
        why = f"{lacking}, and LLMC_DEVICE is gpu" if forced == "gpu" else f"LLMC_DEVICE is {forced}"
        unset = unset_variables("LLMC_DEVICE")
        return Row(what, f"on no device: {why}", "warning", "every kernel stops with an error", unset)
    if forced == "emulator" and not lacking:
        found = "on the emulator, because LLMC_DEVICE says so"
        return Row(what, found, "warning", "the GPU stays idle", unset_variables("LLMC_DEVICE"))
    return Row(what, f"on the emulator: {lacking} here" if lacking else f"on the GPU, with {here}")


def disk(what) -> Row:
    """Free space in the place where corpora are kept."""
    from llmc.data import data_home

    home = data_home().absolute()
    free = shutil.disk_usage(next(place for place in (home, *home.parents) if place.is_dir())).free
    found = f"{free / GiB:.{0 if free > 9.5 * GiB else 1}f} GiB free"
    if free >= ENOUGH_DISK:
        return Row(what, found)
    return Row(what, found, "warning", "a corpus or a run may not fit", pip("cache", "purge"))


def training_blas(what) -> Row:
    """The BLAS of the "cpu" backend, which is not NumPy's."""
    if wrong := caches.wrong_variable(what):
        return wrong
    from llmc.backends.cpu import blas

    found = blas.description()
    if found.startswith("mkl") or not blas.is_intel() or os.environ.get("LLMC_BLAS"):
        return Row(what, found)
    costs = "a large model trains about a sixth slower than with Intel's MKL (a download of 280 MB)"
    return Row(what, found, "missing", costs, pip("install", "mkl"))


def training_bfloat16(what) -> Row:
    """What multiplies 16-bit numbers in the "cpu" backend."""
    if wrong := caches.wrong_variable(what):
        return wrong
    from llmc.backends.cpu import matmul_bfloat16, onednn

    if onednn.multiplies_bfloat16():
        return Row(what, f"multiplied by the processor's own instructions, with {matmul_bfloat16.description()}")
    if not facts.cpu_flags() & BFLOAT16:
        return Row(what, "multiplied as float32: this processor has no instructions for it, so bf16 saves only memory")
    found = "multiplied as float32, though this processor has instructions for it"
    costs = "training with --precision bf16 is no faster than with fp32 (a download of 39 MB)"
    return Row(what, found, "missing", costs, pip("install", onednn.WHEEL))


def corpora() -> list[str]:
    """pydocs, and the other corpora that are prepared here: nobody needs all of them."""
    from llmc.data import prepared

    return ["pydocs", *(name for name in prepared() if name != "pydocs")]


def corpus(what, name) -> Row:
    """Is this corpus prepared, and are its files whole?"""
    from llmc.data import Corpus, count_tokens, data_home

    files, prepare = Corpus.in_folder(data_home() / name), llmc_command("data", name)
    if files.missing:
        found = "incomplete" if len(files.missing) < len(files.files) else "not prepared"
        return Row(what, found, "later", "ten to thirty seconds when training first needs it", prepare)
    try:
        train, val = count_tokens(files.train), count_tokens(files.val)
    except UserError:
        return Row(what, "damaged", "warning", "training on it stops with an error", prepare)
    return Row(what, f"{train:,} tokens to train on, {val:,} to validate")


def tokens(what) -> Row:
    """The two files that tiktoken keeps for "gpt2", under the SHA-1 of their address."""
    default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not folder:
        name = next(name for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR") if name in os.environ)
        costs = "1.5 MB from the network each time GPT-2's own tokens are used"
        return Row(what, f"not cached: {name} is empty", "warning", costs, unset_variables(name))
    paths = {Path(folder, hashlib.sha1((GPT2_FILES + name).encode()).hexdigest()): n for name, n in GPT2_SIZES.items()}
    if all(path.is_file() and path.stat().st_size == size for path, size in paths.items()):
        return Row(what, "in tiktoken's cache" + ", which is a temporary folder" * (folder == default))
    costs = "a download of 1.5 MB when GPT-2's own tokens are first used; training on pydocs does not need them"
    name = "'gpt2'" if sys.platform == "win32" else '"gpt2"'  # inside of the quotes of that system's shell
    fetch = python_command("-c", f"import tiktoken; tiktoken.get_encoding({name})")
    return Row(what, "not in tiktoken's cache", "later", costs, fetch)
