"""llm.c's model file: header, then the sixteen tensors in the order of `GPT2Config.parameter_table()`.

Version 3 holds float32, version 5 bfloat16; both pad the vocabulary. Follows gpt2_build_from_checkpoint in llm.c.
"""

import numpy as np

from llmc.checkpoints.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from llmc.config import GPT2Config
from llmc.errors import UserError, atomic_write
from llmc.header import SIZE, check_size, make_header, read_header
from llmc.model import GPT2

MAGIC = 20240326
FLOAT32, BFLOAT16 = 3, 5
STORED = {FLOAT32: np.dtype("<f4"), BFLOAT16: np.dtype("<u2")}
VERSIONS = {"float32": FLOAT32, "bfloat16": BFLOAT16}
CHUNK = 1 << 22  # elements read or written at a time, so that a file needs little more memory than the model


def _read_header(path):
    """(config, version) of a model file, checked against the file's size."""
    header = read_header(path, MAGIC, (FLOAT32, BFLOAT16), "an llm.c model file")
    maxT, V, L, NH, C, Vp = (int(x) for x in header[2:8])
    try:
        config = GPT2Config(maxT=maxT, V=V, L=L, NH=NH, C=C)
    except UserError as error:
        raise UserError(f"the header of {path} is damaged: {error}") from None
    if Vp != config.Vp:
        raise UserError(f"{path} pads its vocabulary of {V} to {Vp}, and llmc reads {config.Vp}; export it anew.")
    version = int(header[1])
    check_size(path, SIZE + STORED[version].itemsize * config.num_parameters_padded)
    return config, version


def read_config(path) -> GPT2Config:
    """The sizes of the model in a file, without reading its weights. Raises UserError like read_model."""
    return _read_header(path)[0]


def read_version(path) -> int:
    """FLOAT32 (3) or BFLOAT16 (5). Raises UserError like read_model."""
    return _read_header(path)[1]


def read_model(path, backend="numpy", dtype=np.float32) -> GPT2:
    """The model in an llm.c file of version 3 (float32) or 5 (bfloat16), with its weights in `dtype`.

    Raises UserError when the file is missing, truncated, of another kind, or damaged.
    """
    config, version = _read_header(path)
    model = GPT2(config, backend, dtype)
    flat = model.params_flat  # (n,)
    with open(path, "rb") as file:
        file.seek(SIZE)
        for start in range(0, flat.size, CHUNK):
            count = min(CHUNK, flat.size - start)
            stored = np.fromfile(file, STORED[version], count)  # (count,)
            values = stored if version == FLOAT32 else bfloat16_to_float32(stored)  # (count,)
            flat[start : start + count] = model.backend.from_numpy(values.astype(model.dtype))
    return model


def write_model(path, model: GPT2, precision: str = "float32"):
    """Write the model's weights as version 3 ("float32") or 5 ("bfloat16"), under a temporary name until complete."""
    if precision not in VERSIONS:
        raise UserError(f'precision must be "float32" or "bfloat16", not {precision!r}.')
    c, version = model.config, VERSIONS[precision]
    with atomic_write(path) as file:
        file.write(make_header(MAGIC, version, c.maxT, c.V, c.L, c.NH, c.C, c.Vp).tobytes())
        flat = model.params_flat  # (n,)
        for start in range(0, flat.size, CHUNK):
            values = model.backend.to_numpy(flat[start : start + CHUNK]).astype("<f4")  # (≤ CHUNK,)
            file.write((values if version == FLOAT32 else float32_to_bfloat16(values)).tobytes())
