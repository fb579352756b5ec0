"""A row of the doctor's table, and the commands in its last column: what a reader types in a shell at the checkout."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

COMPILERS = {  # package manager -> how it installs a C++ compiler
    "apt-get": "sudo apt-get install g++",
    "dnf": "sudo dnf install gcc-c++",
    "pacman": "sudo pacman -S gcc",
    "zypper": "sudo zypper install gcc-c++",
    "apk": "sudo apk add g++",
}


@dataclass(frozen=True)
class Row:
    """What was looked at, what was found; status "ok", "missing" or "warning"; what that costs, and what mends it.

    costs and command are "" where all is well; command is "" too where no command helps.
    """

    what: str
    found: str
    status: str = "ok"
    costs: str = ""
    command: str = ""


def interpreter() -> str:
    """This interpreter as one types it in the checkout: ".venv/bin/python" for one that lies there."""
    from llmc.course.exercises.catalog import checkout

    root = checkout()
    try:
        return Path(os.path.abspath(sys.executable)).relative_to(root).as_posix()
    except (ValueError, TypeError):  # elsewhere, or there is no checkout
        return "python"


def pip(*words) -> str:
    """`pip` of this interpreter."""
    return f"{interpreter()} -m pip {' '.join(words)}"


def llmc_command(words) -> str:
    """`llmc` of this interpreter, whether it is on the PATH or not."""
    return f"{interpreter()} -m llmc {words}"


def set_variable(name, value) -> str:
    """For the shell from which llmc or Jupyter is started next; PowerShell on Windows."""
    return f'$env:{name}="{value}"' if sys.platform == "win32" else f"export {name}={value}"


def unset_variables(*names) -> str:
    """The opposite."""
    if sys.platform == "win32":
        return f"Remove-Item {','.join(f'Env:{name}' for name in names)}"
    return f"unset {' '.join(names)}"


def install_compiler() -> str:
    """ "" where we do not know how."""
    if os.environ.get("CONDA_PREFIX"):
        return "conda install -c conda-forge cxx-compiler"
    if sys.platform == "darwin":
        return "xcode-select --install"
    return next((command for name, command in COMPILERS.items() if shutil.which(name)), "")
