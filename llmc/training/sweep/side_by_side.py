"""Several training runs at once, each a process of its own with one thread, as many at a time as the machine has cores.

A matmul of a small model gains little from a second thread; a second run uses the core fully. A run ends cleanly, its
state saved, when its standard input closes: the parent closes it to stop a run, and the system does when the parent is
killed, so no run outlives the one who started it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import llmc
from llmc.errors import UserError
from llmc.training.interrupt import StopRequest

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
CHILD = "import sys; from llmc.training.sweep.side_by_side import child; sys.exit(child(sys.argv[1]))"
INTERRUPTED = 3  # exit status of a run that was stopped, and saved
LOOK = 0.05  # seconds between two looks at the processes


@dataclass
class Process:
    """A run that is going on in `settings.out`."""

    settings: object
    errors: object = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self):
        root = str(Path(llmc.__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(asdict(self.settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C in a terminal is for the parent, who passes it on
        )

    @property
    def status(self):
        """None while it goes on, then its exit status."""
        return self._process.poll()

    @property
    def message(self) -> str:
        """The last line that it wrote on stderr."""
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def stop(self):
        """Ask it to end after the step in progress."""
        self._process.stdin.close()

    def forget(self):
        """Wait for its end, and give back what it held here."""
        self.stop()
        self._process.wait()
        self.errors.close()


def run_side_by_side(settings, jobs, on_end, watch=lambda processes: None) -> bool:
    """Train with each of several TrainSettings, `jobs` at a time; False when Ctrl-C or SIGTERM ended it before its end.

    settings: each with an `out` of its own; a run that is there already is resumed · on_end(process) is called for each
    run that has ended, whatever its status · watch(processes) now and then, with those that go on. When on_end raises,
    the others are stopped, saved, and waited for.
    """
    waiting, running = list(settings), []
    with StopRequest() as stop:
        try:
            while (waiting and not stop.requested) or running:
                while waiting and len(running) < jobs and not stop.requested:
                    running.append(Process(waiting.pop(0)))
                if stop.requested:
                    _stop(running)
                time.sleep(LOOK)
                watch(running)
                for process in [p for p in running if p.status is not None]:
                    on_end(process)
                    running.remove(process)
                    process.forget()
        finally:
            _stop(running)
            for process in running:
                process.forget()
    return not stop.requested


def _stop(processes):
    for process in processes:
        process.stop()


def child(text) -> int:
    """The other side: one run, settings as JSON, quiet. 0 done, INTERRUPTED, or 2 with a sentence on stderr."""
    from threading import Thread

    from llmc.checkpoints.folder import latest_checkpoint
    from llmc.training.loop import resume, train
    from llmc.training.settings import TrainSettings

    Thread(target=_interrupt_when_left, daemon=True).start()
    settings = TrainSettings(**json.loads(text))
    try:
        there = latest_checkpoint(settings.out) is not None
        result = resume(settings.out, quiet=True) if there else train(settings, quiet=True)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return INTERRUPTED if result.interrupted else 0


def _interrupt_when_left():
    """As if Ctrl-C were pressed, when standard input closes."""
    import _thread

    os.read(sys.stdin.fileno(), 1)
    _thread.interrupt_main()
