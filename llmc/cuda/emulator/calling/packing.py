"""The quick way to turn arguments into what a kernel is called with: a launch creates no new objects."""

import ctypes
import struct
from functools import partial

import numpy as np

from llmc.cuda.emulator.calling.arguments import check_count, one
from llmc.cuda.emulator.calling.parameters import FORMATS, dtype_name

ALIGNMENT = 64  # bytes, of a struct: it may have asked for this much, and a compiler relies on it
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


class Packer:
    """Memory for the arguments of one launch at a time, and `pointers`, the void** that the kernel is called with.

    pack(args) does what `convert` does without creating objects: 6 arguments in about 2 µs. Whatever is not plainly
    right goes through `one`, which converts it or says what is wrong. `parameters` is what `parse` returned.
    """

    def __init__(self, parameters, kernel: str = "kernel"):
        self.kernel, self.parameters = kernel, parameters
        offsets, end = [], 0
        for parameter in parameters:
            alignment = ALIGNMENT if parameter.kind[0] == "s" and not parameter.pointer else 16
            offsets.append(-(-end // alignment) * alignment)
            end = offsets[-1] + (8 if parameter.pointer else max(16, parameter.size))
        room = ctypes.create_string_buffer(end + ALIGNMENT)
        self._storage = (ctypes.c_char * max(end, 16)).from_buffer(room, -ctypes.addressof(room) % ALIGNMENT)
        start = ctypes.addressof(self._storage)
        self.pointers = (ctypes.c_void_p * max(len(parameters), 1))(*[start + offset for offset in offsets])
        self._writers = [_writer(parameter, self._storage, at) for parameter, at in zip(parameters, offsets)]

    def pack(self, args):
        """Write the arguments. The arrays must live until the launch is over. Raises KernelError as `convert` does."""
        if type(args) is not tuple or len(args) != len(self._writers):
            check_count(self.parameters, args, self.kernel)
        for write, value in zip(self._writers, args):
            write(value)


def _writer(parameter, storage, offset):
    """A function that writes one argument into `storage`."""

    def slowly(value):
        argument = one(parameter, value)
        memory = argument.array if argument.map is None else argument.map
        address = 0 if memory is None else memory.__array_interface__["data"][0]
        packed = struct.pack("Q", address) if argument.packed is None else argument.packed
        ctypes.memmove(ctypes.addressof(storage) + offset, packed, len(packed))

    if parameter.pointer and parameter.count == 1 and parameter.kind in FORMATS:
        return _array_writer(np.dtype(dtype_name(parameter)), parameter.const, storage, offset, slowly)
    if parameter.count == 1 and parameter.kind in FORMATS:
        return _number_writer(parameter, storage, offset, slowly)
    return slowly


def _array_writer(dtype, const, storage, offset, slowly):
    slot = ctypes.c_uint64.from_buffer(storage, offset)
    ndarray, address, memory = np.ndarray, ctypes.addressof, ctypes.c_char.from_buffer

    def write(value):
        # carray: contiguous, aligned and writable. from_buffer is five times as fast as array.ctypes.data.
        if type(value) is ndarray and value.dtype is dtype and value.flags.carray and value.size:
            slot.value = address(memory(value))
        else:
            slowly(value)

    return write


def _number_writer(parameter, storage, offset, slowly):
    pack = partial(struct.Struct(FORMATS[parameter.kind]).pack_into, storage, offset)
    types = {np.dtype(dtype_name(parameter)).type}
    if parameter.kind[0] in "iu":
        types = {int, *(each for each in INTEGERS if np.dtype(each).itemsize >= parameter.size)}
    types |= {"f8": {float}, "?1": {bool}}.get(parameter.kind, set())

    def write(value):
        if type(value) in types:
            try:
                return pack(value)
            except struct.error:  # too large: `slowly` says so
                pass
        return slowly(value)

    return write
