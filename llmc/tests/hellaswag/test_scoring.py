"""Scores: a handmade set with known answers on every backend, and transformers' losses on random weights."""

import numpy as np
import pytest

from llmc.backends import BACKENDS
from llmc.checkpoints import write_huggingface
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.evaluation import token_losses
from llmc.hellaswag import Example, Scores, report, rows_of, score, score_examples
from llmc.model import GPT2
from llmc.tests.hellaswag.parrot import ACCURACY, ACCURACY_NORM, EXAMPLES, LENGTHS, SUMS, parrot

CONFIG = GPT2Config(maxT=40, V=97, L=2, NH=2, C=16)


def random_examples(count, seed=0, longest=12):
    random = np.random.RandomState(seed)

    def text():
        return random.randint(0, CONFIG.V, random.randint(1, longest)).tolist()

    return [Example(text(), [text() for _ in range(4)], int(random.randint(4))) for _ in range(count)]


@pytest.fixture(scope="module")
def model():
    model, random = GPT2(CONFIG), np.random.RandomState(1)
    for p in CONFIG.parameter_table():
        model.params[p.name][...] = 0.3 * random.standard_normal(p.shape)
    return model


# ------------------------------------------------------------------------------------------------ known answers


@pytest.mark.parametrize("name", BACKENDS)
def test_known_answers_on_every_backend(name):
    scores = score_examples(parrot(name), EXAMPLES)
    assert scores.sums == pytest.approx(np.array(SUMS), abs=2e-6)
    assert scores.means == pytest.approx(np.array(SUMS) / LENGTHS, abs=2e-6)
    assert (scores.accuracy, scores.accuracy_norm, scores.cut) == (ACCURACY, ACCURACY_NORM, 0)
    assert scores.standard_error == pytest.approx((0.75 * 0.25 / 4) ** 0.5)
    assert scores.sums.dtype == scores.means.dtype == np.float64


def test_in_sixteen_bits():
    scores = score_examples(parrot("cpu", "bf16"), EXAMPLES)
    assert scores.sums == pytest.approx(np.array(SUMS), abs=0.05)
    assert (scores.accuracy, scores.accuracy_norm) == (ACCURACY, ACCURACY_NORM)


def test_an_example_by_hand(model):
    example = Example([5, 6, 7], [[8], [9, 10], [11, 12, 13], [14, 15]], 2)
    tokens, mask, cut = rows_of(example, CONFIG.maxT)
    assert tokens.tolist() == [[5, 6, 7, 8, 0, 0], [5, 6, 7, 9, 10, 0], [5, 6, 7, 11, 12, 13], [5, 6, 7, 14, 15, 0]]
    assert mask.astype(int).tolist() == [[0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert not cut and tokens.dtype == np.int32
    sums, means = score(model, tokens, mask)
    alone = token_losses(model, np.array([[5, 6, 7, 9]]), np.array([[6, 7, 9, 10]]))[0, 2:]  # (2,) of 9 and 10
    assert sums[1] == pytest.approx(alone.sum(), rel=1e-5) and means[1] == pytest.approx(alone.mean(), rel=1e-5)


def test_what_shares_a_batch_does_not_matter(model):
    examples, seen = random_examples(23), []
    together = score_examples(model, examples, at_once=400, progress=seen.append)
    assert sum(seen) == 4 * 23 and len(seen) < 12
    for i, example in enumerate(examples):
        tokens, mask, _ = rows_of(example, CONFIG.maxT)
        for found, expected in zip((together.sums[i], together.means[i]), score(model, tokens, mask)):
            assert found == pytest.approx(expected, rel=1e-5)
    assert together.labels.tolist() == [example.label for example in examples]


def test_a_long_example_loses_its_beginning(model):
    example = Example(list(range(50)), [[60] * 3, [61] * 2, [62], [63]], 0)
    tokens, mask, cut = rows_of(example, 8)
    assert tokens.shape == (4, 9) and cut and tokens[0].tolist() == [44, 45, 46, 47, 48, 49, 60, 60, 60]
    assert tokens[2].tolist() == [44, 45, 46, 47, 48, 49, 62, 0, 0] and mask.sum(1).tolist() == [3, 2, 1, 1]
    tokens, mask, cut = rows_of(Example([1, 2], [[60] * 30, [61], [62], [63]], 0), 8)
    assert tokens[0].tolist() == [2] + [60] * 8 and mask[0].sum() == 8 and cut
    scores = score_examples(model, [example, Example([1], [[2], [3], [4], [5]], 0)], window=8)
    assert scores.cut == 1 and "1 examples were longer" in report(scores)
    assert rows_of(Example([1], [[2] * 8, [3], [4], [5]], 0), 8)[2] is False  # the last token is only predicted


@pytest.mark.parametrize("shape", [(4, 40), (3, 17), (64, 30), (1, 24)])
def test_in_batches_of_one_shape(model, shape, monkeypatch):
    """As a model that is being trained needs it."""
    seen, loss = set(), model.loss
    monkeypatch.setattr(model, "loss", lambda x, y: seen.add(x.shape) or loss(x, y))
    examples, counted = random_examples(7), []
    found = score_examples(model, examples, shape=shape, progress=counted.append)
    assert seen == {shape} and sum(counted) == 4 * 7
    expected = score_examples(model, examples, window=shape[1])
    assert found.sums == pytest.approx(expected.sums, rel=1e-5) and found.cut == expected.cut


# ------------------------------------------------------------------------------------------------ against transformers


def test_transformers_finds_the_same(model, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    write_huggingface(tmp_path, model)
    theirs, examples = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval(), random_examples(12, seed=3)
    found = score_examples(model, examples)
    expected = np.zeros((12, 4))
    for i, example in enumerate(examples):
        for c, ending in enumerate(example.endings):
            n, ids = len(ending), torch.tensor([example.context + ending])
            labels = torch.full_like(ids, -100)  # -100: does not count
            labels[:, -n:] = ids[:, -n:]
            with torch.no_grad():
                expected[i, c] = theirs(ids, labels=labels).loss  # the mean over the ending
    assert np.abs(found.means - expected).max() < 1e-5
    lengths = np.array([[len(ending) for ending in example.endings] for example in examples])
    assert (found.sums.argmin(1) == (expected * lengths).argmin(1)).all()
    assert (found.means.argmin(1) == expected.argmin(1)).all()


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize("mask", [[[0, 0, 0]], [[1, 1, 0]], [[0, 1]], [0, 1, 1]])
def test_a_mask_must_fit(model, mask):
    with pytest.raises(UserError, match="mask"):
        score(model, [[1, 2, 3]], mask)


def test_a_diverged_model_has_no_score():
    model = parrot()
    model.params["lnfb"][0] = np.nan
    with pytest.raises(UserError, match="diverged"):
        score_examples(model, EXAMPLES)


def test_the_report_names_others():
    text = report(Scores(np.array(SUMS), np.array(SUMS) / LENGTHS, np.array([0, 1, 1, 2])))
    assert "75.00% ± 21.65% of 4 examples" in text and "25.00%  by the whole cost" in text
    assert "GPT-2 124M    29.45%" in text and "GPT-2 1558M   48.89%" in text and "were cut" not in text
