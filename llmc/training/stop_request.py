"""Ctrl-C, SIGTERM and SIGHUP as a request, not an exception: the batch in progress is finished, then the run is saved.

A second signal ends the run at once; checkpoints that are already on disk are safe.
"""

import signal
import threading
from time import monotonic

ALWAYS = (signal.SIGINT, signal.SIGTERM)  # also where a shell that starts jobs in the background ignores SIGINT
PATIENCE = 3.0  # seconds that something useful but not necessary may take after a request
SAME_REQUEST = 1.0  # seconds: make, uv and systemd pass on a signal that has already come, or send two different ones


class StopRequest:
    """`with StopRequest() as stop`: inside, a signal only sets `stop.requested`; a later one raises KeyboardInterrupt.

    Signals belong to the main thread; in another thread this does nothing. Under nohup, SIGHUP stays ignored. The
    previous handlers are restored at the end.
    """

    SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

    def __init__(self):
        self.requested = False
        self._since = 0.0  # when that became so
        self._first = None  # when the first signal came
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                if number in ALWAYS or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def request(self):
        """Ask the run to end, as a signal does."""
        if not self.requested:
            self.requested, self._since = True, monotonic()

    def agree(self):
        """Let all ranks know of a request; a single process has nobody to tell."""

    def patience(self, seconds=PATIENCE):
        """A function that becomes true once this much time has passed since both a request and this call."""
        begun = monotonic()
        return lambda: self.requested and monotonic() - max(begun, self._since) > seconds

    def _handle(self, number, frame):
        self.request()
        if self._first is None:
            self._first = monotonic()
        elif monotonic() - self._first > SAME_REQUEST:
            raise KeyboardInterrupt


class AgreedStop:
    """A StopRequest for several ranks, whose `requested` changes only in `agree`, on all ranks at the same time."""

    def __init__(self, own, ranks):
        self.requested, self._own, self._ranks = False, own, ranks
        self.request, self.patience = own.request, own.patience

    def agree(self):
        """Ask all ranks at the same point in their work; one request is enough."""
        self.requested = self._ranks.sum(self._own.requested)[0] > 0
