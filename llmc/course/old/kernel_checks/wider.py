"""What an index or a bound may lack: repairs that are tried last.

There are many of these, so they are made in the learner's own lines alone.
"""

import re
from collections import Counter

from llmc.course.old.kernel_checks import lines
from llmc.course.old.kernel_checks.lines import Repair
from llmc.course.old.kernel_checks.names_in_c import WHOLE, Names
from llmc.course.old.kernel_checks.pieces import pieces
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at, statements

COMPARED = ("<", "<=", ">", ">=")
SIMPLE = re.compile(r"\w+|\w+\.x")
LARGEST = 64  # of the numbers that an index is multiplied by
FEW = 3  # of those numbers, the most frequent ones, that may be a term
PRODUCT = ("*", "/", "%")
BITS = ("&", "|", "^", "<<", ">>")
ENDS = ("]", ")", ",", "", "&&", "||", "?")
ASSIGNED = ("=", "+=", "-=", "*=", "/=", "++", "--")
MOST = 700  # compiling them takes seconds


def wider(code, own) -> list[Repair]:
    """The likeliest first. own: the numbers of the learner's lines."""
    text = statements(code)
    all_pieces = pieces(code)
    known, mine = Names(text, all_pieces), [piece for piece in all_pieces if line_at(text, piece.start) in own]
    numbers = Counter(int(n) for n in re.findall(r"(?<![\w.])\d+(?![\w.])", text))
    numbers = [n for n, _ in numbers.most_common() if 1 < n <= LARGEST]
    single = {}
    for piece in mine:
        each = Tokens(text[piece.start : piece.end])
        for rank, start, end, new in _of_piece(each, piece, known, numbers):
            old, whole = each.text[start:end], each.text[:start] + new + each.text[end:]
            repair = Repair(rank, ((piece, whole),), piece.start + start, old, new)
            single.setdefault((piece, whole), repair)
    several = [each._replace(rank=each.rank - 1) for each in lines.everywhere(text, single.values())]  # as likely
    found = [*single.values(), *several]
    return sorted(found, key=lambda repair: repair.rank)[:MOST]


def _of_piece(each, piece, known, numbers):
    """(rank, start, end, new) of what a sum, a product or a comparison of whole numbers may lack."""
    names = known.known_at(piece.start, WHOLE)
    for k, token in enumerate(each.all):
        before, behind = (each.all[j].text if 0 <= j < len(each.all) else "" for j in (k - 1, k + 1))
        if token.text in COMPARED and each.is_binary(k):
            yield from _of_comparison(each, k, names)
        whole = token.text in names or re.fullmatch(r"\d+", token.text)
        if not whole or behind in ("(", "[", *ASSIGNED, *BITS) or before in (".", "->", "++", "--", *BITS):
            continue
        factor = before in PRODUCT or behind in PRODUCT
        there = {token.text, *(other.text for other in each.all)}
        for rank, new in [*((1.0, name) for name in names if name not in there), *((1.2, n) for n in numbers[:FEW])]:
            if factor and token.text in names:
                yield rank + 0.1, token.start, token.end, f"({token.text} + {new})"
            if behind in ENDS:
                yield rank, token.end, token.end, f" + {new}"
        for name in names if token.text in names else ():
            if name.isupper() and name != token.text:  # a constant, such as the length of a ring
                yield 1.3, token.start, token.end, f"({token.text} / {name})"
        for number in numbers if token.text in names else ():
            bare = before not in ("/", "%") and behind not in ("/", "%")
            yield 1.3, token.start, token.end, f"{token.text} * {number}" if bare else f"({token.text} * {number})"


def _of_comparison(each, k, names):
    """Another sign, and another name on its right."""
    last = each.all[k + 1]
    alone = k + 2 == len(each.all) or each.all[k + 2].text in ("&&", "||", ")", "?")
    if alone and SIMPLE.fullmatch(last.text):
        for sign in COMPARED:
            for name in names:
                if name != last.text:
                    yield 1.5, each.all[k].start, last.end, f"{sign} {name}"
