"""The text of a kernel: which kernels it has, what their parameters are called, and the C++ that is made from it.

The host's compiler understands CUDA C as it is, given a header that explains CUDA's words; only one declaration,
`extern __shared__ T name[];`, is rewritten. No line moves, so whatever the compiler and the debug information say about
a line is true of the learner's text. Every rule works on a masked copy, in which comments, strings and preprocessor
lines are blank.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from llmc.cuda.emulator.compiling.casts import saturating
from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE, dynamic_shared
from llmc.cuda.emulator.compiling.ptx.statements import ASM
from llmc.cuda.emulator.compiling.text import closing, enclosing, is_certain, mask, without_directives

INCLUDE = Path(__file__).parents[1] / "include"
SOURCE_FILE = "kernel.cpp"  # what the compiler gets: our headers, the kernel's own text,
ENTRIES_FILE = "llmc_entries"  # and the lines that follow it
TYPE_WORDS = set("int float double char short long unsigned signed bool void const volatile __restrict__".split())
DIMENSIONS = r"\s*(?:\[[^;{}=\]]*\])*\s*"
VARIABLE = re.compile(rf"\b(?:__constant__|__device__)\b[^;{{}}()=,]*?\b(\w+){DIMENSIONS}(?=[;={{,])")
NEXT_VARIABLE = re.compile(rf",[\s*]*\b(\w+){DIMENSIONS}(?=[;={{,])")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>;{}()=]*>")
NO_VARIABLE = re.compile(r"\b(?:struct|class|union|enum|template|typedef|using|operator)\b")
HEAP = re.compile(r"\b(?:new|delete|malloc|free)\b")
OWN_HEADER = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)
EXPORT = "LLMC_EXPORT void* llmc_global_{0}(unsigned long* bytes) {{ *bytes = sizeof({0}); return (void*)&{0}; }}\n"
NOT_A_NAME = {"__launch_bounds__", "__attribute__", "__maxnreg__", "alignas", "__align__", "__declspec"}


class Kernel(NamedTuple):
    """A `__global__` function of the text."""

    name: str  # with its namespaces: "outer::inner"
    template: bool
    c_linkage: bool  # extern "C": CuPy finds it by its name
    certain: bool  # not inside an #if
    parameters: str  # text between the parentheses
    bounds: str = ""  # text between those of __launch_bounds__, if the compiler can know its names where kernels end


def _kernel_at(text: str, position: int) -> Kernel | None:
    """The kernel that the `__global__` before `position` belongs to, None if no function follows."""
    word = re.compile(r"[A-Za-z_]\w*|<[^;{}()]*>|[(;{}]")
    name, at, bounds = "", position, ""
    while found := word.search(text, at):
        at = found.end()
        if found.group() in ";{}":
            return None
        if found.group()[0] == "<":  # the arguments of a specialization
            continue
        if found.group() != "(":
            name = found.group()
        elif name in NOT_A_NAME:
            at = closing(text, found.start()) + 1
            bounds = text[found.end() : at - 1] if name == "__launch_bounds__" else bounds
        else:
            break
    else:
        return None
    heads = enclosing(text, position)
    start = max(text.rfind(mark, 0, position) for mark in ";{}") + 1
    spaces = [head.split()[-1] for head in heads if "namespace" in head and head.split()[-1] != "namespace"]
    prefix = text[start:position]
    linkage = any(re.search(r'extern\s*"[^"]*"$', head) for head in [*heads, prefix.strip()])
    linkage = linkage or bool(re.search(r'extern\s*"', prefix + text[position:at]))
    parameters = text[at : closing(text, at - 1)]
    template = bool(re.search(r"\btemplate\b", prefix))
    bounds = "" if template or spaces else bounds
    return Kernel("::".join([*spaces, name]), template, linkage, True, parameters, bounds)


@lru_cache(maxsize=256)
def kernels(code: str) -> tuple[Kernel, ...]:
    """Every `__global__` function, in the text's order; a declaration and its definition count as two."""
    masked = mask(code)
    text, found = without_directives(masked), []
    for match in re.finditer(r"(\btemplate\s+)?\b__global__\b", text):
        if match[1]:  # asks for an instance of a kernel that the text has already
            continue
        if kernel := _kernel_at(text, match.end()):
            found.append(kernel._replace(certain=is_certain(masked, match.start())))
    return tuple(found)


def kernel_names(code: str) -> tuple[str, ...]:
    """Names of the `__global__` functions that are not templates, each once, in the text's order."""
    return tuple(dict.fromkeys(kernel.name for kernel in kernels(code) if not kernel.template))


