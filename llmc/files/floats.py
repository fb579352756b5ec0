"""Copying long runs of numbers between a file and a backend's flat array, one chunk at a time.

So a file of any size needs little more memory than the model it fills. Sizes are Python integers, so there is no 2 GiB
limit. bfloat16, which NumPy does not have, is the upper half of a float32: 1 sign bit, 8 exponent bits, 7 fraction
bits. Weights that are NaN or infinite are reported when a model is read, and never exported.
"""

from math import isfinite

import numpy as np

from llmc.errors import UserError

CHUNK = 1 << 22  # elements at a time
FLOAT32, BFLOAT16 = np.dtype("<f4"), np.dtype("<u2")  # bfloat16 as bit patterns


def read_floats(file, flat, backend, stored=FLOAT32):
    """Fill `flat` (n,) of the backend with the next n numbers of an open file, stored as FLOAT32 or BFLOAT16.

    Raises UserError if the file ends too soon.
    """
    for start in range(0, flat.size, CHUNK):
        count = min(CHUNK, flat.size - start)
        values = np.fromfile(file, stored, count)  # (count,)
        if values.size < count:
            raise UserError(f"{file.name} became shorter while it was being read; get a fresh copy.")
        values = bfloat16_to_float32(values) if stored == BFLOAT16 else values  # (count,)
        flat[start : start + count] = backend.from_numpy(values.astype(flat.dtype, copy=False))


def write_floats(file, flat, backend, stored=FLOAT32):
    """Write `flat` (n,) of the backend to an open file, as FLOAT32 or BFLOAT16."""
    for start in range(0, flat.size, CHUNK):
        values = backend.to_numpy(flat[start : start + CHUNK]).astype(FLOAT32, copy=False)  # (≤ CHUNK,)
        file.write((float32_to_bfloat16(values) if stored == BFLOAT16 else values).data)


def bfloat16_to_float32(halves):
    """Convert uint16 bit patterns (any shape) to the same numbers as float32, exactly.

    0x3F80 -> 1.0
    """
    return (halves.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values):
    """Convert float32 (any shape) to uint16 bit patterns, rounded to nearest, ties to even; NaN stays NaN.

    1.0 -> 0x3F80
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    lowest_kept = (bits >> 16) & 1  # ties go to the even neighbour
    rounded = ((bits + np.uint32(0x7FFF) + lowest_kept) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def check_finite(model, path):
    """Raise UserError if a weight of the model is not a finite number: "…/model.bin has NaN in fcw of layer 3".

    This takes one pass over the weights, and only looks for the tensor if there is such a weight.
    """
    with np.errstate(all="ignore"):
        if isfinite(model.backend.global_norm(model.params_flat)):
            return
    for name, where, values in _parts(model):
        bad = np.count_nonzero(~np.isfinite(values))
        if bad:
            what = "NaN" if np.isnan(values).any() else "inf"
            raise UserError(
                f"{path} has {what} in {name}{where} ({bad:,} of {values.size:,} weights): its training diverged"
                " or the file is damaged; use an earlier checkpoint, or train with a lower learning rate."
            )


def _parts(model):
    """(name, " of layer 3" or "", values) of every tensor, a stacked one layer by layer."""
    for p in model.config.parameter_table():
        tensor = model.backend.to_numpy(model.params[p.name])
        if not p.stacked:
            yield p.name, "", tensor
            continue
        for l, values in enumerate(tensor):
            yield p.name, f" of layer {l}", values
