"""`main.log` in llm.c's line format (logger.h), written as the run goes and read back for plots.

s:0 tel:6.9315                       validation loss in front of step 0 (nats per token)
s:0 trl:6.9320 lr:0.000100 norm:4.21 training loss, learning rate and gradient norm of step 0
s:0 eval:0.2951                      HellaSwag accuracy
"""

import os
import re
from pathlib import Path

from llmc.errors import UserError, why

NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))"
PATTERNS = {
    "val": re.compile(rf"s:(\d+) tel:{NUMBER}"),
    "train": re.compile(rf"s:(\d+) trl:{NUMBER} lr:{NUMBER} norm:{NUMBER}"),
    "eval": re.compile(rf"s:(\d+) eval:{NUMBER}"),
}


class LogWriter:
    """Appends whole lines to a log file: each is one write, so a run that is killed leaves no half line.

    A disk that fills up in the middle of a line has the started line cut off again. Raises UserError when it cannot
    write.
    """

    def __init__(self, path):
        self.path = Path(path)
        try:
            self._file = open(self.path, "ab", buffering=0)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {why(error)}; choose another folder.") from error

    def val(self, step, loss):
        """Validation loss (nats per token) of the model after `step` updates."""
        self._line(f"s:{step} tel:{loss:.4f}\n")

    def train(self, step, loss, lr, norm):
        """Loss, learning rate and gradient norm (before clipping) of update number `step`, counted from 0."""
        self._line(f"s:{step} trl:{loss:.4f} lr:{lr:.6f} norm:{norm:.2f}\n")

    def close(self):
        """Close the file; every line is on its way to the disk already."""
        self._file.close()

    def _line(self, text):
        data = text.encode("ascii")
        start = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(data) == len(data):
                return
            reason = "No space left on device"
        except OSError as error:
            reason = why(error)
        self._file.truncate(start)
        raise UserError(f"cannot write {self.path}: {reason}; free some space or choose another folder.")


def read_log(path) -> dict:
    """{"val": [(step, loss)], "train": [(step, loss, lr, norm)], "eval": [(step, accuracy)]}, each in order of steps.

    A step that occurs twice (a run that was resumed) counts once, with the later line; a last line without its end is
    ignored. Reads llm.c's own logs too. Raises UserError for a missing file and for a line of another form.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read the log {path}: {why(error)}.") from error
    found = {name: {} for name in PATTERNS}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        name, row = _parse(line)
        if name is None:
            raise UserError(f"line {number} of {path} is not a line of llm.c's log: {line[:60]!r}.")
        found[name][row[0]] = row
    return {name: [rows[step] for step in sorted(rows)] for name, rows in found.items()}


def _parse(line):
    """("val", (0, 6.9315)) for "s:0 tel:6.9315"; (None, None) for anything else."""
    for name, pattern in PATTERNS.items():
        match = pattern.fullmatch(line.strip())
        if match:
            return name, (int(match[1]), *(float(x) for x in match.groups()[1:]))
    return None, None