def bare_name(kernel: str) -> str:
    """ "outer::scale<float, 4>" -> "scale"."""
    return kernel.split("<")[0].split("::")[-1].strip()


def parameter_names(code: str, kernel: str) -> tuple[str, ...]:
    """Names of a kernel's parameters: ("x", "n"). One without a name is "argument 2"; () if there is no such kernel.

    `kernel` may be a name expression: "scale<float, 4>".
    """
    same = [each for each in kernels(code) if bare_name(each.name) == bare_name(kernel)]
    return _names_of(same[-1].parameters) if same else ()


def _names_of(parameters: str) -> tuple[str, ...]:
    flat = parameters
    for pair in (r"<[^<>]*>", r"\[[^\[\]]*\]", r"\([^()]*\)", r"\{[^{}]*\}"):
        while pair and (shorter := re.sub(pair, " ", flat)) != flat:
            flat = shorter
    items = [item.split("=")[0].strip() for item in flat.split(",")]
    if items in ([""], ["void"]):
        return ()
    last = [re.search(r"[\w>*&]\s*[\s*&]\s*([A-Za-z_]\w*)$", item) for item in items]
    names = [match.group(1) if match else "int" for match in last]
    return tuple(f"argument {i}" if name in TYPE_WORDS else name for i, name in enumerate(names))


@lru_cache(maxsize=256)
def global_names(code: str) -> tuple[str, ...]:
    """Names of the `__constant__` and `__device__` variables at file scope, except those inside an #if."""
    masked = mask(code)
    text = without_directives(masked)
    flat, found = _without_template_arguments(text), []
    for match in VARIABLE.finditer(flat):
        start = max(text.rfind(mark, 0, match.start()) for mark in ";{}") + 1
        hidden = any(not re.match(r'extern\s*"[^"]*"$|namespace$', head) for head in enclosing(text, start))
        if is_certain(masked, match.start()) and not hidden and not NO_VARIABLE.search(text[start : match.end()]):
            found += _declared(flat, match)
    return tuple(dict.fromkeys(found))


def _declared(text, match):
    """All names of the declaration that begins with this one: `__constant__ float a, b[2], c = 1;`."""
    while match:
        yield match.group(1)
        end = match.end()
        if text[end] != ",":  # after the value that it begins with
            depth = 0
            for mark in re.compile(r"[][(){},;]").finditer(text, end):
                depth += (mark.group() in "([{") - (mark.group() in ")]}")
                if depth == 0 and mark.group() in ",;":
                    break
            end = mark.start() if mark else len(text)
        match = NEXT_VARIABLE.match(text, end)


def _without_template_arguments(text):
    """The text with blanks for `<float, 3>`, whose commas separate no variables."""
    while (shorter := TEMPLATE_ARGUMENTS.sub(lambda found: " " * len(found.group()), text)) != text:
        text = shorter
    return text


def may_have_asm(code: str) -> bool:
    """Whether inline PTX may be in the text: it is, or there are headers of the user's, which nobody has read yet."""
    return ASM.search(mask(code)) is not None or OWN_HEADER.search(code) is not None


def prepare(code: str, names, defines: str = "") -> str:
    """The C++ text that is compiled: the headers, the kernel's own lines, and one entry for each of `names`.

    defines: lines between the first two, such as "#define N 32". An entry is LLMC_ENTRY(i, name) of llmc_core.h. A
    variable NAME at file scope gets a function llmc_global_NAME that returns its address and writes its size in bytes.
    """
    entries = "".join(f"LLMC_ENTRY({i}, {name})\n" for i, name in enumerate(names))
    bounds = {each.name: each.bounds for each in kernels(code) if each.certain and each.bounds}
    entries += "".join(f"LLMC_BOUND({i}, {bounds[name]})\n" for i, name in enumerate(names) if name in bounds)
    variables = "".join(EXPORT.format(name) for name in global_names(code))
    heap = '#include "llmc_heap.h"\n' if HEAP.search(code) or OWN_HEADER.search(code) else ""
    ptx = '#include "llmc_ptx.h"\n' if may_have_asm(code) else ""
    head = f'#include "llmc_cuda.h"\n{heap}{ptx}{defines}#line 1 "{KERNEL_FILE}"\n'
    return f'{head}{dynamic_shared(saturating(code))}\n#line 1 "{ENTRIES_FILE}"\n{entries}{variables}'
