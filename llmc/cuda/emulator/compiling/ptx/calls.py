"""The C++ statement for a PTX instruction."""

import re

from llmc.cuda.emulator.compiling.ptx.instructions import Instruction, PtxError
from llmc.cuda.emulator.compiling.ptx.matching import Form, matching
from llmc.cuda.emulator.compiling.ptx.operands import NAMES, Operand, wrong
from llmc.cuda.emulator.compiling.ptx.registers import Register

ALL = (
    "it supports cp.async, ldmatrix, stmatrix, mma.sync, wmma, wgmma, mbarrier, ld, st, atom, red, cvta, cvt, "
    "shfl.sync, bar.sync and plain arithmetic"
)
OF = {  # the first word of an instruction: what is known of its kind
    "cp": "for cp.async it supports .ca and .cg, commit_group, wait_group and wait_all; bulk copies and tensor copies "
    "in tile mode into shared memory with an mbarrier, and out of it with a bulk_group",
    "wgmma": "for wgmma it supports m64nNk16 of f16 and bf16, m64nNk8 of tf32 and m64nNk32 of e4m3 and e5m2 "
    "(n: 8 to 256), fence, commit_group and wait_group",
    "mbarrier": "for mbarrier it supports init, inval, arrive, arrive_drop, arrive.expect_tx, expect_tx, complete_tx, "
    "try_wait and test_wait",
    "ldmatrix": "for ldmatrix it supports .m8n8.x1, .x2 and .x4 of .b16, also with .trans",
    "stmatrix": "for stmatrix it supports .m8n8.x1, .x2 and .x4 of .b16, also with .trans",
    "mma": "for mma.sync it supports m16n8k4 and m16n8k8 of tf32, m16n8k8 and m16n8k16 of f16 and bf16, m16n8k16 and "
    "m16n8k32 of s8 and u8, m16n8k32 of e4m3 and e5m2",
    "wmma": "for wmma it supports m16n16k16 of f16 and bf16 with sums in f32",
    "ld": "for ld it supports global and shared memory, one element or .v2 and .v4",
    "st": "for st it supports global and shared memory, one element or .v2 and .v4",
    "cvt": "for cvt it supports integers, f16, bf16, f32, f64, f16x2 and bf16x2 from f32, tf32 by .rna, and e4m3x2 and "
    "e5m2x2 by .rn.satfinite from f32 and f16x2, and to f16x2",
    "fence": "for fence it supports .sc, .acq_rel, .proxy.async and .mbarrier_init",
    "bar": "for bar it supports sync, arrive and warp.sync",
    "barrier": "for barrier it supports sync, arrive and cluster.arrive and .wait",
}


def call(instruction: Instruction, registers: dict[str, Register]) -> str:
    """The C++ statement for an instruction, `llmc_ptx::put(llmc_ptx::add<llmc_ptx::f32>(…), llmc_r0);`."""
    first = None
    for form, groups in matching(instruction.opcode):
        try:
            return _call(form, groups, instruction, registers)
        except PtxError as error:
            first = first or error
    if first:
        raise first
    what = f"the emulator does not run the PTX instruction `{instruction.opcode}`"
    raise PtxError(instruction.position, f"{what}; {known(instruction.opcode)}; write it in CUDA C++")


def _call(form: Form, groups, instruction, registers):
    specs = [re.sub(r"[A-Z]", lambda letter: groups[letter[0]], each.format(**groups)) for each in form.operands]
    if len(specs) != len(instruction.operands):
        raise wrong(instruction, f"has {len(specs)} operands, not {len(instruction.operands)}")
    results, arguments = [], []
    for spec, text in zip(specs, instruction.operands):
        operand = Operand(instruction, text, registers)
        if spec.startswith("="):
            results += operand.results(spec[1:])
        elif spec == "hint":
            operand.source("b64")
        else:
            arguments.append(operand.argument(spec, groups))
    name = form.call.format(**groups)
    name = name if name.startswith("::") else NAMES + re.sub(r"(?<=[<, ])(?=[a-z])(?!true|false)", NAMES, name)
    text = f"{name}({', '.join(arguments)})"
    return f"{NAMES}put({text}, {', '.join(results)});" if results else f"{text};"


def known(opcode: str) -> str:
    """What the emulator does know of this kind of instruction."""
    return OF.get(opcode.split(".")[0], ALL)
