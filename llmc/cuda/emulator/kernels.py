"""The emulator's RawKernel, with CuPy's call style.

A kernel is compiled at its first launch. Checked launches (check=True, the default) run on an instrumented build and
raise KernelError with the report if anything is wrong; unchecked ones run on a plain build, on all cores. Each build
has __device__ and __constant__ variables of its own: a kernel keeps to the build that its `check` selects, and
`examine` of an unchecked kernel lends its values to the checked build.
"""

import ctypes
import sys

from llmc.cuda.emulator.build import Build
from llmc.cuda.emulator.calling import unwritten
from llmc.cuda.emulator.calling.addresses import followed
from llmc.cuda.emulator.calling.arguments import convert
from llmc.cuda.emulator.calling.packing import Packer
from llmc.cuda.emulator.calling.parameters import parse
from llmc.cuda.emulator.calling.shapes import DYNAMIC_LIMIT, MOST_SHARED, check_launch
from llmc.cuda.emulator.compiling.source import global_names, kernels, parameter_names
from llmc.cuda.emulator.findings.raw import Raw
from llmc.cuda.emulator.launching import launch, native
from llmc.cuda.emulator.launching.reading import read
from llmc.cuda.emulator.launching.statics import of_kernel, size_of
from llmc.cuda.emulator.reporting.report import Report
from llmc.errors import KernelError
from llmc.switches import switch

MOST_PLANS = 256  # launch shapes that a kernel remembers


def checks_by_default() -> bool:
    """Whether kernels that do not say so themselves are checked: not if LLMC_CHECK is 0."""
    return switch("LLMC_CHECK") is not False


