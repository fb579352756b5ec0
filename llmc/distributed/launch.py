"""`--ranks N`: ranks on one machine, each in its own process, started and watched by this one.

Rank 0 writes to the terminal. The others' output is shown only if rank 0 can no longer write.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llmc
from llmc.errors import UserError
from llmc.resources import share_of_cores

CHILD = (
    "import sys; from llmc.interrupts import interrupt_when_stdin_closes; interrupt_when_stdin_closes();"
    " from llmc.cli import main; sys.exit(main(sys.argv[1:]))"
)
GRACE = 20.0  # seconds that the others have to end after one has failed
LOOK = 0.05  # seconds between two looks at the processes
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def launch(arguments, ranks) -> int:
    """Run `llmc` with these arguments as `ranks` ranks; returns the exit status of the run.

    Raises UserError, with what is known, if rank 0 could not say why it ended.
    """
    if ranks < 1:
        raise UserError(f"--ranks must be a whole number of at least 1, not {ranks}.")
    with tempfile.TemporaryDirectory(prefix="llmc-ranks-") as folder:
        processes = [_start(arguments, rank, ranks, Path(folder)) for rank in range(ranks)]
        before = {number: signal.signal(number, _passing_on(processes)) for number in SIGNALS}
        try:
            first = _wait(processes)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            for process in processes:
                process.kill()
                process.wait()
        said = [_last_line(Path(folder) / f"errors-{rank}") for rank in range(1, ranks)]
    return _status(first, [process.returncode for process in processes], said)


def _start(arguments, rank, world, folder):
    """Start one rank's process. However this process ends, the rank's standard input then closes, and it ends too."""
    root = str(Path(llmc.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    where = ["--rank", str(rank), "--world", str(world), "--init-file", str(folder / "address")]
    streams = {}
    if rank:
        streams = dict(stdout=subprocess.DEVNULL, stderr=open(folder / f"errors-{rank}", "wb"))
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments, *where, "--server", "127.0.0.1"],
        stdin=subprocess.PIPE,
        env={**share_of_cores(world), **os.environ, "PYTHONPATH": path},
        **streams,
    )
    if rank:
        streams["stderr"].close()
    return process


def _passing_on(processes):
    """A handler that passes signals on to all ranks. From a terminal they get Ctrl-C twice; a run counts it once."""

    def pass_on(number, frame):
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    return pass_on


def _wait(processes):
    """Wait until all ranks have ended; if one fails, the others get some time to end. Returns the first that failed."""
    first, since = None, 0.0
    while any(process.poll() is None for process in processes):
        if first is None:
            first, since = next((rank for rank, p in enumerate(processes) if p.poll()), None), time.monotonic()
        elif time.monotonic() - since > GRACE:
            break
        time.sleep(LOOK)
    return next((rank for rank, p in enumerate(processes) if p.poll()), None) if first is None else first


def _last_line(path) -> str:
    lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("llmc: ") if lines else ""


def _status(first, statuses, said) -> int:
    """The exit status of the run: rank 0's, if it ended by itself and so has told the user why."""
    if statuses[0] > 0 or first is None:
        return statuses[0]
    if first > 0:
        raise UserError(f"rank {first} failed: {said[first - 1] or f'its exit status is {statuses[first]}'}")
    raise UserError(
        f"rank 0 was ended by signal {-statuses[0]}; whatever it saved is intact, so continue from there with --resume."
    )
