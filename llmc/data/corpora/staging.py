"""The files of a corpus appear in their folder together or not at all, even if two processes make the same corpus."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

from llmc.data.corpus import Corpus, existing
from llmc.errors import UserError, cannot


def check_folder(out_dir, names):
    """Raise UserError if out_dir holds a corpus under names other than `names` (files, or patterns of shards)."""
    there = Corpus.in_folder(out_dir)
    for path in (there.train, there.val):
        if existing(path) and path.name not in names:
            raise UserError(f"{out_dir} holds another corpus ({path.name}); choose another folder with --out.")


@contextmanager
def staged(out_dir: Path):
    """A new folder next to out_dir; its files are moved there at the end, unless another process has finished first."""
    had_all = not Corpus.in_folder(out_dir).missing
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out_dir.name}.", dir=out_dir.parent) as temporary:
            folder = Path(temporary) / out_dir.name
            folder.mkdir()
            yield folder
            _move(Corpus.in_folder(folder), out_dir, had_all)
    except OSError as error:
        raise cannot(f"write the corpus to {out_dir}", error) from error


def _move(made: Corpus, out_dir: Path, had_all: bool):
    """Rename the whole folder if out_dir does not exist; else move file by file, so that other files in it stay."""
    try:
        made.folder.rename(out_dir)
        return
    except OSError:
        if not out_dir.is_dir():
            raise
    final = Corpus.in_folder(out_dir)
    if not final.missing and not had_all:  # another process has made it meanwhile
        return
    if not had_all or final.tokenizer.read_bytes() != made.tokenizer.read_bytes():
        final.train.unlink(missing_ok=True)  # without it the folder counts as unprepared, until the last rename below
    for source in (made.val, made.tokenizer, made.train):
        source.replace(out_dir / source.name)
