"""Lesson 12: what each well-known mistake gives, as {sentence after "out equals ": (array, where to look)}."""

from itertools import permutations

import numpy as np

from llmc.course.lessons.first_kernels.endings import without_the_last
from llmc.course.lessons.first_kernels.references import FLAT, FOUR, GELU, LOOP
from llmc.course.lessons.first_kernels.references import split_heads as right_heads
from llmc.course.lessons.first_kernels.references import swap_axes as right_axes
from llmc.course.old.kernel_checks.evidence import came_from, slots

CUT = "the reference cut to whole numbers, as an int holds them"


def leaky_relu(x, slope) -> dict:
    """Known wrong results; with a slope above 1 the two branches, swapped, are a maximum."""
    x64 = np.asarray(x, np.float64)
    swapped = "the reference with the two branches swapped"
    if slope > 1:
        swapped = "max(x, slope · x): the same only while slope is below 1"
    wrong = {
        "ReLU, 0 for every x below 0": np.maximum(x64, 0),
        "slope · x everywhere: it is x where x is above 0": slope * x64,
        "slope where x is below 0: it is not multiplied by x": np.where(x64 > 0, x64, slope),
        swapped: np.where(x64 > 0, slope * x64, x64),
        "x itself, also where x is below 0": x64,
        "0 where x is above 0: there it is x": np.where(x64 > 0, 0, slope * x64),
        "slope · x where x is below 0, and 1 above": np.where(x64 > 0, 1.0, slope * x64),
        "x + slope · x where x is above 0: there it is x alone": np.where(x64 > 0, (1 + slope) * x64, slope * x64),
    }
    cut = np.trunc(x64)
    wrong |= {
        CUT: np.trunc(np.where(x64 > 0, x64, slope * x64)),
        "the result for x cut to whole numbers, as an int holds them": np.where(cut > 0, cut, slope * cut),
    }
    below = {
        "x + slope where x is below 0": x64 + slope,
        "x - slope where x is below 0": x64 - slope,
        "x / slope where x is below 0": x64 / slope,
        "x + slope · x where x is below 0: there it is slope · x alone": x64 + slope * x64,
        "-slope · x where x is below 0": -slope * x64,
        "|x| where x is below 0": -x64,
        "slope² · x where x is below 0": slope * slope * x64,
        "slope · x cut to whole numbers, as an int holds them, where x is below 0": np.trunc(slope * x64),
    }
    wrong |= {words: np.where(x64 > 0, x64, there) for words, there in below.items()}
    for words, limit in (("slope", slope), ("1", 1.0)):
        wrong[f"slope · x also where x is between 0 and {words}"] = np.where(x64 > limit, x64, slope * x64)
    return {words: (array, GELU) for words, array in wrong.items()}


