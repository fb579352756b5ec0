"""`llmc lab`: open JupyterLab in the learner's copy of the course, or in the checkout; its terminals can run `llmc`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from llmc.errors import UserError
from llmc.files.reading import folder_path
from llmc.terminal import path_variable, pip

FIRST = "00_start_here.ipynb"
COPY = "my-course"


def add_arguments(parser):
    """The arguments of `llmc lab`, for an argparse parser."""
    parser.usage = "llmc lab [-h] [FOLDER] [-- JUPYTERLAB'S OPTIONS]"
    about = "your copy of the course, or . for the checkout (default: the copy that is found, or a new one)"
    parser.add_argument("words", metavar="FOLDER", nargs="*", help=about)


def run(args) -> int:
    """Replace this process with JupyterLab; on Windows, wait for it and return its exit status."""
    from llmc.course.exercises import layout, own_files

    if find_spec("jupyterlab") is None:
        raise UserError(f"JupyterLab is not installed; run `{pip('install', 'jupyterlab')}`.")
    root, options = own_files.course(), list(args.words)
    if not options or options[0].startswith("-"):
        copy = layout.own_copy() or _new_copy(root)
    elif (copy := folder_path(options.pop(0))) == root:
        copy = None
    else:
        own_files.read_state(copy)  # raises where it is no copy
    if copy:
        _bring_up_to_date(copy, root)
    return _become_jupyterlab(command(root, copy, options))


def _new_copy(root) -> Path | None:
    """Unasked, because `git pull` fails once lessons have been run in a checkout; None if somebody works there."""
    from llmc.course.exercises.own_folder import start
    from llmc.course.learner import journal

    if journal.read(journal.progress_file())["worked"]:
        return None
    print(f"Making {COPY}, your copy of the course; this takes a few seconds.", flush=True)
    print("\n".join(start(root / COPY, root)[:-1]), flush=True)
    return root / COPY


def _bring_up_to_date(copy, root):
    """Merge what `git pull` has changed since; a notebook that cannot be merged must not keep the lab from opening."""
    from llmc.course.exercises import own_files, own_folder

    try:
        if own_files.read_state(copy)["course"] != own_files.course_digest(root):
            print("\n".join(own_folder.update(copy, root)), flush=True)
    except UserError as error:
        print(f"llmc: {error}", file=sys.stderr, flush=True)


def command(root, copy, options) -> list[str]:
    """JupyterLab's command line, with the page to open first, and a root folder that holds both copy and checkout."""
    folder = copy or root / "notebooks"
    top = Path(os.path.commonpath([folder, root]))
    top = folder if top == Path(top.anchor) else top
    page = quote((folder / FIRST).relative_to(top).as_posix())
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={top}"]
    words += [f"--LabApp.default_url=/lab/tree/{page}", "--LabApp.news_url=None"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; JupyterLab only listens on this machine
        words.append("--allow-root")
    if os.name != "nt" and os.environ.get("SHELL"):  # not a login shell, which on many systems sets a PATH of its own
        words.append(f"--ServerApp.terminado_settings={{'shell_command': [{os.environ['SHELL']!r}]}}")
    return [*words, *options]


def _become_jupyterlab(words) -> int:
    environment = {**os.environ, "PATH": path_variable()}
    if os.name != "nt":
        sys.stdout.flush()
        os.execve(words[0], words, environment)
    try:
        return subprocess.run(words, env=environment).returncode
    except KeyboardInterrupt:  # JupyterLab has seen it too, and asks whether to stop
        return 0
