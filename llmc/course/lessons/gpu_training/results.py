"""Lesson 17: what a GPU measured: this one, where there is one, else the H200 whose results lie with the lessons."""

import json
from pathlib import Path

from llmc import cuda

TABLE = Path("reference/h200_training.json")  # in the lessons' folder: written by measured.py


def results(path=TABLE) -> dict:
    """The results of measured.py; "note" says where they come from, "trained_on" which GPU the training was made on.

    On a GPU all but the training of GPT-2 124M is measured now, which takes about a minute.
    """
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    found["trained_on"] = found["about"]["device"]
    found["note"] = f"stored: {found['trained_on']}"
    if cuda.device() == "gpu":
        from llmc.course.lessons.gpu_training import measured

        about = found["about"]
        found |= measured.here(about["preset"], about["B"], about["T"])[1]
        found["note"] = f"measured here: {found['about']['device']}"
    return found


def wait_times(found, **chosen) -> dict:
    """{kind of wait: ms a step} of the rows that have these values, B=4, graphs=False, …"""
    return {row["wait"]: row["ms"] for row in _chosen(found["waits"], chosen)}


def one_row(found, **chosen) -> dict:
    """The only row with these values."""
    (row,) = _chosen(found["waits"], chosen)
    return row


def _chosen(rows, chosen):
    return [row for row in rows if all(row[key] == value for key, value in chosen.items())]


def one_timeline(found, **chosen) -> dict:
    """The only timeline with these values; its calls as (name, host begin, host end, GPU begin, GPU end) in ms."""
    (only,) = _chosen(found["timelines"], chosen)
    return only | {"calls": [(only["names"][k], *(us / 1e3 for us in times)) for k, *times in only["calls"]]}


def idle_ms(calls) -> float:
    """How long no call was on the GPU, between the first and the last; what it waited inside a call is not in it."""
    idle, busy_until = 0.0, calls[0][3]
    for *_, begin, end in calls:
        idle += max(0.0, begin - busy_until)
        busy_until = max(busy_until, end)
    return idle


def busy_ms(calls) -> float:
    """The sum of all calls' times on the GPU, from the event before a call to the one after it."""
    return sum(end - begin for *_, begin, end in calls)


def functions(profile) -> dict:
    """{function: (ms, floor ms or None)} of a profile, the slowest first."""
    return {name: (ms, floor) for name, _, ms, floor in profile["functions"]}
