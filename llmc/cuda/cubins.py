"""Kernels for one kind of GPU alone, such as "-arch=sm_90a": only these have Hopper's own instructions.

CuPy takes no -arch: it compiles for what all later GPUs have as well. So NVRTC is called directly; CuPy loads the code
from a file, which is kept where CuPy keeps its own.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from llmc.cuda.dialect import for_gpu, said_by_nvrtc

_sources = {}  # path of a file -> (code, options)


def wanted(options) -> bool:
    """Whether these options name a kind of GPU."""
    return any(option.startswith("-arch=") for option in options)


def compiled(code: str, options) -> str:
    """The path of the file with the machine code. Raises KernelError with the compiler's objection to the code."""
    from cupy.cuda import nvrtc

    key = hashlib.sha256("\0".join([code, *options, str(nvrtc.getVersion())]).encode()).hexdigest()
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")
    file = folder / f"llmc-{key[:32]}.cubin"
    if not file.exists():
        machine_code = _compile(nvrtc, code, options)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as written:
            written.write(machine_code)
        os.replace(written.name, file)  # in one go: another process may be looking for it
    _sources[str(file)] = code, options
    return str(file)


def source_of(path: str, name: str) -> tuple:
    """(code, name, options) of the kernel `name` in a file that `compiled` has made."""
    code, options = _sources[path]
    return code, name, options


def _compile(nvrtc, code, options) -> bytes:
    program = nvrtc.createProgram(for_gpu(code), "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*options, *_folders()))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise said_by_nvrtc(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)


def _folders() -> list[str]:
    """Where CuPy's compiler finds the headers of CUDA, such as cuda_bf16.h, and those of cuda::std, which it brings."""
    from cupy import __file__ as package
    from cupy.cuda import get_cuda_path

    own, toolkit = Path(package).parent / "_core" / "include", get_cuda_path()
    std = [each for each in own.glob("cupy/_cccl/**/cuda/std/cstdint") if "detail" not in each.parts]
    folders = [own, *(each.parents[2] for each in std[:1]), *([Path(toolkit, "include")] if toolkit else [])]
    return [f"-I{folder}" for folder in folders]
