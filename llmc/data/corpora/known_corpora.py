"""The corpora by name, and how to prepare one of them or your own text."""

from dataclasses import replace
from pathlib import Path

from llmc.data.corpora import fineweb, own_text, pydocs, tinyshakespeare, tinystories
from llmc.data.corpora.options import Options
from llmc.data.corpus import Corpus, data_home
from llmc.errors import UserError

CORPORA = {  # name -> function (Options, say) -> Corpus
    "fineweb": fineweb.prepare,
    "pydocs": pydocs.prepare,
    "tinyshakespeare": tinyshakespeare.prepare,
    "tinystories": tinystories.prepare,
}
FINEWEB_ONLY = ("kind", "sample", "shard_size", "shards")


def prepare_corpus(name=None, out_dir=None, V=None, say=None, folder=None, **choices) -> Corpus:
    """Prepare the corpus `name` or, without a name, one from the text in file=…; an older one is replaced.

    out_dir: where to write it; by default, the folder of that name in `data_home()` · V: the size of a tokenizer
    learned from the text · choices: fields of `Options` (file, tokenizer, format, …) · say(line), if given, receives
    progress. Raises UserError for an unknown name, for choices that contradict each other, and whenever `build` does.
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
    prepare = CORPORA.get(name, own_text.prepare)
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
