"""Lesson 20: schedules of a step in which tensors are dropped and made again: what they cost, what is wrong with one.

A net is a list of Layers. A schedule is a list of pairs: ("make", name) runs a layer forward, ("drop", name) frees its
tensor, ("backward", name) runs its backward pass.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import WrongAnswer, describe, listed

WHERE = 'lesson 20, section "5.2 · A schedule"'
ACTIONS = "make", "drop", "backward"
LISTED = 6  # events around a wrong one
SMALLER = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.0)  # times a limit: others that are tried


class Layer(NamedTuple):
    """name: of the layer, and of the tensor that it makes. reads, needs: the tensors that its forward and its backward
    function read. size: bytes of the tensor. us: microseconds of the forward function."""

    name: str
    reads: tuple
    needs: tuple
    size: int
    us: float


class Cost(NamedTuple):
    """The largest sum of bytes that were in memory at once, and the microseconds of all forward functions."""

    peak: int
    us: float


def play(net, schedule) -> Cost:
    """What a schedule costs. Raises WrongAnswer if it is not possible, or not complete."""
    layers, left = {layer.name: layer for layer in net}, [layer.name for layer in net]
    memory, held, peak, us, made = {}, 0, 0, 0.0, set()
    for k, event in enumerate(_events(schedule, layers)):
        action, name = event
        layer = layers[name]
        if action == "make":
            _present(layer.reads, memory, made, schedule, k, f"the layer {name} reads")
            if name in memory:
                _stop(f"{name} is made, but it is in memory already: its bytes would be there twice", schedule, k)
            memory[name], held, us = layer.size, held + layer.size, us + layer.us
            made.add(name)
            peak = max(peak, held)
        elif action == "drop":
            if name not in memory:
                why = "it was dropped before" if name in made else "it was never made"
                _stop(f"{name} is dropped, but it is not in memory: {why}", schedule, k)
            held -= memory.pop(name)
        else:
            missing = [layer.name for layer in net if layer.name not in made]
            if missing:
                _stop(f"the backward pass begins, but {missing[0]} has not been made yet", schedule, k)
            if not left or name != left[-1]:
                turn = f"it is {left[-1]}'s turn" if left else "all layers have had theirs"
                _stop(f"backward of {name} is out of turn: from the last layer to the first, {turn}", schedule, k)
            _present(layer.needs, memory, made, schedule, k, f"the backward pass of {name} needs")
            left.pop()
    if left:
        none = ": it needs no tensor, but has a backward pass, too" if not any(layers[n].needs for n in left) else ""
        raise WrongAnswer(f"the schedule ends before the backward pass of {left[-1]}{none}.\n→ Where to look: {WHERE}.")
    return Cost(peak, us)


def _events(schedule, layers):
    """The pairs, one after the other. WrongAnswer for anything that is none."""
    if not isinstance(schedule, list | tuple):
        raise WrongAnswer(f"return a list of pairs, not {describe(schedule)}.")
    for k, event in enumerate(schedule):
        if not (isinstance(event, list | tuple) and len(event) == 2):
            raise WrongAnswer(f'item {k} of the schedule is {describe(event)}, not a pair like ("make", name).')
        if event[0] not in ACTIONS:
            raise WrongAnswer(f"item {k} of the schedule begins with {event[0]!r}, not with {', '.join(ACTIONS)}.")
        if event[1] not in layers:
            raise WrongAnswer(f"item {k} of the schedule names {event[1]!r}, but no layer has that name.")
        yield event


def _present(names, memory, made, schedule, k, who):
    for name in names:
        if name not in memory:
            why = "it was dropped and not made again" if name in made else "it was never made"
            _stop(f"{who} {name}, which is not in memory: {why}", schedule, k)


def _stop(sentence, schedule, k):
    first = max(0, k - LISTED + 1)
    lines = [f"    {i:4}  {action:<9}{name}" for i, (action, name) in enumerate(schedule[first : k + 1], first)]
    lines[-1] += "    <- here"
    raise WrongAnswer(
        "\n".join([f"{sentence}.", f"→ Where to look: {WHERE}.", "", "The schedule up to there:", *lines])
    )


def keep_all(net) -> list:
    """The schedule of a step that drops nothing before its backward pass has used it."""
    return schedule_for(net, {layer.name for layer in net})


def schedule_for(net, kept) -> list:
    """A schedule that keeps these tensors for the backward pass, and makes the others again, as late as possible."""
    layers, memory, events = {layer.name: layer for layer in net}, set(), []
    reader = {name: k for k, layer in enumerate(net) for name in layer.reads}  # the last one to read it, forward
    user = {name: k for k, layer in reversed([*enumerate(net)]) for name in layer.needs}  # and backward

    def make(name):
        if name not in memory:
            for read in layers[name].reads:
                make(read)
            events.append(("make", name))
            memory.add(name)

    def drop(useless):
        for name in [each.name for each in net if each.name in memory and useless(each.name)]:
            events.append(("drop", name))
            memory.remove(name)

    for k, layer in enumerate(net):
        make(layer.name)
        drop(lambda name, k=k: name not in kept and reader.get(name, -1) <= k)
    for k in reversed(range(len(net))):
        for name in net[k].needs:
            make(name)
        events.append(("backward", net[k].name))
        drop(lambda name, k=k: user.get(name, len(net)) >= k)
    return events


def memory_in_time(net, schedule) -> list:
    """Bytes in memory after each item of a schedule."""
    sizes, held, found = {layer.name: layer.size for layer in net}, 0, []
    for action, name in schedule:
        held += sizes[name] * {"make": 1, "drop": -1, "backward": 0}[action]
        found.append(held)
    return found


def most_at(net, schedule) -> int:
    """The first item after which the most bytes are in memory."""
    return int(np.argmax(memory_in_time(net, schedule)))


def demand(net, schedule, limit, most, what) -> Cost:
    """The cost of a schedule. WrongAnswer above limit (bytes), or where it makes more than `most` of a pass again."""
    cost, once = play(net, schedule), sum(layer.us for layer in net)
    if cost.peak > limit:
        made = [event for event in schedule if event[0] == "make"]
        nothing = "Nothing is made again. " if len(made) == len(net) else ""
        k = most_at(net, schedule)
        again = " again" * (schedule[k] in schedule[:k])
        words = f"{what}: possible, but {cost.peak:,} bytes are in memory at once, and the limit is {limit:,}"
        when = f"{nothing}The most are there when item {k} of {len(schedule)} makes {schedule[k][1]}{again}."
        why = _with_less(net, limit) or _what_is_there(net, schedule, k, limit)
        raise WrongAnswer(f"{words}.\n{when} {why}\n→ Where to look: {WHERE}.")
    again = cost.us / once - 1
    if again > most:
        words = (
            f"{what}: it fits, but making tensors again takes {again:.1%} of a forward pass; at most {most:.1%} will do"
        )
        raise WrongAnswer(f"{words}. {_given_up(net, schedule, limit, most)}\n→ Where to look: {WHERE}.")
    return cost


def _given_up(net, schedule, limit, most) -> str:
    """Whether the same tensors could be given up at less cost, or what they cost beside those that are kept."""
    times = {layer.name: sum(event == ("make", layer.name) for event in schedule) for layer in net}
    again = {name for name, count in times.items() if count > 1}
    if often := [name for name, count in times.items() if count > 2]:
        ours, once = play(net, schedule_for(net, times.keys() - again)), sum(layer.us for layer in net)
        if ours.peak <= limit and ours.us / once - 1 <= most:
            name = max(often, key=times.get)
            some = f"{len(often)} tensors" if often[1:] else "a tensor"
            return (
                f"It makes {some} more than twice, {name} {times[name]} times. The same tensors can be given up for "
                f"{ours.us / once - 1:.1%}, if each is made again when it is needed, and kept until its last use."
            )
    kept = [layer for layer in net if layer.name not in again]
    gone = [layer for layer in net if layer.name in again]
    dear, cheap = (
        1e6 * sum(each.us for each in some) / sum(each.size for each in some) for some in (gone, kept or net)
    )
    if dear <= cheap and (early := _dropped_too_early(net, schedule, limit, most)):
        return early
    fewer, in_order = _of_greedy(net, limit, most)
    if fewer and fewer < again:
        return (
            f"It makes {len(again)} tensors again. {len(fewer)} of them are enough to fit, if each is made again as "
            "late as possible."
        )
    if dear <= cheap:
        generic = f"It makes {len(gone)} tensors again, which cost no more per byte than those that it keeps."
        return in_order if fewer != again and in_order else generic
    kept = f"those that it keeps only {cheap:.2f}"
    return f"The tensors that it makes again cost {dear:.2f} µs for a million bytes, and {kept}. {in_order}".rstrip()


def _of_greedy(net, limit, most) -> tuple:
    """(the tensors that `greedy` makes again, a sentence on its order); (set(), "") if it takes more time than most."""
    ours, once = greedy(net, limit), sum(layer.us for layer in net)
    if ours is None or play(net, ours).us / once - 1 > most:
        return set(), ""
    share = f"{play(net, ours).us / once - 1:.1%}"
    order = f"If the tensors with the fewest microseconds per byte are given up first, it takes {share}."
    return {name for action, name in ours if ours.count((action, name)) > 1}, order


def _dropped_too_early(net, schedule, limit, most) -> str:
    """A sentence if enough time is saved by keeping tensors from a drop until they are made again, with room for them.

    It names the drop whose tensor is wanted again first.
    """
    sizes, events, early = {layer.name: layer.size for layer in net}, list(schedule), []
    spans = []  # (first item, item after the last) in which a tensor is not there, between two times that it is made
    for i, (action, name) in enumerate(schedule):
        if action == "drop" and ("make", name) in schedule[i:]:
            spans.append((i, schedule.index(("make", name), i), name))
    held = np.array(memory_in_time(net, schedule))
    for i, j, name in sorted(spans, key=lambda span: span[1] - span[0]):
        if held[i:j].max() + sizes[name] <= limit:
            held[i:j] += sizes[name]
            events[i] = events[j] = None
            early.append((i, j, name))
    cost = play(net, [event for event in events if event]) if early else None
    once = sum(layer.us for layer in net)
    if cost is None or cost.peak > limit or cost.us / once - 1 > most:
        return ""
    i, j, name = early[0]
    return (
        f"It drops tensors for which there is room until it makes them again, {len(early)} times: {name} in item {i}, "
        f"made again in item {j}. Without these drops it is {cost.us / once - 1:.1%}."
    )


def _with_less(net, limit) -> str:
    """A sentence if the learner's function meets the limit as soon as it is given a smaller one; else ""."""
    function = evidence.learners_function() if evidence.is_explaining() else None
    for share in SMALLER if function else ():
        less = int(share * limit)
        with suppress(WrongAnswer):
            if play(net, outcome(function, list(net), less)).peak <= limit:
                return f"Given a limit of {less:,}, your function makes a schedule that fits into {limit:,}."
    return ""


