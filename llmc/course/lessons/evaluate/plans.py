"""Lesson 24: the best plan for a sum of money: (d, tokens) of a GPT-2 with d layers and 64 d channels."""

from collections import namedtuple
from numbers import Integral, Real

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.lessons.evaluate.published import chinchilla

T, VP, DEEPEST = 1024, 50304, 200
ENOUGH, EXACT = 0.001, 1e-6  # nats that a plan may be above the best; of the money: more is another formula


# dollars to spend · price: dollars for an hour of one GPU · speed: FLOP/s that it really reaches
Offer = namedtuple("Offer", "dollars price speed")


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


def telling(rng, dollars) -> Offer:
    """Of several offers of about so many dollars, the one at which 20 tokens for each weight are worst."""
    found = []
    for _ in range(8):
        offer = Offer(dollars * rng.uniform(0.8, 1.5), rng.uniform(1.5, 4.0), rng.uniform(1e14, 5e14))
        d = min(range(1, DEEPEST + 1), key=lambda d: abs(affordable(d, offer) / weights(d) - 20))  # noqa: B023
        found.append((chinchilla(weights(d), affordable(d, offer)) - best(offer)[0], offer))
    return max(found)[1]


def judge_plan(c, plan, offer):
    """The loss of a plan; WrongAnswer unless it can be paid, spends the money, and is nearly the best."""
    if not isinstance(plan, tuple | list) or len(plan) != 2:
        raise WrongAnswer(f"return two numbers, d and tokens, not {describe(plan)}", Kind.SHAPE)
    (d, tokens), dollars, (least, depth, _) = plan, f"${offer.dollars:,.2f}", best(offer)
    if not isinstance(d, Integral) or not 1 <= d <= DEEPEST:
        more = ": return d, then tokens" if isinstance(tokens, Integral) and 1 <= tokens <= DEEPEST else ""
        raise WrongAnswer(f"d is {d!r}, and should be an int from 1 to {DEEPEST}{more}", Kind.SHAPE)
    if not isinstance(tokens, Real) or not 0 < tokens < np.inf:
        raise WrongAnswer(f"tokens is {tokens!r}, and should be a number above 0", Kind.SHAPE)
    ratio, bought, loss = tokens / weights(d), affordable(d, offer), chinchilla(weights(d), tokens)
    if abs(tokens / bought - 1) > EXACT:
        told = f"tokens is {tokens:.8g}, and the money buys {bought:.8g} for d = {d}"
        others = [k for k in range(1, DEEPEST + 1) if abs(affordable(k, offer) / tokens - 1) < EXACT]
        if abs(ratio / 20 - 1) < EXACT:
            told = "these are 20 tokens for each weight: return all that the money buys"
        elif others:
            told = f"these are the tokens for d = {others[0]}, and d = {d} is returned with them"
        more = f"With d = {d} these tokens cost {tokens / bought:.6g} times the money, {dollars}."
        differ(c, "tokens", tokens, bought, told, more)
    if loss > least + ENOUGH:
        told = f"the model with d = {d} is too {'small' if d < depth else 'large'}"
        more = f"With {dollars} it reads {ratio:,.3g} tokens a weight and reaches a loss of {loss:.4f}"
        differ(c, "d", d, depth, told, f"{more}; the best reaches {least:.4f}.")
    return loss


def differ(c, name, got, right, told, more):
    """Raise the WrongAnswer of a plan's d or tokens; `told` where no edit explains them."""
    c.comparing = name
    try:
        compare(name, got, right, EXACT, look=c.exercise.look_for(name))
    except WrongAnswer as error:
        found = error.diagnosis
        found.kind, found.sentence = (found.kind, found.sentence) if found.specific else (Kind.RULE, told)
        found.more, found.table = [more], []
        raise
