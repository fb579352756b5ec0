"""GPT-2's tokenizer, from whatever source is available: one of llm.c's files, tiktoken's cache, or the network.

Once tiktoken has loaded it, it is kept in `data_home()`/gpt2/tokenizer.bin, so the network is needed at most once.
"""

import hashlib
import os
from pathlib import Path

from llmc.data.corpus import TOKENIZER, data_home
from llmc.data.tokenizer import read_tokenizer, write_tokenizer
from llmc.errors import UserError

SHA256 = "6f3abc21e444e4e8300e225f4e03da48ea121cf17e30f67009b8dad7a66c2f13"  # of llm.c's gpt2_tokenizer.bin
LLMC_NAME = "gpt2_tokenizer.bin"  # the name of that file


def gpt2_encoding():
    """GPT-2's `tiktoken.Encoding`. Raises UserError if it is not on this machine and cannot be downloaded."""
    kept = _kept()
    if _is_gpt2(kept):
        return read_tokenizer(kept)
    encoding = _from_tiktoken()
    try:
        write_tokenizer(kept, encoding)
    except UserError:
        pass  # a folder that cannot be written costs no more than another look the next time
    return encoding


def gpt2_file(folder) -> Path:
    """GPT-2's tokenizer.bin for the token files in `folder`: from that folder, its parent, or `data_home()`.

    Raises UserError if there is none and none can be made.
    """
    for place in (Path(folder) / LLMC_NAME, Path(folder).absolute().parent / LLMC_NAME, _kept()):
        if _is_gpt2(place):
            return place
    write_tokenizer(_kept(), _from_tiktoken())
    return _kept()


def _kept():
    return data_home() / "gpt2" / TOKENIZER


def _is_gpt2(path):
    """Whether the file is GPT-2's tokenizer, byte for byte."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == SHA256
    except OSError:
        return False


def _from_tiktoken():
    """Load it from tiktoken's cache or the network; bypass the cache if tiktoken cannot repair it."""
    try:
        return _encoding()
    except (OSError, ValueError):  # no network, a damaged download, or a cache that cannot be read or written
        pass
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = ""  # tiktoken then asks the network
    try:
        return _encoding()
    except (OSError, ValueError):
        raise UserError(
            "GPT-2's tokenizer is not on this machine and cannot be downloaded; connect to a network once, give"
            f" llm.c's {LLMC_NAME} with --tokenizer, or learn a tokenizer from the text with --tokenizer own."
        ) from None
    finally:
        os.environ.pop("TIKTOKEN_CACHE_DIR")
        os.environ |= {} if before is None else {"TIKTOKEN_CACHE_DIR": before}


def _encoding():
    import tiktoken

    return tiktoken.get_encoding("gpt2")
