"""From a compiler's messages to the one a learner can act on: the first error, its line in the kernel, and a hint."""

import difflib
import re

from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE
from llmc.cuda.emulator.compiling.hints import by_message, by_name
from llmc.cuda.emulator.compiling.python_habits import floored, habit
from llmc.cuda.emulator.compiling.source import ENTRIES_FILE, kernel_names, kernels
from llmc.cuda.emulator.compiling.text import line_at, mask, without_directives
from llmc.errors import KernelError

ERROR = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)
WARNING = re.compile(r"^[^\n]*: warning: [^\n]*$", re.MULTILINE)
FROM_KERNEL = re.compile(rf"\b{re.escape(KERNEL_FILE)}:(\d+)")
NUMBER_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?([-+]?\.?\d[\w.]*)", re.MULTILINE)
IN_A_TEMPLATE = re.compile(r"there are no arguments to '(\w+)' that depend on a template parameter.*")
DECLARED = re.compile(r"\w[\s*&]+(\w+)\s*(?=[,)=;\[])")  # what follows a type
QUOTES = str.maketrans("‘’“”`", "'''''")
WORDS = """threadIdx blockIdx blockDim gridDim warpSize __global__ __device__ __shared__ __constant__ __restrict__
    __syncthreads __syncwarp __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync
    __all_sync __activemask __reduce_add_sync atomicAdd atomicSub atomicMax atomicMin atomicExch atomicCAS atomicAnd
    atomicOr atomicXor float2 float3 float4 int2 int4 make_float2 make_float4 make_int2 make_int4 rsqrtf sqrtf expf logf
    tanhf powf fabsf fmaxf fminf fmaf floorf ceilf erff __expf __logf __ldg __half __nv_bfloat16 printf assert
    __threadfence __threadfence_block __float2half __half2float __popc __clz __ffs""".split()
KERNEL_RETURNS = "a kernel returns void; results go into an array that is passed to it"


def explain(said: str, code: str, names) -> KernelError:
    """The KernelError for what the compiler said about `code`."""
    said = WARNING.sub("", said.translate(QUOTES))
    match = ERROR.search(said)
    if not match:
        return KernelError(f"the compiler failed: {said.splitlines()[-1] if said else 'it gave no reason'}")
    if KERNEL_FILE not in match["file"] and (line := _open_brace(code)):
        return KernelError(f"line {line}: a `{{` is never closed; count the `}}` from here on.", line)
    if ENTRIES_FILE in match["file"]:
        return _no_such_kernel(code, names, match["text"])
    if re.search(r"'llmc_call\((?!void)", match["text"]):
        return _not_void(code)
    following = ERROR.search(said, match.end())
    own = said[match.start() : following.start() if following else len(said)]
    line = _line(said, match)
    lines = code.splitlines()
    if error := _macro(match["text"], (line, *map(int, FROM_KERNEL.findall(own))), code):
        return error
    if 1 < line <= len(lines) and match["text"].startswith("expected") and _ends_early(lines[line - 2], match["text"]):
        line -= 1  # the compiler notices only in the line that follows
    shown = f"\n    {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""
    text = _plainly(match["text"])
    hint = _hint(text, code, shown, own, said)
    where = f"line {line}" if line else "in the emulator's headers"
    return KernelError(f"{where}: {text}{shown}" + (f"\n{hint}" if hint else ""), line)


def undefined(said: str, code: str) -> KernelError | None:
    """The KernelError for a library that lacks a function which the text declares and never defines; else None."""
    symbol = re.search(r"(?:undefined symbol: |symbol not found in flat namespace \W*_?)(\w+)", said)
    name = symbol and _bare(symbol[1])
    for match in re.finditer(rf"\b{name}\s*\(", without_directives(mask(code))) if name else ():
        line = line_at(code, match.start())
        return KernelError(
            f"line {line}: {name} is declared here and defined nowhere in this text; add its definition, which another "
            "file may have.",
            line,
        )
    return None


def _bare(symbol):
    """The last name in a symbol of the C++ ABI: "_ZN5outer5scaleEPf" -> "scale"; a C function's is its own."""
    if not symbol.startswith("_Z"):
        return symbol
    name, rest = "", symbol[2:].lstrip("NKL")
    while size := re.match(r"\d+", rest):
        rest = rest[size.end() :]
        name, rest = rest[: int(size.group())], rest[int(size.group()) :]
    return name


def _ends_early(before, text):
    """Whether the line before the one that the compiler names lacks its semicolon."""
    if floored(before):
        return True
    opens = re.match(r"\s*(?:\}\s*)?(?:else\s+)?(?:if|for|while|switch|else|do)\b", before)  # it needs none
    return "';'" in text and not opens and bool(re.search(r"[\w)\]]\s*$", before.split("//")[0]))


