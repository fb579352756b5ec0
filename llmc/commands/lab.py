"""`llmc lab`: JupyterLab on the learner's copy of the course, or on the checkout; its terminals find `llmc`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from llmc.errors import UserError
from llmc.files.reading import folder_path, user_path
from llmc.terminal import path_variable, pip

FIRST = "00_start_here.ipynb"
COPY = "my-course"
OFFER = f"""Would you like to work in a copy of the course of your own? Your answers stay there when the course changes.
A name for its folder, or n to work in the checkout itself [{COPY}]: """


def add_arguments(parser):
    """The arguments of `llmc lab`, for an argparse parser."""
    parser.usage = "llmc lab [-h] [FOLDER] [-- JUPYTERLAB'S OPTIONS]"
    parser.add_argument("words", metavar="FOLDER", nargs="*", help="your copy of the course (default: the one found)")


def run(args) -> int:
    """Become JupyterLab; on Windows, wait for it and return its exit status."""
    from llmc.course.exercises import layout, own_files

    if find_spec("jupyterlab") is None:
        raise UserError(f"JupyterLab is not installed; run `{pip('install', 'jupyterlab')}`.")
    root, options = own_files.course(), list(args.words)
    if options and not options[0].startswith("-"):
        copy = folder_path(options.pop(0))
        own_files.read_state(copy)  # raises where it is no copy
    else:
        copy = layout.own_copy() or _offered(root)
    if copy:
        _bring_up_to_date(copy, root)
    return _become_jupyterlab(command(root, copy, options))


def _offered(root) -> Path | None:
    """A new copy, or None for somebody who wants none, or has begun to work in the checkout.

    Where nobody sits at a terminal it is made unasked, because `git pull` stops at lessons that were run in a checkout.
    """
    from llmc.course.exercises.own_folder import start
    from llmc.course.learner import journal

    if journal.read(journal.progress_file())["worked"]:
        return None
    answer = COPY
    if sys.stdin.isatty() and sys.stdout.isatty():
        try:
            answer = input(OFFER).strip() or COPY
        except EOFError:
            return None
    if answer.lower() in ("n", "no"):
        return None
    copy = root / user_path(answer)
    print("\n".join(start(copy, root)[:-1]), flush=True)
    return copy


def _bring_up_to_date(copy, root):
    """What `git pull` has brought to the checkout since; a notebook that cannot be merged is no reason not to start."""
    from llmc.course.exercises import own_files, own_folder

    try:
        if own_files.read_state(copy)["course"] != own_files.course_digest(root):
            print("\n".join(own_folder.update(copy, root)), flush=True)
    except UserError as error:
        print(f"llmc: {error}", file=sys.stderr, flush=True)


def command(root, copy, options) -> list[str]:
    """JupyterLab's command line, with the lessons' first page, and a root from which copy and checkout can be seen."""
    folder = copy or root / "notebooks"
    top = Path(os.path.commonpath([folder, root]))
    top = folder if top == Path(top.anchor) else top
    page = quote((folder / FIRST).relative_to(top).as_posix())
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={top}"]
    words.append(f"--LabApp.default_url=/lab/tree/{page}")
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
