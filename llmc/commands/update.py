"""`llmc update`: bring your copy and the checkout to the newest version of the course, and keep your answers."""

import subprocess
import sys

from llmc.errors import UserError
from llmc.files.reading import folder_path


def add_arguments(parser):
    """The arguments of `llmc update`, for an argparse parser."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", help="your copy of the course (default: the one that is found)"
    )
    parser.add_argument("--no-pull", action="store_true", help="skip `git pull`, and only bring your copy up to date")


def run(args) -> int:
    """Pull, then bring the copy up to date. Returns 0, or 2 if git could not pull; the copy is updated anyway."""
    from llmc.course.exercises import layout, own_files, own_folder, pulling

    copy = layout.own_copy() if args.folder is None else folder_path(args.folder)
    root = own_files.course()
    status, clone = 0, True
    try:
        clone = not args.no_pull and pulling.is_clone(root)
        if clone:
            print("\n".join(pulling.pull(root)), flush=True)
    except UserError as error:
        status = 2
        print(f"llmc: {error}", file=sys.stderr, flush=True)
    if clone:
        return (_bring_in_new_process(copy) if copy else 0) or status
    if copy is None:
        raise UserError(
            "there is nothing to update: there is neither a copy of the course here nor a git repository to pull."
        )
    print("\n".join(own_folder.update(copy)))
    return 0


def _bring_in_new_process(copy) -> int:
    """Update in a new process: the code on disk may now be newer than the code running here."""
    return subprocess.run([sys.executable, "-m", "llmc", "update", "--no-pull", str(copy)]).returncode
