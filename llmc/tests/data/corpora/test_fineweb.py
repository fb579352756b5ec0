"""FineWeb from small copies in every form that is read: shards, and sources that break off."""

import gzip
import json

import numpy as np
import pytest

from llmc import cli, data
from llmc.data import corpus, tokenise
from llmc.data.tokens import read_tokens
from llmc.tests.data.small_corpora import write

PAGES = [f"Page {i}: " + "word " * (i % 17) for i in range(400)]


@pytest.fixture(params=["jsonl", "jsonl.gz", "txt", "parquet"])
def pages(request, tmp_path):
    """A file of PAGES in one of the forms that are read."""
    path = tmp_path / f"pages.{request.param}"
    lines = "".join(json.dumps({"text": page, "id": 7}) + "\n" for page in PAGES).encode()
    if request.param == "txt":
        return write(path, "\n<|endoftext|>\n".join(PAGES))
    if request.param == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet")
        pyarrow.parquet.write_table(pyarrow.table({"id": range(400), "text": PAGES}), path, row_group_size=70)
        return path
    return write(path, gzip.compress(lines) if request.param.endswith("gz") else lines)


def test_fineweb_shards(pages, tmp_path, tokenizer, capsys):
    argv = ["data", "fineweb", "--file", pages, "--tokenizer", tokenizer, "--shard-size", 5000, "--kind", "edu"]
    assert cli.main([str(word) for word in argv]) == 0
    end = "\n" if pages.suffix == ".txt" else ""  # a separator is a line of its own; the page before it ends with "\n"
    stream = [i for page in PAGES for i in [256, *(page + end * (page is not PAGES[-1])).encode()]]
    made = data.find_corpus("edu_fineweb10B")
    names = ["edu_fineweb_val_000000.bin"] + [
        f"edu_fineweb_train_{i:06d}.bin" for i in range(1, -(-len(stream) // 5000))
    ]
    assert sorted(p.name for p in made.folder.iterdir()) == sorted([*names, "tokenizer.bin"])
    assert np.concatenate([read_tokens(made.folder / name) for name in names]).tolist() == stream
    assert [read_tokens(made.folder / name).size for name in names[:-1]] == [5000] * (len(names) - 1)
    assert "wrote edu_fineweb_train_000001.bin: 5,000 tokens" in capsys.readouterr().out
    loader = data.DataLoader(made.train, B=2, T=10, V=257)
    assert loader.num_tokens == len(stream) - 5000


def test_fineweb_stops_after_the_given_shards_and_replaces_the_old_ones(tmp_path, tokenizer):
    source = write(tmp_path / "a.txt", "\n<|endoftext|>\n".join(PAGES))
    options = {"file": str(source), "tokenizer": tokenizer, "shard_size": 3000}
    made = data.prepare_corpus("fineweb", **options)
    assert made.folder.name == "fineweb10B" and len(list(made.folder.iterdir())) > 4
    made = data.prepare_corpus("fineweb", shards=2, **options)
    shards = ["fineweb_train_000001.bin", "fineweb_train_000002.bin", "fineweb_val_000000.bin"]
    assert sorted(p.name for p in made.folder.iterdir()) == [*shards, "tokenizer.bin"]


def test_a_source_that_ends_in_an_error_keeps_what_was_written(tmp_path, tokenizer, refused):
    """The shards before the bad line are whole, and form a smaller corpus."""
    lines = [json.dumps({"text": page}) for page in PAGES]
    source = write(tmp_path / "a.jsonl", "\n".join([*lines, '{"txt": 1}']))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenise, "PIECE", 500)
        sentence = refused("data", "fineweb", "--file", source, "--tokenizer", tokenizer, "--shard-size", 3000)
    assert f"line 401 of {source} is not a JSON object" in sentence
    made = data.find_corpus("fineweb10B")
    assert len(corpus.existing(made.train)) > 2 and data.count_tokens(made.train) % 3000 == 0


def test_fineweb_too_short_leaves_nothing(tmp_path, tokenizer, refused, home):
    source = write(tmp_path / "a.txt", "\n<|endoftext|>\n".join(PAGES))
    assert "too short" in refused("data", "fineweb", "--file", source, "--tokenizer", tokenizer)
    assert list((home / "fineweb10B").iterdir()) == []


def test_parquet_without_pyarrow(tmp_path, tokenizer, refused, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    source = write(tmp_path / "a.parquet", b"PAR1")
    for argv in (["--file", source], []):  # without a file: before anything is fetched
        assert "pip install pyarrow" in refused("data", "fineweb", *argv, "--tokenizer", tokenizer)


def test_damaged_parquet(tmp_path, tokenizer, refused):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    source = write(tmp_path / "a.parquet", b"PAR1" + bytes(100))
    assert "cannot read" in refused("data", "fineweb", "--file", source, "--tokenizer", tokenizer)
    pyarrow.parquet.write_table(pyarrow.table({"body": ["a"]}), source)
    assert 'no column "text"' in refused("data", "fineweb", "--file", source, "--tokenizer", tokenizer)
