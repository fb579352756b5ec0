"""Files for Hugging Face's GPT2Tokenizer: vocab.json and merges.txt, made from the tokens alone.

llm.c's tokenizer.bin lists the tokens by id. In a byte-level BPE, the id of a token is also the rank of the merge that
made it, so applying all earlier merges to its bytes gives the two parts of its own merge. Bytes are written as letters,
as in OpenAI's encoder.py.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from llmc.data.tokenizer import END_OF_TEXT, token_table
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write

if TYPE_CHECKING:
    import tiktoken

VOCABULARY, MERGES, TOKENIZER_CONFIG = "vocab.json", "merges.txt", "tokenizer_config.json"


def byte_letters() -> list[str]:
    """(256) the letter for each byte: its own character if that is visible, else the next one from U+0100 on.

    byte_letters()[65] -> "A"; byte_letters()[32] -> "Ġ"
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


def write_huggingface_tokenizer(folder, encoding: "tiktoken.Encoding", maxT: int):
    """Write the files that transformers' `AutoTokenizer.from_pretrained` loads, giving the same ids as the encoding.

    maxT: the number of positions in the model. Raises UserError if the tokens are not a byte-level BPE, or if a file
    cannot be written.
    """
    letters = byte_letters()
    names = [written(token, letters) for token in token_table(encoding)]
    names[encoding.eot_token] = END_OF_TEXT
    lines = [f"{written(a, letters)} {written(b, letters)}\n" for a, b in merges(encoding)]
    about = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": maxT, "add_prefix_space": False}
    about |= {f"{role}_token": END_OF_TEXT for role in ("bos", "eos", "unk")}
    files = {VOCABULARY: json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False)}
    files |= {MERGES: "#version: 0.2\n" + "".join(lines), TOKENIZER_CONFIG: json.dumps(about, indent=2) + "\n"}
    for name, text in files.items():
        with atomic_write(Path(folder) / name, "w") as file:
            file.write(text)


def written(token: bytes, letters) -> str:
    """b" the" -> "Ġthe"."""
    return "".join(letters[byte] for byte in token)


def merges(encoding: "tiktoken.Encoding") -> list[tuple[bytes, bytes]]:
    """The two parts of each token longer than a byte, in order of rank. Raises UserError if one does not have two."""
    tokens = token_table(encoding)
    ranks = {token: i for i, token in enumerate(tokens) if i != encoding.eot_token}
    found = []
    for token, rank in ranks.items():
        if len(token) > 1:
            parts = _parts(token, rank, ranks)
            if len(parts) != 2:
                raise UserError(
                    f"token {rank} of this tokenizer, {token!r}, is not a merge of two earlier tokens; use another"
                    " tokenizer."
                )
            found.append(tuple(parts))
    return found


def _parts(token, rank, ranks):
    """The parts of a token after applying all merges of lower rank: b"the", 261 -> [b"th", b"e"]."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        candidates = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        lowest, i = min(candidates)
        if lowest >= rank:
            break
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts
