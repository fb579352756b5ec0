"""The one rule for folders that code is loaded from."""

import os

import pytest

from llmc.files.cache_folder import OPEN, objection


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such modes")
def test_it_is_the_users_alone(tmp_path, monkeypatch):
    assert objection(tmp_path / "new") == "" and (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    for mode, against in ((0o755, ""), (0o775, OPEN), (0o757, OPEN)):
        tmp_path.chmod(mode)
        assert objection(tmp_path) == against
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert objection(tmp_path / "new") == OPEN
