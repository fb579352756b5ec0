"""The operands of a PTX instruction: whether they fit its form, and the C++ they become."""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.ptx.instructions import Instruction, PtxError, split
from llmc.cuda.emulator.compiling.ptx.registers import TYPES, Register, special

NAMES = "llmc_ptx::"
LITERAL = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)U?$")
DECIMAL = re.compile(r"[+-]?\d*\.\d*(?:[eE][+-]?\d+)?$")
BITS = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})$")
ADDRESS = re.compile(r"\[\s*([^\s+\-\]]+)\s*(?:([+-])\s*([^\]]+?))?\s*\]$")


def wrong(instruction: Instruction, what: str) -> PtxError:
    """The error for an instruction that is not written as it must be."""
    return PtxError(instruction.position, f"the PTX instruction `{instruction.opcode}` {what}")


class Operand(NamedTuple):
    """One operand of an instruction, as it is written, and the registers that there are."""

    instruction: Instruction
    text: str
    registers: dict[str, Register]

    def other(self, text) -> "Operand":
        """A part of this one."""
        return self._replace(text=text.strip())

    def wrong(self, what) -> PtxError:
        """The error for an operand where something else is needed."""
        return wrong(self.instruction, f"needs {what} where it has `{self.text}`")

    def results(self, spec) -> list[str]:
        """The registers that a result goes to."""
        loose, type_, n = _parse(spec)
        if n:
            return [self.other(each).result(type_, loose) for each in self.vector(n)]
        first, *predicate = self.text.split("|")
        one = self.other(first).result(type_, loose)
        rest = [self.other(each).result("pred", False) for each in predicate]
        return [one, *rest]

    def result(self, type_, loose) -> str:
        """One register that is written."""
        if self.text == "_":
            return "llmc_sink"
        register = self.registers.get(self.text)
        if not register or register.kind == "n":
            raise self.wrong("a register to write to")
        self.fits(register, type_, loose)
        return register.cpp

    def argument(self, spec, groups) -> str:
        """The C++ of a source, an address or a constant."""
        if spec == "n":
            return self.constant()
        if spec == "[map]":
            return self.map(int(groups["D"]))
        if spec == "sum":
            return self.sum(
                int(groups["N"]) // (4 if groups["A"] == "f16" else 2), "b" if groups["A"] == "f16" else "f"
            )
        if spec.startswith("["):
            return self.address(spec[1:-1], groups["S"])
        loose, type_, n = _parse(spec)
        if not n:
            return self.source(type_, loose)
        each = [self.other(one).source(type_, loose) for one in self.vector(n)]
        cpp = "b32" if type_ == "x32" else type_
        return f"{NAMES}Vector<{NAMES}{cpp}, {n}>{{{{{', '.join(each)}}}}}"

    def vector(self, n) -> list[str]:
        """The elements of `{%0, %1}`; a single one needs no braces."""
        inside = self.text[1:-1] if self.text.startswith("{") and self.text.endswith("}") else self.text
        parts = split(inside)
        if len(parts) != n or (n > 1 and inside is self.text):
            raise self.wrong(f"a vector of {n} registers" if n > 1 else "a register")
        return parts

    def source(self, type_, loose=False) -> str:
        """The C++ for an operand that is read as this type."""
        cpp = NAMES + ("b32" if type_ == "x32" else type_)
        if type_ == "pred" and self.text.startswith("!"):
            return f"!{self.other(self.text[1:]).source(type_)}"
        if bits := BITS.match(self.text):
            return f"{NAMES}as<{cpp}>(0x{bits[2]}{'u' if bits[1] in 'fF' else 'ull'})"
        if DECIMAL.match(self.text) and type_ in ("f32", "f64"):
            return f"({cpp}){self.text}"
        register = self.registers.get(self.text) or special(self.text)
        number = self.text if LITERAL.match(self.text) else register.cpp if register and register.kind == "n" else ""
        if number and type_ in ("f32", "f64"):
            raise self.wrong("a float (as a constant, 1.0 or its bits, 0f3F800000)")
        if number:
            return f"{NAMES}constant<{cpp}>({number})"
        if not register:
            raise self.wrong("a register that exists")
        self.fits(register, type_, loose)
        return f"{NAMES}as<{cpp}>({register.cpp})"

    def fits(self, register, type_, loose):
        """Raise PtxError unless this register will do, as an assembler does."""
        bits, kinds = TYPES[type_]
        if register.kind not in kinds:
            what = {"p": "a predicate", "b": 'a register of bits (an integer: "r", "h" or "l")'}
            raise self.wrong(what[kinds[0]])
        if register.bits != bits and not (loose and register.bits > bits):
            raise self.wrong(f"a register of {bits} bits")

    def constant(self) -> str:
        """The C++ of a number that is known when the kernel is compiled."""
        register = self.registers.get(self.text)
        if register and register.kind == "n":
            return register.cpp
        if not LITERAL.match(self.text):
            raise self.wrong('a constant (an operand with the constraint "n")')
        return self.text

    def map(self, rank) -> str:
        """A tensor map and the coordinates in it, `[%1, {%2, %3}]`."""
        map_, *at = split(self.text[1:-1]) if self.text.startswith("[") and self.text.endswith("]") else ()
        if len(at) != 1:
            raise self.wrong(f"a tensor map with {rank} coordinates, [map, {{…}}]")
        return f"{self.other(f'[{map_}]').address('global', '')}, {self.other(at[0]).argument(f's32x{rank}', {})}"

    def sum(self, n, kind) -> str:
        """The registers in which a wgmma adds up: variables of the kernel, not copies of them."""
        registers = [self.registers.get(each) for each in self.vector(n)]
        if not all(each and each.kind == kind and each.bits == 32 for each in registers):
            raise self.wrong(f'{n} registers of the asm statement, each "+{"f" if kind == "f" else "r"}"')
        return f"{NAMES}registers({', '.join(each.cpp for each in registers)})"

    def address(self, kind, space) -> str:
        """A pointer for `[register + offset]`. kind: "shared", "global", "u32*"."""
        match, space = ADDRESS.match(self.text), space if kind.endswith("*") else kind
        register = self.registers.get(match[1]) if match else None
        if not register or register.kind != "b" or register.bits != 64 and (space != "shared" or register.bits != 32):
            raise self.wrong("an address in brackets, a 64-bit register" + " or a 32-bit one" * (space == "shared"))
        pointer = f"{NAMES}in_{space}({register.cpp})"
        if match[2]:
            offset = self.other(match[3]).constant()
            pointer = f"({pointer} {match[2]} (long)({offset}))"
        return f"({NAMES}{kind}){pointer}" if kind.endswith("*") else pointer


def _parse(spec):
    """(whether a wider register will do, type, length of the vector or 0): "~u8x4" -> (True, "u8", 4)."""
    loose, name = spec.startswith("~"), spec.lstrip("~")
    if name in TYPES:
        return loose, name, 0
    type_, _, n = name.rpartition("x")
    return loose, type_, int(n)
