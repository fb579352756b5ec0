"""Python's own documentation as a corpus: which documents are collected, and how they are cleaned and cut."""

import ast
import sys
import sysconfig
from itertools import islice
from pathlib import Path

import pytest

from llmc import data
from llmc.data.corpora import cleaning, pydocs
from llmc.data.corpora.build import split
from llmc.errors import UserError
from llmc.tests.data.small_corpora import documents as documents_of

MODULE = '''"""A module about loops.

+-----+
| 1 2 |
+-----+
"""

class Loop(Base, metaclass=Meta):
    """Go round.   """

    @property
    def length(self, *, unit: str = "m") -> float:
        """How long.

        In metres.
        """

    def hidden(self):
        pass

    class Inner:
        """Another class."""

if True:
    async def later(x):\t
        """Wait for x."""
'''
DOCUMENTS = [
    "loop\n====\n\nA module about loops.\n",
    'class Loop(Base, metaclass=Meta):\n    """Go round."""\n\n    @property\n'
    "    def length(self, *, unit: str='m') -> float:\n"
    '        """How long.\n\n        In metres.\n        """\n',
    'class Inner:\n    """Another class."""\n',
    'async def later(x):\n    """Wait for x."""\n',
]


def test_documents_of_a_module():
    assert pydocs.module_documents(Path("loop.py"), ast.parse(MODULE), set()) == DOCUMENTS


def test_a_repeated_docstring_is_left_out():
    seen = set()
    source = 'def f():\n    """Return the value that was stored under this name."""\n'
    assert len(pydocs.module_documents(Path("a.py"), ast.parse(source), seen)) == 1
    assert pydocs.module_documents(Path("b.py"), ast.parse(source), seen) == []


def test_long_documents_are_cut_between_their_parts():
    parts = [c * 1500 for c in "abcde"]
    documents = cleaning.pack("head", parts)
    assert [d.count("\n\n") for d in documents] == [2, 2, 1]
    assert all(d.startswith("head\n\n") for d in documents)
    assert cleaning.pack("head", []) == []


def test_sections_are_found_by_their_underlines():
    assert cleaning.sections("One\n***\n\na\n\nTwo\n===\n\nb\n") == [("One", "\n\na\n\n"), ("Two", "\n\nb\n")]


def test_a_good_text_to_learn_from(documents):
    whole = "".join(documents)
    assert 1_500_000 < len(whole) < 5_000_000
    assert len(set(documents)) == len(documents)
    assert max(map(len, documents)) < 20_000 and all(d.endswith("\n") and d.strip() for d in documents)
    assert "\t" not in whole and " \n" not in whole and "\r" not in whole
    assert sum(c.isascii() for c in whole) > 0.99 * len(whole)


def test_every_process_collects_the_same(documents, monkeypatch):
    """Strings have other hashes here, so sets have another order. A hundred modules, asyncio among them, are enough."""
    parsed = pydocs.parsed_modules
    monkeypatch.setattr(pydocs, "parsed_modules", lambda library: islice(parsed(library), 100))
    here = pydocs.collect_documents()
    assert here == documents[: len(here)] and sum(d.startswith("asyncio.") for d in here) > 5


def test_collecting_imports_nothing(collected):
    assert not collected[1]


def test_without_sources_the_language_reference_remains(tmp_path):
    documents = pydocs.collect_documents(tmp_path)
    assert 100_000 < sum(map(len, documents)) < 1_000_000
    train, val = split(documents)
    assert 0.1 < sum(map(len, val)) / sum(map(len, documents)) < 0.25


def test_without_topics_the_docstrings_remain(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    monkeypatch.setattr(pydocs, "SMALLEST_CORPUS", 10_000)
    documents = pydocs.collect_documents(Path(sysconfig.get_path("stdlib")) / "json")
    assert any(d.startswith("def loads(") for d in documents) and documents[0].startswith("__init__\n")


def test_without_both_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(UserError, match="this Python comes with almost no documentation"):
        pydocs.collect_documents(tmp_path / "nothing")


def test_unreadable_modules_are_left_out(tmp_path):
    (tmp_path / "old.py").write_bytes(b"print 'python 2'\n")
    (tmp_path / "binary.py").write_bytes(b"\x00\xff")
    (tmp_path / "good.py").write_text('"""Good."""\n', encoding="utf-8")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_good.py").write_text('"""A test."""\n', encoding="utf-8")
    assert [path.name for path, _ in pydocs.parsed_modules(tmp_path)] == ["good.py"]


def test_pydocs_with_gpt2s_tokenizer_or_a_file(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(pydocs, "collect_documents", lambda: [f"Document {i}.\n" for i in range(50)])
    made = data.prepare_corpus("pydocs", tmp_path / "x", tokenizer=tokenizer)
    assert sorted(documents_of(made.train) + documents_of(made.val)) == sorted(f"Document {i}.\n" for i in range(50))
