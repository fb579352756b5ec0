"""Data: token files, batch loaders, tokenizers, and the corpora that `llmc data NAME` prepares.

Prepared corpora are kept in `data_home()`/NAME. `data_home()` is the environment variable LLMC_DATA_DIR if it is set,
else `data/` in the source checkout, else `data/` in the current folder. llm.c's own scripts for this are in
`dev/data/`.
"""

from llmc.data.corpora import CORPORA, find_corpus, prepare_corpus, prepared
from llmc.data.corpus import Corpus, data_home
from llmc.data.encoding import encode
from llmc.data.loader import DataLoader, ShuffledLoader
from llmc.data.permuted import PermutedLoader
from llmc.data.shards import count_tokens
from llmc.data.tokens import read_tokens, write_tokens

__all__ = [
    "CORPORA",
    "Corpus",
    "DataLoader",
    "PermutedLoader",
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
