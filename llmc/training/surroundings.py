"""What a run's last bits depend on, besides its settings and data: backend, threads, BLAS, processor, versions.

The same sum, split differently, is rounded differently. So a checkpoint records what computed it, and a run that
continues in different surroundings says so.
"""

from functools import partial
from importlib import import_module, metadata

import llmc

INSTRUCTIONS = ("avx512f", "avx2", "avx", "neon")  # widest first


def surroundings(backend, precision: str = "fp32", ranks: int = 1) -> dict:
    """{"backend": "cpu", "threads": 2, "BLAS": "openblas 0.3.30 (SkylakeX)", "processor": "znver3 (avx2)", …}."""
    found = {
        "backend": backend.name,
        "ranks": ranks,
        "processor": _processor(),
        "llmc": llmc.__version__,
        "numpy": metadata.version("numpy"),
    }
    found |= {"numpy": _of_numpy, "cpu": _of_cpu, "cuda": partial(_of_cuda, backend)}[backend.name]()
    return found | (_of_bfloat16() if (backend.name, precision) == ("cpu", "bf16") else {})


def differences(before: dict, now: dict) -> list[str]:
    """["threads 1 instead of 2"]: what has changed. Entries that are missing on one side are not compared."""
    return [f"{name} {now[name]} instead of {was}" for name, was in before.items() if now.get(name, was) != was]


def _processor():
    """ "znver3 (avx2)": the processor's type and its widest instructions, which a virtual machine may hide."""
    binding = import_module("llvmlite.binding")
    features = binding.get_host_cpu_features()
    return f"{binding.get_host_cpu_name()} ({next((name for name in INSTRUCTIONS if features.get(name)), 'basic')})"


def _of_numpy():
    """NumPy's own BLAS, and the number of threads it uses."""
    from threadpoolctl import ThreadpoolController

    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        if "numpy" in library.filepath:
            kernels = getattr(library, "architecture", None)
            name = f"{library.internal_api} {library.version}" + (f" ({kernels})" if kernels else "")
            return {"BLAS": name, "threads": library.num_threads}
    return {}  # one that threadpoolctl does not know, such as Apple's


def _of_cpu():
    """The BLAS that the kernels call, and the number of Numba's threads."""
    from llmc.backends.cpu import blas

    numba = import_module("numba")
    return {"BLAS": blas.description(), "threads": numba.get_num_threads(), "numba": numba.__version__}


def _of_bfloat16():
    """What multiplies bfloat16 on the CPU."""
    from llmc.backends.cpu import matmul_bfloat16

    return {"bfloat16": matmul_bfloat16.description()}


def _of_cuda(backend):
    """The GPU, or the emulator, which adds in the same order on any number of threads."""
    from llmc import cuda

    if cuda.device() == "emulator":
        return {"device": "emulator"}
    from llmc.kernels.mixed import attention_cudnn

    attention = attention_cudnn.description() if backend.attention == "cudnn" else "own"
    whose = {"attention": attention, "matmul": backend.matmul}
    return {"device": cuda.name_of_gpu(), "cupy": cuda.xp.__version__, **whose}
