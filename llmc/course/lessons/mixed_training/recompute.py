"""Lesson 20: schedules of a step in which tensors are dropped and recomputed, and exercise 5 about them.

A net is a list of Layers. A schedule is a list of pairs: ("make", name) runs a layer forward, ("drop", name) frees its
tensor, ("backward", name) runs its backward pass.
"""

from collections import namedtuple
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.mutation import named
from llmc.course.mutation.program import program_in, solution_source
from llmc.course.own_names import learners_names

WHERE = 'lesson 20, section "5.2 · A schedule"'
ACTIONS = "make", "drop", "backward"


class Layer(NamedTuple):
    """name: of the layer, and of the tensor that it makes. reads, needs: the tensors that its forward and its backward
    function read. size: bytes of the tensor. us: microseconds of the forward function."""

    name: str
    reads: tuple
    needs: tuple
    size: int
    us: float


Cost = namedtuple("Cost", "peak us")  # the most bytes in memory at once, and the µs of all forward functions


def play(net, schedule) -> Cost:
    """What a schedule costs. Raises WrongAnswer if it is not possible, or not complete."""
    layers, left = {layer.name: layer for layer in net}, [layer.name for layer in net]
    memory, made, peak, us = set(), set(), 0, 0.0
    if not isinstance(schedule, list | tuple):
        raise WrongAnswer(f"return a list of pairs, not {describe(schedule)}", Kind.SHAPE)
    for k, item in enumerate(schedule):
        if not (isinstance(item, list | tuple) and len(item) == 2 and item[0] in ACTIONS and item[1] in layers):
            told = f"item {k} of the schedule is {item!r}, not a pair: {', '.join(ACTIONS)}, and a layer's name"
            raise WrongAnswer(told, Kind.SHAPE)
        (action, name), layer = item, layers[item[1]]
        if told := _impossible(action, layer, memory, made, left):
            first = max(0, k - 5)
            lines = [f"    {i:4}  {one:<9}{other}" for i, (one, other) in enumerate(schedule[first : k + 1], first)]
            raise WrongAnswer(told, look=WHERE, table=["The schedule up to there:", *lines])
        if action == "make":
            memory, made, us = memory | {name}, made | {name}, us + layer.us
            peak = max(peak, sum(layers[each].size for each in memory))
        elif action == "drop":
            memory.remove(name)
        else:
            left.pop()
    if left:
        none = "" if any(layers[name].needs for name in left) else ": it needs no tensor, but has a backward pass, too"
        raise WrongAnswer(f"the schedule ends before the backward pass of {left[-1]}{none}", look=WHERE)
    return Cost(peak, us)


def _impossible(action, layer, memory, made, left) -> str:
    """Why an action on a layer cannot come now; "" if it can. left: names of layers whose backward is still to come."""
    name, backward = layer.name, action == "backward"
    if backward and (unmade := [each for each in left if each not in made]):
        return f"the backward pass begins, but {unmade[0]} has not been made yet"
    if backward and name not in left[-1:]:
        turn = f"it is {left[-1]}'s turn" if left else "all layers have had theirs"
        return f"backward of {name} is out of turn: from the last layer to the first, {turn}"
    if action == "make" and name in memory:
        return f"{name} is made, but it is in memory already: its bytes would be there twice"
    wanted = {"make": layer.reads, "backward": layer.needs, "drop": (name,)}[action]
    if missing := [each for each in wanted if each not in memory]:
        why = "was dropped and not made again" if missing[0] in made else "was never made"
        return f"{action} {name} takes {missing[0]}, which is not in memory: it {why}"
    return ""


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


def memory_in_time(net, schedule):
    """Bytes (items,) in memory after each item of a schedule."""
    sizes, signs = {layer.name: layer.size for layer in net}, {"make": 1, "drop": -1, "backward": 0}
    return np.cumsum([signs[action] * sizes[name] for action, name in schedule])


def judge_schedule(c, function, what, net, limit, most):
    """WrongAnswer unless the schedule fits into limit (bytes), and recomputes at most the share `most` of a pass."""
    schedule = c.call(function, list(net), limit)
    cost, once = play(net, schedule), sum(layer.us for layer in net)
    again, kind = cost.us / once - 1, Kind.RULE
    if cost.peak > limit:
        k = int(memory_in_time(net, schedule).argmax())
        told = f"{what}: possible, but {cost.peak:,} bytes are in memory at once, and the limit is {limit:,}"
        more = f"The peak comes when item {k} of {len(schedule)} makes {schedule[k][1]}."
    elif again > most:
        told = f"{what}: it fits, but making tensors again takes {again:.1%} of a forward pass; {most:.0%} will do"
        ours, kind = play(net, greedy(net, limit)).us / once - 1, Kind.DEMAND
        more = f"Giving up the fewest µs a byte first, and recomputing as late as possible, takes {ours:.1%}."
    else:
        return c.say(f"{what}: {again:.1%} of a forward pass is recomputed.") if most < 1 else None
    raise WrongAnswer(told, kind, more=[*(_known(c, function) if c.explains else ()), more], look=WHERE)


