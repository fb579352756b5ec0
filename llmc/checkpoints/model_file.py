"""llm.c's model file: a header, then the sixteen tensors in the order of `GPT2Config.parameter_table()`.

Version 3 holds float32, version 5 bfloat16; both pad the vocabulary. Follows gpt2_build_from_checkpoint in llm.c.
"""

from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.files import floats
from llmc.files.atomic_write import atomic_write
from llmc.files.digest import HashingFile
from llmc.files.floats import check_finite, read_floats, write_floats
from llmc.files.header import SIZE, check_size, make_header, read_header
from llmc.files.reading import opened
from llmc.model import GPT2

MAGIC = 20240326
FLOAT32, BFLOAT16 = 3, 5
STORED = {FLOAT32: floats.FLOAT32, BFLOAT16: floats.BFLOAT16}
VERSIONS = {"float32": FLOAT32, "bfloat16": BFLOAT16}


def _read_header(path):
    """(config, version) of a model file, checked against the file's size."""
    header = read_header(path, MAGIC, (FLOAT32, BFLOAT16), "an llm.c model file")
    maxT, V, L, NH, C, Vp = (int(x) for x in header[2:8])
    try:
        config = GPT2Config(maxT=maxT, V=V, L=L, NH=NH, C=C)
    except UserError as error:
        raise UserError(f"the header of {path} is damaged: {error}") from None
    if Vp != config.Vp:
        raise UserError(f"{path} pads its vocabulary of {V} to {Vp}, but llmc expects {config.Vp}; export it again.")
    version = int(header[1])
    check_size(path, SIZE + STORED[version].itemsize * config.num_parameters_padded)
    return config, version


def read_config(path) -> GPT2Config:
    """The sizes of the model in a file, read without its weights. Raises UserError like `read_model`."""
    return _read_header(path)[0]


def read_version(path) -> int:
    """FLOAT32 (3) or BFLOAT16 (5). Raises UserError like `read_model`."""
    return _read_header(path)[1]


def read_model(path, backend="numpy", precision="fp32", master_weights=True) -> GPT2:
    """Read the model in an llm.c file of version 3 (float32) or 5 (bfloat16), in the requested precision.

    Raises UserError if the file is missing, truncated, of another kind, or damaged, and for weights that are NaN.
    """
    config, version = _read_header(path)
    model = GPT2(config, backend, precision, master_weights)
    with opened(path) as file:
        file.seek(SIZE)
        read_floats(file, model.params_flat, model.backend, STORED[version])
    check_finite(model, path)
    return model


def check_precision(precision: str):
    """Raise UserError unless a model file can have this precision."""
    if precision not in VERSIONS:
        raise UserError(f'precision must be "float32" or "bfloat16", not {precision!r}.')


def write_model(path, model: GPT2, precision: str | None = None) -> str:
    """Write a model's weights as version 3 ("float32") or 5 ("bfloat16"), under a temporary name until it is complete.

    precision: None takes the version that loses nothing: 5 for weights in bfloat16, else 3. Returns the file's SHA-256.
    """
    precision = precision or ("bfloat16" if model.precision.name == "bf16" else "float32")
    check_precision(precision)
    c, version = model.config, VERSIONS[precision]
    with atomic_write(path) as plain:
        file = HashingFile(plain)
        file.write(make_header(MAGIC, version, c.maxT, c.V, c.L, c.NH, c.C, c.Vp).tobytes())
        write_floats(file, model.params_flat, model.backend, STORED[version])
        return file.digest()
