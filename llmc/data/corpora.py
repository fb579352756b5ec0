"""The corpora: making one by its name, or one of your own text; and finding one that is made."""

from dataclasses import replace
from pathlib import Path

from llmc.data import fineweb, own_text, pydocs, tinyshakespeare, tinystories
from llmc.data.corpus import Corpus, data_home
from llmc.data.gpt2 import gpt2_file
from llmc.data.options import Options
from llmc.errors import UserError

CORPORA = {  # name -> function (Options, say) -> Corpus
    "fineweb": fineweb.prepare,
    "pydocs": pydocs.prepare,
    "tinyshakespeare": tinyshakespeare.prepare,
    "tinystories": tinystories.prepare,
}
SMALL = ("pydocs", "tinyshakespeare")  # made without asking when training needs them: a second, a megabyte
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
