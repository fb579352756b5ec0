"""Arrays that remember which turn of a parallel loop read and wrote each of their numbers.

`Notes` counts the turns, `Notes.watched` makes such arrays; `find.py` runs a kernel on them.
"""

import sys
from dataclasses import dataclass, field, replace

import numpy as np

from llmc.course.races.overlap import shared_index

NOBODY, SEVERAL = -1, -2
MANY = 64  # turns of a loop for which it is noted what each of them wrote


@dataclass(frozen=True)
class Race:
    """Two turns of a loop that touch one number. array: its name · how: "write" or "read and write".

    own: did the function make that array, outside of the loop? overlap: a sentence on ranges of the turns that overlap.
    """

    array: str
    index: tuple
    first: int
    second: int
    how: str
    own: bool = False
    overlap: str = ""
    number: int = 0  # of the array in the notes

    def __str__(self):
        at = ", ".join(map(str, self.index))
        return f"turns {self.first} and {self.second} of the prange both {self.how} {self.array}[{at}]"


@dataclass
class Watch:
    """Observations.

    races: the first of each array · loops: pranges that ran · threads: the most that worked in one of them ·
    arguments: their values at the end · outside: where an index lay outside of its array, which ended the run, or "".
    """

    races: list = field(default_factory=list)
    loops: int = 0
    threads: int = 0
    arguments: tuple = ()
    outside: str = ""


class Notes:
    """Which turn has touched which number since the loop began."""

    def __init__(self, threads):
        self.threads, self.watch = threads, Watch()
        self.turn = self.thread = None  # None: outside of a loop, where nothing runs at the same time
        self.by_thread = False  # turns of one thread run one after the other, so they cannot race
        self.workers = set()  # threads that have touched an array in this loop
        self.arrays = []  # (name, shape, turns that wrote (n,), that read (n,)) of each
        self.written = {}  # {number of an array: {turn: True where it wrote (n,)}}

    def watched(self, array, name=""):
        """A copy of the array that reports to these notes."""
        copy = np.array(array, order="C").view(Watched)
        copy.notes, copy.number = self, len(self.arrays)
        copy.ids = np.arange(copy.size).reshape(copy.shape)
        self.arrays.append((name, copy.shape, np.full(copy.size, NOBODY), np.full(copy.size, NOBODY)))
        return copy

    def loop(self, *bounds):
        """The replacement of `prange`."""
        if self.turn is not None:  # inside another one it is an ordinary range
            yield from range(*bounds)
            return
        self.watch.loops += 1
        turns = range(*bounds)
        try:
            for k, i in enumerate(turns):
                self.thread = k * self.threads // len(turns)
                self.turn = self.thread if self.by_thread else k
                yield i
        finally:
            self.turn = self.thread = None
            self._explain_overlaps()
            self.watch.threads = max(self.watch.threads, len(self.workers))
            self.workers.clear()
            for _, _, wrote, read in self.arrays:
                wrote[:], read[:] = NOBODY, NOBODY

    def read(self, number, ids):
        """This turn reads the numbers `ids` of an array."""
        if self.turn is not None:
            self.workers.add(self.thread)
            _, _, wrote, read = self.arrays[number]
            self._meet(number, ids, wrote, "read and write")
            if isinstance(ids, np.integer):  # one number, as in most loops: this is ten times as fast
                read[ids] = self.turn if read[ids] in (NOBODY, self.turn) else SEVERAL
            else:
                read[ids] = np.where((read[ids] == NOBODY) | (read[ids] == self.turn), self.turn, SEVERAL)

    def write(self, number, ids):
        """This turn writes them."""
        if self.turn is not None:
            self.workers.add(self.thread)
            _, _, wrote, read = self.arrays[number]
            self._meet(number, ids, wrote, "write")
            self._meet(number, ids, read, "read and write")
            wrote[ids] = self.turn
            if self.turn < MANY:
                self.written.setdefault(number, {}).setdefault(self.turn, np.zeros(wrote.size, bool))[ids] = True

    def _explain_overlaps(self):
        """Explain the overlaps of the loop that ends, for each of its races."""
        for k, race in enumerate(self.watch.races):
            turns = self.written.get(race.number, {})
            if not race.overlap and len(turns) < MANY:
                shape = self.arrays[race.number][1]
                said = shared_index({turn: where.reshape(shape) for turn, where in turns.items()})
                self.watch.races[k] = replace(race, overlap=said)
        self.written.clear()

    def _meet(self, number, ids, who, how):
        """Note a race if another turn has been there."""
        if isinstance(ids, np.integer) and who[ids] in (NOBODY, self.turn):
            return
        name, shape, _, _ = self.arrays[number]
        flat = np.ravel(ids)
        others = flat[(who[flat] != NOBODY) & (who[flat] != self.turn)]
        own, name = not name, name or (_name_of(number) if others.size else "")
        if others.size and all(race.array != name for race in self.watch.races):
            index = tuple(int(i) for i in np.unravel_index(others[0], shape))
            first = max(int(who[others[0]]), 0)
            self.watch.races.append(Race(name, index, first, self.turn, how, own, number=number))


class Watched(np.ndarray):
    """An array or a part of one. ids: where its numbers lie in the whole, which is array `number` of the notes."""

    notes = None

    def _part(self, value, ids):
        """The value, marked as a part of the same array."""
        value.notes, value.number, value.ids = self.notes, self.number, ids
        return value

    def _is_whole(self):
        """Is this the whole array, or none of the watched ones?"""
        return self.notes is None or self.size == self.notes.arrays[self.number][2].size

    def _read(self):
        if self.notes is not None:
            self.notes.read(self.number, self.ids)

    def __getitem__(self, index):
        value = super().__getitem__(index)
        if self.notes is None:
            return value
        if isinstance(value, Watched) and np.may_share_memory(value, self):
            return self._part(value, self.ids[index])  # a view: nothing has been read yet
        self.notes.read(self.number, self.ids[index])
        return value.view(np.ndarray) if isinstance(value, Watched) else value

    def __setitem__(self, index, value):
        if self.notes is not None:
            self.notes.write(self.number, self.ids[index])
        if isinstance(value, Watched):
            value._read()
        super().__setitem__(index, np.asarray(value))

    def reshape(self, *shape, **options):
        """As NumPy's."""
        value = super().reshape(*shape, **options)
        return value if self.notes is None else self._part(value, self.ids.reshape(*shape, **options))

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if method == "at" and isinstance(inputs[0], Watched):  # np.add.at(array, where, what)
            inputs[0].notes.write(inputs[0].number, inputs[0].ids[inputs[1]])
        for value in inputs[1:] if method == "at" else inputs:
            if isinstance(value, Watched) and not any(value is target for target in out):
                value._read()
        for value in out:
            if isinstance(value, Watched) and not value._is_whole():  # the whole: `total += row`, a reduction
                value.notes.write(value.number, value.ids)
        if out:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return out[0] if out else result


def _name_of(number) -> str:
    """The name under which a function that is running now holds the whole of this array."""
    frame = sys._getframe(1)
    while frame:
        for name, value in frame.f_locals.items() if frame.f_code.co_filename != __file__ else ():
            if isinstance(value, Watched) and value.notes and value.number == number and value._is_whole():
                return name
        frame = frame.f_back
    return "an array of your own"


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, Watched) else value
