"""From the emulator's report of a launch to a Diagnosis: the gravest problem in full, the others by name."""

from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, stopped
from llmc.cuda.emulator.findings.kinds import BY_NAME, GRAVITY

DRAW = "To see which thread touches what:  c.report.plot()"


def diagnosis_of(report, exercise, repair=None) -> Diagnosis:
    """repair: an Edit of the kernel with which the whole check passes; it takes the place of general advice."""
    first, *others = sorted(report.problems, key=lambda problem: GRAVITY[problem.kind])  # often the others' cause
    kind = BY_NAME[first.kind]
    called = f", called from line {first.calls[0]}" if first.calls else ""
    sentence = f"{_head(first)}{called}. {_capital(kind.sentence(first.found))}"
    who, to_do = kind.doer(first.found), kind.advice if isinstance(kind.advice, str) else kind.advice(first.found)
    if repair:
        to_do = f"Your kernel passes this whole check {repair.words}, in line {repair.line}."
    more = [stopped(line) for line in (who, to_do) if line]
    names = [name for name in dict.fromkeys(map(_head, others)) if name != _head(first)]
    if names:
        more.append(f"The report also has: {'; '.join(names[:3])}{'; …' * (len(names) > 3)}.")
    more += [DRAW] if kind.drawn else []
    return Diagnosis(Kind.EMULATOR, sentence, more=more, look=_look_for(first, exercise))


def _head(problem) -> str:
    """ "race in shared memory, lines 9 and 12"."""
    title = BY_NAME[problem.kind].title.format(space=problem.found.problem.space)
    lines = sorted({problem.line, problem.line2} - {0})
    return title + (f", line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}" if lines else "")


def _look_for(problem, exercise) -> str:
    """Where the exercise says to look for this kind of problem: in this array, in this space, or anywhere."""
    places = exercise.look if isinstance(exercise.look, dict) else {}
    array, space = problem.where.partition("[")[0], problem.found.problem.space
    for key in (f"{problem.kind} {array}", f"{problem.kind} in {space} memory", problem.kind):
        if key in places:
            return exercise.place(places[key])
    return ""


def _capital(text) -> str:
    return text[:1].upper() + text[1:]
