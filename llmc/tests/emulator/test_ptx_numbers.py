"""Inline PTX that computes: every form against a NumPy formula, on awkward numbers."""

import ml_dtypes
import numpy as np
import pytest

from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
BF16 = ml_dtypes.bfloat16
N = 64
U32, S32, U64, S64, U16, F16, F32, F64 = (
    *(np.uint32, np.int32, np.uint64, np.int64),
    *(np.uint16, np.float16, np.float32, np.float64),
)
LETTERS = {"r": (U32, "unsigned"), "l": (U64, "unsigned long long"), "h": (U16, "unsigned short")}
LETTERS |= {"f": (F32, "float"), "d": (F64, "double")}


def words(letter, seed):
    """(N,) of the letter's type: random, with the extremes."""
    rng, dtype = np.random.RandomState(seed), LETTERS[letter][0]
    if letter in "fd":
        x = (rng.standard_normal(N) * 3).astype(dtype)
        x[:6] = np.roll([0.5, -1.5, 2.5, 1e-3, 7.0, -0.0], seed)
        return x
    bits = np.iinfo(dtype).bits
    x = rng.randint(0, 256, (N, bits // 8)).astype(np.uint8).view(dtype)[:, 0]
    x[:4] = np.roll(np.array([0, 1, (1 << bits) - 1, 1 << (bits - 1)], dtype), seed)
    return x


def signed(x):
    return x.view(x.dtype.name.lstrip("u"))


def halves(x, dtype=F16):
    """(N, 2): a word as two 16-bit floats; (N,) for a word of 16 bits."""
    return x.view(dtype).reshape(-1, 2) if x.itemsize == 4 else x.view(dtype)


def big(x):
    """As Python's integers, which do not overflow."""
    return x.astype(object)


def of_bits(function):
    """Bit by bit: function(bits of a, bits of b, …) -> bits, for words of 32 bits."""

    def whole(*words):
        bits = [(x[:, None] >> np.arange(32, dtype=U32)) & 1 for x in words]
        return (function(*bits).astype(U64) << np.arange(32, dtype=U64)).sum(1)

    return whole


def lookup(a, b, c, table=0xE8):
    return table >> (a * 4 + b * 2 + c).astype(int) & 1


def permuted(a, b, selector):
    both = [int(low) | int(high) << 32 for low, high in zip(a, b)]
    pick = [[int(s) >> 4 * k & 15 for k in range(4)] for s in selector]
    byte = [[(x >> 8 * (p & 7) & 255) if p < 8 else 255 * (x >> 8 * (p & 7) + 7 & 1) for p in row]
            for x, row in zip(both, pick)]  # fmt: skip
    return np.array(byte, np.uint8).view(U32)[:, 0]


def field(a, start, length, bits, is_signed):
    """bfe, as PTX defines it."""
    out = []
    for x, s, n in zip(map(int, a), start & 255, length & 255):
        last = min(int(s) + int(n) - 1, bits - 1)
        sign = (x >> last & 1) if is_signed and n else 0
        out.append(sum((x >> i + int(s) & 1 if i < n and i + s < bits else sign) << i for i in range(bits)))
    return np.array(out, object)


def inserted(a, b, start, length, bits=32):
    out = []
    for x, y, s, n in zip(map(int, a), map(int, b), start & 255, length & 255):
        for i in range(int(n)):
            if i + int(s) < bits:
                y = y & ~(1 << i + int(s)) | (x >> i & 1) << i + int(s)
        out.append(y)
    return np.array(out, object)


def shifted(a, n, left=True, bits=32):
    n = big(n)
    return np.array([0 if k >= bits else (int(x) << k if left else int(x) >> k) for x, k in zip(a, n)], object)


def arithmetic_shift(a, n):
    return signed(a).astype(S64) >> np.minimum(n, 31).astype(S64)


def clamped(x, low, high):
    return np.where(np.isnan(x), 0, np.clip(np.nan_to_num(x), low, high))


ROWS = {  # instruction: (result, operands, formula). %0 is the result.
    "add.u32 %0, %1, %2;": ("r", "rr", lambda a, b: a + b),
    "add.s32 %0, %1, -5;": ("r", "r", lambda a: a - U32(5)),
    "add.u64 %0, %1, %2;": ("l", "ll", lambda a, b: a + b),
    "sub.s32 %0, %1, %2;": ("r", "rr", lambda a, b: a - b),
    "add.u16 %0, %1, %2;": ("h", "hh", lambda a, b: a + b),
    "mul.lo.s32 %0, %1, %2;": ("r", "rr", lambda a, b: a * b),
    "mul.hi.u32 %0, %1, %2;": ("r", "rr", lambda a, b: big(a) * big(b) >> 32),
    "mul.hi.s32 %0, %1, %2;": ("r", "rr", lambda a, b: big(signed(a)) * big(signed(b)) >> 32),
    "mul.wide.u32 %0, %1, %2;": ("l", "rr", lambda a, b: big(a) * big(b)),
    "mul.wide.s32 %0, %1, 8;": ("l", "r", lambda a: big(signed(a)) * 8),
    "mad.lo.s32 %0, %1, %2, %3;": ("r", "rrr", lambda a, b, c: a * b + c),
    "mad.wide.u32 %0, %1, 3, %2;": ("l", "rl", lambda a, c: big(a) * 3 + big(c)),
    "div.u32 %0, %1, 7;": ("r", "r", lambda a: a // 7),
    "rem.s32 %0, %1, 7;": ("r", "r", lambda a: np.fmod(signed(a), 7)),
    "neg.s32 %0, %1;": ("r", "r", lambda a: U32(0) - a),
    "min.s32 %0, %1, %2;": ("r", "rr", lambda a, b: np.minimum(signed(a), signed(b))),
    "max.u32 %0, %1, %2;": ("r", "rr", np.maximum),
    "and.b32 %0, %1, %2;": ("r", "rr", np.bitwise_and),
    "or.b64 %0, %1, %2;": ("l", "ll", np.bitwise_or),
    "xor.b32 %0, %1, 0x55;": ("r", "r", lambda a: a ^ U32(0x55)),
    "not.b32 %0, %1;": ("r", "r", np.invert),
    "{ .reg .u32 n; and.b32 n, %2, 63; shl.b32 %0, %1, n; }": ("r", "rr", lambda a, n: shifted(a, n & 63)),
    "{ .reg .u32 n; and.b32 n, %2, 63; shr.u32 %0, %1, n; }": ("r", "rr", lambda a, n: shifted(a, n & 63, False)),
    "{ .reg .u32 n; and.b32 n, %2, 63; shr.s32 %0, %1, n; }": ("r", "rr", lambda a, n: arithmetic_shift(a, n & 63)),
    "shf.l.wrap.b32 %0, %1, %2, 9;": ("r", "rr", lambda a, b: (big(b) << 32 | big(a)) << 9 >> 32),
    "shf.r.clamp.b32 %0, %1, %2, 9;": ("r", "rr", lambda a, b: (big(b) << 32 | big(a)) >> 9),
    "lop3.b32 %0, %1, %2, %3, 0xe8;": ("r", "rrr", of_bits(lookup)),
    "lop3.b32 %0, %1, %2, %3, 0x96;": ("r", "rrr", lambda a, b, c: a ^ b ^ c),
    "prmt.b32 %0, %1, %2, %3;": ("r", "rrr", permuted),
    "prmt.b32 %0, %1, %2, 0x5410;": ("r", "rr", lambda a, b: a & U32(0xFFFF) | b << U32(16)),
    "bfe.u32 %0, %1, %2, %3;": ("r", "rrr", lambda a, s, n: field(a, s, n, 32, False)),
    "bfe.s32 %0, %1, %2, %3;": ("r", "rrr", lambda a, s, n: field(a, s, n, 32, True)),
    "bfe.s32 %0, %1, 5, 9;": ("r", "r", lambda a: field(a, np.full(N, 5), np.full(N, 9), 32, True)),
    "bfe.u64 %0, %1, 30, 40;": ("l", "l", lambda a: big(a) >> 30),
    "bfi.b32 %0, %1, %2, 7, 13;": ("r", "rr", lambda a, b: inserted(a, b, np.full(N, 7), np.full(N, 13))),
    "bfi.b32 %0, %1, %2, %3, 40;": ("r", "rrr", lambda a, b, s: inserted(a, b, s, np.full(N, 40))),
    "popc.b32 %0, %1;": ("r", "r", lambda a: [bin(x).count("1") for x in a]),
    "clz.b32 %0, %1;": ("r", "r", lambda a: [32 - int(x).bit_length() for x in a]),
    "clz.b64 %0, %1;": ("r", "l", lambda a: [64 - int(x).bit_length() for x in a]),
    "brev.b32 %0, %1;": ("r", "r", lambda a: [int(f"{x:032b}"[::-1], 2) for x in a]),
    "sad.u32 %0, %1, %2, %3;": ("r", "rrr", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
    "{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, %1, %2, p; }": (
        *("r", "rr", lambda a, b: np.minimum(signed(a), signed(b))),
    ),
    "{ .reg .pred p<2>; setp.ge.u32 p0, %1, %2; not.pred p1, p0; mov.u32 %0, 1; @p1 mov.u32 %0, 2; }": (
        *("r", "rr", lambda a, b: np.where(a >= b, 1, 2)),
    ),
    "{ .reg .pred p; setp.gtu.f32 p, %1, 0f7FC00000; selp.f32 %0, %1, 0f40000000, p; }": ("f", "f", lambda a: a),
    "mov.b64 %0, {%1, %2};": ("l", "rr", lambda a, b: big(b) << 32 | big(a)),
    "{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %1; add.u32 %0, lo, hi; }": (
        "r",
        "l",
        lambda a: (a & U64(2**32 - 1)) + (a >> U64(32)),
    ),
    "mov.b32 %0, {%1, %2};": ("r", "hh", lambda a, b: big(b) << 16 | big(a)),
    "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }": (
        "r",
        "r",
        lambda a: a << U32(16) | a >> U32(16),
    ),
    "mov.b32 %0, %1;": ("r", "f", lambda a: a.view(U32)),
    "add.f32 %0, %1, %2;": ("f", "ff", np.add),
    "sub.ftz.f32 %0, %1, 1.5;": ("f", "f", lambda a: a - F32(1.5)),
    "mul.rn.f32 %0, %1, 0fC0000000;": ("f", "f", lambda a: a * F32(-2)),
    "fma.rn.f32 %0, %1, %2, %3;": ("f", "fff", lambda a, b, c: a.astype(F64) * b + c),
    "fma.rn.f64 %0, %1, %2, %3;": ("d", "ddd", lambda a, b, c: a * b + c),
    "div.rn.f32 %0, %1, 3.0;": ("f", "f", lambda a: a / F32(3)),
    "div.full.f32 %0, 1.0, %1;": ("f", "f", lambda a: F32(1) / a),
    "max.f32 %0, %1, %2;": ("f", "ff", np.fmax),
    "abs.f32 %0, %1;": ("f", "f", np.abs),
    "neg.f32 %0, %1;": ("f", "f", np.negative),
    "copysign.f32 %0, %1, %2;": ("f", "ff", lambda a, b: np.copysign(b, a)),
    "ex2.approx.ftz.f32 %0, %1;": ("f", "f", np.exp2),
    "lg2.approx.f32 %0, %1;": ("f", "f", np.log2),
    "rcp.approx.ftz.f32 %0, %1;": ("f", "f", lambda a: F32(1) / a),
    "sqrt.rn.f32 %0, %1;": ("f", "f", np.sqrt),
    "rsqrt.approx.f32 %0, %1;": ("f", "f", lambda a: 1 / np.sqrt(a)),
    "sin.approx.f32 %0, %1;": ("f", "f", np.sin),
    "cos.approx.f32 %0, %1;": ("f", "f", np.cos),
    "tanh.approx.f32 %0, %1;": ("f", "f", np.tanh),
}
HALF = {  # of two numbers in 32 bits, or of one in 16
    "add.f16x2 %0, %1, %2;": ("r", "rr", F16, lambda a, b, *_: a + b),
    "sub.f16 %0, %1, %2;": ("h", "hh", F16, lambda a, b, *_: a - b),
    "mul.bf16x2 %0, %1, %2;": ("r", "rr", BF16, lambda a, b, *_: a * b),
    "fma.rn.f16x2 %0, %1, %2, %3;": ("r", "rrr", F16, lambda a, b, c: a.astype(F64) * b + c),
    "fma.rn.bf16x2 %0, %1, %2, %3;": ("r", "rrr", BF16, lambda a, b, c: a.astype(F64) * b + c.astype(F64)),
    "max.f16x2 %0, %1, %2;": ("r", "rr", F16, lambda a, b, *_: np.fmax(a, b)),
    "neg.f16x2 %0, %1;": ("r", "r", F16, lambda a, *_: -a),
    "abs.bf16x2 %0, %1;": ("r", "r", BF16, lambda a, *_: np.abs(a)),
    "ex2.approx.f16x2 %0, %1;": ("r", "r", F16, lambda a, *_: np.exp2(a.astype(F32))),
    "tanh.approx.f16x2 %0, %1;": ("r", "r", F16, lambda a, *_: np.tanh(a.astype(F32))),
}
CVT = {  # instruction: (result, operand, formula)
    "cvt.rn.f32.s32 %0, %1;": ("f", "r", lambda a: signed(a).astype(F32)),
    "cvt.rz.f32.u32 %0, %1;": ("f", "r", lambda a: np.where((f := a.astype(F32)) > a, np.nextafter(f, F32(0)), f)),
    "cvt.rzi.s32.f32 %0, %1;": ("r", "f", lambda a: np.trunc(a)),
    "cvt.rni.s32.f32 %0, %1;": ("r", "f", lambda a: np.rint(a)),
    "cvt.rmi.s32.f32 %0, %1;": ("r", "f", lambda a: np.floor(a)),
    "cvt.rpi.f32.f32 %0, %1;": ("f", "f", lambda a: np.ceil(a)),
    "cvt.rzi.u32.f32 %0, %1;": ("r", "f", lambda a: np.maximum(np.trunc(a), 0)),
    "cvt.u32.u64 %0, %1;": ("r", "l", lambda a: a & U64(2**32 - 1)),
    "cvt.u64.u32 %0, %1;": ("l", "r", lambda a: a),
    "cvt.s64.s32 %0, %1;": ("l", "r", lambda a: signed(a).astype(S64)),
    "cvt.u32.u8 %0, %1;": ("r", "r", lambda a: a & U32(255)),
    "cvt.s32.s8 %0, %1;": ("r", "r", lambda a: (a & U32(255)).astype(np.uint8).view(np.int8).astype(S64)),
    "cvt.s32.s16 %0, %1;": ("r", "h", lambda a: signed(a).astype(S64)),
    "cvt.sat.u8.s32 %0, %1;": ("r", "r", lambda a: np.clip(signed(a), 0, 255)),
    "cvt.f64.f32 %0, %1;": ("d", "f", lambda a: a.astype(F64)),
    "cvt.rn.f32.f64 %0, %1;": ("f", "d", lambda a: a.astype(F32)),
    "cvt.sat.f32.f32 %0, %1;": ("f", "f", lambda a: np.clip(a, 0, 1)),
    "cvt.rn.f16.f32 %0, %1;": ("h", "f", lambda a: a.astype(F16).view(U16)),
    "cvt.rn.bf16.f32 %0, %1;": ("h", "f", lambda a: a.astype(BF16).view(U16)),
    "{ .reg .b16 t; cvt.rn.f16.f32 t, %1; cvt.f32.f16 %0, t; }": ("f", "f", lambda a: a.astype(F16).astype(F32)),
    "{ .reg .b16 t; cvt.rn.bf16.f32 t, %1; cvt.f32.bf16 %0, t; }": ("f", "f", lambda a: a.astype(BF16).astype(F32)),
    "cvt.rn.f16x2.f32 %0, %1, 1.0;": ("r", "f", lambda a: big(a.astype(F16).view(U16)) << 16 | 0x3C00),
    "cvt.rn.relu.bf16x2.f32 %0, 1.0, %1;": (
        *("r", "f", lambda a: big(np.maximum(a, F32(0)).astype(BF16).view(U16)) & 0x7FFF | 0x3F80 << 16),
    ),
    "cvt.rna.tf32.f32 %0, %1;": ("r", "f", lambda a: (a.view(U32) + U32(0x1000)) & U32(0xFFFFE000)),
}


def computed(rows, check):
    """{instruction: (N,) array of its results}."""
    letters = {letter: [words(letter, seed) for seed in range(3)] for letter in LETTERS}
    body, outs = [], {letter: [] for letter in LETTERS}
    for text, (result, operands, *_) in rows.items():
        inputs = ", ".join(f'"{each}"({each}{k}[i])' for k, each in enumerate(operands))
        body.append(f'  {{ {LETTERS[result][1]} y; asm volatile("{text}" : "={result}"(y) : {inputs});')
        body.append(f"    y_{result}[{N * len(outs[result])} + i] = y; }}")
        outs[result].append(text)
    arrays = {f"{letter}{k}": x.copy() for letter, three in letters.items() for k, x in enumerate(three)}
    arrays |= {f"y_{letter}": np.zeros(N * len(texts) + 1, LETTERS[letter][0]) for letter, texts in outs.items()}
    run("\n".join(body), check, N, **arrays)
    return {
        text: arrays[f"y_{letter}"][N * k : N * (k + 1)]
        for letter, texts in outs.items()
        for k, text in enumerate(texts)
    }


def operands_of(row):
    return [words(letter, k) for k, letter in enumerate(row[1])]


def same_bits(got, expected):
    size = 8 * got.itemsize
    np.testing.assert_array_equal(big(got), np.array([int(x) % (1 << size) for x in expected], object))


@CHECKED
@pytest.mark.parametrize("rows", [ROWS, CVT], ids=["arithmetic", "cvt"])
def test_every_instruction_agrees_with_numpy(rows, check):
    for text, got in computed(rows, check).items():
        result, _, formula = rows[text]
        with np.errstate(all="ignore"):
            expected = formula(*operands_of(rows[text]))
        if result in "fd":
            rtol = 3e-6 if "approx" in text or "fma" in text else 0
            np.testing.assert_allclose(got, np.asarray(expected).astype(got.dtype), rtol=rtol, err_msg=text)
        else:
            same_bits(got, expected)


@CHECKED
def test_arithmetic_of_16_bits(check):
    for text, got in computed(HALF, check).items():
        _, operands, dtype, formula = HALF[text]
        with np.errstate(all="ignore"):
            expected = np.asarray(formula(*[halves(x, dtype) for x in operands_of(HALF[text])])).astype(dtype)
        rtol = 2**-7 if "fma.rn.bf16" in text else 0  # NumPy rounds twice there; test_headers_half.py is exact
        np.testing.assert_allclose(halves(got, dtype).astype(F32), expected.astype(F32), rtol, err_msg=text)


def test_extremes_of_conversions_to_integers():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -0.5, 0.5], F32)
    out, wide = np.zeros(8, S32), np.zeros(8, U32)
    run("""  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(out[i]) : "f"(x[i]));
        asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(wide[i]) : "f"(x[i]));""", True, 8, x=x, out=out, wide=wide)  # fmt: skip
    np.testing.assert_array_equal(out, clamped(np.trunc(x.astype(F64)), -(2**31), 2**31 - 1))
    np.testing.assert_array_equal(wide, clamped(np.trunc(x.astype(F64)), 0, 2**32 - 1))
