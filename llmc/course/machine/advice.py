"""A row of the doctor's table, and commands for its last column; those of llmc and pip are in llmc/terminal.py."""

import os
import shutil
import sys
from dataclasses import dataclass

COMPILERS = {  # package manager -> how it installs a C++ compiler
    "apt-get": "sudo apt-get install g++",
    "dnf": "sudo dnf install gcc-c++",
    "pacman": "sudo pacman -S gcc",
    "zypper": "sudo zypper install gcc-c++",
    "apk": "sudo apk add g++",
}


@dataclass(frozen=True)
class Row:
    """What was examined and found; status "ok", "missing" or "warning"; what that costs, and the command that fixes it.

    The status of something missing that comes by itself when it is needed is "later".
    costs and command are "" where all is well; command is also "" where no command helps.
    """

    what: str
    found: str
    status: str = "ok"
    costs: str = ""
    command: str = ""


def set_variable(name, value) -> str:
    """A line for the shell that llmc or Jupyter is started from; PowerShell on Windows."""
    return f'$env:{name}="{value}"' if sys.platform == "win32" else f"export {name}={value}"


def unset_variables(*names) -> str:
    """The opposite."""
    if sys.platform == "win32":
        return f"Remove-Item {','.join(f'Env:{name}' for name in names)}"
    return f"unset {' '.join(names)}"


def install_compiler() -> str:
    """The command that installs a C++ compiler here; "" where we know of none."""
    if os.environ.get("CONDA_PREFIX"):
        return "conda install -c conda-forge cxx-compiler"
    if sys.platform == "darwin":
        return "xcode-select --install"
    return next((command for name, command in COMPILERS.items() if shutil.which(name)), "")
