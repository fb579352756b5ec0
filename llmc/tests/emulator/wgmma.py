"""Kernels with one product of a warpgroup, in every form that wgmma has: for tests on the emulator and on a GPU."""

from functools import cache
from typing import NamedTuple

import numpy as np

from llmc.cuda import RawModule, asarray, asnumpy, tensor_map


class Form(NamedTuple):
    """D (64, n) = ± A (64, k) · B (k, n) [+ C], in `steps` wgmmas of 32 bytes along k."""

    n: int = 64
    type: str = "bf16"  # of A and B: bf16, f16, tf32, e4m3, e5m2
    sum: str = "f32"  # f32, f16
    swizzle: int = 128  # bytes of a row of shared memory; 0: none
    m_major: bool = False  # A lies along m in memory, B along n
    n_major: bool = False
    from_registers: bool = False  # A
    adds: bool = True
    minus_a: bool = False
    minus_b: bool = False
    steps: int = 4
    type_b: str = ""  # of B, if it is another

    @property
    def size(self) -> int:
        """Bytes of an element of A and B."""
        return {"tf32": 4, "e4m3": 1, "e5m2": 1}.get(self.type, 2)

    @property
    def name(self) -> str:
        """What its kernel is called."""
        return "product_" + "_".join(str(each).lower() for each in self)

    @property
    def k(self) -> int:
        """The length of the sums."""
        return self.steps * 32 // self.size


class Operand(NamedTuple):
    """How a matrix lies in shared memory: slabs that one copy each brings, and what a descriptor says of them."""

    rows: int  # of a slab
    width: int  # elements of its rows
    slabs: int
    leading: int  # bytes
    stride: int
    per_slab: int  # steps along k within one, if it is cut along k
    step: int  # bytes of one