def _what_is_there(net, schedule, k, limit) -> str:
    """Why there is so much in memory after item k: tensors that nobody reads any more, or not for long, or too many."""
    layers, there = {layer.name: layer for layer in net}, {}  # {name: the item that made it}
    for i, (action, name) in enumerate(schedule[: k + 1]):
        if action == "make":
            there[name] = i
        elif action == "drop":
            del there[name]
    del there[schedule[k][1]]
    uses = {name: _next_use(layers, schedule, name, k - 1) for name in there}  # item k itself may read them
    if idle := [name for name, used in uses.items() if used is None]:
        nobody = "is there, and nobody reads it" if len(idle) == 1 else "are there, and nobody reads them"
        return f"{listed(idle)} {nobody} any more."
    again = [name for name, made in there.items() if ("make", name) in schedule[:made]]
    for name in again:
        unread = _next_use(layers, schedule, name, there[name]) == uses[name]
        if unread and any(action == "backward" for action, _ in schedule[k : uses[name]]):
            return f"Item {there[name]} makes {name} again, and item {uses[name]} is the next to read it."
    whole = {name for action, name in schedule[:k] if action == "make"} == set(layers)  # the forward pass is over
    if whole and again and len(again) == len(there):
        words = "All that is there was made again: nothing of it was kept from the forward pass."
        count = len(_kept(greedy(net, limit) or ()))
        fits = f"a schedule that keeps {count} of the {len(net)} tensors fits"
        return f"{words} There is room: {fits}." if count else words
    return "All of that will still be read."


