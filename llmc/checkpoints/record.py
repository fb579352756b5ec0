"""What DONE_%08d says about its checkpoint, as JSON: what the files contained, and how the run was trained.

    {"record": {"step": 200, "files": {"model_00000200.bin": SHA-256, …}, …}, "sha256": of the record}

llm.c only looks at the names in the folder (`find_max_step` in its llmc/utils.h), so it can resume from these
checkpoints as from its own. Its own DONE files are empty: they have no record, and nothing about them is checked. But
next to a settings.json with a digest, as our runs write it, an empty DONE counts as damaged.
"""

import json
from contextlib import suppress
from pathlib import Path

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import json_digest
from llmc.files.reading import opened


def write_record(path, record: dict):
    """Write a DONE file, under a temporary name until it is complete; record: {"step", "files": {name: SHA-256}, …}."""
    with atomic_write(path, "w") as file:
        json.dump({"record": record, "sha256": json_digest(record)}, file, indent=1)


def read_record(path) -> dict:
    """The record in a DONE file; {"files": {}} for an empty one. Raises UserError if the file is missing or damaged."""
    with opened(path) as file:
        raw = file.read()
    if not raw and not _is_ours(Path(path).parent):
        return {"files": {}}
    try:
        found = json.loads(raw)
        if found.keys() == {"record", "sha256"} and found["sha256"] == json_digest(found["record"]):
            return found["record"]
    except (ValueError, RecursionError, AttributeError):
        pass
    raise UserError(f"{path} has changed since it was saved; delete it to ignore its checkpoint.")


def _is_ours(folder) -> bool:
    """Whether this is one of our runs: then its settings hold a digest."""
    with suppress(OSError):
        return b'"sha256"' in (folder / "settings.json").read_bytes()
    return False
