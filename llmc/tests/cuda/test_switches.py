"""LLMC_CHECK and LLMC_GRAPHS: 1, 0, or a sentence."""

import pytest

from llmc.cli import main
from llmc.cuda import recorder
from llmc.errors import UserError
from llmc.switches import switch
from llmc.tests.tiny_corpus import write_corpus


@pytest.mark.parametrize("value, wanted", [(None, None), ("", None), ("1", True), ("0", False)])
def test_a_switch_is_on_off_or_not_set(monkeypatch, value, wanted):
    monkeypatch.delenv("LLMC_CHECK", raising=False)
    if value is not None:
        monkeypatch.setenv("LLMC_CHECK", value)
    assert switch("LLMC_CHECK") is wanted


@pytest.mark.parametrize("value, recorded", [(None, True), ("1", True), ("0", False)])
def test_work_is_recorded_unless_graphs_are_off(monkeypatch, value, recorded):
    monkeypatch.setattr(recorder, "_on", None)
    monkeypatch.delenv("LLMC_GRAPHS", raising=False)
    if value is not None:
        monkeypatch.setenv("LLMC_GRAPHS", value)
    assert recorder.graphs() is recorded and recorder.graphs(not recorded) is recorder.graphs() is not recorded


@pytest.mark.parametrize("name", ["LLMC_CHECK", "LLMC_GRAPHS"])
@pytest.mark.parametrize("value", ["yes", "2", " 1"])
def test_another_value_is_refused(monkeypatch, tmp_path, capsys, name, value):
    monkeypatch.setattr(recorder, "_on", None)
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"^{name} is '{value}'; set it to 1 or 0, or unset it.$"):
        switch(name)
    options = [
        "--backend",
        "cuda",
        "--steps",
        "1",
        "--batch-size",
        "1",
        "--sequence-length",
        "4",
        "--sample-tokens",
        "1",
    ]
    data = write_corpus(tmp_path / "data").train.parent
    capsys.readouterr()
    assert main(["train", "--data", str(data), "--out", str(tmp_path / "run"), *options]) == 2
    assert capsys.readouterr().err == f"llmc: {name} is '{value}'; set it to 1 or 0, or unset it.\n"
