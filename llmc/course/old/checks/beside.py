"""Two things that a sentence puts beside each other, what is and what should be, are shown where they differ.

Both are shortened, to a few entries or digits, but never to the same text: then a learner would see no mistake.
"""

DIGITS = (7, 10, 13, 17)  # of a number; 17 tell any two float64 apart


def first_difference(mine, right, many=4) -> tuple[str, str]:
    """ "0, 4, 8, 12, …" of two sequences, of which it shows `many` entries: the first, if these differ, or later ones.

    "…, 12, 15, 19, 23, …" begins with the last entry that both have.
    """
    mine, right = list(mine), list(right)
    alike = next((k for k, (a, b) in enumerate(zip(mine, right)) if a != b), min(len(mine), len(right)))
    first = 0 if alike < many else alike - 1
    return tuple(
        "…, " * (first > 0) + ", ".join(map(str, each[first : first + many])) + ", …" * (first + many < len(each))
        for each in (mine, right)
    )


def digits_apart(pairs, fewest=DIGITS[0]) -> int:
    """How many digits tell the numbers of each of these pairs apart, if any do: at least `fewest`."""
    unlike = [(a, b) for a, b in pairs if f"{a:.17g}" != f"{b:.17g}"]
    several = (fewest, *(n for n in DIGITS if n > fewest))
    return next(n for n in several if all(f"{a:.{n}g}" != f"{b:.{n}g}" for a, b in unlike))
