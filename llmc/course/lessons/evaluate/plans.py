"""Lesson 24: the best model for a sum of money: what a plan costs, which is best, and what is wrong with others.

A plan is (d, tokens): a GPT-2 with d layers and 64 d channels, and how many tokens it is trained on.
"""

from contextlib import suppress
from math import isfinite
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from llmc.course.lessons.evaluate.places import BILL, CHINCHILLA, FLOPS
from llmc.course.lessons.evaluate.published import chinchilla
from llmc.course.old.checks.explain import WrongAnswer, describe

T, VP = 1024, 50304
DEEPEST = 200
ENOUGH = 0.001  # nats that a plan may be above the best
EXACT = 1e-6  # of the money; more is another formula
DRAWS = 8  # of an offer
SUMS = 12  # plans for as many sums are looked at, twice


class Offer(NamedTuple):
    """dollars to spend · price: dollars for an hour of one GPU · speed: FLOP/s that it really reaches."""

    dollars: float
    price: float
    speed: float


def weights(d) -> int:
    """Parameters of the model with d layers."""
    C = 64 * d
    return 12 * d * C * C + 13 * d * C + (VP + T) * C + 2 * C


def token_flops(d) -> float:
    return 6 * weights(d) + 6 * d * 64 * d * T


def affordable(d, offer) -> float:
    """Tokens that the money buys for the model with d layers."""
    return offer.dollars / offer.price * 3600 * offer.speed / token_flops(d)


def best(offer):
    """(loss, d, tokens) of the best plan."""
    return min((chinchilla(weights(d), affordable(d, offer)), d, affordable(d, offer)) for d in range(1, DEEPEST + 1))


CHOICES = {  # what a function may choose d by, in place of the predicted loss: (d, tokens) -> the least of it
    "the one with the HIGHEST predicted loss": lambda d, D: -chinchilla(weights(d), D),
    "the one with the least loss of its layers' matrices alone, 12·d·C²: weights(d) counts all": lambda d, D: (
        chinchilla(12 * d * (64 * d) ** 2, D)
    ),
    "the one with the least predicted_loss(tokens, weights): weights come first": lambda d, D: chinchilla(
        D, weights(d)
    ),
    "the one with the least predicted_loss(d, tokens): weights(d) come first": lambda d, D: chinchilla(d, D),
    "the one nearest to 20 tokens for each weight": lambda d, D: abs(D / weights(d) - 20),
    "the one nearest to one token for each weight": lambda d, D: abs(D / weights(d) - 1),
}


def mistakes(d, offer) -> dict:
    """{what was forgotten or done: tokens} for the model with d layers, each with where to look."""
    flops, N, attention = offer.dollars / offer.price * 3600 * offer.speed, weights(d), 6 * d * 64 * d * T
    C = 64 * d
    inner = 12 * d * C * C
    return {
        "without the attention term, 6·L·C·T": (flops / (6 * N), FLOPS),
        "with 12·L·C·T for attention: a causal model sees half of it": (flops / (6 * N + 2 * attention), FLOPS),
        "with an attention term without T": (flops / (6 * N + attention / T), FLOPS),
        "with an attention term without L, or with a C of 64 where it is 64 d": (
            flops / (6 * N + attention / d),
            FLOPS,
        ),
        "with 6·T·C² for attention: each query meets T keys of C numbers": (flops / (6 * N + 6 * T * C * C), FLOPS),
        "with 768 channels, or 12 layers, in the attention term of every model: it has d layers of 64 d channels": (
            flops / (6 * N + 6 * d * 768 * T),  # 12 layers of 64 d channels give the same product
            FLOPS,
        ),
        "with 12 layers of 768 channels in the attention term of every model: it has d layers of 64 d channels": (
            flops / (6 * N + 6 * 12 * 768 * T),
            FLOPS,
        ),
        "with 2N for each token, the forward pass alone": (flops / (2 * N), FLOPS),
        "with 2N + 2·L·C·T for each token, the forward pass alone": (flops / (2 * N + attention / 3), FLOPS),
        "with 4N for each token, the backward pass alone": (flops / (4 * N), FLOPS),
        "with N for each token": (flops / N, FLOPS),
        "with an hour as one second": (flops / 3600 / token_flops(d), BILL),
        "with an hour of 60 seconds": (flops / 60 / token_flops(d), BILL),
        "with a day of seconds for an hour": (flops * 24 / token_flops(d), BILL),
        "with d in place of C in the attention term": (flops / (6 * N + 6 * d * d * T), FLOPS),
        "with 2N + 12·L·C·T for each token": (flops / (2 * N + 2 * attention), FLOPS),
        "with whole hours only": (int(offer.dollars / offer.price) * 3600 * offer.speed / token_flops(d), BILL),
        "with money times price: divide the dollars by the price": (
            offer.dollars * offer.price * 3600 * offer.speed / token_flops(d),
            BILL,
        ),
        "without the price": (flops * offer.price / token_flops(d), BILL),
        "with the layers' matrices alone for N: embeddings count, as weights(d) has them": (
            flops / (6 * inner + attention),
            FLOPS,
        ),
    }


