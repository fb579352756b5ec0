"""asm statements as text: how they are found, read and translated, and what is refused with which sentence."""

import re

import numpy as np
import pytest

from llmc.cuda.emulator.compiling.ptx.instructions import Brace, Instruction, Registers, parse
from llmc.cuda.emulator.compiling.ptx.matching import canonical, forms
from llmc.cuda.emulator.compiling.ptx.registers import TYPES
from llmc.cuda.emulator.compiling.ptx.statements import statements
from llmc.cuda.emulator.compiling.ptx.translation import problem, translate
from llmc.cuda.emulator.compiling.text import line_at, mask
from llmc.cuda.emulator.modules import RawModule
from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])


def found(code):
    return list(statements(code, mask(code)))


def test_parts_of_a_statement():
    code = """x = 1; __asm__ __volatile__("mov.u32 %0, %1;\\n\\t" /* and */ // so on
        "add.u32 %0, %0, %%laneid;" : [out] "=&r"(a[f(1, ":")]), "+f"(y) : "n"(sizeof(int)) : "memory"); z = 2;"""
    (only,) = found(code)
    assert code[only.start : only.end].startswith("__asm__") and code[only.end :] == "; z = 2;"
    assert only.template == "mov.u32 %0, %1;\n\tadd.u32 %0, %0, %laneid;"
    assert [code[only.places[k]] for k in (0, 15, 17)] == ["m", "\\", "a"]
    assert [each[:2] for each in only.outputs] == [("=&r", 'a[f(1, ":")]'), ("+f", "y")]
    assert only.outputs[0].name == "out" and only.inputs[0][:2] == ("n", "sizeof(int)")


def test_raw_strings_and_statements_without_operands():
    raw, bare = found('asm(R"(bar.sync 0;\n  trap;)"); asm volatile("membar.gl;" ::: "memory");')
    assert raw.template == "bar.sync 0;\n  trap;" and not raw.outputs
    assert bare.template == "membar.gl;" and not bare.inputs


def test_parts_of_a_template():
    items = parse("{ .reg .pred p<2>, q; // not; this\n @!p1 ld.v2.f32 {%0, %1}, [%2 + 8]; /* ; */ } bar.sync 0;")
    assert items[0] == Brace(0, True) and items[3].opens is False
    assert items[1] == Registers(2, "pred", ("p0", "p1", "q"))
    assert items[2][1:] == ("!p1", "ld.v2.f32", ("{%0, %1}", "[%2 + 8]"))
    assert isinstance(items[4], Instruction) and items[4].operands == ("0",)


@pytest.mark.parametrize(
    ("opcode", "short"),
    [
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.f32", "ld.global.v4.f32"),
        ("ld.relaxed.gpu.global.u32", "ld.global.volatile.u32"),
        ("ld.global.acquire.gpu.b32", "ld.global.volatile.b32"),
        ("st.cg.v2.u64", "st.v2.u64"),
        ("red.release.gpu.global.add.s32", "red.global.add.s32"),
        ("atom.add.noftz.f16x2", "atom.add.f16x2"),
        ("cp.async.ca.shared::cta.global.L2::128B", "cp.async.ca.shared.global"),
        ("ex2.approx.ftz.f32", "ex2.approx.f32"),
        ("fence.acq_rel.gpu", "fence.acq_rel.gpu"),
    ],
)
def test_hints_are_left_out(opcode, short):
    assert canonical(opcode) == short


def test_the_table_names_only_types_that_exist():
    plain = [
        spec
        for form in forms()
        for spec in form.operands
        if not set("{[TDF") & set(spec) and spec not in ("n", "hint", "sum")
    ]
    for spec in plain:
        name = spec.lstrip("=~")
        assert name in TYPES or name.rpartition("x")[0] in TYPES, spec


def test_lines_stay_where_they_are():
    code = 'a;\nasm("mov.b32 %0, 1;"\n    "add.u32 %0, %0, 1;"\n    :\n    "+r"(x)\n);\nb;'
    lines = translate(code, mask(code)).split("\n")
    assert len(lines) == 7 and lines[0] == "a;" and lines[6] == "b;"
    assert "mov<" in lines[1] and "add<" in lines[2] and "add<" not in lines[1] and "out(" in lines[5]


# ------------------------------------------------------------------------------------------------------- it runs

