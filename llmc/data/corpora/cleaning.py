"""Turning documentation into documents: cleaning it, leaving out repetitions, and splitting long texts."""

import re

LONGEST = 4000  # characters of one document; longer ones are cut between paragraphs or methods
LONG_ENOUGH = 40  # characters; a paragraph longer than this must not come twice

HEADING = re.compile(r"^(\S.*)\n([*=\-~^\"])\2{2,}$", re.MULTILINE)  # a line, underlined


def sections(text: str):
    """(title, body) of every underlined heading: "A\\n===\\nb" -> [("A", "b")]."""
    parts = HEADING.split(text)  # [before, title, sign, body, title, sign, body, ...]
    return [(title, body) for title, body in zip(parts[1::3], parts[3::3])]


def heading(title: str) -> str:
    """The title with an underline."""
    return f"{title}\n{'=' * len(title)}"


def clean(text: str) -> str:
    """Remove tabs, spaces at line ends, extra blank lines between paragraphs, and tables.

    "a \\n\\n\\n\\nb" -> "a\\n\\nb"
    """
    text = "\n".join(line.rstrip() for line in text.expandtabs().strip().splitlines())
    return "\n\n".join(p for p in re.split(r"\n{2,}", text) if not is_table(p))


def is_table(paragraph: str) -> bool:
    """Whether the paragraph is drawn with lines, or has hardly any letters: rows of numbers, codes or signs."""
    letters = sum(c.isalpha() for c in paragraph)
    signs = sum(not c.isspace() for c in paragraph)
    return paragraph.lstrip().startswith("+--") or (3 * letters < signs and len(paragraph) > 80)


def is_new(paragraph: str, seen: set) -> bool:
    """Whether the paragraph is new; if so, it is added to `seen`. Short paragraphs may repeat."""
    key = " ".join(paragraph.split())
    if not key or key in seen:
        return False
    if len(key) > LONG_ENOUGH:
        seen.add(key)
    return True


def pack(head: str, parts: list[str], repeat: str | None = None) -> list[str]:
    """Documents of at most about LONGEST characters: each has a head and as many parts as fit, separated by blank
    lines.

    All documents after the first begin with `repeat` (default: head). Without parts, there are no documents.
    pack("A", ["one", "two"]) -> ["A\\n\\none\\n\\ntwo\\n"]
    """
    documents, current = [], [head]
    for part in parts:
        if len(current) > 1 and sum(map(len, current)) + len(part) > LONGEST:
            documents.append("\n\n".join(current) + "\n")
            current = [repeat or head]
        current.append(part)
    if len(current) > 1:
        documents.append("\n\n".join(current) + "\n")
    return documents
