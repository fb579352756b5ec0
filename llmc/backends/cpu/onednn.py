"""Matrix products of bfloat16 in the processor's own instructions for them, by oneDNN.

Intel's server processors have had them since 2023 (AMX, AVX512_BF16), AMD's since Zen 4 (AVX512_BF16). The wheel
`onednn-cpu-gomp` holds the library, whose C interface is called here. Its threads are those of OpenMP, as Numba's are:
one pool. oneDNN compiles a product for its shapes once; then a call needs three addresses, and allocates nothing.
https://uxlfoundation.github.io/oneDNN/dev_guide_matmul.html
"""

import ctypes
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import numpy as np
from llvmlite import ir
from numba import get_num_threads, types
from numba.core import cgutils
from numba.extending import intrinsic

from llmc.backends.cpu.compiled import serial
from llmc.backends.cpu.scratch import LINE, scratch, zeros

WHEEL = "onednn-cpu-gomp"
HAS_BFLOAT16 = 0xE7  # the bits of dnnl_cpu_isa_t that AVX512_BF16 has, and with it AMX
# Numbers of oneDNN's C interface (dnnl_types.h).
TYPES = {np.dtype(np.uint16): 2, np.dtype(np.float32): 3}  # dnnl_bf16, dnnl_f32
SOURCE, WEIGHTS, OUTPUT, BIAS, SCRATCHPAD = 1, 33, 17, 41, 80  # DNNL_ARG_SRC …
CPU, IN_ORDER, SCRATCHPAD_OF_USER, SCRATCHPAD_SHAPE = 1, 1, 1, 136
KEPT = 256  # products, for as many different shapes; a model trains with some twenty


class _Argument(ctypes.Structure):
    _fields_ = [("what", ctypes.c_int), ("memory", ctypes.c_void_p)]


@cache
def library():
    """oneDNN, or None where it is not installed or cannot be loaded."""
    try:
        files = [file for file in metadata.files(WHEEL) or () if file.name == "libdnnl.so.3"]
        found = ctypes.CDLL(str(Path(files[0].locate()).resolve()))
    except (metadata.PackageNotFoundError, IndexError, OSError):
        return None
    found.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
    found.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
    return found


def multiplies_bfloat16() -> bool:
    """Whether the library is installed and the processor has the instructions."""
    return library() is not None and library().dnnl_get_effective_cpu_isa() & HAS_BFLOAT16 == HAS_BFLOAT16


def description() -> str:
    """ "onednn 2023.2.0"."""
    return f"onednn {metadata.version(WHEEL)}"


def product(out, a, b, bias=None, add=False):
    """out (m, n) = a (m, k) · b (k, n) + bias (n,), and with add, + out. Any strides; arrays of uint16 are bfloat16.

    With one more dimension in front of out, a and b: as many products. Sums are taken in float32, and rounded once.
    """
    threads = get_num_threads()
    library().omp_set_num_threads(threads)
    layouts = tuple((array.dtype, array.shape, array.strides) for array in (out, a, b))
    _primitive(*layouts, bias is not None, add, threads)(out, a, b, bias)


@lru_cache(KEPT)
def _primitive(out, a, b, has_bias, add, threads):
    """The product for these layouts; it is divided among as many threads as OpenMP has now."""
    return Primitive(out, a, b, has_bias, add)


