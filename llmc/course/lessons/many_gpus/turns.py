"""Lesson 21: what each rank of a ring should send in each turn, and what is wrong with what one has sent."""

from contextlib import contextmanager

import numpy as np

from llmc.course.lessons.many_gpus.places import COST, RING
from llmc.course.old.checks.beside import digits_apart
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer, describe


def play(arrays):
    """(messages, sums): what rank r sends in turn t, as messages[r][t]; the array (n,) that all ranks have afterwards.

    arrays: of each rank (n,). The chunks are those of np.array_split, so some may be longer than others, or empty.
    """
    world = len(arrays)
    states = [[chunk.copy() for chunk in np.array_split(array, world)] for array in arrays]
    messages = [[] for _ in arrays]
    for t in range(2 * (world - 1)):
        adds, turn = t < world - 1, t % max(1, world - 1)
        for r in range(world):
            messages[r].append(states[r][(r - turn + (not adds)) % world].copy())
        for r in range(world):
            target, came = states[r][(r - turn - adds) % world], messages[r - 1][t]
            target[...] = target + came if adds else came
    return messages, np.concatenate(states[0])


def called(t, world) -> str:
    """ "turn 1 of the all-gather" of the t-th exchange."""
    half = "all-gather" if t >= world - 1 else "reduce-scatter"
    return f"turn {t % (world - 1)} of the {half}"


