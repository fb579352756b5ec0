"""CuPy's kernels behind our door: as they are, or with a launch on the emulator before each launch on the GPU."""

import numpy as np

from llmc.cuda import cubins
from llmc.cuda.dialect import for_gpu, said_by_nvrtc
from llmc.cuda.emulator.calling.maps import described_by
from llmc.cuda.emulator.calling.parameters import is_cupy
from llmc.cuda.emulator.compiling.source import global_names
from llmc.cuda.emulator.kernels import RawKernel
from llmc.cuda.emulator.modules import RawModule
from llmc.cuda.tensor_maps import tensor_map
from llmc.errors import KernelError

_written = {}  # the text that CuPy has -> the one that it was made from
_expressions = {}  # (code, name that the compiler gave a kernel of a CuPy module) -> its name expression


def raw_kernel(code, name, options, check, of_cupy):
    """CuPy's RawKernel; with check, one whose launches are tried on the emulator first."""
    import cupy

    options = tuple(options)
    if cubins.wanted(options):
        theirs = cupy.RawModule(path=cubins.compiled(code, options), **of_cupy).get_function(name)
    else:
        theirs = _compiled(cupy.RawKernel(_for_gpu(code), name, options, **of_cupy))
    return Checked(theirs, RawKernel(code, name, options, check=True)) if check else theirs


def _for_gpu(code) -> str:
    text = for_gpu(code)
    _written[text] = code
    return text


def _compiled(theirs):
    """CuPy's kernel or module, compiled now. Raises KernelError with the compiler's objection to the text."""
    try:
        theirs.compile()
    except Exception as error:
        if type(error).__name__ != "CompileException":  # of cupy.cuda.compiler
            raise
        raise said_by_nvrtc(str(error)) from None
    return theirs


class Module:
    """CuPy's RawModule. `inspect` recognises its kernels, and with `check` they are tried on the emulator first."""

    def __init__(self, code, options, name_expressions, check, of_cupy):
        import cupy

        options = tuple(options)
        if name_expressions and not any("-std=" in option for option in options):
            options = (*options, "-std=c++17")  # CuPy requires it
        given = dict(code=_for_gpu(code), options=options, name_expressions=name_expressions)
        given = dict(path=cubins.compiled(code, options)) if cubins.wanted(options) else given
        self._theirs = cupy.RawModule(**given, **of_cupy)
        self._twin = RawModule(code=code, options=options, name_expressions=name_expressions, check=True)
        self.code, self.check, self._expressions = code, bool(check), tuple(name_expressions or ())

    def compile(self, log_stream=None):
        """Compile the module now, not at the first launch."""
        self._theirs.compile(log_stream)

    def get_function(self, name: str):
        """CuPy's kernel of that name or name expression, or the checked one."""
        theirs = _compiled(self._theirs).get_function(name)
        if name in self._expressions:
            _expressions[theirs.code, theirs.name] = name
        return Checked(theirs, self._twin.get_function(name), self._lend) if self.check else theirs

    def get_global(self, name: str):
        """CuPy's pointer to a __device__ or __constant__ variable."""
        return self._theirs.get_global(name)

    def _lend(self):
        """Copy the values of the GPU's variables to the emulator's."""
        import cupy

        for name in global_names(self.code):
            memory = np.frombuffer(self._twin.get_global(name), np.uint8)  # (bytes,)
            memory[...] = cupy.ndarray(memory.shape, np.uint8, self._theirs.get_global(name)).get()  # (bytes,)


class Checked:
    """A kernel that runs on the emulator, on copies of the arrays, and then on the GPU if nothing was wrong."""

    def __init__(self, theirs, twin, lend=None):
        self._theirs, self._twin, self._lend = theirs, twin, lend

    def __call__(self, grid, block, args, *, shared_mem=0, **of_cupy):
        """Launch it. Raises KernelError before the GPU has seen anything; with a report if the emulator launched it."""
        report = self.examine(grid, block, on_host(args), shared_mem)
        if not report.ok:
            raise KernelError(report)
        self._theirs(grid, block, args, shared_mem=shared_mem, **of_cupy)

    def examine(self, grid, block, args, shared_mem=0, outputs=(), measure=False):
        """The emulator's report; args are NumPy arrays."""
        if self._lend:
            self._lend()
        return self._twin.examine(grid, block, args, shared_mem, outputs, measure)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """What both allow. CuPy has one kernel per text, so that may know of a request that the twin missed."""
        return min(self._theirs.max_dynamic_shared_size_bytes, self._twin.max_dynamic_shared_size_bytes)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size):
        self._twin.max_dynamic_shared_size_bytes = size
        self._theirs.max_dynamic_shared_size_bytes = size

    def __getattr__(self, name):
        return getattr(self._theirs, name)


def emulated(kernel):
    """The emulator's twin of a CuPy kernel."""
    if kernel.code is None:
        return RawKernel(*cubins.source_of(kernel.file_path, kernel.name))
    expression = _expressions.get((kernel.code, kernel.name))
    code = _written.get(kernel.code, kernel.code)
    if expression is None:
        return RawKernel(code, kernel.name, kernel.options)
    module = RawModule(code=code, options=kernel.options, name_expressions=[expression])
    return module.get_function(expression)


def on_host(args):
    """The arguments with every CuPy array copied to the host; an array that is passed twice is copied once.

    A copy has the strides and the alignment of its original, so that the emulator objects to whatever the GPU would.
    """
    if not isinstance(args, (tuple, list)):
        return args
    copies = {}

    def copied(value):
        if (described := described_by(value)) is not None:
            return tensor_map(copied(described.array), described.box, described.swizzle)
        if not is_cupy(value):
            return value
        key = (value.data.ptr, value.shape, value.dtype, value.strides)
        if key not in copies:
            plain = value.flags.c_contiguous and value.data.ptr % 16 == 0
            copies[key] = value.get() if plain else _as_it_lies(value)  # (shape of value)
        return copies[key]

    return tuple(copied(value) for value in args)


def _as_it_lies(value):
    """A CuPy array's bytes, gaps included, at an address with the same remainder modulo 16."""
    import cupy

    steps = [(n - 1) * stride for n, stride in zip(value.shape, value.strides)]
    low, high = sum(min(0, step) for step in steps), value.itemsize + sum(max(0, step) for step in steps)
    start = cupy.cuda.MemoryPointer(value.data.mem, value.data.ptr - value.data.mem.ptr + low)
    span = cupy.ndarray((high - low,), np.uint8, start).get()  # (bytes,)
    host = np.empty(span.size + 16, np.uint8)  # (bytes + 16,)
    first = (value.data.ptr + low - host.ctypes.data) % 16
    host[first : first + span.size] = span  # (bytes,)
    return np.ndarray(value.shape, value.dtype, host, first - low, value.strides)  # (shape of value)
