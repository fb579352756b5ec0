"""A file is written whole or not at all, and takes the place of nothing but a file."""

import errno
import os
import sys

import pytest

from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("old", "new"):
        with atomic_write(path, "w") as file:
            file.write(text)
            assert not path.exists() or path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(path.parent) == ["a.txt"]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("number, words", [(errno.EMFILE, "close some files"), (errno.ENOSPC, "free some space or")])
def test_the_advice_is_about_what_is_missing(tmp_path, number, words):
    with pytest.raises(UserError, match=f"cannot write .*: {os.strerror(number)}; {words}"):
        with atomic_write(tmp_path / "x"):
            raise OSError(number, os.strerror(number))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device"])
def test_what_is_no_file_keeps_its_place(tmp_path, kind):
    path = tmp_path / "place"
    {"pipe": os.mkfifo, "folder": os.mkdir}.get(kind, lambda path: os.symlink(os.devnull, path))(path)
    before = os.lstat(path).st_ino, os.lstat(path).st_mode
    with pytest.raises(UserError, match="place: it is not a regular file"), atomic_write(path) as file:
        file.write(b"new")
    assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == before
