"""cuRAND's device functions: Philox by the vectors of its authors, XORWOW by its recurrence and by values of a GPU."""

import numpy as np
import pytest

from llmc.tests.emulator.words import each, run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
HEAD = "#include <curand_kernel.h>\n"
# kat_vectors of Random123 (Salmon et al., 2011): counter, key, result
PHILOX = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
# (seed, subsequence, offset) -> numbers 0, 1 and 5 of curand() on an H200 with CUDA 13
XORWOW = {
    (0, 0, 0): [3179217846, 1883133293, 1986458431],
    (0x123456789ABCDEF, 0, 0): [440680976, 1070377272, 2877978800],
    (0x123456789ABCDEF, 1, 7): [2127976840, 2037116134, 1675054476],
    (0x123456789ABCDEF, 11 << 33, 94): [2035883802, 3303889304, 1708827852],
    (0x123456789ABCDEF, 15 << 33, 0): [3974191646, 2176048193, 1372468769],
}
ON_PHILOX = {
    (0x123456789ABCDEF, 0, 0): [3092259374, 3314331723, 1379798405],
    (0x123456789ABCDEF, 15 << 33, 0): [3928198333, 3637327485, 2881103540],
}
AFTER = {  # of (0x123456789ABCDEF, 0, 0), behind those six
    "curandState": [0.5766274333000183, 0.9751632809638977, 1.143880009651184],
    "curandStatePhilox4_32_10_t": [0.3955090045928955, -0.16951972246170044, 0.8314502239227295],
}


@CHECKED
def test_philox_gives_the_published_vectors(check):
    counters, keys, out = (np.array(column, np.uint32) for column in zip(*PHILOX))
    body = """  if (i < 3) {
        uint4 c = {counters[4 * i], counters[4 * i + 1], counters[4 * i + 2], counters[4 * i + 3]};
        uint4 r = curand_Philox4x32_10(c, {keys[2 * i], keys[2 * i + 1]});
        out[4 * i] = r.x; out[4 * i + 1] = r.y; out[4 * i + 2] = r.z; out[4 * i + 3] = r.w;
    }"""
    got = np.zeros_like(out)
    run(body, check, head=HEAD, counters=counters, keys=keys, out=got)
    np.testing.assert_array_equal(got, out)


def drawn(state, seed, subsequence, offset, n, check=True):
    """(n,) uint32: the first numbers of a state."""
    out = np.zeros(n, np.uint32)
    init = f"{state} s; curand_init({seed}ull, {subsequence}ull, {offset}ull, &s);"
    run(f"  {init} for (int k = 0; k < {n}; k++) out[k] = curand(&s);", check, 1, HEAD, out=out)
    return out


@pytest.mark.parametrize("state, known", [("curandState", XORWOW), ("curandStatePhilox4_32_10_t", ON_PHILOX)])
@CHECKED
def test_bits_are_those_of_a_gpu(state, known, check):
    for start, expected in known.items():
        np.testing.assert_array_equal(drawn(state, *start, 6, check)[[0, 1, 5]], expected)


@CHECKED
@pytest.mark.parametrize("state", AFTER)
def test_floats_agree_with_a_gpu(state, check):
    out = np.zeros(3, np.float32)
    run(f"""  {state} s; curand_init(0x123456789ABCDEFull, 0, 0, &s);
        for (int k = 0; k < 6; k++) curand(&s);
        out[0] = curand_uniform(&s); out[1] = curand_normal(&s); curand(&s); out[2] = curand_normal(&s);""",
        check, 1, HEAD, out=out)  # fmt: skip
    assert out[0] == np.float32(AFTER[state][0])  # exactly
    np.testing.assert_allclose(out[1:], AFTER[state][1:], atol=1e-6)


def test_philox_counts_as_the_paper_says():
    counters = np.arange(3)  # the first four numbers have counter 0; the offset skips single numbers
    whole = [drawn("curandStatePhilox4_32_10_t", 7, 0, 4 * c, 4) for c in counters]
    np.testing.assert_array_equal(drawn("curandStatePhilox4_32_10_t", 7, 0, 3, 8), np.concatenate(whole)[3:11])


def xorwow(seed, n):
    """(n,): Marsaglia's recurrence from cuRAND's initial state."""
    a, b = ((seed & 0xFFFFFFFF) ^ 0xAAD26B49) * 1099087573, ((seed >> 32) ^ 0xF7DCEFDD) * 2591861531
    v = [123456789 + a, 362436069 ^ a, 521288629 + b, 88675123 ^ b, 5783321 + a]
    v, d, out = [x & 0xFFFFFFFF for x in v], 6615241 + a + b, []
    for _ in range(n):
        t = v[0] ^ (v[0] >> 2)
        v = [*v[1:], (v[4] ^ (v[4] << 4) ^ t ^ (t << 1)) & 0xFFFFFFFF]
        d += 362437
        out.append((v[4] + d) & 0xFFFFFFFF)
    return np.array(out, np.uint32)


def test_xorwow_skips_as_many_steps_as_the_offset_says():
    steps = xorwow(99, 5010)
    for offset in (0, 1, 31, 160, 5000):
        np.testing.assert_array_equal(drawn("curandState", 99, 0, offset, 8), steps[offset : offset + 8])


def test_four_at_a_time_from_every_place():
    stream = drawn("curandStatePhilox4_32_10_t", 5, 9, 0, 16)
    for offset in range(4):
        out, floats = np.zeros(8, np.uint32), np.zeros(4, np.float32)
        run(f"""  curandStatePhilox4_32_10_t s; curand_init(5, 9, {offset}, &s);
            for (int k = 0; k < 2; k++) {{ uint4 v = curand4(&s); ((uint4*)out)[k] = v; }}
            ((float4*)floats)[0] = curand_uniform4(&s);""", True, 1, HEAD, out=out, floats=floats)  # fmt: skip
        np.testing.assert_array_equal(out, stream[offset : offset + 8])
        wanted = (drawn("curandStatePhilox4_32_10_t", 5, 9, offset + 8, 4).astype(np.float64) + 0.5) / 2**32
        np.testing.assert_allclose(floats, wanted, rtol=1e-7)


@pytest.mark.parametrize("draw, dtype", [("curand_normal", np.float32), ("curand_normal_double", np.float64)])
def test_normal_numbers_are_normal(draw, dtype):
    out = np.zeros(16384, dtype)
    run(f"""  curandState s; curand_init(3, i, 0, &s);
        for (int k = 0; k < 64; k++) out[64 * i + k] = {draw}(&s);""", False, 256, HEAD, out=out)  # fmt: skip
    assert abs(out.mean()) < 0.03 and abs(out.std() - 1) < 0.02 and abs((out**4).mean() - 3) < 0.2
    assert (np.abs(out) < 0.6745).mean() == pytest.approx(0.5, abs=0.02)


def test_states_are_as_large_as_a_gpus():
    sizes = each(["sizeof(curandState)", "sizeof(curandStatePhilox4_32_10_t)"], 1, head=HEAD)[:, 0]
    assert sizes.tolist() == [48, 64]
