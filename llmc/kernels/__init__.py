"""The kernels of GPT-2: CUDA C in <layer>.cu, and next to it <layer>.py, which chooses grid and block and launches.

These files have what a step of training or sampling runs, on one device or another; the folder mixed has the same
layers for 16-bit numbers, and include has the texts that several .cu files share. Some layers have their fast versions
in .cu files of their own, which the same .py file launches. The folder ladder has what only the lessons run: the steps
that led here, from simple to clever, in files of the same names.

The same .cu file is compiled by NVRTC, through CuPy, where there is a GPU, and by the emulator's compiler where there
is none. Its header lists the versions of each kernel. The functions in the .py file have the signatures of the contract
(`llmc/backends/contract.py`), and, where there are several versions, one more argument: version, any of them.

Nothing here waits for the GPU, and nothing is allocated but scratch memory, once.
"""

import re
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path

from llmc import cuda
from llmc.flat_buffer import Scratch
from llmc.switches import switch

FOLDER = Path(__file__).parent
INCLUDE = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)
SOURCES = tuple(sorted(path.stem for path in FOLDER.glob("*.cu")))
LAYERS = (*(name for name in SOURCES if (FOLDER / f"{name}.py").exists()), "ladder")  # other sources are parts of one
STEPS = tuple(f"ladder/{path.stem}" for path in sorted(FOLDER.glob("ladder/*.cu")))


def source(layer: str, name: str = "") -> str:
    """The text of the file that has the kernel `name`, or any kernel, of a layer, with the texts that it includes."""
    return _text(file_of(layer, name))


def file_of(layer: str, name: str = "") -> Path:
    """<layer>.cu, or ladder/<layer>.cu if only that has the kernel `name`: source("layernorm", "layernorm_forward_v1").

    layer may also be a further file of a layer, "attention_flash", or one in the folder mixed, "mixed/encoder".
    """
    ours, step = FOLDER / f"{layer}.cu", FOLDER / "ladder" / f"{layer}.cu"
    if not step.exists() or ours.exists() and re.search(rf"\b{name}\(", ours.read_text(encoding="utf-8")):
        return ours
    return step


def _text(file):
    """With "../<layer>.cu", which the steps of a layer include, and each "<name>.cuh" of the folder include, put in."""

    def included(found):
        folder = file.parent if found[1].endswith(".cu") else FOLDER / "include"
        return _text(folder / found[1])

    return INCLUDE.sub(included, file.read_text(encoding="utf-8"))


INSTEAD = {}  # {"bias_backward": the version that this launcher takes unless told otherwise, if not its own}


def laddered(*steps):
    """For a launcher: these versions of its kernels are steps of a lesson, which `llmc.kernels.ladder` launches."""

    def with_steps(launcher):
        @wraps(launcher)
        def launch(*arguments, version=None, **named):
            version = version or INSTEAD.get(launcher.__name__)
            if version in steps:
                from llmc.kernels import ladder  # which builds on the launchers

                return getattr(ladder, launcher.__name__)(*arguments, version=version, **named)
            return launcher(*arguments, **named, **({} if version is None else {"version": version}))

        return launch

    return with_steps


def kernel(layer: str, name: str, defines: str = "", arch: str = ""):
    """The kernel `name` of a layer (see `file_of`), compiled at the first call: kernel("adamw", "adamw_update_v3").

    defines: macros that the file leaves to its caller, "HS=64". arch: the kind of GPU that it is for, "sm_90a", unless
    it is for any. For speed, launches are checked only if LLMC_CHECK=1.
    """
    function = _function(layer, name, defines, arch, cuda.device(), switch("LLMC_CHECK") is True)
    return function if _watcher is None else _Watched(name, function)


_watcher = None


@contextmanager
def watched(watcher):
    """Inside the block, watcher(name, launch) is called in place of every launch(), and makes it."""
    global _watcher
    _watcher = watcher
    try:
        yield
    finally:
        _watcher = None


def seen(name, launch):
    """launch(), or what the watcher makes of it: for launches that are not made by a kernel of ours."""
    return launch() if _watcher is None else _watcher(name, launch)


class _Watched:
    """A kernel whose launches go through the watcher."""

    def __init__(self, name, function):
        self.__dict__.update(_name=name, _function=function)

    def __call__(self, *arguments, **named):
        return _watcher(self._name, lambda: self._function(*arguments, **named))

    def __getattr__(self, name):
        return getattr(self._function, name)

    def __setattr__(self, name, value):
        setattr(self._function, name, value)


@cache
def _function(layer, name, defines, arch, device, check):
    return _module(file_of(layer, name), defines, arch, device, check).get_function(name)


@cache
def _module(file, defines, arch, device, check):
    options = ("-std=c++17", *([f"-arch={arch}"] if arch else []), *(f"-D{define}" for define in defines.split()))
    return cuda.RawModule(code=_text(file), options=options, check=check)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up: the number of blocks of b threads that cover a elements."""
    return -(-a // b)


_scratch = Scratch(lambda n, dtype: cuda.xp.empty(n, dtype))


def scratch(name: str, shape, dtype="float32"):
    """Memory where kernels run, with arbitrary contents: the same at every call with this name; it grows if it must."""
    return _scratch((name, cuda.device()), shape, dtype)


def free_scratch():
    """Free all scratch memory. Launches that were recorded must be forgotten, too."""
    _scratch.free()


def scratch_moves() -> int:
    """How many times scratch memory has had to grow: after that, launches recorded earlier would use freed memory."""
    return _scratch.moves
