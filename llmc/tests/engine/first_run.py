"""A run of the "cpu" backend as anybody's first one: with the kernels on the disk that other processes compile.

Those of this machine are copied; to compile them again takes half a minute.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from llmc.backends.cpu import compiled, kernel_cache


def first_and_later(place, run):
    """What a run prints where only the other processes have compiled, as before anybody's first run, and elsewhere."""
    where = Path(compiled.KERNELS[0].stats.cache_path)
    new = place / where.name / where.parent.name
    for row in (where.parent / kernel_cache.LIST).read_text(encoding="utf-8").splitlines():
        file = row.split(" ", 1)[1]
        (new / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(where.parent / file, new / file)
    shutil.copy(where.parent / kernel_cache.LIST, new)
    command, environments = [sys.executable, "-c", run], [{**os.environ, "NUMBA_CACHE_DIR": str(place)}, os.environ]
    ended = [subprocess.run(command, env=each, capture_output=True, text=True, check=True) for each in environments]
    assert not any(each.stderr for each in ended) and len(list(place.iterdir())) == 1
    return [each.stdout for each in ended]
