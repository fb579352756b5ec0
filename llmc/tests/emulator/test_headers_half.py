"""Half precision on the emulator: every conversion and rounding of __half and __nv_bfloat16, exactly."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from llmc.tests.emulator.words import run

HEAD = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
KINDS = {  # type, word in the names of functions, bits of exponent and mantissa, NumPy's type
    "half": ("__half", "half", 5, 10, np.float16),
    "bfloat16": ("__nv_bfloat16", "bfloat16", 8, 7, ml_dtypes.bfloat16),
}
KIND = pytest.mark.parametrize("kind", list(KINDS))


def value(bits, kind):
    """The exact number that 16 bits stand for (finite ones only)."""
    _, _, exponent_bits, mantissa_bits, _ = KINDS[kind]
    exponent, mantissa = bits >> mantissa_bits & ((1 << exponent_bits) - 1), bits & ((1 << mantissa_bits) - 1)
    scale = max(exponent, 1) - ((1 << (exponent_bits - 1)) - 1) - mantissa_bits
    return (-1 if bits >> 15 else 1) * Fraction(mantissa + (bool(exponent) << mantissa_bits)) * Fraction(2) ** scale


def nearest(exact, kind, mode="rn"):
    """The bits that an exact number other than 0 is rounded to, found by a search among all."""
    _, _, exponent_bits, mantissa_bits, _ = KINDS[kind]
    sign, infinite = 0x8000 if exact < 0 else 0, ((1 << exponent_bits) - 1) << mantissa_bits
    low, high, exact = 0, infinite, abs(exact)
    while high - low > 1:  # numbers grow with their bits; `infinite` is taken for the power of two that would follow
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle, kind) <= exact else (low, middle)
    if value(low, kind) == exact:
        return sign | low
    if mode == "rn":
        below, above = exact - value(low, kind), value(high, kind) - exact
        return sign | (low if below < above or (below == above and low % 2 == 0) else high)
    away = mode == ("rd" if sign else "ru")
    return sign | (high if away else low)


def sixteen(kind, n, seed=0):
    """n finite numbers as bits, with the special ones first."""
    _, _, exponent_bits, mantissa_bits, _ = KINDS[kind]
    infinite = ((1 << exponent_bits) - 1) << mantissa_bits
    rng = np.random.RandomState(seed)
    x = rng.randint(0, infinite, n)
    x[n // 2 :] = (rng.randint(-4, 5, n - n // 2) + (infinite >> mantissa_bits) // 2 << mantissa_bits) + rng.randint(
        0, 1 << mantissa_bits, n - n // 2
    )  # of sizes that matter to each other
    x[:6] = [0, 1, 2, (1 << mantissa_bits) - 1, 1 << mantissa_bits, infinite - 1]
    return (x | rng.randint(0, 2, n) << 15).astype(np.uint16)


@KIND
def test_every_number_becomes_a_float_and_comes_back(kind):
    t, word, _, _, dtype = KINDS[kind]
    bits, wide, back = np.arange(65536).astype(np.uint16), np.zeros(65536, np.float32), np.zeros(65536, np.uint16)
    run(f"""  {t} h = __ushort_as_{word}(bits[i]); wide[i] = __{word}2float(h);
        back[i] = __{word}_as_ushort(__float2{word}(wide[i]));""", threads=256, blocks=256, head=HEAD,
        bits=bits, wide=wide, back=back)  # fmt: skip
    expected = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(back, np.where(np.isnan(expected), 0x7FFF, bits))


def ties(kind):
    """Doubles at, just below and just above the middle between two neighbours, and everywhere else."""
    near = np.array([float(value(int(bits), kind)) for bits in sixteen(kind, 300)])
    after = np.array(
        [float(value(int(bits) + 1 if bits & 0x7FFF < 0x7BFF else int(bits), kind)) for bits in sixteen(kind, 300)]
    )
    middle = (near + after) / 2
    wild = np.random.RandomState(1).standard_normal(300) * 10.0 ** np.random.RandomState(2).randint(-45, 45, 300)
    return np.concatenate(
        [middle, np.nextafter(middle, 9e99), np.nextafter(middle, -9e99), wild, [65519.9, 65520.0, -65520.0]]
    )


@KIND
@pytest.mark.parametrize("mode", ["rn", "rd", "ru", "rz"])
def test_rounding_from_float_double_and_integers(kind, mode):
    t, word, *_ = KINDS[kind]
    wide = ties(kind)
    wide = wide[wide != 0][:1200]
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    single[~np.isfinite(single) | (single == 0)] = 1
    whole = np.random.RandomState(3).randint(-(2**62), 2**62, wide.size) >> np.random.RandomState(4).randint(
        0, 60, wide.size
    )
    whole[whole == 0] = 1
    from_double = f"__double2{word}(wide[i])" if mode == "rn" else f"__float2{word}_{mode}(single[i])"
    out = np.zeros((3, wide.size), np.uint16)
    run(f"""  if (i >= {wide.size}) return;
        out[i] = __{word}_as_ushort(__float2{word}_{mode}(single[i]));
        out[{wide.size} + i] = __{word}_as_ushort({from_double});
        out[{2 * wide.size} + i] = __{word}_as_ushort(__ll2{word}_{mode}(whole[i]));""", threads=256, blocks=5,
        head=HEAD, out=out, single=single, wide=wide, whole=whole)  # fmt: skip
    for got, x in zip(out, (single, wide if mode == "rn" else single, whole)):
        exact = [Fraction(int(v)) if x is whole else Fraction(float(v)) for v in x]
        assert got.tolist() == [nearest(v, kind, mode) for v in exact]


@KIND
def test_arithmetic_is_rounded_once(kind):
    t, word, *_ = KINDS[kind]
    n = 2048
    a, b, c = (sixteen(kind, n, seed) for seed in range(3))
    c[::5] = 0x0001  # far below the product: its sign decides when the product is a tie
    names = [
        "a + b",
        "a - b",
        "a * b",
        "a / b",
        "__hfma(a, b, c)",
        "hsqrt(__habs(a))",
        "-a",
        "__hmax(a, b)",
        "__hmul_sat(a, b)",
    ]
    out = np.zeros((len(names), n), np.uint16)
    body = f"  {t} a = __ushort_as_{word}(x[i]), b = __ushort_as_{word}(y[i]), c = __ushort_as_{word}(z[i]);\n"
    body += "".join(f"  out[{k * n} + i] = __{word}_as_ushort({name});\n" for k, name in enumerate(names))
    run(body, threads=256, blocks=n // 256, head=HEAD, x=a, y=b, z=c, out=out)
    x, y, z = ([value(int(v), kind) for v in bits] for bits in (a, b, c))
    exact = [
        [p + q for p, q in zip(x, y)], [p - q for p, q in zip(x, y)], [p * q for p, q in zip(x, y)],
        [p / q if q else None for p, q in zip(x, y)], [p * q + r for p, q, r in zip(x, y, z)],
    ]  # fmt: skip
    for name, got, wanted in zip(names, out, exact):
        for k in range(n):
            if wanted[k]:
                assert got[k] == nearest(wanted[k], kind), (name, float(x[k]), float(y[k]), float(z[k]))
    for k in range(n):
        assert out[5, k] == 0 if not x[k] else abs(value(int(out[5, k]), kind) ** 2 / abs(x[k]) - 1) < Fraction(1, 100)
        assert out[6, k] == a[k] ^ 0x8000
        assert value(int(out[7, k]), kind) == max(x[k], y[k])
        assert 0 <= value(int(out[8, k]), kind) <= 1


@KIND
def test_comparisons_know_nan(kind):
    t, word, *_ = KINDS[kind]
    tests = {
        "a == b": 0,
        "a != b": 1,
        "a < b": 0,
        "__heq(a, b)": 0,
        "__hne(a, b)": 0,
        "__hequ(a, b)": 1,
        "__hgtu(a, b)": 1,
    }
    tests |= {"__hisnan(a)": 1, "__hisinf(b)": 0, "b < c": 1, "b <= b": 1, "c > b": 1, "__hisinf(-d)": -1, "c >= d": 0}
    tests |= {
        "__hmax(a, b) == b": 1,
        "__hisnan(__hmax_nan(a, b))": 1,
        "bool(b)": 1,
        "(int)c": 2,
        "__hbne2(pair, pair)": 0,
    }
    tests |= {"__hbeq2(pair, pair)": 1, "__hble2(pair, pair)": 1, "int(__heq2_mask(pair, pair))": -1, "pair == pair": 1}
    out = np.zeros(len(tests), np.int32)
    body = f"  {t} a = __float2{word}(NAN), b = __float2{word}(1.0f), c = __float2{word}(2.0f), d = {t}(INFINITY);\n"
    body += f"  auto pair = __halves2{word}2(b, c);\n"
    run(body + "".join(f"  out[{k}] = {test};\n" for k, test in enumerate(tests)), threads=1, head=HEAD, out=out)
    assert out.tolist() == list(tests.values())


@KIND
@pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
def test_pairs_memory_shuffles_and_atomics(kind, check):
    t, word, _, _, dtype = KINDS[kind]
    pair = t + "2"
    x, out, total = np.arange(64).astype(dtype), np.zeros((10, 64), np.float32), np.zeros(2, dtype)
    run(f"""  {pair}* p = reinterpret_cast<{pair}*>(x);
        __shared__ {pair} kept[32];
        kept[i] = __hmul2(p[i], __float2{word}2_rn(2.0f));
        __syncthreads();
        float2 f = __{word}22float2(kept[i]);
        out[2 * i] = f.x; out[2 * i + 1] = f.y;
        {pair} q = __shfl_xor_sync(~0u, p[i], 1);
        out[64 + 2 * i] = __low2float(q); out[64 + 2 * i + 1] = __high2float(q);
        out[128 + i] = __{word}2float(__shfl_down_sync(~0u, q.x, 2));
        {pair} r = __hfma2(p[i], p[i], __floats2{word}2_rn(1.0f, 2.0f));
        out[192 + 2 * i] = r.x; out[192 + 2 * i + 1] = __high2{word}(r);
        {pair} s = __lows2{word}2(p[i], p[0]); s = __high2{word}2(__halves2{word}2(s.y, s.x));
        s += __{word}2{word}2(s.x);
        out[256 + 2 * i] = s.x; out[256 + 2 * i + 1] = s.y;
        out[320 + i] = (float)__ldg(x + i) + __{word}2int_rn(x[i]);
        out[320 + i] += (float)h2exp({pair}(0.0f, 0.0f)).y + float(hrsqrt({t}(4.0f)));
        atomicAdd(total, {t}(1.0f));
        atomicAdd(reinterpret_cast<{pair}*>(total), {pair}({t}(0.0f), {t}(2.0f)));""",
        check, head=HEAD, x=x, out=out, total=total)  # fmt: skip
    v = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(out[0], 2 * v)
    np.testing.assert_array_equal(out[1].reshape(32, 2), v.reshape(32, 2)[np.arange(32) ^ 1])
    np.testing.assert_array_equal(out[2, :30], out[1].reshape(32, 2)[2:, 0])
    np.testing.assert_array_equal(out[3], (v * v + np.tile([1, 2], 32)).astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(out[4], np.repeat(2 * v[::2], 2))
    np.testing.assert_array_equal(out[5, :32], 2 * v[:32] + 1.5)
    np.testing.assert_array_equal(total.astype(np.float32), [32, 64])
