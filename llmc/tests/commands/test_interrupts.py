"""Ctrl-C before a command has begun."""

import os
import signal
import subprocess
import sys
import time

import pytest

import llmc

PATIENCE = 300  # seconds for what a busy machine does in time; on a quiet one nothing waits so long
SLOW = """import pathlib, time
pathlib.Path(__file__).with_name("begun").touch()
try:
    time.sleep({patience})
except BaseException as error:
    raise ImportError("this library says it in its own way") from error
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("library", ["argparse", "numpy"])  # cli.py imports one, the command the other
def test_ctrl_c_during_an_import_is_one_sentence_and_130(tmp_path, monkeypatch, library):
    (tmp_path / f"{library}.py").write_text(SLOW.format(patience=PATIENCE))
    root = os.path.dirname(os.path.dirname(llmc.__file__))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), root]))
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=tmp_path)
    process = subprocess.Popen([sys.executable, "-m", "llmc", "train"], **pipes)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not (tmp_path / "begun").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == ("", "llmc: interrupted.\n") and process.returncode == 130
