"""Lesson 23: beam search, greedy search and sampling on a table of pairs of letters, and known mistakes of a beam."""

from collections import Counter
from itertools import product
from operator import itemgetter

import numpy as np

from llmc.course.lessons.sample_gpt2.places import BEAM
from llmc.course.old.checks.beside import digits_apart
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import describe

MISTAKES = {  # name: what the text that was found is
    "greedy": "what greedy search finds: the most probable token at every step",
    "last": "what a search finds that compares only the newest token's log-probability: add up those of the whole text",
    "each": "what a search finds that keeps the `width` best continuations of EACH text: keep `width` of all of them",
    "newest": "what a search finds that ranks continuations by their newest token alone, not by the whole text, and at "
    "the end takes the most probable one",
    "newest, first": "what a search finds that ranks continuations by their newest token alone, not by the whole text",
    "before": "what a search finds that ranks continuations by the log-probability BEFORE the new token",
    "of each token": "what a search finds that keeps one of all texts that end in the same token: keep others, too",
    "last text": "what a search finds that continues only the last text of the beam: put those of all into one list",
    "unsorted": "what a search finds that keeps the first `width` continuations, not the most probable ones",
    "two of each": "what a search finds that looks at the two best continuations of each text alone",
    "one of each": "what a search finds that keeps the best continuation of each text: two may come from one text",
    "added": "what a search finds that adds up probabilities: they multiply, so add up their logarithms",
    "least": "the LEAST probable text of the last beam",
    "rising": "what a search finds that keeps the least probable texts",
    "rising of the best": "what a search finds that takes the `width` best continuations of each text, and of all of "
    "these keeps the LEAST probable ones",
    "narrower": "what a search of width - 1 finds",
    "wider": "what a search of width + 1 finds",
    "late": "what a search finds that keeps a single text after its first round: keep `width` there, too",
    "early": "what a search finds that keeps a single text after its last round but one",
    "short": "what a search finds that forgets the prompt: it reads its first token, and later the new tokens alone",
    "forgotten": "what a search finds that gives the model the prompt in the first round alone: it comes first in all",
    "cut": "what a search finds that gives the model only the last token of the prompt: give it all of them",
    "alone": "what a search finds that gives the model the new tokens without the prompt in front of them",
    "backwards": "what a search finds that gives the model the new tokens first, then the prompt",
    "divided": "what a search finds that divides a place in the flat array (texts, V) by the number of texts, and "
    "takes the quotient for the token: the place is text · V + token, so divide it by V",
    "untold": "what a search finds that gives the model the prompt alone in every round: the new tokens follow it",
}
SUMS = ("last", "short", "forgotten", "cut", "alone", "backwards", "untold")  # they give another total, too
NEAR = ("of each token", "one of each", "newest", "late", "early")
TABLES = 12  # on which a mistake must find what the learner's function finds: few texts tell few mistakes apart


def search(log_probs, prompt, n, width, bug=None):
    """(n tokens as a list, their log-probability): the best text of a beam search, with a mistake or with none."""
    width = {"greedy": 1, "narrower": max(1, width - 1), "wider": width + 1}.get(bug, width)
    beam = [([], 0.0)]
    for k in range(n):
        found = []
        for text, total in beam[-1:] if bug == "last text" else beam:
            before = {
                "short": [] if text else prompt[:1],
                "forgotten": [] if text else prompt,
                "cut": prompt[-1:],
                "alone": [],
            }.get(bug, prompt)
            read = {"backwards": [*text, *prompt], "untold": prompt}.get(bug, [*before, *text])
            p = log_probs(read)  # (V,)
            p = np.exp(p) if bug == "added" else p
            newest, total = p.tolist(), 0.0 if bug == "last" else total
            each = [(total + number, [*text, token], total + number) for token, number in enumerate(newest)]
            if bug in RANKS:
                each = [(RANKS[bug](total, item[0] - total), *item[1:]) for item in each]
            each.sort(key=_falling if bug not in ("unsorted", "divided") else lambda item: 0)
            one = 1 if len(beam) >= width else None
            most = {"one of each": one, "two of each": 2, "each": width, "rising of the best": width}
            found += each[: most.get(bug)]  # (rank, text, log-probability)
        if bug == "divided":
            at = (divmod(place, len(beam)) for place in range(len(found)))
            found = [(item[0], [*beam[k][0], token], item[2]) for item, (token, k) in zip(found, at)]
        orders = {"rising": itemgetter(0), "rising of the best": itemgetter(0), "unsorted": lambda item: 0}
        found.sort(key=orders.get(bug, _falling))
        if bug == "of each token":
            first = {text[-1]: k for k, (_, text, _) in reversed([*enumerate(found)])}
            found = [found[k] for k in sorted(first.values())]
        alone = bug == "late" and k == 0 or bug == "early" and k == n - 2
        beam = [item[1:] for item in (found if bug == "each" else found[: 1 if alone else width])]
    if bug == "newest":
        return max(beam, key=itemgetter(1))
    return beam[-1 if bug in ("least", "rising of the best") else 0]


