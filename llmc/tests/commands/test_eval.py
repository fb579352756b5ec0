"""`llmc eval`: the numbers of a model on tokens, against a calculation by hand; files that do not belong together."""

import json
from math import exp, log

import numpy as np
import pytest

from llmc.checkpoints import read_debug_state, read_model, write_model
from llmc.cli import main
from llmc.config import GPT2Config
from llmc.data import write_tokens
from llmc.data.tokenizer import END_OF_TEXT, make_encoding, write_tokenizer
from llmc.errors import UserError
from llmc.evaluation import baselines, token_losses
from llmc.model import GPT2
from llmc.tests.tiny_corpus import V, byte_encoding, write_corpus
from llmc.training import TrainSettings, read_log, train

TEXT = np.array([256, *("the end of it → " * 9).encode()], np.uint16)  # (163,) as byte_encoding has it


@pytest.fixture
def model(tmp_path):
    model = GPT2(GPT2Config(maxT=16, V=V, L=1, NH=2, C=8))
    model.init_weights()
    model.params_flat[...] *= 3
    write_model(tmp_path / "model" / "m.bin", model)
    return model


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "data" / "x.bin"
    write_tokens(path, TEXT)
    return path


@pytest.fixture
def evaluated(tmp_path, tokens, model, capsys):
    """`llmc eval` of the model on the tokens, B=2 T=8 by default; returns its JSON."""

    def run(*more, on=tokens):
        shape = [] if "--batch-size" in more else ["--batch-size", 2, "--sequence-length", 8]
        arguments = ["eval", tmp_path / "model" / "m.bin", "--tokens", on, *shape, *more, "--json"]
        assert main([str(a) for a in arguments]) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out)

    return run


