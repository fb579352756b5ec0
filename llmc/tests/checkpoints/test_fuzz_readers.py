"""Every reader on damaged files: it reads values in range or refuses in one sentence. Nothing else may happen.

The cases are seeded, so a failing one can be repeated: the failure names the reader and the case.

    LLMC_FUZZ=10000 python -m pytest -s llmc/tests/checkpoints/test_fuzz_readers.py

makes that many cases for each reader, and prints how many were read and how many refused.
"""

import os
import signal
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from llmc.checkpoints import (
    TrainState,
    latest_checkpoint,
    load_checkpoint,
    read_debug_state,
    read_huggingface,
    read_model,
    read_optimizer_state,
    save_checkpoint,
    write_huggingface,
    write_model,
    write_optimizer_state,
)
from llmc.checkpoints.saved_files import read_record, write_record
from llmc.config import GPT2Config
from llmc.data.loader import DataLoader, ShuffledLoader
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, read_tokenizer, write_tokenizer
from llmc.data.tokens import read_tokens, write_tokens
from llmc.errors import UserError
from llmc.files.header import make_header
from llmc.model import GPT2
from llmc.parity.compare import read_losses
from llmc.training import LogWriter, TrainSettings, read_log
from llmc.training.settings_file import read_settings, write_settings

CASES = int(os.environ.get("LLMC_FUZZ", 60))  # for each reader
SECONDS = 2.0  # of processor time, for one file
SPARE = 2_000_000  # bytes that a reader may use itself
PER_BYTE = 40  # bytes of memory for each byte of the files: JSON and Python's own objects take space

CONFIG = GPT2Config(maxT=4, V=9, L=2, NH=2, C=4)
V, B, T = 300, 2, 4
RECORD = {"step": 4, "files": {"model_00000004.bin": 64 * "0"}, "settings": {"rate": 0.5, "data": None}}


# ----- readers: how an intact file is made, and how it is read -----------------------------------------------------


@dataclass
class Reader:
    """make(folder) writes intact files · read(folder) reads them and asserts that the values are in range."""

    make: object
    read: object


def model():
    m = GPT2(CONFIG)
    m.init_weights()
    m.m["wte"][...], m.v["wte"][...], m.t = 1.0, 2.0, 3
    return m


def make_tokens(form):
    return lambda folder: write_tokens(folder / "a.bin", np.arange(70) % V, form)


def use_tokens(folder):
    tokens = read_tokens(folder / "a.bin", V)
    assert tokens.ndim == 1 and tokens.size > 0 and int(tokens.max()) < V and int(tokens.min()) >= 0
    for loader in (DataLoader(folder / "a.bin", B, T, V), ShuffledLoader(folder / "a.bin", B, T, V)):
        x, y = loader.next_batch()
        assert x.shape == (B, T) and 0 <= min(x.min(), y.min()) and max(x.max(), y.max()) < V


def make_tokenizer(folder):
    tokens = [bytes([b]) for b in range(256)] + [b"the", b"th", END_OF_TEXT.encode()]
    write_tokenizer(folder / "t.bin", make_encoding(tokens, 258))


def use_tokenizer(folder):
    encoding = read_tokenizer(folder / "t.bin")
    ids = encoding.encode_ordinary("the end\n")
    assert encoding.decode(ids) == "the end\n" and all(0 <= i < encoding.n_vocab for i in ids)


def use_model(folder):
    m = read_model(folder / "m.bin")
    assert m.params_flat.size == m.config.num_parameters_padded


def make_debug_state(folder):
    x = np.arange(8, dtype="<i4").reshape(2, 4) % CONFIG.V  # (B, T)
    floats = np.zeros(8 * CONFIG.V + 1 + CONFIG.num_parameters_padded, "<f4")
    (folder / "d.bin").write_bytes(make_header(20240327, 2, 2, 4).tobytes() + x.tobytes() * 2 + floats.tobytes())


def use_debug_state(folder):
    state = read_debug_state(folder / "d.bin", CONFIG)
    assert state.x.shape == state.y.shape == state.logits.shape[:2] and state.logits.shape[2] == CONFIG.V
    with np.errstate(all="ignore"):
        model().loss(state.x, state.y)  # refuses ids that are out of range


def make_state(folder):
    loader = {"epoch": 1, "shard": 0, "sample": 3, "seed": 5}
    write_optimizer_state(folder / "s.bin", model(), TrainState(4, True, loader, 7, (0.5, 0.25), (1.0,)))


def check_state(m, state):
    assert 0 <= m.t and 0 <= state.step < 2**31 and 0 <= state.rng < 2**64
    assert state.order in ("random", "files", "llm.c")
    assert all(type(n) is int and 0 <= n < 2**63 for n in state.loader.values())
    assert all(isinstance(x, float) for x in (*state.losses, *state.norms))


