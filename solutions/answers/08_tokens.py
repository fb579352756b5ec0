"""Answers to the exercises of lesson 08 as strangers write them, with words that wrong ones must get."""

import codecs
import struct
from collections import Counter, defaultdict
from heapq import heappop, heappush

import numpy as np

from llmc.course.authoring.answers import right, wrong


def _pairs(words, counts):
    pairs = {}
    for word, count in zip(words, counts):
        for i in range(len(word) - 1):
            pair = word[i] + word[i + 1]
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def _best(pairs):
    return sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0]


def _merge(word, token):
    new, i = [], 0
    while i < len(word):
        if i < len(word) - 1 and word[i] + word[i + 1] == token:
            new.append(token)
            i += 2
        else:
            new.append(word[i])
            i += 1
    return new


@right("bpe_step")
def step_with_a_stack(words, counts):
    pairs = defaultdict(int)
    for k in range(len(words)):
        for i in range(1, len(words[k])):
            pairs[words[k][i - 1] + words[k][i]] += counts[k]
    token = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[0][0]
    merged = []
    for word in words:
        new, last_was_new = [], False
        for part in word:
            if new and not last_was_new and new[-1] + part == token:
                new[-1], last_was_new = token, True
            else:
                new.append(part)
                last_was_new = False
        merged.append(new)
    return token, merged


@right("bpe_step")
def step_with_helpers(words, counts):
    token = _best(_pairs(words, counts))
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="with `i < len(word) - 1` in place of `i < len(word)`")
def step_losing_the_end(words, counts):
    token, merged = _best(_pairs(words, counts)), []
    for word in words:
        new, i = [], 0
        while i < len(word) - 1:
            both = word[i] + word[i + 1] == token
            new.append(token if both else word[i])
            i += 1 + both
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="your code stopped with UnicodeDecodeError")
def step_sorts_text(words, counts):
    pairs = _pairs(words, counts)
    token = min(pairs, key=lambda pair: (-pairs[pair], pair.decode()))
    return token, [_merge(word, token) for word in words]


@right("encode_word")
def encode_in_the_order_of_ranks(word, ranks):
    parts = [word[i : i + 1] for i in range(len(word))]
    for token in sorted(ranks, key=ranks.get):
        if len(token) > 1:
            parts = _merge(parts, token)
    return [ranks[part] for part in parts]


@right("encode_word")
def encode_all_places_of_a_rank(word, ranks):
    parts = [bytes([b]) for b in word]
    while len(parts) > 1:
        token = min((a + b for a, b in zip(parts, parts[1:])), key=lambda t: ranks.get(t, float("inf")))
        if token not in ranks:
            break
        parts = _merge(parts, token)
    return [ranks[part] for part in parts]


@wrong("encode_word", says="with `len(parts) >= 2` in place of `len(parts) > 2`")
def encode_leaves_two_parts(word, ranks):
    parts = [bytes([b]) for b in word]
    while len(parts) > 2:
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            break
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


_known_words = {}


@wrong("encode_word", says="it keeps something from one call to the next")
def encode_kept_by_word(word, ranks):
    return list(_known_words.setdefault(word, encode_in_the_order_of_ranks(word, ranks)))


@right("decode")
def decode_into_a_bytearray(ids, tokens):
    raw = bytearray()
    for i in ids:
        raw += tokens[i]
    return raw.decode(errors="replace")


@right("decode")
def decode_incrementally(ids, tokens):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return "".join(decoder.decode(tokens[i]) for i in ids) + decoder.decode(b"", True)


@wrong("decode", says="without `.replace('\\r\\n', '\\n')`")
def decode_with_other_line_ends(ids, tokens):
    text = b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n")


@wrong("decode", says="with `tokens[:]` in place of `tokens[:-1]`")
def decode_without_the_last_token(ids, tokens):
    known = dict(enumerate(tokens[:-1]))
    return b"".join([known.get(i, b"") for i in ids]).decode("utf-8", "replace")


def _checked(ids):
    ids = [int(i) for i in ids]
    if not ids or min(ids) < 0 or max(ids) > 65535:
        raise ValueError("ids must be 0 … 65535")
    return ids


@right("token_file")
def file_with_struct(ids):
    ids = _checked(ids)
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids)


@right("token_file")
def file_with_to_bytes(ids):
    data = b"".join(n.to_bytes(4, "little") for n in (20240520, 1, len(ids)))
    data += b"\0" * (1024 - len(data))
    for i in _checked(ids):
        data += i.to_bytes(2, "little")
    return data


@wrong("token_file", says="Your file holds [7, 0, 3] instead")
def file_that_looks_at_the_ids_too_late(ids):
    body = np.array(ids).astype("<u2")
    if not len(body) or body.min() < 0 or body.max() > 65535:
        raise ValueError("an id does not fit into 16 bits")
    return struct.pack("<256i", 20240520, 1, len(body), *[0] * 253) + body.tobytes()


