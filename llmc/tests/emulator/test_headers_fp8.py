"""cuda_fp8.h on the emulator: every conversion against ml_dtypes, and against what an H200 gave where they differ."""

import ml_dtypes
import numpy as np
import pytest

from llmc.cuda.emulator.kernels import RawKernel
from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
KINDS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448), "e5m2": (ml_dtypes.float8_e5m2, 57344)}
HEAD = "#include <cuda_fp8.h>\n"
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)  # all of them
BETWEEN = np.random.default_rng(0).integers(0, 2**32, 65536, np.uint32).view(np.float32)
FLOATS = np.concatenate([HALVES, BETWEEN])
NUMBERS = FLOATS[~np.isnan(FLOATS)]


def converted(expression, x, check=True):
    """(len(x),) uint8: the bytes that an expression in x[i] makes."""
    out = np.zeros(len(x), np.uint8)
    run(f"  if (i < {len(x)}) out[i] = {expression};", check, 256, HEAD, -(-len(x) // 256), x=x, out=out)
    return out


@pytest.mark.parametrize("name", KINDS)
def test_floats_are_rounded_once_and_saturate(name):
    dtype, largest = KINDS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.clip(NUMBERS.astype(np.float64), -largest, largest).astype(dtype).view(np.uint8)
    np.testing.assert_array_equal(converted(f"__nv_fp8_{name}(x[i]).__x", NUMBERS, False), expected)
    call = f"__nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_{name.upper()})"
    np.testing.assert_array_equal(converted(call, NUMBERS, False), expected)


@pytest.mark.parametrize("name", KINDS)
def test_without_saturation_too_large_is_not_finite(name):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = NUMBERS.astype(np.float64).astype(KINDS[name][0]).view(np.uint8)  # NaN in e4m3, infinity in e5m2
    call = f"__nv_cvt_double_to_fp8(x[i], __NV_NOSAT, __NV_{name.upper()})"
    np.testing.assert_array_equal(converted(call, NUMBERS, False), expected)


def test_ties_limits_and_nan():
    x = np.array([448, 464, 465, -1e30, np.inf, np.nan, 17, 19, 2**-9, 2**-10, 2**-10 * 1.001, -0.0], np.float32)
    saturated = [0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0x7F, 0x58, 0x5A, 1, 0, 1, 0x80]  # worked out by hand
    np.testing.assert_array_equal(converted("__nv_fp8_e4m3(x[i]).__x", x), saturated)
    nosat = [0x7E, 0x7E, 0x7F, 0xFF, 0x7F, 0x7F, *saturated[6:]]
    np.testing.assert_array_equal(converted("__nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3)", x), nosat)


def ptx(instruction, check=True, **inputs):
    """(n,): what a cvt makes of each; `b` goes to the lower byte."""
    letters = {"float32": "f", "uint32": "r", "uint16": "h"}
    to_pair = instruction.endswith("x2.f32") or instruction.endswith("f16x2")
    letter, out = ("h", np.uint16) if to_pair else ("r", np.uint32)
    n, given = len(inputs["a"]), ", ".join(f'"{letters[x.dtype.name]}"({name}[i])' for name, x in inputs.items())
    operands, out = ", ".join(f"%{k}" for k in range(1 + len(inputs))), np.zeros(n, out)
    body = f'  if (i < {n}) asm("{instruction} {operands};" : "={letter}"(out[i]) : {given});'
    run(body, check, 256, "", -(-n // 256), **inputs, out=out)
    return out


def nearest(name, x):
    """(n,) uint8: x (n,) float32 as fp8, saturated. Every NaN is 0x7f."""
    dtype, largest = KINDS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isnan(x), 0x7F, np.clip(x, -largest, largest).astype(dtype).view(np.uint8))


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", KINDS)
def test_ptx_makes_pairs(name, relu):
    above, below = FLOATS, FLOATS[::-1].copy()
    positive = [np.where(x < 0, 0, x) if relu else x for x in (above, below)]
    if relu:
        positive = [np.where(x == 0, np.float32(0), x) for x in positive]  # not -0
    got = ptx(f"cvt.rn.satfinite{relu}.{name}x2.f32", False, a=above, b=below)
    np.testing.assert_array_equal(got >> 8, nearest(name, positive[0]))
    np.testing.assert_array_equal(got & 0xFF, nearest(name, positive[1]))
    halves = HALVES.astype(np.float16).view(np.uint16)
    words = halves.astype(np.uint32) << 16 | halves[::-1]
    got = ptx(f"cvt.rn.satfinite{relu}.{name}x2.f16x2", False, a=words)
    np.testing.assert_array_equal(got >> 8, nearest(name, positive[0][:65536]))
    np.testing.assert_array_equal(got & 0xFF, nearest(name, positive[0][65535::-1]))


@CHECKED
@pytest.mark.parametrize("name", KINDS)
def test_ptx_makes_halves_of_pairs(name, check):
    pairs = np.arange(65536, dtype=np.uint16)[:: 7 if check else 1].copy()
    for relu in ("", ".relu"):
        halves = ptx(f"cvt.rn{relu}.f16x2.{name}x2", check, a=pairs).view(np.float16).reshape(-1, 2)
        expected = pairs.view(np.uint8).view(KINDS[name][0]).astype(np.float16).reshape(-1, 2)
        np.testing.assert_array_equal(halves, np.where(expected < 0, 0, expected) if relu else expected)


@CHECKED
@pytest.mark.parametrize("name", KINDS)
def test_all_bytes_as_floats_and_halves(name, check):
    bits, out, halves = np.arange(256, dtype=np.uint8), np.zeros(256, np.float32), np.zeros(256, np.float16)
    body = f"""  __nv_fp8_{name} v; v.__x = bits[i]; out[i] = (float)v;
        halves[i] = __half(__nv_cvt_fp8_to_halfraw(bits[i], __NV_{name.upper()}));"""
    run(body, check, 256, HEAD, bits=bits, out=out, halves=halves)
    np.testing.assert_array_equal(out, bits.view(KINDS[name][0]).astype(np.float32))
    np.testing.assert_array_equal(halves.astype(np.float32), out)


@CHECKED
def test_pairs_fours_and_other_types(check):
    x, out = np.array([1.5, -300, 0.07, 8], np.float32), np.zeros(4, np.float32)
    body = """  float4 v = *(float4*)x; float2 back = float2(__nv_fp8x2_e5m2(make_float2(v.x, v.y)));
        float4 four = float4(__nv_fp8x4_e4m3(v));
        out[0] = back.y; out[1] = four.z;
        out[2] = (float)__nv_fp8_e4m3(__float2half(x[2])); out[3] = (int)__nv_fp8_e5m2(9);"""
    run(body, check, 1, HEAD, x=x, out=out)
    expected = [-320, 0.0703125, 0.0703125, 8]  # e5m2: 4 steps between 256 and 512; e4m3: 1/128 apart near 0.07
    np.testing.assert_array_equal(out, expected)


def test_arrays_of_fp8_are_passed_as_bytes_or_by_their_dtype():
    code = HEAD + 'extern "C" __global__ void k(float* y, const __nv_fp8_e4m3* x) { *y = (float)*x; }'
    y = np.zeros(1, np.float32)
    for x in (np.array([0x40], np.uint8), np.array([2], ml_dtypes.float8_e4m3fn)):
        RawKernel(code, "k")((1,), (1,), (y, x))
        assert y[0] == 2
    for x in (np.array([2], np.float32), np.array([2], ml_dtypes.float8_e5m2)):
        with pytest.raises(KernelError, match=r"`const __nv_fp8_e4m3\* x` expects float8_e4m3fn"):
            RawKernel(code, "k")((1,), (1,), (y, x))


@CHECKED
def test_bytes_for_structs_of_one_byte_and_for_unsigned_char(check):
    code = """struct e4m3 { unsigned char bits; };
    extern "C" __global__ void k(e4m3* y, const e4m3* x, unsigned char* z) {
        int i = threadIdx.x;
        y[i] = x[i];
        z[i] = x[31 - i].bits; }"""
    x = np.arange(32, dtype=np.uint8)
    for dtype in (np.uint8, ml_dtypes.float8_e4m3fn):
        y, z = np.zeros(32, dtype), np.zeros(32, np.uint8)
        RawKernel(code, "k", check=check)((1,), (32,), (y, x.view(dtype), z))
        np.testing.assert_array_equal(y.view(np.uint8), x)
        np.testing.assert_array_equal(z, x[::-1])
    short = np.zeros(16, np.uint8)
    if check:
        with pytest.raises(KernelError, match=r"y\[16\]"):
            RawKernel(code, "k")((1,), (32,), (short, x, z))