def demand(plan, offer, again=None):
    """The loss of a plan; WrongAnswer unless it can be paid, spends the money, and is nearly the best.

    again(dollars, price, speed): the function that made it, for a look at its plans for other sums.
    """
    d, tokens = _checked(plan)
    cost = tokens * token_flops(d) / offer.speed / 3600 * offer.price
    if abs(cost / offer.dollars - 1) > EXACT:
        others = _for_other_sums(again)
        raise WrongAnswer(
            _of_money(d, tokens, cost, offer, others),
            explained=bool(_of_another_size(d, tokens, offer) or _rounded(d, tokens, offer, others)),
        )
    least, depth, _ = best(offer)
    loss = chinchilla(weights(d), tokens)
    if loss > least + ENOUGH:
        raise WrongAnswer(_of_size(d, tokens, loss, least, depth, offer, _for_other_sums(again)))
    return loss


def _checked(plan):
    """(d, tokens) of a plan; WrongAnswer when it is none."""
    if not isinstance(plan, tuple | list) or len(plan) != 2:
        raise WrongAnswer(f"return two numbers, d and tokens, not {describe(plan)}.")
    d, tokens = plan
    if not isinstance(d, Integral) or not 1 <= d <= DEEPEST:
        more = ""
        if isinstance(tokens, Integral) and 1 <= tokens <= DEEPEST:
            more = ": return d, then tokens"
        elif isinstance(d, float) and d.is_integer():
            more = ": write int(…) around it"
        raise WrongAnswer(f"d is {d!r}, and should be a whole number from 1 to {DEEPEST}{more}.")
    if not isinstance(tokens, Real) or not isfinite(tokens) or tokens <= 0:
        raise WrongAnswer(f"tokens is {tokens!r}, and should be a number above 0.")
    return int(d), float(tokens)


def _of_money(d, tokens, cost, offer, others=()) -> str:
    """Why this costs more, or less, than there is. others: plans for the sums of `_sums`."""
    share = cost / offer.dollars
    amount = f"{share:.1%} of" if 0.01 < share < 10 else f"{share:.3g} times"
    text = (
        f"with ${offer.dollars:,.2f} at ${offer.price:.2f} an hour, d = {d} and {tokens:.6g} tokens cost ${cost:,.2f}"
    )
    part = f"{'' if share > 1 else 'only '}{amount}"
    text += ", " + (part if abs(share - 1) > 1e-3 else _a_little(cost - offer.dollars)) + " the money"
    named = [(words, where) for words, (count, where) in mistakes(d, offer).items() if abs(count / tokens - 1) < 1e-6]
    if named:
        words, where = named[0]
        text += f".\nThese are the tokens that the money buys {words}"
    elif abs(tokens / (20 * weights(d)) - 1) < 1e-6:
        text, where = f"{text}.\nThese are 20 tokens for each weight: return all that the money buys", CHINCHILLA
    elif abs(tokens * 1e9 / affordable(d, offer) - 1) < 1e-6:
        text, where = f"{text}.\nThese are billions: return the number of tokens itself", BILL
    elif more := _rounded(d, tokens, offer, others):
        text, where = f"{text}.\n{more}", CHINCHILLA
    else:
        more, where = _of_other_sums(share, others)
        text += more or _of_another_size(d, tokens, offer)
    return f"{text}.\n→ Where to look: {where}."


def _a_little(more) -> str:
    return f"${abs(more):.2g} {'more' if more > 0 else 'less'} than"


def _rounded(d, tokens, offer, others) -> str:
    """A sentence if all plans have a multiple of the same number of tokens, and this one is off by less than that."""
    counts = [int(count) for count in (tokens, *(count for _, count, _ in others)) if float(count).is_integer()]
    whole = int(np.gcd.reduce(np.array(counts, object))) if len(counts) == len(others) + 1 > 2 else 0
    bought = affordable(d, offer)
    if whole < 100 or abs(bought - tokens) >= whole:
        return ""
    multiples = f"All {len(counts)} plans that were tried have a multiple of {whole:,} tokens"
    return f"{multiples}: here the money buys {bought:.9g}, and that number is asked for"


def _of_other_sums(share, others) -> tuple[str, str]:
    """(what plans for other sums have in common with this one, or "", where to look)."""
    spent = [at.dollars / at.price * 3600 * at.speed / count for (_, count, _), at in zip(others, _sums())]  # FLOP
    if not spent:
        return "", BILL
    parts = np.array([(weights(k), k * 64 * k * T) for k, *_ in others], float) / np.array(spent)[:, None]  # (sums, 2)
    counts = np.linalg.lstsq(parts, np.ones(len(spent)), rcond=None)[0]  # (2,) operations for N, and for L·C·T
    if not np.allclose(parts @ counts, 1, rtol=1e-6, atol=0):
        return "", BILL
    least = 1e-3 * np.abs(counts).max()
    cost = " + ".join(f"{count:.4g}·{what}" for count, what in zip(counts, ("N", "L·C·T")) if abs(count) > least)
    as_if = f"as if a token took {cost} operations, and not 6·N + 6·L·C·T"
    if np.allclose(counts, counts[0], rtol=1e-4):  # it can be anything that all operations are multiplied by
        other = f"or as if an hour had {3600 * share:.5g} seconds"
        return f"; for other sums it is the same share.\nIt is {as_if}, {other}", f"{FLOPS}, and {BILL}"
    return f".\nFor other sums, too, it is {as_if}", FLOPS


