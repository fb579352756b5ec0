"""Several training runs at once, each in its own process with one thread, as many at a time as there are cores.

With GPUs, each run gets one GPU, and there are as many runs at a time as GPUs.

A small model's matmuls gain little from a second thread, while a second run makes full use of the other core. A run
saves its state and ends cleanly when its standard input closes. The parent closes it to stop the run, and the system
closes it if the parent is killed, even with -9, so no run outlives its sweep; a run that is still starting notices
later.
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
from llmc.interrupts import interrupt_when_stdin_closes
from llmc.training.ends import RunDiverged
from llmc.training.stop_request import StopRequest

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
CHILD = "import sys; from llmc.training.sweep.side_by_side import child; sys.exit(child(sys.argv[1]))"
DONE, DIVERGED, INTERRUPTED = 0, RunDiverged.status, 4  # exit statuses of a run; any other is a failure
VISIBLE = "CUDA_VISIBLE_DEVICES"
LOOK = 0.05  # seconds between two looks at the processes


@dataclass
class Process:
    """A process that trains in `settings.out`. gpu: which of several GPUs it sees; None for all of them."""

    settings: object
    gpu: int | None = None
    errors: object = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self):
        root = str(Path(llmc.__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(asdict(self.settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path, **seeing(self.gpu)},
            start_new_session=True,  # Ctrl-C in a terminal goes to the parent alone, which then stops its runs
        )

    @property
    def status(self):
        """Its exit status, or None while it is running."""
        return self._process.poll()

    @property
    def message(self) -> str:
        """The last line on its stderr."""
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def stop(self):
        """Let it end after the step in progress."""
        self._process.stdin.close()

    def forget(self):
        """Wait until it ends, and release the resources it holds here."""
        self.stop()
        self._process.wait()
        self.errors.close()


def seeing(gpu) -> dict:
    """The environment variable that lets a process see only one of the GPUs that this process sees."""
    if gpu is None:
        return {}
    names = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return {VISIBLE: names[gpu].strip() if names else str(gpu)}


def run_side_by_side(settings, jobs, on_end, watch=lambda processes: None, gpus=0):
    """Train with each of several TrainSettings, `jobs` at a time. Ctrl-C or SIGTERM stops and saves all of them.

    settings: each with its own `out`; a run that exists already is resumed · on_end(process) is called for each run
    that has ended, whatever its status; if it raises, the other runs are stopped and saved · watch(processes) is called
    now and then with the running processes · gpus: how many GPUs the runs share, which they take in turn.
    """
    waiting, running = list(settings), []
    with StopRequest() as stop:
        try:
            while (waiting and not stop.requested) or running:
                while waiting and len(running) < jobs and not stop.requested:
                    running.append(Process(waiting.pop(0), _freest(running, gpus)))
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


def _freest(processes, gpus):
    """The GPU that the fewest of these processes use; None if there is at most one GPU."""
    taken = [process.gpu for process in processes]
    return min(range(gpus), key=taken.count) if gpus > 1 else None


def _stop(processes):
    for process in processes:
        process.stop()


def child(text) -> int:
    """The child process: one quiet run with settings given as JSON; returns its exit status.

    If it diverged, stderr has the reason; if it failed, the message of its UserError.
    """
    from llmc.checkpoints.folder import latest_checkpoint
    from llmc.training.loop import resume, train
    from llmc.training.settings import TrainSettings

    interrupt_when_stdin_closes()
    settings = TrainSettings(**json.loads(text))
    try:
        begun = latest_checkpoint(settings.out) is not None
        result = resume(settings.out, quiet=True) if begun else train(settings, quiet=True)
    except UserError as error:
        print(error.reason if isinstance(error, RunDiverged) else error, file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    return INTERRUPTED if result.interrupted else DONE
