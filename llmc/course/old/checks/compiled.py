"""What Numba has compiled of a learner's answer, and whether the order of its additions is what holds it up."""

import functools
from time import process_time
from types import FunctionType

from llmc.course.own_names import among_learners_names

LOOSE = {"fastmath": True}
TURNS, CLEARLY = 3, 1.4  # calls of which the shortest counts; times as fast: a change worth telling


def kernels_of(function):
    """The compiled kernels that this function is, or calls by a name."""
    seen, todo = set(), [function]
    while todo:
        function = todo.pop()
        plain = getattr(function, "py_func", function)
        if isinstance(plain, functools.partial):
            todo += [plain.func, *plain.args]
        elif isinstance(plain, FunctionType) and plain not in seen:
            seen.add(plain)
            if plain is not function:
                yield function
            todo += [plain.__globals__[name] for name in plain.__code__.co_names if name in plain.__globals__]
            todo += [cell.cell_contents for cell in plain.__closure__ or ()]


def in_any_order(function, call) -> str | None:
    """A sentence if `call`, of nothing, is clearly faster once all kernels of the function have fastmath; else None.

    For exercises whose numbers are finite: fastmath takes for granted that all are.
    """
    kernels = {id(kernel): kernel for kernel in kernels_of(function)}
    strict = {k: kernel for k, kernel in kernels.items() if not getattr(kernel, "targetoptions", LOOSE).get("fastmath")}
    if not strict:
        return None
    call = among_learners_names(call)
    before = _least(call)
    plain = [getattr(each, "py_func", each) for each in (function, *strict.values())]
    known = {id(each.__globals__): each.__globals__ for each in plain}.values()
    held = [{name: value for name, value in names.items() if id(value) in strict} for names in known]
    loose = {k: _loose(kernel) for k, kernel in strict.items()}
    try:
        for names, ours in zip(known, held):
            names.update({name: loose[id(kernel)] for name, kernel in ours.items()})
        call()  # compiles them
        gained = before / _least(call)
    except Exception:  # it does not compile so, say
        return None
    finally:
        for names, ours in zip(known, held):
            names.update(ours)
    if gained < CLEARLY:
        return None
    whose = " and ".join(f"`{kernel.py_func.__name__}`" for kernel in strict.values())
    return (
        f"With `@numba.njit(fastmath=True)` for {whose} it is {gained:.2g} times as fast: without it, the compiler "
        "keeps the order of the additions, and cannot do several at once."
    )


def _loose(kernel):
    """The same kernel, compiled with fastmath."""
    import numba  # here, because importing llmc.course needs NumPy alone

    options = {name: value for name, value in kernel.targetoptions.items() if name != "nopython"}
    return numba.njit(**options | LOOSE)(kernel.py_func)


def _least(call) -> float:
    """Seconds of processor time of the shortest of a few calls."""
    seconds = []
    for _ in range(TURNS):
        begin = process_time()
        call()
        seconds.append(process_time() - begin)
    return max(min(seconds), 1e-9)