def _of_another_size(d, tokens, offer) -> str:
    """A sentence if these are the tokens of a model of another depth; else ""."""
    others = [k for k in range(1, DEEPEST + 1) if abs(affordable(k, offer) / tokens - 1) < 1e-6]
    if not others:
        return ""
    (other,) = others
    best_is = ", the best one" * (other == best(offer)[1])
    return f".\nThese are the tokens for d = {other}{best_is}, and d = {d} is returned with them"


def telling(rng, dollars) -> Offer:
    """Of several offers of about so many dollars, the one at which 20 tokens for each weight are worst."""
    found = []
    for _ in range(DRAWS):
        offer = Offer(dollars * rng.uniform(0.8, 1.5), rng.uniform(1.5, 4.0), rng.uniform(1e14, 5e14))
        d = min(range(1, DEEPEST + 1), key=lambda d: abs(affordable(d, offer) / weights(d) - 20))  # noqa: B023
        found.append((chinchilla(weights(d), affordable(d, offer)) - best(offer)[0], offer))
    return max(found)[1]


def _sums() -> list[Offer]:
    return [Offer(10 ** (k / SUMS * 3.5), 2.5, 3e14) for k in range(2 * SUMS)]


def _for_other_sums(again) -> list:
    """[(d, tokens, best d)] of plans for sums from one dollar to five million; [] where the function does not say."""
    found = []
    for offer in _sums() if again else ():
        with suppress(Exception), np.errstate(all="ignore"):
            d, tokens = _checked(again(*offer))
            found.append((d, tokens, best(offer)[1]))
    return found if len(found) == 2 * SUMS else []


def _limits(d, depth, others) -> str:
    """A sentence if the function never leaves a range of depths, or keeps to a law of its own; else "".

    d: of this plan; depth: the best.
    """
    depths, wanted = ([each[k] for each in others] for k in (0, 2))
    if not others or depths == wanted:
        return ""
    for words, score in CHOICES.items():
        if depths == [min(range(1, DEEPEST + 1), key=lambda k: score(k, affordable(k, at))) for at in _sums()]:  # noqa: B023
            return f"\nFor all of {len(others)} sums from one dollar to five million d is {words}."
    steps = {d - best for d, best in zip(depths, wanted)}
    if steps in ({1}, {-1}):
        which = "behind" if steps == {1} else "before"
        return f"\nFor all of {len(others)} sums from one dollar to five million d is the one {which} the best."
    if len(set(depths)) == 1:
        return f"\nIt is d = {d} for every sum of money."
    top, bottom, ratios = max(depths), min(depths), [tokens / weights(k) for k, tokens, _ in others]
    if depths.count(top) > 1 and top == d < depth:
        return f"\nHowever much the money, d is never more than {top}."
    if depths.count(bottom) > 1 and bottom == d > depth:
        return f"\nHowever little the money, d is never less than {bottom}."
    if max(ratios) < 1.5 * min(ratios):
        each = "about" if max(ratios) < 1.1 * min(ratios) else f"{min(ratios):.2g} to"
        return (
            f"\nFor {len(others)} sums from one dollar to five million it buys {each} {max(ratios):.2g} tokens for "
            "each weight, and the law's best number of them changes with the money."
        )
    if all(a >= b for a, b in zip(depths, depths[1:])):
        return "\nThe more money, the smaller your model: the best one grows."
    used = sorted({*depths})
    step, between = np.gcd.reduce(np.diff(used)), {k for k in wanted if used[0] < k < used[-1]} - {*used}
    if len(between) > 2 and (step > 1 or 2 * len(used) < len({*wanted})):
        said = f"{', '.join(map(str, used[:-1]))} and {used[-1]}"
        said = said if step == 1 or len(used) < 10 else f"{used[0]} or a multiple of {step} more"
        return f"\nFor {len(others)} sums from one dollar to five million d is {said}."
    return ""


def _of_size(d, tokens, loss, least, depth, offer, others) -> str:
    """Why another size would be better."""
    side = "too small" if d < depth else "too large"
    text = f"with ${offer.dollars:,.0f} the model with d = {d} reaches {loss:.4f}, and the best reaches {least:.4f}"
    ratio = tokens / weights(d)
    text += f".\nIt is {side}, {ratio:,.3g} tokens a weight.{_limits(d, depth, others)}"
    return f"{text}\n→ Where to look: {CHINCHILLA}."
