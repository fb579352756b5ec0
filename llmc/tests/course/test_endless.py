"""Answers that do not come to an end, and checks that the learner stops."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from llmc.course import WrongAnswer, check
from llmc.course.checks.guards import endless
from llmc.course.kernel_checks.check import kernel_check

timed = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer of processor time here")


@pytest.fixture(autouse=True)
def soon(monkeypatch, not_recorded):
    monkeypatch.setattr(endless, "SECONDS", 0.1)
    monkeypatch.setattr(endless, "TICK", 0.02)


def collatz(n):
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n - 1
    return n


def stubborn(n):
    while True:
        try:
            n = collatz(n)
        except Exception:
            n += 1


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


@timed
@pytest.mark.parametrize("function", [collatz, stubborn])
def test_a_loop_without_an_end(function):
    held = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(WrongAnswer, match="✗ toy: it does not come to an end: after 0 s it was in line") as caught:
        with check("toy") as c:
            c.call(function, 5)
    assert "while n != 1" in str(caught.value) and "The call was" not in str(caught.value)
    assert signal.getsignal(signal.SIGVTALRM) is held and not any(signal.getitimer(signal.ITIMER_VIRTUAL))


@timed
def test_the_line_stands_beside_its_loop():
    def learn(n):
        learned = []
        while len(learned) < n:
            token = min(range(1000))
            if token not in learned:
                learned.append(token)

    with pytest.raises(WrongAnswer, match=r"line \d+, `.*(`, of the loop `while len\(learned\) < n`|<.*:`)\."):
        with check("toy") as c:
            c.call(learn, 2)


@timed
def test_many_calls_that_end_may_take_long(capsys):
    with check("toy") as c:
        for _ in range(4):
            c.call(busy, 0.04)
        end = time.thread_time() + 0.15  # the check's own work
        while time.thread_time() < end:
            np.arange(10)
    assert capsys.readouterr().out.startswith("✓")


@timed
def test_another_timer_is_left_alone():
    rung = []

    def until_it_rings():
        while not rung:
            pass

    held = signal.signal(signal.SIGVTALRM, lambda *unused: rung.append(1))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
    try:
        with check("toy") as c:
            c.call(until_it_rings)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, held)


def test_a_thread_has_no_limit():
    with ThreadPoolExecutor(1) as pool, check("toy") as c:
        assert pool.submit(c.call, lambda: 3).result() == 3


def test_the_stop_button():
    def wait(n):
        while n:
            raise KeyboardInterrupt  # as a signal would, in this line

    says = "✗ toy: stopped after 0 s, in line .*, of the loop `while n`"
    with pytest.raises(KeyboardInterrupt, match=says) as caught, check("toy") as c:
        c.call(wait, 1)
    assert caught.value._render_traceback_() == [str(caught.value)]


STUB = """extern "C" __global__ void scale(float* out)
{
    // YOUR CODE HERE (about 3 lines)
    #error not done yet
}
"""


@timed
@pytest.mark.parametrize("code", [STUB, STUB.replace("#error not done yet", "not C")], ids=["stub", "not C"])
def test_after_a_check_of_a_kernel_nothing_is_counted_any_more(code):
    """A stub, above all: the learner's own loops in the same kernel would be ended by a limit that was left behind."""
    held = signal.getsignal(signal.SIGVTALRM)
    with suppress(WrongAnswer), kernel_check("scale") as c:
        c.launch(code, 1, 32, (c.output(4),))
    assert not endless._open and not any(signal.getitimer(signal.ITIMER_VIRTUAL))
    assert signal.getsignal(signal.SIGVTALRM) is held
