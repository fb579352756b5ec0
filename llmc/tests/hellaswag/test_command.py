"""`llmc eval --hellaswag`: what it prints, and what it refuses."""

import json

import pytest

from llmc.checkpoints import write_model
from llmc.cli import main
from llmc.data.tokenizer import write_tokenizer
from llmc.hellaswag import PUBLISHED, Example, read_eval_file, write_eval_file
from llmc.tests.hellaswag.parrot import ACCURACY, ACCURACY_NORM, EXAMPLES, parrot
from llmc.tests.tiny_corpus import byte_encoding


@pytest.fixture
def files(tmp_path):
    """(model, eval file), as words of a command line."""
    write_model(tmp_path / "parrot.bin", parrot())
    write_eval_file(tmp_path / "x.bin", EXAMPLES)
    return str(tmp_path / "parrot.bin"), str(tmp_path / "x.bin")


def test_the_numbers(files, capsys):
    model, examples = files
    assert main(["eval", model, "--hellaswag", examples, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["accuracy"], found["accuracy_norm"], found["examples"]) == (ACCURACY, ACCURACY_NORM, 4)
    assert found["published"] == PUBLISHED and found["cut"] == 0 and found["model"] == model


def test_the_table(files, capsys):
    model, examples = files
    assert main(["eval", model, "--hellaswag", examples, "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "100.00% ± 0.00% of 2 examples" in out and "GPT-2 1558M   48.89%" in out and f"scored {model} in" in out


def test_the_file_for_llmc(tmp_path, capsys, monkeypatch):
    """`llmc data hellaswag` writes what llm.c's script writes, with GPT-2's tokens unless told otherwise."""
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "data"))
    write_tokenizer(tmp_path / "t.bin", byte_encoding())
    example = {"ctx": "It is", "endings": ["a", "b b", "c", "d"], "label": 2}
    (tmp_path / "h.jsonl").write_text("\n".join([json.dumps(example)] * 3))
    words = ["data", "hellaswag", "--file", str(tmp_path / "h.jsonl"), "--tokenizer"]
    assert main([*words, str(tmp_path / "t.bin")]) == 0
    path = tmp_path / "data" / "hellaswag" / "hellaswag_val.bin"
    assert capsys.readouterr().out == f"wrote {path}: 3 examples\n"
    tokens = [list(text.encode()) for text in ("It is", " a", " b b", " c", " d")]
    assert read_eval_file(path) == [Example(tokens[0], tokens[1:], 2)] * 3
    for more, said in ((["own"], "too small"), ([str(tmp_path / "t.bin"), "--shards", "2"], "leave it out")):
        assert main([*words, *more]) == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, words",
    [
        (["--hellaswag", "x.bin", "--batches", "2"], "leave out --batches"),
        (["--hellaswag", "x.bin", "--tokens", "y.bin"], "leave out --tokens"),
        (["--hellaswag", "x.bin", "--limit", "0"], "--limit must be at least 1"),
        (["--limit", "2"], "--limit is for --hellaswag"),
        (["--hellaswag", "missing.bin"], "missing.bin does not exist"),
        (["--hellaswag", "parrot.bin"], "parrot.bin is not an eval file"),
        (["--hellaswag", "x.jsonl"], "--tokenizer"),
        (["--hellaswag", "x.bin", "--sequence-length", "9"], "T=9"),
    ],
)
def test_refused_in_one_sentence(files, capsys, tmp_path, monkeypatch, more, words):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "parrot.bin", *more]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1 and err.rstrip().endswith(".")


def test_the_model_comes_first(capsys):
    assert main(["eval", "--hellaswag", "runs/tiny"]) == 2
    said = "runs/tiny is not a file of examples; if it is the model, put it first: MODEL --hellaswag."
    assert said in capsys.readouterr().err
