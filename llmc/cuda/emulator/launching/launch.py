"""A checked launch: copies of the arrays go into the arena, the kernel runs on them, results come back with a `Raw`.

In the arena each array lies alone, with gigabytes of nothing around it, so a wrong index hits nothing and still says
which array was meant. Arrays that share memory (views, an in-place kernel) share a slot. Addresses in a struct lead to
the copies during the launch.
"""

import ctypes
from ctypes import c_void_p

import numpy as np

from llmc.cuda.emulator.calling.addresses import redirect
from llmc.cuda.emulator.calling.packing import ALIGNMENT
from llmc.cuda.emulator.compiling.source import bare_name, kernels
from llmc.cuda.emulator.findings.raw import Raw, RawProblem
from llmc.cuda.emulator.launching import native, statics
from llmc.cuda.emulator.launching.reading import read
from llmc.cuda.emulator.launching.slots import slots_of
from llmc.errors import KernelError


def _bring_in(slot, unwritten):
    """Copy a slot's arrays into the arena. `unwritten`: argument index -> (elements,) bool, True: holds nothing yet."""
    argument, size = slot.members[0][0], slot.high - slot.low
    missing = [i for i, _ in slot.members if i in unwritten]
    if missing:
        slot.written = np.ones((size >> slot.shift) + 2, np.uint8)  # (cells,)
        for i, member in slot.members:
            if i in unwritten:
                repeat = max(1, member.array.dtype.itemsize >> slot.shift)
                slot.written[slot.cells_of(member)] = np.repeat(~unwritten[i].ravel(), repeat)  # (cells of the array,)
    written = None if slot.written is None else slot.written.ctypes.data
    slot.place = native.library().llmc_place(slot.index, size, slot.low, slot.shift, argument, written)
    if not slot.place:
        raise KernelError(
            f"not enough memory to check a launch on {size / 1e6:.0f} MB; use smaller arrays or check=False."
        )
    ctypes.memmove(slot.place, slot.low, size)
    for i, member in slot.members:
        if i in unwritten and unwritten[i].all():  # poison: NaN, and no sensible index
            ctypes.memset(slot.place + member.array.ctypes.data - slot.low, 0xFF, member.array.nbytes)


def _take_out(slot, unwritten):
    """Copy what the kernel may have written back to the caller's arrays."""
    for i, argument in slot.members:
        # also what a pointer to const leads to, for a kernel may cast it; but no poison
        if argument.array.flags.writeable and not (argument.const and i in unwritten):
            offset = argument.array.ctypes.data - slot.low
            ctypes.memmove(argument.array.ctypes.data, slot.place + offset, argument.array.nbytes)


def _moves(slots, back=False):
    """What `redirect` needs: from the caller's memory into the arena, or back."""
    return [(s.place, s.high - s.low, s.low) if back else (s.low, s.high - s.low, s.place) for s in slots]


def _redirect(slots, moves):
    """Let addresses in arrays lead elsewhere."""
    for slot in slots:
        for _, argument in slot.members:
            if argument.points:
                redirect(slot.place + argument.array.ctypes.data - slot.low, argument.array.nbytes, moves)


def _aligned(value: bytes):
    """Memory that holds a value, at an address that suits any struct."""
    room = ctypes.create_string_buffer(len(value) + 16 + ALIGNMENT)
    memory = (ctypes.c_char * max(16, len(value))).from_buffer(room, -ctypes.addressof(room) % ALIGNMENT)
    ctypes.memmove(memory, value, len(value))
    return memory


def _pack(arguments, slots):
    """Pointers to the values of all arguments, as the entry wants them, and what must stay alive until then."""
    at = {}
    for slot in slots:
        for i, argument in slot.members:
            at[i] = slot.place + argument.array.ctypes.data - slot.low
    kept, pointers = [], (c_void_p * max(1, len(arguments)))()
    for i, argument in enumerate(arguments):
        if argument.map is not None:
            value = _aligned(argument.map.at(at[i]))
            if argument.packed is None:
                kept.append(value)
                value = c_void_p(ctypes.addressof(value))
        elif argument.packed is None:
            value = c_void_p(at.get(i))
        else:
            value = _aligned(bytes(argument.packed))
            if argument.points:
                redirect(ctypes.addressof(value), len(argument.packed), _moves(slots))
        kept.append(value)
        pointers[i] = ctypes.addressof(value)
    return pointers, kept


def launch(
    library, index, code, kernel, grid, block, arguments, shared_mem=0, measure=False, unwritten=None, first=False
):
    """Run a checked launch and return its `Raw`.

    library: native.Library · index of the entry · grid, block: triples · arguments: list of arguments.Argument ·
    unwritten: argument index -> (elements,) bool, True for elements that hold nothing yet: reading one is a problem. On
    return those that the launch has written are False. first: end the launch at its first problem.
    """
    unwritten = unwritten or {}
    slots = slots_of(arguments)
    with native.exclusive():
        arrays = statics.of_kernel(library.path, kernel, [each.name for each in kernels(code)])
        native.set_shared_arrays(arrays)
        try:
            for slot in slots:
                _bring_in(slot, unwritten)
            _redirect(slots, _moves(slots))
            pointers, kept = _pack(arguments, slots)
            address = ctypes.addressof(pointers)
            prepared = native.options(library, index, grid, block, address, shared_mem, True, measure, first)
            try:
                handle = native.run_checked(prepared)
            finally:  # also after Ctrl-C: what the kernel has written so far
                _redirect(slots, _moves(slots, back=True))
                for slot in slots:
                    _take_out(slot, unwritten)
        finally:
            kept = native.library().llmc_forget(len(slots))
            library.kept = [each for slot in slots if kept >> slot.index & 1 for _, each in slot.members]
        raw = Raw(library.path, code, kernel, grid, block, arguments, shared_arrays=arrays)
        read(handle, raw)
        native.release(handle)
    raw.notes += _uninitialised_locals(library, kernel)
    for slot in slots:
        for i, argument in slot.members:
            if i in unwritten:
                unwritten[i].ravel()[:] = ~_elements_written(slot, argument)  # (elements,)
    return raw


def _uninitialised_locals(library, kernel) -> list[RawProblem]:
    """The compiler's warnings about this kernel and the functions that are compiled into it."""
    name = bare_name(kernel)
    about = [w for w in library.warnings() if not w.functions or name in w.functions]
    verbs = {True: "uses", False: "may use"}
    return [
        RawProblem("uninitialised-local", line=w.line, line2=w.declared, detail=f"{verbs[w.certain]} {w.variable}")
        for w in about
    ]


def _elements_written(slot, argument):
    """(elements,) bool: which elements of an argument's array hold something now."""
    cells = slot.written[slot.cells_of(argument)].astype(bool)  # (cells,)
    repeat = max(1, argument.array.dtype.itemsize >> slot.shift)
    return cells.reshape(-1, repeat).all(axis=1)  # (elements,)
