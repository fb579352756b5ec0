"""Several training runs at once, each a process of its own with one thread, as many at a time as there are cores.

On GPUs each run has one of them, and there are as many at a time as GPUs.

A matmul of a small model gains little from a second thread, while a second run uses the other core fully. A run ends
cleanly, its state saved, when its standard input closes: the parent closes it to stop the run, and the system closes it
when the parent is killed, with -9 too, so no run outlives its sweep; one that is still starting finds it closed later.
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
    """A process that trains in `settings.out`. gpu: which of several GPUs it sees; None: all there are."""

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
        """Its exit status; None while it is running."""
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
        """Wait until it ends, and release what it holds here."""
        self.stop()
        self._process.wait()
        self.errors.close()


def seeing(gpu) -> dict:
    """The variable that lets a process see one GPU alone, of those that this one sees."""
    if gpu is None:
        return {}
    names = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return {VISIBLE: names[gpu].strip() if names else str(gpu)}


def run_side_by_side(settings, jobs, on_end, watch=lambda processes: None, gpus=0):
    """Train with each of several TrainSettings, `jobs` at a time. Ctrl-C or SIGTERM stops and saves all of them.

    settings: each with an `out` of its own; a run that is there already is resumed · on_end(process) is called for each
    run that has ended, whatever its status; when it raises, the other runs are stopped and saved · watch(processes) is
    called now and then with those that are running · gpus: how many there are for the runs, which take them in turn.
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
    """The GPU that the fewest of these processes have; None where there is at most one."""
    taken = [process.gpu for process in processes]
    return min(range(gpus), key=taken.count) if gpus > 1 else None


def _stop(processes):
    for process in processes:
        process.stop()


def child(text) -> int:
    """The other side: one quiet run with settings as JSON; returns its exit status.

    When it diverged, the reason is on stderr; when it failed, the sentence of its UserError.
    """
    from llmc.checkpoints.folder import latest_checkpoint
    from llmc.training.loop import resume, train
    from llmc.training.settings import TrainSettings

    interrupt_when_stdin_closes()
    settings = TrainSettings(**json.loads(text))
    try:
        there = latest_checkpoint(settings.out) is not None
        result = resume(settings.out, quiet=True) if there else train(settings, quiet=True)
    except UserError as error:
        print(error.reason if isinstance(error, RunDiverged) else error, file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    return INTERRUPTED if result.interrupted else DONE