def _kept(schedule) -> set:
    """The tensors in memory when the last layer's backward pass begins that were made once until then."""
    made, there = [], set()
    for action, name in schedule:
        if action == "backward":
            break
        made += [name] * (action == "make")
        (there.add if action == "make" else there.discard)(name)
    return {name for name in there if made.count(name) == 1}


def _next_use(layers, schedule, name, k):
    """The first item after k that reads a tensor, before it is dropped; or None."""
    for i, (action, other) in enumerate(schedule[k + 1 :], k + 1):
        if action == "drop" and other == name:
            return None
        if name in {"make": layers[other].reads, "backward": layers[other].needs, "drop": ()}[action]:
            return i
    return None


# ---------------------------------------------------------------------------------------------------------------- nets

FLOPS, BYTES = 600e6, 2.5e6  # of an H100 in a microsecond: what bf16 products and kernels reach in practice


def gpt2(L=12, C=768, NH=12, B=32, T=1024) -> list:
    """GPT-2's blocks between the embedding and the last layernorm, in the types of llmc's bf16."""
    N = B * T
    net = [Layer("x0", (), (), 4 * N * C, 6 * N * C / BYTES)]
    for l in range(L):

        def add(name, reads, needs, width, reading, flops=0.0, size=2, l=l):
            moved = N * (size * width + reading)
            net.append(Layer(name, reads, needs, size * N * width, max(moved / BYTES, flops * N / FLOPS)))

        x, here = f"x{l}", lambda name, l=l: f"{l}.{name}"
        add(here("ln1"), (x,), (x,), C, 4 * C)
        add(here("qkv"), (here("ln1"),), (here("ln1"),), 3 * C, 2 * C, 6 * C * C)
        add(here("att"), (here("qkv"),), (here("qkv"), here("att")), C, 6 * C, 2 * C * T)
        add(here("mid"), (x, here("att")), (here("att"),), C, 6 * C, 2 * C * C, size=4)
        add(here("ln2"), (here("mid"),), (here("mid"),), C, 4 * C)
        add(here("fch"), (here("ln2"),), (here("ln2"),), 4 * C, 2 * C, 8 * C * C)
        add(here("gelu"), (here("fch"),), (here("fch"),), 4 * C, 8 * C)
        add(f"x{l + 1}", (here("mid"), here("gelu")), (here("gelu"),), C, 12 * C, 8 * C * C, size=4)
    return net


