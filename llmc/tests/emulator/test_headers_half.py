"""Half precision on the emulator: all numbers of __half and __nv_bfloat16, pairs, shuffles and atomics."""

import ml_dtypes
import numpy as np
import pytest

from llmc.tests.emulator.words import run

HEAD = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
KINDS = {  # type, word in the names of functions, NumPy's type
    "half": ("__half", "half", np.float16),
    "bfloat16": ("__nv_bfloat16", "bfloat16", ml_dtypes.bfloat16),
}
KIND = pytest.mark.parametrize("kind", list(KINDS))


@KIND
def test_every_number_becomes_a_float_and_comes_back(kind):
    t, word, dtype = KINDS[kind]
    bits, wide, back = np.arange(65536).astype(np.uint16), np.zeros(65536, np.float32), np.zeros(65536, np.uint16)
    run(f"""  {t} h = __ushort_as_{word}(bits[i]); wide[i] = __{word}2float(h);
        back[i] = __{word}_as_ushort(__float2{word}(wide[i]));""", threads=256, blocks=256, head=HEAD,
        bits=bits, wide=wide, back=back)  # fmt: skip
    expected = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(back, np.where(np.isnan(expected), 0x7FFF, bits))


@KIND
@pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
def test_pairs_memory_shuffles_and_atomics(kind, check):
    t, word, dtype = KINDS[kind]
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
