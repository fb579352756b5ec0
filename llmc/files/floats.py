"""Copying long runs of numbers between a file and a backend's flat array, one chunk at a time.

So a file of any size needs little more memory than the model it fills. Sizes are Python integers, so there is no 2 GiB
limit.
"""

import numpy as np

from llmc.errors import UserError
from llmc.files.bfloat16 import bfloat16_to_float32, float32_to_bfloat16

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
