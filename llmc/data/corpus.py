"""A prepared corpus is a folder with token files for training and validation, and their tokenizer.

The files are train.bin, val.bin and tokenizer.bin, or have the names of llm.c's scripts: x_train.bin and x_val.bin, or
shards x_train_000001.bin, … and x_val_000000.bin.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from llmc.errors import UserError


def data_home() -> Path:
    """The folder that holds one folder for each prepared corpus. It may not exist yet."""
    if os.environ.get("LLMC_DATA_DIR"):
        return Path(os.environ["LLMC_DATA_DIR"])
    checkout = Path(__file__).resolve().parents[2] / "data"
    return checkout if (checkout / "pydocs.py").is_file() else Path("data")


@dataclass(frozen=True)
class Corpus:
    """Where tokens and tokenizer are. train, val: a file, or the pattern of shards, as DataLoader takes it."""

    train: Path
    val: Path
    tokenizer: Path

    @classmethod
    def in_folder(cls, folder) -> "Corpus":
        """The files by their usual names, whether they exist or not. Raises UserError when there are two corpora."""
        folder = Path(folder)
        return cls(_find(folder, "train"), _find(folder, "val"), folder / "tokenizer.bin")

    @property
    def folder(self) -> Path:
        """The folder the tokens are in."""
        return self.train.parent

    @property
    def files(self):
        """All three; the tokenizer is last because it is written last."""
        return self.train, self.val, self.tokenizer

    @property
    def missing(self):
        """Names of the files that are not there."""
        return [path.name for path in self.files if not existing(path)]


def existing(path) -> list[Path]:
    """The files that a path, or a pattern as its last part, stands for."""
    return [path] if path.is_file() else sorted(path.parent.glob(path.name))


def _find(folder, part):
    """The path, or pattern, of the part "train" or "val" in a folder: part.bin where nothing is found."""
    if (folder / f"{part}.bin").is_file():
        return folder / f"{part}.bin"
    names = {path.name for path in folder.glob(f"*_{part}.bin")}
    names |= {re.sub(rf"_{part}_.*", f"_{part}_*.bin", path.name) for path in folder.glob(f"*_{part}_*.bin")}
    if len(names) > 1:
        raise UserError(f"{folder} holds several corpora ({', '.join(sorted(names))}); give each a folder of its own.")
    return folder / (names.pop() if names else f"{part}.bin")
