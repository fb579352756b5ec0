"""TinyStories (Eldan & Li 2023): two million stories for small children, in 50 files; the first is for validation.

The stories in each file are shuffled as in llm.c's script; the files keep their order.
"""

import random
import shutil
import tarfile
import zlib
from contextlib import contextmanager
from pathlib import Path

from llmc.data.corpora.build import Part, build, held_out
from llmc.data.corpora.download import download, hub_files
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import read_json

REPOSITORY, ARCHIVE = "roneneldan/TinyStories", "TinyStories_all_data.tar.gz"
SEED = 1337
LARGEST = 1 << 30  # bytes of one file; the published ones have 0.13 GB
DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError)


def prepare(options, say=None):
    """Write TinyStories_train.bin, TinyStories_val.bin and tokenizer.bin; see `build`."""
    with _files(options.file or _fetch(options.out, say), options.out) as files:
        train, val = _split(files)
        encoding = options.encoding(train(), say)
        parts = [("TinyStories_val.bin", val), ("TinyStories_train.bin", train)]
        parts = [Part(((True, story) for story in stories()), [(name, None)]) for name, stories in parts]
        return build(options.out, parts, encoding, options.format, say)


def _fetch(out, say):
    """Download the archive (1.6 GB) and return its path."""
    found = {name: (url, sha256) for name, url, sha256 in hub_files(REPOSITORY)}
    if ARCHIVE not in found:
        raise UserError(f"{REPOSITORY} no longer has {ARCHIVE}; give a copy of it with --file.")
    url, sha256 = found[ARCHIVE]
    return download(url, out / "download" / ARCHIVE, sha256, say)


def _split(files):
    """Two functions: one gives the training stories, one the validation stories (a single file's first ones)."""
    if len(files) > 1:
        return lambda: stories(files[1:]), lambda: stories(files[:1])
    texts = list(stories(files))
    wanted, n = held_out(sum(map(len, texts))), 0
    while n < len(texts) and wanted > 0:
        wanted -= len(texts[n])
        n += 1
    return lambda: texts[n:], lambda: texts[:n]


def stories(files):
    """The stories of each file, stripped, and shuffled with a seed of the file's own."""
    for index, path in enumerate(files):
        advice = "a file of TinyStories is a JSON list of objects with a story"
        found = [story["story"].strip() for story in read_json(path, [{"story": str}], advice, LARGEST)]
        random.Random(SEED + index).shuffle(found)
        yield from found


@contextmanager
def _files(source, out):
    """The .json files of an archive (unpacked while they are needed) or of a folder, or the one file given."""
    source = Path(source)
    if source.is_dir() or source.suffix == ".json":
        yield _in_order([*source.glob("*.json")] if source.is_dir() else [source], source)
        return
    folder = out / "download" / "unpacked"
    try:
        yield _unpack(source, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_order(files, source):
    if not files:
        raise UserError(f"{source} holds no .json files; is it {ARCHIVE}?")
    return sorted(files)


def _unpack(source, folder):
    """Write the .json files of a tar archive into a folder, under their plain names; returns their paths."""
    files = []
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                name = Path(member.name).name
                if member.isfile() and name.endswith(".json") and not name.startswith("."):
                    files.append(folder / name)
                    with atomic_write(folder / name) as file:
                        file.writelines(_blocks(archive.extractfile(member), source))
            while archive.fileobj.read(1 << 20):  # gzip's checksum comes last, after all that tar reads
                pass
    except FileNotFoundError:
        raise UserError(f"there is no file {source}; check the path.") from None
    except DAMAGE:
        raise UserError(f"{source} is not a whole {ARCHIVE}; get a fresh copy.") from None
    return _in_order(files, source)


def _blocks(member, source):
    """The bytes of a file in an archive. Damage is reported here; elsewhere, an OSError would be about the disk."""
    try:
        while block := member.read(1 << 20):
            yield block
    except DAMAGE:
        raise UserError(f"{source} is not a whole {ARCHIVE}; get a fresh copy.") from None
