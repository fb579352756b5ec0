"""What the check of `bpe_step` calls it on, and what it says about the results."""

from llmc.course.lessons.tokens.bpe.step import bpe_step, count_pairs, merge
from llmc.course.lessons.tokens.bpe.step_mistakes import step_mistakes, wrong_choices
from llmc.course.lessons.tokens.bpe.step_small import PROPERTIES, shrunk
from llmc.course.lessons.tokens.bpe.telling import Small, confirmed, draw_letters, explain, row, telling_cases
from llmc.course.old.checks.explain import describe, stopped

# where to look; a test holds this title against the headings of notebooks/08_tokens.ipynb
TIES = "your token is as frequent as the expected one, which sorts first"
BY_HAND = 'lesson 08, section "3.1 · By hand"'


def draw_words(rng):
    """(words, counts): a few distinct words over two or three letters, some with tokens that were made already."""
    if rng.random() < 0.2:
        return _draw_two_ways(rng)
    letters = draw_letters(rng, int(rng.integers(2, 4)))
    drawn = {b"".join(rng.choice(letters, int(rng.integers(1, 7)))) for _ in range(int(rng.integers(3, 6)))}
    words = [[bytes([b]) for b in word] for word in sorted(drawn, key=lambda _: rng.random())]
    for _ in range(int(rng.integers(0, 3))):  # some tokens, any, exist already
        pairs = sorted(count_pairs(words, [1] * len(words)))
        if len(pairs) > 3:
            token = pairs[int(rng.integers(len(pairs)))]
            words = [merge(word, token) for word in words]
    counts = rng.integers(1, 5, len(words)).tolist()
    return (words, counts) if count_pairs(words, counts) else draw_words(rng)


def _draw_two_ways(rng):
    """Words in which the most frequent pair comes as (a, bc) and as (ab, c), each alone rarer than another pair.

    In one word a, b and c stand side by side.
    """
    a, b, c, d, e = draw_letters(rng, 5)
    words, counts = [[a, b + c], [e, a + b, c], [d, e], [a, b, c]], [3, 2, 4, 1]
    order = rng.permutation(4)
    return [words[k] for k in order], [counts[k] for k in order]


def step_cases(rng) -> list:
    """[(words, counts)] on which every known mistake shows."""
    a, b, z = b"a", b"b", b"Z"
    capital = [[a, b], [z, b]], [5000, 5000]  # Z sorts before a
    many = [[a, b], [z, b]], [70_001, 70_002]
    high = [[b"\xc3", b], [a, b]], [7, 7]  # behind a, and before it as Python prints it
    longer = [[a, b], [b"ca", b], [a, b"bd"], [b"ca", b"bd"]], [9, 1, 1, 1]  # only the first holds a and b, whole
    return [*telling_cases(rng, draw_words, bpe_step, step_mistakes()), capital, many, high, longer]


def explain_steps(cases, results) -> str | None:
    """What is wrong with the results of bpe_step, as a sentence and an example; None when all are right."""
    for result in results:
        if not (isinstance(result, tuple | list) and len(result) == 2):
            return f"two things are expected, `return token, merged`, but bpe_step returned {describe(result)}"
        token, merged = result
        if isinstance(token, tuple) and all(isinstance(part, bytes) for part in token):
            return f"token is the pair {token!r}: join the two, left + right"
        if not isinstance(token, bytes):
            return f"token should be bytes like b'th', but is {describe(token)}"
        if not (isinstance(merged, list) and all(isinstance(word, list) for word in merged)):
            return "merged should be a list of words, each a list of tokens (bytes), in the order of the given words"
    results = [tuple(result) for result in results]
    choice = _wrong_choice(cases, [token for token, _ in results])
    if choice:
        sentence, k = choice
        return f"{stopped(sentence)}\n{_told_step(cases[k], results[k], bpe_step(*cases[k]))}"
    return explain(cases, results, bpe_step, step_mistakes(), _told_step, Small(draw_words, shrunk, PROPERTIES))


def _wrong_choice(cases, tokens):
    """(which mistake explains all tokens, the first case that shows it), whatever was merged then; None if none."""
    right = [bpe_step(*case)[0] for case in cases]
    wrong = [k for k, token in enumerate(tokens) if token != right[k]]
    for sentence, choose in wrong_choices().items() if wrong else ():
        chosen = lambda *case, choose=choose: (choose(*case), None)  # noqa: E731
        fits = all(token == choose(*case) for token, case in zip(tokens, cases))
        if fits and confirmed(chosen, draw_words, part=lambda result: result[0]):
            return sentence, wrong[0]
    pairs = {k: count_pairs(*cases[k]) for k in wrong}
    if wrong and all(pairs[k].get(tokens[k]) == pairs[k][right[k]] for k in wrong):
        return TIES, wrong[0]
    return None


def _told_step(case, result, right):
    (words, counts), (token, merged), (right_token, right_merged) = case, result, right
    shown = "; ".join(f"{count} × {row(word)}" for word, count in zip(words, counts))
    if token != right_token:
        pairs = count_pairs(words, counts)
        wanted, found = (f"{each!r} ({_times(pairs.get(each, 0))})" for each in (right_token, token))
        told = f"Words {shown}: expected token {wanted}, got {found}."
        return f"{told}{_where_from(words, token, pairs)}\n→ {BY_HAND}"
    wrong = next((k for k, word in enumerate(right_merged) if merged[k : k + 1] != [word]), len(right_merged))
    if len(merged) != len(right_merged):
        rest = merged[wrong:]
        left_out = wrong < len(right_merged) and rest == right_merged[len(right_merged) - len(rest) :]
        lost = f": that of {row(words[wrong])} is left out" if left_out else ""
        return f"Words {shown}: merged has {len(merged)} words, expected {len(right_merged)}{lost}.\n→ {BY_HAND}"
    told = f"Merging {token!r} in {row(words[wrong])}: expected {row(right_merged[wrong])}, got {row(merged[wrong])}."
    return f"{told}{_strange(words[wrong], merged[wrong], token)}\n→ {BY_HAND}"


def _times(n) -> str:
    return {0: "never there", 1: "once"}.get(n, f"{n} times")


def _where_from(words, token, pairs) -> str:
    """A sentence about a token that no word holds as a pair, but two neighbouring words do; "" if it is none."""
    borders = ((left, right) for left, right in zip(words, words[1:]) if left[-1] + right[0] == token)
    left, right = next(borders, (None, None))
    if pairs.get(token) or left is None:
        return ""
    return f"\nIt is the last token of {row(left)} and the first of {row(right)}."


def _strange(word, merged, token) -> str:
    """A sentence about a part of the merged word that is neither in the word nor the token; "" without one."""
    parts = [part for part in merged if isinstance(part, bytes) and part not in word and part != token]
    if not parts:
        return ""
    return f"\n{row(parts[:1])} is neither a part of that word nor the new token, {row([token])}."
