"""Importing has no effects: no process is started, no file is written or deleted, whichever module is imported."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.font_manager  # writes its list of fonts, if it has none yet: not while we watch
import pytest

ROOT = Path(__file__).resolve().parents[3]
PROCESSES = """subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty os.startfile
    pty.spawn""".split()
FILES = """os.mkdir os.rmdir os.remove os.rename os.link os.symlink os.truncate os.chmod os.chown os.utime os.setxattr
    shutil.rmtree tempfile.mkstemp tempfile.mkdtemp""".split()
WATCH = """
import importlib, json, os, sys

modules, processes, files, foreign = json.loads(sys.argv[1])
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
seen, now = [], None

def watch(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if (event in files or writes) and not str(arguments[0]).startswith((foreign, os.devnull)) or event in processes:
        seen.append(f"{now}: {event} {arguments[:2]}")

sys.addaudithook(watch)
for now in modules:
    importlib.import_module(now)
print("\\n" + json.dumps(seen))
"""


def modules():
    """The names of all modules of the package but its tests."""
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "llmc").rglob("*.py"))
    names = [path.with_suffix("").parts for path in files if path.parts[1] != "tests"]
    return [".".join(name[:-1] if name[-1] == "__init__" else name) for name in names]


def effects_of(names, cwd=ROOT):
    """What a fresh process starts, writes or deletes while it imports these modules, in words."""
    foreign = matplotlib.get_cachedir()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(cwd), "MPLCONFIGDIR": foreign}
    command = [sys.executable, "-c", WATCH, json.dumps([names, PROCESSES, FILES, foreign])]
    run = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_importing_any_module_has_no_effects():
    names = modules()
    assert {"llmc", "llmc.backends.cpu.matmul", "llmc.course.lessons.adamw.optimizer", "llmc.cuda.gpu"} <= set(names)
    assert effects_of(names) == []


FIRST = """
import importlib, json, sys

for name in json.loads(sys.argv[1]):
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("llmc.course")]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def test_a_notebook_may_import_any_of_its_modules_first():
    """Modules that import each other in a circle work only in one order."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "exercises").glob("*.ipynb")]
    names = sorted({name for text in texts for name in re.findall(r"from (llmc\.course\.[\w.]+) import", text)})
    assert "llmc.course.kernel_checks.check" in names
    run = subprocess.run([sys.executable, "-c", FIRST, json.dumps(names)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "line, event",
    [
        ("import subprocess, sys; subprocess.run([sys.executable, '-c', ''])", "subprocess.Popen"),
        ("import os; os.system('')", "os.system"),
        ("open('new', 'w')", "open"),
        ("import os; os.remove('old')", "os.remove"),
        ("import tempfile; tempfile.TemporaryFile(dir='.')", "open"),
    ],
)
def test_the_watch_sees_effects(tmp_path, line, event):
    (tmp_path / "old").touch()
    (tmp_path / "guilty.py").write_text(line)
    seen = effects_of(["guilty"], cwd=tmp_path)
    assert seen and all(words.startswith("guilty: ") for words in seen) and f": {event} " in seen[0]