def use_state(folder):
    m = GPT2(CONFIG)
    check_state(m, read_optimizer_state(folder / "s.bin", m))


def make_checkpoint(folder):
    save_checkpoint(folder, model(), TrainState(4, loader={"epoch": 0, "shard": 0, "sample": 3}))


def use_checkpoint(folder):
    step = latest_checkpoint(folder)
    m, state = load_checkpoint(folder, step)
    assert state.step == step == 4
    check_state(m, state)


def make_checkpoint_of_llmc(folder):
    """llm.c's DONE is empty, so nothing in front of the readers notices the damage."""
    make_checkpoint(folder)
    (folder / "DONE_00000004").write_bytes(b"")


def make_record(folder):
    write_record(folder / "DONE_00000004", RECORD)


def use_record(folder):
    assert read_record(folder / "DONE_00000004") in ({"files": {}}, RECORD)


def use_huggingface(folder):
    m = read_huggingface(folder)
    assert m.params_flat.size == m.config.num_parameters_padded and m.config.L <= CONFIG.L


def make_log(folder):
    log = LogWriter(folder / "main.log")
    for step in range(4):
        log.val(step, 5.0 - step)
        log.train(step, 4.5 - step, 1e-3, 0.5)
    log.close()


def use_log(folder):
    for rows in read_log(folder / "main.log").values():
        assert [row[0] for row in rows] == sorted({row[0] for row in rows}) and all(row[0] >= 0 for row in rows)


def use_settings(folder):
    settings = read_settings(folder)
    assert settings.steps >= 1 and settings.batch_size >= 1 and settings.seed >= 0


def make_losses(folder):
    (folder / "l.json").write_text('{"A": [5.0, 4, 3, 2, 1, 0.5, 0.4, 0.3, 0.2, 0.1], "B": {"losses": [1, 2]}}')


def use_losses(folder):
    for losses in read_losses(folder / "l.json", "A").values():
        assert len(losses) >= 10 and all(isinstance(loss / 1.0, float) for loss in losses)


READERS = {
    "tokens, uint16": Reader(make_tokens("uint16"), use_tokens),
    "tokens, int32": Reader(make_tokens("int32"), use_tokens),
    "tokenizer": Reader(make_tokenizer, use_tokenizer),
    "model, version 3": Reader(lambda folder: write_model(folder / "m.bin", model()), use_model),
    "model, version 5": Reader(lambda folder: write_model(folder / "m.bin", model(), "bfloat16"), use_model),
    "debug state": Reader(make_debug_state, use_debug_state),
    "optimizer state": Reader(make_state, use_state),
    "checkpoint folder": Reader(make_checkpoint, use_checkpoint),
    "checkpoint of llm.c": Reader(make_checkpoint_of_llmc, use_checkpoint),
    "DONE": Reader(make_record, use_record),
    "safetensors folder": Reader(lambda folder: write_huggingface(folder, model()), use_huggingface),
    "main.log": Reader(make_log, use_log),
    "settings.json": Reader(lambda folder: write_settings(folder, TrainSettings()), use_settings),
    "losses.json": Reader(make_losses, use_losses),
}


# ----- damage ---------------------------------------------------------------------------------------------------------

