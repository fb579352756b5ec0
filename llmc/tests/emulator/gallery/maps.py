"""Arguments and expected values for kernels (out, x, ...) of which out = function(x)."""

import numpy as np

from llmc.tests.emulator.gallery import draw, integers


def maps(n, function, *more):
    """A kernel (out, x, ...) of floats: out = function(x)."""

    def make():
        x = draw(n)
        expected = np.asarray(function(x), np.float32)  # its shape is the output's
        return [np.full(expected.shape, np.nan, np.float32), x, *more], {0: expected}

    return make


def maps_ints(n, function, *more, high=100, low=0):
    """The same for int32."""

    def make():
        x = integers(high, n, low=low)
        expected = np.asarray(function(x), np.int32)
        return [np.full(expected.shape, -7, np.int32), x, *more], {0: expected}

    return make
