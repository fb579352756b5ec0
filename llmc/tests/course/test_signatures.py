"""Signatures that `compare` knows whatever the layer: order, future positions, overflow, sums."""

import numpy as np
import pytest

from llmc.course import WrongAnswer, compare
from llmc.course.old.checks.case import Case
from llmc.course.old.checks.narrow import narrowed

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4, 6))  # (B, T, C)
HEADS = A.reshape(3, 4, 2, 3)  # (B, T, NH, hs)
SQUARE = np.tril(RNG.uniform(1, 2, (2, 4, 4)))


def message(got, expected, **options):
    with pytest.raises(WrongAnswer) as caught:
        compare("out", got, expected, **options)
    return str(caught.value)


def shifted(axis):
    """A, moved by one; what comes in at the end is new."""
    moved = np.roll(A, -1, axis)
    np.moveaxis(moved, axis, 0)[-1] = 9.0
    return moved


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (np.roll(A, 1, 1), "off by one along axis 1: each index holds what belongs to the previous one"),
        (shifted(1), "off by one along axis 1: each index holds what belongs to the next one"),
        (shifted(2), "off by one along axis 2"),
        (A[:, ::-1], "right, except for the order along axis 1: it is reversed"),
        (A[[1, 0, 2]], "right, except for the order along axis 0: 0, 1, … hold what belongs to 1, 0, 2"),
        (HEADS.swapaxes(1, 2).reshape(A.shape), "heads interleaved with its positions, with NH = 2; (NH, T, hs) was"),
        (A.reshape(3, 2, 4, 3).swapaxes(1, 2).reshape(A.shape), "with NH = 2; (T, C) was reshaped"),
        (HEADS.swapaxes(2, 3).reshape(A.shape), "its channels in the order (hs, NH) instead of (NH, hs), with NH = 2"),
        (A[..., [2, 3, 0, 1, 4, 5]], "right, except for the order along axis 2"),
        (1 / A, "is 1 divided by what it should be: got · expected is 1, everywhere"),
        (A**2, "is the square of what it should be: got is expected², everywhere"),
        (RNG.permuted(A.reshape(-1)).reshape(A.shape), "the right numbers in the wrong places"),
        (np.where(np.arange(4)[:, None] == 3, A, A**2 + 1), "Along axis 1 it is wrong only at indices 0 to 2"),
    ],
)
def test_named(got, says):
    assert says in message(got, A)


def test_roots():
    assert "is the square root of what it should be" in message(np.sqrt(np.abs(A)), np.abs(A))


def test_blocks_of_the_last_axis():
    columns = RNG.normal(size=6)
    qkv = np.concatenate([A + columns, A * 2, A - 1], axis=-1)  # (B, T, 3C)
    wrong = np.concatenate([A * 2, A + columns, A - 1], axis=-1)
    told = message(wrong, qkv)
    assert "order along axis 2" in told or "the 3 blocks of its last axis in another order" in told


def test_transposed_square_axes():
    cube = RNG.normal(size=(4, 3, 4))
    assert "transposed: axes 0 and 2 are swapped" in message(cube.swapaxes(0, 2), cube)
    square = RNG.normal(size=(5, 5))
    assert "its last two axes are swapped" in message(square.T, square)


def test_future_positions():
    full = RNG.uniform(1, 2, (2, 4, 4))
    told = message(np.where(SQUARE > 0, SQUARE, full), SQUARE)
    assert "not 0 above the diagonal, where a position looks at later ones, the first at [0, 0, 1]" in told
    lower = np.tril(full)
    assert "above the diagonal" not in message(lower, SQUARE)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_overflow(dtype):
    z = np.array([[1.0, 2000, 3], [1, 2, 3]], dtype)
    e = np.exp(z)
    right = np.exp(z - z.max(-1, keepdims=True))
    right /= right.sum(-1, keepdims=True)
    limit = {"float32": "exp of more than 88 is inf in float32", "float64": "exp of more than 709"}[dtype]
    told = message(e / e.sum(-1, keepdims=True), right)
    assert "1 of 6 entries that are NaN or infinite" in told and limit in told and "row's maximum" in told
    losses = np.array([3.0, 2000], dtype)
    assert "1 of 2 entries that are NaN or infinite, first at [1]" in message(-np.log(np.exp(-losses)), losses)
    for function, right in ((lambda z: np.log(np.exp(z)), -losses), (np.sqrt, losses)):
        told = message(function(-losses), right)  # numbers alone do not show what made them
        assert "NaN or infinite" in told and "look for" not in told and "log(0)" not in told


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (A.sum(axis=(1, 2)), "expected (6,)"),
        (A.sum(axis=0), "out is the sum over axis 0: of the terms (3, 4, 6) it should be the sum over axes 0 and 1"),
        (A, "out is not summed at all"),
        (A[-1, -1].copy(), "holds the last term alone, as if each overwrote the one before"),
        (A[0, 0].copy(), "holds the first term alone"),
    ],
)
def test_summed(got, says):
    assert says in message(got, A.sum(axis=(0, 1)), summed=A)


