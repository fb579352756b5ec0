'''`with kernel_check("gelu_kernel") as c:` around a check cell whose answer is CUDA C.

The answer cell assigns a string to the exercise's name. The string opens on the first line of the cell, so that
"line 6" in a report is line 6 of the cell. In the solution, the markers are C comments:

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

    with kernel_check("gelu_kernel") as c:
        for n, threads in c.cases():  # around a warp, around a block
            c.compare(gelu_kernel, ceil_div(n, threads), threads, (c.output(n), c.random(n), n))
        c.demand(efficiency=0.9, bank_conflicts=0)  # of the last launch

c.random(*shape)    an input, float32 unless you say dtype=…; a launch gets a copy, and a kernel must not write to it
c.output(*shape)    an output: poisoned before each launch, and every element must be written
c.buffer(*shape)    holds numbers that matter (for += or in place); part of it may stay unwritten
c.launch(code, grid, block, args, kernel=None, shared_mem=0, options=())
                    runs on the emulator with all its diagnoses. If there is a GPU, it runs there as well, and both must
                    agree. Returns the emulator's report, which a learner can look at afterwards as c.report
c.compare(…)        the same, then compares what was written with the exercise's reference, a function of the arguments
c.demand(…)         WrongAnswer "right, but …" unless the last launch kept these limits (`demands.py`)

The exercise's `look` says where to look for an output, or for a kind of problem: its name in the emulator's
findings/kinds.py, alone, with an array's ("never-written p"), with a space ("race in global memory"), a key of demand,
or "compile".
'''

import copy
from functools import partial

import numpy as np

from llmc.course.checks.check import check, say
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.exercises.stubs import STUB_IN_C
from llmc.course.kernel_checks import reports, runs
from llmc.course.kernel_checks.device_variables import Kept
from llmc.course.kernel_checks.launches import Launch, difference
from llmc.course.kernel_checks.search import KernelSearch
from llmc.course.kernel_checks.source import Unfinished, kernel_of, one_index, unfinished
from llmc.course.learner.refusal import Refusal
from llmc.course.mutation.program import source_of
from llmc.cuda.emulator.compiling.source import parameter_names

NOT_DONE = f"not done yet: {{}}. Replace `{STUB_IN_C}` with your code, run that cell, then this one."


