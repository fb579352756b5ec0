"""Sentences about a change, of our solution or of the learner's function, that explains a wrong array."""

from llmc.course.checks import evidence
from llmc.course.checks.explain import stopped
from llmc.course.checks.narrow import nearly


def explained_by(case, got, found, sentence) -> list[str]:
    """The sentences for a change that explains the wrong array; sentence: what its numbers show, or None."""
    name = case.name
    first = [stopped(sentence or f"{name} has wrong values")]
    if found.ours and found.yours and sentence:
        return first  # which says it all
    if found.ours and found.yours and _both_lack_one(found):
        theirs, there = (words.removeprefix("without ") for words in (found.yours, found.ours))
        place = f"The mistake is in {theirs}, or in its place: all else is right. Our solution has {there}."
        return [*first, *nearly(case), place]
    if found.ours and found.yours:
        meets = f"your function gives what our solution gives {found.ours}: compare these two."
        return [*first, *nearly(case), f"{found.yours[0].upper()}{found.yours[1:]}, {meets}"]
    if found.yours:
        return [*first, cured(name, found)]
    if sentence and "has the wrong sign" in sentence:
        return first  # a sign may be turned in many places, and what turns it in our solution may be right in theirs
    if sentence:
        return [*first, f"Our solution gives the same numbers {found.ours}."]
    alone = evidence.other_results(got) if found.ours.startswith("without the line") else []
    return [f"{name} has the values that our solution gives {found.ours}.", *alone]


def cured(name, found) -> str:
    """The sentence for a change of the learner's function that makes an array right."""
    return f"Your function gives the right {name.removeprefix('the ')} {found.yours}."


def _both_lack_one(found) -> bool:
    """Are the changes "without the term …" of either function, say?"""
    ours, yours = (words.split()[:3] for words in (found.ours, found.yours))
    return ours == yours and ours[0] == "without"
