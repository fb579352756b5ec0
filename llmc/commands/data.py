"""`llmc data`: prepare a known corpus, your own text, or llm.c's HellaSwag file."""

import argparse
import sys
from pathlib import Path

from llmc.data import CORPORA, data_home, prepare_corpus
from llmc.data.corpora.known_corpora import FINEWEB_ONLY
from llmc.data.corpora.options import KINDS, OWN, SAMPLES, VOCABULARY, Options
from llmc.data.tokens import DTYPES
from llmc.errors import UserError
from llmc.interrupts import STATUS

HELLASWAG = "hellaswag"
TOKENIZER_HELP = (
    "gpt2, own (learned from the text) or a tokenizer.bin (default: own for pydocs and your own text, else gpt2)"
)


def add_arguments(parser):
    """Declare the arguments of `llmc data` on an argparse parser."""
    add, names = parser.add_argument, ", ".join(sorted((*CORPORA, HELLASWAG)))
    add("corpus", nargs="?", metavar="NAME", help=f"{names} (default: pydocs, or your own text with --file)")
    add("--name", metavar="FOLDER", help="name of the corpus in the data folder (default: NAME, or the file's name)")
    add_options(parser)
    add_fineweb_options(parser, "fineweb: ")


def add_options(parser):
    """Add the options that apply to every corpus."""
    add = parser.add_argument
    add("--file", help="a local copy of the corpus's source; without NAME, the text to make a corpus from")
    add("--out", metavar="DIR", help="the folder to write to (default: the folder of that name in the data folder)")
    add("--tokenizer", metavar="T", help=TOKENIZER_HELP)
    vocabulary = f"number of tokens in a tokenizer learned from the text (default: {VOCABULARY})"
    add("--vocabulary", metavar="V", type=int, help=vocabulary)
    add("--format", choices=list(DTYPES), help="how tokens are stored; int32 is llm.c's first format (default: uint16)")


def add_fineweb_options(parser, prefix=""):
    """Add FineWeb's options: which version of it, and how much."""
    add = parser.add_argument
    add("--kind", choices=KINDS, help=f"{prefix}all pages, or only the educational ones (default: classic)")
    add("--sample", choices=SAMPLES, help=f"{prefix}number of tokens (default: 10B)")
    add("--shard-size", metavar="N", type=int, help=f"{prefix}tokens per file (default: 100000000)")
    add("--shards", metavar="N", type=int, help=f"{prefix}stop after N training files (default: all)")


def run(args) -> int:
    """Prepare the corpus and print where it is. Always returns 0."""
    choices = dict(vars(args))
    if args.corpus == HELLASWAG:
        return _write_hellaswag(args)
    corpus, out, V, folder = (choices.pop(key, None) for key in ("corpus", "out", "vocabulary", "name"))
    choices = {key: value for key, value in choices.items() if key in Options.__dataclass_fields__}
    name = corpus or (None if args.file else "pydocs")
    print(f"wrote {prepare_corpus(name, out, V, print, folder, **choices).folder}")
    return 0


def _write_hellaswag(args) -> int:
    """Write hellaswag_val.bin, llm.c's eval file, and print where it is. Always returns 0."""
    from llmc.hellaswag import load_examples, write_eval_file

    useless = ("vocabulary", "format", "name", *FINEWEB_ONLY)
    for name in (name for name in useless if vars(args).get(name) is not None):
        raise UserError(f"--{name.replace('_', '-')} is for corpora, and {HELLASWAG} is not one; leave it out.")
    tokenizer = "gpt2" if args.tokenizer is None else args.tokenizer
    if tokenizer in OWN:
        raise UserError(
            f"{HELLASWAG} is too small to learn a tokenizer from; leave --tokenizer out, or give it a tokenizer file."
        )
    out = Path(args.out or data_home() / HELLASWAG) / "hellaswag_val.bin"
    examples = load_examples(args.file, Options(out.parent, tokenizer=tokenizer).encoding(()), say=print)
    write_eval_file(out, examples)
    print(f"wrote {out}: {len(examples):,} examples")
    return 0


def script(corpus) -> int:
    """The script data/NAME.py: `llmc data NAME` with its own help text. Returns the exit status."""
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
