"""Data: token files, the loader, tokenizers, and the corpora that `llmc data NAME` prepares.

Prepared corpora live in `data_home()`/NAME: the environment variable LLMC_DATA_DIR, else `data/` of the source
checkout, else `data/` of the current folder. llm.c keeps the same kind of scripts in `dev/data/`.
"""

import os
from pathlib import Path

from llmc.data import pydocs
from llmc.data.corpus import Corpus
from llmc.data.loader import DataLoader
from llmc.data.tokens import read_tokens, write_tokens
from llmc.errors import UserError

__all__ = [
    "CORPORA",
    "Corpus",
    "DataLoader",
    "data_home",
    "find_corpus",
    "prepare_corpus",
    "read_tokens",
    "write_tokens",
]

CORPORA = {"pydocs": pydocs.prepare}  # name -> function (out_dir, V, say) -> Corpus


def data_home() -> Path:
    """The folder that holds one folder for each prepared corpus. It may not exist yet."""
    if os.environ.get("LLMC_DATA_DIR"):
        return Path(os.environ["LLMC_DATA_DIR"])
    checkout = Path(__file__).resolve().parents[2] / "data"
    return checkout if (checkout / "pydocs.py").is_file() else Path("data")


def prepare_corpus(name: str, out_dir=None, V: int = 1024, say=None) -> Corpus:
    """Make the corpus anew, in out_dir or `data_home()`/name, with a tokenizer of V tokens.

    say(sentence), if given, is told about progress. Raises UserError for an unknown name, and as `build_corpus` does.
    """
    if name not in CORPORA:
        raise UserError(f'there is no corpus "{name}"; known: {", ".join(sorted(CORPORA))}.')
    return CORPORA[name](out_dir or data_home() / name, V, say)


def find_corpus(name_or_dir, say=None) -> Corpus:
    """The files of a corpus by name, prepared first when they are not there, or of a folder that holds all three.

    Raises UserError for a name that is neither, and for a folder in which a file is missing.
    """
    if str(name_or_dir) in CORPORA:
        corpus = Corpus.in_folder(data_home() / str(name_or_dir))
        return prepare_corpus(str(name_or_dir), say=say) if corpus.missing else corpus
    corpus = Corpus.in_folder(name_or_dir)
    if not Path(name_or_dir).is_dir():
        raise UserError(f'"{name_or_dir}" is neither a folder nor a known corpus ({", ".join(sorted(CORPORA))}).')
    if corpus.missing:
        raise UserError(f"the folder {name_or_dir} lacks {' and '.join(corpus.missing)}; prepare it again.")
    return corpus


def add_arguments(parser):
    """The arguments of `llmc data`, for an argparse parser."""
    names = ", ".join(sorted(CORPORA))
    parser.add_argument("name", nargs="?", default="pydocs", help=f"one of: {names} (default: pydocs)")
    add_options(parser)


def add_options(parser):
    """Where the corpus goes, and how large its vocabulary is."""
    parser.add_argument("--out", metavar="DIR", help="where to write (default: NAME in the data folder)")
    parser.add_argument("--vocabulary", metavar="V", type=int, default=1024, help="tokens in all (default: 1024)")


def run(args) -> int:
    """`llmc data NAME`: prepare the corpus and say where it is. Returns the exit status."""
    corpus = prepare_corpus(args.name, args.out, args.vocabulary, say=print)
    print(f"wrote {corpus.train.parent}")
    return 0
