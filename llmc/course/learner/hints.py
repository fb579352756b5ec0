"""`hint("layernorm_backward")`: the three graded hints of an exercise, one more with every call.

They are the folded ones of the exercise's own notebook, <details><summary>Hint 1: where to start</summary> … </details>
above its answer, so that each hint is written once. How many were seen is kept in the progress file.
"""

import re
from difflib import get_close_matches
from pathlib import Path

from llmc.course.exercises.catalog import all_exercises, cells_of, notebooks_for
from llmc.course.exercises.layout import link, path_from_here
from llmc.course.learner import journal
from llmc.course.learner.refusal import Refusal

FOLDED = re.compile(r"<details><summary>Hint (\d+): (.*?)</summary>\s*(.*?)\s*</details>", re.DOTALL)


class Hints:
    """What `hint` returns: [(number, title, text)] and a sentence below. Markdown in a notebook, text elsewhere.

    path: a notebook that the sentence names; Markdown makes a link of it.
    """

    def __init__(self, shown, after, path):
        self.shown, self.after, self.path = shown, after, path

    def _repr_markdown_(self):
        hints = [f"**Hint {number}: {title}**\n\n{text}" for number, title, text in self.shown]
        after = self.after.replace(self.path, f"[{self.path}]({link(self.path)})")
        return "\n\n".join([*hints, f"*{after}*"])

    def __str__(self):
        hints = [f"Hint {number}: {title}\n\n{text}" for number, title, text in self.shown]
        return "\n\n".join([*hints, self.after])

    __repr__ = __str__


def hint(exercise) -> Hints:
    """The next hint of an exercise; all of its hints once all have been seen.

    exercise: its name, or the function. Raises Refusal, a UserError, when there is no exercise of that name.
    """
    name = getattr(exercise, "__name__", exercise)
    lessons = {e.name: e.lesson for e in all_exercises()}
    if name not in lessons:
        raise Refusal(unknown(name, lessons))
    hints = next(filter(None, (hints_of(path, name) for path in notebooks_for(lessons[name]))), [])
    if not hints:
        raise Refusal(f"the exercise {name} has no hints; its task is in {path_from_here('exercises', lessons[name])}.")
    count = min(journal.hints_seen(name) + 1, len(hints) + 1)
    journal.record_hint(name, min(count, len(hints)))
    solution = path_from_here("solutions", lessons[name])
    stuck = f"If you are still stuck, open {solution}."
    if count > len(hints):
        return Hints(hints, f"These are all the hints. {stuck}", solution)
    more = f'Hint {count} of {len(hints)}; for the next one, run hint("{name}") again.'
    last = f"That was the last of {len(hints)} hints. {stuck}"
    return Hints([hints[count - 1]], last if count == len(hints) else more, solution)


def hints_of(notebook: Path, exercise: str) -> list[tuple[int, str, str]]:
    """(number, title, text) of each hint between the check of the previous exercise and this one's answer."""
    passage = []
    for _, mark, kind, source in cells_of(notebook):
        if mark.get("exercise") == exercise:
            found = FOLDED.findall("\n\n".join(passage))
            return [(int(number), title, text) for number, title, text in found]
        if mark.get("role"):
            passage = []
        elif kind == "markdown":
            passage.append(source)
    return []


def unknown(name, names, board="progress()") -> str:
    """One sentence that names the exercises the learner may have meant, or else what lists them all."""
    close = get_close_matches(str(name), names, n=3, cutoff=0.5)
    close += [known for known in names if str(name) and str(name) in known and known not in close][: 3 - len(close)]
    meant = f"did you mean {' or '.join(close)}?" if close else f"{board} lists them all."
    return f"there is no exercise {name!r}; {meant}"
