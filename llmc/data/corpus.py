"""A prepared corpus is a folder that holds token files for training and validation, and their tokenizer.

The files are train.bin, val.bin and tokenizer.bin. The first two may also have the names that llm.c's scripts use:
x_train.bin and x_val.bin, or shards x_train_000001.bin, … and x_val_000000.bin.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from llmc.errors import UserError

TOKENIZER = "tokenizer.bin"


def data_home() -> Path:
    """The folder that contains a folder for each prepared corpus. It may not exist yet."""
    if os.environ.get("LLMC_DATA_DIR"):
        return Path(os.environ["LLMC_DATA_DIR"])
    checkout = Path(__file__).resolve().parents[2] / "data"
    return checkout if (checkout / "pydocs.py").is_file() else Path("data")


@dataclass(frozen=True)
class Corpus:
    """Where the tokens and the tokenizer are. train, val: a file, or a pattern for shards, as for DataLoader."""

    train: Path
    val: Path
    tokenizer: Path

    @classmethod
    def in_folder(cls, folder) -> "Corpus":
        """The files under their usual names, whether they exist or not. Raises UserError if there are two corpora."""
        folder = Path(folder)
        return cls(_find(folder, "train"), _find(folder, "val"), folder / TOKENIZER)

    @property
    def folder(self) -> Path:
        """The folder of the token files."""
        return self.train.parent

    @property
    def files(self):
        """All three files; the tokenizer is last because it is written last."""
        return self.train, self.val, self.tokenizer

    @property
    def missing(self) -> list[str]:
        """Names of the files that do not exist."""
        return [path.name for path in self.files if not existing(path)]

    @property
    def lacks_only_gpt2s_tokenizer(self) -> bool:
        """Whether the tokens are here under the names used by llm.c's scripts, which write no tokenizer for them."""
        return self.missing == [TOKENIZER] and self.train.name != "train.bin"


def existing(path) -> list[Path]:
    """The files that a path refers to; its last part may be a pattern."""
    return [path] if path.is_file() else sorted(path.parent.glob(path.name))


def _find(folder, part):
    """The path or pattern of a part ("train" or "val") in a folder; part.bin if nothing is found."""
    if (folder / f"{part}.bin").is_file():
        return folder / f"{part}.bin"
    names = {path.name for path in folder.glob(f"*_{part}.bin")}
    names |= {re.sub(rf"_{part}_.*", f"_{part}_*.bin", path.name) for path in folder.glob(f"*_{part}_*.bin")}
    if len(names) > 1:
        raise UserError(f"{folder} holds several corpora ({', '.join(sorted(names))}); give each its own folder.")
    return folder / (names.pop() if names else f"{part}.bin")
