"""Lesson 05's references, against each other, and the rules that find a small number in a result."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons.softmax_crossentropy import references

RNG = np.random.default_rng(5)
Z, DP = RNG.normal(2, 1.5, (4, 5, 7)), RNG.normal(1, 1, (4, 5, 7))
TARGETS = RNG.integers(0, 7, (4, 5))


def test_backward_is_the_derivative_of_forward():
    dz = references.softmax_backward(DP, references.softmax(Z))
    assert gradient_check(references.softmax, Z, dz, DP, report=False) < 1e-8
    dlogits = references.classifier(Z, TARGETS, 0.5, 7).dlogits
    dlosses = np.full((4, 5), 0.5)
    assert (
        gradient_check(lambda z: references.cross_entropy(z, TARGETS).losses, Z, dlogits, dlosses, report=False) < 1e-8
    )
