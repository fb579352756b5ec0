"""Every small edit of a piece of CUDA C: an operand left out, a bound, a name, a coordinate, a barrier.

As in Python, edits of our kernel are mistakes that a learner may make, and edits of a learner's kernel are cures.
`between` turns a named mistake, which is an edit of text, into edits of pieces, so that all compile as one text.
"""

import re
from collections import defaultdict

from llmc.course.mutation.c_source import STATEMENT, Tokens, pieces
from llmc.course.mutation.edit import Edit, apart, others, short
from llmc.cuda.emulator.compiling.text import line_at, statements

MOST = 500  # edits of one kernel
LOWEST = "-3.4e38f"
OPERATORS = [group.split() for group in ("< <= > >=", "== !=", "+ -", "* / %", "&& ||", "<< >>", "& | ^")]
DROPPED = {"+", "-", "*", "/", "%", "&&", "||", "&", "^"}
ASSIGNED = {"=": ("+=",), "+=": ("=", "-="), "-=": ("+=",), "*=": ("/=", "="), "/=": ("*=",), ">>=": ("<<=",)}
TWINS = """
    __shfl_down_sync __shfl_xor_sync __shfl_up_sync; __syncwarp __syncthreads; fmaxf fminf; max min; sqrtf rsqrtf
    expf exp2f; logf log2f; break continue
"""
TWINS = [names.split() for names in TWINS.replace("\n", ";").split(";")]  # functions that stand in for each other
TYPED = re.compile(
    r"\b(?P<kind>float4|float2|float|double|int|unsigned|size_t|bool)\b(?P<star>\s*\*)?\s*(?:const\b|__restrict__\s*)?\s*"
    r"(?P<names>[A-Za-z_]\w*(?:\s*=[^;,(){}]*)?(?:\s*,\s*[A-Za-z_]\w*(?:\s*=[^;,(){}]*)?)*)\s*(?=[;,)=\[:])"
)
WHOLE = {"int", "unsigned", "size_t"}
BARRIERS = ("__syncthreads()", "__syncwarp()")


def edits(code) -> list[Edit]:
    """The likeliest first, at most MOST; two that make the same text are one."""
    text, found, all_pieces = statements(code), {}, pieces(code)
    names = _names(text)
    for piece in all_pieces:
        own = text[piece.start : piece.end]
        for rank, start, end, new in _in_piece(Tokens(own), piece, _known_at(names, piece.start)):
            whole = own[:start] + new + own[end:]
            line, old = line_at(code, piece.start + start), own[start:end]
            if new and len(old) < 4:  # `0` may occur twice there
                old, new = own, whole
            barrier = next((each for each in BARRIERS if each in new and each not in old), "")
            side = "in front of" if new.startswith(barrier) else "behind"
            said = f"with `{barrier};` {side} `{short(old)}`" if barrier and piece.kind == STATEMENT else ""
            edit = Edit(rank, line, *apart(old, new), ((piece, whole),), said=said)
            found.setdefault((piece, whole), edit)
            found[piece, whole] = min(found[piece, whole], edit, key=lambda each: each.rank)
    return sorted(found.values(), key=lambda each: each.rank)[:MOST]


def between(code, pairs) -> Edit | None:
    """An edit of pieces that does what these replacements (old, new) of text do; None where they lie in no piece."""
    text, all_pieces, changes = statements(code), pieces(code), defaultdict(str)
    for old, new in pairs:
        at = code.find(old)
        same = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        tail = min(len(old), len(new)) - same
        tail = next((k for k in range(tail) if old[-1 - k] != new[-1 - k]), tail)
        start, end = at + same, at + len(old) - tail  # of what differs
        fits = [p for p in all_pieces if p.start <= start and end <= p.end + (p.kind == STATEMENT)]
        if at < 0 or not fits:
            return None
        piece = min(fits, key=lambda each: each.end - each.start)
        was = changes[piece] or code[piece.start : piece.end + (piece.kind == STATEMENT)]
        part = code[max(at, piece.start) : min(at + len(old), piece.start + len(was))]
        other = new[max(0, piece.start - at) : len(new) - max(0, at + len(old) - piece.start - len(was))]
        if part not in was:
            return None
        changes[piece] = was.replace(part, other, 1)
    made = tuple((piece, new.rstrip().removesuffix(";")) for piece, new in changes.items())
    return Edit(0, line_at(text, made[0][0].start), "", "", made) if made else None


def _in_piece(each, piece, names):
    """(rank, start, end, new text) of every edit inside of one piece."""
    for k, token in enumerate(each.all):
        span = token.start, token.end
        if each.is_binary(k):
            yield from _of_operator(each, k)
        elif token.text in ASSIGNED and piece.kind == STATEMENT:
            for new in ASSIGNED[token.text]:
                yield 0.3, *span, new
        elif token.text in "-!~" and token.kind == "sign":
            yield 0.5, *span, ""
        elif token.kind == "coordinate":
            yield from ((1, *span, new) for new in _coordinates(token.text))
        elif token.kind == "number":
            minus = "-" * (k > 0 and (each.all[k - 1].kind, each.all[k - 1].text) == ("sign", "-"))
            start = each.all[k - 1].start if minus else token.start
            yield from ((rank, start, token.end, minus + new) for rank, new in _numbers(token.text))
            if token.text not in ("0", "1"):
                yield from ((1.8, *span, name) for name in names if names[name][0] in WHOLE)
        elif token.kind == "name":
            yield from _of_name(each, k, names)
    if piece.kind == STATEMENT:
        yield from _of_statement(each, piece)
    elif each.all and any(token.kind != "number" for token in each.all):
        compared = any(token.text in ("<", "<=", ">", ">=") and each.is_binary(k) for k, token in enumerate(each.all))
        for sign in ("+ 1", "- 1") if compared or not piece.looped else ():
            yield 1.2, len(each.text), len(each.text), f" {sign}"
        if compared:
            yield 1, 0, len(each.text), "true"


