import argparse
import json
import sys

import numpy as np
import pytest

from llmc.checkpoints import read_model, write_model
from llmc.commands import verify
from llmc.errors import UserError
from llmc.parity import compare
from llmc.parity.cases import CASES
from llmc.parity.compare import read_losses
from llmc.tests.llmc_files import write_files


def arguments(*words):
    parser = argparse.ArgumentParser()
    verify.add_arguments(parser)
    return parser.parse_args([str(w) for w in words])


@pytest.fixture
def files(tmp_path):
    """A model, its debug state and its losses from PyTorch's fixture, in files such as llm.c writes."""
    write_files(CASES[0], tmp_path)
    return tmp_path


@pytest.fixture(params=["numpy", "cpu", "cuda"])
def name_of_backend(request):
    """Each backend by name; "cuda" runs on the emulator where there is no GPU."""
    if request.param == "cuda" and sys.platform == "win32":
        pytest.skip("the emulator does not run on Windows")
    return request.param


@pytest.mark.parametrize("recipe", ["A", "B"])
def test_a_right_model_is_okay(files, capsys, recipe, name_of_backend):
    losses = ("--recipe", recipe, "--losses", files / "losses.json", "--backend", name_of_backend)
    assert verify.run(arguments(files / "model.bin", files / "state.bin", *losses)) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("overall okay: 1\n")
    assert printed.count("\nok ") == 1 + 1 + 16 + 10
    assert "NOT OK" not in printed


def test_one_wrong_weight_is_not_okay(files, capsys):
    model = read_model(files / "model.bin")
    model.params["fcw"][1, 3, 4] += 0.01
    write_model(files / "model.bin", model)
    assert verify.run(arguments(files / "model.bin", files / "state.bin")) == 1
    printed = capsys.readouterr().out
    assert "NOT OK" in printed
    assert printed.endswith("overall okay: 0\n")


def test_nan_is_not_okay(files, capsys, monkeypatch):
    model = read_model(files / "model.bin")
    model.params["lnfb"][0] = np.nan
    write_model(files / "model.bin", model)
    with pytest.raises(UserError, match="has NaN in lnfb"):
        verify.run(arguments(files / "model.bin", files / "state.bin"))
    monkeypatch.setattr(verify, "load_model", lambda path, backend, precision: model)
    with np.errstate(all="ignore"):
        assert verify.run(arguments(files / "model.bin", files / "state.bin")) == 1
    assert capsys.readouterr().out.endswith("overall okay: 0\n")


def test_losses_that_are_off_are_not_okay(files, capsys):
    losses = json.loads((files / "losses.json").read_text())
    (files / "losses.json").write_text(json.dumps([loss + 0.001 for loss in losses["A"]]))
    assert verify.run(arguments(files / "model.bin", files / "state.bin", "--losses", files / "losses.json")) == 1
    assert "overall okay: 0" in capsys.readouterr().out


def test_all_lists_of_a_recipe_must_agree(files, capsys):
    losses = json.loads((files / "losses.json").read_text())["A"]
    (files / "losses.json").write_text(json.dumps({"A near": losses, "A far": [loss + 0.001 for loss in losses]}))
    assert verify.run(arguments(files / "model.bin", files / "state.bin", "--losses", files / "losses.json")) == 1
    printed = capsys.readouterr().out
    assert printed.count("NOT OK loss, step") == 10 and f"{losses[0] + 0.001:.7f}" in printed


@pytest.mark.parametrize("lr, status", [(1e-4, 0), (0.0, 1), (np.nan, 1)])
def test_without_expected_losses_ten_must_be_finite_and_fall(files, capsys, monkeypatch, lr, status):
    monkeypatch.setitem(compare.RECIPES, "A", compare.RECIPES["A"] | {"lr": lr})
    with np.errstate(all="ignore"):
        assert verify.run(arguments(files / "model.bin", files / "state.bin")) == status
    printed = capsys.readouterr().out
    assert printed.endswith(f"overall okay: {1 - status}\n")
    assert printed.count("NOT OK loss, step") == (9 if np.isnan(lr) else 0)
    assert ("NOT OK ten losses" in printed) == bool(status)


@pytest.mark.parametrize("name", ["model.bin", "model_bf16.bin"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_16_bits_are_verified_with_their_own_tolerance(reference_dir, capsys, precision, name):
    folder = reference_dir / "llmc_small"
    words = (folder / name, folder / "debug_state.bin", "--losses", folder / "losses.json")
    assert verify.run(arguments(*words, "--precision", precision)) == 0
    assert capsys.readouterr().out.endswith("overall okay: 1\n")


def test_tf32_is_verified_with_its_own_tolerance(reference_dir, capsys):
    folder = reference_dir / "llmc_small"
    words = (folder / "model.bin", folder / "debug_state.bin", "--losses", folder / "losses.json")
    assert verify.run(arguments(*words, "--backend", "cuda", "--precision", "tf32")) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("overall okay: 1\n") and " 2e-02" in printed


def test_bfloat16_weights_are_verified_with_their_own_tolerance(files, capsys):
    write_model(files / "half.bin", read_model(files / "model.bin"), "bfloat16")
    verify.run(arguments(files / "half.bin", files / "state.bin"))
    assert "tolerances allow for the rounding" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["model.bin", "model_bf16.bin"])
@pytest.mark.parametrize("recipe", ["A", "B"])
def test_files_made_by_llmc_are_okay(reference_dir, name_of_backend, capsys, name, recipe):
    folder = reference_dir / "llmc_small"
    words = (folder / name, folder / "debug_state.bin", "--recipe", recipe, "--losses", folder / "losses.json")
    assert verify.run(arguments(*words, "--backend", name_of_backend)) == 0
    assert capsys.readouterr().out.endswith("overall okay: 1\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2]", "does not hold 10 losses"),
        ('{"B": [1]}', "10 losses for recipe A"),
        ("no", "damaged: it is not JSON"),
    ],
)
def test_bad_losses_files_are_refused(tmp_path, content, words):
    (tmp_path / "l.json").write_text(content)
    with pytest.raises(UserError, match=words):
        read_losses(tmp_path / "l.json", "A")


def test_missing_losses_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_losses(tmp_path / "none.json", "A")
