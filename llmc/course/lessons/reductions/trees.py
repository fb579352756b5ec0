"""Lesson 13: what well-known mistakes give in a tree: {sentence after "out equals ": (array, where to look)}."""

import numpy as np

from llmc.course.lessons.reductions.lanes import LANES, telling
from llmc.course.lessons.reductions.places import PICTURE, SHUFFLE, TREE


def mistakes(x, threads) -> dict:
    """Known wrong sums (N,) of blocks of that many threads."""
    x64 = np.asarray(x, np.float64)
    N, C = x64.shape
    each = np.stack([x64[:, t::threads].sum(axis=1) for t in range(threads)], axis=1)  # (N, threads)
    found = {
        "the mean of the row": (x64.mean(axis=1), TREE),
        "the maximum of the row": (x64.max(axis=1), TREE),
        "the sum over everything: each row has a block of its own": (np.full(N, x64.sum()), TREE),
        "the sum of row 0 in every row: blockIdx.x says which row it is": (np.full(N, x64[0].sum()), TREE),
    }
    if C > threads:
        first = "the sum of the first blockDim.x numbers: a thread takes t, t + blockDim.x, … as long as there are any"
        found[first] = (x64[:, :threads].sum(axis=1), TREE)
        found["what thread 0 has added up by itself: what the others have is missing"] = (
            each[:, 0],
            PICTURE,
        )
        last = np.stack([x64[:, t::threads][:, -1] if t < C else np.zeros(N) for t in range(threads)], axis=1)
        found["the sum of the last number that each thread has seen"] = (last.sum(axis=1), TREE)
    if C > LANES < threads:
        warps = "the sum of what the first 32 threads have: what the others have is missing"
        found[warps] = (each[:, :LANES].sum(axis=1), SHUFFLE)
    if C > 1:
        found["the sum without the last number of the row"] = (x64[:, :-1].sum(axis=1), TREE)
        found["the sum without the first number of the row"] = (x64[:, 1:].sum(axis=1), TREE)
    found |= {words: (array, TREE) for words, array in _in_ints(x64, threads).items()}
    some = "the sum of what threads {} have: what the others have is missing"
    if C > threads // 2:
        found[some.format(f"0 to {threads // 2 - 1}")] = (each[:, : threads // 2].sum(axis=1), PICTURE)
    if C > 1:
        found[some.format("0, 2, 4, …")] = (each[:, ::2].sum(axis=1), PICTURE)
    return telling(found | _other_trees(x64, each), x64.sum(axis=1))


def _other_trees(x64, each):
    """The results of other steps of the tree, of other strides; each (N, threads) is what the threads have."""
    N, threads = each.shape
    halves = [threads >> k for k in range(1, 10) if threads >> k]  # 128, 64, … 1
    signs = np.array([(-1.0) ** bin(t).count("1") for t in range(threads)])  # (threads,)
    begin_at_0 = threads * x64[:, ::threads].sum(axis=1)  # (N,)
    fourths, thirds = halves[::2], _thirds(threads)  # 128, 32, 8, 2, and 128, 42, 14, 4, 1
    why = {True: "none reads what another one has", False: "no number is left out"}
    steps = {
        f"the sum of threads that go on in steps of {words}: in steps of blockDim.x {why[step < threads]}": (
            x64 @ _visits(x64.shape[1], threads, step),
            TREE,
        )
        for words, step in (("32", LANES), ("256", 256), ("gridDim.x", N), ("1", 1))
        if step != threads
    }
    return steps | {
        f"the result of a tree with half = {_listed(fourths)} alone": (_tree(each, fourths), TREE),
        f"the result of a tree with half = {_listed(thirds)}": (_tree(each, thirds), TREE),
        "what the last thread has": (each[:, -1], TREE),
        "the result of a tree that subtracts": ((each * signs).sum(axis=1), TREE),
        "what thread 0 has, doubled in each step of the tree": (
            each[:, 0] * 2.0 ** len(halves),
            TREE,
        ),
        "what threads 1, 3, 5, … have, as a tree leaves it in partial[1]": (each[:, 1::2].sum(axis=1), TREE),
        "the sum of threads that all begin at 0: thread t begins at t": (begin_at_0, TREE),
        "the sum of the first N numbers: a row has C": (x64[:, :N].sum(axis=1), TREE),
    }


def _visits(C, threads, step):
    """(C,): how many threads visit each number of a row if thread t takes t, t + step, …"""
    return np.array([len(range(c % step, min(c, threads - 1) + 1, step)) for c in range(C)])


def _tree(each, halves):
    """partial[0] (N,) after the steps `if (t < half) partial[t] += partial[t + half]`."""
    partial = each.copy()  # (N, threads)
    for half in halves:
        partial[:, :half] += partial[:, half : 2 * half]
    return partial[:, 0]


def _listed(numbers):
    return ", ".join(map(str, numbers))


def _thirds(threads):
    half, steps = threads // 2, []
    while half:
        steps.append(half)
        half //= 3
    return steps


def _in_ints(x64, threads):
    """Sums (N,) where numbers, or what a thread has added up, are kept in an int."""
    sums = np.zeros((len(x64), threads))
    for c in range(0, x64.shape[1], threads):
        part = x64[:, c : c + threads]
        sums[:, : part.shape[1]] = np.trunc(sums[:, : part.shape[1]] + part)
    return {
        "the sum of numbers cut to whole ones, as an int holds them": np.trunc(x64).sum(axis=1),
        "the sum of what the threads have, each cut to a whole number in every turn, as an int holds it": sums.sum(
            axis=1
        ),
        "the sum cut to a whole number, as an int holds it": np.trunc(x64.sum(axis=1)),
    }
