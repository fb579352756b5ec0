"""TinyStories from small copies: the order of the stories, and archives that are damaged."""

import gzip
import io
import json
import random
import tarfile

import pytest

from llmc import data
from llmc.tests.data.small_corpora import documents, write


@pytest.fixture
def stories(tmp_path):
    """A folder of three .json files of stories."""
    folder = tmp_path / "stories"
    folder.mkdir()
    for i in range(3):
        found = [{"story": f"\n Story {i}.{k} of a cat. ", "source": "GPT-4"} for k in range(100)]
        write(folder / f"data{i:02d}.json", json.dumps(found))
    return folder


def shuffled(indices, seed):
    found = [f"Story {i}.{k} of a cat." for i in indices for k in range(100)]
    random.Random(seed).shuffle(found)
    return found


@pytest.mark.parametrize("form", ["folder", "tar.gz"])
def test_tinystories(stories, tmp_path, tokenizer, form):
    source = stories
    if form == "tar.gz":
        source = tmp_path / "TinyStories_all_data.tar.gz"
        with tarfile.open(source, "w:gz") as archive:
            for name in ("data02.json", "data00.json", "data01.json"):  # an archive has an order of its own
                archive.add(stories / name, f"./{name}")
    made = data.prepare_corpus("tinystories", file=str(source), tokenizer=tokenizer)
    assert made.folder.name == "tinystories" and made.train.name == "TinyStories_train.bin"
    assert documents(made.val) == shuffled([0], 1337)
    assert documents(made.train) == shuffled([1], 1337) + shuffled([2], 1338)
    assert sorted(p.name for p in made.folder.rglob("*")) == sorted(
        ["TinyStories_train.bin", "TinyStories_val.bin", "tokenizer.bin"] + ["download"] * (form == "tar.gz")
    )


def test_one_file_of_stories_is_split(stories, tmp_path, tokenizer):
    source = str(stories / "data00.json")
    made = data.prepare_corpus("tinystories", tmp_path / "x", file=source, tokenizer=tokenizer)
    assert documents(made.val) + documents(made.train) == shuffled([0], 1337) and len(documents(made.val)) == 20


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no archive at all", "is not a whole TinyStories_all_data.tar.gz; get a fresh copy"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "is not a whole TinyStories_all_data.tar.gz; get a fresh copy"),
        (None, "there is no file"),
        (gzip.compress(bytes(10240)), "holds no .json files"),
    ],
    ids=["text", "only a header", "missing", "empty"],
)
def test_bad_archives(tmp_path, tokenizer, refused, content, sentence):
    if content:
        write(tmp_path / "a.tar.gz", content)
    assert sentence in refused("data", "tinystories", "--file", tmp_path / "a.tar.gz", "--tokenizer", tokenizer)


def test_a_damaged_archive(stories, tmp_path, tokenizer, refused):
    memory = io.BytesIO()
    member = tarfile.TarInfo("data00.json")  # no date, no owner: the same bytes each time, none of them without effect
    member.size = (stories / "data00.json").stat().st_size
    with tarfile.open(fileobj=memory, mode="w:gz") as archive, open(stories / "data00.json", "rb") as file:
        archive.addfile(member, file)
    whole = memory.getvalue()
    for at in (*range(100, len(whole), 100), 60):
        write(tmp_path / "a.tar.gz", whole[:at])
        sentence = refused("data", "tinystories", "--file", tmp_path / "a.tar.gz", "--tokenizer", tokenizer)
        assert "a.tar.gz is not a whole TinyStories_all_data.tar.gz; get a fresh copy" in sentence
    for at in range(20, len(whole), 40):  # after gzip's header, whose date and name may be anything
        write(tmp_path / "a.tar.gz", whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        assert "TinyStories" in refused(
            "data", "tinystories", "--file", tmp_path / "a.tar.gz", "--tokenizer", tokenizer
        )


def test_a_file_that_is_not_a_list_of_stories(tmp_path, tokenizer, refused):
    source = write(tmp_path / "a.json", '[{"text": "once"}]')
    assert "a.json is damaged: [0].story is missing" in refused(
        "data", "tinystories", "--file", source, "--tokenizer", tokenizer
    )
