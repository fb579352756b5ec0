"""Bring a newer version of a notebook into the one that a learner works in, cell by cell, matched by cell id.

A cell that the learner never edited follows the course. A cell that they edited stays as it is, and so do the cells
that they added. A fingerprint of every cell as it was given tells the two apart. A notebook that was only run, never
edited, becomes the course's, with its outputs. Notebooks here are plain JSON.
"""

import hashlib
from dataclasses import dataclass, field


@dataclass
class Merge:
    """The merged cells, fingerprints of the cells as given now, and the ids of what happened."""

    cells: list = field(default_factory=list)
    given: dict = field(default_factory=dict)
    added: list = field(default_factory=list)  # new in the course
    updated: list = field(default_factory=list)  # changed in the course, not by the learner
    removed: list = field(default_factory=list)  # dropped by the course, not touched by the learner
    kept: list = field(default_factory=list)  # changed by the learner, or their own
    differing: list = field(default_factory=list)  # changed by both: the learner's stays

    @property
    def changes(self) -> bool:
        """Does the learner's notebook change?"""
        return bool(self.added or self.updated or self.removed)

    def report(self) -> list[str]:
        """Lines that say what happened to a notebook that the learner has edited; none when nothing did."""
        happened = {"added": self.added, "updated": self.updated, "removed": self.removed, "kept": self.kept}
        news = [f"cells {', '.join(f'{len(ids)} {what}' for what, ids in happened.items() if ids)}."] * self.changes
        if self.differing:
            news.append(f"the course changed cells that you had edited: {', '.join(self.differing)}. Yours are kept;")
            news.append("    to get the course's, delete yours and update again.")
        return news


def fingerprint(cell) -> str:
    """A hash of what a cell says; outputs and metadata do not count."""
    said = cell["cell_type"] + "\n" + "".join(cell["source"])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def fingerprints(cells) -> dict:
    """{cell id: fingerprint}."""
    return {cell["id"]: fingerprint(cell) for cell in cells}


def merge(mine, course, given) -> Merge:
    """mine: the learner's cells. course: today's. given: fingerprints of the course's cells when they last came."""
    result, by_id = Merge(), {cell["id"]: cell for cell in mine}
    for new in course:
        _one(result, by_id.get(new["id"]), new, given.get(new["id"]))
    _own_cells(result, mine, {cell["id"] for cell in course}, given)
    if fingerprints(mine) == given and result.changes:
        result.cells = list(course)
    return result


def _one(result, old, new, before):
    """Decide about one cell of the course. old: the learner's version, before: its fingerprint as given; or None."""
    name, now = new["id"], fingerprint(new)
    result.given[name] = now
    if old is None and before == now:
        return  # they deleted it, and nothing is new in it
    if old is None:
        result.added.append(name)
    elif fingerprint(old) == now:
        new = _with_mark_of(old, new)  # with the learner's outputs
    elif fingerprint(old) == before:
        result.updated.append(name)
    else:
        result.kept.append(name)
        if before != now:
            result.differing.append(name)
            result.given[name] = before  # so that deleting their version brings the course's
        new = _with_mark_of(old, new)
    result.cells.append(new)


def _with_mark_of(old, new):
    """The learner's cell, with what the course says about it (exercise, role, minutes)."""
    metadata = {key: value for key, value in old["metadata"].items() if key != "llmc"}
    mark = {key: value for key, value in new["metadata"].items() if key == "llmc"}
    return {**old, "metadata": {**metadata, **mark}}


def _own_cells(result, mine, course_ids, given):
    """Put each of the learner's own cells after the cell that it followed."""
    place = 0
    for cell in mine:
        if cell["id"] in course_ids:
            place = 1 + next(i for i, other in enumerate(result.cells) if other["id"] == cell["id"])
        elif given.get(cell["id"]) == fingerprint(cell):
            result.removed.append(cell["id"])
        else:
            result.cells.insert(place, cell)
            result.kept.append(cell["id"])
            place += 1
