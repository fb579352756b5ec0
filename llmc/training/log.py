"""`main.log` in llm.c's line format (logger.h), written as the run goes and read back for plots.

s:0 tel:6.9315                       validation loss before step 0 (nats per token)
s:0 trl:6.9320 lr:0.000100 norm:4.21 training loss, learning rate and gradient norm of step 0
s:0 eval:0.2951                      HellaSwag accuracy
"""

import errno
import os
import re
from pathlib import Path

from llmc.errors import UserError, cannot
from llmc.files.reading import opened

LOG = "main.log"
NUMBER = r"([-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf))"
LINES = {
    "val": "s:{} tel:{:.4f}\n",
    "eval": "s:{} eval:{:.4f}\n",
    "train": "s:{} trl:{:.4f} lr:{:.6f} norm:{:.2f}\n",
}
PATTERNS = {  # in the order in which a step writes its lines
    "val": re.compile(rf"s:(\d{{1,18}}) tel:{NUMBER}"),
    "eval": re.compile(rf"s:(\d{{1,18}}) eval:{NUMBER}"),
    "train": re.compile(rf"s:(\d{{1,18}}) trl:{NUMBER} lr:{NUMBER} norm:{NUMBER}"),
}
FAR = 1 << 30  # Windows locks bytes and hides them from readers, so lock a byte that the file never has
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class LogWriter:
    """Appends lines to a log file, each in a single write, so that a killed run leaves no partial line.

    If the disk fills up in the middle of a line, that line is removed; a partial line left by a crash of the machine is
    removed when the log is opened. Raises UserError if it cannot write, and if another process has the log open, so
    that two processes never write to the same run.
    """

    def __init__(self, path):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():  # a pipe has no end to append to, a device none to read to
            raise UserError(f"cannot write {self.path}: it is not a regular file; remove it, or choose another folder.")
        try:
            self._file = open(self.path, "a+b", buffering=0)
        except OSError as error:
            raise cannot(f"write {self.path}", error) from error
        if not try_lock(self._file):
            self._file.close()
            raise UserError(f"another process is writing {self.path}; wait until it ends, or stop it first.")
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)

    def val(self, step, loss):
        """Validation loss (nats per token) of the model after `step` updates."""
        self._write(LINES["val"].format(step, loss))

    def eval(self, step, accuracy):
        """Accuracy on HellaSwag of the model after `step` updates."""
        self._write(LINES["eval"].format(step, accuracy))

    def train(self, step, loss, lr, norm):
        """Loss, learning rate and gradient norm (before clipping) of update number `step`, counted from 0."""
        self._write(LINES["train"].format(step, loss, lr, norm))

    def rewrite(self, history):
        """Replace the file's contents by a history, in the form of read_log."""
        self._file.truncate(0)
        rows = [(row[0], kind, row) for kind, rows in history.items() for row in rows]
        rows.sort(key=lambda item: (item[0], list(LINES).index(item[1])))
        self._write("".join(LINES[kind].format(*row) for _, kind, row in rows))

    def is_in_place(self) -> bool:
        """Whether the file still has its name: False if it, or its folder, was moved or deleted."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except OSError:
            return False

    def close(self):
        """Close the file; the system already has every line."""
        self._file.close()

    def _write(self, text):
        data = text.encode("ascii")
        start = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(data) == len(data):
                return
            reason = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            reason = error
        self._file.truncate(start)
        raise cannot(f"write {self.path}", reason)


def read_log(path) -> dict:
    """{"val": [(step, loss)], "train": [(step, loss, lr, norm)], "eval": [(step, accuracy)]}, each in order of steps.

    A run that was killed and resumed repeats the steps after its last checkpoint, so the log jumps back; for those
    steps only the last lines count. An incomplete last line is ignored. Also reads llm.c's own logs. Raises UserError
    for a missing file and for a line in any other format.
    """
    with opened(path, "give the main.log of a run") as file:
        text = file.read().decode("utf-8", "replace")
    lines = []  # (place in the run, name, row), in the order of places
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        name, row = _parse(line)
        if name is None:
            raise UserError(f"line {number} of {path} is not a line of a training log: {line[:60]!r}; remove the line.")
        place = (row[0], list(PATTERNS).index(name))
        while lines and lines[-1][0] >= place:
            lines.pop()
        lines.append((place, name, row))
    return {kind: [row for _, name, row in lines if name == kind] for kind in PATTERNS}


def _parse(line):
    """("val", (0, 6.9315)) for "s:0 tel:6.9315"; (None, None) for anything else."""
    for name, pattern in PATTERNS.items():
        match = pattern.fullmatch(line.strip())
        if match:
            return name, (int(match[1]), *(float(x) for x in match.groups()[1:]))
    return None, None


def try_lock(file) -> bool:
    """Lock the open file until it is closed; False if another process (or another `open`) holds its lock.

    The system releases it however the process ends. On a file system without locks, the file counts as free: refusing
    to train there would help nobody.
    """
    try:
        _lock(file.fileno())
        return True
    except OSError as error:
        return error.errno not in TAKEN


def _lock(descriptor):
    if os.name == "nt":
        import msvcrt

        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
