"""The named presets of training: the numbers of REFERENCE, and options that override them."""

import pytest

from llmc.cli import main
from llmc.errors import UserError
from llmc.tests.tiny_corpus import write_corpus
from llmc.training import RECIPES, TrainSettings
from llmc.training.recipes import recipe
from llmc.training.run_folder.settings_file import read_settings


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_run(name):
    assert TrainSettings(**recipe(name)).preset == "d12"


def test_cpu_demo_is_llmcs():
    s = TrainSettings(**recipe("cpu-demo"))
    assert (s.batch_size, s.sequence_length, s.steps, s.learning_rate) == (4, 64, 40, 1e-4)
    assert (s.beta1, s.beta2, s.eps, s.weight_decay) == (0.9, 0.999, 1e-8, 0.0)
    assert (s.clip, s.schedule, s.warmup, s.shuffle) == (0.0, "constant", 0, False)
    assert (s.val_every, s.val_batches, s.sample_every, s.sample_tokens) == (10, 5, 20, 64)


def test_gpt2_124m_is_ten_billion_tokens():
    s = TrainSettings(**recipe("gpt2-124m"))
    assert s.tokens_per_step == 524_288 and s.tokens_per_step * s.steps == pytest.approx(1e10, rel=0.02)
    assert (s.learning_rate, s.warmup, s.final_fraction, s.weight_decay, s.beta2, s.clip) == (
        6e-4,
        700,
        0,
        0.1,
        0.95,
        1,
    )


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(UserError, match="cpu-demo, gpu-demo, gpt2-124m"):
        recipe("soup")


def test_options_override_the_recipe_and_nothing_else_does(tmp_path, capsys):
    write_corpus(tmp_path / "data")
    options = dict(data=str(tmp_path / "data"), preset="tiny", steps=2, val_every=2, sample_tokens=0)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["train", "--recipe", "cpu-demo", "--out", str(tmp_path / "run"), *words]) == 0
    assert read_settings(tmp_path / "run") == TrainSettings(**{**recipe("cpu-demo"), **options})
