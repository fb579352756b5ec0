"""Lesson 24's references and known mistakes, its bill and the panel of it."""

import re
from pathlib import Path

import numpy as np
import pytest

from llmc.config import preset
from llmc.course.lessons.evaluate import bill, counting, endings, laws, places, plans, published
from llmc.course.old.authoring.answers import Lesson
from llmc.course.old.checks.explain import WrongAnswer
from llmc.evaluation import bits_per_byte
from llmc.hellaswag import score
from llmc.model import GPT2

ROOT = Path(__file__).resolve().parents[3]
needs_checkout = pytest.mark.skipif(not (ROOT / "notebooks").is_dir(), reason="needs a checkout")


@pytest.fixture
def rng():
    return np.random.default_rng(24)


# --------------------------------------------------------------------------------------------------- the references


def test_bits_per_byte_are_those_of_the_package(rng):
    losses, targets, lengths = counting.documents(rng, 4, 9, 30)
    real = targets >= 0
    theirs = bits_per_byte(losses[real].mean(dtype=np.float64), targets[real], lengths)
    assert np.isclose(counting.right(losses, targets, lengths), theirs, rtol=1e-6)


def test_endings_are_scored_as_the_package_scores_them(rng):
    model = GPT2(preset("tiny", V=40, maxT=16))
    model.init_weights(3)
    _, tokens, mask = endings.question(rng, 4, 5, 6, 40)
    logits = np.array(model.forward(tokens))[..., :40]  # (4, 11, 40)
    for ours, theirs in zip(endings.right(logits, tokens, mask), score(model, tokens, mask)):
        assert np.allclose(ours, theirs, rtol=1e-5)


def test_a_law_without_errors_is_found(rng):
    sizes, exponents = np.geomspace(1e3, 1e7, 6), np.linspace(0.1, 0.8, 71)
    E, A, a = laws.right(sizes, 2 + 50 / sizes**0.35, rng.uniform(0.1, 1, 6), exponents)
    assert np.allclose((E, A, a), (2, 50, 0.35))


def test_an_interval_of_equal_runs_has_no_width(rng):
    losses = np.repeat(rng.normal(0, 1, (4, 1)), 3, axis=1)  # (4, 3)
    low, high = laws.interval(losses, rng.integers(0, 3, (20, 4, 3)), lambda means: means[0] - means[3])
    assert np.isclose(low, high) and np.isclose(low, losses[0, 0] - losses[3, 0])


@pytest.mark.parametrize("seed", range(5))
def test_known_mistakes_are_mistakes(seed):
    """None of them gives what is right, and all are finite where the right answer is."""
    rng = np.random.default_rng(seed)
    documents = counting.documents(rng, 3, 8, 25)
    assert counting.mistakes(*documents)
    assert all(np.isfinite(wrong) for wrong, _ in counting.mistakes(*documents).values())
    question = endings.question(rng, 4, 3, 5, 11)
    for name, right in zip(("sums", "means"), endings.right(*question)):
        wrongs = endings.mistakes(*question)[name]
        assert len(wrongs) > 10 and not any(np.allclose(wrong, right, rtol=1e-4) for wrong, _ in wrongs.values())
    sizes, losses, errors = laws.runs(rng, 6)
    exponents = np.linspace(0.05, 0.9, 40)
    for name, right in zip(("E", "A", "a"), laws.right(sizes, losses, errors, exponents)):
        wrongs = laws.mistakes(sizes, losses, errors, exponents)[name]
        assert len(wrongs) > 5 and not any(np.isclose(wrong, right, rtol=1e-5) for wrong, _ in wrongs.values())


# ------------------------------------------------------------------------------------------------------------ plans


def test_the_best_plan_is_accepted_and_its_neighbours_are_judged_by_their_loss():
    offer = plans.Offer(5.0, 3.0, 4e14)
    loss, d, tokens = plans.best(offer)
    assert plans.demand((d, tokens), offer) == loss and plans.demand([d, round(tokens)], offer)
    with pytest.raises(WrongAnswer, match="too small"):
        plans.demand((d - 4, plans.affordable(d - 4, offer)), offer)
    with pytest.raises(WrongAnswer, match="too large"):
        plans.demand((d + 4, plans.affordable(d + 4, offer)), offer)


