"""The recipes of training: the numbers of REFERENCE, and options that override them."""

from dataclasses import replace
from math import log

import pytest

from llmc.cli import main
from llmc.config import PRESETS, GPT2Config, preset
from llmc.errors import UserError
from llmc.tests.tiny_corpus import V, write_corpus
from llmc.training import RECIPES, Trainer, TrainSettings
from llmc.training.recipes import recipe
from llmc.training.settings_file import read_settings

GPT = {  # what llm.c's scripts/run_gpt*.sh give, and the tokens that their comments speak of
    "gpt2-124m": ("d12", "fineweb10B", 64, 1024, 524_288, 18_865, 6e-4, 0.0, 1e10),
    "gpt2-350m": ("d24", "fineweb100B", 64, 1024, 524_288, 60_000, 3e-4, 0.0, 31.5e9),
    "gpt2-774m": ("d36", "fineweb100B", 32, 1024, 524_288, 286_102, 2.5e-4, 0.0, 150e9),
    "gpt2-1558m": ("d48", "edu_fineweb100B", 16, 1024, 1_048_576, 32_000, 6e-4, 0.1, 32e9),
    "gpt3-125m": ("gpt3-125m", "fineweb100B", 32, 2048, 524_288, 572_204, 6e-4, 0.1, 300e9),
}


def test_cpu_demo_is_llmcs():
    s = TrainSettings(**recipe("cpu-demo"))
    assert (s.preset, s.batch_size, s.sequence_length, s.steps, s.learning_rate) == ("d12", 4, 64, 40, 1e-4)
    assert (s.beta1, s.beta2, s.eps, s.weight_decay) == (0.9, 0.999, 1e-8, 0.0)
    assert (s.clip, s.schedule, s.warmup, s.order) == (0.0, "constant", 0, "llm.c")
    assert (s.val_every, s.val_batches, s.sample_every, s.sample_tokens) == (10, 5, 20, 64)


@pytest.mark.parametrize("name", GPT)
def test_the_reproductions_are_llmcs(name):
    s = TrainSettings(**recipe(name))
    numbers = s.preset, s.data, s.batch_size, s.sequence_length, s.tokens_per_step, s.steps, s.learning_rate
    assert (*numbers, s.final_fraction) == GPT[name][:-1]
    assert s.tokens_per_step * s.steps == pytest.approx(GPT[name][-1], rel=0.05)
    assert (s.warmup, s.weight_decay, s.beta1, s.beta2, s.clip) == (700, 0.1, 0.9, 0.95, 1.0)
    assert (s.schedule, s.order, s.precision, s.master_weights, s.zero) == ("cosine", "llm.c", "bf16", True, 1)
    assert (s.val_every, s.val_batches, s.hellaswag_every) == (250, 20, 250)
    assert preset(s.preset).maxT == s.sequence_length
    assert s.shared_by(8) == s  # on eight GPUs, as llm.c


@pytest.mark.parametrize("name", GPT)
def test_every_reproduction_is_planned(name, capsys):
    assert main(["train", "--recipe", name, "--dry-run", "--ranks", "8"]) == 0
    out = capsys.readouterr().out
    assert f"activations (B={GPT[name][2]}, T={GPT[name][3]})" in out and "our part of the gradients" in out
    padded = preset(GPT[name][0]).num_parameters_padded
    assert f"{2 * padded / 2**20:,.2f} MiB" in out  # of bfloat16


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_starts(name, tmp_path, monkeypatch):
    """With everything as it is but the sizes of the model and of a step, and the number of steps."""
    s = TrainSettings(**recipe(name))
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setitem(PRESETS, s.preset, GPT2Config(maxT=16, L=1, NH=2, C=16))
    write_corpus(tmp_path / "data" / s.data)
    less = dict(batch_size=2, sequence_length=16, total_batch_size=64, val_batches=1, steps=2, hellaswag_every=0)
    trainer = Trainer(replace(s, **less))
    before = trainer.validate()
    loss, lr, norm = trainer.train_step()
    assert loss == pytest.approx(log(V), rel=0.02) and norm > 0
    assert lr == pytest.approx(s.learning_rate / max(1, s.warmup)) and trainer.validate() != before


def test_what_a_recipe_needs_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMC_DATA_DIR", str(tmp_path))
    with pytest.raises(UserError, match="edu_fineweb100B is a large corpus.* data fineweb --kind edu --sample 100B"):
        Trainer(TrainSettings(**recipe("gpt2-1558m")))


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(UserError, match="cpu-demo, gpu-demo, gpt2-124m"):
        recipe("soup")


def test_options_override_the_recipe_and_nothing_else_does(tmp_path, capsys):
    write_corpus(tmp_path / "data")
    options = dict(data=str(tmp_path / "data"), preset="tiny", steps=2, val_every=2, sample_tokens=0)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["train", "--recipe", "cpu-demo", "--out", str(tmp_path / "run"), *words]) == 0
    assert read_settings(tmp_path / "run") == TrainSettings(**{**recipe("cpu-demo"), **options})
