"""Lesson 12's references and known mistakes, held against each other: nothing of llmc.kernels is used in them."""

from pathlib import Path

import numpy as np
import pytest

from llmc.course.explain import WrongAnswer
from llmc.course.lessons import first_kernels as lesson

RNG = np.random.default_rng(12)
X = RNG.normal(0.3, 2, 129).astype(np.float32)  # (n,)
LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "12_first_kernels.ipynb"


def tables():
    """(what is right, {sentence: (wrong array, where)}) of every exercise that compares arrays."""
    x3 = RNG.normal(1, 2, (3, 5, 7)).astype(np.float32)  # (B, T, C)
    qkv = RNG.normal(1, 2, (2, 3, 3 * 5 * 4)).astype(np.float32)  # (B, T, 3C)
    for slope in (0.3, 1.7):
        yield lesson.leaky_relu(X, slope), lesson.leaky_relu_mistakes(X, slope)
    yield lesson.swap_axes(x3), lesson.swap_axes_mistakes(x3)
    yield X + X[::-1], lesson.residual_mistakes(X, X[::-1])
    yield 2.5 * X, lesson.axpy_mistakes(2.5, X, 64)
    yield lesson.split_heads(qkv, 5), lesson.split_heads_mistakes(qkv, 5)


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    for right, wrongs in tables():
        arrays = [right, *(np.asarray(array) for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == right.shape
            for k, other in enumerate(arrays[:i]):
                names = [None, *wrongs][i], [None, *wrongs][k]
                assert np.abs(one - other).max() > 3e-4 * np.abs(one).max(), names


def test_references_element_by_element():
    x = RNG.normal(0, 1, (2, 3, 4)).astype(np.float32)  # (B, T, C)
    swapped = lesson.swap_axes(x)
    assert all(swapped[b, c, t] == x[b, t, c] for b, t, c in np.ndindex(x.shape))
    qkv = RNG.normal(0, 1, (2, 3, 24)).astype(np.float32)  # (B, T, 3C), C = 8
    out = lesson.split_heads(qkv, 2)
    assert out.shape == (3, 2, 2, 3, 4) and out.flags.c_contiguous
    assert all(out[s, b, h, t, j] == qkv[b, t, s * 8 + h * 4 + j] for s, b, h, t, j in np.ndindex(out.shape))
    assert np.allclose(lesson.leaky_relu(np.float32([-2, 0, 3]), 0.5), [-1, 0, 3])


@pytest.mark.parametrize(
    "got, words",
    [
        ((1, 3), "too few blocks in x: 1 · 4 threads for 7 columns"),
        ((2, 4), "axes are swapped"),
        ((2, 9), "too many blocks in y: 6 of them have nothing to do"),
        ((3, 3), "too many blocks in x: 1 of them has nothing to do"),
        ((3, 2), "wrong order"),
        ((2.0, 3.0), "whole numbers"),
        (6, "tuple of two"),
        ([2, 3], "tuple of two"),
    ],
    ids=str,
)
def test_wrong_grids(got, words):
    with pytest.raises(WrongAnswer) as error:
        lesson.compare_grid(got, 5, 7, (4, 2))
    assert words.lower() in str(error.value).lower()


def test_the_right_grid():
    lesson.compare_grid((2, 3), 5, 7, (4, 2))
    lesson.compare_grid((np.int64(3), 16), 64, 96, (32, 4))


@pytest.mark.skipif(not LESSON.exists(), reason="needs a checkout")
def test_places_to_look_are_sections_of_the_lesson():
    text = LESSON.read_text(encoding="utf-8")
    places = {value for value in vars(lesson).values() if isinstance(value, str) and value.startswith("lesson 12")}
    for place in places | set(lesson.WHERE.values()):
        assert f"# {place.split(chr(34))[1]}" in text, place