class kernel_check(check):
    """Context manager around a check cell whose answer is CUDA C; `name` is the exercise's name.

    capability: the compute capability that its instructions need, 90 for Hopper's; an older GPU does not run it.
    """

    what = "kernel"

    def __init__(self, name, capability=0):
        super().__init__(name)
        self._capability = capability
        self._report = None
        self._outputs = []  # arrays that a launch must write completely
        self._launches = []  # a Launch for each, the last one perhaps wrong
        self._kept = None  # of the first launch
        self._last = None  # (code, kernel, (grid, block, arguments before it, outputs, shared_mem, options), arguments)

    @property
    def report(self):
        """The emulator's Report of the last launch. Raises Refusal, a UserError, if there is none."""
        if self._report is None:
            raise Refusal(
                "there is no report, because no launch of this check has run yet; first fix what it complains about."
            )
        return self._report

    def _conclude(self, error, traceback):
        if isinstance(error, Unfinished):
            say(NOT_DONE.format(self.name))
            return True
        return super()._conclude(error, traceback)

    def _at_the_end(self):
        told = self._kept.told() if self._kept else ""
        return WrongAnswer(told, Kind.STATE) if told else None

    def _completed(self, found):
        """With what distinguishes the launch that failed from those that were right."""
        if self._launches and found.kind is not Kind.DEMAND:
            told = difference(self._launches)
            found.more = [*([told] if told else []), *found.more]
            found.folded = [f"The launch was {self._launches[-1].text(self._names_of_arguments)}."]
        return found

    def random(self, *shape, dtype=np.float32):
        """New awkward input (…, n), float32."""
        return super().random(*shape, dtype=dtype)

    def buffer(self, *shape, dtype=np.float32):
        """New buffer whose contents matter, for a kernel that adds to it or works in place."""
        return super().buffer(*shape, dtype=dtype)

    def output(self, *shape, dtype=np.float32):
        """New buffer that a launch must write completely, and whose old contents it must not read."""
        self._outputs.append(self.buffer(*shape, dtype=dtype))
        return self._outputs[-1]

    def compare(self, code, grid, block, args, **how):
        """Launch the learner's kernel, and compare what it wrote with the exercise's reference, a function of args."""
        given = copy.deepcopy(tuple(args))
        report = self.launch(code, grid, block, args, **how)
        named = dict(zip(self._names_of_arguments, args))
        written = {name: named[name] for name in (*self.exercise.writes.split(), *self.exercise.adds.split())}
        before = {name: given[[*named].index(name)] for name in written}
        self._judge(None, dict(zip(named, given)), (given, {}), written, before, None)
        return report

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
        self._names_of_arguments = names = parameter_names(code, kernel)
        self._launches.append(Launch(code, kernel, grid, block, tuple(map(describe, args))))
        self.made += 1
        given = [self._given(a) for a in args]
        before = {id(a): a.copy() for a in given if isinstance(a, np.ndarray)}  # what the GPU starts from
        first = self._kept is None
        self._kept = Kept(code, kernel, options, given) if first else self._kept
        outputs = tuple(k for k, a in enumerate(args) if _among(a, self._outputs))
        how = {"outputs": outputs, "shared_mem": shared_mem, "options": options}
        self._last = code, kernel, (grid, block, copy.deepcopy(given), *how.values()), args
        again = partial(runs.emulate, code, kernel, grid, block, **how)
        self._report = again(given, look=self.exercise.look_for("compile", exactly=True))
        if self.report.problems:
            repair = self.search(None, None).repair() if self.explains else None
            raise WrongAnswer(reports.diagnosis_of(self.report, self.exercise, repair))
        if first:
            self._kept.after(given, again)
        self._inspect_inputs(names, args, given)
        self._inspect_bands()
        if self.explains and runs.on_gpu(self._capability):  # no edits there: a fault ends all CUDA work
            copies = [before.get(id(a), a) for a in given]  # an array that is passed twice stays one array
            after = runs.run_on_gpu(code, kernel, grid, block, copies, shared_mem=shared_mem, options=options)
            read = [a for a, left in zip(copies, given) if isinstance(a, np.ndarray) and np.array_equal(a, left)]
            for name, gpu, emulator in zip(names, after, given):
                if gpu is not None:
                    runs.agree(name, gpu, emulator, read)
        return self.report

    def search(self, array, right):
        """A search for edits that explain this launch; `array` is the wrong output, or None if the launch failed."""
        code, kernel, launch, args = self._last
        at = next((k for k, a in enumerate(args) if a is array), None) if array is not None else None
        if array is not None and at is None:
            return None
        lines = {n for p in self.report.problems for n in (p.line, p.line2, *p.calls) if n} if self._report else ()
        return KernelSearch(self, at, array, right, code, kernel, launch, copy.deepcopy(args), tuple(lines))

    def demand(self, **limits):
        """WrongAnswer "right, but …" unless the last launch kept these limits (keys of reports.DEMANDS)."""
        if error := self._at_the_end():
            raise error
        for what, limit in limits.items():
            error = reports.wasteful(self.report, what, limit, self.exercise.look_for(what), self._report_of_ours)
            if error:
                raise error

    def _report_of_ours(self):
        """Of our solution in the last launch; None where nobody waits for what it shows."""
        code, kernel, (grid, block, arguments, outputs, shared_mem, options), _ = self._last
        ours = source_of(self.exercise.name) if self.explains else None
        how = {"outputs": outputs, "shared_mem": shared_mem, "options": options}
        return ours and runs.emulate(ours, kernel, grid, block, copy.deepcopy(arguments), **how)

    def _given(self, argument):
        """A buffer itself; of any other array a copy, contiguous, as memory on a GPU is."""
        as_it_is = not isinstance(argument, np.ndarray) or _among(argument, [b.array for b in self._buffers])
        return argument if as_it_is else np.array(argument, order="C")

    def _inspect_inputs(self, names, args, given):
        """Raise WrongAnswer if the kernel wrote to an input, even through a cast or without changing it."""
        inputs = {name for name, mine, its in zip(names, args, given) if mine is not its}
        for use in self.report.lines:
            if use.write and use.space == "global" and use.name in inputs:
                place = f", in line {use.line}" * bool(use.line)
                raise WrongAnswer(f"the kernel wrote to {use.name}, which is an input{place}: it must stay as it is")


def _among(value, arrays) -> bool:
    """Is it one of these arrays (the same object)?"""
    return any(value is array for array in arrays)


def _three(size) -> tuple:
    """(x, y, z) of an int or of a shorter tuple."""
    size = size if isinstance(size, tuple) else (size,)
    return tuple(int(n) for n in size) + (1,) * (3 - len(size))