@wrong("token_file", says="returns the ValueError: `raise` it")
def error_that_is_returned(ids):
    ids = np.asarray(ids)
    if ids.size == 0 or ids.min() < 0 or ids.max() > 65535:
        return ValueError("no")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, ids.size
    return header.tobytes() + ids.astype("<u2").tobytes()


@right("read_batch")
def batch_with_loops(path, i, B, T, rank=0, world=1):
    data = path.read_bytes()
    if len(data) != 1024 + 2 * struct.unpack("<3i", data[:12])[2]:
        raise ValueError("the file is damaged")
    x, y = np.zeros((B, T), np.int32), np.zeros((B, T), np.int32)
    at = 1024 + 2 * (i * world + rank) * B * T
    for b in range(B):
        for t in range(T):
            x[b, t], y[b, t] = struct.unpack("<2H", data[at : at + 4])
            at += 2
    return x, y


@right("read_batch")
def batch_with_memmap(path, i, B, T, rank=0, world=1):
    header = np.memmap(path, "<i4", "r", shape=(256,))
    ntok = int(header[2])
    if 1024 + 2 * ntok != path.stat().st_size:
        raise ValueError("the file is damaged")
    tokens = np.memmap(path, "<u2", "r", offset=1024, shape=(ntok,))
    start = B * T * (world * i + rank)
    window = np.array(tokens[start : start + B * T + 1]).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


def _window(data, i, B, T, rank, world):
    at = 1024 + 2 * B * T * (i * world + rank)
    ids = np.frombuffer(data[at : at + 2 * B * T + 2], "<u2").astype(np.int32)
    return ids[:-1].reshape(B, T), ids[1:].reshape(B, T)


@wrong("read_batch", says="your code stopped with ValueError: the file is damaged")
def read_with_two_bytes_of_the_count(path, i, B, T, rank=0, world=1):
    data = path.read_bytes()
    if len(data) - 1024 != 2 * int.from_bytes(data[8:10], "little"):
        raise ValueError("the file is damaged")
    return _window(data, i, B, T, rank, world)


_files = {}


@wrong("read_batch", says="it keeps something from one call to the next")
def read_each_path_once(path, i, B, T, rank=0, world=1):
    if path not in _files:
        _files[path] = path.read_bytes()
        if len(_files[path]) != 1024 + 2 * int.from_bytes(_files[path][8:12], "little"):
            raise ValueError("the file is damaged")
    return _window(_files[path], i, B, T, rank, world)


@wrong("read_batch", says="should be refused with a ValueError")
def read_by_an_assertion(path, i, B, T, rank=0, world=1):
    data = path.read_bytes()
    assert len(data) == 1024 + 2 * struct.unpack("<3i", data[:12])[2], "the file is damaged"
    return _window(data, i, B, T, rank, world)


@right("fast_train_bpe")
def fast_with_a_heap(words, counts, num_merges):
    words, pairs, where, changed, heap, learned = list(words), Counter(), defaultdict(set), set(), [], []

    def count(k, sign):
        for a, b in zip(words[k], words[k][1:]):
            pairs[a + b] += sign * counts[k]
            where[a + b].add(k)
            changed.add(a + b)

    for k in range(len(words)):
        count(k, 1)
    while len(learned) < num_merges:
        while changed:
            pair = changed.pop()
            heappush(heap, (-pairs[pair], pair))
        n, token = heappop(heap)
        if not n or pairs[token] != -n:
            continue
        learned += [token] * (token not in learned)
        for k in where.pop(token):
            count(k, -1)
            words[k] = _merge(words[k], token)
            count(k, 1)
    return learned


@right("fast_train_bpe")
def fast_looking_into_texts(words, counts, num_merges):
    words, texts, pairs, learned = list(words), [b"".join(word) for word in words], Counter(_pairs(words, counts)), {}
    while len(learned) < num_merges:
        highest = max(pairs.values())
        token = min(pair for pair, n in pairs.items() if n == highest)
        learned[token] = len(learned)
        for k, text in enumerate(texts):
            if token in text and len(new := _merge(words[k], token)) < len(words[k]):
                for sign, word in ((-counts[k], words[k]), (counts[k], new)):
                    for a, b in zip(word, word[1:]):
                        pairs[a + b] += sign
                words[k] = new
    return sorted(learned, key=learned.get)


@wrong("fast_train_bpe", says="Only the words that hold the pair change")
def fast_as_given(words, counts, num_merges):
    learned = []
    while len(learned) < num_merges:
        token = _best(_pairs(words, counts))
        words = [_merge(word, token) for word in words]
        if token not in learned:
            learned.append(token)
    return learned


@wrong("fast_train_bpe", says="your code stopped with KeyError")
def fast_that_forgets_where_new_pairs_are(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[k]
            where[a + b].add(k)
    while len(learned) < num_merges:
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(token)
        for k in where.pop(token):
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] -= counts[k]
            words[k] = _merge(words[k], token)
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] += counts[k]
        del pairs[token]
    return learned
