"""Inline PTX for tensor cores: ldmatrix, stmatrix, movmatrix and mma.sync, against NumPy's matrices."""

import ml_dtypes
import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
LANES = np.arange(32)
G, T = LANES // 4, LANES % 4
U16, U32, F32 = np.uint16, np.uint32, np.float32
TILES = "  __shared__ __align__(16) unsigned short s[4 * 64]; for (int k = i; k < 256; k += 32) s[k] = {};\n"
TILES += "  __syncwarp(); unsigned v[4] = {{7, 7, 7, 7}}, a = __cvta_generic_to_shared(s + 8 * i);\n"


def registers(tile, trans=False):
    """(32,): the two elements of an 8 x 8 tile (8, 8) that each lane has, in one word."""
    tile = np.ascontiguousarray(tile.T if trans else tile)
    return tile.view(U32)[G, T]


def matrix(n, trans, what="ldmatrix"):
    regs = ", ".join(f"%{k}" for k in range(n))
    outs = ", ".join(f'"=r"(v[{k}])' for k in range(n))
    return (
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x{n}{".trans" if trans else ""}.shared.b16 '
        f'{{{regs}}}, [%{n}];\\n" : {outs} : "r"(a));'
    )


def stored(n, trans):
    regs, ins = ", ".join(f"%{k + 1}" for k in range(n)), ", ".join(f'"r"(v[{k}])' for k in range(n))
    return (
        f'asm volatile("stmatrix.sync.aligned.m8n8.x{n}{".trans" if trans else ""}.shared.b16 [%0], {{{regs}}};" '
        f':: "r"(a), {ins} : "memory");'
    )


WAYS = [(n, trans) for n in (1, 2, 4) for trans in (False, True)]


@CHECKED
def test_ldmatrix(check):
    tiles = np.random.RandomState(0).randint(0, 1 << 16, (4, 8, 8)).astype(U16)
    out = np.zeros((len(WAYS), 4, 32), U32)
    body = TILES.format("x[k]") + "".join(
        f"  v[0] = v[1] = v[2] = v[3] = 7; {matrix(n, trans)}\n"
        f"  for (int k = 0; k < 4; k++) out[{128 * w} + 32 * k + i] = v[k];\n"
        for w, (n, trans) in enumerate(WAYS)
    )
    run(body, check, x=tiles.ravel().copy(), out=out.reshape(-1))
    for (n, trans), got in zip(WAYS, out):
        np.testing.assert_array_equal(got[:n], [registers(tile, trans) for tile in tiles[:n]])
        assert (got[n:] == 7).all()


@CHECKED
def test_stmatrix_and_movmatrix(check):
    words = np.random.RandomState(0).randint(0, 1 << 32, (4, 32), dtype=U32)
    out, moved = np.zeros((len(WAYS), 4, 8, 8), U16), np.zeros(32, U32)
    body = TILES.format("0") + "  for (int k = 0; k < 4; k++) v[k] = x[32 * k + i];\n" + "".join(
        f"  {stored(n, trans)} __syncwarp();\n"
        f"  for (int k = i; k < 256; k += 32) out[{256 * w} + k] = s[k], s[k] = 0;\n  __syncwarp();\n"
        for w, (n, trans) in enumerate(WAYS)
    ) + '  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved[i]) : "r"(v[0]));'  # fmt: skip
    run(body, check, x=words.ravel().copy(), out=out.reshape(-1), moved=moved)
    for (n, trans), got in zip(WAYS, out):
        for k in range(4):
            expected = words[k] if k < n else np.zeros(32, U32)
            np.testing.assert_array_equal(registers(got[k], trans), expected)
    tile = words[0].reshape(8, 4).view(U16)  # (8, 8)
    np.testing.assert_array_equal(moved, registers(tile, True))


# ------------------------------------------------------------------------------------------------------- mma.sync

