"""Lesson 02's references against central differences; they use nothing from llmc.backends."""

import numpy as np
import pytest

from llmc.course import gradient_check
from llmc.course.lessons import embeddings as lesson

SHAPES = [(3, 5, 7, 11, 16), (2, 4, 3, 9, 4), (3, 6, 5, 4, 8), (1, 2, 3, 5, 3)]  # B, T, C, V, maxT


@pytest.fixture(params=SHAPES, ids=str)
def case(request):
    B, T, C, V, maxT = request.param
    rng = np.random.default_rng(4)
    tokens = lesson.awkward_tokens(rng, B, T, V)
    return tokens, *(rng.normal(2, 1.5, shape) for shape in [(B, T, C), (V, C), (maxT, C)])


def test_backward_is_the_derivative_of_forward(case):
    tokens, dout, wte, wpe = case
    dwte, dwpe = lesson.backward(dout, tokens, len(wte), len(wpe))
    assert gradient_check(lambda w: lesson.forward(tokens, w, wpe), wte, dwte, dout, report=False) < 1e-8
    assert gradient_check(lambda w: lesson.forward(tokens, wte, w), wpe, dwpe, dout, report=False) < 1e-8


def test_results_survive_a_second_call_that_writes_to_the_same_arrays(case):
    tokens, dout, wte, wpe = case
    tables = np.zeros_like(wte), np.zeros_like(wpe)

    def backward(dout, tokens, V, maxT):
        for table, new in zip(tables, lesson.backward(dout, tokens, V, maxT)):
            table[...] = new
        return tables

    results = backward(dout, tokens, len(wte), len(wpe))
    of_zeros = lesson.for_zeros(backward, results, dout, tokens, len(wte), len(wpe))
    assert not of_zeros["dwte"].any() and not of_zeros["dwpe"].any()
    assert all(np.array_equal(*pair) for pair in zip(results, lesson.backward(dout, tokens, len(wte), len(wpe))))


def test_one_hot_is_the_lookup(case):
    tokens, _, wte, _ = case
    assert np.array_equal(lesson.one_hot(tokens, len(wte), np.float64) @ wte, wte[tokens])


def test_awkward_tokens_repeat_in_every_way():
    for seed in range(50):
        tokens = lesson.awkward_tokens(np.random.default_rng(seed), 3, 5, 11)
        assert tokens.dtype == np.int32 and 0 <= tokens.min() and tokens.max() < 10
        assert tokens[0, 0] == tokens[0, -1] == tokens[-1, 0]


def test_every_known_mistake_is_wrong():
    B, T, C, V, maxT = SHAPES[0]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tokens = lesson.awkward_tokens(rng, B, T, V)
        tokens[-1, -2:], tokens[0, 1] = V - 1, 0  # the last token and the first, as in the checks
        dout, wte, wpe = (rng.normal(2, 1.5, shape) for shape in [(B, T, C), (V, C), (maxT, C)])
        known = lesson.backward_mistakes(dout, tokens, V, maxT, held=(wte, wpe))
        known |= lesson.forward_mistakes(tokens, wte, wpe)
        right = lesson.backward(dout, tokens, V, maxT)._asdict() | {"out": lesson.forward(tokens, wte, wpe)}
        for name, wrongs in known.items():
            for text, (wrong, _) in wrongs.items():
                assert wrong.shape == right[name].shape
                assert np.abs(wrong - right[name]).max() > 1e-3, (name, text)
        right = lesson.one_hot(tokens, V)
        assert all(not np.array_equal(wrong, right) for wrong, _ in lesson.one_hot_mistakes(tokens, V).values())


def test_zipf_tokens_are_uneven():
    tokens = lesson.zipf_tokens(np.random.default_rng(0), 4, 256, 1024)
    counts = np.sort(np.bincount(tokens.reshape(-1), minlength=1024))[::-1]
    assert tokens.dtype == np.int32 and counts[0] > 50 and counts[500:].max() <= 2


def test_memory_that_was_never_cleared_is_distinguished_from_other_mistakes():
    B, T, C, V, maxT = SHAPES[0]
    rng = np.random.default_rng(5)
    tokens, dout = lesson.awkward_tokens(rng, B, T, V), rng.normal(2, 1.5, (B, T, C))
    right = lesson.backward(dout, tokens, V, maxT).dwte
    unused = ~right.any(axis=-1)
    left = np.where(unused[:, None], rng.normal(size=(V, C)), right)
    for table, words in ((left, "in the rows that are used"), (left + 1, "rows that should be zero are not")):
        assert [words in text for text in lesson.never_cleared(table, right, left)] == [True]
        assert lesson.never_cleared(table, right, 0 * left) == {}  # what is there comes from dout
    for other in (right, None, right[1:]):
        assert lesson.never_cleared(other, right, right) == {}