WRITTEN = {  # in many ways: y = x + 1
    "named operands": 'asm("add.s32 %[y], %[x], 1;" : [y] "=r"(y) : [x] "r"(x));',
    "raw string": 'asm(R"(add.s32 %0,\n  %1, 1;)" : "=r"(y) : "r"(x));',
    "comments": 'asm("/* y = */ add.s32 %0, %1, 1; // x + 1;" : "=r"(y) : "r"(x));',
    "in place": 'y = x; asm("add.s32 %0, %0, 1;" : "+r"(y));',
    "two statements in one": 'asm("mov.b32 %0, %1;add.s32 %0, %0, 1;" : "=&r"(y) : "r"(x) : "cc");',
    "an own register": 'asm("{ .reg .s32 t; add.s32 t, %1, 2; sub.s32 %0, t, 1; }" : "=r"(y) : "r"(x));',
    "no comma": 'asm("add.s32 %0, %1, %2;" : "=r"(y) : "r"((x)) "r"(1));',
    "scopes": 'asm("{ .reg .b32 t; mov.b32 t, 1; { .reg .b32 t; mov.b32 t, 5; }\\n add.u32 %0, %1, t; }"'
    ' : "=r"(y) : "r"(x));',
    "a constant": 'asm("add.s32 %0, %1, %2;" : "=r"(y) : "r"(x), "n"(sizeof(char)));',
    "after if": 'if (x < 0) asm("mov.s32 %0, 0;" : "=r"(y)); else asm("add.s32 %0, %1, 1;" : "=r"(y) : "r"(x));',
    "macro": "ADD(y, x);",
    "template": "y = add<1>(x);",
    "lambda": 'auto f = [](int v) { asm("add.s32 %0, %0, 1;" : "+r"(v)); return v; }; y = f(x);',
    "predicate": 'asm("{ .reg .pred p; setp.eq.s32 p, %1, %1; @p add.s32 %0, %1, 0x1; }" : "=r"(y) : "r"(x));',
    "barrier for the compiler": 'asm volatile("" ::: "memory"); y = x + 1; asm volatile("" : "+r"(y));',
}
HEAD = '#define ADD(y, x) \\\n  asm volatile("add.s32 %0, %1, 1;" \\\n : "=r"(y) : "r"(x))\n'
HEAD += 'template <int n> __device__ int add(int x) { asm("add.s32 %0, %0, %1;" : "+r"(x) : "n"(n)); return x; }\n'


@CHECKED
def test_many_ways_to_write_it(check):
    out = np.zeros((len(WRITTEN), 32), np.int32)
    body = "".join(
        f"  {{ int x = i, y = 0; {text} out[{32 * k} + i] = y; }}\n" for k, text in enumerate(WRITTEN.values())
    )
    run(body, check, head=HEAD, out=out.reshape(-1))
    for name, got in zip(WRITTEN, out):
        np.testing.assert_array_equal(got, np.arange(32) + 1, err_msg=name)


def test_a_statement_with_preprocessor_lines_inside():
    gap = "\n" * 20  # so many that the preprocessor writes a note of where it is
    code = f"""extern "C" __global__ void k(int* x) {{
    int y = threadIdx.x;
    asm("add.s32 %0, %0, 1;"{gap}
#if __CUDA_ARCH__ >= 900{gap}
        "exit;"
#else
        "add.s32 %0, %0, %1;"{gap}
#endif
        : "+r"(y) :{gap}
        "r"(y));
    x[threadIdx.x] = y;
    x[64 + threadIdx.x] = 0;
}}"""
    x = np.zeros(64, np.int32)
    with pytest.raises(KernelError, match=rf"line {code.count(chr(10))}: .*x\[64\]"):
        RawModule(code=code).get_function("k")((1,), (32,), (x,))
    np.testing.assert_array_equal(x[:32], 2 * np.arange(32) + 1)


def test_ptx_in_a_header_of_the_user(tmp_path):
    (tmp_path / "mine.cuh").write_text(
        '#pragma once\n__device__ int lane() {\n  int l; asm("mov.u32 %0, %laneid;" : "=r"(l)); return l; }\n'
        '__device__ int leave() {\n\n  asm("exit;"); return 0; }\n'
    )
    code = '#include "mine.cuh"\nextern "C" __global__ void k(int* x) { x[threadIdx.x] = lane(); }\n'
    code += 'extern "C" __global__ void wrong(int* x) { x[0] = leave(); }\n'
    module, x = RawModule(code=code, options=(f"-I{tmp_path}",)), np.zeros(32, np.int32)
    module.get_function("k")((1,), (32,), (x,))
    np.testing.assert_array_equal(x, np.arange(32))
    with pytest.raises(KernelError, match="^mine.cuh, line 6: the emulator does not run the PTX instruction `exit`"):
        module.get_function("wrong")((1,), (32,), (x,))


