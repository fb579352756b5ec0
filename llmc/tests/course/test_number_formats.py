"""Lesson 18's formats against ml_dtypes, its references against the package, its known mistakes, its panel."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from llmc.course.lessons.number_formats import eight_bits, rounding, scale_causes, scaling, sums
from llmc.course.lessons.number_formats.bits import compare_bits
from llmc.course.lessons.number_formats.formats import (
    BF16,
    E4M3,
    E5M2,
    FORMATS,
    FP16,
    FP32,
    TF32,
    decode,
    encode,
    fields,
    meaning,
    rounded,
)
from llmc.course.lessons.number_formats.steps import After, Letters, letter_model
from llmc.course.old.checks import text
from llmc.course.old.checks.explain import WrongAnswer
from llmc.files.bfloat16 import float32_to_bfloat16

ROOT = Path(__file__).resolve().parents[3]
DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}
DTYPES |= {"e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn}


def rng():
    return np.random.default_rng(7)


# ---------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("name", DTYPES)
def test_limits_are_those_of_ml_dtypes(name):
    f, info = FORMATS[name], ml_dtypes.finfo(DTYPES[name])
    theirs = [float(x) for x in (info.max, info.smallest_normal, info.smallest_subnormal, info.eps)]
    assert theirs == [f.largest, f.smallest_normal, f.smallest, f.eps] and f.bits == 8 * np.dtype(DTYPES[name]).itemsize


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", DTYPES)
def test_every_pattern_is_read_and_written_as_ml_dtypes_does(name):
    f, dtype = FORMATS[name], DTYPES[name]
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    codes = np.arange(1 << f.bits) if f.bits <= 16 else rng().integers(0, 1 << 32, 60_000)
    values = codes.astype(unsigned).view(dtype).astype(np.float64)
    mine = decode(codes, f)
    np.testing.assert_array_equal(mine, values)
    assert np.array_equal(np.signbit(mine), np.signbit(values))
    number = ~np.isnan(values)
    assert np.array_equal(encode(values[number], f), codes[number])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", ["bf16", "fp16", "e5m2", "e4m3"])
def test_rounding_is_that_of_ml_dtypes(name):
    f, dtype = FORMATS[name], DTYPES[name]
    any_bits = rng().integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    finite = decode(np.arange(1 << f.bits - 1), f)
    finite = finite[np.isfinite(finite)]
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)
    x = np.r_[any_bits, ties, -ties, special]
    with np.errstate(all="ignore"):
        theirs = x.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(rounded(x, f), theirs)
    assert np.array_equal(np.signbit(rounded(special[:2], f)), [False, True])


def test_tf32_is_fp32_with_ten_bits_of_mantissa():
    x = rng().standard_normal(1000).astype(np.float32)
    assert np.array_equal(encode(x, TF32), encode(rounded(x, TF32), FP32) >> 13)


def test_a_pattern_in_words():
    assert fields(0x3F80, BF16) == "0 01111111 0000000" and meaning(0x3F80, BF16) == "+1 · 2^0 = 1"
    assert meaning(encode(-6, FP16), FP16) == "−1.5 · 2^2 = -6"
    assert "subnormal" in meaning(1, FP16) and meaning(0x80, E4M3) == "−0"
    assert [meaning(c, E5M2) for c in (0x7C, 0xFC, 0x7F)] == ["infinity", "minus infinity", "NaN"]


# ------------------------------------------------------------------------------------------------ rounding by bits


def test_nearest_is_the_package_s():
    for _, x, _ in rounding.groups(rng()):
        theirs, mine = float32_to_bfloat16(x), rounding.nearest(x)
        assert ((theirs == mine) | np.isnan(x)).all() and (decode(mine, BF16)[np.isnan(x)] != 0).all()
        compare_bits(theirs, mine, x)  # any NaN will do


def test_stochastic_is_right_on_average():
    every = np.arange(1 << 16, dtype=np.uint16)
    for x in (0.999, -3.14159, 1e-40, 1.0):
        x = np.full(1 << 16, x, np.float32)
        assert decode(rounding.stochastic(x, every), BF16).mean() == x[0]


def each_group(kind):
    if kind == "nearest":
        for _, x, _ in rounding.groups(rng()):
            yield rounding.nearest(x), rounding.nearest_mistakes(x), x
    else:
        for _, x, random, _ in rounding.stochastic_groups(rng()):
            yield rounding.stochastic(x, random), rounding.stochastic_mistakes(x, random), x


@pytest.mark.parametrize("kind", ["nearest", "stochastic"])
def test_every_mistake_shows_in_a_group_and_is_named_there(kind):
    """In the first group that shows it, unless an earlier sentence gives the same patterns there."""
    groups = list(each_group(kind))
    sentences = set(groups[0][1])
    for sentence in sentences:
        ruled_out = set()
        for expected, known, x in groups:
            left = {s: codes for s, codes in known.items() if s not in ruled_out}
            try:
                ruled_out |= compare_bits(np.asarray(known[sentence]).astype(np.uint16), expected, x, left)
            except WrongAnswer as error:
                assert sentence in error.message, f"{sentence!r} is called {error.message.splitlines()[0]!r}"
                break
        else:
            raise AssertionError(f"{sentence!r} shows nowhere")


def test_a_wrong_pattern_is_shown_in_bits():
    x = np.array([1.00390625, -2.0], np.float32)
    with pytest.raises(WrongAnswer) as caught:
        compare_bits(np.array([0x3F81, 0xC000], np.uint16), rounding.nearest(x), x, look=rounding.NEAREST)
    said = caught.value.message
    assert "0 01111111 0000000|1000000000000000  1.00390625" in said and "Wrong patterns: 1 of 2" in said
    assert "got       0 01111111 0000001" in said and rounding.NEAREST in said


@pytest.mark.parametrize("got", [np.zeros(2, np.uint32), np.zeros(2), np.zeros(3, np.uint16), None])
def test_another_kind_of_result_is_refused(got):
    with pytest.raises(WrongAnswer, match=r"the result (has|is)"):
        compare_bits(got, np.zeros(2, np.uint16), np.zeros(2, np.float32))


# ------------------------------------------------------------------------------------------------------------- sums


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_kahan_stays_within_its_bound_and_the_others_do_not(dtype):
    x = sums.columns(rng(), 512 if dtype is np.float16 else 256, dtype)
    error = {
        f.__name__: np.abs(f(x).astype(np.float64) - sums.exact(x)) for f in (sums.kahan, sums.plain, sums.pairwise)
    }
    assert (error["kahan"] <= sums.allowed(x)).all()
    assert (error["plain"] > sums.allowed(x)).any() and (error["pairwise"] > sums.allowed(x)).any()


def test_mistakes_of_kahan_are_refused_and_named():
    ruled_out = set()
    first, last = sums.columns(rng(), 256, np.float32), sums.columns(rng(), 256, np.float64)
    short = sums.columns(rng(), 6, np.float32)
    for sentence, wrong in sums.kahan_mistakes(first).items():
        if "in float64" in sentence:
            ruled_out = sums.compare_sum(wrong, first)  # right in float32
            wrong, x = sums.kahan_mistakes(last)[sentence], last
        elif not np.isfinite(wrong).all():  # the check's first call has six rows, after which all are still numbers
            ruled_out, x = set(), short
            wrong = sums.kahan_mistakes(short)[sentence]
        else:
            ruled_out, x = set(), first
        with pytest.raises(WrongAnswer) as caught:
            sums.compare_sum(wrong, x, ruled_out)
        assert sentence in caught.value.message and sums.KAHAN in caught.value.message
    assert sums.compare_sum(sums.kahan(first), first)


# --------------------------------------------------------------------------------------------------------- scaling


def test_scaler_is_pytorchs():
    torch = pytest.importorskip("torch")
    interval, scale, good = 3, 1024.0, 0
    theirs = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for step in range(12):
        loss = theirs.scale((weight * (float("inf") if step in (4, 5, 9) else 0.5)).sum())
        optimizer.zero_grad()
        loss.backward()
        grads = [weight.grad.numpy().astype(np.float16)]
        theirs.step(optimizer)
        theirs.update()
        _, scale, good = scaling.unscaled(grads, scale, good, interval)
        assert scale == theirs.get_scale() and good == theirs._get_growth_tracker()


def test_mistakes_of_unscaling_are_wrong_and_unlike():
    grads = scaling.gradients(rng())
    (first, *_), scale, _ = scaling.unscaled(grads, 1024.0, 1, 2)
    known = scaling.gradient_mistakes(0, grads, 1024.0, scale)
    arrays = [first, *known.values()]
    assert len(known) == 6 and all(a.shape == first.shape for a in arrays)
    unlike = [np.abs(a - b).max() > 1e-3 * np.abs(b).max() for i, a in enumerate(arrays) for b in arrays[:i]]
    assert sum(not u for u in unlike) <= 1  # the quotient in float16 may equal the product with 1 / scale


@pytest.mark.parametrize("spoil", [None, (1, np.inf)])
@pytest.mark.parametrize("good", [0, 1])
def test_numbers_are_explained_exactly_where_they_are_wrong(spoil, good):
    grads = scaling.gradients(rng(), spoil)
    _, scale, count = scaling.unscaled(grads, 1024.0, good, 2)
    assert scaling.explain_numbers(scale, count, grads, 1024.0, good, 2) is None
    for wrong in (scale * 2, scale / 2, 3.0):
        assert "scale" in scaling.explain_numbers(wrong, count, grads, 1024.0, good, 2)
    assert "good" in scaling.explain_numbers(scale, count + 1, grads, 1024.0, good, 2)


def test_large_gradients_are_finite_and_their_sums_are_not():
    grads = scaling.gradients(rng(), large=True)
    assert scaling.finite(grads) and max(g.max() for g in grads) == 65504
    with np.errstate(over="ignore"):
        assert np.isinf(grads[1].sum()) and np.isinf(grads[1].max() + grads[2].max())


# ------------------------------------------------------------------------------------------------------ eight bits


def test_usual_codes_are_ml_dtypes():
    x = (3e-4 * rng().standard_normal((5, 7))).astype(np.float32)
    codes, scale = eight_bits.usual(x)
    theirs = (x.astype(np.float64) / scale).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert np.array_equal(codes, theirs) and eight_bits.explain((codes, scale), x) is None
    assert 0.01 < eight_bits.error(codes, scale, x) < 0.04


def test_codes_that_are_not_nearest_are_refused():
    x = np.array([448, 1.0, -0.3, 0.01], np.float32)
    codes, scale = eight_bits.usual(x)
    for wrong, words in ((codes + 1, "NaN"), (codes ^ 0x80, "not those of the nearest"), (codes & 0x7F, "the sign")):
        assert words in eight_bits.explain((wrong.astype(np.uint8), scale), x)
    assert "positive" in eight_bits.explain((codes, -1.0), x) and "two things" in eight_bits.explain(codes, x)


def test_what_is_said_of_a_scale_rests_on_more_calls():
    """A scale that does not grow is said to, and a float16 is not named where two tries were mixed up."""
    x = np.float32([3e-31, -1e-30, 7e-32, 5e-31])

    def best(usual, x):
        errors = {s: eight_bits.error(eight_bits.codes_of(x / s), s, x) for s in usual * 2 ** (np.arange(16) / 16)}
        scale = min(errors, key=errors.get)
        return eight_bits.codes_of(x / scale), float(scale)

    right, with_more = (lambda x: best(np.abs(x).max() / 448, x)), (lambda x: best(np.abs(x).max() / 448 + 1e-9, x))
    assert scale_causes.good(right(x.astype(np.float64)), x) and not scale_causes.good(with_more(x), x)
    told = scale_causes.too_large(with_more, with_more(x)[1], x)
    assert "it should grow with the numbers" in told and "in float64" not in told
    told = scale_causes.too_large(lambda x: best(x.max() / 448 if x.max() > 0 else 1.0, x), 1.0, x)
    assert told.startswith("-x is quantised well")
    y = (3e-4 * rng().standard_normal(40)).astype(np.float32)
    codes, scale = eight_bits.usual(y)
    assert "right for another scale" in eight_bits.explain((codes, 1.3 * scale), y)
    close = eight_bits.codes_of((y / np.float64(scale)).astype(np.float16).astype(np.float64))
    assert "divided by" not in (eight_bits.explain((close, scale), y) or "")


def test_zeros_have_no_error():
    x = np.zeros((2, 3), np.float32)
    codes, scale = eight_bits.usual(x)
    assert scale == 1 and eight_bits.error(codes, scale, x) == 0 and eight_bits.explain((codes, scale), x) is None


def _error_at(x, factor):
    scale = np.abs(x).max() / 448 * factor
    return eight_bits.error(eight_bits.codes_of(x / scale), scale, x)


def test_real_tensors_are_real():
    tensors = eight_bits.real_tensors()
    assert len(tensors) == 4 and all(t.dtype == np.float32 and np.isfinite(t).all() for t in tensors.values())
    x = tensors["gradient of qkv"].astype(np.float64)
    least = {n: min(_error_at(x, 2 ** (k / n)) for k in range(n)) for n in (1, 16, 64)}
    assert least[16] == least[1] and 0.95 < least[64] / least[1] < 0.98  # what exercise 5 says about finer steps
    assert np.abs(tensors["gradient of the logits"].sum(axis=-1)).max() < 1e-6  # p - y adds up to 0


# ------------------------------------------------------------------------------------------------- steps and panel


def test_a_watched_backend_computes_what_it_did():
    seen, batch = [], Letters().next_batch()
    plain, watched = letter_model(), letter_model(After("numpy", gradient=lambda array: seen.append(array.shape)))
    for model in (plain, watched):
        model.forward(*batch, dloss=1.0)
        model.backward()
    assert np.array_equal(plain.grads_flat, watched.grads_flat) and len(seen) == 19
    assert seen[0] == (8, 16, plain.config.Vp)


def test_panel_takes_numbers_apart():
    pytest.importorskip("ipywidgets")
    from llmc.course.lessons.number_formats.panel import Panel

    panel = Panel(1.0, "bf16")
    assert panel.code == 0x3F80 and "= 1</b>" in panel.text.value and "0.00781 away" in panel.text.value
    panel.up.click()
    assert panel.code == 0x3F81
    panel.down.click()
    panel.down.click()
    assert panel.code == 0x3F7F
    panel.bits[0].value = True
    assert panel.code == 0xBF7F and panel.bits[0].description == "1"
    panel.choice.value = "e4m3"
    panel.field.value = "1e9"
    assert panel.code == 0x7F and "NaN" in panel.text.value
    panel.field.value = "one"
    assert "Type a number" in panel.text.value


def test_where_to_look_exists():
    cells = json.loads((ROOT / "notebooks" / "18_number_formats.ipynb").read_text(encoding="utf-8"))["cells"]
    headings = [line for c in cells if c["cell_type"] == "markdown" for line in "".join(c["source"]).splitlines()]
    places = {v for m in (rounding, sums, scaling, eight_bits) for k, v in vars(m).items() if k.isupper()}
    titles = [place.split('"')[1] for place in places if isinstance(place, str) and place.startswith("lesson 18")]
    assert len(titles) == 6
    for title in titles:
        assert any(line.lstrip("# ").startswith(title) for line in headings if line.startswith("#")), title


def test_a_difference_that_is_always_zero_is_found_in_the_text():
    def zero(a, b):
        new = a + b
        return_value = a - (new - (a + b))
        return return_value

    def not_zero(a, b):
        new = a + b
        a += b
        rest = new - (a + b)
        return rest

    assert "`new - (a + b)` is always 0" in text.always_zero(zero)
    assert text.always_zero(not_zero) is None


def test_two_names_matter_for_arrays_and_not_for_numbers():
    def kept(x):
        total = x[0] * 1
        before = total
        total += x[1]
        return before

    assert "`before` and `total` are one array" in text.one_under_two_names(kept, (np.ones((2, 3)),))
    assert text.one_under_two_names(kept, (np.ones(2),)) is None