def _known(c, function) -> list[str]:
    """A sentence if its schedules for odd nets cost what those of our solution with a named mistake do."""
    (source, names), tried = solution_source(c.exercise.name), awkward_limits(np.random.default_rng(1), 12)

    def costs(make):
        with suppress(Exception), learners_names():
            return [play(net, make(list(net), limit)) for net, limit in tried]

    mine = costs(function)
    for mistake in named.mistakes(c.exercise.mistakes) if source and mine else ():
        with suppress(ValueError, SyntaxError):  # where a learner has changed the solution's text
            if costs(program_in(named.applied(source, mistake), c.exercise.name, names).function()) == mine:
                return [f"For other nets, too, its bytes and µs are those of {mistake.made}."]
    return []


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
    names, net = [f"t{k}" for k in rng.permutation(10 * n)[:n]], []
    for k, name in enumerate(names):
        reads = tuple(rng.permutation(names[max(0, k - 4) : k])[: rng.integers(1, 4)].tolist())
        needs = (*(r for r in reads if rng.random() < 0.7), *[name] * int(rng.random() < 0.3))
        net.append(Layer(name, reads, needs, int(rng.integers(10, 1000)), float(rng.integers(1, 50))))
    return net


def recomputed(net, which) -> Cost:
    """The cost of making tensors of these kinds ("gelu", "ln1") again."""
    kept = {layer.name for layer in net if layer.name.rpartition(".")[2] not in which}
    return play(net, schedule_for(net, kept))


def greedy(net, limit) -> list:
    """Give up what gives back the most bytes per microsecond, until it fits; None if it never does."""
    order = [layer.name for layer in sorted(net, key=lambda layer: layer.us / layer.size)]
    schedules = (schedule_for(net, {*order[k:]}) for k in range(len(net) + 1))
    return next((schedule for schedule in schedules if play(net, schedule).peak <= limit), None)


def star(rng, n) -> list:
    """n layers that all read the first one; with any of the others kept, more is in memory than with none."""
    leaves = [(f"leaf{k}", int(rng.integers(100, 999)), float(rng.integers(1, 50))) for k in rng.permutation(n)]
    return [Layer("root", (), (), 40, 0.1), *(Layer(name, ("root",), (name,), size, us) for name, size, us in leaves)]


LINGERING = [  # fits if a and b are given up, and early does not wait for its own backward pass, beside both of them
    Layer("root", (), (), 1, 9.0),
    Layer("early", ("root",), (), 310, 90.0),
    Layer("a", ("root",), (), 290, 1.0),
    Layer("b", ("a",), (), 330, 1.0),
    Layer("c", ("b",), ("b",), 270, 90.0),
    Layer("last", ("early", "c"), ("early", "c"), 1, 9.0),
]


def awkward_limits(rng, n) -> list:
    """n pairs (net, limit that a schedule can meet): the first keeps everything, the second gives up everything."""
    found = []
    for k in range(n):
        net = star(rng, 4) if k == 1 else odd_net(rng, int(rng.integers(2, 14)))
        everything, least = (play(net, schedule_for(net, kept)).peak for kept in ({layer.name for layer in net}, set()))
        share = (1.0, 0.0)[k] if k < 2 else rng.uniform(0.1, 0.9)
        found.append((net, int(np.ceil(least + share * max(0, everything - least)))))
    return found


def nets(c):
    """what, net, limit, the share of a pass that may be recomputed: odd nets, GPT-2, and one that must let go early."""
    yield from (("a net with odd layers", *each, np.inf) for each in awkward_limits(c.rng, 30))
    net = gpt2()
    everything = play(net, schedule_for(net, {layer.name for layer in net})).peak
    for share, most in ((0.8, 0.15), (0.7, 0.24), (0.5, 0.44)):
        yield f"GPT-2 with {share:.0%} of the memory", net, int(share * everything), most
    least = play(LINGERING, schedule_for(LINGERING, {"root", "early", "c", "last"})).peak
    yield "a net that must let go early", LINGERING, least, np.inf


PRICE, FITS = "layer.us / layer.size", "play(net, schedule)[0] <= limit"
LAST_USE = "drop({name for earlier in net[:k] for name in earlier.needs})"

Exercise(
    "recompute_schedule",
    "20",
    cases=nets,
    look="5.2 · A schedule",
    mistakes=rf"""
        = a schedule that keeps everything | {FITS} => True
        = a schedule that holds only the tensors it keeps to the limit: others are in memory in between
            | {FITS} => sum(layers[name].size for name in kept) <= limit
        = a schedule that gives up the tensors with the most µs a byte first | {PRICE} => layer.size / layer.us
        = a schedule that gives up the fastest tensors first, whatever their bytes | {PRICE} => layer.us
        = a schedule that gives up the largest tensors first, whatever their µs | {PRICE} => -layer.size
        = a schedule that at once drops what it has made again, though other layers need it | {LAST_USE} => drop(kept)
        = a schedule that drops tensors a layer too early
            | {LAST_USE} => {LAST_USE.replace("[:k]", "[: max(k - 1, 0)]")}
        = a schedule that keeps tensors until the backward pass of their own layer, though nobody needs them any more
            | {LAST_USE} => drop(memory - {{net[k].name}})
    """,
)
