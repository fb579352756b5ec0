'''`with kernel_check("gelu_kernel") as c:` around a check cell whose answer is CUDA C.

What such an exercise looks like: the answer cell assigns a string to the exercise's name. The string opens on the first
line of the cell, so that "line 6" in a report is line 6 of the cell. In the solution, the markers are C comments:

    gelu_kernel = r"""
    extern "C" __global__ void gelu_kernel(float* out, const float* inp, int n)
    {
        // ### BEGIN SOLUTION
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = gelu(inp[i]);
        // ### END SOLUTION
    }
    """

The builder replaces what is between them with `// YOUR CODE HERE (about 2 lines)` and `#error not done yet`: the check
of a fresh stub says "not done yet", and anywhere else the stub does not compile. A string may have several holes.

The check's cell:

    with kernel_check("gelu_kernel") as c:
        for n in SIZES:  # outside: 1, 31, 127, 129, 1000
            x, expected = ...
            for block in BLOCKS:  # inside: 256, 128, 96, 32, to catch a kernel that assumes its blockDim
                out = c.output(n)  # (n,)   float32, to be written completely; its old contents must not be read
                c.launch(gelu_kernel, ceil_div(n, block), block, (out, x, n))
                compare("out", out, expected, known={"the reference without …": lambda: …}, look=lesson.EDGE)
        c.demand(efficiency=0.9, bank_conflicts=0, barriers=2)  # of the last launch; each is optional

c.random(*shape)    an input, float32 unless you say dtype=…; a launch gets a copy, and a kernel must not write to it
c.output(*shape)    an output: poisoned before each launch, and every element must be written. free=True: it is left
                    open which block makes which part of it
c.buffer(*shape)    holds numbers that matter (for += or in place); part of it may stay unwritten
c.launch(code, grid, block, args, kernel=None, shared_mem=0, options=())
                    runs on the emulator with all its diagnoses. If there is a GPU, it runs there as well, and both must
                    agree. grid and block: int or tuple. args: as CuPy wants them (np.float32(eps), not eps).
                    kernel: its name in the source, by default the exercise's. Returns the emulator's report, which
                    a learner can look at afterwards as c.report
c.demand(…)         WrongAnswer "right, but …" unless the last launch kept these limits. At least: efficiency (needed
                    over moved sectors, 0 to 1). At most: sectors, requests (by warps, to global memory: with float4
                    there are a quarter as many), rewrites (of elements that another thread has written), busiest
                    (elements of one array that one thread handles), shared_requests, shared_atomics, bank_conflicts
                    (extra passes), barriers (per block)
kernel_check(name, where={"race": 'lesson 13, section "…"', …})
                    where to look for each kind of problem: its name in the emulator's findings/kinds.py, alone or with
                    an array's ("never-written p"), "race in global memory", a key of demand, or "compile"

When a launch fails, the message names the kind of problem and its line, and says whether only some launches fail (with
other blocks or grids, or the second time); then come the report's paragraph, where to look, and the launch. So wrong
answers get words such as "out of bounds, line 4", "race in shared memory, lines 9 and 12", "Right with blocks of 256
threads, wrong with 96". How answers are kept for tests of these checks: llmc/course/authoring/answers.py.
'''

import copy
from contextlib import suppress
from functools import partial

import numpy as np

from llmc.course.exercises.stubs import STUB_IN_C
from llmc.course.learner.refusal import Refusal
from llmc.course.old.checks.check import check, say
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.course.old.kernel_checks import demands, mending, modelled, ours, runs, tried_barriers, words, wrong_numbers
from llmc.course.old.kernel_checks.in_c import in_c
from llmc.course.old.kernel_checks.kept import Kept
from llmc.course.old.kernel_checks.source import Unfinished, kernel_of, one_index, parameters, unfinished

SIZES = (1, 31, 127, 129, 1000)  # around a warp, around a block
BLOCKS = (256, 128, 96, 32)  # threads; the largest first, because most kernels that assume one are right there
RACE, OUTSIDE = "race", "out-of-bounds"
NOT_DONE = f"not done yet: {{}}. Replace `{STUB_IN_C}` with your code, run that cell, then this one."