def operand(form: Form, rows: int, along_k: bool) -> Operand:
    """For a matrix of `rows` rows (of A) or columns (of B) and k elements along the other axis."""
    pitch = form.swizzle or 16  # bytes of a row of a slab
    width = pitch // form.size
    if along_k:
        slab = rows * pitch
        if form.swizzle:
            return Operand(rows, width, -(-form.k // width), 16, 8 * pitch, pitch // 32, 32)
        return Operand(rows, width, form.k // width, slab, 128, 1, 2 * slab)  # two pieces of 16 bytes a step
    slab = form.k * pitch
    steps = dict(per_slab=form.steps, step=32 // form.size * pitch)
    if form.swizzle:
        return Operand(form.k, width, -(-rows // width), slab, 8 * pitch, **steps)
    return Operand(form.k, width, rows // width, 128, slab, **steps)


HEAD = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct __align__(64) CUtensorMap { unsigned long long opaque[16]; };
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long descriptor(unsigned at, unsigned leading, unsigned stride, unsigned long long mode) {
    unsigned long long d = (at & 0x3ffff) >> 4;
    return d | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | mode << 62;
}
__device__ void load(unsigned to, const CUtensorMap* map, unsigned bar, int x) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(0) : "memory");
}
"""


def kernel(form: Form) -> str:
    """The kernel form.name(d, c, a, map_a, map_b). d, c: (128, registers) words, a: A's words if it is in registers."""
    a, b = operand(form, 64, not form.m_major), operand(form, form.n, not form.n_major)
    count = form.n // 2 if form.sum == "f32" else form.n // 4
    letter, word = ("f", "float") if form.sum == "f32" else ("r", "unsigned")
    sums = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+{letter}"(sum[{i}])' for i in range(count))
    first = f"{{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}" if form.from_registers else f"%{count}"
    at_b = count + (4 if form.from_registers else 1)
    a_in = ", ".join(f'"r"(ra[{i}])' for i in range(4)) if form.from_registers else '"l"(da)'
    scales = f"{-1 if form.minus_a else 1}, {-1 if form.minus_b else 1}"
    majors = "" if form.size != 2 else f", {int(form.n_major)}"
    majors = majors if form.from_registers or form.size != 2 else f", {int(form.m_major)}{majors}"
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[form.swizzle]
    k = 32 // form.size
    kind = f"m64n{form.n}k{k}.{form.sum}.{form.type}.{form.type_b or form.type}"
    bytes_a, bytes_b = (each.rows * each.width * form.size for each in (a, b))
    slab_a, slab_b = (each.rows * (form.swizzle or 16) for each in (a, b))
    loads_a = (
        "" if form.from_registers else f"for (int i = 0; i < {a.slabs}; i++) load(sa + {slab_a} * i, &map_a, bar, "
    )
    loads_a += "" if form.from_registers else f"{a.width} * i);"
    expected = b.slabs * bytes_b + (0 if form.from_registers else a.slabs * bytes_a)
    return f"""
extern "C" __global__ void __launch_bounds__(128) {form.name}({word}* d, const {word}* c, const unsigned* a,
        const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b) {{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long full;
    int t = threadIdx.x;
    unsigned bar = shared_address(&full), sa = (shared_address(memory) + 1023) & ~1023, sb = sa + {a.slabs * slab_a};
    sb = (sb + 1023) & ~1023;
    if (t == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"({expected}) : "memory");
        {loads_a}
        for (int i = 0; i < {b.slabs}; i++) load(sb + {slab_b} * i, &map_b, bar, {b.width} * i);
    }}
    __syncthreads();
    asm volatile("{{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                 "@!done bra AGAIN; }}" ::"r"(bar) : "memory");
    {word} sum[{count}];
    for (int i = 0; i < {count}; i++) sum[i] = c[{count} * t + i];
    unsigned ra[4] = {{}};
    for (int j = 0; j < {form.steps}; j++) {{
        unsigned at_a = sa + j / {a.per_slab} * {slab_a if form.swizzle or form.m_major else 0};
        unsigned at_b = sb + j / {b.per_slab} * {slab_b if form.swizzle or form.n_major else 0};
        at_a += {"j" if not form.swizzle and not form.m_major else f"j % {a.per_slab}"} * {a.step};
        at_b += {"j" if not form.swizzle and not form.n_major else f"j % {b.per_slab}"} * {b.step};
        unsigned long long da = descriptor(at_a, {a.leading}, {a.stride}, {mode});
        unsigned long long db = descriptor(at_b, {b.leading}, {b.stride}, {mode});
        for (int i = 0; i < 4; i++) ra[i] = a ? a[(4 * j + i) * 128 + t] : 0;
        int adds = {"1" if form.adds else "j > 0"};
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{at_b + 1}, 0;"
            "wgmma.mma_async.sync.aligned.{kind} {{{sums}}}, {first}, %{at_b}, p, {scales}{majors}; }}"
            : {outs} : {a_in}, "l"(db), "r"(adds));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    for (int i = 0; i < {count}; i++) d[{count} * t + i] = sum[i];
}}
"""


THREAD = np.arange(128)[:, None]


def places(form: Form):
    """(rows, columns), each (128, registers, elements of one): where D's registers belong."""
    pair = form.sum == "f16"
    i = np.arange(form.n // 4 if pair else form.n // 2)[None]
    row = THREAD // 32 * 16 + THREAD % 32 // 4 + 8 * (i % 2 if pair else i // 2 % 2)
    column = (i // 2 if pair else i // 4) * 8 + THREAD % 4 * 2 + (0 if pair else i % 2)
    e = np.arange(2 if pair else 1)
    return np.broadcast_arrays(row[..., None], column[..., None] + e)


def words_of_a(form: Form, a) -> np.ndarray:
    """(steps, 4, 128) words: A (64, k) in registers."""
    per, t = 4 // form.size, np.arange(128)
    out = np.empty((form.steps, 4, 128), np.uint32)
    for j in range(form.steps):
        for i in range(4):
            row = t // 32 * 16 + t % 32 // 4 + 8 * (i % 2)
            column = j * (32 // form.size) + per * (t % 4 + 4 * (i // 2))
            pieces = np.stack([a[row, column + e] for e in range(per)], 1)  # (128, elements of a word)
            out[j, i] = np.ascontiguousarray(pieces).view(np.uint32)[:, 0]
    return out


@cache
def module(forms, check=None):
    """The kernels of several forms, compiled together: that is most of the time that they take."""
    return RawModule(code=HEAD + "".join(map(kernel, forms)), options=("-arch=sm_90a",), check=check)


def dtypes(form: Form):
    """Of A and of B."""
    import ml_dtypes

    known = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}
    known |= {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    return known[form.type], known[form.type_b or form.type]


def result(form: Form, function, operands=None):
    """(D as its kernel makes it, as NumPy does), both (64, n). Small integers: every order of the sums is exact.

    operands: A (64, k) and B (n, k) in place of these.
    """
    rng, shapes = np.random.default_rng(form.n), ((64, form.k), (form.n, form.k))
    a, b = operands or (rng.integers(-4, 5, shape).astype(dtype) for shape, dtype in zip(shapes, dtypes(form)))
    sums = np.float32 if form.sum == "f32" else np.float16
    c = rng.integers(-16, 17, (64, form.n)).astype(sums)
    plans = operand(form, 64, not form.m_major), operand(form, form.n, not form.n_major)
    stored = [asarray(_bits(x.T.copy() if along else x)) for x, along in ((a, form.m_major), (b, form.n_major))]
    maps = [tensor_map(x, (plan.rows, plan.width), form.swizzle) for x, plan in zip(stored, plans)]
    rows, columns = places(form)
    packed = np.ascontiguousarray(c[rows, columns]).view(np.float32 if form.sum == "f32" else np.uint32)[..., 0]
    d, c_in = asarray(np.zeros_like(packed)), asarray(packed)
    in_registers = asarray(words_of_a(form, a)) if form.from_registers else 0
    shared = sum(plan.slabs * plan.rows * (form.swizzle or 16) for plan in plans) + 2048
    function.max_dynamic_shared_size_bytes = shared
    function((1,), (128,), (d, c_in, in_registers, *maps), shared_mem=shared)
    got = np.empty((64, form.n), sums)
    got[rows, columns] = asnumpy(d)[..., None].view(sums)
    sign = -1 if form.minus_a != form.minus_b else 1
    product = sign * (a.astype(np.float64) @ b.astype(np.float64).T)
    return got, (product + (c if form.adds else 0)).astype(sums)


def _bits(array):
    """bfloat16 and fp8 as their bits: a GPU's arrays have no such dtypes."""
    return array if array.dtype.kind == "f" else array.view(f"u{array.dtype.itemsize}")
