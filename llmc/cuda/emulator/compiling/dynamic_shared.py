"""`extern __shared__ T name[];` for the host's compiler: a pointer to the block's dynamic shared memory."""

import re

from llmc.cuda.emulator.compiling.text import closing, enclosing, is_scope, line_at, mask, without_directives

KERNEL_FILE = "kernel.cu"  # the name of the learner's text in messages and debug information
DYNAMIC = "llmc_dynamic_shared()"  # its address, in llmc_core.h
SPECIFIERS = re.compile(r"\b(?:extern|static|__shared__)\b|\b(?:__align__|alignas|__attribute__)\s*(?=\()")


def _declarations(statement: str) -> list[tuple[str, str, str]]:
    """(type, name, further dimensions) of each array in `extern __shared__ T name[], other[][33]`."""
    while match := SPECIFIERS.search(statement):  # the word, and the parenthesis that may follow
        opening = match.end()
        end = closing(statement, opening) + 1 if statement[opening : opening + 1] == "(" else opening
        statement = statement[: match.start()] + " " + statement[end:]
    found = re.match(r"\s*(.*?)\s*\b(\w+)\s*\[[^\]]*\]((?:\s*\[[^\]]*\])*)\s*(,.*)?$", statement, re.DOTALL)
    if not found:
        return []
    type_, name, dimensions, others = found.groups()
    more = re.findall(r",\s*(\w+)\s*\[[^\]]*\]((?:\s*\[[^\]]*\])*)", others or "")
    return [(" ".join(type_.split()), *each) for each in [(name, dimensions), *more]]


def _as_pointer(type_: str, name: str, dimensions: str) -> str:
    """The declaration of a pointer to the dynamic shared memory."""
    if dimensions:
        return f"{type_} (*{name}){dimensions} = ({type_} (*){dimensions}){DYNAMIC};"
    return f"{type_}* {name} = ({type_}*){DYNAMIC};"


def _as_array(type_: str, name: str, dimensions: str) -> str:
    """The declaration of a reference to an array, for `reinterpret_cast<T&>(name)`: on a pointer it would be wrong."""
    return f"{type_} (&{name})[]{dimensions} = *({type_} (*)[]{dimensions}){DYNAMIC};"


def _of_one(statement: str) -> str:
    """A reference for `extern __shared__ Tiles<64> s;`, which is no array; "" for anything else."""
    found = re.match(r"\s*([\w:]+(?:\s*<[^;]*>)?)\s+(\w+)\s*$", SPECIFIERS.sub(" ", statement))
    return f"{found[1]}& {found[2]} = *({found[1]}*){DYNAMIC};" if found else ""


def _as_macro(type_: str, name: str, dimensions: str) -> str:
    """The same at file scope, where each use must ask for the address: every block has its own."""
    pointer = f"{type_} (*){dimensions}" if dimensions else f"{type_}*"
    return f"\n#define {name} (({pointer}){DYNAMIC})"


def _as_object(type_: str, name: str) -> str:
    """The same for a name that is used for something else too, which a macro would change: an object like a pointer."""
    value = f"{{ return ({type_}*){DYNAMIC}; }}"
    cast = f"template <class U> explicit operator U*() const {{ return (U*){DYNAMIC}; }}"
    return f"static struct {{ operator {type_}*() const {value} {cast} }} const {name} = {{}};"


def _is_declared_again(text: str, name: str) -> bool:
    """Whether a parameter or a variable of the text has the same name: `float* name,`."""
    return bool(re.search(rf"\b[A-Za-z_]\w*\s*[*&]+\s*(?:\w*restrict\w*\s+)?{name}\s*[,)=;]", text))


def dynamic_shared(code: str) -> str:
    """`code` with a pointer to the block's dynamic shared memory for each `extern __shared__ T name[];`.

    In a function it is a variable on the same line; at file scope it is a macro, and a #line corrects the count.
    """
    text = without_directives(mask(code))
    for match in reversed(list(re.finditer(r"\b__shared__\b", text))):
        start = max(text.rfind(mark, 0, match.start()) for mark in ";{}") + 1
        start += len(text[start:]) - len(text[start:].lstrip())
        end = text.find(";", match.end())
        if end < 0 or not re.search(r"\bextern\b", text[start:end]):
            continue
        arrays, one = _declarations(text[start:end]), _of_one(text[start:end])
        lines = "\n" * text.count("\n", start, end + 1)
        if one and not arrays and not all(is_scope(head) for head in enclosing(text, start)):
            code = code[:start] + one + lines + code[end + 1 :]
            continue
        if all(is_scope(head) for head in enclosing(text, start)):
            again = [_is_declared_again(text, name) and not dimensions for _, name, dimensions in arrays]
            objects = "".join(_as_object(*array[:2]) for array, other in zip(arrays, again) if other)
            macros = "".join(_as_macro(*array) for array, other in zip(arrays, again) if not other)
            new = f'{objects}{macros}\n#line {line_at(code, end)} "{KERNEL_FILE}"\n'
        else:
            casts = any(re.search(rf"&\s*>\s*\(\s*{name}\b", text) for _, name, _ in arrays)
            new = " ".join((_as_array if casts else _as_pointer)(*array) for array in arrays) + lines
        code = code[:start] + new + code[end + 1 :] if arrays else code
    return re.sub(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", _in_macro, code, flags=re.MULTILINE)


def _in_macro(directive) -> str:
    """A #define whose body declares dynamic shared memory."""
    pattern = r"\bextern\s+__shared__\s+((?:\w+\s+)+?)(\w+)\s*\[\s*\]"
    return re.sub(pattern, lambda match: _as_pointer(match[1].strip(), match[2], "")[:-1], directive.group())
