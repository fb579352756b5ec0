"""HellaSwag's validation set: 10,042 examples, 12 MB, downloaded once into `data_home()`/hellaswag."""

from itertools import islice
from pathlib import Path

from llmc.data.corpora.download import download
from llmc.data.corpus import data_home
from llmc.errors import UserError
from llmc.files.reading import user_path
from llmc.hellaswag.eval_file import read_eval_file
from llmc.hellaswag.examples import Example, read_examples

URL = "https://raw.githubusercontent.com/rowanz/hellaswag/master/data/hellaswag_val.jsonl"
SHA256 = "0aa3b88843990f3f10a97b9575c94d7b71fb2205240ba04ae4884d9e9c992588"
NAME = "hellaswag_val.jsonl"


def fetch_hellaswag(say=None) -> Path:
    """The path of hellaswag_val.jsonl, downloaded and checked unless it is already there. Raises UserError like
    download."""
    path = data_home() / "hellaswag" / NAME
    return download(URL, path, SHA256, say, advice=f"put a copy of the file at {path}.")


def load_examples(path=None, encoding=None, V=None, limit=None, say=None) -> list[Example]:
    """The first `limit` examples (all if None) of a file, by default the validation set, downloaded if necessary.

    path: a .jsonl file, whose text `encoding` (a `tiktoken.Encoding`) turns into tokens, or llm.c's .bin, which holds
    GPT-2's tokens · V: the model's number of tokens, to check against. Raises UserError if the file is missing, cannot
    be downloaded, is damaged, or does not fit the model.
    """
    path = fetch_hellaswag(say) if path is None else user_path(path)
    if path.suffix == ".bin":
        examples = read_eval_file(path, limit)
    elif encoding is None:
        raise UserError(f"{path} is text, which needs the model's tokenizer; give it with --tokenizer.")
    else:
        examples = list(islice(read_examples(path, encoding), limit))
    highest = max(max(map(max, (example.context, *example.endings))) for example in examples)
    if V is not None and highest >= V:
        raise UserError(
            f"{path} holds token {highest}, but the model knows only tokens 0 to {V - 1}; give the .jsonl file"
            " instead, which has text."
        )
    return examples
