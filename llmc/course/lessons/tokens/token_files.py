"""Lesson 08: its files and batches, and what each known mistake gives instead."""

import struct
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.beside import first_difference
from llmc.course.old.checks.contrast import outcome, told_apart
from llmc.course.old.checks.explain import WrongAnswer, describe

FILE = 'lesson 08, section "7.1 · Byte by byte"'
LOADER = 'lesson 08, section "8.1 · x, and y one later"'
MAGIC, VERSION = 20240520, 1
FIELDS = "the magic number", "the version", "the count of the ids"  # of the header
OTHERS = OverflowError, struct.error, AssertionError  # that are raised for numbers which do not fit

# ----------------------------------------------------------------------------------------------------- token_file

REFUSED = (  # ids, and what is wrong with them
    ([], "there is no id in it"),
    ([7, 65536, 3], "65536 does not fit into 16 bits"),
    (np.array([1, 70000]), "70000 does not fit into 16 bits, and .astype(np.uint16) silently wraps it to 4464"),
    (np.array([5, -1, 2]), "-1 is not an id, and .astype(np.uint16) silently wraps it to 65535"),
    ([8, -4], "-4 is not an id"),
    (np.array([2**32 + 5]), "4294967301 does not fit into 16 bits, and int32 silently wraps it to 5"),
)


STRANGE = (-1, 65536, 70000, 2**32 + 5)  # ids that are refused one at a time


@contextmanager
def accepted(ids):
    """Around a call with right ids, which must not be refused."""
    try:
        yield
    except ValueError as error:
        if len(ids) > 3:
            raise
        raise AssertionError(f"a ValueError ({error}) for {list(map(int, ids))}: these ids fit, 0 to 65535") from None


def token_file(ids) -> bytes:
    """llm.c's token file: 256 int32 of header, then the ids as uint16, the lowest byte first."""
    return _file(ids)


def _file(ids, fields=None, header="<i4", words=256, body="<u2"):
    """A token file with something else in it. fields: the first numbers of the header."""
    head = np.zeros(words, header)
    fields = (MAGIC, VERSION, len(ids)) if fields is None else fields
    head[: len(fields)] = fields
    return head.tobytes() + np.array(ids).astype(body).tobytes()


def _wrong_files(ids) -> dict:
    """{sentence: the file with that mistake}."""
    n = len(ids)
    return {
        "the header is missing: begin with 1024 bytes that say what follows": np.array(ids).astype("<u2").tobytes(),
        "the header takes 2048 bytes: its numbers are int32, 4 bytes each": _file(ids, header="<i8"),
        "the header is 12 bytes long: fill it up with zeros to 256 numbers": _file(ids, words=3),
        "the header has 253 numbers: the zeros should fill it up to 256": _file(ids, words=253),
        "the header has 259 numbers: 3 of the 256 are not zeros": _file(ids, words=259),
        "the header is big-endian: the lowest byte comes first": _file(ids, header=">i4"),
        "the ids are big-endian: the lowest byte comes first": _file(ids, body=">u2"),
        "header and ids are big-endian: the lowest byte comes first": _file(ids, header=">i4", body=">u2"),
        "the ids take 4 bytes each: they are uint16": _file(ids, body="<i4"),
        "the ids take 8 bytes each: they are uint16": _file(ids, body="<i8"),
        "the ids take 1 byte each: they are uint16": _file(ids, body="u1"),
        "the header counts bytes: it should count tokens": _file(ids, (MAGIC, VERSION, 2 * n)),
        "the header counts the bytes of the whole file: it should count tokens": _file(
            ids, (MAGIC, VERSION, 1024 + 2 * n)
        ),
        "the header says 0 tokens: its third number is how many there are": _file(ids, (MAGIC, VERSION)),
        "the version is missing: the second number is 1, the third is the number of tokens": _file(ids, (MAGIC, n)),
        "the version is 0, and should be 1": _file(ids, (MAGIC, 0, n)),
        "version and number of tokens are swapped": _file(ids, (MAGIC, n, VERSION)),
        "the magic number is missing: it comes first": _file(ids, (VERSION, n)),
        "this is the magic number of a tokenizer file, 20240328; a token file's is 20240520": _file(
            ids, (20240328, VERSION, n)
        ),
        "this is the magic number of a model file, 20240326; a token file's is 20240520": _file(
            ids, (20240326, VERSION, n)
        ),
        "the ids come before the header": _file(ids)[1024:] + _file(ids)[:1024],
    }