BF16, FP8 = ml_dtypes.bfloat16, {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
SHAPES = {  # k, types as in the instruction: (elements of A and B, of C and D)
    (4, "f32.tf32.tf32.f32"): (F32, F32),
    (8, "f32.tf32.tf32.f32"): (F32, F32),
    (8, "f32.f16.f16.f32"): (np.float16, F32),
    (16, "f32.f16.f16.f32"): (np.float16, F32),
    (8, "f32.bf16.bf16.f32"): (BF16, F32),
    (16, "f32.bf16.bf16.f32"): (BF16, F32),
    (8, "f16.f16.f16.f16"): (np.float16, np.float16),
    (16, "f16.f16.f16.f16"): (np.float16, np.float16),
    (16, "s32.s8.s8.s32"): (np.int8, np.int32),
    (32, "s32.s8.s8.s32"): (np.int8, np.int32),
    (32, "s32.u8.s8.s32"): (np.uint8, np.int32),
    **{(32, f"f32.{a}.{b}.f32"): (FP8[a], F32) for a in FP8 for b in FP8},
}


def fragments(a, b, c):
    """What each lane holds of A (16, k), B (k, 8) and C (16, 8), as PTX draws it: (registers, 32) words each."""
    per, k = 4 // a.itemsize, a.shape[1]

    def words(rows):  # rows (32, per): of each lane
        return np.ascontiguousarray(rows).view(U32)[:, 0]

    def of_a(i):
        columns = per * T + 4 * per * (i // 2)
        return words(np.stack([a[G + 8 * (i % 2), columns + e] for e in range(per)], 1))

    def of_b(i):
        return words(np.stack([b[per * T + 4 * per * i + e, G] for e in range(per)], 1))

    def of_c(i):
        wide = c.itemsize == 4
        row, column = (G + 8 * (i // 2), 2 * T + i % 2) if wide else (G + 8 * i, 2 * T)
        return words(np.stack([c[row, column + e] for e in range(1 if wide else 2)], 1))

    return [of_a(i) for i in range(k // per // 2)], [of_b(i) for i in range(k // per // 4)], [
        of_c(i) for i in range(c.itemsize)
    ]  # fmt: skip


def braces(first, n):
    return "{" + ", ".join(f"%{first + k}" for k in range(n)) + "}"


def product(k, types, na, nb, nc, accumulator):
    letter = '"f"(__uint_as_float({}))' if accumulator == F32 else '"r"({})'
    out = '"=f"({})' if accumulator == F32 else '"=r"({})'
    text = f"mma.sync.aligned.m16n8k{k}.row.col.{types} {braces(0, nc)}, {braces(nc, na)}, "
    text += f"{braces(nc + na, nb)}, {braces(nc + na + nb, nc)};"
    d = "float" if accumulator == F32 else "unsigned"
    outs = ", ".join(out.format(f"d[{e}]") for e in range(nc))
    ins = ", ".join(
        [f'"r"(x[{32 * e} + i])' for e in range(na + nb)]
        + [letter.format(f"x[{32 * (na + nb + e)} + i]") for e in range(nc)]
    )
    stores = f"for (int e = 0; e < {nc}; e++) out[32 * e + i] = " + (
        "__float_as_uint(d[e]);" if accumulator == F32 else "d[e];"
    )
    return f'  {d} d[{nc}];\n  asm volatile("{text}" : {outs} : {ins});\n  {stores}'


def elements(words, dtype):
    """(16, 8): D from (registers, 32) words."""
    d = np.zeros((16, 8), dtype)
    for i, row in enumerate(words):
        if dtype().itemsize == 4:
            d[G + 8 * (i // 2), 2 * T + i % 2] = row.view(dtype)
        else:
            d[(G + 8 * i)[:, None], 2 * T[:, None] + np.arange(2)] = row.copy().view(dtype).reshape(32, 2)
    return d


def numbers(k, types):
    """A (16, k), B (k, 8) and C (16, 8), so small that every order of the sum gives the same."""
    element, accumulator = SHAPES[k, types]
    rng = np.random.RandomState(k)
    if np.issubdtype(element, np.integer):
        a, b = (rng.randint(0, 256, shape).astype(np.uint8) for shape in ((16, k), (k, 8)))
        return a.view(element), b.view(np.int8), rng.randint(-(10**6), 10**6, (16, 8)).astype(accumulator)
    a, b = (rng.randint(-8, 9, shape).astype(F32).astype(element) for shape in ((16, k), (k, 8)))
    return a, b.astype(FP8.get(types.split(".")[2], element)), rng.randint(-64, 65, (16, 8)).astype(accumulator)


@CHECKED
def test_mma(check):
    inputs, results, body = {}, {}, []
    for n, (k, types) in enumerate(SHAPES):
        parts = fragments(*numbers(k, types))
        inputs[f"x{n}"] = np.concatenate([word for part in parts for word in part])
        results[f"out{n}"] = np.zeros(32 * len(parts[2]), U32)
        text = product(k, types, *map(len, parts), SHAPES[k, types][1])
        body.append(f"  {{ unsigned *x = x{n}, *out = out{n};\n{text} }}")
    run("\n".join(body), check, **inputs, **results)
    for (k, types), got in zip(SHAPES, results.values()):
        a, b, c = numbers(k, types)
        wide = a.astype(np.float64) @ b.astype(np.float64) + c
        np.testing.assert_array_equal(elements(got.reshape(-1, 32), c.dtype.type), wide.astype(c.dtype), err_msg=types)


def test_the_last_13_bits_of_a_tf32_do_not_count_and_products_are_added_in_f32():
    rng = np.random.RandomState(0)
    a, b, c = (rng.standard_normal(shape).astype(F32) for shape in ((16, 8), (8, 8), (16, 8)))
    parts = fragments(a, b, c)
    x, out = np.concatenate([word for part in parts for word in part]), np.zeros(128, U32)
    run(product(8, "f32.tf32.tf32.f32", *map(len, parts), F32), x=x, out=out)
    cut = [(each.view(U32) & U32(0xFFFFE000)).view(F32) for each in (a, b)]
    d = elements(out.reshape(-1, 32), F32)
    np.testing.assert_allclose(d, cut[0] @ cut[1] + c, rtol=2e-6, atol=2e-6)
    assert np.abs(d - (a @ b + c)).max() > 1e-4  # and it is not the product of the floats


@pytest.mark.parametrize("types", [("e4m3", "e5m2"), ("e5m2", "e4m3")], ids=".".join)
def test_every_finite_fp8_in_a_product(types):
    a, b = (np.arange(256, dtype=U32).astype(np.uint8).view(FP8[name]) for name in types)
    a, b = (np.resize(x[np.isfinite(x.astype(F32))], 512).astype(x.dtype).reshape(16, 32) for x in (a, b))
    b, c = np.roll(b, 3, 1)[8:].T, np.ones((16, 8), F32)
    parts = fragments(a, b, c)
    x, out = np.concatenate([word for part in parts for word in part]), np.zeros(128, U32)
    run(product(32, ".".join(("f32", *types, "f32")), *map(len, parts), F32), x=x, out=out)
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert (np.abs(elements(out.reshape(-1, 32), F32) - (a @ b + c)) <= 2e-6 * (np.abs(a) @ np.abs(b) + c)).all()


# ---------------------------------------------------------------------------------------------------- checks


def failing(body):
    with pytest.raises(KernelError) as error:
        run(body, x=np.zeros(32 * 7, U32), out=np.zeros(128, U32))
    return error.value.report


def test_two_instructions_at_once_are_named_with_both_lines():
    mma = product(8, "f32.f16.f16.f32", 2, 1, 4, F32)
    report = failing(f"  if (i % 2) {{\n{mma} }} else {{\n{mma} }}")
    assert report.kinds == {"inactive-lane"} and "while others execute line" in str(report), str(report)


def test_ldmatrix_needs_aligned_rows_in_shared_memory():
    body = TILES.format("1").replace("s + 8 * i", "s + 8 * i + 4 * (i == 9)") + "\n  " + matrix(2, False)
    report = failing(body)
    assert report.kinds == {"misaligned"} and report.problems[0].line == 7, str(report)
    assert "reads" in str(report) and "not a multiple of 16 bytes" in str(report)
    assert report.problems[0].thread == (9, 0, 0)
    run(TILES.format("1").replace("s + 8 * i", "s + 8 * i + 4 * (i == 9)") + "\n  " + matrix(1, False))  # unused there


def test_ldmatrix_is_checked_like_ordinary_reads():
    empty = TILES.format("1").replace("k < 256", "k < 100") + "\n  " + matrix(4, True)
    assert failing(empty).kinds == {"uninitialised"}
    past = TILES.format("1").replace("s + 8 * i)", "s + 16 * i)") + "\n  " + matrix(4, False)
    assert failing(past).kinds == {"out-of-bounds"}
