"""The corpora: tinyshakespeare byte for byte as llm.c makes it, the others from small copies, and own texts."""

import gzip
import io
import json
import multiprocessing
import os
import random
import tarfile
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from llmc import cli, data
from llmc.data import build, corpus, encoding, gpt2, pydocs, text_file, tokenise
from llmc.data.tokenizer import read_tokenizer, write_tokenizer
from llmc.data.tokens import read_tokens
from llmc.errors import UserError
from llmc.tests.tiny_corpus import byte_encoding

BYTES = byte_encoding()  # a token is a byte; 256 ends a text
reference = pytest.mark.skipif(
    not (os.environ.get("LLMC_REFERENCE_DIR") and os.environ.get("TIKTOKEN_CACHE_DIR")),
    reason="needs LLMC_REFERENCE_DIR and TIKTOKEN_CACHE_DIR",
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The data folder of the test, not there yet."""
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def tokenizer(tmp_path):
    """The path of a tokenizer.bin whose tokens are bytes."""
    write_tokenizer(tmp_path / "bytes.bin", BYTES)
    return str(tmp_path / "bytes.bin")


@pytest.fixture
def refused(capsys):
    """Runs the command line and returns its one sentence."""

    def run(*argv):
        assert cli.main([str(word) for word in argv]) == 2
        out = capsys.readouterr()
        assert out.err.startswith("llmc: ") and out.err.count("\n") == 1
        return out.err

    return run


def documents(path):
    """What a token file of bytes holds, as the documents that its end-of-text tokens begin."""
    ids = read_tokens(path).tolist()
    assert ids[0] == 256
    return BYTES.decode(ids[1:]).split("<|endoftext|>")


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# ------------------------------------------------------------------------------------------------------ tinyshakespeare


@reference
def test_tinyshakespeare_is_llm_cs_byte_for_byte(tmp_path, capsys):
    there = Path(os.environ["LLMC_REFERENCE_DIR"])
    argv = f"data tinyshakespeare --file {there}/tinyshakespeare/input.txt --tokenizer gpt2 --out".split()
    assert cli.main([*argv, str(tmp_path / "a")]) == 0
    assert "305,260 training and 32,768 validation tokens" in capsys.readouterr().out
    for name in ("tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (there / "tinyshakespeare" / name).read_bytes()
    assert (tmp_path / "a" / "tokenizer.bin").read_bytes() == (there / "gpt2_tokenizer.bin").read_bytes()
    assert cli.main([*argv, str(tmp_path / "b"), "--format", "int32"]) == 0
    for name, size in (("tiny_shakespeare_train.bin", 305_260), ("tiny_shakespeare_val.bin", 32_768)):
        assert (tmp_path / "b" / name).stat().st_size == 4 * size
        assert np.array_equal(read_tokens(tmp_path / "b" / name), read_tokens(tmp_path / "a" / name))


@reference
def test_gpt2s_tokenizer_is_kept_after_the_first_time(home, monkeypatch):
    table = gpt2.gpt2_encoding()
    monkeypatch.setattr(gpt2, "_from_tiktoken", lambda: pytest.fail("asked again"))
    assert (home / "gpt2" / "tokenizer.bin").is_file() and gpt2.gpt2_encoding().n_vocab == table.n_vocab == 50257
    (home / "gpt2" / "tokenizer.bin").write_bytes(b"something else")
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        gpt2.gpt2_encoding()


def test_gpt2s_tokenizer_cannot_be_had(tmp_path, monkeypatch, refused):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tiktoken.load.read_file", lambda _: (_ for _ in ()).throw(ConnectionError("no network")))
    tiktoken_registry = pytest.importorskip("tiktoken.registry")
    monkeypatch.setattr(tiktoken_registry, "ENCODINGS", {})
    text = write(tmp_path / "a.txt", "A line.\n" * 1000)
    sentence = refused("data", "--file", text, "--tokenizer", "gpt2")
    assert "cannot be fetched; connect to a network once, give llm.c's gpt2_tokenizer.bin with --tokenizer" in sentence


def test_sections_are_split_at_the_first_blank_line_of_several(tmp_path, tokenizer):
    text = "First:\nline\n\n\nSecond\n\nThird" + "\n\nmore of it" * 5000
    source = write(tmp_path / "input.txt", text)
    made = data.prepare_corpus("tinyshakespeare", tmp_path / "x", file=str(source), tokenizer=tokenizer)
    tokens = np.concatenate([read_tokens(made.val), read_tokens(made.train)])
    whole = BYTES.decode(tokens[1:].tolist()).split("<|endoftext|>")
    assert whole == [part + "\n\n" for part in text.split("\n\n")[:-1]] + ["more of it"]
    assert read_tokens(made.val).size == 32768


def test_an_own_tokenizer_never_saw_the_validation_text(tmp_path):
    lines = [f"line {i} {'early ' if i < 5000 else 'later '}words\n\n" for i in range(20_000)]
    source = write(tmp_path / "input.txt", "".join(lines))
    options = {"file": str(source), "tokenizer": "own"}
    made = data.prepare_corpus("tinyshakespeare", tmp_path / "x", 300, **options)
    table = [read_tokenizer(made.tokenizer).decode_single_token_bytes(i) for i in range(299)]
    assert any(b"late" in token for token in table) and not any(b"earl" in token for token in table)


def test_too_little_text(tmp_path, tokenizer, refused):
    source = write(tmp_path / "input.txt", "A line of it.\n\n" * 1000)
    sentence = refused("data", "tinyshakespeare", "--file", source, "--tokenizer", tokenizer, "--out", tmp_path / "x")
    assert "too short: of 16,000 tokens, validation takes all" in sentence and not (tmp_path / "x").exists()


# ---------------------------------------------------------------------------------------------------------- tinystories


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
        (b"no archive at all", "is no whole TinyStories_all_data.tar.gz; fetch it anew"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "is no whole TinyStories_all_data.tar.gz; fetch it anew"),
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
    with tarfile.open(fileobj=memory, mode="w:gz") as archive:
        archive.add(stories / "data00.json", "data00.json")
    whole = memory.getvalue()
    for at in (*range(100, len(whole), 100), 60):
        write(tmp_path / "a.tar.gz", whole[:at])
        sentence = refused("data", "tinystories", "--file", tmp_path / "a.tar.gz", "--tokenizer", tokenizer)
        assert "a.tar.gz is no whole TinyStories_all_data.tar.gz; fetch it anew" in sentence
    for at in range(20, len(whole), 40):  # behind gzip's header, whose date and name may be anything
        write(tmp_path / "a.tar.gz", whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        assert "TinyStories" in refused(
            "data", "tinystories", "--file", tmp_path / "a.tar.gz", "--tokenizer", tokenizer
        )


def test_a_file_that_is_no_list_of_stories(tmp_path, tokenizer, refused):
    source = write(tmp_path / "a.json", '[{"text": "once"}]')
    assert "no file of TinyStories" in refused("data", "tinystories", "--file", source, "--tokenizer", tokenizer)


# -------------------------------------------------------------------------------------------------------------- fineweb


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
    end = (
        "\n" if pages.suffix == ".txt" else ""
    )  # a separator is a line of its own; what is in front of it ends with "\n"
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


def test_fineweb_stops_after_so_many_shards_and_replaces_the_old_ones(tmp_path, tokenizer):
    source = write(tmp_path / "a.txt", "\n<|endoftext|>\n".join(PAGES))
    options = {"file": str(source), "tokenizer": tokenizer, "shard_size": 3000}
    made = data.prepare_corpus("fineweb", **options)
    assert made.folder.name == "fineweb10B" and len(list(made.folder.iterdir())) > 4
    made = data.prepare_corpus("fineweb", shards=2, **options)
    shards = ["fineweb_train_000001.bin", "fineweb_train_000002.bin", "fineweb_val_000000.bin"]
    assert sorted(p.name for p in made.folder.iterdir()) == [*shards, "tokenizer.bin"]


def test_a_source_that_ends_in_an_error_keeps_what_was_written(tmp_path, tokenizer, refused):
    """The shards in front of the bad line are whole, and a smaller corpus."""
    lines = [json.dumps({"text": page}) for page in PAGES]
    source = write(tmp_path / "a.jsonl", "\n".join([*lines, '{"txt": 1}']))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenise, "PIECE", 500)
        sentence = refused("data", "fineweb", "--file", source, "--tokenizer", tokenizer, "--shard-size", 3000)
    assert f"line 401 of {source} is no JSON object" in sentence
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


# ------------------------------------------------------------------------------------------------------------- own text


def test_own_text_with_an_own_tokenizer(tmp_path, home, capsys):
    text = "".join(f"Line {i} says that {i} and {i} are {i + i}. Ünïcödé too.\r\n" for i in range(2000))
    source = write(tmp_path / "my book.txt", text)
    assert cli.main(["data", "--file", str(source), "--name", "mine", "--vocabulary", "400"]) == 0
    said = capsys.readouterr().out
    assert "trained a tokenizer of 400 tokens" in said and said.endswith(f"wrote {home / 'mine'}\n")
    made = data.find_corpus("mine")
    decode = read_tokenizer(made.tokenizer).decode
    train, val = (read_tokens(path, V=400).tolist() for path in (made.train, made.val))
    assert train[0] == val[0] == 399 and decode(train[1:]) + decode(val[1:]) == text
    assert 0.15 < len(val) / (len(train) + len(val)) < 0.25 and decode(val[1:]).startswith("Line ")
    assert cli.main(["data", "--file", str(source)]) == 0  # without a name it gets the file's
    assert not data.find_corpus("my book").missing


def test_documents_of_an_own_text(tmp_path, tokenizer):
    """Lines of <|endoftext|> stand between documents; in a line of other text it is text."""
    parts = [f"Document {i}\n\nhas <|endoftext|> in it\n" for i in range(100)]
    source = write(
        tmp_path / "a.txt", "<|endoftext|>\n" + "<|endoftext|>\r\n".join(parts) + "<|endoftext|>\n<|endoftext|>"
    )
    made = data.prepare_corpus(out_dir=tmp_path / "x", file=str(source), tokenizer=tokenizer)
    ids = [read_tokens(path).tolist() for path in (made.train, made.val)]
    assert sum(part.count(256) for part in ids) == 100
    found = [bytes(map(int, run[:-1])).decode() for part in ids for run in split_at(part, 256)]
    assert found == [part[:-1] for part in parts]


def split_at(ids, end):
    """[end, 1, 2, end, 3] -> [1, 2], [3]."""
    at = [i for i, token in enumerate(ids) if token == end] + [len(ids)]
    return [ids[a + 1 : b] for a, b in zip(at, at[1:])]


def test_text_that_is_not_utf8_names_line_and_byte(tmp_path, refused, monkeypatch):
    lines = [b"a line of text\n"] * 500
    lines[300] = "ä fine ".encode() + b"caf\xe9\n"
    source = write(tmp_path / "a.txt", b"".join(lines))
    for block in (1 << 20, 64, 7):
        monkeypatch.setattr(text_file, "BLOCK", block)
        sentence = refused("data", "--file", source, "--name", "x")
        assert f"{source} is not UTF-8: byte 12 of line 301 is 0xE9; save the file with the encoding UTF-8" in sentence
    write(source, b"".join(lines[:300]) + "ä".encode()[:1])
    assert "byte 1 of line 301 is 0xC3" in refused("data", "--file", source, "--name", "x")
    write(source, ("some text\n" * 500).encode("utf-16"))
    assert "byte 1 of line 1 is 0xFF" in refused("data", "--file", source, "--name", "x")


@pytest.mark.parametrize("block", [5, 16, 1 << 20])
def test_a_text_is_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_file, "BLOCK", block)
    text = "eins\n\nzwei drei\n<|endoftext|>\nvier fünf sechs sieben acht\r\n\n" + "ü" * 40 + " Ende"
    source = write(tmp_path / "a.txt", "\ufeff" + text)
    assert "".join(text_file.blocks(source)) == text
    if block > len("<|endoftext|>\n"):
        parts = list(text_file.documents(source))
        assert "".join(part for _, part in parts) == text.replace("<|endoftext|>\n", "")
        assert sum(begins for begins, _ in parts) == 2
    raw = source.read_bytes()
    for cut in (i for i in range(3, len(raw)) if raw[i] & 0xC0 != 0x80):
        assert "".join(text_file.blocks(source, 0, cut)) + "".join(text_file.blocks(source, cut)) == text


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--file", "none.txt"], "there is no file none.txt"),
        (["nonsense"], 'there is no corpus "nonsense"; known: fineweb, pydocs, tinyshakespeare, tinystories'),
        (["pydocs", "--file", "a.txt"], "pydocs is made from this Python"),
        (["tinystories", "--shards", "3"], "--shards is for fineweb alone"),
        (["fineweb", "--shards", "0"], "must be at least 1"),
        (["--vocabulary", "12"], "a vocabulary of 12 is not possible"),
        (["--vocabulary", "0"], "a vocabulary of 0 is not possible"),
        (["--vocabulary", "300", "--tokenizer", "gpt2"], "leave out --vocabulary 300"),
        (["--tokenizer", "none.bin"], "there is no tokenizer none.bin; choose gpt2, own or"),
        (["--format", "int8"], "invalid choice"),
        (["--name", "a/b"], "cannot name a corpus"),
        (["--name", "tinystories"], "tinystories is the name of another corpus"),
    ],
)
def test_arguments_that_make_no_sense(argv, sentence, refused, home):
    assert sentence in refused("data", *argv)
    assert not home.exists()


def test_a_short_text_and_a_small_vocabulary(tmp_path, refused):
    source = write(tmp_path / "a.txt", "short\n")
    assert "has 6 bytes, and there is nothing to learn from fewer than 1,000" in refused("data", "--file", source)
    write(source, "again and again\n" * 100)
    assert "the text allows" in refused("data", "--file", source)


# ------------------------------------------------------------------------------------------------------------- finding


def test_another_corpus_in_the_folder_is_not_mixed_with(tmp_path, tokenizer, refused):
    text = write(tmp_path / "input.txt", "A line of it.\n\n" * 5000)
    options = ["--file", text, "--tokenizer", tokenizer, "--out", tmp_path / "x"]
    assert cli.main([str(word) for word in ["data", "tinyshakespeare", *options]]) == 0
    for name in ([], ["fineweb"]):
        assert "holds another corpus (tiny_shakespeare_train.bin)" in refused("data", *name, *options)


def test_find_corpus_by_llm_cs_names_and_gpt2s_tokenizer(tmp_path, home, monkeypatch):
    for name in ("x_train_000001.bin", "x_train_000002.bin", "x_val_000000.bin"):
        data.write_tokens(tmp_path / "llmc" / name, np.arange(100))
    monkeypatch.setattr(gpt2, "_from_tiktoken", byte_encoding)
    monkeypatch.setattr(gpt2, "SHA256", "")
    found = data.find_corpus(tmp_path / "llmc")
    assert found.train.name == "x_train_*.bin" and data.count_tokens(found.train) == 200
    assert found.tokenizer == home / "gpt2" / "tokenizer.bin" and read_tokenizer(found.tokenizer).n_vocab == 257
    write_tokenizer(tmp_path / "llmc" / "tokenizer.bin", BYTES)
    assert data.find_corpus(str(tmp_path / "llmc")).tokenizer.parent == tmp_path / "llmc"
    data.write_tokens(tmp_path / "llmc" / "y_train.bin", np.arange(100))
    with pytest.raises(UserError, match="holds several corpora"):
        data.find_corpus(tmp_path / "llmc")


@reference
def test_find_corpus_in_llm_cs_own_folder():
    """It cannot be written to, and its tokenizer lies above it."""
    there = Path(os.environ["LLMC_REFERENCE_DIR"])
    found = data.find_corpus(there / "tinyshakespeare")
    assert not found.missing and found.tokenizer == there / "gpt2_tokenizer.bin"
    assert data.count_tokens(found.train) == 305_260 and data.count_tokens(found.val) == 32_768


def test_large_corpora_are_not_fetched_without_being_asked_for(home):
    with pytest.raises(UserError, match="tinystories is not prepared yet, and it is large: `llmc data tinystories`"):
        data.find_corpus("tinystories")


def test_known_names_are_said(home, tokenizer, tmp_path):
    source = write(tmp_path / "my.txt", "A line of it.\n" * 1000)
    data.prepare_corpus(file=str(source), tokenizer=tokenizer)
    with pytest.raises(UserError, match=r"nor a known corpus \(fineweb, my, pydocs, tinyshakespeare, tinystories\)"):
        data.find_corpus("other")


# ---------------------------------------------------------------------------------------- all cores, in bounded memory


def endless(taken):
    """Documents without end; `taken` counts those that were asked for."""
    for i in count():
        taken.append(i)
        yield True, f"document {i} "


def test_all_cores_give_the_same_tokens_in_the_same_order(monkeypatch):
    monkeypatch.setattr(tokenise, "PIECE", 300)
    pieces = [(i % 3 == 0, f"piece {i}, {'x' * (i % 50)} ") for i in range(600)]
    alone = np.concatenate(list(tokenise.tokenise(pieces, BYTES, processes=1)))
    together = np.concatenate(list(tokenise.tokenise(pieces, BYTES, processes=2)))
    assert np.array_equal(alone, together)
    assert alone.tolist() == [i for begins, text in pieces for i in [256] * begins + list(text.encode())]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_corpus_without_end_needs_the_memory_of_a_few_batches(monkeypatch, tmp_path, processes):
    monkeypatch.setattr(tokenise, "PIECE", 100)
    monkeypatch.setattr(tokenise, "cores", lambda: processes)
    taken, files = [], ((f"{i}.bin", 1000) for i in count())
    written = list(islice(build.write_files(tmp_path, build.Part(endless(taken), files), BYTES), 3))
    assert written == [(f"{i}.bin", 1000) for i in range(3)]
    assert 3000 / 17 < len(taken) < 3000 / 11 + (tokenise.SMALL + 2 * processes + 2) * 10
    assert sorted(p.name for p in tmp_path.glob("*.bin*")) == ["0.bin", "1.bin", "2.bin", "bytes.bin"][:3]


def test_a_killed_worker_is_a_sentence(monkeypatch):
    monkeypatch.setattr(tokenise, "PIECE", 100)
    arrays = tokenise.tokenise(endless([]), BYTES, processes=2)
    next(arrays)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(UserError, match="a process that encodes text ended early"):
        list(islice(arrays, 100))


def test_a_small_text_starts_no_process(monkeypatch):
    monkeypatch.setattr(tokenise, "_in_processes", lambda *_: pytest.fail("started processes"))
    assert (
        sum(a.size for a in tokenise.tokenise([(True, "a" * encoding.PIECE)] * 3, BYTES, 2)) == 3 * encoding.PIECE + 3
    )


def test_pydocs_with_gpt2s_tokenizer_or_a_file(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(pydocs, "collect_documents", lambda: [f"Document {i}.\n" for i in range(50)])
    made = data.prepare_corpus("pydocs", tmp_path / "x", tokenizer=tokenizer)
    assert sorted(documents(made.train) + documents(made.val)) == sorted(f"Document {i}.\n" for i in range(50))
