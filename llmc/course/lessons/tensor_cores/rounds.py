"""Lesson 19: the rounds of a ring of stages, and which of them wait for what."""

STAGES = 3
ROUNDS = 8  # of the run that is noted


def in_rounds(notes, name, last) -> list | None:
    """[the waits for that name in each round], if each round ends with one call of `last`; None if not."""
    rounds = [[]]
    for note in notes:
        if note.op == "wait" and note.barrier[0] == name:
            rounds[-1].append(note)
        if note.op == last:
            rounds.append([])
    return rounds[:-1] if len(rounds) == ROUNDS + 1 and not rounds[-1] else None


def by_rounds(who, name, rounds, right, free, why) -> str | None:
    """A sentence if the waits of some round are another stage's, or if rounds have none that need one.

    right: the parity of each round. free: so many rounds may do without. why: with a place for an earlier round.
    """
    made = {round: waits[0] for round, waits in enumerate(rounds or ()) if waits}
    missing = [round for round in range(free, ROUNDS) if round not in made]
    if not made or any(len(waits) > 1 for waits in rounds):
        return None
    if all(note.barrier[1] == (round - 1) % STAGES for round, note in made.items()):  # behind what they are for
        return None
    for round, note in made.items():
        if note.barrier[1] != round % STAGES:
            there = f"{name}[{note.barrier[1]}] (line {note.line})"
            return f"In round {round}, {who} waits for {there}, and the stage of that round is {round % STAGES}."
    if not missing:
        return None
    first, wrong = missing[0], [round for round, note in made.items() if note.number != right[round]]
    parity = f", and the parity of round {wrong[0]} is {right[wrong[0]]}" if wrong else ""
    return (
        f"In round {first}, {who} does not wait for {name}[{first % STAGES}], {why.format(first - STAGES)}. It waits "
        f"in rounds {row(made)} of {ROUNDS}, counted from 0 (line {next(iter(made.values())).line}){parity}."
    )


def row(numbers) -> str:
    """ "0 1 2"."""
    return " ".join(map(str, numbers))
