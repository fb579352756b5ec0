"""The corpora, with one file for each, and the steps from a text to token files and a tokenizer.

known_corpora.py   the corpora by name: preparing one, finding one that is prepared
fineweb.py, pydocs.py, tinyshakespeare.py, tinystories.py   where each text comes from, and its documents
cleaning.py, text_file.py, download.py   text from documentation, from a file (your own, for one), from the network
options.py, build.py   tokenizer, split, token files, all of them at once
"""

from llmc.data.corpora.known_corpora import CORPORA, find_corpus, prepare_corpus, prepared

__all__ = ["CORPORA", "find_corpus", "prepare_corpus", "prepared"]