EXTREME = (0, 1, -1, 2, 3, 127, 128, 255, 256, 65535, 65536, 2**24, 2**30, 2**31 - 1, -(2**31), -(2**31) + 1)
LONG = (0, 1, 7, 8, 2**16, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = """null true false -1 0 1e999 -1e999 nan inf NaN 1.5 "" "x" [] {} [[[]]] {"a":{}} 18446744073709551616 \x00
    \ufeff s: tel: trl: lr: norm: eval: s:1 \\u0000 \ud800 ١ ² e+5 ../x""".split()
TEXTS = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
TEXTS += [b"9" * 400, b"9" * 6000, b"[" * 60_000, b"\xff\xfe", b"\n" * 9]


def flip_bits(raw, random):
    for at in random.integers(0, len(raw), random.integers(1, 9)):
        raw[at] ^= 1 << int(random.integers(8))


def truncate(raw, random):
    del raw[int(random.integers(len(raw))) :]


def extend(raw, random):
    raw += random.bytes(int(random.integers(1, 2000)))


def header_word(raw, random):
    """Replace an int32 of the header by an extreme value, by a neighbour of its own, or by anything."""
    at = 4 * int(random.integers(min(50, max(1, len(raw) // 4))))
    old = int.from_bytes(raw[at : at + 4], "little", signed=True)
    choices = [int(random.choice(EXTREME)), old + int(random.choice([-1, 1])), old * 2, int(random.integers(2**32))]
    raw[at : at + 4] = (choices[int(random.integers(4))] % 2**32).to_bytes(4, "little")


def long_word(raw, random):
    at = 8 * int(random.integers(min(25, max(1, len(raw) // 8))))
    raw[at : at + 8] = LONG[int(random.integers(len(LONG)))].to_bytes(8, "little")


def move_a_piece(raw, random):
    a, b = sorted(int(n) for n in random.integers(0, len(raw), 2))
    raw[a:a] = raw[a : min(b, a + 3000)]


def replace_a_word(raw, random):
    """Replace a number, a name or a sign in a text by something awkward."""
    a = int(random.integers(min(len(raw), 4000)))
    b = a + int(random.integers(12))
    raw[a:b] = TEXTS[int(random.integers(len(TEXTS)))]


def replace_a_value(raw, random):
    """Replace the value after one of the colons in a JSON text."""
    colons = [at for at, byte in enumerate(raw[:20_000]) if byte == ord(":")]
    if colons:
        a = colons[int(random.integers(len(colons)))] + 1
        ends = [at for at in range(a, min(len(raw), a + 300)) if raw[at] in b",}\n"]
        raw[a : ends[0] if ends else a] = TEXTS[int(random.integers(len(TEXTS)))]


ANY = (flip_bits, truncate, extend, move_a_piece)
BINARY = (*ANY, header_word, header_word, header_word, long_word, replace_a_word)
TEXT = (*ANY, replace_a_word, replace_a_value, replace_a_value, replace_a_value)


def damaged(files, random):
    """(file name, bytes) with one to three damages, most often one; a safetensors header often gets a right length."""
    name = sorted(files)[int(random.integers(len(files)))]
    raw = bytearray(files[name])
    damages = TEXT if name.endswith((".json", ".log")) or name.startswith("DONE") or random.random() < 0.3 else BINARY
    for _ in range(int(random.choice([1, 1, 1, 2, 3]))):
        if raw:
            before = len(raw)
            damages[int(random.integers(len(damages)))](raw, random)
            if name.endswith(".safetensors") and len(raw) != before and len(raw) > 8 and random.random() < 0.7:
                length = int.from_bytes(raw[:8], "little") + len(raw) - before
                raw[:8] = (length % 2**64).to_bytes(8, "little")
    return name, bytes(raw)


# ----- the loop -------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """A reader took too long."""


@contextmanager
def limited_time():
    """Raise Hang after SECONDS of this process's time, if the system has such a clock."""

    def ring(*_):
        raise Hang

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(reader, folder):
    """ "read" or "refused"; anything else is raised."""
    try:
        with limited_time():
            reader.read(folder)
    except UserError as error:
        sentence = str(error)
        assert sentence.strip() and "\n" not in sentence, f"not one line: {sentence!r}"
        return "refused"
    return "read"


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    reader, counts, slowest, most = READERS[name], {"read": 0, "refused": 0}, 0.0, 0
    reader.make(tmp_path)
    assert outcome(reader, tmp_path) == "read"
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.stat().st_size}
    tracemalloc.start()
    for case in range(CASES):
        changed, raw = damaged(files, np.random.default_rng([*name.encode(), case]))
        (tmp_path / changed).write_bytes(raw)
        allowed = SPARE + PER_BYTE * sum(path.stat().st_size for path in tmp_path.iterdir())
        tracemalloc.reset_peak()
        start, memory = time.process_time(), tracemalloc.get_traced_memory()[0]
        try:
            counts[outcome(reader, tmp_path)] += 1
        except BaseException as error:
            kept = Path(os.environ.get("LLMC_FUZZ_KEEP", tmp_path)) / f"{name.replace(' ', '_')}-{case}-{changed}"
            kept.write_bytes(raw)
            tracemalloc.stop()
            raise AssertionError(f"{name}, case {case}: {type(error).__name__}: {error} (the file: {kept})") from error
        slowest = max(slowest, time.process_time() - start)
        taken = tracemalloc.get_traced_memory()[1] - memory
        assert taken <= allowed, f"{name}, case {case}: {taken:,} bytes of memory for {len(raw):,} bytes of {changed}"
        most = max(most, taken)
        (tmp_path / changed).write_bytes(files[changed])
    tracemalloc.stop()
    print(f"{name:20} {CASES:7,} files: {counts['read']:6,} read, {counts['refused']:6,} refused;", end=" ")
    print(f"slowest {1e3 * slowest:.0f} ms, most memory {most / 1e6:.1f} MB")
