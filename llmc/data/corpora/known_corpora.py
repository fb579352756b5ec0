"""The corpora by name: how to prepare one of them or your own text, and how to find one that is prepared."""

from dataclasses import replace
from pathlib import Path

from llmc.data.corpora import fineweb, pydocs, text_file, tinyshakespeare, tinystories
from llmc.data.corpora.options import KINDS, SAMPLES, Options
from llmc.data.corpus import Corpus, data_home
from llmc.data.gpt2_tokenizer import gpt2_file
from llmc.errors import UserError
from llmc.terminal import llmc_command

CORPORA = {  # name -> function (Options, say) -> Corpus
    "fineweb": fineweb.prepare,
    "pydocs": pydocs.prepare,
    "tinyshakespeare": tinyshakespeare.prepare,
    "tinystories": tinystories.prepare,
}
FINEWEB_ONLY = ("kind", "sample", "shard_size", "shards")
# Folders of FineWeb -> the options that make them
FINEWEB = {
    fineweb.folder_name(Options(Path(), kind=kind, sample=sample)): ("--kind", kind, "--sample", sample)
    for kind in KINDS
    for sample in SAMPLES
}
SMALL = ("pydocs", "tinyshakespeare")  # prepared without asking when training needs them: a second, a megabyte


def prepare_corpus(name=None, out_dir=None, V=None, say=None, folder=None, **choices) -> Corpus:
    """Prepare the corpus `name` or, without a name, one from the text in file=…; an older one is replaced.

    out_dir: where to write it; by default, the folder of that name in `data_home()`.
    V: the size of a tokenizer learned from the text.
    say(line): receives progress, if given.
    choices: fields of `Options` (file, tokenizer, format, …).

    Raises UserError for an unknown name, for choices that contradict each other, and whenever `build` does.
    """
    known = ", ".join(sorted(CORPORA))
    if name is not None and name not in CORPORA:
        raise UserError(
            f'there is no corpus "{name}"; choose one of {known}, or give your own text with --file and no name.'
        )
    if name is None and not choices.get("file"):
        raise UserError(f"name a corpus ({known}), or give your own text with --file.")
    if name == "pydocs" and choices.get("file"):
        raise UserError("pydocs is always made from the Python that runs llmc; for your own text, leave out the name.")
    given = {key: value for key, value in choices.items() if value is not None}
    wrong = [key for key in FINEWEB_ONLY if key in given and name != "fineweb"]
    if wrong:
        raise UserError(f"--{wrong[0].replace('_', '-')} works with fineweb only; leave it out.")
    gpt2 = name not in (None, "pydocs") and V is None
    options = Options(**{"out": Path(), "tokenizer": "gpt2" if gpt2 else "own", "vocabulary": V, **given})
    prepare = CORPORA.get(name, text_file.prepare)
    return prepare(replace(options, out=_place(name, out_dir, folder, options)), say)


def _place(name, out_dir, folder, options) -> Path:
    """The folder to write to."""
    if out_dir and folder:
        raise UserError("--out and --name both choose the folder; leave one of them out.")
    if out_dir:
        return Path(out_dir)
    usual = fineweb.folder_name(options) if name == "fineweb" else name
    folder = folder or usual or Path(options.file).stem
    if folder != Path(folder).name or folder in ("", ".", ".."):
        raise UserError(f"{folder!r} cannot be the name of a corpus; use a plain name, or give a folder with --out.")
    if folder in CORPORA and folder != name:
        raise UserError(f"{folder} is the name of another corpus; choose a different one with --name.")
    return data_home() / folder


def find_corpus(name_or_dir, say=None) -> Corpus:
    """The files of a corpus, by its name in `data_home()` or by its folder; a small known one is prepared if necessary.

    Token files from llm.c's scripts come without a tokenizer, because it is GPT-2's. say(line), if given, receives
    progress. Raises UserError if there is no such corpus, or if one of its files is missing.
    """
    name = str(name_or_dir)
    places = [Path(name), data_home() / name]
    places = [place for place in (places[::-1] if name in CORPORA else places) if place.is_dir()]
    found = [Corpus.in_folder(place) for place in places]
    for corpus in found:
        if not corpus.missing:
            return corpus
        if corpus.lacks_only_gpt2s_tokenizer:
            return replace(corpus, tokenizer=gpt2_file(corpus.folder))
    if name in SMALL:
        return prepare_corpus(name, say=say)
    if name in (*CORPORA, *FINEWEB):
        command = llmc_command("data", *(["fineweb", *FINEWEB[name]] if name in FINEWEB else [name]))
        raise UserError(f"{name} is a large corpus that is not prepared yet; prepare it with `{command}`.")
    if found:
        raise UserError(f"the folder {places[0]} lacks {' and '.join(found[0].missing)}; prepare the corpus again.")
    if Path(name).is_file():
        command = llmc_command("data", "--file", name)
        raise UserError(f"{name} is a file, but training needs a corpus; make one from its text with `{command}`.")
    known = ", ".join(sorted({*CORPORA, *prepared()}))
    help_ = llmc_command("data", "--help")
    raise UserError(f'"{name}" is neither a folder nor a known corpus ({known}); see `{help_}`.')


def prepared() -> list[str]:
    """Names of the complete corpora in `data_home()`."""
    found = []
    for folder in sorted({path.parent for path in data_home().glob("*/*.bin")}):
        try:
            if not Corpus.in_folder(folder).missing:
                found.append(folder.name)
        except UserError:  # two corpora in one folder
            pass
    return found
