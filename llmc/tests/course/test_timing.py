"""`faster` on made-up machines: time passes there only when a function says so, and as much of it as we like."""

import gc
import mmap
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.checks.speed import measurement as speed
from llmc.course.checks.speed.timing import faster, race
from llmc.course.measure import peak_bytes, resident_peak
from llmc.course.measure.memory import CLEAR

LOOK = "Look first at the loop."


class Machine:
    """Three clocks: seconds that passed, processor time of the process, and of the thread that calls."""

    def __init__(self, slowed=lambda: 1.0):
        self.now, self.slowed, self.calls = np.zeros(3), slowed, 0

    def clocks(self):
        return [lambda k=k: float(self.now[k]) for k in range(3)]

    def works(self, *milliseconds, threads=1, elsewhere=0.0):
        """A function that takes these in turn, the last one from then on; then waits for what others do `elsewhere`."""
        left = list(milliseconds)

        def function():
            self.calls += 1
            held = 1e-3 * (left.pop(0) if len(left) > 1 else left[0])
            self.now += held / threads * np.array([self.slowed(), threads, 1.0]) + [1e-3 * elsewhere, 0, 0]

        return function


@pytest.fixture
def judge(monkeypatch):
    """Ask `faster` on a machine; returns what was said of an answer that passed."""

    def ask(machine, given, yours, times=1.25, **options):
        monkeypatch.setattr(speed, "_clocks", machine.clocks)
        said, machine.calls = [], 0
        exercise = SimpleNamespace(slow=LOOK)
        check = SimpleNamespace(calls=[], say=said.append, before_timing=lambda: None, exercise=exercise)
        faster(check, given, yours, times, **options)
        return " ".join(said)

    return ask


def test_race_runs_in_turns():
    order = []
    assert len(race(lambda: order.append("a"), lambda: order.append("b"), rounds=4)) == 2
    assert "".join(order) == "ab" * 5


def test_compiling_is_no_memory_of_the_answer():
    counts = numba.njit(lambda x: len(x))
    for x in (np.ones(1000), np.ones((10, 10))):  # each type is compiled
        assert peak_bytes(lambda x=x: counts(x)) < 100_000


@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux says how much was held at once")
def test_arrays_of_every_library_count():
    def takes():
        with mmap.mmap(-1, 100_000_000) as memory:  # no memory of Python's
            memory[:] = b"1" * 100_000_000

    freed = [bytes(100_000) for _ in range(1500)]  # small pieces, which the C library keeps after they are freed
    last = bytes(100_000)
    del freed
    assert 190_000_000 < resident_peak(takes) < 250_000_000 and last
    assert peak_bytes(takes) < 110_000_000


@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux says how much was held at once")
def test_what_an_earlier_answer_left_in_a_cycle_hides_nothing():
    class Frame:  # as a traceback keeps the arrays of an answer that failed
        def __init__(self):
            self.me, self.array = self, np.ones(100_000_000, np.uint8)

    def takes():
        gc.collect()  # as an import sets off: what goes away here must not make room for what comes
        return np.ones(100_000_000, np.uint8)

    Frame()
    assert resident_peak(takes) > 90_000_000


def test_a_fast_answer_needs_one_round_and_a_slow_one_two(judge):
    quiet = Machine()
    said = judge(quiet, quiet.works(20), quiet.works(10))
    assert said == "It is 2.00 times as fast as the given one (yours: 10.0 ms)."
    assert quiet.calls <= 2 * speed.TURNS
    with pytest.raises(WrongAnswer, match=r"right, but it is 1\.00 times.*; the goal is at least 1\.25 times"):
        judge(quiet, quiet.works(20), quiet.works(20))
    assert quiet.calls <= 4 * speed.TURNS


def test_just_below_the_bar_is_refused_on_a_quiet_machine_and_passes_on_a_busy_one(judge):
    quiet, busy = Machine(), Machine(lambda: 5.0)
    with pytest.raises(WrongAnswer, match=r"right, but it is 1\.20 times as fast as the given one \(yours: 10\.0 ms\)"):
        judge(quiet, quiet.works(12), quiet.works(10))
    said = judge(busy, busy.works(12), busy.works(10))
    assert said.startswith("Measured under load (other programs used the processor 80% of the time), it is 1.20 times")
    assert "as the given one (yours: 10.0 ms)" in said  # what the answer itself took
    assert said.endswith("the goal is at least 1.25 times as fast. Run this cell again when the machine is quiet.")


def test_the_given_function_shows_a_load_that_leaves_it_the_processor(judge):
    neighbour = Machine()
    said = judge(neighbour, neighbour.works(*[12, 18] * 50), neighbour.works(*[10, 15] * 50))
    assert "the given function took 12.0 ms in one turn and 18.0 ms in another" in said


@pytest.mark.parametrize("seed", range(5))
def test_a_busy_machine_changes_no_verdict(judge, seed):
    rng = np.random.default_rng(seed)
    busy = Machine(lambda: rng.uniform(1, 20))  # at the mercy of others

    def noisy(milliseconds):
        return busy.works(*rng.normal(milliseconds, 0.1 * milliseconds, 200))

    assert "It is 1." in judge(busy, noisy(15), noisy(10))
    for slow in (noisy(15), noisy(200)):
        with pytest.raises(WrongAnswer, match="right, but it is"):
            judge(busy, noisy(15), slow)


def test_a_near_miss_is_measured_again_and_a_first_call_that_compiles_does_not_count(judge):
    machine = Machine()
    assert "It is 1.50 times" in judge(machine, machine.works(15), machine.works(*[12.5] * speed.TURNS, 10))
    assert "It is 2.00 times" in judge(machine, machine.works(20), machine.works(5000, 10))


def test_a_hopeless_answer_is_not_waited_for(judge):
    machine = Machine()
    with pytest.raises(WrongAnswer, match=r"100 times as slow .* \(yours: 2000\.0 ms\); at most 5 times will do"):
        judge(machine, machine.works(20), machine.works(2000), times=1 / 5)
    assert machine.calls == 4


@pytest.mark.parametrize(("work", "threads", "elsewhere"), [(48, 2, 0), (1, 1, 23)], ids=["threads", "a GPU"])
def test_work_of_several_is_judged_by_the_time_that_passes(judge, work, threads, elsewhere):
    machine = Machine()
    assert "It is 2.00 times" in judge(machine, machine.works(20), machine.works(40, threads=4))
    with pytest.raises(WrongAnswer, match=r"1\.20 times as slow"):
        judge(machine, machine.works(20), machine.works(work, threads=threads, elsewhere=elsewhere))


def test_an_answer_without_temporary_arrays_need_only_keep_up(judge):
    machine = Machine()
    work = machine.works(20)

    def wasteful():
        work()
        return np.ones(5_000_000, np.uint8)

    said = judge(machine, machine.works(20), work, lean=1e6)
    assert said.endswith("That counts, because your temporary arrays take only 0.0 MB.")
    with pytest.raises(WrongAnswer, match=r"arrays take 5\.0 MB; with at most 1\.0 MB, keeping up .* enough\.\nLook"):
        judge(machine, machine.works(20), wasteful, lean=1e6)
    with pytest.raises(WrongAnswer, match="Look first at the loop"):
        judge(machine, machine.works(20), machine.works(100), lean=1e6)


def test_blas_has_one_thread(judge):
    from threadpoolctl import threadpool_info

    machine, seen = Machine(), []
    work = machine.works(10)

    def yours():
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        work()

    judge(machine, machine.works(20), yours)
    assert set(seen) <= {1}