def explain_file(data, ids) -> str | None:
    """What is wrong with the bytes of a token file of these ids; None when they are right."""
    right = token_file(ids)
    if not isinstance(data, bytes | bytearray):
        return f"the bytes of the file are expected, but token_file returned {describe(data)}"
    if data == right:
        return None
    for sentence, wrong in _wrong_files(ids).items():
        if data == wrong:
            return f"{sentence}.\n→ {FILE}"
    if len(data) == len(right) - 768:
        return f"the header has 256 bytes: it should have 256 numbers of 4 bytes, 1024 in all.\n→ {FILE}"
    if len(data) != len(right):
        wanted = f"1024 + 2·{len(ids)} = {len(right)} bytes"
        return f"the file of {len(ids)} ids should have {wanted}, but has {len(data)}.\n→ {FILE}"
    at = next(i for i in range(len(right)) if data[i] != right[i])
    if at < 1024:
        return f"{_number_of_header(data, right, at // 4)}.\n→ {FILE}"
    return f"byte {at}, in id {(at - 1024) // 2}, is {data[at]} and should be {right[at]}.\n→ {FILE}"


def _number_of_header(data, right, k) -> str:
    """What is wrong with the k-th number of the header."""
    mine, its = (int(np.frombuffer(file[:1024], "<i4")[k]) for file in (data, right))
    what = f"{FIELDS[k]}, number {k} of the header counted from 0," if k < len(FIELDS) else f"number {k} of the header"
    lost = ": its upper 16 bits are lost" if mine == its & 0xFFFF else ""
    size = mine // its if its and mine % its == 0 else 0
    many = f": that is {size} for each id" if k == 2 and size in (2, 4, 8) else ""
    top = ": that is the largest of the ids" if k == 2 and mine == np.frombuffer(right[1024:], "<u2").max() else ""
    return f"{what} is {mine} and should be {its}{lost or many or top}"


def raised(error) -> str:
    """ "it raised a struct.error (…)": another exception than the one that is asked for."""
    if isinstance(error, WrongAnswer):  # of the check itself
        raise error
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    why = f" ({error})" if str(error) else ""
    lost = ", and `python -O` leaves every `assert` out" if kind is AssertionError else ""
    return f"it raised {'an' if name[0] in 'AEIOU' else 'a'} {name}{why}{lost}"


def not_refused(function, data, ids) -> str:
    """Words that go on from "… should raise a ValueError", about what was returned for ids that should be refused.

    function: the learner's, which is tried on such ids one at a time, and in which place they are.
    """
    places = {"the first place": 0, "the middle": 2, "the last place": 4}
    tried = {(bad, words): _refuses(function, bad, k) for bad in STRANGE for words, k in places.items()}
    told = told_apart(tried, "refused")
    more = f".\nOf five ids, one of them outside of 0 … 65535: {told}" if told else ""
    if isinstance(data, Exception):
        return f". Your function returns the {type(data).__name__}: `raise` it{more}"
    if not isinstance(data, bytes | bytearray) or not len(data) == 1024 + 2 * len(ids) > 1024:
        return more
    return f". Your file holds {np.frombuffer(data, '<u2', offset=1024).tolist()} instead{more}"


def _refuses(function, bad, place) -> bool:
    ids = [3, 1, 4, 1, 5]
    ids[place] = bad
    return isinstance(outcome(function, np.array(ids)), ValueError)


# ----------------------------------------------------------------------------------------------------- read_batch

ODD = ". A file with a whole token too many or too few was refused"


class Batch(NamedTuple):
    """x, y: (B, T) int32."""

    x: np.ndarray
    y: np.ndarray


def batch(tokens, i, B, T, rank=0, world=1) -> Batch:
    """Batch i of process rank, one entry after the other."""
    start = (i * world + rank) * B * T
    x, y = np.empty((B, T), np.int32), np.empty((B, T), np.int32)  # (B, T) each
    for b in range(B):
        for t in range(T):
            x[b, t], y[b, t] = tokens[start + b * T + t], tokens[start + b * T + t + 1]
    return Batch(x, y)


