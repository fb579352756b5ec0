"""One process at a time: a lock on an open file, which the system releases however the process ends."""

import errno
import os

FAR = 1 << 30  # Windows locks bytes and hides them from readers, so lock a byte that the file never has
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


def try_lock(file) -> bool:
    """Lock the open file until it is closed; False if another process (or another `open`) holds its lock.

    On a file system without locks, the file counts as free: refusing to train there would help nobody.
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
