"""Lesson 18's formats against ml_dtypes, what its exercises try and how they judge, its panel."""

import ml_dtypes
import numpy as np
import pytest

from llmc.course.lessons.number_formats import exercises, sums
from llmc.course.lessons.number_formats.formats import FORMATS, decode, encode, rounded

DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}
DTYPES |= {"e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", DTYPES)
def test_every_pattern_is_read_written_and_rounded_as_ml_dtypes_does(name):
    f, dtype, rng = FORMATS[name], DTYPES[name], np.random.default_rng(7)
    codes = np.arange(1 << f.bits) if f.bits <= 16 else rng.integers(0, 1 << 32, 60_000)
    values = codes.astype(f"u{f.bits // 8}").view(dtype).astype(np.float64)
    mine, number = decode(codes, f), ~np.isnan(values)
    np.testing.assert_array_equal(mine, values)
    assert np.array_equal(np.signbit(mine), np.signbit(values))
    assert np.array_equal(encode(values[number], f), codes[number])
    finite = np.sort(values[np.isfinite(values)])
    with np.errstate(all="ignore"):  # any bits, and ties
        x = np.r_[rng.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32), (finite[1:] + finite[:-1]) / 2]
        x = x.astype(np.float32)
        np.testing.assert_array_equal(rounded(x, f), x.astype(dtype).astype(np.float64))


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_the_lesson_miss_the_bound_of_the_exercise(seed):
    check, ways = type("check", (), {"rng": np.random.default_rng(seed)}), (sums.kahan, sums.plain, sums.pairwise)
    for x in [x for x in exercises.columns(check) if len(x) > 100]:
        far = [(np.abs(f(x).astype(np.float64) - sums.exact(x)) > exercises.allowed(x)).any() for f in ways]
        assert far == [True, True, True] or x.dtype == np.float16 and far == [False, True, True]


def test_scaler_is_pytorchs():
    torch = pytest.importorskip("torch")
    scale, good = 1024.0, 0
    theirs = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for step in range(12):
        optimizer.zero_grad()
        theirs.scale((weight * (float("inf") if step in (4, 5, 9) else 0.5)).sum()).backward()
        _, scale, good = exercises.unscaled([weight.grad.numpy().astype(np.float16)], scale, good, 3, np.inf)
        theirs.step(optimizer)
        theirs.update()
        assert scale == theirs.get_scale() and good == theirs._get_growth_tracker()


def test_panel_takes_numbers_apart():
    pytest.importorskip("ipywidgets")
    from llmc.course.lessons.number_formats.panel import Panel

    panel = Panel(1.0, "bf16")
    assert panel.code == 0x3F80 and "= 1</b>" in panel.text.value and "0.00781 away" in panel.text.value
    panel.down.click()
    panel.bits[0].value = True
    assert panel.code == 0xBF7F and panel.bits[0].description == "1"
    panel.choice.value, panel.field.value = "e4m3", "1e9"
    assert panel.code == 0x7F and "NaN" in panel.text.value
