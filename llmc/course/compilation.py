"""What a check changes while an answer runs, and what Numba must not meet when it compiles a part of that answer."""

import sys
from contextlib import contextmanager


@contextmanager
def paused_while_compiling(pause, resume):
    """Inside the block, pause() is called whenever Numba begins to compile, and resume(what that gave) at the end."""
    if "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    class Pause(event.Listener):
        def __init__(self):
            self.paused = []  # compiling one function may compile another

        def on_start(self, event):
            self.paused.append(pause())

        def on_end(self, event):
            resume(self.paused.pop())

    with event.install_listener("numba:compile", Pause()):
        yield
