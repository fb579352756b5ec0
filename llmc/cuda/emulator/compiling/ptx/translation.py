"""The C++ that takes an asm statement's place.

    asm volatile("add.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));
becomes
    do { auto&& llmc_at0 = y; float llmc_r0 = llmc_ptx::nothing<float>(); const float llmc_r1 = llmc_ptx::in<float>(x);
    llmc_ptx::put(llmc_ptx::add<llmc_ptx::f32>(llmc_ptx::as<llmc_ptx::f32>(llmc_r1), …), llmc_r0);
    llmc_ptx::out(llmc_at0, llmc_r0); } while (0);
on the lines of the statement: each instruction stays on its own, so that whatever is said about it names that line.
"""

from llmc.cuda.emulator.compiling.ptx.calls import call
from llmc.cuda.emulator.compiling.ptx.instructions import Brace, Branch, Instruction, Label, PtxError, parse
from llmc.cuda.emulator.compiling.ptx.operands import NAMES
from llmc.cuda.emulator.compiling.ptx.registers import Register
from llmc.cuda.emulator.compiling.ptx.statements import MARKER, Statement, statements

CONSTRAINTS = {"h": (16, "b"), "r": (32, "b"), "l": (64, "b"), "f": (32, "f"), "d": (64, "f"), "n": (64, "n")}
CPP = {(16, "b"): "unsigned short", (32, "b"): "unsigned", (64, "b"): "unsigned long long"}
CPP |= {(32, "f"): "float", (64, "f"): "double", (1, "p"): "bool"}
DECLARED = {f"{letter}{n}": (n, "b") for letter in "bus" for n in (16, 32, 64)}
DECLARED |= {"f16": (16, "b"), "f16x2": (32, "b"), "bf16": (16, "b"), "bf16x2": (32, "b")}
DECLARED |= {"f32": (32, "f"), "f64": (64, "f"), "pred": (1, "p")}


def translate(text: str, masked: str) -> str:
    """`text` with C++ in place of its asm statements. masked: the same without comments and strings; where it is blank,
    statements stay as they are. Raises PtxError for what `problem` names.
    """
    for statement in reversed(list(statements(text, masked))):
        if not statement.template.strip() and not statement.outputs:
            continue  # it only holds the compiler back, the host's as well
        text = text[: statement.start] + _cpp(text, statement) + text[statement.end :]
    return text


def problem(text: str, statement: Statement) -> tuple[int, str] | None:
    """(position in the text, a sentence) for a statement that the emulator does not run, None for one that it does."""
    try:
        _cpp(text, statement)
    except PtxError as error:
        places = statement.places
        return (places[min(error.position, len(places) - 1)] if places else statement.start), error.sentence
    return None


def _cpp(text, statement) -> str:
    original = text[statement.start : statement.end]
    if not statement.template.strip() and all("+" in each.constraint for each in statement.outputs):
        return "do {} while (0)" + "\n" * original.count("\n")  # it keeps a register where it is: see CUTLASS's fences
    lines = [[] for _ in original.split("\n")]
    registers, before, after = _operands(statement)
    lines[0] += [f"do {{{_labels(parse(statement.template))} [[maybe_unused]] llmc_ptx::Sink llmc_sink;", *before]
    for position, cpp in _instructions(statement, registers):
        lines[text.count("\n", statement.start, statement.places[position])].append(cpp)
    lines[-1] += [*after, "} while (0)"]
    return "\n".join(
        marker[0] if (marker := MARKER.match(old)) else " ".join(new) for old, new in zip(original.split("\n"), lines)
    )