@contextmanager
def watching(sent, arrays, rank):
    """Around a call that may stop with an exception: a wrong message that was sent before is named as its cause."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:
        explain_messages(sent, arrays, rank)
        if isinstance(error, ValueError) and sent and len(sent) <= 2 * (len(arrays) - 1):  # shapes that do not fit
            error.add_note(f"    {_of_what_came(len(sent) - 1, arrays, rank)}")
        raise


def _of_what_came(t, arrays, rank) -> str:
    """Which chunk the t-th exchange has brought, and how long the chunks are."""
    world, adds, turn = len(arrays), t < len(arrays) - 1, t % (len(arrays) - 1)
    cut = [chunk.size for chunk in np.array_split(arrays[rank], world)]
    k = (rank - turn - adds) % world
    return f"chunk {k} has come, with {cut[k]} numbers: np.array_split cuts {sum(cut)} numbers into {cut}"


def explain_messages(sent, arrays, rank):
    """WrongAnswer unless each message of this rank is what it should have sent; the first wrong one is explained."""
    world, n = len(arrays), arrays[0].size
    messages, sums = play(arrays)
    for t, (got, right) in enumerate(zip(sent, messages[rank])):
        who = f"with {world} ranks and {n} numbers, in {called(t, world)}, rank {rank}"
        why = _wrong_message(got, right, t, arrays, rank, messages, sums)
        if why:
            raise WrongAnswer(f"{who} sends {why}.\n→ Where to look: {RING}.")


def explain_sent(sent, arrays, rank):
    """WrongAnswer unless this rank has sent what it should, in all turns."""
    explain_messages(sent, arrays, rank)
    world, (messages, _) = len(arrays), play(arrays)
    if len(sent) < len(messages[rank]):
        made, needed = len(sent), len(messages[rank])
        words = f"with {world} ranks, rank {rank} makes {made} exchange{'s' * (made != 1)}, and {needed} are needed"
        parts = f"{world - 1} for the reduce-scatter, {world - 1} for the all-gather"
        raise WrongAnswer(f"{words}: {parts}. Its neighbours wait for the others.\n→ Where to look: {RING}.")


def _wrong_message(got, right, t, arrays, rank, messages, sums):
    """What is wrong with a message, as the end of "rank 1 sends …"; None if nothing is."""
    world, mine = len(arrays), arrays[rank]
    if got.dtype != right.dtype:
        return f"{describe(got)}, and the numbers are {right.dtype}: a message would have other bytes"
    if got.shape == right.shape and np.array_equal(got, right):
        return None
    if got.shape == mine.shape and world > 1 and mine.size > right.size:
        return f"all {mine.size} numbers: only one chunk of {right.size} may travel in a turn"
    adds, turn = t < world - 1, t % (world - 1)
    k = (rank - turn + (not adds)) % world
    state = _state(arrays, rank, messages, t)
    for other, chunk in enumerate(state):
        if other != k and got.shape == chunk.shape and got.size and np.array_equal(got, chunk):
            return f"its chunk {other}, and it is chunk {k}'s turn"
    if got.shape != right.shape:
        cut = [chunk.size for chunk in np.array_split(mine, world)]
        return f"{describe(got)}, and chunk {k} has {right.size} numbers: np.array_split cuts them into {cut}"
    if np.array_equal(got, np.array_split(mine, world)[k]):
        return f"chunk {k} as it was at the start, {'without' if adds else 'not'} what came from the left"
    why = _wrongly_added(got, t, k, arrays, rank, messages) if t else None
    if why:
        return why
    if np.allclose(got, right, rtol=1e-5, atol=1e-5):
        return f"chunk {k} with other last bits than what came plus what was there, in {right.dtype}"
    begin, size = sum(chunk.size for chunk in state[:k]), right.size
    for j in range(mine.size - size + 1 if t == 0 else 0):
        if np.array_equal(got, mine[j : j + size]):
            return (
                f"its numbers {j} to {j + size - 1}, and np.array_split has {begin} to {begin + size - 1} in chunk {k}"
            )
    at = int(np.argmax(got != right))
    digits = digits_apart([(got[at], right[at])], 6)
    numbers = f"its number {at} is {got[at]:.{digits}g}, and should be {right[at]:.{digits}g}"
    whose = "the sum of all ranks" if np.array_equal(right, np.array_split(sums, world)[k]) else "the sum so far"
    return f"wrong numbers as chunk {k}, which should hold {whose}: {numbers}"


def _wrongly_added(got, t, k, arrays, rank, messages):
    """What became wrong in the turn before this one, the t-th, whose chunk is k; None if that is not seen."""
    world, came, before = len(arrays), messages[rank - 1][t - 1], _state(arrays, rank, messages, t - 1)
    if got.shape != came.shape:
        return None
    if np.array_equal(got, came) and t < world:
        return f"what came from the left in the turn before, as it was, without the numbers of rank {rank}"
    for other, chunk in enumerate(before):
        if chunk.shape == got.shape and np.allclose(got, chunk + came, rtol=1e-5, atol=1e-5):
            if other != k:
                return f"its chunk {other}, to which it has added what came in the turn before, which is chunk {k}"
            if t >= world:
                return f"chunk {k} with what came added to it: in the all-gather it takes the place of what was there"
    return None


def _state(arrays, rank, messages, t):
    """The chunks of this rank before the t-th turn of a ring that does all right."""
    world = len(arrays)
    chunks = [chunk.copy() for chunk in np.array_split(arrays[rank], world)]
    for turn in range(t):
        adds, u = turn < world - 1, turn % (world - 1)
        target, came = chunks[(rank - u - adds) % world], messages[rank - 1][turn]
        target[...] = target + came if adds else came
    return chunks


def explain_array(array, start, arrays, rank):
    """WrongAnswer unless the array (n,) of this rank is the sum, to the last bit. start: what it held before."""
    world = len(arrays)
    messages, sums = play(arrays)
    after = np.concatenate(_state(arrays, rank, messages, world - 1)) if world > 1 else start
    known = {
        "what it was before: what arrives must be written into array itself": (start, RING),
        "the state after the reduce-scatter: one chunk is whole, and the others are missing": (after, RING),
        "the sum divided by the number of ranks: an all-reduce adds, and nothing more": (sums / world, RING),
    }
    chunks = np.array_split(sums, world)
    for first in range(1, world):
        words = f"the right chunks from number {first} on, one behind the other: chunk 0 comes first, whatever the rank"
        known[words] = np.concatenate([*chunks[first:], *chunks[:first]]), RING
    known = {words: wrong for words, wrong in known.items() if not np.array_equal(wrong[0], sums)}
    what = f"the array of rank {rank} of {world}"
    compare(what, array, sums, 1e-6, known=known, before=start, look=RING)
    if not np.array_equal(array, sums):
        raise WrongAnswer(f"{what} has other last bits than those of its neighbours.\n→ Where to look: {RING}.")


def bytes_sent(sent) -> int:
    """Bytes of all messages."""
    return sum(message.nbytes for message in sent)


def demand_bytes(sent, world, n, itemsize=4):
    """WrongAnswer where a rank has sent more than 2 (N - 1) of the largest chunks."""
    most = 2 * (world - 1) * -(-n // world) * itemsize
    if bytes_sent(sent) > most:
        raise WrongAnswer(f"{bytes_sent(sent):,} bytes were sent, and {most:,} will do.\n→ Where to look: {COST}.")