# ------------------------------------------------------------------------------------------------- what is refused

REFUSED = {  # statement: (line in it, what is said)
    'asm("exit;");': (
        1,
        r"does not run the PTX instruction `exit`; it supports cp\.async, ldmatrix.*; write it in CUDA C",
    ),
    'asm("mov.u32 %0, 1;\\n"\n    "tensormap.cp_fenceproxy.b64 [%1], 4;" : "=r"(y) : "r"(x));': (
        2,
        r"`tensormap\.cp_fenceproxy",
    ),
    'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%0},{%0},{%0},{%0,%0};" : "=d"(d));': (
        *(1, r"for mma\.sync it supports m16n8k4 and m16n8k8 of tf32"),
    ),
    'asm("LOOP: bra AROUND;");': (1, "branches to `AROUND`, but has no such label"),
    'asm("mov.u32 %0, 1" : "=r"(y));': (1, "`mov.u32 %0, 1` does not end with a `;`"),
    'asm("add.u32 %0, %1;" : "=r"(y) : "r"(x));': (1, "`add.u32` has 3 operands, not 2"),
    'asm("add.u32 %0, %1, %2;" : "=r"(y) : "r"(x));': (1, "needs a register that exists where it has `%2`"),
    'asm("add.f32 %0, %0, 1;" : "=f"(f));': (1, r"needs a float \(as a constant, 1\.0"),
    'asm("add.u32 %0, %0, 1;" : "+f"(f));': (1, "needs a register of bits .* where it has `%0`"),
    'asm("add.u64 %0, %0, 1;" : "+r"(y));': (1, "needs a register of 64 bits where it has `%0`"),
    'asm("cp.async.wait_group %0;" :: "r"(x));': (1, 'needs a constant .*constraint "n"'),
    'asm("ld.global.f32 %0, [%1];" : "=f"(f) : "r"(x));': (1, "an address in brackets, a 64-bit register"),
    'asm("ld.global.f32 %0, %1;" : "=f"(f) : "l"(&f));': (1, "needs an address in brackets"),
    'asm("cvt.rna.tf32.f32 %0, %0;" : "+f"(f));': (1, "needs a register of bits"),
    'asm("{ mov.u32 %0, 1;" : "=r"(y));': (1, "a `{` that is never closed"),
    'asm("mov.u32 %0, 1; }" : "=r"(y));': (1, "one `}` too many"),
    'asm("@p mov.u32 %0, 1;" : "=r"(y));': (1, "needs a predicate"),
    'asm("mov.u32 %0, 1;" : "=q"(y));': (1, 'constraints "h", "r", "l", "f", "d" and "n", not "q"'),
    'asm("mov.u32 %0, 1;" : y);': (1, 'not "y"'),
    'asm("{ .reg .b128 t; }");': (1, r"no PTX registers of type \.b128"),
}


@pytest.mark.parametrize(("code", "expected"), REFUSED.items(), ids=REFUSED)
def test_what_is_refused_says_so_with_its_line(code, expected):
    line, said = expected
    (only,) = found(code)
    position, sentence = problem(code, only)
    assert re.search(said, sentence) and line_at(code, position) == line, sentence


def test_a_refusal_is_one_sentence_about_the_kernel_that_is_launched():
    code = """extern "C" __global__ void k(unsigned* x) {
        asm volatile("mov.u32 %0, 7;" : "=r"(x[0])); }
    extern "C" __global__ void wrong(unsigned* x) {
        asm volatile("mov.u32 %0, 7;\\n"
                     "cp.async.wait_group %1;" : "=r"(x[0]) : "r"(x[1])); }"""
    module, x = RawModule(code=code), np.zeros(2, np.uint32)
    module.get_function("k")((1,), (1,), (x,))
    assert x[0] == 7
    with pytest.raises(
        KernelError, match='^line 5: the PTX instruction `cp.async.wait_group` needs .*"n".*`%1`.$'
    ) as error:
        module.get_function("wrong")((1,), (1,), (x,))
    assert error.value.line == 5


def test_operands_of_the_wrong_size_or_kind_are_named():
    for text in ('"r"(1ull)', '"r"((char)1)', '"l"(i)', '"f"(1.0)', '"r"(1.0f)', '"h"(i)'):
        with pytest.raises(KernelError, match=r'line 4: .*(asm operand|register "f"|a float goes|only a float)'):
            run(f'  asm("{{ .reg .b32 t; mov.b32 t, 1; }}" :: {text});', False)
