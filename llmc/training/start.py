"""The model that a run begins with: fresh weights for its preset, or a model that was trained before (fine-tuning)."""

from contextlib import contextmanager

from llmc.backends import get_backend
from llmc.checkpoints import load_model, read_config
from llmc.config import GPT2Config, preset
from llmc.data.corpus import TOKENIZER
from llmc.data.tokenizer import read_tokenizer, token_table
from llmc.errors import UserError
from llmc.model import GPT2
from llmc.precision import find_precision
from llmc.training.find_models import find_model


def check_before_data(settings) -> GPT2Config:
    """Raise UserError for mistakes that can be found before the corpus is prepared: model, sequence length, backend.

    Returns the model's sizes as far as they are known: a preset's vocabulary will be the tokenizer's.
    """
    config = config_of(settings)
    config.check_sequence_length(settings.sequence_length)
    backend = get_backend(settings.backend, find_precision(settings.precision))
    backend.choose(settings.matmul, settings.attention)
    return config


def config_of(settings, encoding=None) -> GPT2Config:
    """The sizes of the model that a run with these settings, and this tokenizer if it is known, begins with."""
    if settings.model:
        return read_config(find_model(settings.model))
    return preset(settings.preset, **({"V": encoding.n_vocab} if encoding else {}))


def part_of(settings, ranks) -> tuple[int, int]:
    """(which part, out of how many) of each tensor a rank updates: everything or, with ZeRO-1, its own part."""
    return (ranks.rank, ranks.world) if settings.zero else (0, 1)


def find_communicator(settings, ranks):
    """What carries the model's arrays between ranks: NCCL if they are on GPUs; then each rank gets its own GPU.

    None if the ranks can do it themselves. Call this before putting anything on a GPU. Raises UserError like `use_gpu`.
    """
    if ranks.world == 1 or settings.backend != "cuda":
        return None
    from llmc import cuda

    if cuda.device() != "gpu":
        return None
    from llmc.distributed.nccl import use_gpu

    return use_gpu(ranks)


@contextmanager
def in_turn(ranks, number=None):
    """`with in_turn(ranks):` rank 0 goes first, and all the others when it is done.

    number: our number in the order, if it is not our rank; ranks.local lets one rank of each machine go first.
    """
    number = ranks.rank if number is None else number
    if number:
        ranks.barrier()
    yield
    if not number:
        ranks.barrier()


def fastest_precision(backend) -> str:
    """ "bf16" if the backend is "cpu" and the processor has instructions to multiply such numbers, else "fp32"."""
    from llmc.backends.cpu.onednn import multiplies_bfloat16

    return "bf16" if backend == "cpu" and multiplies_bfloat16() else "fp32"


def make_model(settings, encoding) -> GPT2:
    """The model that a run begins with. Raises UserError if the tokenizer is not the model's."""
    if settings.model is None:
        model = GPT2(preset(settings.preset, V=encoding.n_vocab), settings.backend, *_numbers(settings))
        model.init_weights(settings.seed)
        return model
    path = find_model(settings.model)
    model = load_model(path, settings.backend, *_numbers(settings))
    check_tokenizer(model.config, encoding, path, settings.data)
    return model


def _numbers(settings) -> tuple:
    return settings.precision, settings.master_weights


def check_tokenizer(config, encoding, path, data):
    """Raise UserError unless the model at `path` and `data` have as many tokens and, as far as known, the same ones."""
    if config.V != encoding.n_vocab:
        sizes = f"vocabularies of {config.V:,} and {encoding.n_vocab:,} tokens"
    elif _differ(path.parent / TOKENIZER, encoding):
        sizes = f"different vocabularies of {config.V:,} tokens"
    else:
        return
    raise UserError(f"{path} and the data {data} have {sizes}; prepare the data with the model's own tokenizer.")


def _differ(path, encoding) -> bool:
    """Whether there is a tokenizer file next to the model that holds different tokens."""
    return path.is_file() and token_table(read_tokenizer(path)) != token_table(encoding)
