"""The source of a kernel, highlighted as C++ wherever notebooks are shown, and ready to be copied."""

from difflib import SequenceMatcher

NEW = "// new"
COLUMN = 92  # where the marks stand


def show_cuda(source, title="", *, lines=None, since=None):
    """Show CUDA C below the cell, as a Markdown block: highlighted, and copied with the mouse as plain text.

    lines: (first, last), counted from 1, to show a part. since: the source of the version before; lines that are not
    in it get a `// new` at the end, so what has changed cannot disagree with the code.
    """
    from IPython.display import Markdown, display

    shown = source.strip("\n").split("\n")
    if since is not None:
        shown = _marked(shown, since.strip("\n").split("\n"))
    if lines is not None:
        shown = shown[lines[0] - 1 : lines[1]]
    heading = [f"**{title}**", ""] if title else []
    display(Markdown("\n".join([*heading, "```c++", *shown, "```"])))


def _marked(after, before):
    """The lines of `after`, with a mark at the end of each new one."""
    same = [[line.strip() for line in part] for part in (before, after)]
    marked = list(after)
    for kind, _, _, begin, end in SequenceMatcher(None, *same, autojunk=False).get_opcodes():
        if kind != "equal":
            marked[begin:end] = map(_mark, after[begin:end])
    return marked


def _mark(line):
    """Not after a brace alone, nor after a backslash, which must end its line."""
    return line if line.strip() in ("", "{", "}") or line.endswith("\\") else f"{line:<{COLUMN}}{NEW}"
