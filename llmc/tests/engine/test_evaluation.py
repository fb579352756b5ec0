"""Loss, bits per byte, and the counting baselines, against sums worked out by hand."""

from math import log

import numpy as np
import pytest

from llmc.config import GPT2Config
from llmc.data import DataLoader, write_tokens
from llmc.errors import UserError
from llmc.evaluation import baselines, bits_per_byte, evaluate
from llmc.model import GPT2

CONFIG = GPT2Config(maxT=8, V=11, L=1, NH=1, C=4)


@pytest.fixture
def loader(tmp_path):
    write_tokens(tmp_path / "t.bin", np.random.default_rng(0).integers(0, CONFIG.V, 100).astype(np.uint16))
    return DataLoader(tmp_path / "t.bin", B=2, T=8, V=CONFIG.V)


def test_a_model_of_zeros_knows_nothing(loader):
    assert evaluate(GPT2(CONFIG), loader) == pytest.approx(log(CONFIG.V), rel=1e-6)


def test_measures_the_same_tokens_each_time(loader):
    model = GPT2(CONFIG)
    model.init_weights()
    first = evaluate(model, loader, 3)
    loader.next_batch()
    assert evaluate(model, loader, 3) == first
    assert evaluate(model, loader, 10**6) == evaluate(model, loader)  # never the same tokens twice


def test_is_the_mean_over_the_batches(loader):
    model = GPT2(CONFIG)
    model.init_weights()
    each = []
    for _ in range(3):
        x, y = loader.next_batch()
        each.append(model.loss(x, y))
    assert evaluate(model, loader, 3) == pytest.approx(np.mean(each), rel=1e-12)


def test_no_batches_is_one_sentence(loader):
    with pytest.raises(UserError, match="too little data"):
        evaluate(GPT2(CONFIG), loader, 0)


def test_bits_per_byte_by_hand():
    lengths = np.array([1, 3, 0])
    assert bits_per_byte(log(2), [0, 0], lengths) == pytest.approx(1.0)
    assert bits_per_byte(2 * log(2), [0, 1], lengths) == pytest.approx(4 / 4)
    assert bits_per_byte(log(2), [0, 2, 1, 2], lengths) == pytest.approx(4 / 4)  # end of text costs, but has no length


def test_bits_per_byte_of_no_text():
    with pytest.raises(UserError, match="no text"):
        bits_per_byte(1.0, [2], np.array([1, 3, 0]))


def test_baselines_on_alternating_tokens():
    tokens = np.array([0, 1] * 500, np.uint16)
    found = baselines(tokens, tokens[:101], 4)
    assert found["uniform"] == log(4)
    assert found["unigram"] == pytest.approx(log(2), abs=1e-3)
    assert found["bigram"] == pytest.approx(0.0, abs=1e-3)


def test_baselines_against_a_table():
    """The bigram equals the same formula on a full (V, V) table, at the best of its strengths."""
    rng = np.random.default_rng(1)
    train, val = rng.integers(0, 7, 300), rng.integers(0, 8, 60)  # 7 occurs only in val
    table = np.zeros((9, 9))
    np.add.at(table, (train[:-1], train[1:]), 1)
    counts = np.bincount(train, minlength=9)
    strengths = np.geomspace(0.01, 1e5, 50)
    uni = {k: (counts + k / 9) / (counts.sum() + k) for k in strengths}
    best = min(uni.values(), key=lambda p: -np.log(p[val[1:]]).mean())
    expected = min(
        -np.log((table[val[:-1], val[1:]] + k * best[val[1:]]) / (table.sum(1)[val[:-1]] + k)).mean() for k in strengths
    )
    found = baselines(train, val, 9)
    assert found["unigram"] == pytest.approx(-np.log(best[val[1:]]).mean())
    assert found["bigram"] == pytest.approx(expected)
    assert all(np.isfinite(value) for value in found.values())


def test_baselines_need_tokens():
    with pytest.raises(UserError, match="at least two"):
        baselines(np.array([1]), np.array([1, 2]), 4)
