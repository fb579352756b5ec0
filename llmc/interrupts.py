"""Ctrl-C while Python still imports: one sentence, and the end.

A library that is interrupted half-way through its import may say so in its own way, or not at all. So until a command
begins, Ctrl-C ends the process itself: nothing has been done yet that could be lost.
"""

import os
import signal
import sys

STATUS = 130  # of a process that Ctrl-C has ended, as shells count


def leave_at_once():
    """From here on, Ctrl-C ends the process, unless it is ignored, as in a job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_again():
    """From here on, Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number, frame):
    try:
        os.write(2, b"llmc: interrupted.\n")
    finally:
        os._exit(STATUS)


def interrupt_when_stdin_closes():
    """From here on, as if Ctrl-C were pressed when standard input closes, as it does when the parent ends."""
    import _thread
    from threading import Thread

    def wait():
        os.read(sys.stdin.fileno(), 1)
        _thread.interrupt_main()

    Thread(target=wait, daemon=True).start()
