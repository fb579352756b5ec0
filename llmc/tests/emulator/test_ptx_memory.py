"""Inline PTX that touches memory: loads, stores, atomics, cp.async. Each is checked like an ordinary access."""

import re

import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
X = np.arange(128, dtype=np.float32) + 1
SHARED = "  __shared__ __align__(16) float s[64]; unsigned a = (unsigned)__cvta_generic_to_shared(s);\n"


def failing(body, **arrays):
    """What a checked launch says. The first line of `body` is line 4 of the kernel."""
    with pytest.raises(KernelError) as error:
        run(body, **arrays)
    return str(error.value)


# ---------------------------------------------------------------------------------------------- loads and stores

HINTS = ["", ".nc", ".ca", ".cg", ".cs", ".lu", ".cv", ".nc.L1::no_allocate", ".L1::evict_last", ".nc.L2::128B"]


def test_loads_with_any_hint():
    out = np.zeros(32 * len(HINTS), np.float32)
    body = "".join(
        f'  asm volatile("ld.global{hint}.f32 %0, [%1 + {4 * k}];" : "=f"(out[{32 * k} + i]) : "l"(x + i));\n'
        for k, hint in enumerate(HINTS)
    )
    run(body, x=X, out=out)
    np.testing.assert_array_equal(out, np.concatenate([X[k : k + 32] for k in range(len(HINTS))]))


@CHECKED
def test_vectors_of_all_types(check):
    bytes_ = np.random.RandomState(0).randint(0, 256, 64 * 16).astype(np.uint8)
    x, out = bytes_.view(np.uint32).copy(), np.zeros(64 * 4, np.uint32)
    run("""  unsigned v[4]; float f[4]; unsigned long long l[2]; unsigned short h[4]; unsigned b;
        const char* from = (const char*)(x + 4 * i); char* to = (char*)(out + 4 * i);
        if (i < 8) {
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(from));
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                         :: "l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
        } else if (i < 16) {
            asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]) : "l"(from));
            asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};"
                         :: "l"(to), "f"(f[0]), "f"(f[1]), "f"(f[2]), "f"(f[3]));
        } else if (i < 24) {
            asm volatile("ld.v2.b64 {%0, %1}, [%2];" : "=l"(l[0]), "=l"(l[1]) : "l"(from));
            asm volatile("st.wt.v2.u64 [%0], {%1, %2};" :: "l"(to), "l"(l[0]), "l"(l[1]));
        } else if (i < 32) {
            asm volatile("ld.global.v4.u16 {%0, %1, %2, %3}, [%4];"
                         : "=h"(h[0]), "=h"(h[1]), "=h"(h[2]), "=h"(h[3]) : "l"(from));
            asm volatile("st.global.v4.b16 [%0], {%1, %2, %3, %4};"
                         :: "l"(to), "h"(h[0]), "h"(h[1]), "h"(h[2]), "h"(h[3]));
            asm volatile("ld.global.v2.b32 {%0, %1}, [%2 + 8];" : "=r"(v[0]), "=r"(v[1]) : "l"(from));
            asm volatile("st.global.v2.b32 [%0 + 8], {%1, %2};" :: "l"(to), "r"(v[0]), "r"(v[1]));
        } else {
            for (int k = 0; k < 16; k++) {
                asm volatile("ld.global.u8 %0, [%1];" : "=r"(b) : "l"(from + k));
                asm volatile("st.global.u8 [%0], %1;" :: "l"(to + k), "r"(b | 0xab00));
            }
        }""", check, 64, x=x, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, x)


@CHECKED
def test_signs_and_shared_memory_and_predicates(check):
    x, out = np.arange(-16, 16, dtype=np.int32).astype(np.int8).repeat(4).view(np.int8), np.zeros(64, np.int32)
    run("""  extern __shared__ char dynamic[]; __shared__ int s[32];
        unsigned at = __cvta_generic_to_shared(&s[threadIdx.x]); int v = 0;
        asm("ld.global.s8 %0, [%1];" : "=r"(v) : "l"(x + 4 * i));
        asm volatile("st.shared.s32 [%0], %1;" :: "r"(at), "r"(v) : "memory");
        asm volatile("bar.sync 0;");
        unsigned long long wide;
        asm("cvta.to.shared.u64 %0, %1;" : "=l"(wide) : "l"(&s[31 - i]));
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "l"(wide));
        out[i] = v;
        asm("{ .reg .pred p; setp.ne.b32 p, %1, 0;\\n mov.b32 %0, -1;\\n @p ld.shared.u32 %0, [%2]; }"
            : "=r"(v) : "r"(i % 2), "r"(at));
        out[32 + i] = v;""", check, x=x, out=out)  # fmt: skip
    values = np.arange(-16, 16)
    np.testing.assert_array_equal(out, np.concatenate([values[::-1], np.where(np.arange(32) % 2, values, -1)]))