class kernel_check(check):
    """Context manager around a check cell whose answer is CUDA C; `name` is the exercise's name.

    where: {kind of problem: where in the lesson to look}. capability: the compute capability that its instructions
    need, 90 for Hopper's; an older GPU does not run it.
    """

    def __init__(self, name, where=None, capability=0):
        super().__init__(name)
        self.where = where or {}
        self._capability = capability
        self._evidence = modelled.KernelEvidence(name)
        self._report = None
        self._outputs = []  # arrays that a launch must write completely
        self._free, self._open = [], set()  # outputs of which any block may make any part; their names in a launch
        self._launches = []  # a words.Launch for each, the last one perhaps wrong
        self._kept = None  # of the first launch

    @property
    def report(self):
        """The emulator's Report of the last launch. Raises Refusal, a UserError, if there is none."""
        if self._report is None:
            raise Refusal(
                "there is no report, because no launch of this check has run yet; first fix what it complains about."
            )
        return self._report

    def _conclude(self, error, traceback):
        if error is None or _is_wrong(error) and len(self._launches) > 1:  # the first one was right
            error = self._only_once() or error
        if isinstance(error, Unfinished):
            say(NOT_DONE.format(self.name))
            return True
        if isinstance(error, WrongAnswer):
            error.message = in_c(error.message, self._launches[-1].code if self._launches else "")
        if _is_wrong(error):
            numbers = self._report is not None and not self._report.problems
            error.message = words.with_comparison(error.message, self._launches, numbers)
            if numbers:
                about = wrong_numbers.Wrong(
                    self.name, self._report, self._evidence, self._open, self._again, self._right, self._accepts
                )
                error.message = wrong_numbers.explained(error.message, about, self._mended)
        return super()._conclude(error, traceback)

    def _mended(self, most=mending.ALL, bounds=False) -> str | None:
        """A sentence about the change of the kernel, of a rank up to this, with which this check accepts it.

        bounds: changes of comparisons are tried first.
        """
        replay = self._evidence.replays[-1] if self._evidence.replays else None
        if replay is None or not is_explaining():
            return None
        (grid, block, *given), last = replay.arguments, self._launches[-1]
        with suppress(Exception):
            right, wrong = self._right(), (grid, block, given, *self._how)
            return right and mending.mended(last.code, last.kernel, wrong, right, self._accepts, most, bounds)
        return None

    def _right(self) -> list | None:
        """The arguments of the last launch as our solution leaves them."""
        with suppress(Exception):
            grid, block, *given = self._evidence.replays[-1].arguments
            model, kernel = self._evidence.solution(), self._launches[-1].kernel
            return ours.after_launch(self.name, model, kernel, (grid, block), given, self._how)
        return None

    def _accepts(self, code) -> bool:
        return mending.accepts(self._cell, type(self), self.name, code)

    def random(self, *shape, dtype=np.float32):
        """New awkward input (…, n), float32."""
        return super().random(*shape, dtype=dtype)

    def buffer(self, *shape, dtype=np.float32):
        """New buffer whose contents matter, for a kernel that adds to it or works in place."""
        return super().buffer(*shape, dtype=dtype)

    def output(self, *shape, dtype=np.float32, free=False):
        """New buffer that a launch must write completely, and whose old contents it must not read.

        free: the task leaves open which rows each of its parts is made from, so a message does not say it either.
        """
        self._outputs.append(self.buffer(*shape, dtype=dtype))
        self._free += self._outputs[-1:] * free
        return self._outputs[-1]

    def launch(self, code, grid, block, args, *, kernel=None, shared_mem=0, options=()):
        """Run a kernel on the emulator, and on the GPU if there is one; WrongAnswer says what went wrong.

        code: CUDA C. grid, block: int or tuple of at most 3. args: arrays and scalars, one for each parameter; a
        kernel may write to those of c.output and c.buffer, and gets copies of other arrays. kernel: its name in the
        source. shared_mem: bytes of dynamic shared memory per block. Returns the emulator's Report.
        """
        if unfinished(code):
            raise Unfinished
        self._report = None  # there is nothing to draw until this launch has one
        one_index(code)
        kernel, grid, block = kernel_of(code, kernel or self.name), _three(grid), _three(block)
        names = parameters(code, kernel)
        self._open = {name for name, a in zip(names, args) if _among(a, self._free)}
        described = tuple(describe(a) for a in args)
        self._launches.append(words.Launch(code, kernel, grid, block, described, self._contents(args)))
        self.calls.append((words.call_text(self._launches[-1], names), None))
        how = dict(shared_mem=shared_mem, options=options)
        given = [self._given(a) for a in args]
        before = {id(a): a.copy() for a in given if isinstance(a, np.ndarray)}  # what the GPU starts from
        first = self._kept is None
        self._kept = Kept(code, kernel, options, given) if first else self._kept
        outputs = tuple(k for k, a in enumerate(args) if _among(a, self._outputs))
        replay = self._replay(grid, block, given, outputs)
        self._how = (outputs, shared_mem, options)
        emulate = partial(runs.emulate, outputs=outputs, where=self.where, **how)
        self._again = partial(emulate, code, kernel, grid, block)
        self._report = self._again(given)
        self._evidence.after(replay, None, (grid, block, *given), {})
        if replay is not None:
            replay.arrays = copy.deepcopy(given)  # a later launch may write the same ones
            replay.report = self._report
        if self.report.problems:
            compared = words.comparison(self._launches)
            by_the_block = compared is not None and compared.startswith(words.LITERAL)  # other changes fit by chance
            slip = words.may_be_a_slip(self.report)
            few = slip == RACE and not words.no_waiting_helps(self.report)
            mend = self._mended(mending.SLIPS if few else mending.ALL, slip == OUTSIDE) if slip else None
            other = partial(emulate, code, kernel)
            cause = None if by_the_block or mend else self._evidence.cause(replay, self.report, other)

            def launched(other):
                arguments = copy.deepcopy([before.get(id(a), a) for a in given])
                with suppress(WrongAnswer):
                    return emulate(other, kernel, grid, block, arguments), arguments

            def changed(other):
                report, _ = launched(other) or (None, None)
                return report

            def order(problem):
                trial = tried_barriers.Trial(launched, self._right, self._open, self._accepts)
                with suppress(Exception):
                    return tried_barriers.tried(self._report, problem, trial) if is_explaining() else ("", True)
                return "", True

            raise WrongAnswer(
                words.problem_text(self.report, self.where, cause, compared is not None, changed, mend, order)
            )
        if first:
            self._kept.after(given, self._again)
        self._inspect_inputs(names, args, given)
        self._inspect_bands()
        if runs.on_gpu(self._capability):
            copies = [before.get(id(a), a) for a in given]  # an array that is passed twice stays one array
            after = runs.run_on_gpu(code, kernel, grid, block, copies, **how)
            read = [a for a, left in zip(copies, given) if isinstance(a, np.ndarray) and np.array_equal(a, left)]
            for name, gpu, emulator in zip(names, after, given):
                if gpu is not None:
                    runs.agree(name, gpu, emulator, read)
        return self.report

    def as_ours(self, args):
        """Let the arrays that the last launch wrote hold what our solution leaves; what was seen of it stays."""
        replay = self._evidence.replays[-1] if self._evidence.replays else None
        if replay is None or replay.report is not self._report:  # a launch that was too large to be kept
            return
        right = self._right()
        replay.outputs = copy.deepcopy(replay.outputs)
        for mine, its in zip(args, right or ()):
            if _among(mine, [buffer.array for buffer in self._buffers]):
                mine[...] = its

    def relaunched(self, arguments) -> list | None:
        """Copies of these arguments as the last kernel leaves them, in a launch of the same sizes; None if it fails."""
        given = copy.deepcopy(arguments)
        with suppress(WrongAnswer):
            return None if self._again(given).problems else given
        return None

    def _replay(self, grid, block, given, outputs):
        """The launch, to be made again by models; NaN in its outputs shows what a model never writes."""
        empty = [np.full_like(a, np.nan) if k in outputs and a.dtype.kind == "f" else a for k, a in enumerate(given)]
        return self._evidence.before(None, (grid, block, *empty), {})

    def demand(self, **limits):
        """WrongAnswer "right, but …" unless the last launch kept these limits (keys of demands.DEMANDS)."""
        if error := self._only_once():
            raise error
        for what, limit in limits.items():
            message = demands.demand_text(self.report, what, limit, self.where, self._report_of_ours)
            if message:
                mend = self._mended(0, True)  # a bound, say, that sends some of the work another way
                raise demands.Wasteful(words.with_sentences(message, [mend] if mend else []))

    def _report_of_ours(self):
        """Of our solution in the last launch; None where nobody waits for what it shows."""
        with suppress(Exception):
            replay = self._evidence.replays[-1]
            if is_explaining() and replay.report is self._report:
                grid, block, *given = copy.deepcopy(replay.arguments)
                return ours.launched(self.name, self._launches[-1].kernel, (grid, block), given, self._how)
        return None

    def _only_once(self):
        """The error of a kernel whose second launch gives something else; None for others."""
        told = self._kept.told() if self._kept else ""
        return demands.Wasteful(told) if told else None

    def _contents(self, args) -> int:
        """A number that stands for what the inputs hold."""
        buffers = [b.array for b in self._buffers]
        return hash(tuple(a.tobytes() for a in args if isinstance(a, np.ndarray) and not _among(a, buffers)))

    def _given(self, argument):
        """A buffer itself; of any other array a copy, contiguous as memory on a GPU is."""
        as_it_is = not isinstance(argument, np.ndarray) or _among(argument, [b.array for b in self._buffers])
        return argument if as_it_is else np.array(argument, order="C")

    def _inspect_inputs(self, names, args, given):
        """Raise WrongAnswer if the kernel wrote to an input, even through a cast or without changing it."""
        inputs = {name for name, mine, its in zip(names, args, given) if mine is not its}
        for use in self.report.lines:
            if use.write and use.space == "global" and use.name in inputs:
                place = f", in line {use.line}" * bool(use.line)
                raise WrongAnswer(f"the kernel wrote to {use.name}, which is an input{place}: it must stay as it is.")


def _is_wrong(error) -> bool:
    """Is it about a wrong answer, not about one that is right but does too much?"""
    return isinstance(error, WrongAnswer) and not isinstance(error, demands.Wasteful)


def _among(value, arrays) -> bool:
    """Is it one of these arrays (the same object)?"""
    return any(value is array for array in arrays)


def _three(size) -> tuple:
    """(x, y, z) of an int or of a shorter tuple."""
    size = size if isinstance(size, tuple) else (size,)
    return tuple(int(n) for n in size) + (1,) * (3 - len(size))
