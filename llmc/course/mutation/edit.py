"""An edit of a source text: what is there, what may be there instead, and how that is said."""

from dataclasses import dataclass

SHOWN = 60  # characters of source that a sentence quotes


@dataclass(frozen=True)
class Edit:
    """rank: 0 for the likeliest. line: where, in the source's own file. old, new: source; "" new: left out.

    changes: for `edited`, or for `Schemata`. constant: a number that it brings in. drops: what it leaves out is an
    operand of this kind. said: words in place of all others. other: an edit of another line that does as much.
    """

    rank: float
    line: int
    old: str
    new: str
    changes: tuple
    constant: float | None = None
    drops: type | None = None
    said: str = ""
    other: "Edit | None" = None

    @property
    def words(self) -> str:
        """ "without `eps`", "with `a + b` in place of `a - b`"."""
        if self.said:
            return self.said
        return f"with `{self.new}` in place of `{self.old}`" if self.new else f"without `{self.old}`"

    @property
    def there(self) -> str:
        """ "without `eps`, in line 3, or without `b`, in line 5"."""
        return f"{self.words}, in line {self.line}" + (f", or {self.other.there}" if self.other else "")


def short(text, most=SHOWN) -> str:
    """On one line, cut in the middle."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most // 2].rstrip()} … {text[-most // 2 + 3 :].lstrip()}"


def apart(old, new) -> list[str]:
    """Both on one line, cut so that one sees where they differ."""
    texts = [" ".join(text.split()) for text in (old, new)]
    if short(old) != short(new):
        return [short(old), short(new)]
    at = max(0, next((k for k, (a, b) in enumerate(zip(*texts)) if a != b), min(map(len, texts))) - SHOWN // 2)
    return [f"… {text[at : at + SHOWN]} …" for text in texts]


def others(groups, one):
    """What may stand in for one: all else that is in a group with it."""
    return (other for group in groups if one in group for other in group if other != one)
