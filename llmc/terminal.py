"""Commands that the reader of a message can paste: how to spell `llmc`, `pip` and paths in their terminal.

What works depends on how llmc was installed and started. In an activated environment, and in the terminals of
`llmc lab`, `llmc` is enough; after `make train` it is `.venv/bin/llmc`, with uv `uv run llmc`. Every message that
names a command gets it from here.
"""

import os
import re
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

PLAIN_ON_WINDOWS = re.compile(r"[\w:=,./\\+-]+")  # a word that neither cmd nor PowerShell would take apart


def llmc_command(*words) -> str:
    """The command `llmc` with these words, each a str or a Path: llmc_command("sample", Path("runs/tiny"))."""
    return " ".join([_llmc(), *map(_word, words)])


def python_command(*words) -> str:
    """The command that runs this interpreter with these words."""
    return " ".join([_python(), *map(_word, words)])


def pip(*words) -> str:
    """The command that runs this environment's `pip`; environments made by uv have no pip of their own."""
    return python_command("-m", "pip", *words) if find_spec("pip") else " ".join(["uv pip", *map(_word, words)])


def shown(path) -> str:
    """A path as the reader would type it: relative when it lies below the current folder."""
    path, here = Path(os.path.abspath(path)), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)


def path_variable() -> str:
    """The PATH on which a shell finds this environment's `llmc` first."""
    return os.pathsep.join(filter(None, [str(_scripts()), os.environ.get("PATH")]))


def in_notebook() -> bool:
    """Is this the kernel of a notebook?"""
    ipython = sys.modules.get("IPython")
    return getattr(ipython.get_ipython() if ipython else None, "kernel", None) is not None


def _scripts() -> Path:
    """Where this environment keeps its commands."""
    return Path(sysconfig.get_path("scripts"))


def _llmc() -> str:
    if _by_uv():
        return "uv run llmc"
    found, own = shutil.which("llmc"), shutil.which("llmc", path=str(_scripts()))
    if own is None:  # not installed, only importable
        return f"{_python()} -m llmc"
    return "llmc" if found and os.path.samefile(found, own) else _word(Path(own))


def _python() -> str:
    if _by_uv():
        return "uv run python"
    activated = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if activated and os.path.realpath(activated) == os.path.realpath(sys.prefix):
        return "python"
    return _word(Path(sys.executable))


def _by_uv() -> bool:
    """Did `uv run` start this process? Then its PATH is not that of the reader's shell, but JupyterLab's terminals have
    it."""
    return "UV_RUN_RECURSION_DEPTH" in os.environ and not in_notebook()


def _word(word) -> str:
    """Quoted for the shell if necessary; a path below the home folder begins with ~, which works in every shell."""
    text = shown(word) if isinstance(word, Path) else str(word)
    if os.name == "nt":
        return text if PLAIN_ON_WINDOWS.fullmatch(text) else f'"{text}"'
    home = os.path.expanduser("~").rstrip("/") + "/"
    if isinstance(word, Path) and len(home) > 1 and text.startswith(home):
        return "~/" + shlex.quote(text.removeprefix(home))
    return shlex.quote(text)
