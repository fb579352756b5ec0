"""The corpora, with one file for each, and the steps from a text to token files and a tokenizer.

known_corpora.py   the corpora by name; preparing one           find_corpora.py   finding one that is prepared
fineweb.py, pydocs.py, tinyshakespeare.py, tinystories.py, own_text.py   where each text comes from, and its documents
cleaning.py, text_file.py, download.py   text from documentation, from a file, from the network
options.py, own_tokenizer.py, validation.py, build.py, staging.py   tokenizer, split, token files, all of them at once
"""

from llmc.data.corpora.find_corpora import find_corpus, prepared
from llmc.data.corpora.known_corpora import CORPORA, prepare_corpus

__all__ = ["CORPORA", "find_corpus", "prepare_corpus", "prepared"]
