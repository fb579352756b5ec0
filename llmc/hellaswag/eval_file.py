"""llm.c's file of multiple-choice examples (`write_evalfile` in `dev/data/data_common.py`, EvalLoader in dataloader.h).

After the header (number of examples, bytes of the longest) each example is a row of uint16: 65535, its size in bytes,
its number, label, number of endings (4), then context and endings, each with its length in front.
"""

import numpy as np

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.header import SIZE, make_header, read_header
from llmc.files.reading import opened
from llmc.hellaswag.examples import ENDINGS, Example

MAGIC = 20240522
VERSION = 1
START = 65535  # in front of every example; no token has this id
MOST = 65535  # examples, and bytes of one: both are stored in a uint16
FIXED = 5  # words of an example in front of its tokens


def write_eval_file(path, examples):
    """Write examples to a file, under a temporary name until it is complete.

    Raises UserError for an example that the format cannot hold, for no examples or too many, and if writing fails.
    """
    rows = [_row(number, example) for number, example in enumerate(examples)]
    if not 1 <= len(rows) <= MOST:
        raise UserError(f"an eval file holds 1 to {MOST:,} examples, not {len(rows):,}.")
    header = make_header(MAGIC, VERSION, len(rows), max(row.nbytes for row in rows))
    with atomic_write(path) as file:
        file.write(header.tobytes())
        for row in rows:
            file.write(row.tobytes())


def _row(number, example) -> np.ndarray:
    """(words,) uint16: one example."""
    parts = [example.context, *example.endings]
    words = [START, 0, number, example.label, len(example.endings)]
    for part in parts:
        words += [len(part), *part]
    if not all(parts) or len(example.endings) != ENDINGS or not 0 <= example.label < ENDINGS:
        raise UserError(f"example {number:,} needs a context, {ENDINGS} endings, and a label below {ENDINGS}.")
    if max(max(part) for part in parts) >= START or min(min(part) for part in parts) < 0:
        raise UserError(f"example {number:,} has a token id outside 0 to {START - 1}, which an eval file cannot hold.")
    if 2 * len(words) > MOST:
        raise UserError(f"example {number:,} takes {2 * len(words):,} bytes, but an eval file allows {MOST:,}.")
    words[1] = 2 * len(words)
    return np.array(words, "<u2")


def read_eval_file(path, limit=None) -> list[Example]:
    """The first `limit` examples (all if None) of an eval file, such as llm.c's hellaswag_val.bin.

    Raises UserError if the file is missing, of another kind, truncated, too long or damaged.
    """
    header = read_header(path, MAGIC, (VERSION,), "an eval file")
    with opened(path) as file:
        file.seek(SIZE)
        raw = file.read()
    if len(raw) % 2:
        raise UserError(f"{path} is truncated: it ends within a number; get a fresh copy.")
    words, count = np.frombuffer(raw, "<u2"), int(header[2])  # (words,)
    examples, at = [], 0
    for number in range(count if limit is None else min(count, limit)):
        size = int(words[at + 1]) // 2 if at + FIXED <= words.size else 0
        if size < FIXED or at + size > words.size:
            raise UserError(f"{path} is truncated or damaged at example {number:,} of {count:,}; get a fresh copy.")
        examples.append(_parsed(words[at : at + size], number, path))
        at += size
    if not examples:
        raise UserError(f"{path} holds no examples; get a fresh copy.")
    if len(examples) == count and at != words.size:
        raise UserError(
            f"{path} is too long: {2 * (words.size - at):,} bytes follow its {count:,} examples; get a fresh copy."
        )
    return examples


def _parsed(row, number, path) -> Example:
    """The example in a row (words,) of uint16."""
    start, _, index, label, endings = row[:FIXED].tolist()
    parts, at = [], FIXED
    while at < row.size:
        length = int(row[at])
        parts.append(row[at + 1 : at + 1 + length].tolist())
        at += 1 + length
    sound = start == START and index == number and label < endings == ENDINGS
    if not sound or at != row.size or len(parts) != 1 + ENDINGS or not all(parts):
        raise UserError(f"{path} is damaged: example {number:,} does not have {ENDINGS} endings; get a fresh copy.")
    return Example(parts[0], parts[1:], label)