def _of_operator(each, k):
    sign = each.all[k].text
    left, right = each.operand(k, -1), each.operand(k, 1)
    first, last = each.all[left].start, each.all[right].end
    one, other = each.piece(left, k - 1), each.piece(k + 1, right)
    for new in others(OPERATORS, sign):
        turned = new in ">=<" and sign in ">=<" and new[0] != sign[0]
        yield 0.4 + 0.6 * turned, each.all[k].start, each.all[k].end, new
    if sign in DROPPED:
        yield 0.2, first, last, one
        yield 0.2, first, last, other if sign != "-" else f"-{other}"
    if sign in ("-", "/", "%", "<<"):
        yield 0.7, first, last, f"{other} {sign} {one}"
    if sign in ("<", "<=", ">", ">="):
        for more in ("+ 1", "- 1"):
            yield 0.9, last, last, f" {more}"


def _coordinates(text):
    name, axis = text.split(".")
    for other in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        if other != name:
            yield f"{other}.{axis}"
    for other in "xyz":
        if other != axis:
            yield f"{name}.{other}"
    if name == "threadIdx":
        yield from (f"({text} % 32)", f"({text} / 32)")


def _numbers(text):
    if re.fullmatch(r"\d+", text):
        value = int(text)
        for new in {value + 1, value - 1, 2 * value, value // 2} - {value, -1}:
            yield 0.9, str(new)
        if value in (32, 64, 128, 256):
            yield 0.9, "blockDim.x"
        if value == 0:
            yield from ((1, new) for new in (f"({LOWEST})", "threadIdx.x", "(threadIdx.x % 32)"))
        if value > 9:
            yield 1, str(value // 4)
    elif re.fullmatch(r"[\d.eE+-]+[fF]?", text):
        value = float(text.rstrip("fF"))
        for new in {0.0, 1.0, 2 * value, value / 2} - {value}:
            yield 1, f"{new!r}f"
        yield 0.8, f"({LOWEST})"
    elif text.lower().startswith("0x"):
        yield 1, "0xffffffff"


def _of_name(each, k, names):
    token, called = each.all[k], k + 1 < len(each.all) and each.all[k + 1].text == "("
    span, member = (token.start, token.end), k and each.all[k - 1].text in (".", "->")
    for new in others(TWINS, token.text):
        yield 0.6, *span, new
    if member:
        yield from ((1, *span, new) for new in "xyzw" if token.text in "xyzw" and new != token.text)
        return
    if called:
        closing = each.bracket(k + 1, 1)
        inside = each.piece(k + 2, closing - 1) if closing > k + 2 else ""
        if inside and "," not in inside:
            yield 0.7, token.start, each.all[closing].end, f"({inside})"
        return
    kind, given = names.get(token.text, ("", False))
    beside = {each.all[n].text for n in (k - 1, k + 1) if 0 <= n < len(each.all)}
    for name, (other, too) in names.items():
        alike = other == kind or {kind, other} <= WHOLE
        if name != token.text and alike and (given == too or not beside & {"<", "<=", ">", ">=", "=="}):
            yield 2, *span, name  # a condition on a thread stays one


def _of_statement(each, piece):
    text = each.text
    if not text.startswith("return "):
        yield 0.3, 0, len(text), ""
    for rank, barrier in zip((0.8, 1.2), BARRIERS):
        yield rank, 0, len(text), f"{barrier}; {text}"
        yield rank, 0, len(text), f"{text}; {barrier}"


def _names(text) -> list[tuple]:
    """(name, type: "int", "float*", is it a parameter?, where it can be used: start, end) of all that are declared."""
    found = []
    for match in TYPED.finditer(text):
        kind, end = match["kind"] + "*" * bool(match["star"]), _scope_end(text, match.end())
        head = text[max(text.rfind(mark, 0, match.start()) for mark in ";{}") + 1 : match.start()]
        given = "(" in head and not re.search(r"\b(for|if|while)\s*\(", head)
        for name in match["names"].split(","):
            found.append((name.split("=")[0].strip(), kind, given, match.end(), end))
    return found


def _scope_end(text, start) -> int:
    """Where the braces around this place close; from the head of a function, where its body ends."""
    depth, opened = 0, text[start:].lstrip()[:1] in (",", ")")  # a parameter
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth < 0 or depth == 0 and opened and text[at] == "}":
            return at
    return len(text)


def _known_at(names, position) -> dict:
    """{name: (its type, is it a parameter?)} of those that can be used there."""
    return {name: (kind, given) for name, kind, given, start, end in names if start <= position < end}
