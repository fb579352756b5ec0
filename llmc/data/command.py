"""`llmc data`: prepare a corpus by name, or one of your own text; and finding one that is prepared."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from llmc.data import fineweb, own_text, pydocs, tinyshakespeare, tinystories
from llmc.data.corpus import Corpus, data_home
from llmc.data.gpt2 import gpt2_file
from llmc.data.options import KINDS, SAMPLES, VOCABULARY, Options
from llmc.data.tokens import DTYPES
from llmc.errors import UserError

CORPORA = {  # name -> function (Options, say) -> Corpus
    "fineweb": fineweb.prepare,
    "pydocs": pydocs.prepare,
    "tinyshakespeare": tinyshakespeare.prepare,
    "tinystories": tinystories.prepare,
}
SMALL = ("pydocs", "tinyshakespeare")  # made without asking when training needs them: a second, a megabyte
TOKENIZER_HELP = "gpt2, own (learned from the text), or a tokenizer.bin (default: own for pydocs and a text, else gpt2)"
FINEWEB_ALONE = ("kind", "sample", "shard_size", "shards")


def prepare_corpus(name=None, out_dir=None, V=None, say=None, folder=None, **choices) -> Corpus:
    """Make a corpus anew: the one called `name`, or, without a name, one of the text in file=….

    It goes to out_dir, or to the folder of that name in `data_home()`. V: the size of a tokenizer that is learned from
    the text · choices: fields of `Options` (file, tokenizer, format, …) · say(sentence), if given, is told about
    progress. Raises UserError for an unknown name, for choices that make no sense, and as `build` does.
    """
    known = ", ".join(sorted(CORPORA))
    if name is not None and name not in CORPORA:
        raise UserError(f'there is no corpus "{name}"; known: {known}; for a text of your own give --file alone.')
    if name is None and not choices.get("file"):
        raise UserError(f"name a corpus ({known}), or give a text of your own with --file.")
    if name == "pydocs" and choices.get("file"):
        raise UserError("pydocs is made from this Python; for a text of your own leave the name away.")
    given = {key: value for key, value in choices.items() if value is not None}
    alone = [key for key in FINEWEB_ALONE if key in given and name != "fineweb"]
    if alone:
        raise UserError(f"--{alone[0].replace('_', '-')} is for fineweb alone.")
    gpt2 = name not in (None, "pydocs") and V is None
    options = Options(**{"out": Path(), "tokenizer": "gpt2" if gpt2 else "own", "vocabulary": V, **given})
    return CORPORA.get(name, own_text.prepare)(replace(options, out=_place(name, out_dir, folder, options)), say)


def _place(name, out_dir, folder, options) -> Path:
    """The folder to write."""
    if out_dir:
        return Path(out_dir)
    usual = fineweb.folder_name(options) if name == "fineweb" else name
    folder = folder or usual or Path(options.file).stem
    if folder != Path(folder).name or folder in ("", ".", ".."):
        raise UserError(f"{folder!r} cannot name a corpus; use a plain name, or give a folder with --out.")
    if folder in CORPORA and folder != name:
        raise UserError(f"{folder} is the name of another corpus; choose one for yours with --name.")
    return data_home() / folder


def find_corpus(name_or_dir, say=None) -> Corpus:
    """The files of a corpus: by the name of a folder in `data_home()`, or by its path; small known ones are made first.

    Files of llm.c's scripts have no tokenizer beside them: it is GPT-2's. Raises UserError when nothing of that name is
    there, and when a file is missing.
    """
    name = str(name_or_dir)
    places = [Path(name), data_home() / name]
    places = [place for place in (places[::-1] if name in CORPORA else places) if place.is_dir()]
    found = [Corpus.in_folder(place) for place in places]
    for corpus in found:
        if not corpus.missing:
            return corpus
        if corpus.missing == ["tokenizer.bin"] and corpus.train.name != "train.bin":
            return replace(corpus, tokenizer=gpt2_file(corpus.folder))
    if name in SMALL:
        return prepare_corpus(name, say=say)
    if name in CORPORA:
        raise UserError(f"{name} is not prepared yet, and it is large: `llmc data {name}` fetches it.")
    if found:
        raise UserError(f"the folder {places[0]} lacks {' and '.join(found[0].missing)}; prepare it again.")
    known = sorted({*CORPORA, *prepared()})
    raise UserError(f'"{name}" is neither a folder nor a known corpus ({", ".join(known)}); see `llmc data --help`.')


def prepared() -> list[str]:
    """Names of the whole corpora that stand in `data_home()`."""
    found = []
    for folder in sorted({path.parent for path in data_home().glob("*/*.bin")}):
        try:
            if not Corpus.in_folder(folder).missing:
                found.append(folder.name)
        except UserError:  # two in one folder
            pass
    return found


# ---------------------------------------------------------------------------------------------------- the command line


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