def _operands(statement):
    """({name in the template: Register}, declarations, what is done at the end)."""
    registers, before, after = {}, [], []
    waits = "wgmma.mma_async" in statement.template  # its sums come later: their registers are the variables themselves
    for i, operand in enumerate((*statement.outputs, *statement.inputs)):
        letter, is_output = operand.constraint.strip("=+&"), i < len(statement.outputs)
        if letter not in CONSTRAINTS:
            raise PtxError(0, f'inline PTX has the constraints "h", "r", "l", "f", "d" and "n", not "{letter}"')
        bits, kind = CONSTRAINTS[letter]
        cpp, name = CPP.get((bits, kind), ""), f"llmc_r{i}"
        registers[f"%{i}"] = registers[f"%[{operand.name}]"] = Register(name, bits, kind)
        value = f"{NAMES}in<{cpp}>({operand.expression})"
        if is_output and waits and bits == 32:
            before.append(f"auto& {name} = {operand.expression};")
        elif is_output:
            before.append(f"auto&& llmc_at{i} = {operand.expression};")
            start = f"{NAMES}in<{cpp}>(llmc_at{i})" if "+" in operand.constraint else f"{NAMES}nothing<{cpp}>()"
            before.append(f"{cpp} {name} = {start};")
            after.append(f"{NAMES}out(llmc_at{i}, {name});")
        else:
            before.append(f"[[maybe_unused]] const auto {name} = {operand.expression if kind == 'n' else value};")
    return registers, before, after


def _instructions(statement, registers):
    """(position in the template, C++) of each instruction, declaration and brace."""
    scopes, items = [registers], parse(statement.template)
    for i, item in enumerate(items):
        if isinstance(item, Brace):
            scopes = [*scopes, scopes[-1]] if item.opens else scopes[:-1]
            if not scopes:
                raise PtxError(item.position, "the PTX has one `}` too many")
            yield item.position, "{" + _labels(items[i + 1 :]) if item.opens else "}"
        elif isinstance(item, Label):
            yield item.position, f"{_label(item.name)}:;"
        elif isinstance(item, Branch):
            if not any(isinstance(each, Label) and each.name == item.name for each in items):
                raise PtxError(item.position, f"the PTX branches to `{item.name}`, but has no such label")
            yield item.position, f"{_guard(item, scopes[-1])}goto {_label(item.name)};"
        elif isinstance(item, Instruction):
            yield item.position, _guard(item, scopes[-1]) + call(item, scopes[-1])
        else:
            if item.type not in DECLARED:
                raise PtxError(item.position, f"the emulator has no PTX registers of type .{item.type}")
            own = {name: Register(_name(name), *DECLARED[item.type]) for name in item.names}
            scopes[-1] = scopes[-1] | own
            cpp = CPP[DECLARED[item.type]]
            # declared without a value, for a branch may jump over this
            yield item.position, " ".join(f"{cpp} {x.cpp}; {x.cpp} = {NAMES}nothing<{cpp}>();" for x in own.values())
    if len(scopes) > 1:
        raise PtxError(len(statement.template) - 1, "the PTX has a `{` that is never closed")


def _labels(items) -> str:
    """Declarations of the labels of the scope that begins here, so that another scope may have the same names."""
    depth, names = 0, []
    for item in items:
        if isinstance(item, Brace):
            depth += 1 if item.opens else -1
        elif isinstance(item, Label) and depth == 0:
            names.append(_label(item.name))
        if depth < 0:
            break
    return f" __label__ {', '.join(names)};" if names else ""


def _label(ptx) -> str:
    """A label's name in C++."""
    return "llmc_l_" + "".join(each if each.isalnum() else "_" for each in ptx)


def _guard(instruction, registers) -> str:
    """ "if (!p) " for an instruction under `@!p`."""
    if not instruction.guard:
        return ""
    name = instruction.guard.lstrip("!")
    register = registers.get(name)
    if not register or register.kind != "p":
        raise PtxError(
            instruction.position,
            f"the PTX instruction `{getattr(instruction, 'opcode', 'bra')}` needs a predicate before it",
        )
    return f"if ({'!' * instruction.guard.startswith('!')}{register.cpp}) "


def _name(ptx) -> str:
    """A register's name in C++."""
    return "llmc_x_" + "".join(each if each.isalnum() else "_" for each in ptx)
