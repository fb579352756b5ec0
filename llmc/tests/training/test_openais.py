"""OpenAI's GPT-2 by its name on the hub: fetched once, then a file of llm.c's like any other."""

import numpy as np
import pytest

from llmc.checkpoints import read_model, write_huggingface
from llmc.cli import main
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.hellaswag import Example, write_eval_file
from llmc.model import GPT2
from llmc.training.find_models import find_model

NAME = "openai-community/gpt2-medium"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data" / "weights"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """(a small model in OpenAI's place on the hub, the names that were asked for)."""
    hub = pytest.importorskip("huggingface_hub")
    model, asked = GPT2(GPT2Config(maxT=8, V=257, L=1, NH=2, C=8)), []
    model.init_weights()
    write_huggingface(tmp_path / "hub", model)

    def fetched(repository, name, **_):
        asked.append((repository, name))
        return str(tmp_path / "hub" / name)

    monkeypatch.setattr(hub, "hf_hub_download", fetched)
    return model, asked


def test_it_is_fetched_once(published, home):
    model, asked = published
    path = find_model(NAME)
    assert path == home / "gpt2-medium.bin" and set(asked) == {(NAME, "config.json"), (NAME, "model.safetensors")}
    np.testing.assert_array_equal(read_model(path).params_flat, model.params_flat)
    asked.clear()
    assert find_model(NAME) == path and not asked


def test_commands_take_the_name(published, tmp_path, capsys):
    write_eval_file(tmp_path / "x.bin", [Example([1, 2], [[3], [4], [5], [6, 7]], 0)])
    assert main(["eval", NAME, "--hellaswag", "x.bin", "--backend", "numpy"]) == 0
    assert "gpt2-medium.bin" in capsys.readouterr().out
    assert main(["export", NAME, "-o", "out"]) == 0 and (tmp_path / "out" / "config.json").is_file()


def test_offline_it_is_one_sentence(home, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def offline():
        raise ConnectionError("no route to host")

    def absent(*_, **__):
        raise hub.utils.LocalEntryNotFoundError("not in the cache")

    monkeypatch.setattr(hub, "hf_hub_download", absent)
    monkeypatch.setattr(hub.utils, "get_session", offline)
    with pytest.raises(UserError, match="cannot fetch openai-community/gpt2-medium .*no route to host") as caught:
        find_model(NAME)
    assert "\n" not in str(caught.value) and not home.exists()


def test_other_names_are_runs_and_the_sentence_says_how_to_fetch(capsys):
    assert main(["sample", "distilbert/distilgpt2"]) == 2
    err = capsys.readouterr().err
    assert "there is no run distilbert/distilgpt2" in err and "init --from distilbert/distilgpt2 -o FILE" in err
