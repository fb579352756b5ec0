"""CUDA's mathematical functions on the emulator, against Python's; operations.json has the others."""

import math

import numpy as np
import pytest

from llmc.tests.emulator.words import each

# ------------------------------------------------------------------------------------------- mathematical functions


def normcdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


ONE = {  # name: (its value in double, lowest and highest argument)
    **{
        name: (getattr(math, name), -0.99, 0.99)
        for name in "acos asin atan atanh sin cos tan tanh sinh cosh erf erfc".split()
    },
    **{name: (getattr(math, name), -5, 5) for name in "asinh exp expm1 floor ceil trunc fabs".split()},
    **{name: (getattr(math, name), 0.1, 50) for name in "log log2 log10 log1p sqrt lgamma".split()},
    "tgamma": (math.gamma, 0.1, 10),
    "acosh": (math.acosh, 1, 9),
    "exp2": (lambda x: 2.0**x, -5, 5),
    "exp10": (lambda x: 10.0**x, -5, 5),
    "cbrt": (np.cbrt, -50, 50),
    "rcbrt": (lambda x: 1 / np.cbrt(x), 1, 50),
    "rsqrt": (lambda x: x**-0.5, 0.01, 50),
    "rint": (np.rint, -9, 9),
    "nearbyint": (np.rint, -9, 9),
    "round": (lambda x: math.copysign(math.floor(abs(x) + 0.5), x), -9, 9),
    "logb": (lambda x: math.floor(math.log2(x)), 1.1, 50),
    "sinpi": (lambda x: math.sin(math.pi * x), 0.1, 0.9),
    "cospi": (lambda x: math.cos(math.pi * x), 0.6, 1.4),
    "normcdf": (normcdf, -4, 4),
    "j0": (lambda x: sum((-0.25 * x * x) ** k / math.factorial(k) ** 2 for k in range(40)), 0.1, 2),
    "cyl_bessel_i0": (np.i0, -9, 9),
    "erfcx": (lambda x: math.exp(x * x) * math.erfc(x), -2, 5),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float", "double"])
def test_functions_of_one_number(dtype):
    n, single = 64, dtype == np.float32
    x = np.array([np.linspace(low, high, n) for _, low, high in ONE.values()]).astype(dtype)  # (functions, n)
    calls = [f"{name}{'f' if single else ''}(x[{k * n} + i])" for k, name in enumerate(ONE)]
    overloads = [f"{name}(x[{k * n} + i])" for k, name in enumerate(ONE)]
    out = each(calls + overloads, n, dtype=dtype, x=x)
    for k, (name, (f, _, _)) in enumerate(ONE.items()):
        expected = np.array([f(float(v)) for v in x[k]])
        np.testing.assert_allclose(out[k], expected, 4e-6 if single else 2e-14, 1e-7 if single else 1e-15, err_msg=name)
        np.testing.assert_array_equal(out[len(ONE) + k], out[k], name)


TWO = {
    **{
        "atan2": math.atan2,
        "fmod": math.fmod,
        "hypot": math.hypot,
        "pow": lambda x, y: abs(x) ** y,
        "copysign": math.copysign,
    },
    **{"fmax": max, "fmin": min, "fdim": lambda x, y: max(x - y, 0), "remainder": math.remainder},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float", "double"])
def test_functions_of_two_numbers(dtype):
    x, y = (np.random.RandomState(seed).uniform(-3, 3, 64).astype(dtype) for seed in (0, 1))
    arguments = {"pow": "fabs(x[i]), y[i]"}
    calls = [f"{name}({arguments.get(name, 'x[i], y[i]')})" for name in TWO]
    out = each(calls, 64, dtype=dtype, x=x, y=y)
    for k, (name, f) in enumerate(TWO.items()):
        expected = [f(float(a), float(b)) for a, b in zip(x, y)]
        np.testing.assert_allclose(out[k], expected, 2e-6 if dtype == np.float32 else 1e-14, 1e-6, err_msg=name)


def test_inverse_functions_undo_the_others():
    x = np.concatenate([np.linspace(-0.999999, 0.999999, 61), [0.3, 1e-9, -1e-12]])
    undone = ["erf(erfinv(x[i]))", "erfc(erfcinv(1 + x[i])) - 1", "2 * normcdf(normcdfinv((1 + x[i]) / 2)) - 1"]
    for got in each(undone, 64, dtype=np.float64, x=x):
        np.testing.assert_allclose(got, x, 1e-13, 1e-15)
    small = np.logspace(-300, -1, 64)
    got = each(
        ["erfc(erfcinv(x[i]))", "normcdf(normcdfinv(x[i]))", "erfinv(x[i]) / x[i]"], 64, dtype=np.float64, x=small
    )
    np.testing.assert_allclose(got[0], small, 1e-11)
    np.testing.assert_allclose(got[1], small, 1e-11)
    np.testing.assert_allclose(got[2][:40], math.sqrt(math.pi) / 2, 1e-13)
    edges = each(["erfinv(1.0f)", "erfinvf(-1.0f)", "erfcinvf(0.0f)", "normcdfinvf(0.0f)", "erfinvf(2.0f)"], 1)[:, 0]
    np.testing.assert_array_equal(edges, [math.inf, -math.inf, math.inf, -math.inf, math.nan])


def test_minima_signs_and_kinds():
    expected = {
        **{"min(3, -4)": -4, "max(3u, 4)": 4, "max(-1, 0u)": 2**32 - 1, "min(2.5f, 1.5)": 1.5, "max(1ull, 2ll)": 2},
        **{"fmaxf(NAN, 1.0f)": 1, "fminf(1.0f, NAN)": 1, "max(NAN, -1.0f)": -1, "fmax(2.0, NAN)": 2, "abs(-3)": 3},
        **{
            "abs(-2.5f)": 2.5,
            "abs(-3ll)": 3,
            "isnan(NAN)": 1,
            "isnan(INFINITY)": 0,
            "isinf(-INFINITY)": 1,
            "isfinite(1.0)": 1,
        },
        **{
            "signbit(-0.0f)": 1,
            "std::min(3, 4)": 3,
            "std::max(2.0f, 1.0f)": 2,
            "std::abs(-2.0f)": 2,
            "std::sqrt(4.0f)": 2,
        },
        **{"sqrt(16)": 4, "pow(2.0f, 10)": 1024, "fma(2.0f, 3.0f, 4.0f)": 10, "ldexp(1.5f, 3)": 12, "lroundf(2.5f)": 3},
        **{
            "lrintf(2.5f)": 2,
            "sizeof(exp(1.0f))": 4,
            "sizeof(max(1.0f, 1.0f))": 4,
            "norm3df(1, 2, 2)": 3,
            "rhypotf(3, 4)": 0.2,
        },
        **{"unit(2.0f)": 1, "__saturatef(NAN)": 0, "sinpif(1.0f)": 0, "cospif(0.5f)": 0, "std::isnan(0.0f)": 0},
    }
    head = "__device__ float unit(float x) { float s, c; sincosf(x, &s, &c); return __saturatef(x * (s * s + c * c)); }"
    got = each(expected, 1, dtype=np.float64, head=head)[:, 0]
    np.testing.assert_allclose(got, list(expected.values()), 1e-6)
