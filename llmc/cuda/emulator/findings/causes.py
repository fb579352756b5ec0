"""One report for each cause: a barrier that is missing is a race for each pair of lines that it should keep apart."""

from llmc.cuda.emulator.findings.places import plural
from llmc.cuda.emulator.findings.race_advice import barrier_that_mends

MOST_RACES = 4  # that are named


def by_cause(findings) -> list[tuple]:
    """[(finding, the others that its advice would mend too)], each finding once, in the order of the first of each.

    Others are races on the same array. Where a barrier between two lines is missing, the finding gets the lines between
    which it mends all of them.
    """
    causes, alike = [], {}  # causes: (numbers of all findings, of the one that speaks for them, that one)
    for k, found in enumerate(findings):
        if place := barrier_that_mends(found):
            item = found.problem
            alike.setdefault((item.space, item.argument, item.array, place.without_lines()), []).append((place, k))
        else:
            causes.append(([k], k, found))
    for members in alike.values():
        for places, numbers in _one_barrier_each(members):
            speaker = min(numbers, key=lambda k: (findings[k].problem.kind != "race", k))
            lines = max(place.first for place in places), min(place.second for place in places)
            causes.append((sorted(numbers), speaker, findings[speaker]._replace(between=lines)))
    causes.sort(key=lambda cause: cause[0])
    return [(found, [findings[k] for k in numbers if k != speaker]) for numbers, speaker, found in causes]


def _one_barrier_each(members):
    """Split [(place, number)] into as few parts as there are barriers missing: ([place], [number]) of each."""
    members = sorted(members, key=lambda member: member[0].second)
    while members:
        last = members[0][0].second  # a barrier right before this line, as late as the first of them allows
        part = [(place, k) for place, k in members if place.first < last or not last]
        yield [place for place, _ in part], [k for _, k in part]
        members = [member for member in members if member not in part]


def more_races(others) -> str:
    """A sentence about them: "The same barrier ends 17 more races: lines 6 and 9, 6 and 10 and so on."."""
    if not others:
        return ""
    pairs = sorted({tuple(sorted((found.line, found.line2))) for found in others})
    named = [f"{a} and {b}" if a != b else f"{a} alone" for a, b in pairs[:MOST_RACES]]
    rest = " and so on" if len(pairs) > len(named) else ""
    return f"The same barrier ends {plural(len(pairs), 'more race')}: lines {', '.join(named)}{rest}."