def test_summed_over_the_wrong_axis_of_a_square():
    square = RNG.normal(size=(5, 5))
    assert "the sum over axis 1: of the terms (5, 5)" in message(square.sum(axis=1), square.sum(axis=0), summed=square)
    assert "wrong values" in message(square[1] ** 2, square.sum(axis=0), summed=square)


@pytest.mark.parametrize(
    "expected",
    [np.zeros((3, 4)), np.ones((3, 4)), np.eye(5), np.arange(3.0), np.float64(2.0), A, np.zeros((2, 3, 3))],
    ids=lambda a: str(np.shape(a)),
)
def test_a_wrong_entry_is_none_of_them(expected):
    """One entry wrong is no pattern."""
    got = np.array(expected, np.float64)
    got.reshape(-1)[-1] += 0.123
    told = message(got, expected)
    assert not any(word in told for word in ("off by one", "order", "places", "heads", "last position"))


def test_lanes_with_factors_of_their_own():
    expected = RNG.uniform(1, 2, (3, 129))
    factor = np.linspace(0.5, 2, 32)[np.arange(129) % 32]
    told = " ".join(narrowed(Case("out", expected * factor, expected), lanes=True))
    assert "entries 32 apart are the right ones times the same number" in told
    assert "32 apart" not in message(expected * factor, expected)  # NumPy has no lanes
    for other in (RNG.uniform(1, 2, 129), RNG.uniform(1, 2, (3, 1))):
        assert not any("32 apart" in told for told in narrowed(Case("out", expected * other, expected), lanes=True))


def test_a_few_right_slices_are_listed():
    expected = RNG.uniform(1, 2, (5, 40))
    wrong = np.ones(40)
    wrong[::9] = 0
    told = message(expected + wrong * RNG.uniform(1, 2, (5, 40)), expected)
    assert "Along axis 1 it is right only at indices 0, 9, 18, 27, 36." in told


def test_rounding_is_no_mistake_in_float32():
    expected = RNG.uniform(1, 2, (5, 7)).astype(np.float32)
    got = expected * np.float32(1 + 1e-6)
    got[3] = RNG.uniform(3, 4, 7)
    assert "Along axis 0 it is wrong only at index 3." in message(got, expected)


@pytest.mark.parametrize(
    ("wrong", "threads", "said"),
    [
        (slice(96, 129), 96, "wrong only at indices 96 to 128, the last: those from blockDim.x = 96 on."),
        (slice(96, 129), 32, "wrong only at indices 96 to 128, the last."),
        (slice(96, 129), None, "wrong only at indices 96 to 128, the last."),
        (slice(0, 128), 96, "wrong only at indices 0 to 127: in the whole fours, and not behind them."),
        (slice(0, 128), None, "wrong only at indices 0 to 127."),
        (slice(0, 128, 2), 96, "…"),
        (slice(0, 96), 96, "wrong only at indices 0 to 95."),
        (slice(64, 129), 32, "wrong only at indices 64 to 128, the last: those from gridDim.x * blockDim.x = 64 on"),
    ],
)
def test_which_of_a_kernels_threads_are_wrong(wrong, threads, said):
    expected = np.random.default_rng(0).normal(size=(6, 129))
    got = expected.copy()
    got[:, wrong] = np.random.default_rng(1).normal(size=got[:, wrong].shape)
    told = " ".join(narrowed(Case("out", got, expected), lanes=threads is not None, launch=threads and (2, threads)))
    assert f"Along axis 1 it is {said}" in told if said != "…" else "fours" not in told


def test_a_tail_that_may_be_right_by_chance_is_not_called_right():
    expected = np.random.default_rng(0).normal(size=129)
    got = expected.copy()
    got[:128:3] += 1
    assert "fours" not in " ".join(narrowed(Case("out", got, expected), lanes=True, launch=(1, 32)))


def test_where_an_array_is_wrong_is_said_only_if_it_holds_for_the_checks_bounds_too():
    expected, got = np.array([0.9, 1.0, 1.1, 1.4, 300.0]), np.array([0.8999, 1.0, 1.0999, 1.3999, 50.0])
    exact, refused = got != expected, np.arange(5) == 4

    def told(wrong):
        return " ".join(narrowed(Case("rstd", got, expected, rounding=1e-5, refused=wrong)))

    assert "Along axis 0" not in told(exact) and "wrong only at index 4, the last" in told(refused)
