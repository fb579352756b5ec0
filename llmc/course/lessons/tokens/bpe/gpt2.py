"""GPT-2's own tokenizer, where it is at hand."""

import os
from pathlib import Path


def gpt2_encoding():
    """GPT-2's own tokenizer where it is at hand, else None: a file of llm.c's, or tiktoken's cache. No network."""
    import tiktoken

    from llmc.course.machine.equipment import tokens
    from llmc.data import data_home
    from llmc.data.tokenizer import read_tokenizer

    files = [data_home() / "gpt2" / "tokenizer.bin"]
    if os.environ.get("LLMC_REFERENCE_DIR"):
        files.append(Path(os.environ["LLMC_REFERENCE_DIR"], "gpt2_tokenizer.bin"))
    for path in files:
        if path.is_file():
            return read_tokenizer(path)
    return tiktoken.get_encoding("gpt2") if tokens("").status == "ok" else None