@pytest.fixture
def refused(tmp_path, tokens, model, capsys):
    """Checks that `llmc eval` refuses in one sentence that holds all of the words."""

    def check(arguments, *words, model="model/m.bin"):
        assert main([str(a) for a in ["eval", tmp_path / model, *arguments]]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("llmc: ") and err.count("\n") == 1 and err.rstrip().endswith(".")
        assert all(word in err for word in words), err

    return check


def by_hand(model, count=160, T=8):
    """Sum of the nats of the first `count` predicted tokens."""
    x, y = TEXT[:count].reshape(-1, T).astype(np.int32), TEXT[1 : count + 1].reshape(-1, T).astype(np.int32)
    return float(token_losses(model, x, y).sum(dtype=np.float64))


# ------------------------------------------------------------------------------------------------ the numbers


def test_token_losses_are_the_terms_of_the_loss(model):
    x, y = TEXT[:32].reshape(4, 8).astype(np.int32), TEXT[1:33].reshape(4, 8).astype(np.int32)
    found = token_losses(model, x, y)
    assert found.shape == (4, 8) and found.dtype == np.float32
    assert found.mean(dtype=np.float64) == pytest.approx(model.loss(x, y), rel=1e-12)
    z = model.logits(x)[..., :V].astype(np.float64)  # (4, 8, V)
    expected = np.log(np.exp(z).sum(-1)) - np.take_along_axis(z, y[..., None], -1)[..., 0]
    assert found == pytest.approx(expected, abs=1e-5)
    model.logits(x[::-1])
    assert found == pytest.approx(expected, abs=1e-5)  # a copy, not the model's buffer
    with pytest.raises(UserError, match="targets"):
        token_losses(model, x, y[:2])


def test_loss_perplexity_and_bits_per_byte(evaluated, model, tmp_path):
    write_tokenizer(tmp_path / "data" / "tokenizer.bin", byte_encoding())
    found, nats = evaluated(), by_hand(model)
    assert (found["tokens"], found["B"], found["T"], found["bytes"]) == (160, 2, 8, 160)
    assert found["loss"] == pytest.approx(nats / 160, rel=1e-6)
    assert found["perplexity"] == pytest.approx(exp(nats / 160), rel=1e-6)
    assert found["bits_per_byte"] == pytest.approx(nats / 160 / log(2), rel=1e-6)
    assert found["baselines"] == {"uniform": log(V)}


def test_the_end_of_text_has_no_bytes(evaluated, model, tmp_path):
    """Only predicted tokens count: all but the first, which may be an end of text too."""
    write_tokens(tmp_path / "data" / "y.bin", [5, 256, 7, 8, 256, 9, 10, 11, 12])
    write_tokenizer(tmp_path / "data" / "tokenizer.bin", byte_encoding())
    found = evaluated("--batch-size", 1, "--sequence-length", 8, on=tmp_path / "data" / "y.bin")
    assert found["bytes"] == 6 and found["bits_per_byte"] == pytest.approx(8 * found["loss"] / 6 / log(2))


def test_without_a_tokenizer_there_is_only_a_loss(evaluated, tmp_path, tokens, capsys):
    found = evaluated()
    assert found["bits_per_byte"] is None and found["bytes"] is None and found["loss"] > 0
    main(["eval", str(tmp_path / "model" / "m.bin"), "--tokens", str(tokens)])
    assert capsys.readouterr().out.count("--tokenizer") == 1


@pytest.mark.parametrize("place", ["data/tokenizer.bin", "model/tokenizer.bin", "other/t.bin"])
def test_places_of_the_tokenizer(evaluated, tmp_path, place):
    write_tokenizer(tmp_path / place, byte_encoding())
    more = ["--tokenizer", tmp_path / place] if place.startswith("other") else []
    assert evaluated(*more)["bytes"] == 160


def test_the_first_batches_and_several_files(evaluated, model, tmp_path):
    assert evaluated("--batches", 3)["loss"] == pytest.approx(by_hand(model, 48) / 48, rel=1e-6)
    write_tokens(tmp_path / "shards" / "s_0.bin", TEXT)
    write_tokens(tmp_path / "shards" / "s_1.bin", TEXT)
    found = evaluated(on=tmp_path / "shards" / "s_*.bin")
    assert found["tokens"] == 320 and found["loss"] == pytest.approx(by_hand(model) / 160, rel=1e-6)


def test_the_default_shape(tmp_path, model, tokens, capsys):
    """All positions, 1024 tokens at a time, or fewer if the file is short."""
    for repeat, B in ((20, 64), (1, 10)):
        write_tokens(tokens, np.tile(TEXT, repeat))
        assert main(["eval", str(tmp_path / "model" / "m.bin"), "--tokens", str(tokens), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["B"], found["T"]) == (B, 16)


def test_baselines_of_training_tokens(evaluated, tmp_path):
    train = np.tile(TEXT, 3)
    write_tokens(tmp_path / "train.bin", train)
    found = evaluated("--train-tokens", tmp_path / "train.bin", "--batches", 2)["baselines"]
    assert found == pytest.approx(baselines(train, TEXT[:33], V))


def test_a_run_is_measured_on_its_own_validation_data(tmp_path, capsys):
    """Without options, it finds the last number that training logged."""
    corpus = write_corpus(tmp_path / "data")
    s = TrainSettings(data=str(corpus.val.parent), batch_size=2, sequence_length=16, steps=2, val_every=2)
    train(replace_out(s, tmp_path / "run"), quiet=True)
    assert main(["eval", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] == pytest.approx(read_log(tmp_path / "run" / "main.log")["val"][-1][1], abs=1e-4)
    assert found["data"] == str(corpus.val) and found["T"] == 16 and found["bytes"]


def replace_out(settings, out):
    return TrainSettings(**{**vars(settings), "out": str(out)})


def test_the_loss_that_pytorch_found(reference_dir):
    model = read_model(reference_dir / "llmc_small" / "model.bin")
    state = read_debug_state(reference_dir / "llmc_small" / "debug_state.bin", model.config)
    assert token_losses(model, state.x, state.y).mean() == pytest.approx(state.loss, abs=1e-5)


def test_an_untrained_gpt2_knows_nothing(reference_dir, tmp_path, capsys):
    """With GPT-2's vocabulary and tokens: ln 50257, within the error of random weights."""
    model = GPT2(GPT2Config(maxT=16, L=1, NH=1, C=4))
    model.init_weights()
    write_model(tmp_path / "m.bin", model)
    val = reference_dir / "tinyshakespeare" / "tiny_shakespeare_val.bin"
    tokenizer = reference_dir / "gpt2_tokenizer.bin"
    arguments = ["eval", tmp_path / "m.bin", "--tokens", val, "--tokenizer", tokenizer, "--batches", 1, "--json"]
    assert main([str(a) for a in arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] == pytest.approx(log(50257), abs=0.05)
    assert 2 < found["bytes"] / found["tokens"] < 5  # Shakespeare: 3.3 bytes a token


# --------------------------------------------------------------------------------------------- what is refused


def test_a_token_that_the_model_does_not_have(refused, tokens):
    write_tokens(tokens, [1, 2, V, 3] * 30)
    refused(["--tokens", tokens], "x.bin", str(V))


def test_bad_shapes(refused, tokens):
    refused(["--tokens", tokens, "--sequence-length", 17], "T=17", "maxT=16")
    refused(["--tokens", tokens, "--sequence-length", 0], "T=0")
    refused(["--tokens", tokens, "--batch-size", 0], "B=0")
    refused(["--tokens", tokens, "--batch-size", 1000], "a batch size of at most")
    refused(["--tokens", tokens, "--batch-size", 1, "--batches", 0], "--batches must be at least 1")


def test_files_that_are_not_there(refused, tokens, tmp_path):
    refused([], "--tokens")
    refused(["--tokens", tmp_path / "none.bin"], "none.bin")
    refused(["--tokens", tmp_path / "none_*.bin"], "none_*.bin")
    refused(["--tokens", tokens, "--tokenizer", tmp_path / "t.bin"], "t.bin")
    refused(["--tokens", tokens], "no run", model="nowhere")


def test_tokenizers_that_do_not_belong_together(refused, tokens, tmp_path):
    other = make_encoding([*(bytes([b]) for b in range(255, -1, -1)), END_OF_TEXT.encode()], 256)
    write_tokenizer(tmp_path / "data" / "tokenizer.bin", byte_encoding())
    write_tokenizer(tmp_path / "model" / "tokenizer.bin", other)
    refused(["--tokens", tokens], "different tokenizers", "--tokenizer")
    more = make_encoding([*(bytes([b]) for b in range(256)), b"th", END_OF_TEXT.encode()], 257)
    write_tokenizer(tmp_path / "data" / "tokenizer.bin", more)
    refused(["--tokens", tokens], "the model has 257 tokens", "has 258;", "do not belong together")


def test_a_model_that_diverged(refused, tokens, model, tmp_path):
    for value, words in ((1e30, "not a number"), (np.nan, "has NaN in wte")):
        model.params_flat[...] = value
        write_model(tmp_path / "model" / "m.bin", model)
        refused(["--tokens", tokens], words, "lower learning rate")
