"""Every barrier, wait and fence of the clean kernels is removed once: the emulator must notice that it is missing.

A file is compiled once. Each of them becomes `do { if (without != k) __syncthreads(); } while (0)`, and `without` is
set from here before a launch. A barrier that nothing needs carries the comment `// spare`.
"""

import re

import numpy as np
import pytest

from llmc.cuda import RawModule, inspect
from llmc.tests.emulator.gallery import source
from llmc.tests.emulator.gallery.clean import CLEAN

pytestmark = pytest.mark.usefixtures("emulator")

BARRIER = re.compile(
    r"(?<!#define )\b(__syncthreads\(\)|__syncwarp\(\)|\w+\.sync\(\)|\w+\.arrive_and_wait\(\)|wait_for_copies<\d>\(\)|"
    r"(?:WAIT|MEET)\w*\([^;]*\)|\w*FENCE|COMMIT\w*);(?! *// spare)"
)
KERNEL = re.compile(r"__global__ void (\w+)\(")


def mutate(code):
    """The code with a switch at every barrier, and the kernel that each belongs to."""
    owners = []

    def switch(match):
        owners.append(KERNEL.findall(code, 0, match.start())[-1])
        return f"do {{ if (without != {len(owners) - 1}) {match[1]}; }} while (0);"

    return "__device__ int without = -1; " + BARRIER.sub(switch, code), owners


@pytest.mark.parametrize("file", list(CLEAN))
def test_every_barrier_is_missed(file):
    code, owners = mutate(source(f"clean/{file}.cu"))
    names = tuple(launch.name for launch in CLEAN[file].values() if launch.name)
    module = RawModule(code=code, name_expressions=names or None)
    without = np.ndarray(1, np.int32, module.get_global("without"))
    silent = []
    for k, name in enumerate(owners):
        launch = CLEAN[file][name]
        without[0] = k
        kernel, arguments = module.get_function(name), launch.make()[0]
        report = inspect(kernel, launch.grid, launch.block, arguments, launch.shared_mem, measure=False)
        if report.ok:
            silent.append(f"{name}, barrier {k - owners.index(name) + 1}")
    assert not silent
