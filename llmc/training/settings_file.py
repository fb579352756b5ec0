"""`settings.json` in a run folder: {"preset": "tiny", "sequence_length": 64, …}, the fields of TrainSettings.

Its last entry is a digest of the others. Editing a setting by hand would turn this run into a different one, so it is
refused; settings that may change within a run are options of `llmc train --resume`.
"""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path

from llmc.data import CORPORA
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import read_json
from llmc.files.digest import json_digest
from llmc.terminal import llmc_command
from llmc.training.settings import PLACE, TrainSettings

SETTINGS = "settings.json"
DIGEST = "sha256"


def write_settings(folder, settings: TrainSettings):
    """Write settings.json, leaving out where the run is, since its folder may be moved.

    The path of a data folder is made absolute, so that it can be found from anywhere.
    """
    values = setting_values(settings)
    if settings.data not in CORPORA and Path(settings.data).is_dir():
        values["data"] = str(Path(settings.data).resolve())
    with atomic_write(Path(folder) / SETTINGS, "w") as file:
        json.dump({**values, DIGEST: json_digest(values)}, file, indent=1)


def setting_values(settings: TrainSettings) -> dict:
    """{name: value} for all settings except where the run is, in JSON's types."""
    values = {name: value for name, value in asdict(settings).items() if name not in PLACE}
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}


def renamed(values) -> dict:
    """{name: value} as stored by any version, under today's names: `order` was shuffle, True, "llm.c" or False."""
    if "shuffle" not in values:
        return values
    values = dict(values)
    shuffle = values.pop("shuffle")
    return {**values, "order": "random" if shuffle is True else "files" if shuffle is False else shuffle}


def read_settings(folder) -> TrainSettings:
    """The settings of the run in a folder. Raises UserError if they are missing, damaged or edited."""
    path = Path(folder) / SETTINGS
    values = _read(path)
    known = values.pop(DIGEST, None)  # none in those of older runs
    whole = json_digest(values)
    values = renamed(values)
    if not values.keys() <= {field.name for field in fields(TrainSettings)}:
        raise UserError(f"{path} does not hold the settings of a run; start a new run from its weights with --model.")
    try:
        settings = TrainSettings(**values)
    except UserError as error:
        raise UserError(f"{path} is damaged: {error}") from None
    if known not in (None, whole):
        raise edited(folder)
    return settings


def has_digest(folder) -> bool:
    """Whether settings.json has a digest; runs from before digests were introduced have none."""
    return DIGEST in _read(Path(folder) / SETTINGS)


def edited(folder) -> UserError:
    """The error for settings that have changed since they were written."""
    command = llmc_command("train", "--resume", Path(folder), "--learning-rate", "X")
    path = Path(folder) / SETTINGS
    return UserError(f"{path} has been edited; undo that, and give new settings as options, such as `{command}`.")


def _read(path):
    return read_json(path, dict, "start a new run from its weights with --model")
