"""Tokenizers: turns a list of tokens into a `tiktoken.Encoding`, stored as llm.c's tokenizer.bin (`llmc/tokenizer.h`).

The file holds the bytes of every token by id, including the end-of-text token. A byte-level BPE needs nothing more: the
rank of a merge is its id. The pattern that cuts text into words is not in the file; every tokenizer here uses GPT-2's.
Encode with `llmc.data.encode(encoding, text)`: it takes any text, and never turns the characters "<|endoftext|>" into
the special token.
"""

from typing import TYPE_CHECKING

import numpy as np

from llmc.data.bpe import GPT2_PATTERN
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.header import SIZE, make_header, read_header
from llmc.files.reading import opened

if TYPE_CHECKING:
    import tiktoken

MAGIC = 20240328
VERSION = 2
GPT2_END = 50256  # GPT-2's end-of-text id, which version 1 of the file takes for granted
END_OF_TEXT = "<|endoftext|>"
LONGEST = 255  # bytes of a token: its length is stored in one byte


def make_encoding(token_bytes: list[bytes], eot_id: int, name: str = "llmc") -> "tiktoken.Encoding":
    """The tokenizer with these V tokens, ordered by id; the one at eot_id must be b"<|endoftext|>" and is special.

    make_encoding(train_bpe(text, 767) + [b"<|endoftext|>"], 1023).n_vocab -> 1024
    Raises UserError if a token is empty or occurs twice, if a single byte is missing, or if eot_id is wrong.
    """
    import tiktoken

    if not 0 <= eot_id < len(token_bytes) or token_bytes[eot_id] != END_OF_TEXT.encode():
        raise UserError(f'token {eot_id} of tokenizer "{name}" should be {END_OF_TEXT}; check the end-of-text id.')
    ranks = {token: i for i, token in enumerate(token_bytes) if i != eot_id}
    if len(ranks) != len(token_bytes) - 1 or token_bytes[eot_id] in ranks:
        i, token = _first_double(token_bytes)
        raise UserError(f'token {i} of tokenizer "{name}", {token!r}, occurs twice; every token must be unique.')
    if b"" in ranks:
        raise UserError(f'token {ranks[b""]} of tokenizer "{name}" is empty; every token needs at least one byte.')
    missing = [b for b in range(256) if bytes([b]) not in ranks]
    if missing:
        raise UserError(f'tokenizer "{name}" has no token for byte {missing[0]}; arbitrary text needs all 256.')
    return tiktoken.Encoding(
        name=name,
        pat_str=GPT2_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={END_OF_TEXT: eot_id},
        explicit_n_vocab=len(token_bytes),
    )


def _first_double(token_bytes):
    """(id, bytes) of the first token that is a duplicate."""
    seen = set()
    for i, token in enumerate(token_bytes):
        if token in seen:
            return i, token
        seen.add(token)


def token_table(encoding: "tiktoken.Encoding") -> list[bytes]:
    """The bytes of all V tokens in order of id, including the end-of-text token."""
    return [encoding.decode_single_token_bytes(i) for i in range(encoding.n_vocab)]


def token_lengths(encoding: "tiktoken.Encoding") -> np.ndarray:
    """(V,) int32: bytes of text that each token stands for; 0 for the end-of-text token, which is not part of the text.

    Bits per byte = nats of all tokens / ln 2 / token_lengths(encoding)[tokens].sum()
    """
    lengths = np.array([len(token) for token in token_table(encoding)], np.int32)  # (V,)
    lengths[encoding.eot_token] = 0
    return lengths


def write_tokenizer(path, encoding: "tiktoken.Encoding", version: int = VERSION):
    """Write tokenizer.bin, under a temporary name until it is complete. version: 2, or 1, which has no end-of-text id.

    Raises UserError for a token longer than 255 bytes, for version 1 if the end-of-text id is not GPT-2's 50256 (which
    its readers assume), or if the file cannot be written.
    """
    tokens, eot_id = token_table(encoding), encoding.eot_token
    if version not in (1, VERSION) or (version == 1 and eot_id != GPT2_END):
        raise UserError(
            f"a tokenizer file of version {version} cannot store the end-of-text id {eot_id}; write version 2."
        )
    for i, token in enumerate(tokens):
        if len(token) > LONGEST:
            raise UserError(
                f"token {i} has {len(token)} bytes, but tokenizer.bin allows only {LONGEST}; learn a tokenizer"
                " without it."
            )
    with atomic_write(path) as file:
        file.write(make_header(MAGIC, version, len(tokens), *([eot_id] if version == VERSION else [])).tobytes())
        file.write(b"".join(bytes([len(token)]) + token for token in tokens))


def read_tokenizer(path) -> "tiktoken.Encoding":
    """The tokenizer in an llm.c tokenizer.bin of version 2 or 1 (where the end-of-text id is GPT-2's 50256).

    llm.c's gpt2_tokenizer.bin gives exactly GPT-2's encoding, without a download. Raises UserError if the file is
    missing, of another kind, truncated or too long, or does not hold a usable set of tokens.
    """
    header = read_header(path, MAGIC, (1, VERSION), "a tokenizer file")
    V, eot_id = int(header[2]), int(header[3]) if header[1] == VERSION else GPT2_END
    with opened(path) as file:
        raw = file.read()[SIZE:]
    return make_encoding(_unpack(raw, V, path), eot_id, str(path))


def _unpack(raw: bytes, V: int, path) -> list[bytes]:
    """V tokens, each stored as one byte of length and then that many bytes.

    b"\\x02ab\\x01c" -> [b"ab", b"c"]
    """
    tokens, at = [], 0
    for i in range(V):
        if at >= len(raw) or at + 1 + raw[at] > len(raw):
            raise UserError(f"{path} is truncated: it ends inside token {i:,} of {V:,}; get a fresh copy.")
        if raw[at] == 0:
            raise UserError(f"{path} is damaged: token {i:,} has length 0; get a fresh copy.")
        tokens.append(raw[at + 1 : at + 1 + raw[at]])
        at += 1 + raw[at]
    if at != len(raw):
        raise UserError(f"{path} is too long: {len(raw) - at:,} bytes follow its {V:,} tokens; get a fresh copy.")
    return tokens
