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
