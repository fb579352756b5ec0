"""`llmc.parity.curves`: the same weights and batches in every precision."""

import json

import pytest

from llmc.errors import UserError
from llmc.parity import curves


def test_curves_are_written_drawn_and_near_float32s(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(curves, "LAST", 3)
    words = "--data pydocs --backend cpu --preset tiny --steps 6 -B 1 -T 8".split()
    assert curves.main([str(tmp_path / "curves.json"), *words]) == 0
    found = json.loads((tmp_path / "curves.json").read_text())["losses"]
    assert found.keys() == {*curves.WAYS, "PyTorch's autocast"} - {"tf32"} and (tmp_path / "curves.png").stat().st_size
    out, err = capsys.readouterr()
    assert "tf32: the cpu backend does not compute in tf32" in err and out.count("% of fp32's") == 5
    for name, (first, _, apart) in curves.summary(found).items():
        assert first == pytest.approx(found["fp32"][0], rel=2e-3) and abs(apart) < 5e-3
        assert name == "fp32" or found[name] != found["fp32"]


def test_what_not_even_float32_can_train_is_refused(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        curves.main([str(tmp_path / "curves.json"), *"--data nowhere --backend cpu --preset tiny".split()])
    assert not any(tmp_path.iterdir())