def num_batches(ntok, B, T, world=1) -> int:
    """Batches that each process gets."""
    return (ntok - 1) // (B * T * world)


def batch_mistakes(tokens, i, B, T, rank, world) -> dict:
    """{"x": {sentence after "equals ": (array, where)}, "y": …}, without those that would read outside the file."""
    raw = token_file(tokens)
    n, ntok = B * T, len(tokens)
    per_rank = num_batches(ntok, B, T, world)
    starts = {  # where else a learner may begin
        "the batch of process 0: rank is not used": i * world * n,
        "the batch of a single process: neither rank nor world is used": i * n,
        "the batch that begins at (i + rank)·B·T: i counts rounds of all `world` processes": (i + rank) * n,
        "the batch in another order, first all batches of process 0, then all of process 1: processes take turns": (
            (rank * per_rank + i) * n
        ),
        "the batch that begins at (rank·world + i)·B·T: rank and i are swapped": (rank * world + i) * n,
        "the batch that begins at (i·world + rank)·(B·T + 1): batches share one token": (i * world + rank) * (n + 1),
        "the batch that begins at (i·world + rank)·T: B is missing": (i * world + rank) * T,
        "the batch that begins one token late": (i * world + rank) * n + 1,
        "the batch after this one: i counts from 0": ((i + 1) * world + rank) * n,
    }
    if world == 1:  # the check leaves rank and world out in some of these calls
        starts["the batch with world = 2: where it is left out, it is 1"] = 2 * i * n
    layouts = {  # how else the bytes may be read: (where the ids begin, dtype, bytes of a token)
        "the reference with the header read as tokens: the ids begin at byte 1024": (0, "<u2", 2),
        "the reference with the ids taken from byte 256: the header has 256 numbers of 4 bytes": (256, "<u2", 2),
        "the reference with the ids taken from byte 512: the header has 256 numbers of 4 bytes": (512, "<u2", 2),
        "the batch read from byte 1024 + start: a token has two bytes": (1024, "<u2", 1),
        "the reference with the ids taken from byte 2048: they begin at byte 1024": (2048, "<u2", 2),
        "the reference with big-endian ids: the lowest byte comes first": (1024, ">u2", 2),
        "the reference with signed 16 bits, in which ids from 32,768 on are negative: the file has unsigned ones": (
            1024,
            "<i2",
            2,
        ),
    }
    x, y = {}, {}
    start = (i * world + rank) * n + 2
    if start + n <= ntok:
        y["x two tokens later: y is one later"] = np.asarray(tokens[start : start + n]).reshape(B, T)
    for sentence, start in starts.items():
        if 0 <= start and start + n + 1 <= ntok:
            window = np.asarray(tokens[start : start + n + 1])  # (B·T + 1,)
            x[sentence], y[sentence] = window[:-1].reshape(B, T), window[1:].reshape(B, T)
    for sentence, (offset, dtype, wide) in layouts.items():
        begin = offset + wide * (i * world + rank) * n
        window = np.frombuffer(raw[begin : begin + 2 * n + 2], dtype)
        if window.size == n + 1:
            x[sentence], y[sentence] = window[:-1].reshape(B, T), window[1:].reshape(B, T)
    right = batch(tokens, i, B, T, rank, world)
    flat = right.x.ravel()  # (B·T,)
    x["the reference filled column by column: rows are stretches of text"] = flat.reshape(T, B).T
    y["the reference filled column by column: rows are stretches of text"] = right.y.ravel().reshape(T, B).T
    y["x itself: y is one token later"] = right.x
    y["x rolled round inside each row: its last entry is the row's own first token, not the next one"] = np.roll(
        right.x, -1, axis=1
    )
    y["x rolled round: its last entry is the batch's own first token, not the next one"] = np.roll(flat, -1).reshape(
        B, T
    )
    y["x + 1: y is the next *token*, not the next number"] = right.x + 1
    y["the token before x: y is the one after it"] = np.concatenate([[0], flat[:-1]]).reshape(B, T)
    return {name: {text: (array, LOADER) for text, array in table.items()} for name, table in (("x", x), ("y", y))}


