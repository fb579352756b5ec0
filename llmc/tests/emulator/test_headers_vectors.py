"""Vectors such as float4: a store of a whole one is one access, however it is written, and they stay CUDA's structures.

How many accesses there are is what nvcc 13.0 (-arch=sm_90) makes of `*p = {…}` for each type: at most 16 bytes at once,
and vectors of three numbers, which are aligned to one, in three stores.
"""

import re
from functools import lru_cache

import numpy as np
import pytest

from llmc.cuda import RawKernel, inspect
from llmc.cuda.emulator.compiling.compiler import INCLUDE
from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
NUMBERS = {"char": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int"}
NUMBERS |= {"uint": "unsigned", "long": "long", "ulong": "unsigned long", "longlong": "long long"}
NUMBERS |= {"ulonglong": "unsigned long long", "float": "float", "double": "double"}
BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4}  # the others have 8
FORMS = {  # how a thread stores the numbers {v} as a vector {t} at {p}
    "braces": "{p} = {{{v}}};",
    "a temporary": "{p} = {t}{{{v}}};",
    "a compound literal": "{p} = ({t}){{{v}}};",
    "a condition": "{p} = i >= 0 ? {t}{{{v}}} : {t}{{}};",
    "a condition with a variable": "{t} zeros = {{}}; {p} = i < 0 ? zeros : {t}{{{v}}};",
    "through a reference": "{t}& o = {p}; o = {{{v}}};",
    "through auto&": "auto& o = {p}; o = {t}{{{v}}};",
    "in a chain": "{t} o; {p} = o = {{{v}}};",
    "from a variable": "{t} o = {{{v}}}; {p} = o;",
    "from a constant": "const {t} o{{{v}}}; {p} = o;",
    "from a lambda": "auto made = [&] {{ return {t}{{{v}}}; }}; {p} = made();",
    "component by component in a variable": "{t} o; {each} {p} = o;",
    "made": "{p} = make_{t}({v});",
    "a cast": "{p} = static_cast<{t}>({t}{{{v}}});",
    "moved": "{t} o{{{v}}}; {p} = static_cast<{t}&&>(o);",
}


WHOLE = {"from a variable", "from a constant", "component by component in a variable", "in a chain"}  # GCC's own copies


def stored(form, name, n, where):
    """One line that stores {a[0], …} there in this form, as a vector of n."""
    v = ", ".join(f"a[{n} * i + {k}]" for k in range(n))
    each = " ".join(f"o.{slot} = a[{n} * i + {k}];" for k, slot in enumerate("xyzw"[:n]))
    return "{ " + FORMS[form].format(p=where, t=f"{name}{n}", v=v, each=each) + " }"


@lru_cache
def accesses_of(name):
    """{(n, form, space): sizes of a thread's accesses}, and whether the right bytes are there."""
    size, element = BYTES.get(name, 8), NUMBERS[name]
    shared = " ".join(f"__shared__ {name}{n} s{n}[32];" for n in (1, 2, 3, 4))
    lines, places = [], [(n, form, space) for n in (1, 2, 3, 4) for form in FORMS for space in ("global", "shared")]
    for k, (n, form, space) in enumerate(places):
        out = f"(({name}{n}*)(out + {128 * k}))[i]"
        copied = f" __syncwarp(); {out} = s{n}[i];" * (space == "shared")
        lines.append(stored(form, name, n, out if space == "global" else f"s{n}[i]") + copied)
    head = f'extern "C" __global__ void forms({element}* out, const {element}* a) {{ int i = threadIdx.x; {shared}'
    kind = {"float": "f", "double": "f"}.get(name, "u" if name.startswith("u") else "i") + str(size)
    a, out = np.arange(128).astype(kind), np.zeros((len(places), 128), kind)
    report = inspect(RawKernel("\n".join([head, *lines, "}"]), "forms"), (1,), (32,), (out, a))
    assert report.ok, str(report)
    found = {place: [] for place in places}
    for one in report.raw.accesses:
        place = places[report.line_of(one.pc) - 2]
        if one.write and one.space == place[2]:
            found[place] += [one.size] * one.requests
    return found, all(np.array_equal(out[k, : 32 * n], a[: 32 * n]) for k, (n, *_) in enumerate(places))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_store_of_a_whole_vector_is_one_access_however_it_is_written(name):
    found, right = accesses_of(name)
    assert right
    for (n, form, space), sizes in found.items():
        bytes_ = n * BYTES.get(name, 8)
        if n != 3 and bytes_ <= 16:
            assert sizes == [bytes_], (n, form, space)
        elif n != 3 and form not in WHOLE:
            assert sizes == [16, 16], (form, space)


