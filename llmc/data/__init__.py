"""Data: token files, the loaders, tokenizers, and the corpora that `llmc data NAME` prepares.

Prepared corpora live in `data_home()`/NAME: the environment variable LLMC_DATA_DIR, else `data/` of the source
checkout, else `data/` of the current folder. llm.c keeps the same kind of scripts in `dev/data/`.
"""

from llmc.data.corpora import CORPORA, find_corpus, prepare_corpus, prepared
from llmc.data.corpus import Corpus, data_home
from llmc.data.encoding import encode
from llmc.data.loader import DataLoader
from llmc.data.shards import count_tokens
from llmc.data.shuffled import ShuffledLoader
from llmc.data.tokens import read_tokens, write_tokens

__all__ = [
    "CORPORA",
    "Corpus",
    "DataLoader",
    "ShuffledLoader",
    "count_tokens",
    "data_home",
    "encode",
    "find_corpus",
    "prepare_corpus",
    "prepared",
    "read_tokens",
    "write_tokens",
]
