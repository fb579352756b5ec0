"""`llmc data`: prepare a corpus by name, or one of your own text."""

import argparse
import sys

from llmc.data import CORPORA, prepare_corpus
from llmc.data.corpora.options import KINDS, SAMPLES, VOCABULARY, Options
from llmc.data.tokens import DTYPES
from llmc.errors import UserError

TOKENIZER_HELP = "gpt2, own (learned from the text), or a tokenizer.bin (default: own for pydocs and a text, else gpt2)"


def add_arguments(parser):
    """The arguments of `llmc data`, for an argparse parser."""
    add, names = parser.add_argument, ", ".join(sorted(CORPORA))
    add("corpus", nargs="?", metavar="NAME", help=f"{names} (default: pydocs, or with --file a text of your own)")
    add("--name", metavar="FOLDER", help="what to call it in the data folder (default: NAME, or that of the file)")
    add_options(parser)
    add_fineweb_options(parser, "fineweb: ")


def add_options(parser):
    """What can be said of every corpus."""
    add = parser.add_argument
    add("--file", help="a copy of the corpus's source on this machine; without NAME, the text to make one of")
    add("--out", metavar="DIR", help="where to write (default: a folder of that name in the data folder)")
    add("--tokenizer", metavar="T", help=TOKENIZER_HELP)
    add("--vocabulary", metavar="V", type=int, help=f"tokens of an own tokenizer (default: {VOCABULARY})")
    add("--format", choices=list(DTYPES), help="int32: llm.c's first form, without a header (default: uint16)")


def add_fineweb_options(parser, prefix=""):
    """Which FineWeb, and how much of it."""
    add = parser.add_argument
    add("--kind", choices=KINDS, help=f"{prefix}all pages, or the educational ones (default: classic)")
    add("--sample", choices=SAMPLES, help=f"{prefix}how many tokens (default: 10B)")
    add("--shard-size", metavar="N", type=int, help=f"{prefix}tokens of a file (default: 100000000)")
    add("--shards", metavar="N", type=int, help=f"{prefix}stop after N files to train on (default: all)")


def run(args) -> int:
    """`llmc data NAME`: prepare the corpus and say where it is. Returns the exit status."""
    choices = dict(vars(args))
    corpus, out, V, folder = (choices.pop(key, None) for key in ("corpus", "out", "vocabulary", "name"))
    choices = {key: value for key, value in choices.items() if key in Options.__dataclass_fields__}
    name = corpus or (None if args.file else "pydocs")
    print(f"wrote {prepare_corpus(name, out, V, print, folder, **choices).folder}")
    return 0


def script(corpus) -> int:
    """What data/NAME.py does: `llmc data NAME`, with its own help. Returns the exit status: 2 when the input is bad."""
    parser = argparse.ArgumentParser(description=f"Prepare the corpus {corpus}; the same as `llmc data {corpus}`.")
    add_options(parser)
    if corpus == "fineweb":
        add_fineweb_options(parser)
    try:
        return run(argparse.Namespace(corpus=corpus, **vars(parser.parse_args())))
    except UserError as error:
        print(f"llmc: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("llmc: interrupted.", file=sys.stderr)
        return 2
