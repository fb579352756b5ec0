"""Answers to the exercises of lesson 08 as learners write them: right ones that look different, and wrong ones.

Each wrong answer names words that its check must say. CI runs all answers;
`python -m llmc.course.old.authoring.answers 08` runs those of this lesson.
"""

import codecs
import struct
from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------------ 1 bpe_step


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


@right("bpe_step")
def step_with_max_first(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        pairs.update({})
        for pair in map(bytes.__add__, word, word[1:]):
            pairs[pair] += count
    highest = max(pairs.values())
    token = min(pair for pair in pairs if pairs[pair] == highest)
    return token, [_merge(list(word), token) for word in words]


@wrong("bpe_step", says="right results when it is called for the first time: it keeps something")
def step_with_a_counter_for_ever(words, counts, pairs=Counter()):  # noqa: B006, the mistake
    for word, count in zip(words, counts):
        for k in range(len(word) - 1):
            pairs[word[k] + word[k + 1]] += count
    token = min(pairs, key=lambda pair: (-pairs[pair], pair))
    merged = []
    for word in words:
        new = []
        for piece in word:
            joins = new and new[-1] is not token and new[-1] + piece == token
            new[-1 if joins else len(new) :] = [token if joins else piece]
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="each distinct word was counted once")
def step_without_counts(words, counts):
    token = _best(_pairs(words, [1] * len(words)))
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="you took the one that sorts last")
def step_with_plain_max(words, counts):
    pairs = _pairs(words, counts)
    token = max(pairs, key=lambda pair: (pairs[pair], pair))
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="you took the one that was met first")
def step_with_most_common(words, counts):
    token = Counter(_pairs(words, counts)).most_common(1)[0][0]
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="the rarest pair was chosen")
def step_with_min(words, counts):
    pairs = _pairs(words, counts)
    token = min(pairs, key=lambda pair: (pairs[pair], pair))
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="(a, bc) and (ab, c) were counted separately")
def step_with_pairs_of_halves(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for pair in zip(word, word[1:]):
            pairs[pair] += count
    left, right_ = min(pairs, key=lambda pair: (-pairs[pair], pair))
    return left + right_, [_merge(word, left + right_) for word in words]


@wrong("bpe_step", says="pairs were counted across the border between two words")
def step_on_one_long_list(words, counts):
    row = [part for word, count in zip(words, counts) for part in word * count]
    token = _best(_pairs([row], [1]))
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="a pair that occurs twice in a word was counted once there")
def step_with_sets(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for pair in {a + b for a, b in zip(word, word[1:])}:
            pairs[pair] += count
    token = _best(pairs)
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="pairs that overlap were skipped")
def step_with_bytes_count(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        i, before = 0, None
        for i, pair in enumerate(a + b for a, b in zip(word, word[1:])):
            if before == (i - 1, pair):
                before = None
                continue
            pairs[pair] += count
            before = (i, pair)
    token = _best(pairs)
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="the words were left as they were")
def step_without_merging(words, counts):
    return _best(_pairs(words, counts)), [list(word) for word in words]


@wrong("bpe_step", says="only the first place in each word was merged")
def step_with_index(words, counts):
    token, merged = _best(_pairs(words, counts)), []
    for word in words:
        joined = [a + b for a, b in zip(word, word[1:])]
        at = joined.index(token) if token in joined else None
        merged.append(list(word) if at is None else word[:at] + [token] + word[at + 2 :])
    return token, merged


@wrong("bpe_step", says="merging went from right to left")
def step_from_the_right(words, counts):
    token, merged = _best(_pairs(words, counts)), []
    for word in words:
        new, i = list(word), len(word) - 2
        while i >= 0:
            if i + 1 < len(new) and new[i] + new[i + 1] == token:
                new[i : i + 2] = [token]
                i -= 1
            i -= 1
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="after a merge the second half was used again")
def step_going_on_by_one(words, counts):
    token, merged = _best(_pairs(words, counts)), []
    for word in words:
        new, skip = [], False
        for i in range(len(word)):
            if i + 1 < len(word) and word[i] + word[i + 1] == token:
                new.append(token)
                skip = True
            else:
                if not skip:
                    new.append(word[i])
                skip = False
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="the token was merged from one pair of halves only")
def step_merging_one_split(words, counts):
    token = _best(_pairs(words, counts))
    splits = Counter((a, b) for word in words for a, b in zip(word, word[1:]) if a + b == token)
    left, right_ = max(splits, key=lambda pair: (splits[pair], pair))
    merged = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            both = word[i : i + 2] == [left, right_]
            new.append(token if both else word[i])
            i += 1 + both
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="the last token of each word is lost")
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


@wrong("bpe_step", says="your code changed `words`, which was given to it")
def step_in_place(words, counts):
    token = _best(_pairs(words, counts))
    for k in range(len(words)):
        words[k] = _merge(words[k], token)
    return token, words


@wrong("bpe_step", says="two things are expected, `return token, merged`")
def step_returning_the_token(words, counts):
    return _best(_pairs(words, counts))