def whole_file(path, error) -> str:
    """Sentences about a token file that should not have been refused; "" if the error is another one, of NumPy's."""
    if "reshape" in str(error):
        return ""
    size = path.stat().st_size
    ntok = (size - 1024) // 2
    told = f"This file is whole: {size:,} bytes, 1024 of the header and 2 for each of the {ntok:,} tokens."
    low = f"Its first two bytes hold {ntok & 0xFFFF:,}, and in all of the smaller files they held the whole number"
    long = f" The number of tokens in the header has four bytes. {low}."
    return told + long * (ntok > 0xFFFF)


def where_read(array, case, later):
    """A function of nothing: where in the file the rows of the wrong array (B, T) come from, as a sentence, or None.

    case: as of `batch`. later: how many tokens after x it begins, 1 for y.
    """

    def look():
        tokens, i, B, T, rank, world = case
        if np.shape(array) != (B, T):
            return None
        first = {int(token): k for k, token in reversed(list(enumerate(tokens)))}
        places = np.array([[first.get(int(token), -1) for token in row] for row in array])  # (B, T)
        begins = places[:, 0]
        right = [(i * world + rank) * B * T + later + b * T for b in range(B)]
        if (places < 0).any() or len(first) < len(tokens):  # numbers that are no tokens, or tokens that are there twice
            return None
        if (places == begins[:, None] + np.arange(T)).all():
            yours, ours = first_difference(begins, right)
            rows = f"the rows of {'xy'[later]} begin at the tokens {yours} of the file (from 0)"
            return f"{rows}, and should begin at {ours}"
        torn = next(row for row in places if (np.diff(row) != 1).any())
        shown, _ = first_difference(torn, torn[0] + np.arange(T))
        row = f"a row of {'xy'[later]} holds the tokens {shown} of the file (from 0)"
        return f"{row}: {T} that follow one another are expected"

    return look


def likely_mistakes(cases, batches) -> dict:
    """Of `batch_mistakes` of the first wrong batch those that explain all that were read; the same form.

    cases: [(tokens, i, B, T, rank, world)]. batches: [(x, y)], what the learner returned for each.
    """
    if not cases:
        return {"x": {}, "y": {}}
    tables = [batch_mistakes(*case) for case in cases]
    for table, case in zip(tables, cases):
        if case[0] is not cases[0][0]:
            _add_first_file(table, cases[0][0], *case[1:])
    wrong = next((k for k in range(len(cases)) if not _equal(batches[k], batch(*cases[k]))), 0)
    fitting = {}
    for j, name in enumerate(("x", "y")):
        explains = lambda s, j=j, name=name: all(  # noqa: E731
            s not in table[name] or np.array_equal(read[j], table[name][s][0]) for table, read in zip(tables, batches)
        )
        fitting[name] = {s: entry for s, entry in tables[wrong][name].items() if explains(s)}
    alone = {s: entry for s, entry in fitting["y"].items() if s not in tables[wrong]["x"]}
    return fitting | {"y": alone or fitting["y"]}  # x is compared first: a batch that begins elsewhere shows there


def _add_first_file(table, tokens, i, B, T, rank, world):
    """Add what the first of several files, which lay at one path, would have given."""
    first = "this batch of the file that lay at this path before: your function keeps what it has read from there"
    if (i * world + rank + 1) * B * T < len(tokens):
        for name, array in batch(tokens, i, B, T, rank, world)._asdict().items():
            table[name][first] = (array, LOADER)


def _equal(read, right) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(read, right))


def two_arrays(result):
    """(x, y) of what read_batch returned; raises AssertionError, which says what it should return."""
    told = f"two arrays are expected, `return x, y`, but read_batch returned {describe(result)}"
    assert isinstance(result, tuple | list) and len(result) == 2, told
    for name, array in zip("xy", result):
        assert getattr(array, "dtype", None) != np.uint16, (
            f"{name} has dtype uint16, expected int32: the file's tokens are uint16, .astype(np.int32).\n→ {LOADER}"
        )
    return result
