"""Reading and writing a GPT-2 as config.json and model.safetensors, the files of Hugging Face's transformers.

A model that would give different logits here and in transformers is refused. The head is tied to wte and not stored.
"""

import json
from pathlib import Path

import numpy as np

from llmc.checkpoints.huggingface.safetensors_file import read_index, write_safetensors
from llmc.checkpoints.huggingface.source_files import CONFIG, WEIGHTS, find_files
from llmc.checkpoints.huggingface.tensor_layout import NAMES, config_of, options_of, pieces
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.checked_json import read_json
from llmc.files.floats import check_finite
from llmc.model import GPT2

PREFIX = "transformer."  # in the files of a GPT2LMHeadModel, but not of a bare GPT2Model, such as OpenAI's
HEAD = "lm_head.weight"
COMPILED = "_orig_mod."  # before the names of a model that torch.compile had wrapped
DTYPES = {"float32": "F32", "bfloat16": "BF16"}  # the names of transformers and of safetensors
MASKS = (".attn.bias", ".attn.masked_bias")  # constants in old files


def read_huggingface(source, backend="numpy", precision="fp32") -> GPT2:
    """Read the GPT-2 in a local folder (or its .safetensors file), or on the hub: "openai-community/gpt2".

    Weights may be float32, float16, bfloat16 or float64, in one file or several. Raises UserError if something is
    missing or damaged, if it is not a GPT-2, and for options that llmc does not support.
    """
    config_path, paths = find_files(source)
    options = read_json(config_path, dict)
    config = config_of(config_path, options)
    tensors = {name.removeprefix(COMPILED): tensor for path in paths for name, tensor in read_index(path).items()}
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    if HEAD in tensors:
        tensors.setdefault(prefix + NAMES["wte"], tensors[HEAD])  # two names for one: a file may hold either
    _check_tensors(source, config, tensors, prefix)
    _check_head(source, options, tensors, prefix)
    model = GPT2(config, backend, precision)
    for name, index, theirs, _, transposed in pieces(config):
        values = tensors[prefix + theirs].read()  # (V, C), (maxT, C), (C_in, C_out) or (C_out,)
        values = np.ascontiguousarray(values.T if transposed else values, model.precision.weights)  # (C_out, C_in)
        model.params[name][index] = model.backend.from_numpy(values)
    check_finite(model, source)
    return model


def write_huggingface(folder, model: GPT2, end_of_text: int | None = None, precision: str = "float32"):
    """Write a folder that transformers' `GPT2LMHeadModel.from_pretrained` loads.

    end_of_text: the id of the token at which `generate` stops; None means GPT-2's if the vocabulary is GPT-2's, else
        no token.
    precision: "float32", or "bfloat16", to which weights are rounded and in which transformers then computes.

    Raises UserError for any other precision, for weights that are NaN, and if a file cannot be written.
    """
    if precision not in DTYPES:
        raise UserError(f'precision must be "float32" or "bfloat16", not {precision!r}.')
    check_finite(model, "the model")
    parts = list(pieces(model.config))

    def arrays():
        for name, index, _, _, transposed in parts:
            values = model.backend.to_numpy(model.params[name][index])  # (V, C), (maxT, C), (C_out, C_in) or (C_out,)
            yield values.T if transposed else values

    shapes = {PREFIX + theirs: shape for _, _, theirs, shape, _ in parts}
    write_safetensors(Path(folder) / WEIGHTS, shapes, arrays(), DTYPES[precision])
    options = options_of(model.config, end_of_text) | {
        "dtype": precision,
        "torch_dtype": precision,
    }  # new name, old name
    with atomic_write(Path(folder) / CONFIG, "w") as file:
        file.write(json.dumps(options, indent=2) + "\n")


def _check_tensors(source, config, tensors, prefix):
    """Raise UserError unless all the model's tensors are there with the right shapes, and no others that affect the
    result."""
    expected = set()
    for _, _, theirs, shape, _ in pieces(
        config
    ):  # stops at the first that is missing, however many the config promises
        tensor = tensors.get(prefix + theirs)
        if tensor is None:
            raise UserError(
                f"{source} lacks the tensor {prefix + theirs}, which its config.json requires; get a complete copy."
            )
        if tensor.shape != shape:
            raise UserError(
                f"the tensor {prefix + theirs} of {source} has shape {tensor.shape}, but its config.json requires"
                f" {shape}; get a complete copy."
            )
        expected.add(prefix + theirs)
    for name in tensors:
        if name not in expected and name != HEAD and not name.endswith(MASKS):
            raise UserError(f"{source} holds the tensor {name[:80]!r}, which no plain GPT-2 has; use another model.")


def _check_head(source, options, tensors, prefix):
    """Raise UserError if the model has its own output head instead of wte."""
    head = tensors.get(HEAD)
    if head is None:
        own = not options.get("tie_word_embeddings", True)
    else:
        wte = tensors[prefix + NAMES["wte"]]
        own = head.shape != wte.shape or not np.array_equal(head.read(), wte.read())
    if own:
        raise UserError(
            f"{source} has its own output head, but llmc ties the head to the embedding; use another model."
        )
