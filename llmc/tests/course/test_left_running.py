"""Threads that an answer starts and does not wait for."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from llmc.course import WrongAnswer, check

pytestmark = pytest.mark.usefixtures("not_recorded")


def fill(out):
    time.sleep(0.05)
    out[...] = 1


def test_threads_that_still_write_are_refused():
    def left_behind(out):
        threading.Thread(target=fill, args=(out,)).start()

    with pytest.raises(WrongAnswer, match="still writing: wait for each of them, with join"), check("toy") as c:
        c.call(left_behind, c.buffer(5))


def test_threads_that_are_waited_for_or_have_nothing_to_do_are_right(capsys, monkeypatch):
    monkeypatch.setattr("llmc.course.checks.guards.threads.PATIENCE", 0.1)
    pool = ThreadPoolExecutor(1)

    def joined(out):
        thread = threading.Thread(target=fill, args=(out,))
        thread.start()
        thread.join()

    def in_a_pool(out):
        pool.submit(fill, out).result()

    with check("toy") as c, pool:
        for function in (joined, in_a_pool, in_a_pool):
            out = c.buffer(5)
            c.call(function, out)
            assert (out == 1).all()
    assert capsys.readouterr().out.startswith("✓")
