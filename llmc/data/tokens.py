"""Token files: a text as numbers on disk, in llm.c's format (`dev/data/data_common.py`): header, then uint16 token ids.

Reading maps the file into memory: a shard of 10^8 tokens opens at once and only the pages a batch touches are loaded.
llm.c's first release wrote int32 without a header; that form is not read here.
"""

from pathlib import Path

import numpy as np

from llmc.errors import UserError, atomic_write, why
from llmc.header import SIZE, check_size, make_header, read_header

MAGIC = 20240520
VERSION = 1
HIGHEST = 65535  # the largest id that fits uint16


def write_tokens(path, tokens):
    """Write token ids (ntok,), any integer type or a list, as uint16 under a temporary name until complete.

    [7, 8] -> 1024 bytes of header that say "2 tokens", then 07 00 08 00
    Raises UserError when there is none, when one does not fit uint16, or when the disk refuses.
    """
    tokens = np.asarray(tokens)
    if tokens.size == 0:
        raise UserError(f"there are no tokens to write to {path}; give it at least one.")
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise UserError(f"tokens must be whole numbers of shape (ntok,), not {tokens.dtype} of shape {tokens.shape}.")
    _check_ids(tokens, 0, HIGHEST, f"the tokens for {path}", "a token file holds uint16")
    with atomic_write(path) as file:
        file.write(make_header(MAGIC, VERSION, tokens.size).tobytes())
        file.write(tokens.astype("<u2").tobytes())


def read_tokens(path, V=None) -> np.ndarray:
    """The tokens of a file as a read-only memory map (ntok,) uint16.

    With V every id is checked to be < V (one pass over the file). Raises UserError when the file is missing, not a
    token file, of another version, truncated, empty, or holds an id that a vocabulary of V does not have.
    """
    header = read_header(path, MAGIC, (VERSION,), "a token file")
    ntok = int(header[2])
    if ntok < 1:
        raise UserError(f"{path} is an empty token file: its header says {ntok} tokens; write it anew.")
    check_size(path, SIZE + 2 * ntok)
    try:
        tokens = np.memmap(Path(path), "<u2", "r", offset=SIZE, shape=(ntok,))  # (ntok,)
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}.") from error
    if V is not None:
        _check_ids(tokens, 0, V - 1, str(path), "is this another tokenizer's file?")
    return tokens


def _check_ids(tokens, lowest, highest, whose, hint):
    """Raise UserError at the first of tokens (ntok,) outside lowest..highest, by index and value."""
    if lowest <= int(tokens.min()) and int(tokens.max()) <= highest:
        return
    index = int(np.flatnonzero((tokens < lowest) | (tokens > highest))[0])
    raise UserError(
        f"{whose}: token {index:,} is {int(tokens[index])}, and ids go from {lowest} to {highest} here ({hint})."
    )
