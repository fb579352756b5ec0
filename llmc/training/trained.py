"""A model to use, by whatever name it is given: a run, or a model file alone. With it, its tokenizer and its window."""

from dataclasses import dataclass
from pathlib import Path

from llmc.data.gpt2_tokenizer import LLMC_NAME, gpt2_encoding
from llmc.data.tokenizer import read_tokenizer, token_table
from llmc.errors import UserError
from llmc.training.run_folder import TOKENIZER, find_model
from llmc.training.run_json import SETTINGS, read_settings

GPT2_VOCABULARY = 50257


@dataclass(frozen=True)
class Trained:
    """Where a model is, and what is known about it: its file, and the TrainSettings of its run (None: no run's)."""

    path: Path
    settings: object = None

    @property
    def folder(self) -> Path:
        """The run folder, or the folder of the model file."""
        return self.path.parent

    def window(self, config) -> int:
        """How many tokens it learned to look back on: its run's sequence length, else all of its positions."""
        return min(self.settings.sequence_length, config.maxT) if self.settings else config.maxT


def find_trained(where=None) -> Trained:
    """The model meant by a file, a run folder, or a run's name under runs/; of the newest run when None.

    Raises UserError when there is none, and for settings of its run that are damaged.
    """
    path = find_model(where)
    return Trained(path, read_settings(path.parent) if (path.parent / SETTINGS).is_file() else None)


def find_encoding(V: int, chosen=None, folders=(), required=True):
    """The tokenizer of a model with V tokens: the file `chosen`, else one that lies in `folders`, else GPT-2's.

    None when there is none and it is not required. Raises UserError for a file that is missing or damaged or has
    another number of tokens, and when two folders hold different tokenizers.
    """
    places = [folder / name for folder in dict.fromkeys(folders) for name in (TOKENIZER, LLMC_NAME)]
    paths = [Path(chosen)] if chosen else [path for path in places if path.is_file()]
    encodings = [read_tokenizer(path) for path in paths]
    for path, encoding in zip(paths, encodings):
        if encoding.n_vocab != V:
            sizes = f"{V} and {encoding.n_vocab} tokens"
            raise UserError(f"model and tokenizer do not belong together, with {sizes}; {path} is another model's.")
        if token_table(encoding) != token_table(encodings[0]):
            raise UserError(f"{paths[0]} and {path} are different tokenizers; choose the right one with --tokenizer.")
    return encodings[0] if encodings else _assumed(V, folders, required)


def _assumed(V, folders, required):
    """GPT-2's tokenizer for a vocabulary of its size, where nothing says otherwise."""
    try:
        if V == GPT2_VOCABULARY:
            return gpt2_encoding()
        where = " or ".join(map(str, dict.fromkeys(folders)))
        raise UserError(f"there is no {TOKENIZER} in {where}; give that of the model with --tokenizer.")
    except UserError:
        if required:
            raise
        return None
