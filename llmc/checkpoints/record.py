"""What DONE_%08d says about its checkpoint, as JSON: what the files held, and what the run was trained with.

    {"record": {"step": 200, "files": {"model_00000200.bin": SHA-256, …}, …}, "sha256": of the record}

llm.c only looks at the names in the folder (`find_max_step` in its llmc/utils.h), so it resumes from these checkpoints
as from its own, whose DONE is empty: they have no record, and nothing about them is checked. Beside settings.json, in
which a run of ours has a digest of them, an empty DONE is damaged.
"""

import json
from contextlib import suppress
from pathlib import Path

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import json_digest
from llmc.files.reading import opened


def write_record(path, record: dict):
    """Write a DONE under a temporary name until it is complete; record: {"step", "files": {name: SHA-256}, …}."""
    with atomic_write(path, "w") as file:
        json.dump({"record": record, "sha256": json_digest(record)}, file, indent=1)


def read_record(path) -> dict:
    """The record in a DONE; {"files": {}} for an empty one. Raises UserError when it is missing or damaged."""
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
    raise UserError(f"{path} is not as it was saved; delete it to have its checkpoint ignored.")


def _is_ours(folder) -> bool:
    """Whether a run of ours lies here: its settings hold a digest."""
    with suppress(OSError):
        return b'"sha256"' in (folder / "settings.json").read_bytes()
    return False
