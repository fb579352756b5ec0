"""main.log: llm.c's own lines, whole lines only, read back as written."""

import math
import os

import pytest

from llmc.errors import UserError
from llmc.training import LogWriter, read_log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "main.log"


def test_lines_have_llmc_form(path):
    log = LogWriter(path)
    log.val(0, 10.98765)
    log.train(0, 10.9, 0.0006, 12.345)
    assert path.read_text() == "s:0 tel:10.9877\ns:0 trl:10.9000 lr:0.000600 norm:12.35\n"  # on disk before close
    log.close()


def test_reads_back_what_it_wrote(path):
    log = LogWriter(path)
    for step in range(3):
        log.train(step, 5.0 - step, 0.001, 1.5)
    log.val(3, 2.25)
    log.close()
    rows = [(0, 5.0, 0.001, 1.5), (1, 4.0, 0.001, 1.5), (2, 3.0, 0.001, 1.5)]
    assert read_log(path) == {"val": [(3, 2.25)], "train": rows, "eval": []}


def test_reads_llmc_lines_of_every_kind(path):
    path.write_text(
        "s:0 tel:11.0061\ns:0 eval:0.2463\ns:0 trl:11.0085 lr:0.000001 norm:15.37\ns:1 trl:nan lr:0.000002 norm:inf\n"
    )
    log = read_log(path)
    assert log["eval"] == [(0, 0.2463)] and log["val"] == [(0, 11.0061)]
    assert math.isnan(log["train"][1][1]) and log["train"][1][3] == math.inf


def test_a_log_that_goes_back_counts_what_was_made_again(path):
    """Killed after step 20, resumed from a checkpoint of step 10, with or without a validation before that step."""
    killed = [f"s:{step} trl:5.{step:04d} lr:0.001000 norm:1.00\n" for step in range(20)]
    killed[10:10] = ["s:10 tel:4.0000\n"]
    again = "s:10 trl:6.0000 lr:0.001000 norm:1.00\n"
    path.write_text("".join(killed) + "s:20 tel:3.0000\n" + again)
    log = read_log(path)
    assert [row[0] for row in log["train"]] == list(range(11)) and log["train"][10][1] == 6.0
    assert log["val"] == [(10, 4.0)]
    path.write_text("".join(killed) + "s:20 tel:3.0000\ns:10 tel:3.9000\n" + again)
    assert read_log(path)["val"] == [(10, 3.9)] and len(read_log(path)["train"]) == 11


def test_a_log_has_one_writer_at_a_time(path):
    log = LogWriter(path)
    with pytest.raises(UserError, match="another process"):
        LogWriter(path)
    log.close()
    LogWriter(path).close()


def test_an_incomplete_line_at_the_end_is_removed_before_the_next(path):
    path.write_text("s:0 tel:5.0000\ns:1 trl:4.9")
    log = LogWriter(path)
    log.val(1, 4.0)
    log.close()
    assert read_log(path)["val"] == [(0, 5.0), (1, 4.0)]


def test_an_incomplete_last_line_is_ignored(path):
    path.write_text("s:0 tel:5.0000\ns:1 trl:4.9")
    assert read_log(path) == {"val": [(0, 5.0)], "train": [], "eval": []}


@pytest.mark.parametrize("line", ["hello", "", "s:1 trl:4.9", "s:-1 tel:1.0", "s:1 tel:1.0 x"])
def test_a_foreign_line_is_refused_with_its_number(path, line):
    path.write_text(f"s:0 tel:5.0000\n{line}\n")
    with pytest.raises(UserError, match="line 2"):
        read_log(path)


def test_a_missing_log_is_one_sentence(path):
    with pytest.raises(UserError, match="does not exist; give the main.log"):
        read_log(path)


def test_a_log_that_cannot_be_opened_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        LogWriter(tmp_path / "file" / "main.log")


class FullDisk:
    """A file that accepts only as many bytes as there is room."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        written = self.file.write(data[: self.room])
        self.room -= written
        return written

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_disk_that_fills_up_leaves_no_half_line(path):
    log = LogWriter(path)
    log._file = FullDisk(log._file, room=20)
    log.val(0, 5.0)
    with pytest.raises(UserError, match="No space left"):
        log.val(1, 4.0)
    assert path.read_bytes() == b"s:0 tel:5.0000\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_or_a_device_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")  # which never ends: reading it would go on until memory is full
    for name in ("pipe", "device"):
        with pytest.raises(UserError, match=f"cannot write .*{name}: it is not a regular file"):
            LogWriter(tmp_path / name)
