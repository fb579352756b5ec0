"""What does a function of whole numbers count? Its formula, found by calls: 8·N·C in place of 9·N·C.

A count at one size may come from several mistakes. At some more sizes than its formula has terms, only one polynomial
gives them all; what a sentence says about it is then measured.
"""

import io
import time
from collections import Counter
from contextlib import redirect_stdout
from itertools import combinations_with_replacement

import numpy as np

from llmc.course.own_names import learners_names

SIZES = (3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 17, 19)
BEYOND = (70, 131, 200, 300)  # where the formula must hold as well: `C // 64` is 0 for all of SIZES
MORE = 2  # calls with such sizes
SURE = 6  # calls more than there are terms
SMALL = 1e-6  # what counts as rounding
SECONDS = 1.0


def formula(function, names, degree, pick=lambda result: result, only=lambda term: True) -> dict | None:
    """{term: how often}, the polynomial that the function's numbers are; None if they are none.

    names: of its arguments, ints, which it takes by name. degree: of the largest term. pick: takes the number from what
    is returned. only(term): may this product, a tuple of names, occur?
    """
    terms = [t for d in range(degree + 1) for t in combinations_with_replacement(names, d) if only(t)]
    rng, end = np.random.default_rng(2), time.thread_time() + SECONDS
    rows, numbers, enough = [], [], len(terms) + SURE
    try:
        while len(rows) < enough + MORE:
            sizes = dict(zip(names, rng.choice(SIZES if len(rows) < enough else BEYOND, len(names)).tolist()))
            with learners_names(), redirect_stdout(io.StringIO()):
                numbers.append(float(pick(function(**sizes))))
            rows.append([np.prod([sizes[name] for name in term], initial=1.0) for term in terms])
            if time.thread_time() > end:
                return None
    except Exception:  # it cannot take these sizes
        return None
    rows, numbers = np.array(rows), np.array(numbers)  # (calls, terms), (calls,)
    scale = rows[:enough].max(axis=0)  # (terms,)
    found = np.linalg.lstsq(rows[:enough] / scale, numbers[:enough], rcond=None)[0] / scale
    halves = np.round(2 * found) / 2
    near = np.abs(rows @ halves - numbers) <= SMALL * np.maximum(1, np.abs(numbers))
    return {term: times for term, times in zip(terms, halves.tolist()) if times} if near.all() else None


def written(polynomial) -> str:
    """ "9·N·C + 2·C"; "L·C²" for two factors that are the same."""
    parts = []
    for term, times in sorted(polynomial.items(), key=lambda item: -len(item[0])):
        powers = [name + {1: "", 2: "²", 3: "³"}.get(n, f"^{n}") for name, n in Counter(term).items()]
        number = [f"{abs(times):g}"] if abs(times) != 1 or not term else []
        parts.append((" − " if times < 0 else " + ") + "·".join([*number, *powers]))
    text = "".join(parts)
    return ("−" + text[3:] if text.startswith(" − ") else text[3:]) or "0"


def compared(what, function, right, names, degree, pick=lambda result: result, only=lambda term: True) -> str | None:
    """ "flops is 8·N·C, and should be 9·N·C, which is N·C more": a sentence; None if one of them is no polynomial."""
    mine, wanted = (formula(each, names, degree, pick, only) for each in (function, right))
    if mine is None or not wanted or mine == wanted:
        return None
    off = {term: mine.get(term, 0) - wanted.get(term, 0) for term in [*wanted, *mine]}
    lacks, extra = {t: -d for t, d in off.items() if d < 0}, {t: d for t, d in off.items() if d > 0}
    said = [f"{written(lacks)} is missing"] * bool(lacks) + [f"{written(extra)} is too much"] * bool(extra)
    return f"{what} is {written(mine)}, as more calls show, and should be {written(wanted)}: {', and '.join(said)}"
