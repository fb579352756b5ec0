"""Printed commands can be pasted: spelled for the environment, seen from the reader's folder, quoted for the shell."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from llmc import terminal
from llmc.terminal import llmc_command, pip, python_command, shown

posix = pytest.mark.skipif(os.name == "nt", reason="how a POSIX shell quotes")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An environment `my course/.venv` with llmc in it, that nobody has activated; the reader is in `my course`."""
    scripts = tmp_path / "my course" / ".venv" / "bin"
    scripts.mkdir(parents=True)
    names = ("llmc.exe", "python.exe") if os.name == "nt" else ("llmc", "python")
    for name in names:
        (scripts / name).write_text("")
        (scripts / name).chmod(0o755)
    monkeypatch.setattr(terminal, "_scripts", lambda: scripts)
    monkeypatch.setattr(sys, "executable", str(scripts / names[1]))
    monkeypatch.setattr(sys, "prefix", str(scripts.parent))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_RUN_RECURSION_DEPTH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path / "my course")
    return scripts


@posix
def test_not_on_the_path_it_is_spelled_by_its_place(installed, monkeypatch):
    run = Path.cwd() / "runs" / "tiny"
    assert llmc_command("sample", run, "--prompt", "The ") == ".venv/bin/llmc sample runs/tiny --prompt 'The '"
    assert pip("install", "cupy-cuda13x[ctk]>=14") == ".venv/bin/python -m pip install 'cupy-cuda13x[ctk]>=14'"
    monkeypatch.chdir(installed.parents[2])
    assert llmc_command("train") == "'my course/.venv/bin/llmc' train"
    monkeypatch.chdir("/usr")
    assert shlex.split(llmc_command("sample", run)) == [str(installed / "llmc"), "sample", str(run)]


def test_on_the_path_it_is_llmc(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed))
    assert llmc_command("train") == "llmc train"


@posix
def test_somebody_elses_llmc_on_the_path_is_not_ours(installed, monkeypatch, tmp_path):
    (tmp_path / "llmc").write_text("")
    (tmp_path / "llmc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert llmc_command("train") == ".venv/bin/llmc train"


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_activated_environment_has_python(installed, monkeypatch, variable):
    monkeypatch.setenv(variable, str(installed.parent))
    assert python_command("-V") == "python -V"


@posix
def test_importable_but_not_installed(installed):
    (installed / "llmc").unlink()
    assert llmc_command("train") == ".venv/bin/python -m llmc train"


def test_by_uv(installed, monkeypatch):
    """`uv run` shows its process a PATH that the reader's shell does not have; a notebook's terminal does have it."""
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    monkeypatch.setenv("PATH", str(installed))
    assert (llmc_command("train"), python_command("-V")) == ("uv run llmc train", "uv run python -V")
    monkeypatch.setattr(terminal, "find_spec", lambda name: None)
    assert pip("install", "torch") == "uv pip install torch"
    monkeypatch.setattr(terminal, "in_notebook", lambda: True)
    assert llmc_command("train") == "llmc train"


@posix
def test_a_path_below_home_begins_with_a_tilde(installed, monkeypatch):
    monkeypatch.setenv("HOME", str(installed.parents[2]))
    monkeypatch.chdir("/usr")
    assert llmc_command("train") == "~/'my course/.venv/bin/llmc' train"
    assert shown(installed) == str(installed)


@posix
@pytest.mark.parametrize("word", ["plain", "two words", "it's", "$HOME", "a;b", "cupy[ctk]>=14", "*"])
def test_a_shell_reads_back_what_was_meant(word):
    command = llmc_command("sample", word).removeprefix(llmc_command())
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["sample", word]


def test_windows_quotes(monkeypatch):
    monkeypatch.setattr(terminal.os, "name", "nt")
    assert [terminal._word(word) for word in ("runs\\tiny", "The ", "a>=1")] == ["runs\\tiny", '"The "', '"a>=1"']


def test_path_variable_puts_ours_first(installed):
    assert terminal.path_variable().split(os.pathsep)[:2] == [str(installed), "/usr/bin"]
