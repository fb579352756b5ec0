"""`settings.json` in a run folder: {"preset": "tiny", "sequence_length": 64, …}, the fields of TrainSettings."""

import json
from dataclasses import asdict, fields
from pathlib import Path

from llmc.data import CORPORA
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.reading import opened
from llmc.training.settings import PLACE, TrainSettings

SETTINGS = "settings.json"


def write_settings(folder, settings: TrainSettings):
    """Write settings.json, without the place of the run: its folder may be moved.

    The path of a data folder is made absolute, so that it is found again from anywhere.
    """
    values = {name: value for name, value in asdict(settings).items() if name not in PLACE}
    if settings.data not in CORPORA and Path(settings.data).is_dir():
        values["data"] = str(Path(settings.data).resolve())
    with atomic_write(Path(folder) / SETTINGS, "w") as file:
        json.dump(values, file, indent=1)


def read_settings(folder) -> TrainSettings:
    """The settings of the run in a folder. Raises UserError when they are missing or damaged."""
    path = Path(folder) / SETTINGS
    values = _read(path)
    if not isinstance(values, dict) or not values.keys() <= {field.name for field in fields(TrainSettings)}:
        raise UserError(f"{path} does not hold the settings of a run; start a new run from its weights with --model.")
    try:
        return TrainSettings(**values)
    except (UserError, OverflowError) as error:  # OverflowError: a whole number too long for a float
        raise UserError(f"{path} is damaged: {error}") from None


def _read(path):
    with opened(path, "start a new run from the weights with --model") as file:
        raw = file.read()
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: it is not JSON; start a new run from the weights with --model.") from None
