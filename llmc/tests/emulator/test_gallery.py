"""Is the emulator honest? Broken kernels must get their diagnosis, clean ones none (gallery/)."""

import numpy as np
import pytest

from llmc.cuda import KernelError, inspect
from llmc.tests.emulator.gallery import marks, module
from llmc.tests.emulator.gallery.broken import BROKEN
from llmc.tests.emulator.gallery.clean import CLEAN

pytestmark = pytest.mark.usefixtures("emulator", "one_second")


def cases(table):
    return [pytest.param(file, name, id=f"{file}-{name}") for file, kernels in table.items() for name in kernels]


def is_a_race(file, name):
    return any(mark.kinds & {"race", "missing-syncwarp"} for mark in marks(f"broken/{file}.cu")[name])


RACES = {file: [name for name in kernels if is_a_race(file, name)] for file, kernels in BROKEN.items()}


def kernel(folder, file, name, launch, check=True):
    templates = tuple(case.name for case in CLEAN[file].values() if case.name) if folder == "clean" else ()
    return module(f"{folder}/{file}.cu", templates, check).get_function(launch.name or name)


def seen(launch, function, arguments):
    return inspect(function, launch.grid, launch.block, arguments, launch.shared_mem, launch.outputs)


def named_lines(problem):
    return {problem.line, problem.line2}.union(*problem.more) - {0, None}


# ------------------------------------------------------------------------------------------------------- broken


def test_every_broken_kernel_is_launched_and_marked():
    assert sum(len(kernels) for kernels in BROKEN.values()) >= 60
    for file, kernels in BROKEN.items():
        marked = marks(f"broken/{file}.cu")
        assert set(marked) == set(kernels)
        assert all(marked.values()), f"{file}: a kernel without a mark"


def test_each_half_of_a_word_is_named_by_the_line_that_wrote_it():
    name = "lane_0_works_on_what_others_still_write"
    launch, lines = BROKEN["warps"][name], {mark.line for mark in marks("broken/warps.cu")[name]}
    (problem,) = seen(launch, kernel("broken", "warps", name, launch), launch.make()).problems
    assert named_lines(problem) == lines


@pytest.mark.parametrize("file, name", cases(BROKEN))
def test_broken_kernel_gets_its_diagnosis(file, name):
    launch, wanted = BROKEN[file][name], marks(f"broken/{file}.cu")[name]
    report = seen(launch, kernel("broken", file, name, launch), launch.make())
    kinds = frozenset.union(*(mark.kinds for mark in wanted))
    assert not report.ok, "no problem found"
    assert report.kinds <= kinds, str(report)
    for problem in report.problems:
        assert named_lines(problem) <= {mark.line for mark in wanted}, str(report)
    place = wanted[0].place
    assert place is None or any(place in problem.where for problem in report.problems), str(report)


@pytest.mark.parametrize("file, name", cases(RACES))
def test_a_race_names_both_lines_and_two_threads(file, name):
    launch, wanted = BROKEN[file][name], marks(f"broken/{file}.cu")[name]
    report = seen(launch, kernel("broken", file, name, launch), launch.make())
    lines = set().union(*(named_lines(problem) for problem in report.problems))
    assert lines == {mark.line for mark in wanted}, str(report)
    for problem in report.problems:
        own = problem.kind == "copy-race"  # a thread may race with a copy of its own
        assert own or (problem.block, problem.thread) != (problem.block2, problem.thread2), str(report)


def test_a_launch_with_a_problem_raises_and_says_where():
    launch = BROKEN["bounds"]["less_or_equal"]
    with pytest.raises(KernelError, match=r"(?s)less_or_equal.*x\[100\]") as error:
        kernel("broken", "bounds", "less_or_equal", launch)(launch.grid, launch.block, launch.make())
    assert error.value.report.kinds == {"out-of-bounds"}


# Without checks there is no diagnosis, but what would kill a program is still an error, and the next launch is fine.
FATAL = [
    ("bounds", "null_pointer"),
    ("bounds", "wild_pointer"),
    ("barriers", "divides_by_zero"),
    ("barriers", "recursion_without_an_end"),
    ("barriers", "runs_forever"),
    ("barriers", "lock_never_released"),
    ("barriers", "barrier_of_one_too_many"),
    ("barriers", "asserts"),
]


@pytest.mark.parametrize("file, name", [pytest.param(*case, id=case[1]) for case in FATAL])
def test_unchecked_kernels_do_not_kill_the_process(file, name):
    launch = BROKEN[file][name]
    with pytest.raises(KernelError):
        kernel("broken", file, name, launch, check=False)(launch.grid, launch.block, launch.make())
    test_clean_kernel_unchecked("language", "grid_stride")


# -------------------------------------------------------------------------------------------------------- clean


@pytest.mark.parametrize("file, name", cases(CLEAN))
def test_clean_kernel_is_silent(file, name):
    launch = CLEAN[file][name]
    arguments, expected = launch.make()
    report = seen(launch, kernel("clean", file, name, launch), arguments)
    assert report.ok, str(report)
    compare(arguments, expected)


@pytest.mark.parametrize("file, name", cases(CLEAN))
def test_clean_kernel_unchecked(file, name):
    launch = CLEAN[file][name]
    arguments, expected = launch.make()
    run = kernel("clean", file, name, launch, check=False)
    run(launch.grid, launch.block, arguments, shared_mem=launch.shared_mem)
    compare(arguments, expected)


def compare(arguments, expected):
    for index, values in expected.items():
        array = getattr(arguments[index], "array", arguments[index])  # of a tensor map, what it describes
        np.testing.assert_allclose(array, values, rtol=1e-5, atol=1e-5)


def test_clean_kernels_print(capfd):
    launch = CLEAN["language"]["prints"]
    kernel("clean", "language", "prints", launch)(launch.grid, launch.block, (3,))
    printed = capfd.readouterr().out
    assert sorted(printed.splitlines()) == ["block 0 of 2: 1.50 done", "block 1 of 2: 1.50 done"]
