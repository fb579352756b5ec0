"""FineWeb and FineWeb-Edu (Penedo et al. 2024): web pages, in samples of 10 or 100 billion tokens.

Made as in llm.c's script: shards of 10^8 tokens, the first for validation; a page that does not fit into one shard
continues in the next. Each shard appears as soon as it is full, so an interrupted download leaves a smaller corpus.
"""

import glob
import gzip
import json
import zlib
from itertools import chain, count, islice
from pathlib import Path

from llmc.data.corpora.build import Part, after_validation, check_complete, check_folder, write_files
from llmc.data.corpora.download import download, hub_files
from llmc.data.corpora.options import check_vocabulary
from llmc.data.corpora.text_file import documents
from llmc.data.corpus import TOKENIZER, Corpus, existing
from llmc.data.encoding import pieces
from llmc.data.tokenizer import write_tokenizer
from llmc.errors import UserError, why
from llmc.terminal import pip

JSON_LINES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
ROWS = 1000  # pages read from a parquet file at a time


def folder_name(options) -> str:
    """llm.c's name for the folder: "fineweb10B", "edu_fineweb100B"."""
    return _prefix(options) + options.sample


def prepare(options, say=None) -> Corpus:
    """Write edu_fineweb_val_000000.bin, edu_fineweb_train_000001.bin, … and tokenizer.bin into options.out.

    Raises UserError whenever `build` does; the shards written so far stay if there are enough to train on.
    """
    stem, out = _prefix(options), options.out
    names = (f"{stem}_{'train' if i else 'val'}_{i:06d}.bin" for i in count())
    files = islice(((name, options.shard_size) for name in names), options.shards and options.shards + 1)
    check_folder(out, (f"{stem}_train_*.bin", f"{stem}_val_*.bin"))
    encoding = options.encoding(after_validation((text for _, text in pages(options, say)), options.shard_size), say)
    check_vocabulary(encoding.n_vocab)
    stream, written = pages(options, say), []
    first = list(islice(stream, 1))  # the source can be read, so the old shards can go
    _clear(Corpus.in_folder(out))
    write_tokenizer(out / TOKENIZER, encoding)
    for name, ntok in write_files(out, Part(chain(first, stream), files), encoding, options.format, say):
        written.append((name, ntok))
        if say:
            say(f"wrote {name}: {ntok:,} tokens")
    try:
        check_complete(out, written)
    except UserError:
        _clear(Corpus.in_folder(out))
        raise
    return Corpus.in_folder(out)


def _prefix(options):
    return "edu_fineweb" if options.kind == "edu" else "fineweb"


def _clear(corpus):
    """Remove the files, the tokenizer last, so that tokens are never next to the wrong one."""
    for file in (file for path in corpus.files for file in existing(path)):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"cannot remove {file}: {why(error)}; choose another folder with --out.") from error


# --------------------------------------------------------------------------------------------------------- the sources


def pages(options, say=None):
    """Yield (begins a page?, text) from all source files, downloading each when its turn comes."""
    for path in _sources(options, say):
        if path.name.endswith(".parquet"):
            yield from ((True, text) for text in _parquet(path))
        elif path.name.endswith(JSON_LINES):
            yield from ((True, text) for text in _json_lines(path))
        else:
            yield from pieces(documents(path))


def _sources(options, say):
    if options.file is None:
        _pyarrow()  # before two gigabytes are fetched, not after
        repository = "HuggingFaceFW/fineweb" + ("-edu" if options.kind == "edu" else "")
        for name, url, sha256 in hub_files(repository, f"sample/{options.sample}T"):
            yield download(url, options.out / "download" / name, sha256, say)
        return
    file = Path(options.file)
    paths = file.iterdir() if file.is_dir() else [file] if file.exists() else map(Path, glob.glob(options.file))
    paths = sorted(path for path in paths if path.is_file())
    if not paths:
        raise UserError(f"there is no file {file}; check the path.")
    yield from paths


def _pyarrow():
    try:
        import pyarrow.parquet

        return pyarrow
    except ImportError:
        raise UserError(
            f"reading FineWeb's parquet files needs pyarrow; run `{pip('install', 'pyarrow')}`, or give a .jsonl"
            " or text file with --file."
        ) from None


def _parquet(path):
    """Yield the texts in the column "text"."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if "text" not in file.schema_arrow.names:
                raise UserError(f'{path} has no column "text"; is it a file of FineWeb?')
            for batch in file.iter_batches(ROWS, columns=["text"]):
                yield from (text for text in batch.column(0).to_pylist() if text)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"cannot read {path} as parquet ({str(error).splitlines()[0]}); get a fresh copy.") from error


def _json_lines(path):
    """Yield the field "text" of the JSON object on each line."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _text(line, f"line {number:,} of {path}")
    except (EOFError, zlib.error):
        raise UserError(f"{path} is truncated or damaged; get a fresh copy.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}.") from error


def _text(line, where):
    try:
        text = json.loads(line)["text"]
    except (ValueError, TypeError, KeyError):
        text = None
    if not isinstance(text, str):
        raise UserError(f'{where} is not a JSON object with a "text"; is it a file of FineWeb?')
    return text