class Primitive:
    """A matrix product, or several, that oneDNN has compiled for the layouts (dtype, shape, strides) of its arrays."""

    _primitive, _memories = None, ()  # where oneDNN refuses them, there is nothing to give back

    def __init__(self, out, a, b, has_bias, add):
        lib, engine = library(), _engine()
        shapes = {SOURCE: _layout(*a), WEIGHTS: _layout(*b), OUTPUT: _layout(*out)}
        if has_bias:
            dtype, (_, n), _ = out
            shapes[BIAS] = _layout(dtype, (1, n), (n * dtype.itemsize, dtype.itemsize))
        operands, attributes = (shapes.get(what) for what in (SOURCE, WEIGHTS, BIAS, OUTPUT)), _attributes(add)
        description = _new(lib.dnnl_matmul_primitive_desc_create, engine, *operands, attributes)
        self._primitive, self._stream = _new(lib.dnnl_primitive_create, description), _stream()
        space = ctypes.c_void_p(lib.dnnl_primitive_desc_query_md(description, SCRATCHPAD_SHAPE, 0))
        self._scratchpad = (lib.dnnl_memory_desc_get_size(space),)  # bytes
        every = shapes | {SCRATCHPAD: space}
        self._memories = [_new(lib.dnnl_memory_create, shape, engine, None) for shape in every.values()]
        self._arguments = (_Argument * len(every))(*zip(every, self._memories))
        for shape in shapes.values():  # copied into the memories; the scratchpad's is part of the description
            lib.dnnl_memory_desc_destroy(shape)
        lib.dnnl_primitive_desc_destroy(description)
        lib.dnnl_primitive_attr_destroy(attributes)

    def __call__(self, out, a, b, bias):
        """Compute it with these arrays."""
        lib, space = library(), scratch("onednn", self._scratchpad, "uint8")
        arrays = (a, b, out, space) if bias is None else (a, b, out, bias, space)
        for memory, array in zip(self._memories, arrays):
            lib.dnnl_memory_set_data_handle(memory, ctypes.c_void_p(array.ctypes.data))
        _check(lib.dnnl_primitive_execute(self._primitive, self._stream, len(arrays), self._arguments))

    @property
    def space(self) -> int:
        """Bytes of scratch memory; at least a cache line."""
        return -(-max(self._scratchpad[0], 1) // LINE) * LINE

    def plan(self) -> list:
        """What `multiply` needs: two functions, what to execute, and where its arguments find their addresses."""
        functions = library().dnnl_memory_set_data_handle, library().dnnl_primitive_execute
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        execute = [self._primitive.value, self._stream.value, len(self._arguments), ctypes.addressof(self._arguments)]
        return addresses + execute + [memory.value for memory in self._memories]

    def __del__(self):
        library().dnnl_primitive_destroy(self._primitive)
        for memory in self._memories:
            library().dnnl_memory_destroy(memory)


class Products:
    """Products that `multiply` computes inside a kernel, each in the thread that asks for it.

    plans (…, threads, 10): what it needs, for each product and thread · space (threads, bytes): scratch memory.
    """

    def __init__(self, products, threads):
        """products: equally long lists of (out, a, b) or (out, a, b, add); of the arrays, only the layouts are used."""
        library().omp_set_num_threads(1)  # oneDNN compiles for as many threads as OpenMP has now
        self._kept = [[[_for_one_thread(*each) for _ in range(threads)] for each in row] for row in products]
        self.plans = np.array([[[made.plan() for made in each] for each in row] for row in self._kept])
        most = max(made.space for row in self._kept for each in row for made in each)
        self.space = zeros(threads * most, np.uint8).reshape(threads, most)


def _for_one_thread(out, a, b, add=False):
    return Primitive(*((array.dtype, array.shape, array.strides) for array in (out, a, b)), False, add)


@intrinsic
def _call(typingctx, address, *arguments):
    """Call the C function at this address with whole numbers; returns its status."""
    words = types.StarArgTuple(arguments)

    def code(context, builder, signature, values):
        where, rest = values
        word = ir.IntType(64)
        rest = cgutils.unpack_tuple(builder, rest)
        function = ir.FunctionType(ir.IntType(32), [word] * len(rest)).as_pointer()
        return builder.call(builder.inttoptr(where, function), rest)

    return types.int32(types.int64, words), code


@serial
def multiply(plan, space, out, a, b):
    """Inside a kernel: one of `Products`, by the thread whose plan (10,) and space this is. out, a, b: addresses.

    Returns oneDNN's status. Whatever it refuses, it refused when the product was compiled.
    """
    _call(plan[0], plan[6], a)
    _call(plan[0], plan[7], b)
    _call(plan[0], plan[8], out)
    _call(plan[0], plan[9], space.ctypes.data)
    return _call(plan[1], plan[2], plan[3], plan[4], plan[5])


def _layout(dtype, shape, strides):
    """A dnnl_memory_desc_t of a matrix, or of several."""
    sizes = ctypes.c_int64 * len(shape)
    steps = sizes(*(stride // dtype.itemsize for stride in strides))
    return _new(library().dnnl_memory_desc_create_with_strides, len(shape), sizes(*shape), TYPES[dtype], steps)


def _attributes(add):
    """A dnnl_primitive_attr_t: scratch memory is ours, and with add, the product is added to what is in the output."""
    lib = library()
    attributes = _new(lib.dnnl_primitive_attr_create)
    _check(lib.dnnl_primitive_attr_set_scratchpad_mode(attributes, SCRATCHPAD_OF_USER))
    if add:
        after = _new(lib.dnnl_post_ops_create)
        _check(lib.dnnl_post_ops_append_sum(after, ctypes.c_float(1.0), ctypes.c_int32(0), 0))
        _check(lib.dnnl_primitive_attr_set_post_ops(attributes, after))
        lib.dnnl_post_ops_destroy(after)
    return attributes


@cache
def _engine():
    return _new(library().dnnl_engine_create, CPU, ctypes.c_size_t(0))


@cache
def _stream():
    return _new(library().dnnl_stream_create, _engine(), IN_ORDER)


def _new(create, *arguments):
    """What one of oneDNN's functions creates, as an address."""
    made = ctypes.c_void_p()
    _check(create(ctypes.byref(made), *arguments))
    return made


def _check(status):
    if status:
        raise RuntimeError(f"oneDNN failed with status {status}")
