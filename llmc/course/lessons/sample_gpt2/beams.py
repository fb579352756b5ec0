"""Lesson 23: beam search, and what it writes on the letters of a manual, next to samples and the manual itself."""

import re

import numpy as np


def search(log_probs, prompt, n, width):
    """(n tokens as a list, their log-probability): the best text of a beam search. log_probs: of a list of tokens."""
    beam = [(0.0, [])]
    for _ in range(n):
        found = []
        for total, text in beam:
            p = log_probs([*prompt, *text]).tolist()  # V numbers
            found += [(total + each, [*text, token]) for token, each in enumerate(p)]
        beam = sorted(found, reverse=True)[:width]
    return beam[0][::-1]


def score(log_probs, prompt, text) -> float:
    """The log-probability of a text after the prompt."""
    return float(sum(log_probs([*prompt, *text[:k]])[token] for k, token in enumerate(text)))


def why_it_bores(beam_search, Table, rng) -> str:
    """A sentence on what beam_search writes on the letters of Python's manual, next to samples and the manual itself.

    Table: the exercise's class of language models.
    """
    ids = letters()  # (n,)
    counts = np.full((27, 27, 27), 0.02)
    np.add.at(counts, (ids[:-2], ids[1:-1], ids[2:]), 1)
    model, prompt, n = Table(np.log(counts)), ids[:2].tolist(), 80
    found, _ = beam_search(model, prompt, n, 8)
    sampled = []
    for _ in range(n):
        sampled.append(int(rng.choice(27, p=np.exp(model.table([*prompt, *sampled])))))
    texts = {"your beam": found, "a sample": sampled, "the manual": ids[2 : n + 2].tolist()}
    said = [
        f"{name} {-score(model.table, prompt, t) / n:.1f} nats a letter, {distinct(t):.0%}" for name, t in texts.items()
    ]
    return f"On letters, with the share of different groups of four: {'; '.join(said)}."


def distinct(tokens, n=4) -> float:
    """The share of the groups of n tokens that are different: small where a text repeats itself."""
    groups = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(groups)) / len(groups)


def letters():
    """(n,) the letters of the manual that comes with Python, 0 to 25, and 26 for everything else."""
    from pydoc_data.topics import topics

    text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())
    return np.array([26 if letter == " " else ord(letter) - 97 for letter in text])
