"""Ctrl-C while Python is still importing: print one sentence and exit.

A library that is interrupted halfway through its import may report that in its own way, or not at all. So until a
command begins, Ctrl-C simply ends the process: no work can be lost yet.
"""

import os
import signal
import sys

STATUS = 130  # of a process that Ctrl-C has ended, as shells count


def leave_at_once():
    """From here on, Ctrl-C ends the process, unless it is ignored, as in a background job."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_again():
    """From here on, Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number, frame):
    try:
        os.write(2, b"llmc: interrupted.\n")
    finally:
        os._exit(STATUS)


def interrupt_when_stdin_closes():
    """From here on, treat the end of standard input, which closes when the parent process ends, like Ctrl-C."""
    import _thread
    from threading import Thread

    def wait():
        os.read(sys.stdin.fileno(), 1)
        _thread.interrupt_main()

    Thread(target=wait, daemon=True).start()
