"""Numbers on the emulator: CUDA's functions, roundings, conversions and bits, against Python's exact ones."""

import math
from fractions import Fraction

import numpy as np
import pytest

from llmc.tests.emulator.words import each


def draw(n, dtype=np.float32, seed=0):
    """n numbers of all sizes, and the ones that are special."""
    rng = np.random.RandomState(seed)
    x = rng.standard_normal(n) * 10.0 ** rng.randint(-6, 7, n)
    x[:8] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e9]
    return x.astype(dtype)


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


def test_fast_approximations_are_close():
    x = np.linspace(0.1, 3, 64).astype(np.float32)
    calls = {
        "__expf": np.exp,
        "__logf": np.log,
        "__log2f": np.log2,
        "__log10f": np.log10,
        "__sinf": np.sin,
        "__cosf": np.cos,
    }
    calls |= {"__tanf": np.tan, "__exp10f": lambda x: 10**x, "__frcp_rn": np.reciprocal, "__fsqrt_rn": np.sqrt}
    out = each([f"{name}(x[i])" for name in calls] + ["__powf(x[i], 1.5f)", "__fdividef(x[i], 3.0f)"], 64, x=x)
    x = x.astype(np.float64)
    for got, expected in zip(out, [*(f(x) for f in calls.values()), x**1.5, x / 3]):
        np.testing.assert_allclose(got, expected, 2e-6, 1e-6)


# ----------------------------------------------------------------------------------------------- rounding, exactly


def rounded(exact: Fraction, dtype, mode):
    """An exact number in a direction: the nearest (from NumPy), then a step if that is on the wrong side."""
    near = dtype(float(exact)) if dtype != np.float32 else nearest_float(exact)
    error = exact - Fraction(float(near))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode == "ru" and error > 0:
        return np.nextafter(near, dtype(np.inf))
    return np.nextafter(near, dtype(-np.inf)) if mode == "rd" and error < 0 else near


