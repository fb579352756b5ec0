"""From a stream of text to a stream of tokens: in order, on all cores, and in the memory of a few batches.

Text comes as (begins a document?, text): a whole document, or a piece of one, as `llmc.data.encoding.pieces` cuts it.
The end-of-text token comes before each document, as in llm.c's scripts.

Processes, not threads, do the work: tiktoken releases the interpreter lock while it encodes, but with short documents,
threads spend their time waiting for that lock. On 16 cores, pages of 3 kB took 60 MB of text a second with threads and
150 with processes; sections of Shakespeare 9 and 82.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice

import numpy as np

from llmc.data.encoding import PIECE, encode
from llmc.data.tokenizer import make_encoding, token_table
from llmc.errors import UserError

MOST = 60  # processes: Windows cannot wait for more, and one reader could not keep more busy
SMALL = 8  # batches; fewer are encoded in this process, in about the time that others take to start


def encode_pieces(encoding, batch) -> np.ndarray:
    """(ntok,) uint16: the tokens of each (begins, text), with an end-of-text token wherever a document begins."""
    stream = []
    for begins, text in batch:
        if begins:
            stream.append(encoding.eot_token)
        stream += encode(encoding, text)
    return np.array(stream, np.uint16)


def tokenise(pieces, encoding, processes=None):
    """Yield the tokens of all pieces in order, as arrays (n,) uint16, whichever process encoded them.

    processes: None for one per core; a small text is encoded in this process. At most two batches per process are in
    flight at any time, so memory does not grow with the text. Raises UserError if the processes are killed.
    """
    batches, processes = in_batches(pieces), processes or cores()
    first = list(islice(batches, SMALL))
    batches = chain(first, batches)
    if processes == 1 or len(first) < SMALL:
        yield from (encode_pieces(encoding, batch) for batch in batches)
    else:
        yield from _in_processes(batches, encoding, processes)


def in_batches(pieces):
    """Lists of pieces with at least PIECE characters in all; only the last list may have fewer."""
    batch, size = [], 0
    for begins, text in pieces:
        batch.append((begins, text))
        size += len(text)
        if size >= PIECE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def cores() -> int:
    """Processor cores that this process may use, up to MOST."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, MOST)


def _in_processes(batches, encoding, processes):
    # "spawn" on every system: a fork would copy the locks of threads running here (BLAS, Numba, a notebook).
    context = multiprocessing.get_context("spawn")
    tokenizer = (token_table(encoding), encoding.eot_token)
    pool, waiting = ProcessPoolExecutor(processes, context, _start, tokenizer), deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(_encode, batch))
            if len(waiting) >= 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "a process that was encoding text ended early; free some memory or, in your own script, call llmc"
            ' under `if __name__ == "__main__":`.'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


# ------------------------------------------------------------------------------------------------- in a worker process


def _start(tokens, eot_id):
    """Make the tokenizer once. Ctrl-C is left to the parent; however the parent ends, this process ends with it."""
    global _encoding
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _encoding = make_encoding(tokens, eot_id)


def _end_with_parent():
    multiprocessing.parent_process().join()
    os._exit(1)


def _encode(batch):
    return encode_pieces(_encoding, batch)
