"""Ctrl-C and SIGTERM as a request, not an exception: the batch in progress is finished, then the run is saved."""

import signal
import threading


class StopRequest:
    """`with StopRequest() as stop`: inside, the two signals only set `stop.requested`, however often they come.

    Signals belong to the main thread; in another thread this does nothing. The previous handlers return at the end.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.requested = False
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _handle(self, number, frame):
        self.requested = True