RANKS = {  # by what continuations are sorted, of the text's log-probability before and of the new token's
    "newest": lambda total, number: number,
    "newest, first": lambda total, number: number,
    "before": lambda total, number: total,
}


def _falling(item):
    return -item[0]


def telling(Table, rng, V, n, width, draws):
    """(model, prompt) of the exercise: of several draws the one on which most of the NEAR mistakes find other texts."""
    tries = []
    for _ in range(draws):
        model, prompt = Table(1.5 * rng.normal(size=(V, V, V))), rng.integers(0, V, 2).tolist()
        right, _ = search(model.table, prompt, n, width)
        alike = sum(search(model.table, prompt, n, width, bug)[0] == right for bug in NEAR)
        tries.append((alike, len(tries), model, prompt))
        if not alike:
            break
    return min(tries)[2:]


def best_of_all(log_probs, prompt, n):
    """(n tokens, log-probability) of the most probable text of all; only for small n and V."""
    V, best = len(log_probs(prompt)), ([], -np.inf)
    for text in product(range(V), repeat=n):
        total = score(log_probs, prompt, text)
        best = (list(text), total) if total > best[1] else best
    return best


def score(log_probs, prompt, text) -> float:
    """The log-probability of a text after the prompt."""
    return float(sum(log_probs([*prompt, *text[:k]])[token] for k, token in enumerate(text)))


def explain(found, model, prompt, n, width, function=None):
    """What is wrong with what was returned, as a sentence; None when nothing is.

    model: a Table of the exercise. function: the learner's, for more tables.
    """
    if found is None:
        return "nothing was returned"
    if not isinstance(found, tuple | list) or len(found) != 2 or np.ndim(found[0]) != 1 or np.ndim(found[1]) != 0:
        return f"return two values: `return tokens, total`; you returned {describe(found)}"
    tokens, total = [int(token) for token in found[0]], found[1]
    where = f"\n→ Where to look: {BEAM}"
    if len(tokens) != n:
        both = (
            " (it begins with the prompt: return only what follows)"
            if tokens == [*prompt, *tokens[len(prompt) :]]
            else ""
        )
        return f"there are {len(tokens)} tokens, and n is {n}{both if len(tokens) == n + len(prompt) else ''}.{where}"
    right, best = search(model.table, prompt, n, width)
    if tokens != right:
        return _explain_tokens(tokens, total, right, best, model, prompt, n, width, function) + where
    if not _close(total, best):
        about = _about(total, best, width, model, prompt, right)
        digits = digits_apart([(best, total)], 6) if isinstance(total, float) else 6
        said = f"the tokens are right; their log-probability is {best:.{digits}g}, not {_shown(total, digits)}"
        return f"{said}{about}.{where}"
    return None


def _explain_tokens(tokens, total, right, best, model, prompt, n, width, function):
    theirs, bugs = score(model.table, prompt, tokens), _likely(tokens, model, prompt, n, width, function)
    said = [MISTAKES[bug] for bug in bugs]
    k = next(i for i, (a, b) in enumerate(zip(tokens, right)) if a != b)
    parted = f"{best:.4f}, and yours has {theirs:.4f}: they part at token {k}"
    if theirs > best:
        parted += f". Yours is the more probable one, but a beam of {width} does not find it"
    why = f" It is {'; or '.join(said)}." if said else _shorter(model, prompt, n, width, function)
    if said and not any(_close(total, number) for number in (theirs, *_totals(bugs, model, prompt, n, width))):
        why += f" You returned {_shown(total, 6)} with it: that is not the log-probability of this text."
    return f"with width {width}, beam search finds a text with the log-probability {parted}.{why}"


def _totals(bugs, model, prompt, n, width):
    return [search(model.table, prompt, n, width, bug)[1] for bug in bugs]


def _shorter(model, prompt, n, width, function) -> str:
    """The smallest n for which the learner's function finds another text on the same table, and what it finds then."""
    for m in range(1, n + 1 if function and is_explaining() else 1):
        right, best = search(model.table, prompt, m, width)
        did = outcome(function, model, list(prompt), m, width)
        if not isinstance(did, tuple | list) or len(did) != 2 or np.ndim(did[0]) != 1:
            return ""
        if (tokens := [int(token) for token in did[0]]) != right:
            fewer = f"With n below {m} it is right, and with" if m > 1 else "With"
            theirs = score(model.table, prompt, tokens) if len(tokens) == m else np.nan
            other = ""
            if len(tokens) == m and isinstance(did[1], float) and not np.isclose(did[1], theirs, rtol=1e-4):
                other = f" You returned {did[1]:.4f} with it: that is not the log-probability of this text."
            return (
                f"\n{fewer} n = {m} yours is {tokens} with {theirs:.4f}, and the beam's is {right} with {best:.4f}."
                f"{other}"
            )
    return ""


