"""Lesson 22, exercise 2: main.logs of runs on letters, each with one broken setting or with none, and wrong answers.

`python -m llmc.course.lessons.train_gpt2.logs` trains them (a few minutes) and writes logs.npz; a test trains the first
steps of some again. All runs are the healthy one, SETTINGS, with another seed and one of BROKEN's changes.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.model import GPT2
from llmc.training import learning_rate
from llmc.training.log import LINES

FILE = Path(__file__).parent / "logs.npz"
STEPS, T, EVERY = 400, 32, 50
VALIDATION = 4_000  # letters
SETTINGS = dict(learning_rate=3e-3, warmup=40, schedule="cosine", batch_size=16, weight_decay=0.1, val_data="ours")
BROKEN = {  # setting: values that it may have been given by mistake
    "learning_rate": (3e-2, 2e-4),
    "warmup": (0, STEPS),
    "schedule": ("constant", "linear"),
    "batch_size": (2, 4),
    "weight_decay": (20.0, 60.0),
    "val_data": ("other letters",),
}
SEEDS = 2  # runs of each broken setting; of the healthy one there are twice as many


def train(name="none", value="", seed=0, steps=STEPS):
    """(rows (steps, 3) of loss, learning rate, norm; validation losses) of the beginning of a run."""
    s = dict(SETTINGS)
    if name != "none":
        s[name] = next(v for v in BROKEN[name] if str(v) == value)
    text, held_out = _letters()
    if s["val_data"] != "ours":
        held_out = np.random.default_rng(27).permutation(27)[held_out]  # as another tokenizer would number them
    model = GPT2(GPT2Config(maxT=T, V=27, L=2, NH=4, C=32), "cpu")
    model.init_weights(100 + seed)
    starts = np.random.default_rng(seed).integers(0, len(text) - T - 1, (steps, s["batch_size"]))
    rows, val = [], []
    for step in range(steps):
        if step % EVERY == 0:
            val.append(_loss(model, held_out))
        x, y = _rows(text, starts[step])  # (B, T) both
        model.zero_grad()
        loss = model.forward(x, y, dloss=1.0)
        model.backward()
        norm = model.clip_gradients(1.0)
        lr = learning_rate(step, s["learning_rate"], s["warmup"], STEPS, kind=s["schedule"])
        model.update(lr, weight_decay=s["weight_decay"])
        rows.append((loss, lr, norm))
    val.append(_loss(model, held_out))
    return np.array(rows), np.array(val)


def _rows(ids, starts):
    window = ids[starts[:, None] + np.arange(T + 1)]  # (B, T + 1)
    return window[:, :-1], window[:, 1:]


def _loss(model, held_out):
    return model.loss(*_rows(held_out, np.arange(0, VALIDATION, T)))


@lru_cache
def _letters():
    """(training, validation) letters of the manual that comes with Python, 27 kinds."""
    from pydoc_data.topics import topics

    text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())
    ids = np.array([26 if letter == " " else ord(letter) - 97 for letter in text])  # (n,)
    return ids[: -VALIDATION - T - 1], ids[-VALIDATION - T - 1 :]


def as_log(rows, val) -> str:
    """The main.log of a run, in llm.c's format."""
    lines = []
    for step in range(len(rows) + 1):
        if step % EVERY == 0 or step == len(rows):
            lines.append(LINES["val"].format(step, val[-(-step // EVERY)]))
        if step < len(rows):
            lines.append(LINES["train"].format(step, *rows[step]))
    return "".join(lines)


class Run(NamedTuple):
    """One log. setting: what is broken, None for a healthy run; value: what it was given by mistake."""

    setting: str | None
    value: str
    log: str


@lru_cache
def runs() -> list[Run]:
    """All runs of the file, the healthy ones first."""
    found = []
    with np.load(FILE) as file:
        for key in (name.removesuffix("/rows") for name in file.files if name.endswith("/rows")):
            setting, value, _ = key.split("/")
            rows, val = file[f"{key}/rows"].astype(np.float64), file[f"{key}/val"].astype(np.float64)
            name, value = None if setting == "none" else setting, value.replace("other letters", "another tokenizer")
            found.append(Run(name, value, as_log(rows, val)))
    return found


def healthy() -> str:
    """The log of a healthy run that is not one of the cases."""
    return runs()[0].log


def some_order(c):
    """Every broken run, and the healthy ones but the first, in any order."""
    found = runs()[1:]
    yield from (found[k] for k in c.rng.permutation(len(found)))


def judge_answers(c, tried):
    """WrongAnswer unless every answer is right. tried: [(Run, answer)] of the learner's function."""
    for _, answer in tried:
        if answer is not None and (not isinstance(answer, str) or answer not in BROKEN):
            known = ", ".join(map(repr, BROKEN))
            raise WrongAnswer(f"return one of {known}, or None for a healthy run; you returned {describe(answer)}")
    wrong = [(run, answer) for run, answer in tried if answer != run.setting]
    if not wrong:
        return
    c.calls.clear()  # the last of them need not be a wrong one
    run, answer = min(wrong, key=lambda each: each[0].setting is None)  # a broken run, where there is one
    broken = f"the broken setting was {run.setting!r} ({run.value} instead of {SETTINGS.get(run.setting)})"
    told = f"{broken if run.setting else 'one of the runs was healthy'}, and your answer is {answer!r}"
    more = [f"{len(wrong)} of {len(tried)} logs got a wrong answer.", *_in_common(tried, wrong)]
    for whose, log in (("its", run.log), ("the healthy", healthy())):
        loss, val = (np.array(re.findall(rf"{name}:(\S+)", log), float) for name in ("trl", "tel"))
        more.append(f"In {whose} log np.diff(loss).std() is {np.diff(loss).std():.3f}, and the last val {val[-1]:.3f}.")
    raise WrongAnswer(told, more=more, look=c.exercise.look_for())


def _in_common(tried, wrong):
    """What the wrong answers have in common, as far as they show it."""
    kinds = {run.setting for run, _ in wrong}
    right = {run.value for run, answer in tried if run.setting in kinds and run.setting == answer}
    if kinds == {None}:
        yield "Only the answers for healthy runs are wrong."
    elif len(kinds) == 1 and not right & {run.value for run, _ in wrong}:
        values, kind = ", ".join(sorted(right)), repr(*kinds)
        yield f"With {kind} at {values} the answer is right." if right else f"Only {kind} is wrong, and always."


Exercise("broken_setting", "22", returns="setting", cases=some_order, look="9.1 · Three logs side by side")


def main():
    """Train all, and write them."""
    found, runs = {}, [("none", "", 10 + seed) for seed in range(2 * SEEDS)]
    runs += [(name, str(value), seed) for name, values in BROKEN.items() for value in values for seed in range(SEEDS)]
    for name, value, seed in runs:
        with np.errstate(all="ignore"):
            rows, val = train(name, value, seed)
        parts = {"rows": rows, "val": val}
        found |= {f"{name}/{value}/{seed}/{part}": array.astype(np.float32) for part, array in parts.items()}
    np.savez_compressed(FILE, **found)


if __name__ == "__main__":
    main()
