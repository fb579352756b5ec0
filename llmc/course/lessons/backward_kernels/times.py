"""Lesson 14: how long the versions take, from the table of the authors' measurements or on the GPU that is here."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from llmc.course.lessons.reductions.ladders import TABLE


class Version(NamedTuple):
    """One row of the table. repeats: did a second, equal call give equal bits?"""

    us: float
    share: float  # of what a copy of as many bytes reaches
    repeats: bool | None


class Ladder(NamedTuple):
    """{"v1": Version, …} of a function, its limit in GB/s, and where it was measured."""

    versions: dict
    limit: float
    place: str

    def best(self) -> str:
        """The fastest version."""
        return min(self.versions, key=lambda version: self.versions[version].us)


def stored(path=TABLE, device="NVIDIA H200") -> dict:
    """{function: Ladder} from the reference measurements; empty where there are none."""
    path, found = Path(path), {}
    rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    for row in rows:
        name, version = re.fullmatch(r"(.*)_(v\d+|library)", row["kernel"]).groups()
        place = f"reference: {device}, {row['shape']}"
        ladder = found.setdefault(name, Ladder({}, row["copy_gb_s"], place))
        ladder.versions[version] = Version(row["us"], row["share"], row.get("repeats"))
    return found


def here(names) -> dict:
    """The same, measured on this GPU by what `llmc bench --kernels` uses; takes some seconds."""
    from llmc.bench.kernels import times
    from llmc.bench.kernels.versions import versions

    bounds, found = times.limits(), {}
    for name in names:
        group = versions(name)
        rows = [{"kernel": version.name, "right": True} for version in group]
        times.add_times(group, rows, bounds)
        ladder = Ladder({}, bounds["copy_gb_s"], f"measured here: {rows[0]['device']}, {rows[0]['shape']}")
        for row in rows:
            ladder.versions[row["kernel"].rsplit("_", 1)[1]] = Version(row["us"], row["share"], row["repeats"])
        found[name] = ladder
    return found


def ladder_text(name, ladder) -> str:
    """A line for each version."""
    lines = [f"{name} ({ladder.place}); the limit is {ladder.limit:,.0f} GB/s"]
    for version, row in ladder.versions.items():
        bits = {True: "equal bits", False: "other bits", None: ""}[row.repeats]
        lines.append(f"   {version}  {row.us:8.1f} µs  {row.share:5.0%} of a copy   {bits}".rstrip())
    return "\n".join(lines)
