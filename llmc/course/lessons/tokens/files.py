"""Lesson 08's exercises on files: what a token file holds, and a batch of it. exercises.py has the others."""

import atexit
import shutil
import struct
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.explanation import explain
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer, describe

FIELDS = [(0, "magic number"), (4, "version"), (8, "number of ids"), (12, "zeros of the header"), (1024, "ids")]


def ids_to_write(c):
    """ids: lists and arrays of several types, the largest and the smallest id, few and 70,000."""
    some, many = c.rng.integers(0, 65536, 7), c.rng.integers(0, 65536, 70_000)  # more ids than 16 bits can count
    yield from ([40, 258, 1023], some, some.astype(np.int32), some.astype(np.uint16), some.tolist())
    yield from ([65535], [0, 0], many)


def file_of(ids) -> bytes:
    """llm.c's token file: 256 int32 of header, then the ids as uint16, the lowest byte first."""
    return struct.pack("<3i1012x", 20240520, 1, len(ids)) + np.array(ids).astype("<u2").tobytes()


@cache
def folder() -> Path:
    """For the token files of this process: explanations read them again, after the check that wrote them."""
    path = mkdtemp()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def batches(c):
    """path, i, B, T, options: first, last and other batches of one to three processes; one path for all the files."""
    path = folder() / f"{c.rng.integers(10**9)}.bin"
    sizes = [(3, 5, 2, 5000), (3, 5, 1, 2000), (4, 4, 3, 2000), (1, 7, 1, 60), (5, 9, 2, 70_000)]
    for B, T, world, ntok in [*sizes, (2, 3, 2, 13)]:  # 13 tokens: the last batch ends with the last one
        path.write_bytes(file_of(np.resize(c.rng.permutation(65536), ntok)))
        last = (ntok - 1) // (B * T * world) - 1
        for i, rank in [(last // 2, world - 1), (last // 2, 0), (0, 0), (last, world - 1), (0, world - 1)]:
            yield path, i, B, T, {} if world == 1 and i else {"rank": rank, "world": world}


def damaged_files(c):
    """(path, what should happen): also if only a byte is wrong, and if the batch itself is there."""
    whole, path = file_of(c.rng.integers(0, 65536, 13)), folder() / f"{c.rng.integers(10**9)}.bin"
    for damaged, what in [
        (whole[:-2], "lacks its last token"),
        (whole + b"\0\0", "is two bytes too long"),
        (whole + b"\0", "is one byte too long (one with a whole token too many was refused)"),
        (whole[:-1], "lacks its last byte (one without its last token was refused)"),
        (whole[:8] + struct.pack("<i", 70_000) + whole[12:], "promises 70,000 tokens and has 13"),
    ]:
        path.write_bytes(damaged)
        yield path, f"a file that {what} should be refused with a ValueError, even if the batch itself is there"


def refused():
    """(ids, what should happen)."""
    wraps = "does not fit into 16 bits, and .astype(np.uint16) silently wraps it to"
    for ids, why in [
        ([], "there is no id in it"),
        ([7, 65536, 3], "65536 does not fit into 16 bits"),
        (np.array([1, 70000]), f"70000 {wraps} 4464"),
        (np.array([5, -1, 2]), f"-1 {wraps} 65535"),
        ([8, -4], "-4 is not an id"),
        (np.array([2**32 + 5]), "4294967301 does not fit into 16 bits, and int32 silently wraps it to 5"),
    ]:
        yield ids, f"token_file({list(map(int, ids))}) should raise a ValueError: {why}"


def judge_file(c, token_file, ids):
    """WrongAnswer unless the function returns the bytes of these ids' file. (`c.compare` compares no bytes.)"""
    right, data = file_of(ids), c.call(token_file, ids)
    if not isinstance(data, bytes | bytearray):
        raise WrongAnswer(f"the bytes of the file are expected, but your function returned {describe(data)}")
    if data != right:
        told = f"The file has {len(data)} bytes, and should have 1024 + 2·{len(ids)} = {len(right)}"
        if len(data) == len(right):
            at = next(k for k in range(len(right)) if data[k] != right[k])
            field = [name for begin, name in FIELDS if begin <= at][-1]
            told = f"The {field}: from byte {at} on, {data[at:][:4].hex(' ')} should be {right[at:][:4].hex(' ')}"
        raise WrongAnswer(explain(Diagnosis(Kind.RULE, told), None, "file", data, right, c.exercise.look_for()))


def judge_refusal(c, told, function, *arguments):
    """WrongAnswer, with these words, unless the function raises a ValueError."""
    try:
        result = c.call(function, *arguments)
    except ValueError:
        return
    except Exception as error:
        error.add_note(f"    {told}")
        raise
    more = ["Your function returns the ValueError: `raise` it."] if isinstance(result, ValueError) else []
    if isinstance(result, bytes) and len(result) == 1024 + 2 * len(arguments[0]) > 1024:
        more = [f"Your file holds {np.frombuffer(result, '<u2', offset=1024).tolist()} instead."]
    raise WrongAnswer(told, more=more, look=c.exercise.look_for())


Exercise("token_file", "08", returns="file", cases=ids_to_write, look="7.1 · Byte by byte")

BATCH = r"""
    from the batch of a single process: neither rank nor world is used | i * world + rank => i
    from batch 2·i where `world` is left out: its default is 1 | i * world + rank => i * max(world, 2) + rank
    in another order, first all batches of process 0, then all of process 1: processes take turns
        | i * world + rank => rank * ((ntok - 1) // (B * T * world)) + i
    with rows dealt out in turn to the processes: each takes B·T tokens that follow one another
        | return … => rows = 512 + ((i * B + np.arange(B)[:, None]) * world + rank) * T + np.arange(T)
        \n    return tuple(np.fromfile(path, "<u2").astype(np.int32)[rows + k] for k in (0, 1))
    with the ids taken from byte 512: the header has 256 numbers of 4 bytes | 1024 + 2 * start => 512 + 2 * start
    with big-endian ids: the lowest byte comes first | "<u2" => ">u2"
    with signed 16 bits, in which ids from 32,768 on are negative | "<u2" => "<i2"
    filled column by column: rows are stretches of text
        | reshape(B, T), window[1:].reshape(B, T) => reshape(T, B).T, window[1:].reshape(T, B).T
    = x rolled round: its last entry is the batch's own first token | window[1:] => np.roll(window[:-1], -1)
    = x rolled round inside each row: its last entry is the row's own first token, not the next one
        | window[1:].reshape(B, T) => np.roll(window[:-1].reshape(B, T), -1, axis=1)
"""
Exercise("read_batch", "08", returns="x y", cases=batches, look="8.1 · x, and y one later", mistakes=BATCH)