NOT_SHARED = '"r"((unsigned)__cvta_generic_to_shared(x))'
WRONG = {
    "misaligned": ('asm("ld.v2.f32 {%0, _}, [%1];" : "=f"(out[i]) : "l"(x + i));', "misaligned.*multiple of 8 bytes"),
    "store": ('asm("st.global.f32 [%0 + 128], %1;" :: "l"(out + i), "f"(1.0f));', r"out of bounds.*writes out\[32\]"),
    "not shared": (f'asm("ld.shared.f32 %0, [%1];" : "=f"(out[i]) : {NOT_SHARED});', "invalid pointer"),
    "a pointer as a shared address": ('asm("ld.shared.f32 %0, [%1];" : "=f"(out[i]) : "l"(x));', "invalid pointer"),
}


@pytest.mark.parametrize(("statement", "said"), WRONG.values(), ids=WRONG)
def test_wrong_accesses_are_named_with_their_line(statement, said):
    text = failing(f"\n  {statement}", x=X.copy(), out=np.zeros(32, np.float32))
    assert re.search(said, text) and ", line 5" in text, text


@CHECKED
def test_a_flag_passed_by_acquire_and_release(check):
    out = np.zeros(2, np.uint32)
    run("""  __shared__ unsigned flag, value;
        unsigned f = __cvta_generic_to_shared(&flag), seen = 0;
        if (i == 0) flag = 0;
        __syncthreads();
        if (i == 0) {
            value = 42;
            asm volatile("st.release.cta.shared.u32 [%0], %1;" :: "r"(f), "r"(1) : "memory");
        }
        if (i == 32) {
            while (!seen) asm volatile("ld.acquire.cta.shared.b32 %0, [%1];" : "=r"(seen) : "r"(f) : "memory");
            out[0] = value;
        }""", check, 64, out=out)  # fmt: skip
    assert out[0] == 42


@CHECKED
def test_atomics(check):
    x, out = np.arange(64, dtype=np.float32), np.zeros(8, np.uint32)
    total, old = np.zeros(1, np.float32), np.zeros(64, np.uint32)
    out[2] = 99
    run("""  asm volatile("red.global.add.f32 [%0], %1;" :: "l"(total), "f"(x[i]) : "memory");
        asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(old[i]) : "l"(out));
        asm volatile("red.relaxed.gpu.global.max.u32 [%0 + 4], %1;" :: "l"(out), "r"(i));
        asm volatile("red.global.min.s32 [%0 + 8], %1;" :: "l"(out), "r"(i + 7));
        asm volatile("atom.or.b32 _, [%0], %1;" :: "l"(out + 3), "r"(1u << i % 32));
        unsigned was;
        asm volatile("atom.cas.b32 %0, [%1], %2, %3;" : "=r"(was) : "l"(out + 4), "r"(0), "r"(i + 1));
        if (was == 0) asm volatile("red.add.u32 [%0], %1;" :: "l"(out + 5), "r"(1));
        __shared__ unsigned s;
        if (i == 0) s = 0;
        __syncthreads();
        asm volatile("red.shared.inc.u32 [%0], 1000;" :: "r"((unsigned)__cvta_generic_to_shared(&s)));
        __syncthreads();
        if (i == 0) out[6] = s;""", check, 64, x=x, out=out, total=total, old=old)  # fmt: skip
    assert total[0] == x.sum() and sorted(old) == [*range(64)]
    np.testing.assert_array_equal(out[[0, 1, 2, 3, 5, 6]], [64, 63, 7, 2**32 - 1, 1, 64])


# ---------------------------------------------------------------------------------------------------- cp.async

COPY = """  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(a + 4 * i), "l"(x + i) : "memory");
  asm volatile("cp.async.commit_group;");
"""
WAIT = '  asm volatile("cp.async.wait_group 0;" ::: "memory");\n'
READ = "  out[i] = s[i];"
SIZES = [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)]