def nearest_float(exact):
    """The float nearest to a fraction: of the neighbours of a rounded double."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)] + [near]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


@pytest.mark.parametrize("kind", ["float", "double"])
def test_arithmetic_in_each_rounding_mode(kind):
    dtype, n = (np.float32, 128) if kind == "float" else (np.float64, 128)
    a, b, c = (draw(n, dtype, seed)[8:] for seed in (1, 2, 3))
    n -= 8
    modes = ["rn", "rd", "ru", "rz"]
    calls = [f"__{kind[0]}{name}_{mode}(a[i], b[i])" for name in OPERATIONS for mode in modes]
    calls += [f"__fma{'f' if kind == 'float' else ''}_{mode}(a[i], b[i], c[i])" for mode in modes]
    out = iter(each(calls, n, dtype=dtype, a=a, b=b, c=c))
    numbers = [[Fraction(float(v)) for v in x] for x in (a, b, c)]
    for name, f in [*OPERATIONS.items(), ("fma", None)]:
        exact = [f(x, y) if f else x * y + z for x, y, z in zip(*numbers)]
        for mode in modes:
            np.testing.assert_array_equal(next(out), [rounded(e, dtype, mode) for e in exact], f"{name} {mode}")


def test_conversions_to_integers_round_and_saturate():
    x = np.concatenate([draw(64), [np.inf, -np.inf, 3e9, -3e9, 1e30, -1e30, 1.5, -1.5]]).astype(np.float32)
    bounds = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "ll": (-(2**63), 2**63 - 1)}
    modes = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}
    for name, (low, high) in bounds.items():
        out = each([f"__float2{name}_{mode}(x[i])" for mode in modes], len(x), dtype=np.int64, x=x)
        for got, f in zip(out, modes.values()):
            expected = [high if v >= high else low if v <= low else int(v) for v in f(x.astype(np.float64))]
            assert got.tolist() == expected, name
    assert each(["__float2int_rn(NAN)", "__float2uint_rz(NAN)"], 1)[:, 0].tolist() == [0, 0]


def test_conversions_from_integers_round_as_asked():
    x = np.random.RandomState(0).randint(-(2**62), 2**62, 64)
    modes = ["rn", "rd", "ru", "rz"]
    out = each([f"__ll2float_{mode}(x[i])" for mode in modes], 64, x=x)
    for got, mode in zip(out, modes):
        np.testing.assert_array_equal(got, [rounded(Fraction(int(v)), np.float32, mode) for v in x], mode)
    y = draw(64, np.float64)
    out = each([f"__double2float_{mode}(y[i])" for mode in modes], 64, y=y)
    for got, mode in zip(out, modes):
        np.testing.assert_array_equal(got, [rounded(Fraction(float(v)), np.float32, mode) for v in y], mode)


def test_numbers_and_their_bits():
    expected = {
        "__float_as_int(1.0f)": 0x3F800000,
        "__float_as_uint(-0.0f)": 0x80000000,
        "(long long)__int_as_float(0x40000000)": 2,
        "__double_as_longlong(1.0)": 0x3FF0000000000000,
        "__double2hiint(-2.0)": -0x40000000,
        "__double2loint(1.0)": 0,
        "(long long)__hiloint2double(0x40080000, 0)": 3,
        "(long long)__uint_as_float(0x41200000u)": 10,
        "(long long)__longlong_as_double(0x4014000000000000ll)": 5,
    }
    assert each(expected, 1, dtype=np.int64)[:, 0].tolist() == list(expected.values())


# ----------------------------------------------------------------------------------------------------------- bits


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def byte_perm(x, y, s):
    both, out = (y << 32 | x).to_bytes(8, "little"), []
    for k in range(4):
        byte = both[s >> 4 * k & 7]
        out.append(byte if not s >> 4 * k & 8 else 255 if byte & 128 else 0)
    return int.from_bytes(bytes(out), "little")


def dot(x, y, z, sign):
    parts = [[int.from_bytes(bytes([b]), "little", signed=sign) for b in v.to_bytes(4, "little")] for v in (x, y)]
    return sum(a * b for a, b in zip(*parts)) + z


BITS = {  # of three unsigned numbers; all results as unsigned numbers of 32 bits
    "__popc(x[i])": lambda x, y, z: bin(x).count("1"),
    "__clz(x[i])": lambda x, y, z: 32 - x.bit_length(),
    "__ffs(x[i])": lambda x, y, z: (x & -x).bit_length(),
    "__brev(x[i])": lambda x, y, z: int(f"{x:032b}"[::-1], 2),
    "__byte_perm(x[i], y[i], z[i])": byte_perm,
    "__funnelshift_l(x[i], y[i], z[i])": lambda x, y, z: (y << 32 | x) << (z & 31) >> 32,
    "__funnelshift_r(x[i], y[i], z[i])": lambda x, y, z: (y << 32 | x) >> (z & 31),
    "__funnelshift_lc(x[i], y[i], z[i] % 64)": lambda x, y, z: (y << 32 | x) << min(z % 64, 32) >> 32,
    "__funnelshift_rc(x[i], y[i], z[i] % 64)": lambda x, y, z: (y << 32 | x) >> min(z % 64, 32),
    "__umulhi(x[i], y[i])": lambda x, y, z: x * y >> 32,
    "__mulhi(x[i], y[i])": lambda x, y, z: signed(x) * signed(y) >> 32,
    "__mul24(x[i], y[i])": lambda x, y, z: signed(x, 24) * signed(y, 24),
    "__umul24(x[i], y[i])": lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "__sad(x[i], y[i], z[i])": lambda x, y, z: abs(signed(x) - signed(y)) + z,
    "__usad(x[i], y[i], z[i])": lambda x, y, z: abs(x - y) + z,
    "__hadd((int)x[i], (int)y[i])": lambda x, y, z: (signed(x) + signed(y)) >> 1,
    "__urhadd(x[i], y[i])": lambda x, y, z: (x + y + 1) >> 1,
    "__dp4a(x[i], y[i], z[i])": lambda x, y, z: dot(x, y, z, False),
    "__dp4a((int)x[i], (int)y[i], (int)z[i])": lambda x, y, z: dot(x, y, z, True),
    "__brevll((unsigned long long)x[i] << 32 | y[i])": lambda x, y, z: int(f"{x:032b}"[::-1], 2),
    "__popcll((unsigned long long)x[i] << 32 | y[i])": lambda x, y, z: bin(x << 32 | y).count("1"),
    "__umul64hi((unsigned long long)x[i] << 32, (unsigned long long)y[i] << 32)": lambda x, y, z: x * y,
}


def test_bit_intrinsics():
    x, y, z = (np.random.RandomState(seed).randint(0, 2**32, 64, dtype=np.uint32) for seed in range(3))
    x[:4] = [0, 1, 2**32 - 1, 2**31]
    out = each(BITS, 64, dtype=np.uint32, x=x, y=y, z=z)
    for got, (name, f) in zip(out, BITS.items()):
        assert got.tolist() == [f(int(a), int(b), int(c)) % 2**32 for a, b, c in zip(x, y, z)], name


def wraps(x, low, high):
    return x


IN_WORDS = {  # of the numbers a and b in two words: (signed, what becomes of a result that does not fit)
    "__vadd": (False, wraps, np.add),
    "__vsub": (False, wraps, np.subtract),
    "__vaddss": (True, np.clip, np.add),
    "__vsubss": (True, np.clip, np.subtract),
    "__vaddus": (False, np.clip, np.add),
    "__vsubus": (False, np.clip, np.subtract),
    "__vmaxs": (True, wraps, np.maximum),
    "__vmaxu": (False, wraps, np.maximum),
    "__vmins": (True, wraps, np.minimum),
    "__vminu": (False, wraps, np.minimum),
    "__vabsdiffs": (True, wraps, lambda a, b: abs(a - b)),
    "__vabsdiffu": (False, wraps, lambda a, b: abs(a - b)),
    "__vavgs": (True, wraps, lambda a, b: np.where(a + b < 0, (a + b) >> 1, (a + b + 1) >> 1)),
    "__vavgu": (False, wraps, lambda a, b: (a + b + 1) >> 1),
    "__vhaddu": (False, wraps, lambda a, b: (a + b) >> 1),
    "__vcmpeq": (False, wraps, lambda a, b: -(a == b).astype(int)),
    "__vcmpges": (True, wraps, lambda a, b: -(a >= b).astype(int)),
    "__vcmpgtu": (False, wraps, lambda a, b: -(a > b).astype(int)),
    "__vsetne": (False, wraps, lambda a, b: a != b),
    "__vsetles": (True, wraps, lambda a, b: a <= b),
    "__vsetltu": (False, wraps, lambda a, b: a < b),
    "__vneg": (True, wraps, lambda a, b: -a),
    "__vnegss": (True, np.clip, lambda a, b: -a),
    "__vabs": (True, wraps, lambda a, b: abs(a)),
    "__vabsss": (True, np.clip, lambda a, b: abs(a)),
}


@pytest.mark.parametrize(("parts", "bits"), [(2, 16), (4, 8)])
def test_several_numbers_in_a_word(parts, bits):
    x, y = (np.random.RandomState(seed).randint(0, 2**32, 64, dtype=np.uint32) for seed in range(2))
    x[:4], y[:2] = [0x80008000, 0x80808080, 0x7FFF7F7F, 0], x[:2]
    of_one = ("__vneg", "__vnegss", "__vabs", "__vabsss")
    calls = [f"{name}{parts}(x[i]{'' if name in of_one else ', y[i]'})" for name in IN_WORDS]
    sums = [f"__vsad{sign}{parts}(x[i], y[i])" for sign in "su"]
    out = each([*calls, *sums], 64, dtype=np.uint32, x=x, y=y)
    kinds = {True: np.dtype(f"i{bits // 8}"), False: np.dtype(f"u{bits // 8}")}
    for got, (name, (sign, fits, f)) in zip(out, IN_WORDS.items()):
        a, b = (word.view(kinds[sign]).astype(int) for word in (x, y))
        info = np.iinfo(kinds[sign])
        expected = fits(f(a, b), info.min, info.max).astype(kinds[False]).view(np.uint32)
        np.testing.assert_array_equal(got, expected, name)
    for got, sign in zip(out[len(IN_WORDS) :], (True, False)):
        a, b = (word.view(kinds[sign]).astype(int) for word in (x, y))
        np.testing.assert_array_equal(got, abs(a - b).reshape(64, parts).sum(1))
