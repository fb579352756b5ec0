"""Where a run begins: the model of its preset with fresh weights, or one that was trained before (fine-tuning)."""

from llmc.backends import get_backend
from llmc.checkpoints import read_config, read_model
from llmc.config import GPT2Config, preset
from llmc.data.tokenizer import read_tokenizer, token_table
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.training.run_folder import TOKENIZER, find_model


def check_before_data(settings) -> GPT2Config:
    """Raise UserError for what can be known to be wrong before the corpus is there: model, length, backend.

    Returns the sizes of the model as far as they are known: a preset's vocabulary will be the tokenizer's.
    """
    config = read_config(find_model(settings.model)) if settings.model else preset(settings.preset)
    config.check_sequence_length(settings.sequence_length)
    get_backend(settings.backend)
    return config


def make_model(settings, encoding) -> GPT2:
    """The model that `settings` ask for, with its weights. Raises UserError when the tokenizer is not the model's."""
    if settings.model is None:
        model = GPT2(preset(settings.preset, V=encoding.n_vocab), settings.backend)
        model.init_weights(settings.seed)
        return model
    path = find_model(settings.model)
    model = read_model(path, settings.backend)
    check_tokenizer(model.config, encoding, path, settings.data)
    return model


def check_tokenizer(config, encoding, path, data):
    """Raise UserError unless the model at `path` reads the tokens of `data`: as many, and where known the same ones."""
    if config.V != encoding.n_vocab:
        sizes = f"vocabularies of {config.V:,} and {encoding.n_vocab:,} tokens"
    elif _differ(path.parent / TOKENIZER, encoding):
        sizes = f"different vocabularies of {config.V:,} tokens"
    else:
        return
    raise UserError(f"{path} and the data {data} have {sizes}; prepare the data with the model's own tokenizer.")


def _differ(path, encoding) -> bool:
    """Whether there is a tokenizer file beside the model, and it holds other tokens."""
    return path.is_file() and token_table(read_tokenizer(path)) != token_table(encoding)