def _plainly(text):
    """The compiler's message without what only it and our headers know."""
    text = IN_A_TEMPLATE.sub(r"'\1' was not declared in this scope", text).removesuffix(" [-Werror=vla]")
    text = re.sub(r"'\*\((\w+) \+ .*'", r"'\1[...]'", text.strip())
    return re.sub(r"(void __sync\w+\()int\)", r"\1)", text)


def _not_void(code):
    for each in kernels(code):
        match = re.search(rf"(?<!void)(?<!void\s)\b{each.name.split('::')[-1]}\s*\(", mask(code))
        if match:
            line = line_at(code, match.start())
            return KernelError(f"line {line}: {KERNEL_RETURNS}.", line)
    return KernelError(f"{KERNEL_RETURNS}.")


def _open_brace(code):
    """Line of the first { that is never closed; 0 if there is none."""
    text, still_open = without_directives(mask(code)), []
    for match in re.finditer(r"[{}]", text):
        if match.group() == "{":
            still_open.append(match.start())
        elif still_open:
            still_open.pop()
    return line_at(code, still_open[0]) if still_open else 0


def _line(said, match):
    """The error's line in the kernel; for one in a header, the line of the kernel that led there."""
    if KERNEL_FILE in match["file"]:
        return int(match["line"])
    before = FROM_KERNEL.findall(said[: match.start()])
    after = FROM_KERNEL.findall(said[match.end() :])
    return int((before[-1:] or after[:1] or [0])[0])


def _no_such_kernel(code, names, text):
    """An entry did not compile: no kernel has this name."""
    there = [*kernel_names(code), *(f"{each.name}<...>" for each in kernels(code) if each.template)]
    if not there:
        return KernelError("there is no __global__ function in this code; a kernel begins with `__global__ void`.")
    unknown = [name for name in names if name.split("<")[0] not in {each.split("<")[0] for each in there}]
    if unknown:
        return KernelError(f"there is no kernel {unknown[0]!r} in this code; it has {', '.join(there)}.")
    return KernelError(f"these kernels cannot be launched: {', '.join(names)}: {text.strip()}")


def _hint(text, code, source, own, said):
    """One sentence in plain words, "" if none is known.

    text: the compiler's message, source: the line it is about, own: the message with its notes, said: all messages.
    """
    if missing := re.search(r"(?:couldn't deduce|couldn't infer) template (?:parameter|argument) '(\w+)'", own):
        return f"Hint: the compiler cannot guess {missing[1]}: write the template arguments, as in `f<32>(x)`."
    unknown = re.search(r"undeclared identifier '(\w+)'|'(\w+)' was not declared|'(\w+)' does not name a type", text)
    unknown = unknown or re.search(
        r"unknown type name '(\w+)'|'(\w+)' has not been declared|'(\w+)' is not a member of 'std'|"
        r"'(\w+)' in namespace 'std' does not name|no member named '(\w+)' in namespace 'std'",
        text,
    )
    name = next(filter(None, unknown.groups())) if unknown else ""
    if hint := habit(text, source, name):
        return f"Hint: {hint}."
    if "'std'" in text:
        return f"Hint: {by_name(name, code) or 'use CUDA functions, without std::'}."
    if name and (hint := by_name(name, code)):
        return f"Hint: {hint}."
    if name:
        return _unknown_name(name, code, said)
    return f"Hint: {hint}." if (hint := by_message(text)) else ""


def _macro(text, near, code):
    """The KernelError for a declaration whose name the preprocessor has replaced by a number; else None.

    near: lines that the compiler names, that of the macro perhaps among them.
    """
    if not re.search(r"before numeric constant|^expected (?:'\)'|unqualified-id|identifier)", text):
        return None
    macros = {match[1]: match for match in NUMBER_MACRO.finditer(code)}
    lines = code.splitlines()
    for line in near:
        declared = DECLARED.findall(lines[line - 1]) if 0 < line <= len(lines) else ()
        if name := next((name for name in declared if name in macros), ""):
            at = line_at(code, macros[name].start(1))
            return KernelError(
                f"line {line}: {name} is a macro, so the compiler sees {macros[name][2]} here (line {at}): give what "
                "you declare another name, or the macro.",
                line,
            )
    return None


def _unknown_name(name, code, said):
    unknown = {name, *re.findall(r"(?<=undeclared identifier ')\w+|\w+(?=' was not declared)", said)}
    there = sorted(set(re.findall(r"\b[A-Za-z_]\w+", mask(code))) - unknown)
    near = difflib.get_close_matches(name, WORDS, 1, 0.8) or difflib.get_close_matches(name, there, 1, 0.8)
    return f"Hint: {name} is not declared anywhere" + (f"; did you mean {near[0]}?" if near else ".")