def swap_axes(x, out) -> dict:
    """Known wrong arrays, all (B, C, T), and what out, which the kernel wrote, shows by itself."""
    B, T, C = x.shape
    shape = B, C, T
    back = np.ascontiguousarray(x.reshape(B, C, T).swapaxes(1, 2)).reshape(shape)  # t and c taken with T and C swapped
    known = {
        CUT: (np.trunc(x.swapaxes(1, 2)), FLAT),
        "x in its old order: nothing moved": (
            x.reshape(shape),
            FLAT,
        ),
        "the reference with T and C exchanged, where the index is taken apart or put together; out and x exchanged in "
        "the line that copies, `out[i] = x[j]` for `out[j] = x[i]`, give the same numbers": (back, FLAT),
        "x with all three axes reversed, (C, T, B)": (x.transpose(2, 1, 0).reshape(shape), FLAT),
        "x as (C, B, T): b and c changed places too": (x.transpose(2, 0, 1).reshape(shape), FLAT),
        "x as (T, B, C): b and t were swapped": (x.swapaxes(0, 1).reshape(shape), FLAT),
        "x as (T, C, B): b was moved behind the others": (x.transpose(1, 2, 0).reshape(shape), FLAT),
        "the reference with the channels in reverse": (x.swapaxes(1, 2)[:, ::-1], FLAT),
        "the reference with the positions in reverse": (x.swapaxes(1, 2)[:, :, ::-1], FLAT),
    }
    right = right_axes(x)  # (B, C, T)
    more = {
        "the reference of b = 0 for every b": right[:1],
        "the reference of t = 0 for every t": right[..., :1],
        "the reference of c = 0 for every c": right[:, :1],
        "the reference of b = 0 and t = 0 for all": right[:1, :, :1],
    }
    for by, n in (("(T * C)", T * C), ("C", C)):
        left = x.reshape(-1)[np.arange(x.size) // n].reshape(x.shape)  # (B, T, C)
        more[f"the reference with x[i / {by}] in place of x[i]"] = right_axes(left)
    more |= {words: right_axes(found) for words, found in _read_as(x, "x", {"B": B, "T": T, "C": C})}
    known |= _unlike(known, right, more)
    wanted = right_axes(np.arange(x.size).reshape(x.shape))  # (B, C, T)
    moved = came_from("x", out, x, wanted, {"b": B, "t": T, "c": C})
    return known | {words: (array, FLAT) for words, array in moved.items()}


def _read_as(array, name, sizes, last=0):
    """The array as it is read by an index that is taken apart, or put together, in another order of axes.

    Yields (words, array) of each order. sizes: {axis: how long}, as they lie. last: so many axes stay last.
    """
    axes = tuple(sizes)
    for order in permutations(range(len(axes) - last)):
        order = (*order, *range(len(order), len(axes)))
        read_as = ", ".join(axes[axis] for axis in order)
        read = array.reshape([sizes[axes[axis]] for axis in order]).transpose(np.argsort(order))
        words = f"the reference with {name} read as if it were ({read_as}): it is ({', '.join(axes)})"
        yield words, np.ascontiguousarray(read).reshape(array.shape)


def _unlike(known, right, more) -> dict:
    """Those of `more` {words: array} that are neither right nor known already, nor twice among them."""
    seen, found = [right, *(array for array, _ in known.values())], {}
    for words, array in more.items():
        array = np.broadcast_to(array, right.shape)
        if not any(np.array_equal(array, other) for other in seen):
            seen.append(array)
            found[words] = array, FLAT
    return found


def residual(x1, x2, out) -> dict:
    """Known wrong sums (n,) of float4 kernels; the tail is whatever is behind the last whole four."""
    n = x1.size
    whole = n // 4 * 4
    right = x1.astype(np.float64) + x2  # (n,)
    fours = right[:whole].reshape(-1, 4)  # (n // 4, 4)

    def with_fours(changed):
        return np.concatenate([changed.reshape(-1), right[whole:]])  # (n,)

    x1, x2 = x1.astype(np.float64), x2.astype(np.float64)
    slot = np.arange(4)
    wrong = {}
    for k in range(4):
        for a in range(4):
            if a != k:
                words = f"the reference with .{'xyzw'[a]} in place of .{'xyzw'[k]}"
                wrong[words] = with_fours(np.where(slot == k, fours[:, [a]], fours))
            if a > k:
                order = np.where(slot == k, a, np.where(slot == a, k, slot))  # (4,)
                wrong[f"the reference with .{'xyzw'[k]} and .{'xyzw'[a]} exchanged"] = with_fours(fours[:, order])
    for words, alone in (("x1 alone", x1), ("x2 alone", x2)):
        wrong[words] = alone
        wrong[f"{words} behind the last whole four"] = np.concatenate([right[:whole], alone[whole:]])
        quads = alone[:whole].reshape(-1, 4)  # (n // 4, 4)
        for k in range(4):
            wrong[f"{words} in .{'xyzw'[k]}"] = with_fours(np.where(slot == k, quads, fours))
    wrong |= {
        "x1 - x2": x1 - x2,
        "x1 · x2": x1 * x2,
        "2 · x1": 2.0 * x1,
        "2 · x2": 2.0 * x2,
        CUT: np.trunc(right),
        "the reference with the first number of four in all four places": with_fours(np.repeat(fours[:, :1], 4, 1)),
    }
    return {words: (array, FOUR) for words, array in (wrong | slots(out, right)).items()}


def axpy(a, x, y, blocks, threads) -> dict:
    """Known wrong things to add to y (n,), for a grid of that many blocks of that many threads."""
    x64, y64, n = np.asarray(x, np.float64), np.asarray(y, np.float64), x.size
    right = a * x64  # (n,)
    first = np.arange(n) < blocks * threads  # (n,)
    one_each = np.where(first, right, 0)  # (n,)
    wrong = {
        "the reference for the first gridDim.x * blockDim.x numbers alone, one for each thread": (one_each),
        "the reference without the first gridDim.x * blockDim.x numbers, one for each thread": np.where(
            first, 0, right
        ),
        "the reference without the last number": np.where(np.arange(n) < n - 1, right, 0),
        "the reference without the first number": np.where(np.arange(n) > 0, right, 0),
        "x: it is not multiplied by a": x64,
        "a: it is not multiplied by x": np.full_like(x64, a),
        "a + x": a + x64,
        "a · y": a * y64,
        "x / a": x64 / a,
        "a · x cut to whole numbers, as an int holds them": np.trunc(right),
        "a · x with a cut to a whole number, as an int holds it": np.trunc(a) * x64,
        "a · x with x cut to whole numbers, as an int holds them": a * np.trunc(x64),
        "(a - 1) · y + x, so y became a · y + x: y was multiplied by a, and x was not": (a - 1) * y64 + x64,
        "a · x, added by every thread to every number": blocks * threads * right,
        "a · x, added by every block to every number": blocks * right,
        "a · x, added by every thread of a block": threads * right,
    }
    turns = np.zeros((-(-n // (blocks * threads)), blocks * threads))  # of the loop
    turns.reshape(-1)[:n] = right
    carried = turns.cumsum(axis=0).reshape(-1)[:n]  # (n,)
    wrong["a · x, added to what the thread's turns before added"] = carried
    found = without_the_last(a, x, y, blocks, threads)
    wrong |= {words: array for words, array in found.items() if not np.array_equal(array, one_each)}
    return {words: (array, LOOP) for words, array in wrong.items()}


def split_heads(qkv, NH, out) -> dict:
    """Known wrong arrays, all (3, B, NH, T, hs), and what out, which the kernel wrote, shows by itself."""
    right = right_heads(qkv, NH)
    B, T, width = qkv.shape
    hs = width // (3 * NH)
    per_head = qkv.reshape(B, T, NH, 3, hs).transpose(3, 0, 2, 1, 4)  # q, k, v of a head side by side
    slow_heads = qkv.reshape(B, T, 3, hs, NH).transpose(2, 0, 4, 1, 3)  # heads fastest
    head_0 = right[:, :, :1] + np.zeros_like(right)  # (3, B, NH, T, hs)
    known = {
        CUT: (np.trunc(right), FLAT),
        "the reference with head 0 in every head": (head_0, FLAT),
        "the reference with the first of four numbers in all four": (
            np.repeat(right[..., ::4], 4, axis=-1),
            FOUR,
        ),
        "qkv split, but its heads were not moved: still (B, T, C)": (
            qkv.reshape(B, T, 3, NH * hs).transpose(2, 0, 1, 3).reshape(right.shape),
            FLAT,
        ),
        "qkv in its old order: nothing moved": (qkv.reshape(right.shape), FLAT),
        "the reference with each head's q, k and v side by side: a row of qkv is [Q; K; V], heads inside": (
            per_head,
            FLAT,
        ),
        "the reference with channel c in head c % NH: heads are hs channels side by side": (slow_heads, FLAT),
        "the reference with k and v swapped": (right[[0, 2, 1]], FLAT),
        "the reference with q and k swapped": (right[[1, 0, 2]], FLAT),
        "the reference with batch and head swapped, (NH, B, T, hs)": (
            right.swapaxes(1, 2).reshape(right.shape),
            FLAT,
        ),
        "q in all three": (right[[0, 0, 0]], FLAT),
    }
    if np.array_equal(out, right):  # the rest takes a while
        return known
    more = {
        "the reference of b = 0 for every b": right[:, :1],
        "the reference of t = 0 for every t": right[:, :, :, :1],
        "the reference of j = 0 for every j": right[..., :1],
    }
    axes = "3", "B", "NH", "T", "hs"
    for order in permutations(range(4)):
        laid_out = ", ".join(axes[axis] for axis in (*order, 4))
        array = np.ascontiguousarray(right.transpose(*order, 4)).reshape(right.shape)
        more[f"the reference laid out as ({laid_out}): out is ({', '.join(axes)})"] = array
    sizes = {"B": B, "T": T, "3": 3, "NH": NH, "hs": hs}
    more |= {words: right_heads(found, NH) for words, found in _read_as(qkv, "qkv", sizes, last=1)}
    known |= _unlike(known, right, more)
    wanted = right_heads(np.arange(qkv.size).reshape(qkv.shape), NH)  # (3, B, NH, T, hs)
    moved = came_from("qkv", out, qkv, wanted, {"b": B, "t": T, "s": 3, "h": NH, "j": hs})
    return known | {words: (array, FLAT) for words, array in moved.items()}