def test_what_a_plan_forgot_is_named():
    offer = plans.Offer(801.0, 2.5, 3e14)
    d = plans.best(offer)[1]
    for words, (tokens, where) in plans.mistakes(d, offer).items():
        with pytest.raises(WrongAnswer, match=re.escape(words)) as caught:
            plans.demand((d, tokens), offer)
        assert where in str(caught.value)
    for plan in (None, 3, (d,), (0, 1e9), (201, 1e9), (d, -1.0), (d, float("nan")), (1e9, d), (float(d), 1e9)):
        with pytest.raises(WrongAnswer):
            plans.demand(plan, offer)


def test_plans_use_the_models_own_counts():
    config = preset("d12")
    assert plans.weights(12) == config.num_parameters_padded
    assert plans.token_flops(12) == config.flops_per_token(plans.T)


# --------------------------------------------------------------------------------------------------------- the bill


@pytest.fixture
def measured(monkeypatch):
    if not (ROOT / "notebooks").is_dir():
        pytest.skip("needs a checkout")
    monkeypatch.chdir(ROOT / "notebooks")
    return bill.measured()


def test_a_bill_is_operations_over_speed(measured):
    mfu, slower = measured
    size = published.SIZES["GPT-2 124M"]
    one, two, many = (bill.bill(size, gpus, 3.0, mfu, slower) for gpus in (1, 2, 64))
    assert 0.4 < mfu < 0.5 and 1 < slower < 1.1
    assert np.isclose(one.hours * 3600 * mfu * bill.PEAK, one.flops) and np.isclose(one.dollars, 3 * one.hours)
    assert (
        1.97 < one.hours / two.hours < 1.99
    )  # README: 1.97 times where every batch of 64 pays for a sum; here each fourth
    assert one.hours / many.hours < 64 and many.dollars > one.dollars
    assert np.isclose(bill.bill(size, 1, 3.0, mfu, slower, tokens=size.tokens / 2).hours, one.hours / 2)


def test_sizes_have_their_published_numbers():
    millions = {"124M": 124, "350M": 355, "774M": 774, "1558M": 1558, "175B": 174_600}
    for name, size in published.SIZES.items():
        if name.split()[1] in millions and name != "GPT-3 350M":
            assert abs(size.config.num_parameters / 1e6 / millions[name.split()[1]] - 1) < 0.01, name
    assert [size.T for size in published.SIZES.values()] == [1024] * 4 + [2048] * 8


def test_the_law_asks_for_about_twenty_tokens_a_weight():
    for flops in (1e19, 1e21, 1e23):
        N = np.geomspace(1e7, 1e12, 4000)
        best = N[published.chinchilla(N, flops / 6 / N).argmin()]
        assert 15 < flops / 6 / best**2 < 27


@pytest.mark.parametrize(
    ("hours", "words"), [(0.05, "3.0 minutes"), (1.5, "1.5 hours"), (50, "2.1 days"), (90000, "10.3 years")]
)
def test_durations(hours, words):
    assert bill.duration(hours) == words


def dollars(panel):
    return float(re.search(r"[$]([\d,]+)", panel.text.value)[1].replace(",", ""))


def test_the_panel_answers_to_its_widgets(measured):
    pytest.importorskip("ipywidgets")
    panel = bill.Panel("GPT-2 124M", 8, 3.0)
    first = dollars(panel)
    assert "9.9 billion tokens" in panel.text.value and "does not fit" not in panel.text.value
    panel.price.value = 6.0
    assert abs(dollars(panel) - 2 * first) <= 1
    panel.ratio.index = 1
    assert "2.5 billion tokens" in panel.text.value
    panel.size.value, panel.gpus.value = "GPT-3 175B", 64
    assert "does not fit" in panel.text.value


# ------------------------------------------------------------------------------------------------------- its places


@needs_checkout
def test_sections_that_messages_name_exist():
    text = (ROOT / "notebooks" / "24_evaluate_and_reproduce.ipynb").read_text(encoding="utf-8")
    for name, place in vars(places).items():
        if name.isupper():
            title = re.search('"(.*)"', place)[1]
            assert f"## {title}" in text, place


@needs_checkout
def test_the_notebooks_law_is_the_lessons():
    names = Lesson(ROOT, "24_evaluate_and_reproduce").namespace
    assert names["T"] == plans.T
    for d in (1, 12, 200):
        assert names["weights"](d) == plans.weights(d)
        assert names["predicted_loss"](plans.weights(d), 1e10) == published.chinchilla(plans.weights(d), 1e10)
