"""Lesson 20: schedules of a step in which tensors are dropped and made again, and exercise 5 about them.

A net is a list of Layers. A schedule is a list of pairs: ("make", name) runs a layer forward, ("drop", name) frees its
tensor, ("backward", name) runs its backward pass.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe, listed

WHERE = 'lesson 20, section "5.2 · A schedule"'
ACTIONS = "make", "drop", "backward"
LISTED = 6  # items that are shown of a schedule that stops


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
    memory, made, peak, us = set(), set(), 0, 0.0
    for k, (action, name) in enumerate(_events(schedule, layers)):
        told, layer = "", layers[name]
        missing = [
            each for each in {"make": layer.reads, "backward": layer.needs, "drop": ()}[action] if each not in memory
        ]
        if action == "backward" and len(made) < len(net):
            told = (
                f"the backward pass begins, but {min(layers.keys() - made, key=[*layers].index)} has not been made yet"
            )
        elif action == "backward" and name not in left[-1:]:
            turn = f"it is {left[-1]}'s turn" if left else "all layers have had theirs"
            told = f"backward of {name} is out of turn: from the last layer to the first, {turn}"
        elif missing:
            who = f"the layer {name} reads" if action == "make" else f"the backward pass of {name} needs"
            why = _why_not(missing[0], made, "dropped and not made again")
            told = f"{who} {missing[0]}, which is not in memory: {why}"
        elif action == "make" and name in memory:
            told = f"{name} is made, but it is in memory already: its bytes would be there twice"
        elif action == "drop" and name not in memory:
            told = f"{name} is dropped, but it is not in memory: {_why_not(name, made, 'dropped before')}"
        if told:
            first = max(0, k - LISTED + 1)
            lines = [f"    {i:4}  {one:<9}{other}" for i, (one, other) in enumerate(schedule[first : k + 1], first)]
            lines = ["The schedule up to there:", *lines[:-1], lines[-1] + "    <- here"]
            raise WrongAnswer(told, look=WHERE, table=lines)
        if action == "backward":
            left.pop()
        else:
            (memory.add if action == "make" else memory.remove)(name)
        if action == "make":
            us, made = us + layer.us, made | {name}
            peak = max(peak, sum(layers[each].size for each in memory))
    if left:
        none = "" if any(layers[name].needs for name in left) else ": it needs no tensor, but has a backward pass, too"
        raise WrongAnswer(f"the schedule ends before the backward pass of {left[-1]}{none}", look=WHERE)
    return Cost(peak, us)


def _why_not(name, made, dropped) -> str:
    return f"it was {dropped}" if name in made else "it was never made"


def _events(schedule, layers):
    """The pairs, one after the other. WrongAnswer for anything that is none."""
    if not isinstance(schedule, list | tuple):
        raise WrongAnswer(f"return a list of pairs, not {describe(schedule)}", Kind.SHAPE)
    for k, event in enumerate(schedule):
        if not (isinstance(event, list | tuple) and len(event) == 2):
            raise WrongAnswer(
                f'item {k} of the schedule is {describe(event)}, not a pair like ("make", name)', Kind.SHAPE
            )
        if event[0] not in ACTIONS:
            raise WrongAnswer(f"item {k} of the schedule begins with {event[0]!r}, not with {', '.join(ACTIONS)}")
        if event[1] not in layers:
            raise WrongAnswer(f"item {k} of the schedule names {event[1]!r}, but no layer has that name")
        yield event


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


# ------------------------------------------------------------------------------------------------------- the exercise


def judge_schedule(c, function, what, net, limit, most):
    """WrongAnswer unless the schedule fits into limit (bytes), and makes no more than `most` of a pass again."""
    schedule = c.call(function, list(net), limit)
    cost, once = play(net, schedule), sum(layer.us for layer in net)
    if cost.peak > limit:
        k = int(np.argmax(memory_in_time(net, schedule)))
        again = " again" * (schedule[k] in schedule[:k])
        told = f"{what}: possible, but {cost.peak:,} bytes are in memory at once, and the limit is {limit:,}"
        when = f"The most are there when item {k} of {len(schedule)} makes {schedule[k][1]}{again}."
        raise WrongAnswer(told, more=[when, _what_is_there(net, schedule, k, limit)], look=WHERE)
    again = cost.us / once - 1
    if again > most:
        told = f"{what}: it fits, but making tensors again takes {again:.1%} of a forward pass; {most:.0%} will do"
        raise WrongAnswer(told, Kind.DEMAND, more=[_what_is_dear(net, schedule, limit, most)], look=WHERE)
    if most < 1:
        c.say(f"{what}: {again:.1%} of a forward pass is made again.")


def _what_is_there(net, schedule, k, limit) -> str:
    """Why there is so much in memory after item k: tensors that nobody reads any more, or not for long, or too many."""
    made = [name for action, name in schedule[:k] if action == "make"]
    if sum(action == "make" for action, _ in schedule) == len(net):
        return "Nothing is made again."
    last = {name: i for i, (action, name) in enumerate(schedule[:k]) if action != "backward"}
    there = {name: i for name, i in last.items() if schedule[i][0] == "make"}  # {name: the item that made it}
    uses = {name: _next_use(net, schedule, name, k - 1) for name in there}  # item k itself may read them
    if idle := [name for name, used in uses.items() if used is None]:
        nobody = "are there, and nobody reads them" if idle[1:] else "is there, and nobody reads it"
        return f"{listed(idle)} {nobody} any more."
    again = [name for name in there if made.count(name) > 1]
    for name in again:
        passed = any(action == "backward" for action, _ in schedule[k : uses[name]])
        if passed and _next_use(net, schedule, name, there[name]) == uses[name]:
            return f"Item {there[name]} makes {name} again, and item {uses[name]} is the next to read it."
    if again and len(again) == len(there) and set(made) == {layer.name for layer in net}:
        ours = greedy(net, limit) or ()
        count = sum(ours.count(("make", layer.name)) > 1 for layer in net)
        fits = f" There is room: a schedule that makes only {count} of the {len(net)} tensors again fits." * bool(ours)
        return f"All that is there was made again: nothing of it was kept from the forward pass.{fits}"
    return "All of that will still be read."


def _next_use(net, schedule, name, k):
    """The first item after k that reads a tensor, before it is dropped; or None."""
    layers = {layer.name: layer for layer in net}
    for i, (action, other) in enumerate(schedule[k + 1 :], k + 1):
        if (action, other) == ("drop", name):
            return None
        if name in {"make": layers[other].reads, "backward": layers[other].needs, "drop": ()}[action]:
            return i
    return None


def _what_is_dear(net, schedule, limit, most) -> str:
    """What it would cost to give up the same tensors as late as possible, and those with the fewest µs per byte."""
    once = sum(layer.us for layer in net)
    again = {name for action, name in schedule if schedule.count((action, name)) > 1}
    share = lambda ours: f"{play(net, ours).us / once - 1:.1%}"  # noqa: E731
    often = max(again, key=lambda name: schedule.count(("make", name)))
    ours = schedule_for(net, {layer.name for layer in net} - again)
    if play(net, ours).us < 0.99 * play(net, schedule).us and play(net, ours).peak <= limit:
        many = schedule.count(("make", often))
        times = f"It makes {often} {many} times. " * (many > 2) + "The same tensors can be given up for"
        return f"{times} {share(ours)}, if each is made again when it is needed, and kept until its last use."
    if early := _dropped_early(net, schedule, limit):
        longer = [event for k, event in enumerate(schedule) if k not in {k for *span, _ in early for k in span}]
        if play(net, longer).us / once - 1 <= most:
            drop, made, name = early[0]
            told = f"{name} in item {drop}, made again in item {made}. Without these drops it is {share(longer)}."
            return f"It drops tensors for which there is room until it makes them again, {len(early)} times: {told}"
    gone, kept = ([layer for layer in net if (layer.name in again) == given_up] for given_up in (True, False))
    cost = [1e6 * sum(each.us for each in some) / sum(each.size for each in some) for some in (gone, kept or net)]
    told = (
        f"The tensors that it makes again cost {cost[0]:.2f} µs for a million bytes, those that it keeps {cost[1]:.2f}."
    )
    return f"{told} If those with the fewest are given up first, it takes {share(greedy(net, limit))}."


def _dropped_early(net, schedule, limit) -> list:
    """(item that drops it, item that makes it again, name) of tensors that could have stayed, the shortest first."""
    sizes, held = {layer.name: layer.size for layer in net}, np.array(memory_in_time(net, schedule))
    drops = [
        (k, name) for k, (action, name) in enumerate(schedule) if action == "drop" and ("make", name) in schedule[k:]
    ]
    spans, early = [(k, schedule.index(("make", name), k), name) for k, name in drops], []
    for k, until, name in sorted(spans, key=lambda span: span[1] - span[0]):
        if held[k:until].max() + sizes[name] <= limit:
            held[k:until] += sizes[name]
            early.append((k, until, name))
    return early


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


def nets(c):
    """what, net, limit, the share of a pass that may be made again: odd nets, GPT-2, and one that must let go early."""
    yield from (("a net with odd layers", *each, np.inf) for each in awkward_limits(c.rng, 30))
    net = gpt2()
    everything = play(net, keep_all(net)).peak
    for share, most in ((0.8, 0.15), (0.7, 0.24), (0.5, 0.44)):
        yield f"GPT-2 with {share:.0%} of the memory", net, int(share * everything), most
    yield "a net that must let go early", *lingering(c.rng), np.inf


Exercise("recompute_schedule", "20", cases=nets, look="5.2 · A schedule")
