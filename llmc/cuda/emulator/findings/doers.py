"""Who did it: the second sentence about each kind of problem, from a Finding; "" where no single thread did it."""

from llmc.cuda.emulator.findings.places import thread, triple

PAST = {"reads": "read it", "writes": "wrote it", "updates": "updated it"}


def first_to_do_it(found) -> str:
    """ "Thread (3, 0, 0) of block (1, 0, 0) was the first to do it; it happened 31 times."."""
    times = _times(found.problem)
    return f"{_doer(found)} was the first to do it{times}." if times else f"{_doer(found)} did it."


def first_of_several(found) -> str:
    """For what ends a thread: each does it only once."""
    count = found.problem.count
    return f"{_doer(found)} was the first of {count} threads to do it." if count > 1 else f"{_doer(found)} did it."


def both_accesses(found) -> str:
    """For a race: "Thread (0, 0, 0) of block (0, 0, 0) wrote it, and thread (9, 0, 0) of the same block read it."."""
    first, second = (PAST[verb] for verb in (found.verb, found.verb2))
    return two(first, f"and {{}} {second}{' too' * (first == second)}")(found)


def reader_and_copier(found) -> str:
    """For a read of a copy's destination: who read it, and whose copy was under way."""
    problem = found.problem
    if problem.write:
        return f"{_doer(found)} waited for it afterwards{_times(problem)}."
    if problem.thread2 is None:
        return first_to_do_it(found)
    whose = "its own copy" if problem.thread2 == problem.thread else f"the copy of {_other(problem)}"
    return f"{_doer(found)} read it while {whose} was under way{_times(problem)}."


def two(first, second):
    """For what one thread does and another does not: two("waits", "but {} never comes")."""

    def sentence(found):
        problem = found.problem
        other = f", {second.format(_other(problem))}" if problem.thread2 is not None else ""
        return f"{_doer(found)} {first}{other}{_times(problem)}."

    return sentence


def came_and_stayed_away(first, second):
    """The same where the previous sentence has counted threads: it is about the first time, and says so."""

    def sentence(found):
        times, text = found.problem.count, two(first, second)(found)
        return f"{text.partition(';')[0]}; that was the first of {times} times." if times > 1 else text

    return sentence


def absent_lane(found) -> str:
    """The lane that takes no part and the one that called; where the first is not known, the caller alone."""
    if found.problem.thread2 is None:
        return first_to_do_it(found)
    return two("did not take part", "while {} called it")(found)


def running(found) -> str:
    """ "Thread (3, 0, 0) of block (1, 0, 0) was running at that moment."."""
    return f"{_doer(found)} was running at that moment."


def block_only(found) -> str:
    """ "This was in block (1, 0, 0)."."""
    return f"This was in block {triple(found.problem.block)}{_times(found.problem)}."


def nobody(found) -> str:
    """No sentence."""
    return ""


def _doer(found) -> str:
    return thread(found.problem.thread, found.problem.block).capitalize()


def _other(problem) -> str:
    if problem.block2 in (None, problem.block):
        return f"{thread(problem.thread2)} of the same block"
    return thread(problem.thread2, problem.block2)


def _times(problem) -> str:
    return f"; it happened {problem.count} times" if problem.count > 1 else ""
