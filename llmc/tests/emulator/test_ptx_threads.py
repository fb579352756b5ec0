"""Inline PTX about threads: special registers, shuffles, votes, barriers with a number."""

import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import run

CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])
LANES = np.arange(32)
REGISTERS = {
    "laneid": lambda i: i % 32,
    "warpid": lambda i: i % 64 // 32,
    "tid.x": lambda i: i % 64,
    "ntid.x": lambda i: i * 0 + 64,
    "ctaid.x": lambda i: i // 64,
    "nctaid.x": lambda i: i * 0 + 2,
    "nwarpid": lambda i: i * 0 + 2,
    "smid": lambda i: i * 0,
    "lanemask_eq": lambda i: 1 << i % 32,
    "lanemask_lt": lambda i: (1 << i % 32) - 1,
    "lanemask_le": lambda i: (2 << i % 32) - 1,
    "lanemask_gt": lambda i: 2**32 - (2 << i % 32),
    "lanemask_ge": lambda i: 2**32 - (1 << i % 32),
}


@CHECKED
def test_special_registers(check):
    out = np.zeros(128 * len(REGISTERS), np.uint32)
    statements = [
        f'  asm volatile("mov.u32 %0, %%{name};" : "=r"(out[{128 * k} + i]));' for k, name in enumerate(REGISTERS)
    ]
    statements.append(
        '  long long t, u; asm volatile("mov.u64 %0, %%clock64; mov.u64 %1, %%globaltimer;" : "=l"(t), "=l"(u));'
    )
    statements.append('  unsigned c; asm volatile("mov.u32 %0, %%clock;" : "=r"(c)); assert(t > 0 && u >= t);')
    run("\n".join(statements), check, 64, blocks=2, out=out)
    i = np.arange(128, dtype=np.int64)
    for name, got in zip(REGISTERS, out.reshape(-1, 128)):
        np.testing.assert_array_equal(got, REGISTERS[name](i), err_msg=name)


def shuffled(mode, b, c):
    """(values, inside) of shfl.sync for lanes that hold their own number, as PTX defines it."""
    segment, last = c >> 8 & 31, c & 31
    highest, lowest = (LANES & segment) | (last & ~segment), LANES & segment
    j = {
        "up": LANES - b,
        "down": LANES + b,
        "bfly": LANES ^ b,
        "idx": lowest | (b & ~segment & 31),
    }[mode]
    inside = j >= highest if mode == "up" else j <= highest
    return np.where(inside, j, LANES), inside


SHUFFLES = [
    ("up", 1, 0),
    ("up", 3, 0x1800),
    ("down", 2, 0x1F),
    ("down", 3, 0x181F),
    ("bfly", 16, 0x1F),
    ("bfly", 5, 0x1C1F),
]
SHUFFLES += [("idx", 7, 0x1F), ("idx", 9, 0x181F), ("bfly", 5, 0x3)]


@CHECKED
def test_shuffles(check):
    out, inside = np.zeros((2, len(SHUFFLES), 32), np.uint32)
    body = "".join(
        f'  asm volatile("{{ .reg .pred p; shfl.sync.{mode}.b32 %0|p, %2, {b}, {c}, 0xffffffff;"'
        f' "selp.u32 %1, 1, 0, p; }}"'
        f' : "=r"(out[{32 * k} + i]), "=r"(inside[{32 * k} + i]) : "r"(i));\n'
        for k, (mode, b, c) in enumerate(SHUFFLES)
    )
    run(body, check, out=out.reshape(-1), inside=inside.reshape(-1))
    for row, flags, (mode, b, c) in zip(out, inside, SHUFFLES):
        values, wanted = shuffled(mode, b, c)
        np.testing.assert_array_equal(row, values, err_msg=f"{mode} {b} {c}")
        np.testing.assert_array_equal(flags, wanted, err_msg=f"{mode} {b} {c}")


@CHECKED
def test_votes_and_reductions(check):
    out = np.zeros(5 * 32, np.uint32)
    run("""  unsigned ballot, any, all;
        asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %3, 5; vote.sync.ballot.b32 %0, p, -1;\\n"
                     "vote.sync.any.pred q, p, -1; selp.u32 %1, 1, 0, q;\\n"
                     "vote.sync.all.pred q, !p, -1; selp.u32 %2, 1, 0, q; }"
                     : "=r"(ballot), "=r"(any), "=r"(all) : "r"(i));
        out[i] = ballot; out[32 + i] = any; out[64 + i] = all;""", check, out=out)  # fmt: skip
    np.testing.assert_array_equal(out.reshape(5, 32)[:3, 0], [31, 1, 0])
    run("""  unsigned a, b, c, m;
        asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(a) : "r"(i));
        asm volatile("redux.sync.max.s32 %0, %1, -1;" : "=r"(b) : "r"(i - 40));
        asm volatile("redux.sync.xor.b32 %0, %1, -1;" : "=r"(c) : "r"(1 << i));
        asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(m) : "r"(i / 8));
        unsigned active; asm volatile("activemask.b32 %0;" : "=r"(active));
        asm volatile("bar.warp.sync 0xffffffff; membar.gl; fence.acq_rel.gpu; nanosleep.u32 20;" ::: "memory");
        out[i] = a; out[32 + i] = b; out[64 + i] = c; out[96 + i] = m;
        out[128 + i] = active;""", check, out=out)  # fmt: skip
    got = out.reshape(5, 32)
    assert (got[0] == 496).all() and (got[1] == 2**32 - 9).all() and (got[2] == 2**32 - 1).all()
    np.testing.assert_array_equal(got[3], np.array([255 << 8 * k for k in range(4)]).repeat(8))
    assert (got[4] == 2**32 - 1).all()


@CHECKED
def test_a_barrier_for_some_warps(check):
    out = np.zeros(64, np.int32)
    run("""  __shared__ int s[64];
        if (i < 64) {
            s[i] = i;
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[i] = s[63 - i];
            asm volatile("bar.sync %0, %1;" :: "r"(1), "n"(64) : "memory");
            s[i] = 0;
        }
        asm volatile("barrier.sync 0;");""", check, 96, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, np.arange(64)[::-1])


@CHECKED
def test_producers_arrive_and_consumers_wait(check):
    out = np.zeros(32, np.int32)
    run("""  __shared__ int s[32];
        if (i >= 32) {
            s[i - 32] = i;
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 2, 64;" ::: "memory");
            out[i] = s[31 - i];
        }""", check, 64, out=out)  # fmt: skip
    np.testing.assert_array_equal(out, np.arange(32, 64)[::-1])


def test_without_the_barrier_it_is_a_race():
    body = "  __shared__ int s[64]; s[i] = i;\n{}\n  out[i] = s[63 - i];"
    out = np.zeros(64, np.int32)
    with pytest.raises(KernelError, match="race in shared memory"):
        run(body.format(""), True, 64, out=out)
    run(body.format('asm volatile("bar.sync 3, 64;");'), True, 64, out=out)


def test_too_few_threads_at_a_barrier_with_a_number():
    body = '\n  if (i < 32)\n    asm volatile("bar.sync 1, 64;");'
    with pytest.raises(KernelError, match=r"deadlock.*line 6: .*waits for 64 threads, but only 32 come"):
        run(body, True, 64)


def test_trap_and_a_count_of_threads_that_is_no_warp():
    with pytest.raises(KernelError, match=r"crash: .*line 5.*trap"):
        run('\n  asm volatile("trap;");')
    with pytest.raises(KernelError, match="whole warps"):
        run('  asm volatile("bar.sync 1, 20;");')
