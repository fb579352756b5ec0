"""Lesson 21, exercise 1: what each rank of a ring holds and sends in each turn."""

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer


def places_in_rings(c):
    """rank, array (n,) to be overwritten, the arrays (n,) of all ranks, what the left neighbour sends in each turn."""
    for N, n in ((3, 6), (3, 6), (1, 4), (2, 7), (3, 11), (5, 5), (5, 13), (5, 3), (2, 1), (8, 30)):
        arrays = [c.random(n, dtype=np.float32) for _ in range(N)]
        for rank in c.rng.permutation(N).tolist():
            array, left = c.buffer(n, dtype=np.float32), (rank - 1) % N
            array[...] = arrays[rank]
            yield rank, array, arrays, [state[left][(left - t) % N] for t, state in enumerate(ring(arrays)[:-1])]


def ring(arrays):
    """[[the chunks of each rank] before each turn, and after the last one]: what ranks without mistakes hold.

    In turn t, counted through both halves, rank r sends chunk r - t.
    """
    N = len(arrays)
    states = [[np.array_split(array, N) for array in arrays]]
    for t in range(2 * (N - 1)):
        before, after = states[-1], [[*chunks] for chunks in states[-1]]
        for r in range(N):
            k = (r - 1 - t) % N
            after[r][k] = before[r - 1][k] + (before[r][k] if t < N - 1 else 0)
        states.append(after)
    return states


def judge_rank(c, function, array, link, arrays):
    """Call; each message of this rank must be right, their number, and the sum in array (n,), to the last bit."""
    N, rank, start, states, look = len(arrays), link.rank, array.copy(), ring(arrays), c.exercise.look_for()
    try:
        c.call(function, array, link)
    except Exception as error:  # a wrong message that was sent before is its cause
        if not isinstance(error, NotImplementedError):
            judge_messages(link.sent, states, rank, look)
        raise
    judge_messages(link.sent, states, rank, look)
    made, needed = len(link.sent), 2 * (N - 1)
    if made < needed:
        words = f"rank {rank} of {N} makes {made} exchange{'s' * (made != 1)}, and {needed} are needed"
        raise WrongAnswer(f"{words}: {N - 1} for the reduce-scatter, {N - 1} for the all-gather", look=look)
    compare(f"the array of rank {rank} of {N}", array, np.concatenate(states[-1][rank]), 0, 0, before=start, look=look)


def judge_messages(sent, states, rank, look):
    """WrongAnswer if a message is not what this rank should have sent: the first one is explained."""
    N = len(states[0])
    for t, (got, state) in enumerate(zip(sent, states[:-1])):
        k, half = (rank - t) % N, ("reduce-scatter", "all-gather")[t // (N - 1)]
        known = {f"its chunk {j}, and it is chunk {k}'s turn": state[rank][j] for j in range(N) if j != k}
        if t:
            before, came = states[t - 1][rank], states[t - 1][rank - 1][k]  # what came is chunk k, too
            known[f"chunk {k} as it was at the start"] = states[0][rank][k]
            if t < N:
                known["what came in the turn before, without what was there"] = came
            else:
                words = f"chunk {k} with what came added to it: here it takes the place of what was there"
                known[words] = before[k] + came
            for j in range(N):
                words = f"its chunk {j}, to which it has added what came in the turn before: that is chunk {k}"
                known |= {words: before[j] + came} if j != k and before[j].shape == came.shape else {}
        known = {words: array for words, array in known.items() if array.shape == state[rank][k].shape}
        name = f"the chunk that rank {rank} of {N} sends in turn {t % (N - 1)} of the {half}"
        if t == 0 and not any(np.array_equal(got, chunk) for chunk in state[rank]):
            cut = [chunk.size for chunk in state[rank]]
            raise WrongAnswer(f"{name} is no chunk of its array: np.array_split cuts it into {cut} numbers", look=look)
        compare(name, got, state[rank][k], 0, 0, known=known, look=look)


LAST = "link.exchange(chunks[(r + 1 - t) % N])"
SUM = rf"""
    = the state after the reduce-scatter: one chunk is whole, and the others are missing
        | chunks[(r - t) % N][...] = link => chunks[(r - t) % N] = link
    = the sum divided by the number of ranks: an all-reduce adds, and nothing more
        | {LAST} => {LAST}\n    array /= N
    = the right chunks from that of its own rank on: chunk 0 comes first, whatever the rank
        | {LAST} => {LAST}\n    array[...] = np.concatenate(chunks[r:] + chunks[:r])
"""
Exercise("ring_all_reduce", "21", writes="array", cases=places_in_rings, look="3 · Around the ring", mistakes=SUM)