class RawKernel:
    """A kernel that runs on the emulator: `k((gx, gy, gz), (bx, by, bz), (args...), shared_mem=bytes)`.

    code: CUDA C · name: an extern "C" __global__ function · options: NVRTC's, a tuple · check: True, False, or None for
    LLMC_CHECK. `backend` and the rest are CuPy's and have no effect. calling/arguments.py says what an argument may be.
    What a kernel prints appears when the launch is over.
    """

    def __init__(self, code: str, name: str, options=(), backend="nvrtc", *, check: bool | None = None, **of_cupy):
        unknown = set(of_cupy) - {"translate_cucomplex", "enable_cooperative_groups", "jitify"}
        if unknown:
            raise TypeError(f"RawKernel has no argument {sorted(unknown)[0]!r}")
        build = Build(code, (name,), options)
        refuse_name(code, name)
        self._set_up(build, 0, name, check)

    def _set_up(self, build, index, name, check):
        self._build, self._index = build, index
        self.name = self.__name__ = name
        self.check = checks_by_default() if check is None else bool(check)
        self._max_dynamic = None
        self._plans, self._packer = {}, None

    @classmethod
    def of(cls, build: Build, name: str, check) -> "RawKernel":
        """A kernel from a module's build."""
        kernel = cls.__new__(cls)
        kernel._set_up(build, build.names.index(name), name, check)
        return kernel

    def __repr__(self):
        return f"<RawKernel {self.name} on the emulator, {'checked' if self.check else 'unchecked'}>"

    @property
    def code(self) -> str:
        """The CUDA C text."""
        return self._build.code

    @property
    def options(self):
        """The compiler's options."""
        return self._build.options

    def compile(self, log_stream=None):
        """Compile the kernel now, not at the first launch."""
        self._build.library(self.check)

    # ------------------------------------------------------------------------------------------- launching

    def __call__(self, grid, block, args, *, shared_mem=0, stream=None, enable_cooperative_groups=False):
        """Run the kernel and wait for it to end. Raises KernelError: before the launch, or with a report after it."""
        if self.check:
            return _raise_if_wrong(self.examine(grid, block, args, shared_mem))
        try:
            prepared = self._plans[grid, block, shared_mem]
        except (KeyError, TypeError):  # a new shape, or something that cannot be one
            prepared = self._plan(grid, block, shared_mem)
        with native.exclusive():  # the packer holds the arguments of one launch
            self._packer.pack(args)
            handle = native.run_plain(prepared)
        return None if handle is None else self._finish(handle, grid, block, args, shared_mem)

    def examine(self, grid, block, args, shared_mem=0, outputs=(), measure=False, first=False) -> Report:
        """The report of a checked launch; `llmc.cuda.inspect` describes the arguments. Prints nothing.

        first: end it at its first problem.
        """
        library = self._build.library(True)
        grid, block = self._shape(grid, block, shared_mem, library)
        arguments = self._arguments(library, args)
        outputs = unwritten.indices(arguments, outputs)
        missing = unwritten.of_launch(arguments, outputs)
        lends = not self.check and bool(global_names(self.code))
        if lends:
            self._build.copy_variables(checked=True)
        place = (library, self._index, self.code, self.name, grid, block)
        raw = launch.launch(*place, arguments, int(shared_mem), measure=measure, unwritten=missing, first=first)
        if lends:
            self._build.copy_variables(checked=False)
        unwritten.settle(raw, missing, outputs)
        return Report(raw)

    def _plan(self, grid, block, shared_mem):
        """The options of an unchecked launch of this shape, kept for the next one."""
        library = self._build.library(False)
        with native.exclusive():  # all plans point into one packer
            if self._packer is None:
                parameters = parse(library.signature(self._index), self._names(), self.name)
                self._packer = Packer(parameters, self.name)
        sizes = self._shape(grid, block, shared_mem, library)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        pointers = ctypes.addressof(self._packer.pointers)
        plan = native.options(library, self._index, *sizes, pointers, int(shared_mem))
        self._plans[grid, block, shared_mem] = plan
        return plan

    def _finish(self, handle, grid, block, args, shared_mem):
        """An unchecked launch that printed something or ended badly."""
        library = self._build.library(False)
        grid, block = self._shape(grid, block, shared_mem, library)
        raw = Raw(library.path, self.code, self.name, grid, block, self._arguments(library, args))
        read(handle, raw)
        native.release(handle)
        _raise_if_wrong(Report(raw))

    def _names(self):
        return parameter_names(self.code, self.name)

    def _arguments(self, library, args):
        return followed(convert(library.signature(self._index), self._names(), args, self.name), library.kept)

    def _shape(self, grid, block, shared_mem, library):
        static, most = self._static_shared(library), library.most_threads(self._index)
        return check_launch(self.name, grid, block, shared_mem, static, self._max_dynamic, most)

    def _static_shared(self, library):
        return size_of(of_kernel(library.path, self.name, [each.name for each in kernels(self.code)]), self.name)

    # ------------------------------------------------------------------------------------ attributes of CuPy's

    @property
    def shared_size_bytes(self) -> int:
        """Bytes of the kernel's static shared memory without gaps between arrays; 0 where that is not known (macOS)."""
        return self._static_shared(self._build.library(self.check))

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most bytes that shared_mem may request: 48 KiB less the static ones unless set, up to 227 KiB."""
        return DYNAMIC_LIMIT - self.shared_size_bytes if self._max_dynamic is None else self._max_dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int):
        if not 0 <= size <= MOST_SHARED:
            raise KernelError(
                f"{self.name}: {size} bytes of shared memory are too many; a block has at most {MOST_SHARED}."
            )
        self._max_dynamic = int(size)
        self._plans.clear()

    @property
    def attributes(self) -> dict:
        """What CuPy says about a kernel; -1 for whatever does not exist on the emulator."""
        unknown = ("const_size_bytes", "local_size_bytes", "num_regs", "ptx_version", "binary_version", "cache_mode_ca")
        return {name: -1 for name in (*unknown, "preferred_shared_memory_carveout")} | {
            "max_threads_per_block": self._build.library(self.check).most_threads(self._index),
            "shared_size_bytes": self.shared_size_bytes,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes,
        }

    def __getattr__(self, name):
        """The attributes by their names, as CuPy has them."""
        if name.startswith("_") or name not in (known := self.attributes):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return known[name]

    def __reduce__(self):
        return _again, (self._build.code, self._build.names, self._build.options, self.name, self.check)


def _again(code, names, options, name, check):
    return RawKernel.of(Build(code, names, options), name, check)


def refuse_name(code, name):
    """Raise KernelError for a kernel that CuPy would not find by this name: a template, or one with a C++ name."""
    same = [each for each in kernels(code) if each.name == name.split("<")[0].strip()]
    if "<" in name or same and all(each.template for each in same):
        raise KernelError(
            f"{name} is a template; use RawModule(code=..., name_expressions=['{name.split('<')[0]}<...>'])"
            ".get_function(...) with the types that you want."
        )
    if same and not any(each.c_linkage for each in same):
        raise KernelError(f'{name} has a C++ name, so CuPy cannot find it; write extern "C" __global__ void {name}.')


def _raise_if_wrong(report):
    """Print what the launch printed, then raise KernelError if there are problems."""
    if report.raw.printed:
        sys.stdout.write(report.raw.printed)
    if not report.ok:
        raise KernelError(report)
