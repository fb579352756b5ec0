"""What may stand in a piece of a learner's kernel instead of what does: slips of the pen, turned back.

`repairs(code)` makes many of them, the likeliest first; `mending` finds out which one makes the kernel right.
"""

import re

from llmc.course.old.kernel_checks import lines
from llmc.course.old.kernel_checks.lines import Repair
from llmc.course.old.kernel_checks.meant import meant
from llmc.course.old.kernel_checks.names_in_c import REAL, WHOLE, Names
from llmc.course.old.kernel_checks.operations import depth, of_operator
from llmc.course.old.kernel_checks.pieces import EXPRESSION, STATEMENT, pieces
from llmc.course.old.kernel_checks.siblings import like_siblings, like_the_others
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at, statements

LOWEST = "-3.4e38f"
COMPARED = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
A_ONE_BEFORE, A_ONE_BEHIND = re.compile(r"[-+]\s*1\s*$"), re.compile(r"\s*[\w.]+\s*[-+]\s*1\s*(?![\s\w.*/%])")
ASSIGNED = {"=": ("+=",), "+=": ("=", "-="), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",)}
OTHER_NAME = {
    "__shfl_down_sync": ("__shfl_xor_sync",),
    "__shfl_up_sync": ("__shfl_xor_sync", "__shfl_down_sync"),
    "__shfl_xor_sync": ("__shfl_down_sync",),
    "__syncwarp": ("__syncthreads",),
    "fmaxf": ("fminf",),
    "fminf": ("fmaxf",),
    "max": ("min",),
    "min": ("max",),
    "sqrtf": ("rsqrtf",),
    "rsqrtf": ("sqrtf",),
    "expf": ("logf",),
    "logf": ("expf",),
    "FLT_MIN": (f"({LOWEST})",),
    "INFINITY": ("3.4e38f",),
    "break": ("continue",),
}
PARTS = {"threadIdx": ("{0} % 32", "{0} / 32"), "blockIdx": (), "blockDim": (), "gridDim": ()}
OF_FOUR = "xyzw"
MOST = 900


def repairs(code, own=()) -> list[Repair]:
    """All that this knows of, the likeliest first. own: the numbers of the learner's lines, if they are known."""
    text, found, all_pieces = statements(code), {}, pieces(code)
    known = Names(text, all_pieces)
    for piece in all_pieces:
        if own and line_at(text, piece.start) not in own:
            continue
        for rank, start, end, new, old in _in_piece(Tokens(text[piece.start : piece.end]), piece, known):
            whole = text[piece.start : piece.start + start] + new + text[piece.start + end : piece.end]
            repair = Repair(rank, ((piece, whole),), piece.start + start, old, new)
            known_as = found.setdefault((piece, whole), repair)
            found[piece, whole] = min(known_as, repair, key=lambda each: each.rank)
    several = [*lines.exchanged_statements(text, all_pieces), *lines.exchanged_values(text, all_pieces)]
    several += [*lines.first_turns(code), *lines.starts(text, all_pieces)]
    several += [*lines.exchanged_names(text, all_pieces, known), *like_siblings(text, all_pieces)]
    several += like_the_others(text, all_pieces)
    single = [*found.values(), *several]
    found = [each for each in single if not own or any(line_at(text, piece.start) in own for piece, _ in each.changes)]
    return sorted([*found, *lines.everywhere(text, found)], key=lambda each: _order(text, each))[:MOST]


def _order(text, repair) -> float:
    """Its rank; helpers in front of the kernel are often given, and right."""
    return repair.rank + 0.5 * (repair.at < text.find("__global__"))


def _in_piece(each, piece, known):
    """(rank, start, end, new, words for what was there) of every change inside of one piece."""
    for k, token in enumerate(each.all):
        yield from _of_token(each, k, token, piece, known)
        if each.is_binary(k):
            yield from of_operator(each, k, token)
        following = each.all[k + 1].text if k + 1 < len(each.all) else ""
        if token.kind == "name" and following == "(":
            yield from _of_call(each, k, known.reductions_at(piece.start))
        elif following == "[" and token.text in known.shared:
            yield from _own_place(each, k + 1)
    yield from _missing_component(each)
    yield from meant(each, piece, known)
    if piece.kind == STATEMENT:
        yield from _of_statement(each, piece, known)
    else:
        yield from _of_expression(each, piece, known)


def _of_token(each, k, token, piece, known):
    text, span = token.text, (token.start, token.end)

    def other(rank, new):
        return rank, *span, new, text

    if text in COMPARED and each.is_binary(k):
        equal, *turned = COMPARED[text]
        yield other(1.1 if _beside_a_one(each, token) else 0, equal)
        for new in turned:
            yield other(2, new)
    elif piece.kind == STATEMENT and text in ASSIGNED:
        for new in ASSIGNED[text]:
            yield other(0, new)
    elif token.kind == "coordinate":
        name, axis = text.split(".")
        for part in PARTS[name]:
            yield other(0, f"({part.format(text)})")
        for new in PARTS:
            if new != name:
                yield other(1, f"{new}.{axis}")
        step = name == "blockDim" and "+=" in each.text  # of a loop, which a warp may make by itself
        for new in ("32", *known.known_at(piece.start, WHOLE)):
            yield other(0.5 if step and new == "32" else 1.5, new)
    elif token.kind == "number":
        yield from _of_number(each, k, token, piece, known)
    elif token.kind == "name":
        yield from _of_name(each, k, token, piece, known)


def _beside_a_one(each, token) -> bool:
    """Is it `i < n - 1`, where the 1 is what is too much? `i <= n - 1` would do, too, and nobody writes that."""
    return bool(A_ONE_BEFORE.search(each.text, 0, token.start) or A_ONE_BEHIND.match(each.text, token.end))


def _of_number(each, k, token, piece, known):
    text, span = token.text, (token.start, token.end)
    signed = k and each.all[k - 1].text == "-" and not each.is_binary(k - 1)
    start = each.all[k - 1].start if signed else token.start
    whole = each.text[start : token.end]
    if re.fullmatch(r"\d+", text):
        value = int(text)
        powers = {value // 2, 2 * value, value // 4, 4 * value} if value in (2, 4, 8, 16, 32, 64, 128, 256) else set()
        beside = [] if powers and known.begins_halving(piece.start) else [value + 1, value - 1]
        for new in dict.fromkeys([*beside, *sorted(powers)]):
            if new >= 0 and new != value:
                yield 1.2, *span, str(new), text
        if value == 32:
            yield 1, *span, "blockDim.x", text
        beside = beside_it(each, k)
        length = "*" in beside or value != 32 and {*beside} & {"<", "<=", ">", ">="}
        moves = piece.kind == STATEMENT and "+=" in beside  # so far does a pointer go on, say
        if value > 2 and (length or moves):
            for new in (*known.known_at(piece.start, WHOLE), "blockDim.x / 32"):
                yield 0.9 if moves else 1.5, *span, new, text
        if value == 0:  # where something starts
            lowest = () if known.begins_a_whole_number(piece.start) else (f"({LOWEST})",)
            for new in (*lowest, "threadIdx.x", "(threadIdx.x % 32)") if len(each.all) == 1 else ():
                yield 1, *span, new, text
    elif re.fullmatch(r"[\d.eE+-]+[fF]?", text) and not {*beside_it(each, k)} & {"==", "!="}:  # that hardly ever holds
        value = float(text.rstrip("fF"))
        if value == 0 or value > 20 or signed:
            yield 0, start, token.end, f"({LOWEST})", whole
        for new in dict.fromkeys((0.0, 1.0, 2 * value, value / 2, 4 * value, value / 4)):
            if new != value and value < 1e30:
                yield 1, *span, f"{new!r}f", text


def beside_it(each, k) -> list[str]:
    """The tokens before and behind the k-th."""
    return [other.text for other in (each.all[k - 1 : k] if k else []) + each.all[k + 1 : k + 2]]


def _of_name(each, k, token, piece, known):
    span, called = (token.start, token.end), k + 1 < len(each.all) and each.all[k + 1].text == "("
    member = k and each.all[k - 1].text in (".", "->")
    for new in OTHER_NAME.get(token.text, ()):
        yield 0, *span, new, token.text
    reductions = known.reductions_at(piece.start)
    if called and token.text in reductions:
        for new in reductions:
            if new != token.text:
                yield 1, *span, new, token.text
    if member and token.text in OF_FOUR:
        for new in OF_FOUR:
            if new != token.text:
                yield 1, *span, new, token.text
    elif not member and not called and not (piece.kind == EXPRESSION and piece.looped):  # it would never end
        for new in known.alike(token.text, piece.start):
            yield 2, *span, new, token.text
        if known.types.get(token.text) in REAL and not known.stays_in_its_loop(token.text, piece.start):
            for reduction in reductions:
                yield 1.3, *span, f"{reduction}({token.text})", token.text


def _of_call(each, k, reductions):
    """A call without the function, with two arguments exchanged, with a factor outside of it, or a term of a sum."""
    opening, closing = k + 1, each.closing(k + 1)
    if closing <= opening + 1:
        return
    start, end, whole = each.all[k].start, each.all[closing].end, each.piece(k, closing)
    commas = [j for j in range(opening + 1, closing) if each.all[j].text == "," and depth(each, opening, j) == 1]
    inside = each.piece(opening + 1, closing - 1)
    if inside.startswith("{"):  # `f({a, b})`: no expression without the function
        return
    if not commas:
        yield 1, start, end, f"({inside})", whole
        star = next((j for j in range(opening + 1, closing) if each.all[j].text == "*" and each.is_binary(j)), None)
        if star is not None and depth(each, opening, star) == 1:
            first, last = each.piece(opening + 1, star - 1), each.piece(star + 1, closing - 1)
            yield 1, start, end, f"{each.all[k].text}({first}) * ({last})", whole
            yield 1, start, end, f"{each.all[k].text}({last}) * ({first})", whole
        if each.all[k].text in reductions:
            yield from _out_of_the_sum(each, k, opening, closing)
    elif len(commas) == 1:
        first, last = each.piece(opening + 1, commas[0] - 1), each.piece(commas[0] + 1, closing - 1)
        yield 2, start, end, f"{each.all[k].text}({last}, {first})", whole
    elif each.all[k].text == "__shfl_sync":  # of what one lane has by itself
        for reduction in reductions:
            yield 1.2, start, end, f"{reduction}({each.piece(commas[0] + 1, commas[1] - 1)})", whole


def _out_of_the_sum(each, k, opening, closing):
    """`f(a + b)` as `f(a) + b`, and `f(a + b) / n` as `f(a) / n + b`: each lane adds b, and it belongs there once."""
    start, last = each.all[k].start, each.term(k, True)
    first = each.term(k, False)
    for j in range(opening + 1, closing):
        if each.all[j].text in ("+", "-") and each.is_binary(j) and depth(each, opening, j) == 1:
            inside, more = each.piece(opening + 1, j - 1), each.piece(j, closing - 1)
            factors = each.text[each.all[closing].end : each.all[last].end]
            if first == k:
                end = each.all[last].end
                yield 1, start, end, f"{each.all[k].text}({inside}){factors} {more}", each.piece(k, last)
            if first < k or factors:
                end = each.all[closing].end
                yield 1, start, end, f"({each.all[k].text}({inside}) {more})", each.piece(k, closing)


def _own_place(each, opening):
    """The thread's own number as an index of shared memory."""
    index = each.piece(opening + 1, each.closing(opening) - 1)
    if "threadIdx.x" != index != "":
        start = each.all[opening].end
        yield 1.5, start, start + len(index), "threadIdx.x", index


def _missing_component(each):
    """`a.x * b.x + a.y * b.y + a.z * b.z` with the term of w."""
    last = next(
        (k for k in range(len(each.all) - 1, 1, -1) if each.all[k].text == "z" and each.all[k - 1].text == "."), 0
    )
    if not last or re.search(r"\.w\b", each.text) or not re.search(r"\.y\b", each.text):
        return
    first, end = each.term(last, False), each.term(last, True)
    term = each.piece(first, end)
    start = each.all[end].end
    yield 1, start, start, " + " + re.sub(r"\.z\b", ".w", term), ""


def _of_statement(each, piece, known):
    text = each.text
    if not text.startswith(("return ", "__sync")):
        yield 1, 0, len(text), "", text
    equals = next((k for k, token in enumerate(each.all) if token.text in ASSIGNED), None)
    if equals is None or equals + 1 == len(each.all):
        return
    target, value = text[: each.all[equals].start].strip(), text[each.all[equals].end :].strip()
    start = len(text) - len(value)
    for sign in ("+ 1", "- 1"):
        yield 2, len(text), len(text), f" {sign}", ""
    for factor in known.factors_at(piece.start) if known.types.get(target) not in WHOLE else ():  # they are floats
        if factor != value:
            yield 3, start, len(text), f"({value}) * {factor}", value
            yield 4, start, len(text), f"({value}) / {factor}", value
    added = value if each.all[equals].text == "+=" else value.removeprefix(f"{target} + ")
    if re.fullmatch(r"\w+", target) and (each.all[equals].text == "+=" or added != value):
        for factor in known.factors_at(piece.start):
            if factor != target:
                yield 2, 0, len(text), f"{target} = {target} * {factor} + {added}", text
    if re.search(r"\]$|^\*", target):
        yield 2, 0, 0, "if (threadIdx.x == 0) ", ""
        lanes = known.lanes_at(piece.start)
        yield 2, 0, 0, f"if ({lanes[0] if lanes else 'threadIdx.x % 32'} == 0) ", ""
        for lane in lanes:  # who writes alone needs no place of its own
            alone = re.sub(rf"\s*\+\s*{lane}\b(?!\s*[*/%])", "", target)
            if alone != target:
                yield 1.9, 0, len(target), f"if ({lane} == 0) {alone}", target
    if piece.looped:
        floats = known.known_at(piece.start, REAL)
        for name in floats:
            for other in floats:
                if other != name:
                    yield 3, len(text), len(text), f"; {name} = {other}", ""


def _of_expression(each, piece, known):
    text = each.text
    if not each.all:
        return
    compared = next((k for k, token in enumerate(each.all) if token.text in COMPARED and each.is_binary(k)), None)
    if compared is not None:
        equal = each.all[compared].text in ("==", "!=") and "." in each.all[-1].text  # to a float: hardly any number is
        for sign in ("+ 1", "- 1") if not equal else ():
            yield 1, len(text), len(text), f" {sign}", ""
        yield 2, 0, len(text), "true", text
        bound = each.all[-1]
        if bound.kind == "name" and any("float4" in kind for kind in known.types.values()):
            yield 1, bound.start, bound.end, f"{bound.text} / 4", bound.text
        if piece.looped and compared == len(each.all) - 2 and bound.kind == "name":
            for new in known.alike(bound.text, piece.start):
                yield 1.5, bound.start, bound.end, new, bound.text
    elif re.search(r"[A-Za-z_]", text):
        for name in known.known_at(piece.start, WHOLE) if known.begins_a_loop(piece.start) else ():
            if name != text:
                yield 1.4, 0, len(text), name, text
        if known.types.get(text) in REAL:  # what a sum begins with, say
            yield 0.9, 0, len(text), "0.0f", text
        for sign in ("+ 1", "- 1"):
            yield 2, len(text), len(text), f" {sign}", ""
        for factor in known.factors_at(piece.start) if not known.begins_a_whole_number(piece.start) else ():
            yield 3, 0, len(text), f"({text}) * {factor}", text
            yield 4, 0, len(text), f"({text}) / {factor}", text
