"""Where the files of the course lie: in the checkout, and in the learner's own copy to work in.

    checkout                        copy (`llmc start my-course`)
    notebooks/01_layernorm.ipynb    01_layernorm.ipynb
    notebooks/images/loss.png       images/loss.png
    exercises/01_layernorm.ipynb    exercises/exercise_01_layernorm.ipynb
    solutions/01_layernorm.ipynb    solutions/solution_01_layernorm.ipynb

A JupyterLab tab shows nothing but a file's name, and cuts off its end: hence the words in front.
"""

import os
from pathlib import Path, PurePosixPath
from urllib.parse import quote

MARKER = ".llmc-course.json"  # the file that marks a learner's copy; what is in it: own_files.py
FOLDERS = {"notebooks": ("", ""), "exercises": ("exercises", "exercise_"), "solutions": ("solutions", "solution_")}
FOR_LESSONS = ("images", "reference")  # folders in notebooks/ that lessons read from
FOR_ASSISTANTS = "AGENTS.md"


def checkout() -> Path | None:
    """The folder that holds `solutions/`: the source checkout llmc runs from, else one above the current folder."""
    places = [Path(__file__).resolve().parents[3], Path.cwd(), *Path.cwd().parents]
    return next((place for place in places if (place / "solutions").is_dir() and not (place / MARKER).exists()), None)


def own_copy() -> Path | None:
    """The learner's copy: the one that the current folder is in, else the newest one in the checkout.

    None in the checkout's own folders, notebooks/ and the like, where one sees the checkout.
    """
    here, root = Path.cwd(), checkout()
    around = next((place for place in (here, *here.parents) if (place / MARKER).is_file()), None)
    if around or root is None or root in here.parents:
        return around
    markers = sorted(root.glob(f"*/{MARKER}"), key=lambda path: path.stat().st_mtime)
    return markers[-1].parent if markers else None


def place_in_copy(path: PurePosixPath) -> PurePosixPath | None:
    """Where a file of the checkout lies in a copy, both relative to their roots; None for a file that copies lack."""
    if path == PurePosixPath("exercises", FOR_ASSISTANTS):
        return PurePosixPath(FOR_ASSISTANTS)
    folder, *rest = path.parts or ("",)
    if folder in FOLDERS and len(rest) == 1 and path.suffix == ".ipynb":
        where, prefix = FOLDERS[folder]
        return PurePosixPath(where, prefix + path.name)
    if folder == "notebooks" and len(rest) > 1 and rest[0] in FOR_LESSONS:
        return PurePosixPath(*rest)
    return None


def notebook(kind: str, lesson: str) -> Path | None:
    """The "notebooks", "exercises" or "solutions" file of a lesson: the learner's, else the checkout's, else None."""
    inside, root, own = PurePosixPath(kind, f"{lesson}.ipynb"), checkout(), own_copy()
    paths = [own / place_in_copy(inside) if own else None, root / inside if root else None]
    return next((path for path in paths if path and path.is_file()), None)


def lessons(kind: str) -> list[str]:
    """The lessons that have such a notebook, in the checkout or else in the learner's copy: ["00_start_here", …]."""
    root, own = checkout(), own_copy()
    folder, prefix = (kind, "") if root else FOLDERS[kind]
    paths = sorted(((root or own) / folder).glob(f"{prefix}[0-9][0-9]_*.ipynb")) if root or own else []
    return [path.stem.removeprefix(prefix) for path in paths]


def from_here(path: Path) -> str:
    """The path as seen from the current folder, with "/" on every system."""
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # on another drive of a Windows machine
        return path.as_posix()


def path_from_here(kind: str, lesson: str) -> str:
    """The path of a lesson's notebook, as in `notebook`; its place in the checkout where there is no such file."""
    return from_here(notebook(kind, lesson) or Path(kind, f"{lesson}.ipynb"))


def link(path: str, cell=None) -> str:
    """The target of a link to a notebook, which JupyterLab opens and scrolls to that cell."""
    return quote(path) + (f"#cell-id={quote(cell)}" if cell else "")