@pytest.mark.parametrize("name", NUMBERS)
def test_braces_for_three_numbers_are_three_stores(name):
    found, _ = accesses_of(name)
    for form in ("braces", "a temporary"):
        assert found[3, form, "global"] == found[3, form, "shared"] == [BYTES.get(name, 8)] * 3, form


def test_these_are_all_vector_types_of_the_header():
    text = (INCLUDE / "llmc_vectors.h").read_text()
    assert set(NUMBERS) == set(re.findall(r"^LLMC_VECTOR(?:S|_\d)\([\w ]+, (\w+),", text, re.MULTILINE))


TYPES = [f"{name}{n}" for name in NUMBERS for n in (1, 2, 3, 4)]
GCC = "#include <type_traits>\n#ifdef __clang__  // there, every copy is spelled out\n#define OF_GCC(x) true\n#else\n"
GCC += "#define OF_GCC(x) x\n#endif\n"


def test_vectors_stay_plain_structures():
    asked = ["is_aggregate", "is_trivially_copyable", "is_trivially_constructible", "is_trivial"]
    lines = [f"static_assert(OF_GCC(__{what}({t})));\n" for t in TYPES for what in asked]
    lines += [f"static_assert(__is_standard_layout({t}));\n" for t in TYPES]
    run("out[i] = 1;", True, head=GCC + "".join(lines), out=np.zeros(32, np.float32))


@CHECKED
@pytest.mark.parametrize("name", NUMBERS)
def test_vectors_are_made_and_kept_as_in_cuda(name, check):
    """In variables, arrays, unions, structures, shared and constant memory, as parameters and results."""
    element, out = NUMBERS[name], np.zeros(32 * 12, np.float64)
    head = f"""
    typedef {name}4 V; typedef {name}2 W; typedef {element} T;
    union Both {{ V v; T x[4]; }};
    struct Pair {{ V a; W b[2]; }};
    __constant__ V fixed[2] = {{{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}};
    __device__ V turned(V v) {{ return {{v.w, v.z, v.y, v.x}}; }}
    __device__ Pair paired(V v) {{ return {{v, {{{{v.x, v.y}}, {{v.z, v.w}}}}}}; }}
    template <class U> __device__ void exchange(U& a, U& b) {{ U kept = a; a = b; b = kept; }}
    """
    body = """
    __shared__ V s[32]; __shared__ Both both; __shared__ W pairs[4][8];
    V v = {1, 2, 3, 4}, none{}, some = {9}; const V same = v, list[2] = {{1, 2, 3, 4}, fixed[1]};
    s[i] = turned(v); pairs[i / 8][i % 8] = {T(i), 2};
    if (i == 0) { both.v = {T(4), T(3), T(2), T(1)}; Both other = both; both = other; both.x[0] = 7; }
    __syncthreads();
    Pair p = paired(s[31 - i]), q; q = paired(v); q = p; Pair& r = q; r = Pair{list[1], {}};
    exchange(none, some); exchange(q.a, p.a);
    auto* x = reinterpret_cast<T*>(&v); W* w = reinterpret_cast<W*>(&v); auto [a, b, c, d] = same;
    double* o = out + 12 * i;
    o[0] = s[i].x; o[1] = none.x + some.x + some.w; o[2] = both.x[0]; o[3] = both.v.w; o[4] = p.a.y; o[5] = q.a.x;
    o[6] = x[2]; o[7] = w[1].y; o[8] = a + b + c + d; o[9] = pairs[1][3].x; o[10] = p.b[1].x; o[11] = list[1].z;
    """
    run(body, check, head=head, out=out)
    np.testing.assert_array_equal(out.reshape(32, 12), np.tile([4, 9, 7, 1, 6, 4, 3, 4, 10, 11, 2, 7], (32, 1)))


def test_a_shared_array_of_vectors_is_not_set_to_zeros():
    for name in ("float4", "int2", "double4"):
        body = f"  __shared__ {name} s[32]; if (i < 16) s[i] = {{}}; __syncthreads(); out[i] = s[i].x;"
        with pytest.raises(KernelError, match="nothing has written yet"):
            run(body, True, out=np.zeros(32, np.float32))


def test_vectors_are_still_watched_in_braces():
    """Out of bounds and races are seen for the whole vector."""
    with pytest.raises(KernelError, match=r"writes 16 bytes of out, elements 128 to 131"):
        run("  ((float4*)out)[i + 1] = {1, 2, 3, 4};", True, out=np.zeros(128, np.float32))
    with pytest.raises(KernelError, match="race"):
        run("  ((float4*)out)[i / 2] = float4{1.0f * i, 2, 3, 4};", True, out=np.zeros(128, np.float32))