def copy_of(cache, size, out):
    """Copies of `size` bytes, of which every other lane reads only a part."""
    per = size // 4
    return f"""  {{ unsigned a = __cvta_generic_to_shared(s + {per} * i);
        asm volatile("cp.async.{cache}.shared.global.L2::128B [%0], [%1], %2, %3;"
                     :: "r"(a), "l"(x + {per} * i), "n"({size}), "r"(i % 2 ? {size} : 4 * (i % {per})));
        asm volatile("cp.async.wait_all;");
        for (int k = 0; k < {per}; k++) out[{out} + {per} * i + k] = s[{per} * i + k];
        __syncwarp(); }}\n"""


@CHECKED
def test_copies_of_every_size_with_zeros_at_the_end(check):
    out = np.zeros((len(SIZES), 128), np.float32)
    body = "".join(copy_of(*each, 128 * k) for k, each in enumerate(SIZES))
    run("  __shared__ __align__(16) float s[128];\n" + body, check, x=X, out=out.reshape(-1))
    lane = np.arange(32)[:, None]
    for (_, size), got in zip(SIZES, out):
        per = size // 4
        kept = (lane % 2 == 1) | (np.arange(per) < lane % per)
        np.testing.assert_array_equal(got[: 32 * per].reshape(32, per), X[: 32 * per].reshape(32, per) * kept)


def test_zeros_need_no_source():
    out = np.ones(32, np.float32)
    copy = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(a + 4 * i), "l"(x + 200 + i), "r"(0));\n'
    run(SHARED + copy + '  asm volatile("cp.async.wait_all;");\n' + READ, x=X, out=out)
    assert not out.any()


@CHECKED
def test_groups_are_waited_for_in_order(check):
    out = np.zeros(64, np.float32)
    run("""  __shared__ float s[2][64]; unsigned a = __cvta_generic_to_shared(s[0] + i);
        for (int k = 0; k < 3; k++) {
            if (k < 2)
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(a + 256 * k), "l"(x + 64 * k + i));
            asm volatile("cp.async.commit_group;\\n" ::);
            if (k == 0) continue;
            asm volatile("cp.async.wait_group %0;\\n" :: "n"(1));
            __syncthreads();
            out[i] += s[k - 1][63 - i];
        }""", check, 64, x=X, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, X[:64][::-1] + X[64:][::-1])


def test_a_read_before_the_wait_is_explained():
    with pytest.raises(KernelError) as error:
        body = SHARED + COPY + "  __syncthreads();\n  out[i] = s[i];"
        run(body, True, 64, x=X.copy(), out=np.zeros(64, np.float32))
    text = str(error.value)
    assert "race with an asynchronous copy: kernel words, lines 8 and 5" in text
    assert "before the asynchronous copy of line" in text and "its own copy was under way" in text


COPIES = {
    "misaligned source of a part": ('"r"(a), "l"(x + 1)', "16, 4", "misaligned.*multiple of 16"),
    "misaligned destination": ('"r"(a + 4), "l"(x)', 16, "misaligned.*multiple of 16"),
    "destination out of bounds": ('"r"(a + 256), "l"(x)', 4, r"out of bounds.*writes s\[64\]"),
    "wrong size": ('"r"(a + 4 * i), "l"(x + i)', 2, "copies 4, 8 or 16 bytes"),
    "more than it copies": ('"r"(a + 4 * i), "l"(x + i)', "4, 8", "cannot read more"),
}


@pytest.mark.parametrize(("operands", "size", "said"), COPIES.values(), ids=COPIES)
def test_wrong_copies_are_named_with_their_line(operands, size, said):
    copy = f'asm volatile("cp.async.ca.shared.global [%0], [%1], {size};" :: {operands});'
    text = failing(f"{SHARED}\n  if (i == 0) {copy}", x=X.copy())
    assert re.search(said, text) and f"line {6}" in text, text


def test_cg_copies_16_bytes_only():
    text = failing(SHARED + COPY.replace(".ca", ".cg"), x=X.copy())
    assert "cp.async.cg copies 16 bytes" in text


def test_a_pair_of_buffers_in_dynamic_shared_memory_with_cvta_in_ptx():
    from llmc.cuda import RawKernel

    code = r"""
__device__ unsigned address(const void* p) {
    unsigned a;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(a) : "l"(p));
    return a;
}
extern "C" __global__ void k(const float* x, float* out, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    for (int i = 0; i < n; i++) {
        unsigned to = address(s + i % 2 * 64 + t);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + 64 * i + t));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        out[t] += s[i % 2 * 64 + 63 - t];
    }
}"""
    out = np.zeros(64, np.float32)
    RawKernel(code, "k")((1,), (64,), (X.copy(), out, 2), shared_mem=512)
    np.testing.assert_array_equal(out, X.reshape(2, 64)[:, ::-1].sum(0))
