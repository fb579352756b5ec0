"""Building a corpus: how it is split and encoded, and that its folder is never half-written."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llmc import data
from llmc.data.corpora import build
from llmc.data.corpora.build import split
from llmc.data.corpora.options import Options
from llmc.data.tokenizer import read_tokenizer, token_lengths
from llmc.data.tokens import read_tokens
from llmc.errors import UserError


@pytest.fixture(scope="module")
def prepared(documents, tmp_path_factory):
    said = []
    made = build.build_corpus(documents, Options(tmp_path_factory.mktemp("data") / "pydocs"), said.append)
    return made, said


@pytest.fixture
def small(monkeypatch):
    """A corpus of 40 short documents in place of pydocs, quick to build: (folder, V) -> Corpus."""
    documents = [f"Document {i} says that {i} times {i} is {i * i}.\n" for i in range(40)]

    def prepare(options, say=None):
        return build.build_corpus(documents, replace(options, vocabulary=options.vocabulary or 300), say)

    monkeypatch.setitem(data.CORPORA, "pydocs", prepare)
    return lambda out_dir, V=300: prepare(Options(out_dir, vocabulary=V))


def test_split_is_the_same_in_any_order_and_loses_nothing(documents):
    train, val = split(documents)
    assert split(list(reversed(documents))) == (train, val)
    assert sorted(train + val) == sorted(documents)


def test_the_prepared_corpus(prepared, documents):
    made, said = prepared
    encoding = read_tokenizer(made.tokenizer)
    train, val = (read_tokens(path, V=1024) for path in (made.train, made.val))
    assert encoding.n_vocab == 1024 and encoding.eot_token == 1023
    assert val.size >= 60_000 and 0.04 < val.size / (train.size + val.size) < 0.15
    lengths = token_lengths(encoding)
    assert lengths[train].sum() + lengths[val].sum() == sum(len(d.encode()) for d in documents)
    assert len(said) == 2 and "trained" in said[0] and "encoded" in said[1]


def test_each_document_begins_with_the_end_of_text(prepared, documents):
    made, _ = prepared
    encoding = read_tokenizer(made.tokenizer)
    val = np.array(read_tokens(made.val))
    assert val[0] == 1023
    pieces = encoding.decode(val[1:].tolist()).split("<|endoftext|>")
    assert pieces == split(documents)[1]


def test_training_never_saw_the_validation_documents(prepared, documents):
    train, val = split(documents)
    assert not set(train) & set(val)


def test_vocabulary_out_of_range(tmp_path):
    for V in (0, 256, 65537):
        with pytest.raises(UserError, match=f"a vocabulary of {V} tokens is not possible"):
            data.prepare_corpus("pydocs", tmp_path / "x", V)
    assert list(tmp_path.iterdir()) == []


def test_find_corpus_prepares_once(small, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "home"))
    said = []
    first = data.find_corpus("pydocs", say=said.append)
    assert first.train.parent == tmp_path / "home" / "pydocs" and not first.missing and said
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["pydocs"]
    stamp = first.train.stat().st_mtime_ns
    assert data.find_corpus("pydocs") == first and first.train.stat().st_mtime_ns == stamp
    first.val.unlink()
    assert not data.find_corpus("pydocs").missing


def test_find_corpus_takes_a_folder(small, tmp_path):
    made = small(tmp_path / "mine")
    assert data.find_corpus(tmp_path / "mine") == made
    made.tokenizer.unlink()
    with pytest.raises(UserError, match="lacks tokenizer.bin"):
        data.find_corpus(tmp_path / "mine")
    with pytest.raises(UserError, match="neither a folder nor a known corpus"):
        data.find_corpus("nonsense")
    with pytest.raises(UserError, match='there is no corpus "nonsense"; choose one of .*pydocs'):
        data.prepare_corpus("nonsense")


def test_preparing_again_replaces_the_files_and_keeps_others(small, tmp_path):
    made = small(tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    small(tmp_path / "mine", V=280)
    assert read_tokenizer(made.tokenizer).n_vocab == 280 and int(read_tokens(made.train).max()) == 279
    assert sorted(p.name for p in tmp_path.rglob("*.*")) == ["notes.txt", "tokenizer.bin", "train.bin", "val.bin"]


def test_several_at_once_leave_one_whole_corpus(small, tmp_path):
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: small(tmp_path / "shared"), range(6)))
    assert len(set(made)) == 1 and not made[0].missing
    assert [p.name for p in tmp_path.iterdir()] == ["shared"]
    read_tokens(made[0].train, read_tokenizer(made[0].tokenizer).n_vocab)


def test_a_folder_that_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    for out_dir in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(UserError, match="cannot write"):
            small(out_dir)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failure_halfway_leaves_nothing(small, tmp_path, monkeypatch):
    def disk_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "write_tokenizer", disk_full)
    with pytest.raises(UserError, match="No space left on device"):
        small(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


def test_data_home(monkeypatch):
    monkeypatch.delenv("LLMC_DATA_DIR", raising=False)
    checkout = Path(data.__file__).resolve().parents[2] / "data"
    assert data.data_home() == (checkout if checkout.is_dir() else Path("data"))
    monkeypatch.setenv("LLMC_DATA_DIR", "elsewhere")
    assert data.data_home() == Path("elsewhere")


@pytest.mark.parametrize("name", sorted(data.CORPORA))
def test_the_script_reports_bad_input(name, tmp_path):
    script = Path(data.__file__).resolve().parents[2] / "data" / f"{name}.py"
    if not script.is_file():
        pytest.skip("not a source checkout")
    command = [sys.executable, str(script), "--out", str(tmp_path / "x"), "--tokenizer", "own", "--vocabulary", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("llmc: a vocabulary of 3 tokens is not possible")
    assert done.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_no_documents(tmp_path):
    with pytest.raises(UserError, match="at least one"):
        build.build_corpus([], Options(tmp_path / "x"))