@wrong("bpe_step", says="join the two, left + right")
def step_returning_a_pair(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for pair in zip(word, word[1:]):
            pairs[pair] += count
    pair = min(pairs, key=lambda pair: (-pairs[pair], pair))
    return pair, [_merge(word, pair[0] + pair[1]) for word in words]


@wrong("bpe_step", says="IndexError: list index out of range")
def step_looking_behind_the_end(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for i in range(len(word)):
            pairs[word[i] + word[i + 1]] += count
    token = _best(pairs)
    return token, [_merge(word, token) for word in words]


@wrong("bpe_step", says="your code uses llmc.data")
def step_with_the_package(words, counts):
    from llmc.data import bpe

    token = bpe.most_frequent(bpe.count_pairs(words, counts)[0])
    return token, [bpe.merge(word, token) for word in words]


# --------------------------------------------------------------------------------------------------- 2 encode_word


@right("encode_word")
def encode_all_places_of_a_rank(word, ranks):
    parts = [bytes([b]) for b in word]
    while len(parts) > 1:
        token = min((a + b for a, b in zip(parts, parts[1:])), key=lambda t: ranks.get(t, float("inf")))
        if token not in ranks:
            break
        parts = _merge(parts, token)
    return [ranks[part] for part in parts]


@right("encode_word")
def encode_in_the_order_of_ranks(word, ranks):
    parts = [word[i : i + 1] for i in range(len(word))]
    for token in sorted(ranks, key=ranks.get):
        if len(token) > 1:
            parts = _merge(parts, token)
    return [ranks[part] for part in parts]


@right("encode_word")
def encode_recursively(word, ranks):
    def join(parts):
        best = None
        for i in range(len(parts) - 1):
            rank = ranks.get(parts[i] + parts[i + 1])
            if rank is not None and (best is None or rank < best[0]):
                best = (rank, i)
        if best is None:
            return parts
        i = best[1]
        return join(parts[:i] + [parts[i] + parts[i + 1]] + parts[i + 2 :])

    return [ranks[part] for part in join([bytes([b]) for b in word])]


@right("encode_word")
def encode_asking_for_the_whole_first(word, ranks):
    if word in ranks:
        return [ranks[word]]
    return encode_all_places_of_a_rank(word, ranks)


@wrong("encode_word", says="you took the longest token that fits, from the left")
def encode_greedily(word, ranks):
    ids = []
    while word:
        n = next(n for n in range(len(word), 0, -1) if word[:n] in ranks)
        ids.append(ranks[word[:n]])
        word = word[n:]
    return ids


@wrong("encode_word", says="you took the longest token that fits, from the right")
def encode_greedily_from_the_end(word, ranks):
    ids = []
    while word:
        n = next(n for n in range(len(word)) if word[n:] in ranks)
        ids.insert(0, ranks[word[n:]])
        word = word[:n]
    return ids


@wrong("encode_word", says="you merged whatever can be merged from left to right")
def encode_from_left_to_right(word, ranks):
    parts = [bytes([b]) for b in word]
    merged = True
    while merged:
        merged = False
        for i in range(len(parts) - 1):
            if parts[i] + parts[i + 1] in ranks:
                parts[i : i + 2] = [parts[i] + parts[i + 1]]
                merged = True
                break
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you merged from right to left")
def encode_from_right_to_left(word, ranks):
    parts = [bytes([b]) for b in word]
    while at := [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]:
        i = at[-1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you merged the highest rank first")
def encode_with_max(word, ranks):
    parts = [bytes([b]) for b in word]
    while found := [(ranks[a + b], -i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = -max(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="of two places with the same rank you merged the right one")
def encode_with_the_last_of_equals(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        best = None
        for i in range(len(parts) - 1):
            rank = ranks.get(parts[i] + parts[i + 1])
            if rank is not None and (best is None or rank <= best[0]):
                best = (rank, i)
        if best is None:
            return [ranks[part] for part in parts]
        i = best[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@wrong("encode_word", says="as few tokens as possible")
def encode_with_fewest_tokens(word, ranks):
    best = [[]]
    for end in range(1, len(word) + 1):
        ways = (best[start] + [ranks[word[start:end]]] for start in range(end) if word[start:end] in ranks)
        best.append(min(ways, key=len))
    return best[-1]


@wrong("encode_word", says="you stopped after one merge")
def encode_one_merge(word, ranks):
    parts = [bytes([b]) for b in word]
    found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
    if found:
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="these are the bytes' own numbers, and ranks holds the id of each")
def encode_as_bytes(word, ranks):
    return list(word)


@wrong("encode_word", says="these are tokens: return their ids")
def encode_to_tokens(word, ranks):
    parts = [bytes([b]) for b in word]
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


@wrong("encode_word", says="a list of ids is expected, but encode_word returned (")
def encode_to_an_array(word, ranks):
    return np.array(encode_in_the_order_of_ranks(word, ranks))


@wrong("encode_word", says="your code stopped with KeyError")
def encode_looking_up_every_pair(word, ranks):
    parts = [bytes([b]) for b in word]
    while len(parts) > 1:
        i = min(range(len(parts) - 1), key=lambda i: ranks[parts[i] + parts[i + 1]])
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="your code stopped with ValueError: min()")
def encode_without_an_end(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        rank, i = min((ranks.get(a + b, 10**9), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
        if rank == 10**9:
            return [ranks[part] for part in parts]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@wrong("encode_word", says="your code stopped with TypeError")
def encode_numbers_as_bytes(word, ranks):
    parts = list(word)
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if (a + b) in ranks]:
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[bytes(part)] if isinstance(part, list) else ranks[b"" + part] for part in parts]


# -------------------------------------------------------------------------------------------------------- 3 decode


@right("decode")
def decode_into_a_bytearray(ids, tokens):
    raw = bytearray()
    for i in ids:
        raw += tokens[i]
    return raw.decode(errors="replace")


@right("decode")
def decode_with_str(ids, tokens):
    return str(b"".join(map(tokens.__getitem__, ids)), "utf-8", "replace")


@right("decode")
def decode_incrementally(ids, tokens):
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return "".join(decoder.decode(tokens[i]) for i in ids) + decoder.decode(b"", True)


@wrong("decode", says="the id 0 is left out")
def decode_without_the_id_0(ids, tokens):
    return b"".join(tokens[i] for i in ids if i).decode("utf-8", errors="replace")


@wrong("decode", says="each token was decoded by itself: a token may hold half a character")
def decode_each_alone(ids, tokens):
    return "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)


@wrong("decode", says="each token was decoded by itself, and halves of characters were left out")
def decode_each_alone_ignoring(ids, tokens):
    return "".join(tokens[i].decode("utf-8", errors="ignore") for i in ids)


@wrong("decode", says="bytes that are not valid UTF-8 were left out: put")
def decode_ignoring(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="ignore")


@wrong("decode", says="your code stopped with UnicodeDecodeError")
def decode_strictly(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("utf-8")


@wrong("decode", says="the bytes were read as Latin-1")
def decode_as_latin1(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("latin-1")


@wrong("decode", says="the whole text was read as Latin-1 where some of its bytes are not valid UTF-8")
def decode_falls_back(ids, tokens):
    text = b"".join(tokens[i] for i in ids)
    try:
        return str(text, "utf-8")
    except ValueError:
        return str(text, "latin-1")


@wrong("decode", says="became the characters of their numbers")
def decode_falls_back_byte_by_byte(ids, tokens):
    text = b"".join(tokens[i] for i in ids).decode("utf-8", errors="surrogateescape")
    return "".join(chr(ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


@wrong("decode", says="at the end of the text was left out, and only there")
def decode_as_a_stream(ids, tokens):
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return "".join(decoder.decode(tokens[i]) for i in ids)


_reader = codecs.getincrementaldecoder("utf-8")("replace")


@wrong("decode", says="it keeps something from one call to the next, in the global `_reader`")
def decode_with_a_reader_of_the_notebook(ids, tokens):
    return "".join(_reader.decode(tokens[i]) for i in ids)


@wrong("decode", says="each byte that is not valid UTF-8 became a U+FFFD of its own")
def decode_four_bytes_at_most(ids, tokens):
    raw, text, k = b"".join(tokens[i] for i in ids), "", 0
    while k < len(raw):
        for n in (1, 2, 3, 4):
            try:
                text += raw[k : k + n].decode("utf-8")
                break
            except UnicodeDecodeError:
                continue
        else:
            text, n = text + "\ufffd", 1
        k += n
    return text


@wrong("decode", says="were cut off until the rest was valid UTF-8")
def decode_cuts_the_end_off(ids, tokens):
    raw = b"".join(tokens[i] for i in ids)
    for length in range(len(raw), len(raw) - 4, -1):
        try:
            return raw[:length].decode("utf-8")
        except UnicodeDecodeError:
            pass
    return raw.decode("utf-8", errors="replace")


@wrong("decode", says="the text ends before the first bytes that are not valid UTF-8")
def decode_up_to_an_error(ids, tokens):
    raw = b"".join(tokens[i] for i in ids)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return raw[: error.start].decode("utf-8")


@wrong("decode", says="were held back until they are")
def decode_holds_back(ids, tokens):
    text, waiting = "", b""
    for i in ids:
        waiting += tokens[i]
        try:
            text += waiting.decode("utf-8")
        except UnicodeDecodeError:
            continue
        waiting = b""
    return text


@wrong("decode", says="without replace in")
def decode_with_other_line_ends(ids, tokens):
    text = b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n")


@wrong("decode", says="the bytes were read as ASCII")
def decode_as_ascii(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("ascii", errors="replace")


@wrong("decode", says="these are bytes: decode them to text (str)")
def decode_to_bytes(ids, tokens):
    return b"".join(tokens[i] for i in ids)


@wrong("decode", says="a space was put between the tokens")
def decode_with_spaces(ids, tokens):
    return b" ".join(tokens[i] for i in ids).decode("utf-8", errors="replace")


@wrong("decode", says="this is how Python prints bytes")
def decode_with_plain_str(ids, tokens):
    return str(b"".join(tokens[i] for i in ids))


@wrong("decode", says="each id was taken for the number of a character")
def decode_with_chr(ids, tokens):
    return "".join(map(chr, ids))


@wrong("decode", says="errors='backslashreplace'")
def decode_spelling_out(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="backslashreplace")


@wrong("decode", says="text (str) is expected, but decode returned None")
def decode_printing(ids, tokens):
    print(b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace"))


# ---------------------------------------------------------------------------------------------------- 4 token_file


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


@right("token_file")
def file_in_a_bytearray(ids):
    ids = np.array(ids, dtype=np.int64)
    if len(ids) == 0 or ((ids < 0) | (ids >= 2**16)).any():
        raise ValueError("bad ids")
    out = bytearray(1024 + 2 * len(ids))
    out[:12] = np.array([20240520, 1, len(ids)], np.int32).tobytes()
    out[1024:] = ids.astype(np.uint16).tobytes()
    return bytes(out)


@wrong("token_file", says="the header takes 2048 bytes")
def file_with_wide_header(ids):
    header = np.zeros(256, int)
    header[:3] = 20240520, 1, len(ids)
    return header.tobytes() + np.array(_checked(ids)).astype(np.uint16).tobytes()


@wrong("token_file", says="the header is 12 bytes long")
def file_with_short_header(ids):
    return struct.pack("<3i", 20240520, 1, len(ids)) + np.array(_checked(ids), np.uint16).tobytes()


@wrong("token_file", says="the header has 259 numbers")
def file_with_long_header(ids):
    zeros = np.zeros(256, np.int32).tobytes()
    return struct.pack("<3i", 20240520, 1, len(ids)) + zeros + np.array(_checked(ids), np.uint16).tobytes()


@wrong("token_file", says="the header is missing")
def file_without_header(ids):
    return np.array(_checked(ids), np.uint16).tobytes()


@wrong("token_file", says="the header is big-endian")
def file_with_big_endian_header(ids):
    return struct.pack(">256i", 20240520, 1, len(ids), *[0] * 253) + np.array(_checked(ids), "<u2").tobytes()


@wrong("token_file", says="the ids are big-endian")
def file_with_big_endian_ids(ids):
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + np.array(_checked(ids), ">u2").tobytes()


@wrong("token_file", says="the ids take 4 bytes each")
def file_with_int32_ids(ids):
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + np.array(_checked(ids), np.int32).tobytes()


@wrong("token_file", says="the ids take 8 bytes each")
def file_with_int64_ids(ids):
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + np.array(_checked(ids), np.int64).tobytes()


@wrong("token_file", says="the header counts bytes")
def file_counting_bytes(ids):
    return struct.pack("<256i", 20240520, 1, 2 * len(ids), *[0] * 253) + np.array(_checked(ids), "<u2").tobytes()


@wrong("token_file", says="the header says 0 tokens")
def file_counting_nothing(ids):
    return struct.pack("<256i", 20240520, 1, *[0] * 254) + np.array(_checked(ids), "<u2").tobytes()


@wrong("token_file", says="version and number of tokens are swapped")
def file_with_swapped_fields(ids):
    return struct.pack("<256i", 20240520, len(ids), 1, *[0] * 253) + np.array(_checked(ids), "<u2").tobytes()


@wrong("token_file", says="this is the magic number of a tokenizer file")
def file_of_another_kind(ids):
    return struct.pack("<256i", 20240328, 1, len(ids), *[0] * 253) + np.array(_checked(ids), "<u2").tobytes()


@wrong("token_file", says="should raise a ValueError: 65536 does not fit into 16 bits")
def file_that_wraps(ids):
    ids = np.asarray(ids)
    if ids.size == 0:
        raise ValueError("nothing to write")
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + ids.astype("<u2").tobytes()


@wrong("token_file", says="Your file holds [5, 65535, 2] instead.")
def file_that_forgets_negatives(ids):
    if len(ids) == 0 or max(ids) > 65535:
        raise ValueError("bad ids")
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + np.asarray(ids).astype("<u2").tobytes()


@wrong("token_file", says="there is no id in it")
def file_of_nothing(ids):
    ids = np.asarray(ids)
    if (ids < 0).any() or (ids > 65535).any():
        raise ValueError("bad ids")
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + ids.astype("<u2").tobytes()


@wrong("token_file", says="the bytes of the file are expected, but token_file returned (515,) uint16")
def file_as_an_array(ids):
    header = np.zeros(512, np.uint16)
    return np.concatenate([header, np.array(_checked(ids), np.uint16)])


# ---------------------------------------------------------------------------------------------------- 5 read_batch


def _tokens(path):
    ntok = int(np.fromfile(path, "<i4", count=3)[2])
    if path.stat().st_size != 1024 + 2 * ntok:
        raise ValueError("damaged")
    return np.fromfile(path, "<u2", offset=1024).astype(np.int32)


def _cut(tokens, start, B, T):
    window = tokens[start : start + B * T + 1]
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


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
def batch_with_seek(path, i, B, T, rank=0, world=1):
    with path.open("rb") as file:
        header = np.frombuffer(file.read(1024), np.int32)
        file.seek(0, 2)
        if file.tell() != 1024 + 2 * int(header[2]):
            raise ValueError("the file is damaged")
        file.seek(1024 + (i * world + rank) * B * T * 2)
        window = np.frombuffer(file.read(2 * (B * T + 1)), np.uint16).astype(np.int32)
    x = window[: B * T].reshape(B, T)
    return [x, window[1 : B * T + 1].reshape(B, T)]


@wrong("read_batch", says=" equals x itself")
def batch_without_shift(path, i, B, T, rank=0, world=1):
    x, _ = _cut(_tokens(path), (i * world + rank) * B * T, B, T)
    return x, x.copy()


@wrong("read_batch", says=" equals x two tokens later: y is one later.\n→ Where to look")
def batch_shifted_twice(path, i, B, T, rank=0, world=1):
    tokens, start = _tokens(path), (i * world + rank) * B * T
    tokens = np.concatenate([tokens, [0]]).astype(np.int32)
    return _cut(tokens, start, B, T)[0], tokens[start + 2 : start + B * T + 2].reshape(B, T)


@wrong("read_batch", says=" equals x rolled round inside each row")
def batch_rolled_in_rows(path, i, B, T, rank=0, world=1):
    x, _ = _cut(_tokens(path), (i * world + rank) * B * T, B, T)
    return x, np.roll(x, -1, axis=1)


@wrong("read_batch", says=" equals x rolled round: its last entry")
def batch_rolled(path, i, B, T, rank=0, world=1):
    x, _ = _cut(_tokens(path), (i * world + rank) * B * T, B, T)
    return x, np.roll(x.ravel(), -1).reshape(B, T)


@wrong("read_batch", says="with the header read as tokens")
def batch_from_the_header(path, i, B, T, rank=0, world=1):
    _tokens(path)
    return _cut(np.fromfile(path, "<u2").astype(np.int32), (i * world + rank) * B * T, B, T)


@wrong("read_batch", says="with the ids taken from byte 512")
def batch_from_byte_512(path, i, B, T, rank=0, world=1):
    _tokens(path)
    return _cut(np.fromfile(path, "<u2")[256:].astype(np.int32), (i * world + rank) * B * T, B, T)


@wrong("read_batch", says="with big-endian ids")
def batch_big_endian(path, i, B, T, rank=0, world=1):
    _tokens(path)
    return _cut(np.fromfile(path, ">u2", offset=1024).astype(np.int32), (i * world + rank) * B * T, B, T)


@wrong("read_batch", says="the batch of process 0: rank is not used")
def batch_without_rank(path, i, B, T, rank=0, world=1):
    return _cut(_tokens(path), i * world * B * T, B, T)


@wrong("read_batch", says="neither rank nor world is used")
def batch_without_processes(path, i, B, T, rank=0, world=1):
    return _cut(_tokens(path), i * B * T, B, T)


@wrong("read_batch", says="(i + rank)·B·T")
def batch_without_world(path, i, B, T, rank=0, world=1):
    return _cut(_tokens(path), (i + rank) * B * T, B, T)


@wrong("read_batch", says="first all batches of process 0")
def batch_by_parts(path, i, B, T, rank=0, world=1):
    tokens = _tokens(path)
    each = (len(tokens) - 1) // (B * T * world)
    return _cut(tokens, (rank * each + i) * B * T, B, T)


@wrong("read_batch", says=" equals the reference filled column by column")
def batch_by_columns(path, i, B, T, rank=0, world=1):
    x, y = _cut(_tokens(path), (i * world + rank) * B * T, B, T)
    return x.ravel().reshape(T, B).T, y.ravel().reshape(T, B).T


@wrong("read_batch", says="with the ids taken from byte 2048")
def batch_from_twice_1024(path, i, B, T, rank=0, world=1):
    _tokens(path)
    offset = 2 * (1024 + (i * world + rank) * B * T)  # the last batches end behind the file
    window = np.fromfile(path, "<u2", count=B * T + 1, offset=offset).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


@wrong("read_batch", says="the batch read from byte 1024 + start: a token has two bytes")
def batch_at_an_offset_in_tokens(path, i, B, T, rank=0, world=1):
    _tokens(path)
    offset = 1024 + (i * world + rank) * B * T
    window = np.fromfile(path, "<u2", count=B * T + 1, offset=offset).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


@wrong("read_batch", says="the file's tokens are uint16, .astype(np.int32)")
def batch_of_uint16(path, i, B, T, rank=0, world=1):
    return _cut(_tokens(path).astype(np.uint16), (i * world + rank) * B * T, B, T)


@wrong("read_batch", says="your code stopped with ValueError: cannot reshape")
def batch_with_one_token_too_few(path, i, B, T, rank=0, world=1):
    tokens, start = _tokens(path), (i * world + rank) * B * T
    window = tokens[start : start + B * T]
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


@wrong("read_batch", says="two arrays are expected, `return x, y`")
def batch_alone(path, i, B, T, rank=0, world=1):
    return _cut(_tokens(path), (i * world + rank) * B * T, B, T)[0]


@wrong("read_batch", says="a file that lacks its last token should be refused")
def batch_that_trusts(path, i, B, T, rank=0, world=1):
    return _cut(np.fromfile(path, "<u2", offset=1024).astype(np.int32), (i * world + rank) * B * T, B, T)


@wrong("read_batch", says="a file that is two bytes too long should be refused")
def batch_that_looks_for_too_short(path, i, B, T, rank=0, world=1):
    ntok = int(np.fromfile(path, "<i4", count=3)[2])
    tokens = np.fromfile(path, "<u2", offset=1024).astype(np.int32)
    if len(tokens) < ntok:
        raise ValueError("damaged")
    return _cut(tokens, (i * world + rank) * B * T, B, T)


# ------------------------------------------------------------------------------------------------ 6 fast_train_bpe


def _train(words, counts, num_merges, choose=_best, subtract=True, add=True, find=True, weigh=True):
    """What most people write; a switch leaves out one part of it."""
    words, pairs, where = list(words), Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[i] if weigh else 1
            where[a + b].add(i)
    learned = []
    while len(learned) < num_merges and pairs:
        token = choose(pairs)
        if token not in learned:
            learned.append(token)
        for i in where.pop(token, ()):
            new = _merge(words[i], token)
            for a, b in zip(words[i], words[i][1:]):
                pairs[a + b] -= (counts[i] if weigh else 1) * subtract
            for a, b in zip(new, new[1:]):
                pairs[a + b] += (counts[i] if weigh else 1) * add
                if find:
                    where[a + b].add(i)
            words[i] = new
        del pairs[token]
        pairs = Counter({pair: count for pair, count in pairs.items() if count > 0})
    return learned


@right("fast_train_bpe")
def fast_with_a_heap(words, counts, num_merges):
    words, pairs, where = list(words), Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[i]
            where[a + b].add(i)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapify(heap)
    learned = []
    while len(learned) < num_merges:
        count, token = heappop(heap)
        if pairs[token] != -count or not count:
            continue
        if token not in learned:
            learned.append(token)
        changed = set()
        for i in where.pop(token):
            new = _merge(words[i], token)
            for a, b in zip(words[i], words[i][1:]):
                pairs[a + b] -= counts[i]
                changed.add(a + b)
            for a, b in zip(new, new[1:]):
                pairs[a + b] += counts[i]
                where[a + b].add(i)
                changed.add(a + b)
            words[i] = new
        for pair in changed:
            heappush(heap, (-pairs[pair], pair))
    return learned


@right("fast_train_bpe")
def fast_looking_for_words(words, counts, num_merges):
    words, counts = [list(word) for word in words], list(counts)
    where, pairs = {}, {}
    for i, word in enumerate(words):
        for k in range(len(word) - 1):
            pair = word[k] + word[k + 1]
            pairs[pair] = pairs.get(pair, 0) + counts[i]
            where.setdefault(pair, []).append(i)
    learned = []
    while len(learned) < num_merges:
        highest = max(pairs.values())
        token = min([pair for pair in pairs if pairs[pair] == highest])
        learned += [token] * (token not in learned)
        for i in set(where[token]):
            old, new = words[i], _merge(words[i], token)
            if len(old) == len(new):
                continue
            for k in range(len(old) - 1):
                pairs[old[k] + old[k + 1]] -= counts[i]
            for k in range(len(new) - 1):
                pair = new[k] + new[k + 1]
                pairs[pair] = pairs.get(pair, 0) + counts[i]
                where.setdefault(pair, []).append(i)
            words[i] = new
    return learned


@wrong("fast_train_bpe", says="the goal is at least 3 times as fast. Only the words that hold the pair change")
def fast_as_given(words, counts, num_merges):
    learned = []
    while len(learned) < num_merges:
        token = _best(_pairs(words, counts))
        words = [_merge(word, token) for word in words]
        if token not in learned:
            learned.append(token)
    return learned


@wrong("fast_train_bpe", says="you took the one that sorts last")
def fast_with_plain_max(words, counts, num_merges):
    return _train(words, counts, num_merges, choose=lambda pairs: max(pairs, key=lambda p: (pairs[p], p)))


@wrong("fast_train_bpe", says="pairs that a merge took apart are still counted")
def fast_without_subtracting(words, counts, num_merges):
    return _train(words, counts, num_merges, subtract=False)


@wrong("fast_train_bpe", says="pairs that a merge brought together are not counted")
def fast_without_adding(words, counts, num_merges):
    return _train(words, counts, num_merges, add=False)


@wrong("fast_train_bpe", says="words that gained a pair by a merge are not found again")
def fast_without_finding_again(words, counts, num_merges):
    return _train(words, counts, num_merges, find=False)


@wrong("fast_train_bpe", says="each distinct word was counted once")
def fast_without_weights(words, counts, num_merges):
    return _train(words, counts, num_merges, weigh=False)


@wrong("fast_train_bpe", says="the pairs were counted once, at the beginning")
def fast_with_one_count(words, counts, num_merges):
    pairs = _pairs(words, counts)
    return sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:num_merges]


@wrong("fast_train_bpe", says="the 256 single bytes are in the list")
def fast_with_single_bytes(words, counts, num_merges):
    return [bytes([b]) for b in range(256)] + _train(words, counts, num_merges)


@wrong("fast_train_bpe", says="a list of tokens is expected")
def fast_returning_ranks(words, counts, num_merges):
    return {token: 256 + k for k, token in enumerate(_train(words, counts, num_merges))}


@wrong("fast_train_bpe", says="your code changed `words[0]`, which was given to it")
def fast_in_place(words, counts, num_merges):
    learned = _train(words, counts, num_merges)
    for k in range(len(words)):
        words[k][:] = [b"".join(words[k])]
    return learned


@wrong("fast_train_bpe", says="your code uses llmc.data")
def fast_with_the_package(words, counts, num_merges):
    from llmc.data.bpe import train_bpe

    text = "".join(b"".join(word).decode() * count for word, count in zip(words, counts))
    return train_bpe(text, num_merges)[256:]


# ------------------------------------------------------------------------------------- found by answers of strangers


@wrong("bpe_step", says="your code stopped with UnicodeDecodeError")
def step_sorts_text(words, counts):
    pairs = _pairs(words, counts)
    token = min(pairs, key=lambda pair: (-pairs[pair], pair.decode()))
    return token, [_merge(word, token) for word in words]


@wrong("encode_word", says="a byte that stayed alone became its own number")
def encode_with_bytes_as_ids(word, ranks):
    single = {ranks[bytes([b])]: b for b in range(256)}
    return [single.get(i, i) for i in _encoded(word, ranks)]


_known_words = {}


@wrong("encode_word", says="this is what an earlier call returned, with other arguments in part")
def encode_kept_by_word(word, ranks):
    return list(_known_words.setdefault(word, _encoded(word, ranks)))


def _encoded(word, ranks):
    parts = [word[i : i + 1] for i in range(len(word))]
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("decode", says="an id below 256 was taken for the byte itself")
def decode_knows_the_bytes(ids, tokens):
    return b"".join(bytes([i]) if i < 256 else tokens[i] for i in ids).decode(errors="replace")


@wrong("decode", says="U+FEFF at the beginning was left out")
def decode_drops_the_byte_order_mark(ids, tokens):
    return b"".join(tokens[i] for i in ids).decode("utf-8-sig", errors="replace")


@wrong("token_file", says="the count of the ids, number 2 of the header counted from 0, is 4464 and should be 70000")
def file_with_a_short_count(ids):
    ids = _checked(ids)
    return struct.pack("<2iH", 20240520, 1, len(ids) % 65536).ljust(1024, b"\0") + np.array(ids, "<u2").tobytes()


@wrong(
    "token_file",
    says="int32 silently wraps it to 5. Your file holds [5] instead",
)
def file_that_wraps_before_it_looks(ids):
    ids = np.asarray(ids).astype(np.int32)
    return struct.pack("<3i", 20240520, 1, len(_checked(ids))).ljust(1024, b"\0") + ids.astype("<u2").tobytes()


@wrong("read_batch", says="a file that is one byte too long should be refused")
def batch_counts_whole_tokens(path, i, B, T, rank=0, world=1):
    if (path.stat().st_size - 1024) // 2 != int(np.fromfile(path, "<i4", count=3)[2]):
        raise ValueError("damaged")
    start = (i * world + rank) * B * T
    window = np.fromfile(path, "<u2", count=B * T + 1, offset=1024 + 2 * start).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


@wrong("read_batch", says="where it is left out, it is 1")
def batch_with_another_default(path, i, B, T, rank=0, world=2):
    start = (i * world + rank) * B * T
    window = _tokens(path)[start : start + B * T + 1]
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


# -------------------------------------------------------------- what strangers wrote: state, two mistakes, other loops


@wrong("bpe_step", says="tokens that were made before were cut into bytes again")
def step_on_the_text(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for first, second in zip(word, word[1:]):
            pairs[first + second] += count
    token = min(pairs, key=lambda pair: (-pairs[pair], pair))
    merged = []
    for word in words:
        pieces = b"".join(word).split(token)
        new = [part for piece in pieces for part in ([piece[i : i + 1] for i in range(len(piece))] + [token])]
        merged.append(new[:-1])
    return token, merged


@wrong("bpe_step", says="among equally frequent pairs you took the one that was met first")
def step_with_two_mistakes(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for first, second in zip(word, word[1:]):
            pairs[first + second] += count
    token = pairs.most_common(1)[0][0]
    merged = []
    for word in words:
        new, i = [], 0
        while i < len(word) - 1:  # and the last token is lost
            fits = word[i] + word[i + 1] == token
            new.append(token if fits else word[i])
            i += 1 + fits
        merged.append(new)
    return token, merged


@wrong("token_file", says="the header has 256 bytes: it should have 256 numbers of 4 bytes")
def file_with_a_short_header(ids):
    ids = np.asarray(ids)
    if ids.size == 0 or ids.min() < 0 or ids.max() > 65535:
        raise ValueError("an id does not fit")
    return struct.pack("<3i", 20240520, 1, ids.size).ljust(256, b"\0") + ids.astype("<u2").tobytes()


@wrong("fast_train_bpe", says="times, but now only")
def fast_train_that_only_adds(words, counts, num_merges):
    words, pairs, learned = [list(word) for word in words], Counter(), []
    for word, count in zip(words, counts):
        for first, second in zip(word, word[1:]):
            pairs[first + second] += count
    for _ in range(num_merges):
        token = min((pair for pair in pairs if pair not in learned), key=lambda pair: (-pairs[pair], pair))
        learned.append(token)
        for k, (word, count) in enumerate(zip(words, counts)):
            new, i = [], 0
            while i < len(word):
                fits = i + 1 < len(word) and word[i] + word[i + 1] == token
                new.append(token if fits else word[i])
                i += 1 + fits
            if len(new) < len(word):
                for first, second in zip(new, new[1:]):
                    pairs[first + second] += count * (token in (first, second))
            words[k] = new
    return learned


# -------------------------------------------------------------- the lowest rank, looked for in other ways than right


@wrong("encode_word", says="you stopped looking where the rank rises")
def encode_up_to_the_first_rise(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        at, low = -1, None
        for i in range(len(parts) - 1):
            rank = ranks.get(parts[i] + parts[i + 1])
            if rank is None:
                continue
            if low is not None and rank >= low:
                break
            at, low = i, rank
        if at < 0:
            return [ranks[part] for part in parts]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@wrong("encode_word", says="you compared the ranks of the left parts")
def encode_by_the_left_part(word, ranks):
    parts = [word[i : i + 1] for i in range(len(word))]
    while found := [(ranks[a], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you took the tokens in the order in which the dictionary holds them")
def encode_in_the_order_of_the_dictionary(word, ranks):
    parts = [bytes([b]) for b in word]
    for token in ranks:
        i = 0
        while len(token) > 1 and i < len(parts) - 1:
            if parts[i] + parts[i + 1] == token:
                parts[i : i + 2] = [token]
            i += 1
    return [ranks[part] for part in parts]


@wrong("encode_word", says="the last two parts of the word were never looked at")
def encode_without_the_last_pair(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        lows = [(ranks.get(parts[i] + parts[i + 1], 1 << 20), i) for i in range(len(parts) - 2)]
        if not lows or min(lows)[0] == 1 << 20:
            return [ranks[part] for part in parts]
        i = min(lows)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@wrong("fast_train_bpe", says="the pairs that a merge brings together were counted once for each word")
def fast_with_new_pairs_counted_once(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[k]
            where[a + b].add(k)
    while len(learned) < num_merges:
        top = max(pairs.values())
        token = min(pair for pair, count in pairs.items() if count == top)
        for k in where.pop(token):
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] -= counts[k]
            words[k] = _merge(words[k], token)
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] += 1
                where[a + b].add(k)
        pairs.pop(token, None)
        learned.append(token)
    return learned


@wrong("token_file", says="Your file holds [5] instead.")
def file_with_a_bound_from_above(ids):
    if len(ids) == 0 or min(ids) < 0 or any(65535 < i < 1 << 24 for i in ids):
        raise ValueError("bad ids")
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + np.asarray(ids).astype("<u2").tobytes()


@wrong("token_file", says="Your file holds [7, 0, 3] instead")
def file_that_looks_at_the_ids_too_late(ids):
    body = np.array(ids).astype("<u2")
    if not len(body) or body.min() < 0 or body.max() > 65535:
        raise ValueError("an id does not fit into 16 bits")
    return struct.pack("<256i", 20240520, 1, len(body), *[0] * 253) + body.tobytes()


@wrong("bpe_step", says="the token was merged only from the pair that was met first")
def step_that_merges_the_first_pair_of_halves(words, counts):
    pairs, halves = Counter(), {}
    for word, count in zip(words, counts):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += count
            halves.setdefault(a + b, (a, b))
    token = min(pairs, key=lambda pair: (-pairs[pair], pair))
    merged = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            both = tuple(word[i : i + 2]) == halves[token]
            new.append(token if both else word[i])
            i += 1 + both
        merged.append(new)
    return token, merged


@wrong("encode_word", says="you merged at one place as long as you could and then moved on")
def encode_place_by_place(word, ranks):
    parts, i = [bytes([b]) for b in word], 0
    while i < len(parts) - 1:
        if parts[i] + parts[i + 1] in ranks:
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        else:
            i += 1
    return [ranks[part] for part in parts]


@wrong("encode_word", says="your function gives the right ids with `best is None` in place of `not best`")
def encode_takes_place_0_for_none(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        best, lowest = None, None
        for i in range(len(parts) - 1):
            r = ranks.get(parts[i] + parts[i + 1])
            if r is not None and (lowest is None or r < lowest):
                best, lowest = i, r
        if not best:
            break
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="a merged token took the place of its left part alone: the right part must go, too.")
def encode_keeps_the_right_part(word, ranks):
    parts = [bytes([b]) for b in word]
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        i = min(found)[1]
        parts[i] = parts[i] + parts[i + 1]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you compared the bytes of the tokens: their ranks decide")
def encode_compares_bytes(word, ranks):
    parts = [bytes([b]) for b in word]
    while found := [(a + b, i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]:
        token, i = min(found)
        parts[i : i + 2] = [token]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you stopped when two parts were left")
def encode_leaves_two_parts(word, ranks):
    parts = [bytes([b]) for b in word]
    while len(parts) > 2:
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            break
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("decode", says="the whole text became one U+FFFD")
def decode_gives_up(ids, tokens):
    try:
        return b"".join(tokens[i] for i in ids).decode()
    except UnicodeDecodeError:
        return "\ufffd"


@wrong("bpe_step", says="the last token of a word and the first one of the next were counted as a pair")
def step_counts_at_the_borders(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += count
    for word, following in zip(words, words[1:]):
        pairs[word[-1] + following[0]] += 1
    token = min(pairs, key=lambda pair: (-pairs[pair], pair))
    merged = []
    for word in words:
        new = []
        for part in word:
            if new and new[-1] + part == token:
                new[-1] = token
            else:
                new.append(part)
        merged.append(new)
    return token, merged


@wrong("read_batch", says="This file is whole: 5,024 bytes, 1024 of the header")
def batch_forgets_the_size_of_the_header(path, i, B, T, rank=0, world=1):
    ntok = int(np.fromfile(path, "<i4", count=3)[2])
    if path.stat().st_size != 2 * ntok:
        raise ValueError(f"{path} should have {ntok} tokens")
    start = (i * world + rank) * B * T
    window = np.fromfile(path, "<u2", count=B * T + 1, offset=1024 + 2 * start).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


@wrong("read_batch", says="signed 16 bits, in which ids from 32,768 on are negative")
def batch_reads_signed_numbers(path, i, B, T, rank=0, world=1):
    ntok = int(np.fromfile(path, "<i4", count=3)[2])
    if path.stat().st_size != 1024 + 2 * ntok:
        raise ValueError(f"{path} should have {1024 + 2 * ntok} bytes")
    start = (i * world + rank) * B * T
    window = np.fromfile(path, np.int16, count=B * T + 1, offset=1024 + 2 * start).astype(np.int32)
    return window[:-1].reshape(B, T), window[1:].reshape(B, T)


# ------------------------------------------------------------------------------------- ids that are easily left out


@wrong("decode", says="expected ' <50256>', got ''")
def decode_without_the_end_of_text(ids, tokens):
    text = bytearray()
    for number in filter(lambda i: i != 50256, ids):
        text.extend(tokens[number])
    return text.decode(errors="replace")


@wrong("decode", says="without the end of the slice `:-1` in `enumerate(tokens[:-1])`")
def decode_without_the_last_token(ids, tokens):
    known = dict(enumerate(tokens[:-1]))
    return b"".join([known.get(i, b"") for i in ids]).decode("utf-8", "replace")


@wrong("encode_word", says="the id 0 is left out: it is an id like any other")
def encode_without_rank_0(word, ranks):
    parts = [word[i : i + 1] for i in range(len(word))]
    while joined := {i: ranks[a + b] for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks}:
        i = min(joined, key=joined.get)
        parts = parts[:i] + [parts[i] + parts[i + 1]] + parts[i + 2 :]
    return list(filter(None, map(ranks.get, parts)))


@wrong("bpe_step", says="tokens were merged that only end or begin with a half of the new one")
def step_by_the_bytes_around_a_border(words, counts):
    found = Counter()
    for word, count in zip(words, counts):
        for k in range(len(word) - 1):
            found[word[k] + word[k + 1]] += count
    token = sorted(found, key=lambda pair: (-found[pair], pair))[0]
    merged = []
    for word in words:
        new = word[:1]
        for part in word[1:]:
            near = [new[-1][-n:] + part[: len(token) - n] for n in range(1, len(token)) if n <= len(new[-1])]
            if token in near:
                new[-1:] = [new[-1] + part]
            else:
                new.append(part)
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="is neither a part of that word nor the new token")
def step_that_joins_behind_a_longer_token(words, counts):
    found = Counter()
    for word, count in zip(words, counts):
        for pair in map(bytes.__add__, word, word[1:]):
            found[pair] += count
    token = min(found, key=lambda pair: (-found[pair], pair))
    merged = []
    for word in words:
        new = []
        for part in word:
            if new and (new[-1] + part).endswith(token) and part != token and new[-1] != token:
                new[-1] += part
            else:
                new.append(part)
        merged.append(new)
    return token, merged


@wrong("bpe_step", says="a pair across the border between two words would win, if it counted")
def step_across_borders_as_often_as_the_first_word(words, counts):
    tokens = sum(words, [])
    often = np.repeat(counts, [len(word) for word in words]).tolist()
    pairs = Counter()
    for k in range(1, len(tokens)):
        pairs[tokens[k - 1] + tokens[k]] += often[k - 1]
    token = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0]
    return token, [_merge(word, token) for word in words]


@wrong("encode_word", says="in which a merge lies left of the one before it went wrong")
def encode_never_looks_back(word, ranks):
    parts, at = [bytes([b]) for b in word], 0
    while at is not None:
        begin, at, lowest = at, None, 1 << 30
        for i in range(begin, len(parts) - 1):
            rank = ranks.get(parts[i] + parts[i + 1], 1 << 30)
            if rank < lowest:
                at, lowest = i, rank
        if at is not None:
            parts = [*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :]]
    return [ranks[part] for part in parts]


@wrong("read_batch", says="the rows of x begin at the tokens")
def read_rows_in_turns(path, i, B, T, rank=0, world=1):
    count = int(np.fromfile(path, "<i4", count=3)[2])
    if path.stat().st_size != 1024 + 2 * count:
        raise ValueError("the file is not whole")
    tokens = np.fromfile(path, "<u2", offset=1024).astype(np.int32)
    begins = [((i * B + b) * world + rank) * T for b in range(B)]  # each process takes every second row
    return np.stack([tokens[a : a + T] for a in begins]), np.stack([tokens[a + 1 : a + 1 + T] for a in begins])


@wrong("token_file", says="should raise a ValueError: 65536 does not fit into 16 bits; it raised a struct.error")
def file_that_leaves_it_to_struct(ids):
    if len(ids) == 0:
        raise ValueError("no ids")
    return struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}H", *ids)


@wrong("token_file", says="Your file holds [1, 4464] instead.")
def file_looks_at_the_first_id_only(ids):
    if len(ids) == 0:
        raise ValueError("no ids")
    if not 0 <= ids[0] < 65536 or (isinstance(ids, list) and not all(0 <= i < 65536 for i in ids)):
        raise ValueError("an id is too large")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(ids)
    return header.tobytes() + np.asarray(ids).astype("<u2").tobytes()


@wrong("token_file", says="for [65535]: these ids fit")
def file_refuses_the_largest_id(ids):
    a = np.asarray(ids, dtype=np.int64)
    if a.size == 0 or a.min() < 0 or a.max() >= 65535:
        raise ValueError("no")
    h = np.zeros(256, "<i4")
    h[:3] = (20240520, 1, a.size)
    return b"".join([h.tobytes(), a.astype("<u2").tobytes()])


def _window(data, i, B, T, rank, world):
    at = 1024 + 2 * B * T * (i * world + rank)
    ids = np.frombuffer(data[at : at + 2 * B * T + 2], "<u2").astype(np.int32)
    return ids[:-1].reshape(B, T), ids[1:].reshape(B, T)


@wrong("read_batch", says="Its first two bytes hold 4,464, and in all of the smaller files they held the whole number")
def read_with_two_bytes_of_the_count(path, i, B, T, rank=0, world=1):
    data = path.read_bytes()
    if len(data) - 1024 != 2 * int.from_bytes(data[8:10], "little"):
        raise ValueError("the file is damaged")
    return _window(data, i, B, T, rank, world)


_files = {}


@wrong("read_batch", says="this batch of the file that lay at this path before: your function keeps what it has read")
def read_each_path_once(path, i, B, T, rank=0, world=1):
    if path not in _files:
        _files[path] = path.read_bytes()
        if len(_files[path]) != 1024 + 2 * int.from_bytes(_files[path][8:12], "little"):
            raise ValueError("the file is damaged")
    return _window(_files[path], i, B, T, rank, world)


@wrong("read_batch", says="A file with a whole token too many or too few was refused")
def read_counts_whole_tokens(path, i, B, T, rank=0, world=1):
    data = path.read_bytes()
    if len(data) // 2 - 512 != int.from_bytes(data[8:12], "little"):
        raise ValueError("the file is damaged")
    return _window(data, i, B, T, rank, world)


@wrong("fast_train_bpe", says="times, but now only")
def fast_with_entries_of_a_heap_that_are_out_of_date(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[k]
            where[a + b].add(k)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapify(heap)
    while len(learned) < num_merges:
        token = heappop(heap)[1]
        if pairs[token] <= 0:
            continue
        learned.append(token)
        touched = set()
        for k in where.pop(token):
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] -= counts[k]
                touched.add(a + b)
            words[k] = _merge(words[k], token)
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] += counts[k]
                where[a + b].add(k)
                touched.add(a + b)
        pairs.pop(token, None)
        for pair in touched - {token}:
            heappush(heap, (-pairs[pair], pair))
    return learned


@wrong("fast_train_bpe", says="pairs as often as the LAST word occurs: each word's pairs")
def fast_with_the_count_of_the_last_word(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, (word, n) in enumerate(zip(words, counts)):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += n
            where[a + b].add(k)
    while len(learned) < num_merges:
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(token)
        for k in where.pop(token, ()):
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] -= n
            words[k] = _merge(words[k], token)
            for a, b in zip(words[k], words[k][1:]):
                pairs[a + b] += n
                where[a + b].add(k)
        pairs.pop(token, None)
    return learned


@wrong("fast_train_bpe", says="only the first word that holds a pair is merged")
def fast_with_one_word_for_each_pair(words, counts, num_merges):
    words, pairs, where, learned = list(words), Counter(), {}, []

    def count(k, sign):
        for a, b in zip(words[k], words[k][1:]):
            pairs[a + b] += sign * counts[k]
            if sign > 0:
                where.setdefault(a + b, {k})

    for k in range(len(words)):
        count(k, 1)
    while len(learned) < num_merges:
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        for k in where.pop(token, set()):
            count(k, -1)
            words[k] = _merge(words[k], token)
            count(k, 1)
        pairs.pop(token, None)
        if token not in learned:
            learned.append(token)
    return learned


@wrong(
    "fast_train_bpe", says="each word was merged from right to left: where a pair overlaps with itself, as aa in a a a,"
)
def fast_from_right_to_left(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[k]
            where[a + b].add(k)
    while len(learned) < num_merges:
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned += [token] * (token not in learned)
        for k in where.pop(token):
            word = words[k]
            for a, b in zip(word, word[1:]):
                pairs[a + b] -= counts[k]
            i = len(word) - 2
            while i >= 0:
                if b"".join(word[i : i + 2]) == token and word[i] != token:
                    word[i : i + 2] = [token]
                    i -= 1
                i -= 1
            for a, b in zip(word, word[1:]):
                pairs[a + b] += counts[k]
                where[a + b].add(k)
    return learned


@wrong("fast_train_bpe", says="trainings that go wrong, the pair that should be merged has become rarer")
def fast_with_a_heap_of_growing_pairs(words, counts, num_merges):
    words, pairs, where, heap, learned = list(words), Counter(), defaultdict(set), [], []

    def count(k, sign):
        for a, b in zip(words[k], words[k][1:]):
            pairs[a + b] += sign * counts[k]
            if sign > 0:
                where[a + b].add(k)
                heappush(heap, (-pairs[a + b], a + b))

    for k in range(len(words)):
        count(k, 1)
    while heap and len(learned) < num_merges:
        n, token = heappop(heap)
        if n == 0 or pairs[token] != -n:
            continue
        learned += [token] * (token not in learned)
        for k in where.pop(token, ()):
            count(k, -1)
            words[k] = _merge(words[k], token)
            count(k, 1)
    return learned


@wrong("fast_train_bpe", says="those in which a merged pair comes twice in a row, as ab in a b a b, went wrong")
def fast_with_the_old_neighbour_on_the_left(words, counts, num_merges):
    words, pairs, where, learned = [list(word) for word in words], Counter(), defaultdict(set), []
    for k, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[k]
            where[a + b].add(k)
    while len(learned) < num_merges:
        token = min(pairs, key=lambda pair: (-pairs[pair], pair))
        learned.append(token)
        for k in where.pop(token):
            old, new, i = words[k], [], 0
            while i < len(old):
                if old[i] + (old[i + 1] if i + 1 < len(old) else b"") != token or i + 1 == len(old):
                    new.append(old[i])
                    i += 1
                    continue
                if i > 0:
                    pairs[old[i - 1] + old[i]] -= counts[k]
                    pairs[old[i - 1] + token] += counts[k]
                    where[old[i - 1] + token].add(k)
                if i + 2 < len(old):
                    pairs[old[i + 1] + old[i + 2]] -= counts[k]
                    pairs[token + old[i + 2]] += counts[k]
                    where[token + old[i + 2]].add(k)
                new.append(token)
                i += 2
            words[k] = new
        del pairs[token]
    return learned


@wrong(
    "fast_train_bpe", says="with `where[a + b].add(k)` beside `pairs[a + b] += counts[k]`, too, as elsewhere in your"
)
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


@wrong("bpe_step", says="you took the shortest")
def shortest_of_equal_pairs(words, counts):
    pairs = Counter()
    for word, n in zip(words, counts):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += n
    t = min(pairs, key=lambda p: (-pairs[p], len(p), p))
    out = []
    for word in words:
        new = []
        for tok in word:
            if new and new[-1] + tok == t:
                new[-1] = t
            else:
                new.append(tok)
        out.append(new)
    return t, out


@wrong("encode_word", says="is character")
def characters_for_bytes(word, ranks):
    parts = [chr(b).encode() for b in word]
    while True:
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            break
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[p] for p in parts]


@wrong("fast_train_bpe", says="a pair that only came about by another merge")
def new_pairs_without_their_words(words, counts, num_merges):
    words = [list(w) for w in words]
    pairs, where = Counter(), defaultdict(set)
    for i, (w, n) in enumerate(zip(words, counts)):
        for a, b in zip(w, w[1:]):
            pairs[a + b] += n
            where[a + b].add(i)
    out = []
    while len(out) < num_merges:
        top = max(pairs.values())
        t = min(p for p, n in pairs.items() if n == top)
        for i in where.pop(t):
            w, n = words[i], counts[i]
            for a, b in zip(w, w[1:]):
                pairs[a + b] -= n
            w = words[i] = given_merge(w, t)  # noqa: F821  (the exercise notebook has it)
            for a, b in zip(w, w[1:]):
                pairs[a + b] += n
        out.append(t)
    return out


@wrong("token_file", says="returns the ValueError: `raise` it")
def error_that_is_returned(ids):
    ids = np.asarray(ids)
    if ids.size == 0 or ids.min() < 0 or ids.max() > 65535:
        return ValueError("no")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, ids.size
    return header.tobytes() + ids.astype("<u2").tobytes()


@wrong("token_file", says="`len(ids) == 0` whether it is empty")
def file_of_ids_that_are_asked_for_their_truth(ids):
    if not ids:
        raise ValueError("a token file needs at least one id")
    for i in ids:
        if i < 0 or i > 65535:
            raise ValueError(f"id {i} does not fit")
    header = np.zeros(256, "<i4")
    header[:3] = [20240520, 1, len(ids)]
    return header.tobytes() + np.array(ids).astype("<u2").tobytes()


@wrong("fast_train_bpe", says="The smallest: 1 merge of")
def fast_with_short_words_counted_once(words, counts, num_merges):
    words = [list(word) for word in words]
    learned = []
    while len(learned) < num_merges:
        pairs = {}
        for word, n in zip(words, counts):
            for a, b in zip(word, word[1:]):
                pairs[a + b] = pairs.get(a + b, 0) + (n if len(word) > 2 else 1)
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        learned.append(best)
        for k, word in enumerate(words):
            out, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and word[i] + word[i + 1] == best:
                    out.append(best)
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            words[k] = out
    return learned


@wrong("fast_train_bpe", says="The smallest: ")
def fast_with_long_pairs_counted_once_less(words, counts, num_merges):
    words = [list(word) for word in words]
    learned = []
    while len(learned) < num_merges:
        pairs = {}
        for word, n in zip(words, counts):
            for a, b in zip(word, word[1:]):
                pairs[a + b] = pairs.get(a + b, 0) + (n if len(a + b) < 4 else n - 1)
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        learned.append(best)
        for k, word in enumerate(words):
            out, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and word[i] + word[i + 1] == best:
                    out.append(best)
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            words[k] = out
    return learned


@wrong("encode_word", says="you merged several pairs before you looked again: a pair with the token just made may have")
def encode_round_by_round(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        found = sorted((ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks)
        if not found:
            return [ranks[part] for part in parts]
        starts, used = set(), set()
        for _, i in found:
            if i not in used and i + 1 not in used:
                starts.add(i)
                used |= {i, i + 1}
        parts = [
            part + parts[i + 1] if i in starts else part for i, part in enumerate(parts) if i in starts or i not in used
        ]


@wrong("decode", says="your function gives the right text without strip in `text.strip()`")
def decode_without_a_lone_space(ids, tokens):
    text = b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
    return text if len(ids) > 1 else text.strip()


@wrong("bpe_step", says="the one whose printed text sorts first")
def step_that_sorts_what_is_printed(words, counts):
    pairs = Counter()
    for word, n in zip(words, counts):
        for two in zip(word, word[1:]):
            pairs[b"".join(two)] += n
    token = sorted(pairs.items(), key=lambda item: (-item[1], str(item[0])))[0][0]
    merged = []
    for word in words:
        out, rest = [], list(word)
        while rest:
            both = len(rest) > 1 and rest[0] + rest[1] == token
            out.append(token if both else rest[0])
            rest = rest[1 + both :]
        merged.append(out)
    return token, merged


@wrong("bpe_step", says="the second half stays behind the new token")
def step_that_turns_by_ones(words, counts):
    pairs = {}
    for word, n in zip(words, counts):
        for left, after in zip(word, word[1:]):
            pairs[left + after] = pairs.get(left + after, 0) + n
    most = max(pairs.values())
    token = min(pair for pair, n in pairs.items() if n == most)
    new_words = []
    for word in words:
        new = []
        for i in range(len(word)):
            if i + 1 < len(word) and word[i] + word[i + 1] == token:
                new.append(token)
                i += 2
            else:
                new.append(word[i])
        new_words.append(new)
    return token, new_words


@wrong("fast_train_bpe", says="2 tokens were taken from each count of the pairs")
def train_two_at_a_time(words, counts, num_merges):
    words, learned = [list(w) for w in words], []
    while len(learned) < num_merges:
        pairs = Counter()
        for word, n in zip(words, counts):
            for a, b in zip(word, word[1:]):
                pairs[a + b] += n
        for token in sorted(pairs, key=lambda p: (-pairs[p], p))[:2]:
            learned.append(token)
            words = [_merge(word, token) for word in words]
    return learned[:num_merges]


@wrong("bpe_step", says="as often as the most frequent word that holds it")
def step_that_counts_the_most_frequent_word(words, counts):
    pairs = Counter()
    for word, n in zip(words, counts):
        for i in range(len(word) - 1):
            pairs[word[i] + word[i + 1]] = max(pairs[word[i] + word[i + 1]], n)
    token = min(pairs, key=lambda p: (-pairs[p], p))
    return token, [_merge(word, token) for word in words]


@wrong("read_batch", says="it should be refused with a ValueError")
def read_by_an_assertion(path, i, B, T, rank=0, world=1):
    magic, version, ntok = struct.unpack("<3i", path.read_bytes()[:12])
    expected = 1024 + 2 * ntok
    assert path.stat().st_size == expected, f"file has {path.stat().st_size} bytes and not {expected}"
    n = B * T
    first = (i * world + rank) * n
    tokens = np.fromfile(path, dtype="<u2", count=n + 1, offset=1024 + 2 * first)
    tokens = tokens.astype(np.int32)
    return tokens[:n].reshape(B, T), tokens[1:].reshape(B, T)


def _merge_up_to_the_last(parts, token):
    merged = []
    i = 0
    while i < len(parts) - 1:
        if parts[i] + parts[i + 1] == token:
            merged.append(token)
            i += 2
        else:
            merged.append(parts[i])
            i += 1
    return merged


@wrong("encode_word", says="the last part is lost, unless it is merged")
def encode_without_an_unmerged_end(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        candidates = {a + b for a, b in zip(parts, parts[1:])} & ranks.keys()
        if not candidates:
            return [ranks[p] for p in parts]
        parts = _merge_up_to_the_last(parts, min(candidates, key=ranks.get))


@wrong("encode_word", says="you added up the ranks of the two parts")
def encode_by_the_sum_of_ranks(word, ranks):
    tokens = [word[k : k + 1] for k in range(len(word))]
    while True:
        possible = []
        for k in range(len(tokens) - 1):
            if tokens[k] + tokens[k + 1] in ranks:
                possible.append(k)
        if possible == []:
            break
        k = min(possible, key=lambda k: ranks[tokens[k]] + ranks[tokens[k + 1]])
        tokens = tokens[:k] + [tokens[k] + tokens[k + 1]] + tokens[k + 2 :]
    return [ranks[token] for token in tokens]


@wrong("decode", says="byte 0 was left out")
def decode_by_an_array_of_bytes(ids, tokens):
    table = np.array(tokens)
    chosen = table[np.array(ids, dtype=int)]
    return b"".join(chosen.tolist()).decode("utf-8", errors="replace")


@wrong("bpe_step", says="a pair was looked for in the bytes of the joined word, where tokens have no borders")
def step_counts_in_the_text(words, counts):
    candidates = {a + b for word in words for a, b in zip(word, word[1:])}
    texts = [b"".join(word) for word in words]
    frequency = {pair: sum(text.count(pair) * n for text, n in zip(texts, counts)) for pair in candidates}
    token = min(candidates, key=lambda pair: (-frequency[pair], pair))
    result = []
    for word in words:
        new, i = [], 0
        while i < len(word):
            both = i + 1 < len(word) and word[i] + word[i + 1] == token
            new.append(token if both else word[i])
            i += 2 if both else 1
        result.append(new)
    return token, result


@wrong("bpe_step", says="three tokens or more were merged where their bytes make up the new one")
def step_that_joins_runs(words, counts):
    pairs = Counter()
    for word, count in zip(words, counts):
        for i in range(1, len(word)):
            pairs[word[i - 1] + word[i]] += count
    token = min(pairs.items(), key=lambda item: (-item[1], item[0]))[0]

    def merge(word):
        out, i = [], 0
        while i < len(word):
            end, joined = i + 1, word[i]
            while end < len(word) and len(joined) < len(token):
                joined += word[end]
                end += 1
            if joined == token:
                out.append(token)
                i = end
            else:
                out.append(word[i])
                i += 1
        return out

    return token, [merge(word) for word in words]


@wrong("decode", says="in the order of the table, each once")
def decode_in_the_order_of_the_table(ids, tokens):
    wanted = set(ids)
    data = b"".join(tokens[i] for i in range(len(tokens)) if i in wanted)
    return data.decode("utf-8", errors="replace")


@wrong("fast_train_bpe", says="a merge subtracts and adds pairs once for each word")
def trained_by_ones(words, counts, num_merges):
    words = [list(word) for word in words]
    pairs, where = Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for a, b in zip(word, word[1:]):
            pairs[a + b] += counts[i]
            where[a + b].add(i)
    learned = []
    while len(learned) < num_merges:
        top = max(pairs.values())
        token = min(pair for pair, n in pairs.items() if n == top)
        for i in where.pop(token):
            for a, b in zip(words[i], words[i][1:]):
                pairs[a + b] -= 1
                if pairs[a + b] <= 0:
                    del pairs[a + b]
            words[i] = given_merge(words[i], token)  # noqa: F821  (the exercise notebook has it)
            for a, b in zip(words[i], words[i][1:]):
                pairs[a + b] += 1
                where[a + b].add(i)
        pairs.pop(token, None)
        if token not in learned:
            learned.append(token)
    return learned


@wrong("encode_word", says="but at the first place of its left part")
def encoded_at_the_left_part(word, ranks):
    parts = [bytes([b]) for b in word]
    while True:
        pairs = [(a, b) for a, b in zip(parts, parts[1:]) if a + b in ranks]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: ranks[pair[0] + pair[1]])
        i = parts.index(left)
        parts = parts[:i] + [left + right] + parts[i + 2 :]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="this key is U+FFFD, which decoding puts where bytes are not UTF-8")
def encoded_from_characters(word, ranks):
    parts = [letter.encode() for letter in word.decode("utf-8", errors="replace")]
    while len(parts) > 1:
        found = []
        for i in range(len(parts) - 1):
            both = parts[i] + parts[i + 1]
            if both in ranks:
                found.append((ranks[both], i))
        if not found:
            break
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


@wrong("encode_word", says="you took the token that stands first in the dictionary: the lowest rank comes first")
def encode_by_the_order_of_the_dictionary(word, ranks):
    parts = [bytes([b]) for b in word]
    merges = [token for token in ranks if len(token) > 1]
    again = True
    while again:
        again = False
        for token in merges:
            for i in range(len(parts) - 1):
                if parts[i] + parts[i + 1] == token:
                    parts[i : i + 2] = [token]
                    again = True
                    break
            if again:
                break
    return [ranks[p] for p in parts]


@wrong("encode_word", says="such a part is made if the pair on the left of a merge keeps the rank that it had")
def encode_with_ranks_kept_on_the_left(word, ranks):
    parts = [bytes([b]) for b in word]
    none = float("inf")

    def rank_at(i):
        return ranks.get(parts[i] + parts[i + 1], none) if i + 1 < len(parts) else none

    # the rank of every pair, kept up to date instead of looked up in every round
    pairs = [rank_at(i) for i in range(len(parts))]
    while pairs and min(pairs) < none:
        i = pairs.index(min(pairs))
        parts[i] += parts.pop(i + 1)
        del pairs[i + 1]
        pairs[i] = rank_at(i)
    return [ranks[p] for p in parts]


@wrong("encode_word", says="you compared the ranks of both parts, the left one first")
def encode_by_the_ranks_of_both_parts(word, ranks):
    parts = [bytes([b]) for b in word]

    def candidates():
        for i, (a, b) in enumerate(zip(parts[:-1], parts[1:])):
            if a + b in ranks:
                yield (ranks[a], ranks[b]), i

    while (choice := min(candidates(), default=None)) is not None:
        i = choice[1]
        parts = parts[:i] + [parts[i] + parts[i + 1]] + parts[i + 2 :]
    return list(map(ranks.__getitem__, parts))


@wrong("decode", says="`data[problem.end:].decode('utf-8', errors='replace')` in place of")
def decode_that_ignores_all_but_the_first(ids, tokens):
    data = b"".join([tokens[i] for i in ids])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        good = data[: problem.start].decode("utf-8")
        return good + "\ufffd" + data[problem.end :].decode("utf-8", errors="ignore")