def too_many_calls(model, prompt, n, width, function) -> str:
    """A sentence on how often log_probs was called, where the text is right; with which text more than once."""
    said = (
        f"the text is right, but log_probs was called {model.calls} times, and {1 + (n - 1) * width} will do: once for "
        "each text of the beam and round"
    )
    asked, V = _asked(model, prompt, n, width, function), len(model.table(prompt))
    alone = asked.pop(tuple(prompt), 0)
    if asked and min(asked.values()) > 1:
        token = f", and there are {V} tokens" if min(asked.values()) == V else ""
        several = " … ".join(str(times) for times in sorted({min(asked.values()), max(asked.values())}))
        return f"{said}. It is called {several} times with one and the same text{token}"
    if alone > 1:
        more = _asked(model, prompt, n, width + 1, function)[tuple(prompt)]
        begins = "a beam begins with a single text, the empty one" if more > alone else "once will do"
        return f"{said}. It is called {alone} times with the prompt alone: {begins}"
    if more := asked.total() - len(asked):
        return f"{said}. {more} of the calls are with a text that it was called with before"
    return said


def cut_short(Table, rng, function) -> str | None:
    """A sentence on a call of log_probs that lacks tokens of a long prompt, which a Table of pairs does not show."""
    model, prompt, n, width = Table(rng.normal(size=(4, 4, 4))), rng.integers(0, 4, 67).tolist(), 5, 3
    for asked in _asked(model, prompt, n, width, function):
        if list(asked[: len(prompt)]) != prompt:
            given = f"after a prompt of {len(prompt)} tokens, log_probs was called with a list of {len(asked)}"
            models = "The models here look at two tokens, another one at all of them"
            return f"{given} that does not begin with it. {models}.\n→ Where to look: {BEAM}"
    return None


def _asked(model, prompt, n, width, function) -> Counter:
    """How often the learner's function calls log_probs with each text."""
    other, asked = type(model)(model.logp), Counter()

    def log_probs(tokens):
        asked[tuple(int(token) for token in tokens)] += 1
        return model.table(tokens)

    other.log_probs = log_probs
    outcome(function, other, list(prompt), n, width)
    return asked


def _likely(tokens, model, prompt, n, width, function) -> list:
    """The mistakes that give the learner's text, here and on other tables, and if possible its total, too."""
    bugs = [bug for bug in MISTAKES if bug != "each" or width**n <= 5000]
    bugs = [bug for bug in bugs if search(model.table, prompt, n, width, bug)[0] == tokens]
    if function is None or not bugs or not is_explaining():
        return bugs
    rng, V, exact = np.random.default_rng(0), len(model.table(prompt)), set(bugs)
    n = min(n, 5)
    for k in range(TABLES):
        width = 2 + k % 4
        other = type(model)(1.5 * rng.normal(size=(V, V, V)))
        prompt = rng.integers(0, V, 2).tolist()
        did = outcome(function, other, list(prompt), n, width)
        if not isinstance(did, tuple | list) or len(did) != 2:
            return []
        for bug in bugs.copy():
            text, total = search(other.table, prompt, n, width, bug)
            if list(did[0]) != text:
                bugs.remove(bug)
            elif not _close(did[1], total):
                exact.discard(bug)
    return [bug for bug in bugs if bug in exact] or bugs


def _close(got, number) -> bool:
    return isinstance(got, int | float | np.floating) and bool(np.isclose(got, number, rtol=1e-9, atol=0))


def _shown(total, digits) -> str:
    return f"{float(total):.{digits}g}" if isinstance(total, int | float | np.floating) else describe(total)


def _about(total, best, width, model, prompt, right):
    """What another number is, as far as that is known."""
    each = [float(model.table([*prompt, *right[:k]])[token]) for k, token in enumerate(right)]
    added = np.exp(each).sum()
    known = {
        "the probability: return its logarithm": np.exp(best),
        "the mean over the tokens: return the sum": best / len(right),
        "the newest token's log-probability alone: add up those of the whole text": each[-1],
        "the sum of the tokens' probabilities: they multiply, so add up their logarithms": added,
        "the logarithm of a sum of probabilities: they multiply, so add up their logarithms": np.log(added),
        "the surprise: the log-probability is negative": -best,
        "in bits: take the natural logarithm, as log_probs does": best / np.log(2),
    }
    known |= {
        words: search(model.table, prompt, len(right), width, bug)[1] for bug, words in MISTAKES.items() if bug in SUMS
    }
    for words, number in known.items():
        if _close(total, number):
            return f", which is {words}"
    return ""


def why_it_bores(beam_search, Table, rng) -> str:
    """A sentence on what beam_search writes on the letters of Python's manual, beside samples and the manual itself.

    Table: the exercise's class of language models.
    """
    ids = letters()
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
    import re
    from pydoc_data.topics import topics

    text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())
    return np.array([26 if letter == " " else ord(letter) - 97 for letter in text])
