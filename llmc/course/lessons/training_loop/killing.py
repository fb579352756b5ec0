"""Lesson 10: a process that saves one file again and again, and is killed at random moments."""

import subprocess
import sys
import time

import numpy as np


def whole_after_kills(program, folder, how, times=10) -> int:
    """After how many of `times` kills (-9) in the middle of saving the file is whole.

    program: Python source that writes a file again and again; its arguments are the file's path and `how`.
    folder: a Path, where the file is. It is whole when it is as long as before, and all of its bytes are equal.
    """
    path, whole = folder / f"{how}.bin", 0
    for delay in np.random.default_rng(1).uniform(0.002, 0.03, times):  # seconds
        path.write_bytes(bytes(64 * 65536))  # the checkpoint before
        first = path.stat().st_mtime_ns
        process = subprocess.Popen([sys.executable, "-S", "-c", program, str(path), how])
        while path.stat().st_mtime_ns == first and process.poll() is None:
            time.sleep(0.001)  # until it has begun
        time.sleep(delay)
        process.kill()  # SIGKILL: the process cannot even notice
        process.wait()
        content = path.read_bytes()
        whole += len(content) == 64 * 65536 and content == content[:1] * len(content)
    return whole
