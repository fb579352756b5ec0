"""`llmc data`: prepare a corpus by its name, or from your own text."""

import argparse
import sys

from llmc.data import CORPORA, prepare_corpus
from llmc.data.corpora.options import KINDS, SAMPLES, VOCABULARY, Options
from llmc.data.tokens import DTYPES
from llmc.errors import UserError
from llmc.interrupts import STATUS

TOKENIZER_HELP = (
    "gpt2, own (learned from the text) or a tokenizer.bin (default: own for pydocs and your own text, else gpt2)"
)


def add_arguments(parser):
    """Declare the arguments of `llmc data` on an argparse parser."""
    add, names = parser.add_argument, ", ".join(sorted(CORPORA))
    add("corpus", nargs="?", metavar="NAME", help=f"{names} (default: pydocs, or your own text with --file)")
    add("--name", metavar="FOLDER", help="its name in the data folder (default: NAME, or the name of the file)")
    add_options(parser)
    add_fineweb_options(parser, "fineweb: ")


def add_options(parser):
    """The options of every corpus."""
    add = parser.add_argument
    add("--file", help="a local copy of the corpus's source; without NAME, the text to make a corpus from")
    add("--out", metavar="DIR", help="the folder to write (default: the one of that name in the data folder)")
    add("--tokenizer", metavar="T", help=TOKENIZER_HELP)
    vocabulary = f"number of tokens, for a tokenizer learned from the text (default: {VOCABULARY})"
    add("--vocabulary", metavar="V", type=int, help=vocabulary)
    add("--format", choices=list(DTYPES), help="how tokens are stored; int32 is llm.c's first format (default: uint16)")


def add_fineweb_options(parser, prefix=""):
    """The options of FineWeb: which one, and how much of it."""
    add = parser.add_argument
    add("--kind", choices=KINDS, help=f"{prefix}all pages, or the educational ones (default: classic)")
    add("--sample", choices=SAMPLES, help=f"{prefix}number of tokens (default: 10B)")
    add("--shard-size", metavar="N", type=int, help=f"{prefix}tokens per file (default: 100000000)")
    add("--shards", metavar="N", type=int, help=f"{prefix}stop after N training files (default: all)")


def run(args) -> int:
    """Prepare the corpus and print where it is; always 0."""
    choices = dict(vars(args))
    corpus, out, V, folder = (choices.pop(key, None) for key in ("corpus", "out", "vocabulary", "name"))
    choices = {key: value for key, value in choices.items() if key in Options.__dataclass_fields__}
    name = corpus or (None if args.file else "pydocs")
    print(f"wrote {prepare_corpus(name, out, V, print, folder, **choices).folder}")
    return 0


def script(corpus) -> int:
    """The script data/NAME.py: `llmc data NAME` with a help text of its own. Returns the exit status."""
    parser = argparse.ArgumentParser(description=f"Prepare the corpus {corpus}; the same as `llmc data {corpus}`.")
    add_options(parser)
    if corpus == "fineweb":
        add_fineweb_options(parser)
    try:
        return run(argparse.Namespace(corpus=corpus, **vars(parser.parse_args())))
    except UserError as error:
        print(f"llmc: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("llmc: interrupted.", file=sys.stderr)
        return STATUS