def odd_net(rng, n) -> list:
    """n layers with odd names, sizes and times; each reads one to three of the four before it."""
    names = [f"t{k}" for k in rng.permutation(10 * n)[:n]]
    net = []
    for k in range(n):
        near = names[max(0, k - 4) : k]
        reads = tuple(rng.permutation(near)[: rng.integers(1, 4)].tolist()) if near else ()
        others = [r for r in reads if rng.random() < 0.7] + [names[k]] * int(rng.random() < 0.3)
        net.append(Layer(names[k], reads, tuple(others), int(rng.integers(10, 1000)), float(rng.integers(1, 50))))
    return net


def recomputed(net, which) -> Cost:
    """The cost of making tensors of these kinds ("gelu", "ln1") again."""
    kept = {layer.name for layer in net if layer.name.rpartition(".")[2] not in which}
    return play(net, schedule_for(net, kept))


def greedy(net, limit) -> list:
    """Drop what gives back the most bytes for a microsecond, until it fits; None if it never does."""
    kept = {layer.name for layer in net}
    for layer in sorted(net, key=lambda layer: layer.us / layer.size):
        schedule = schedule_for(net, kept)
        if play(net, schedule).peak <= limit:
            return schedule
        kept.discard(layer.name)
    schedule = schedule_for(net, kept)
    return schedule if play(net, schedule).peak <= limit else None


def star(rng, n) -> list:
    """n layers that all read the first one; with any of the others kept, more is in memory than with none."""
    first = Layer("root", (), (), int(rng.integers(10, 99)), 0.1)
    leaves = [(f"leaf{k}", int(rng.integers(100, 999)), float(rng.integers(1, 50))) for k in rng.permutation(n)]
    return [first, *(Layer(name, ("root",), (name,), size, us) for name, size, us in leaves)]


def lingering(rng) -> tuple:
    """(net, limit): it fits if two cheap tensors are given up, and "early" is dropped as soon as nobody needs it.

    Who keeps it until its own backward pass has it beside both of them, when they are made again.
    """
    size = {name: int(rng.integers(200, 400)) for name in ("early", "a", "b", "c")}
    net = [Layer("root", (), (), 1, 9.0), Layer("early", ("root",), (), size["early"], 90.0)]
    net += [Layer("a", ("root",), (), size["a"], 1.0), Layer("b", ("a",), (), size["b"], 1.0)]
    net += [Layer("c", ("b",), ("b",), size["c"], 90.0), Layer("last", ("early", "c"), ("early", "c"), 1, 9.0)]
    return net, play(net, schedule_for(net, {"root", "early", "c", "last"})).peak


def awkward_limits(rng, n) -> list:
    """(net, limit) of n nets that a schedule can meet: the first keeps everything, the second gives up everything."""
    found = []
    for k in range(n):
        net = star(rng, 4) if k == 1 else odd_net(rng, int(rng.integers(2, 14)))
        everything, least = play(net, keep_all(net)).peak, play(net, schedule_for(net, set())).peak
        share = (1.0, 0.0)[k] if k < 2 else rng.uniform(0.1, 0.9)
        found.append((net, int(np.ceil(least + share * max(0, everything - least)))))
    return found
