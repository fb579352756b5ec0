"""Lesson 07: the gradient of a table that stands in two places, and its known mistakes."""

import numpy as np

from llmc.course.lessons.gpt2_model.places import TIED


def tied_gradient(dlogits, lnf, dencoded, tokens):
    """dwte (Vp, C) from both places, one token at a time."""
    dtype = lnf.dtype
    dwte = np.einsum("btv,btc->vc", np.asarray(dlogits, np.float64), np.asarray(lnf, np.float64))  # (Vp, C)
    for index, token in np.ndenumerate(tokens):
        dwte[token] += dencoded[index]  # (C,)
    return dwte.astype(dtype)


def tied_mistakes(dlogits, lnf, dencoded, tokens) -> dict:
    """{sentence: (array, where to look)}."""
    head = tied_gradient(dlogits, lnf, 0 * dencoded, tokens)  # (Vp, C)
    lookup = tied_gradient(0 * dlogits, lnf, dencoded, tokens)  # (Vp, C)
    once, written, lone = head.copy(), head.copy(), np.zeros_like(head)  # (Vp, C) each
    once[tokens] += dencoded
    written[tokens] = dencoded
    lone[tokens] = dencoded
    times = np.bincount(tokens.ravel(), minlength=len(head))[:, None]  # (Vp, 1)
    shifted = np.roll(lookup, 1, axis=0)  # (Vp, C)
    early, late = (np.zeros_like(head) for _ in range(2))  # (Vp, C) each
    np.add.at(early, tokens[:, 1:], dencoded[:, :-1])
    np.add.at(late, tokens[:, :-1], dencoded[:, 1:])
    round_early, round_late = (
        tied_gradient(0 * dlogits, lnf, np.roll(dencoded, shift, axis=1), tokens) for shift in (1, -1)
    )  # (Vp, C) each
    places = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape) % len(head)  # (B, T)
    at_places = tied_gradient(0 * dlogits, lnf, dencoded, places)  # (Vp, C)
    B, T = tokens.shape
    belongs = "dencoded[b, t] belongs to tokens[b, t]"
    wrong = {
        "the head's part alone: the table is also looked up at the bottom, where its gradient is dencoded": head,
        "the lookup's part alone: the table is also the output head": lookup,
        "the reference with only one of the rows of a token that occurs twice": once,
        "the head's part with rows overwritten by the lookup's": written,
        "the lookup's part alone, with only one of the rows of a token that occurs twice": lone,
        "the reference with a token's last row as often as it occurs": head + times * lone,
        "the reference with 0 for the tokens that do not occur: the head has a logit of each, and a gradient": np.where(
            times > 0, head + lookup, 0
        ),
        "the reference with the mean of a token's rows, not their sum": head + lookup / np.maximum(times, 1),
        "the mean of the two parts: a variable in two places collects the sum": (head + lookup) / 2,
        "the head's part minus the lookup's, not plus": head - lookup,
        "the product of the two parts, not their sum": head * lookup,
        "the reference with tokens counted from 1": head + shifted,
        f"the reference with dencoded[:, :-1] added at tokens[:, 1:]: {belongs}": head + early,
        f"the reference with dencoded[:, 1:] added at tokens[:, :-1]: {belongs}": head + late,
        f"the reference with each row of dencoded added at the next position's token: {belongs}": head + round_early,
        f"the reference with each row of dencoded added at the previous position's token: {belongs}": head + round_late,
        f"the reference with dencoded[b, t] added at row t, the position, as in dwpe: {belongs}": head + at_places,
        "the head's part plus the mean of the lookup's rows": head + lookup / tokens.size,
        "the reference with the lookup's part B times": head + B * lookup,
        "the reference with the lookup's part T times": head + T * lookup,
        "the reference with the head's part B times": B * head + lookup,
        "both parts B times": B * (head + lookup),
        "the reference with the head's part divided by B·T: dlogits already belongs to the mean loss": head
        / tokens.size
        + lookup,
        "the reference with the head's part averaged over the sequences, not added up": head / len(tokens) + lookup,
    }
    return {text: (array, TIED) for text, array in wrong.items()}
