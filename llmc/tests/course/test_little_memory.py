"""What a search for a mistake may take of the machine's memory."""

import sys

import numpy as np
import pytest

from llmc.course.old.mutants.little_memory import MORE, little_memory

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says what a process has, and keeps to a limit"
)


def test_an_array_that_is_far_too_large_is_refused_inside_alone():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with little_memory(), little_memory():
        with pytest.raises(MemoryError):
            np.empty(3 * MORE, np.uint8)
        assert np.zeros(MORE // 8, np.uint8).sum() == 0
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_limit_that_is_lower_already_stays():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with little_memory():
        lower = resource.getrlimit(resource.RLIMIT_AS)
        taken = np.empty(MORE // 2, np.uint8)
        with little_memory():
            assert resource.getrlimit(resource.RLIMIT_AS) == lower
        del taken
    assert resource.getrlimit(resource.RLIMIT_AS) == before
