"""Finding a prepared corpus, by its name in `data_home()` or by its folder."""

from dataclasses import replace
from pathlib import Path

from llmc.data.corpora.fineweb import folder_name
from llmc.data.corpora.known_corpora import CORPORA, prepare_corpus
from llmc.data.corpora.options import KINDS, SAMPLES, Options
from llmc.data.corpus import Corpus, data_home
from llmc.data.gpt2_tokenizer import gpt2_file
from llmc.errors import UserError
from llmc.terminal import llmc_command

# Folders of FineWeb -> the options that make them
FINEWEB = {
    folder_name(Options(Path(), kind=kind, sample=sample)): ("--kind", kind, "--sample", sample)
    for kind in KINDS
    for sample in SAMPLES
}
SMALL = ("pydocs", "tinyshakespeare")  # prepared without asking when training needs them: a second, a megabyte


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
