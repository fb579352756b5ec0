"""What a function does in several threads: those that it has not waited for, and turns of a prange that race."""

import sys
import threading
import time

from llmc.course.checks.messages.diagnosis import WrongAnswer

SAMPLE = 4096  # numbers
PATIENCE = 1.0  # seconds in which such a thread ends; those that wait for more work do not end


class LeftRunning:
    """Around one call: `begin`, then `inspect` as soon as it has returned."""

    def begin(self):
        """Which threads were there before?"""
        self._before = set(threading.enumerate())

    def inspect(self, arrays):
        """Raise WrongAnswer if threads of the call still change one of these arrays."""
        started = [thread for thread in threading.enumerate() if thread not in self._before]
        if not started:
            return
        returned = [_sample(array) for array in arrays]
        end = time.monotonic() + PATIENCE
        for thread in started:
            thread.join(max(end - time.monotonic(), 0))
        if any(_sample(array).tobytes() != sample.tobytes() for array, sample in zip(arrays, returned)):
            raise WrongAnswer(
                "your function returned while threads that it had started were still writing: wait for each of them,"
                " with join() or, for a future, result()."
            )


def _sample(array):
    """A few thousand numbers from all over the array: copying all would take so long that the threads catch up."""
    return array.reshape(-1)[:: array.size // SAMPLE + 1].copy()


RACE = 'lesson 11, section "9.1 · A race"'  # a test compares this title with the headings of that notebook


def no_race(watch):
    """Raise WrongAnswer if `find_races` saw a race, or an index outside its array; None is no evidence."""
    if watch is not None and watch.outside:
        raise WrongAnswer(
            f"an index outside its array: {watch.outside}. Compiled code checks no index: your function reads "
            "and writes whatever lies there."
        )
    if watch is not None and watch.races:
        race = watch.races[0]
        shared = f" All turns share `{race.array}`, which is made outside the loop: make scratch memory inside it."
        overlap = f" {race.overlap}." if race.overlap else ""
        raise WrongAnswer(
            f"a race: {race}. Numba may run both at the same time, and then one of the two is lost."
            f"{shared * (race.own and race.array.isidentifier())}{overlap}",
            look=RACE,
        )


def no_race_in(function, *arguments):
    """The same for this call, which runs in plain Python, with three threads: use small arrays."""
    if "numba" in sys.modules and has_prange(function):
        from llmc.course.races.find import find_races

        no_race(find_races(function, *arguments))


def has_prange(function) -> bool:
    """Does a function, or one that it calls by a name, have a loop whose turns run at the same time?"""
    todo, seen = [function], set()
    while todo:
        plain = todo.pop()
        plain = getattr(plain, "py_func", getattr(plain, "func", plain))  # what Numba compiled, or a partial
        code = getattr(plain, "__code__", None)
        library = (getattr(plain, "__module__", None) or "").startswith(("numpy", "numba", "scipy"))
        if code is None or code in seen or library:
            continue
        seen.add(code)
        if "prange" in code.co_names:
            return True
        names = [name for name in code.co_names if name in plain.__globals__]
        todo += [plain.__globals__[name] for name in names] + [c.cell_contents for c in plain.__closure__ or ()]
    return False
