"""One door to CUDA: kernels run on an NVIDIA GPU through CuPy, or on an emulator where there is none.

    from llmc.cuda import xp, RawKernel, asnumpy

    scale = RawKernel(code, "scale")
    scale((grid,), (block,), (x, np.float32(2), x.size))

The same lines work on both. `xp` is CuPy or NumPy; `device()` says where kernels run, `device("emulator")` decides it.
On the emulator every launch is checked unless check=False (or LLMC_CHECK=0): a kernel that does something wrong raises
KernelError, whose text says what went wrong, where, and what to do. `inspect` returns the report of any launch and
never raises because of what the kernel does.
"""

import numpy as np

from llmc.cuda.devices import device, name_of_gpu, number_of_gpus, reason
from llmc.errors import KernelError

__all__ = [  # xp comes from __getattr__
    "KernelError",
    "RawKernel",
    "RawModule",
    "asarray",
    "asnumpy",
    "asnumpy_later",
    "device",
    "empty",
    "free_memory",
    "inspect",
    "name_of_gpu",
    "number_of_gpus",
    "overwrite",
    "reason",
    "synchronize",
    "tensor_map",
    "xp",
]


def __getattr__(name):
    if name != "xp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if device() == "emulator":
        return np
    import cupy

    return cupy


def RawKernel(code: str, name: str, options=(), *, check: bool | None = None, **of_cupy):
    """A kernel in the text `code`, called as k((gx, gy, gz), (bx, by, bz), (args...), shared_mem=bytes).

    name: an extern "C" __global__ function.
    options: NVRTC's, a tuple of strings.
    check: on the emulator None means what LLMC_CHECK says, or else True.

    On a GPU the kernel is CuPy's own; with check=True each launch is tried on the
    emulator first, on copies, so a bad pointer raises KernelError and never reaches the GPU.
    """
    if device() == "emulator":
        from llmc.cuda.emulator import kernels

        return kernels.RawKernel(code, name, options, check=check, **of_cupy)
    from llmc.cuda import gpu

    return gpu.raw_kernel(code, name, options, check, of_cupy)


def RawModule(*, code: str, options=(), name_expressions=None, check: bool | None = None, **of_cupy):
    """All kernels in the text `code`: `.get_function(name)`, and `.get_global(name)` for a device variable.

    name_expressions: instances of templates, ["scale<float>"], which get_function then finds by these names. The other
    arguments are as in RawKernel.
    """
    if device() == "emulator":
        from llmc.cuda.emulator import modules

        return modules.RawModule(code=code, options=options, name_expressions=name_expressions, check=check, **of_cupy)
    from llmc.cuda import gpu

    return gpu.Module(code, options, name_expressions, check, of_cupy)


def inspect(kernel, grid, block, args, shared_mem: int = 0, outputs=(), measure: bool = True):
    """The Report of a launch, always checked and always on the emulator. Raises only if nothing could be launched.

    NumPy arrays are written as in any launch; CuPy arrays are copied and stay as they were.

    outputs: names or indices of arrays that the kernel must write completely and must not read first; their old
        contents are lost.
    measure: count memory transactions too.
    """
    from llmc.cuda import gpu

    kernel = kernel if hasattr(kernel, "examine") else gpu.emulated(kernel)
    report = kernel.examine(grid, block, gpu.on_host(args), shared_mem, outputs, measure)
    print(report.raw.printed, end="")
    return report


def empty(shape, dtype=np.float32):
    """A new array that nothing has been written to. On the emulator, reading such an element is reported."""
    if device() == "emulator":
        from llmc.cuda.emulator.calling import unwritten

        return unwritten.empty(shape, dtype)
    import cupy

    return cupy.empty(shape, dtype)


def tensor_map(array, box, swizzle: int = 0):
    """How a GPU's copy machine (TMA) learns the shape of an array, and which box of it to copy at once.

    See tensor_maps.py, where it is defined.
    """
    from llmc.cuda import tensor_maps

    return tensor_maps.tensor_map(array, box, swizzle)


def asnumpy(array) -> np.ndarray:
    """The array on the host; a NumPy array is returned as it is."""
    return array.get() if type(array).__module__.split(".")[0] == "cupy" else np.asarray(array)


_under_way = []  # (event, array): what the GPU has yet to write to; a caller may drop it, and its memory be reused


def asnumpy_later(array):
    """A function that returns the array's present numbers on the host; only calling that function waits for them.

    The array may be overwritten meanwhile.
    """
    if device() == "emulator":
        copy = np.array(array)
        return lambda: copy
    import cupy
    import cupyx

    copy = cupyx.empty_pinned(array.shape, array.dtype)
    array.get(out=copy, blocking=False)
    done = cupy.cuda.get_current_stream().record()
    _under_way[:] = [each for each in _under_way if not each[0].done]
    _under_way.append((done, copy))

    def wait():
        done.synchronize()
        return copy

    return wait


def asarray(array, dtype=None):
    """The array where kernels run: copied to the GPU if there is one."""
    return __getattr__("xp").asarray(array, dtype)


def overwrite(array, numbers):
    """*array, where kernels run, = numbers, a NumPy array of its shape and type. Nothing is allocated for it."""
    if device() == "emulator":
        array[...] = numbers
    else:
        array.set(numbers)


def free_memory() -> int:
    """Bytes of the GPU's memory that this process could still get: the driver's, and what CuPy keeps for later."""
    import cupy

    return cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()


def synchronize():
    """Wait until the GPU has finished all its work. On the emulator, every launch has ended when it returns."""
    if device() == "gpu":
        import cupy

        cupy.cuda.Device().synchronize()
