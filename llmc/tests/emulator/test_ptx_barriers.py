"""mbarrier and its relatives in inline PTX: forms, phases, what ends them; elect.sync, setmaxnreg, labels."""

import numpy as np
import pytest

from llmc.errors import KernelError
from llmc.tests.emulator.words import run

pytestmark = pytest.mark.usefixtures("emulator")
CHECKED = pytest.mark.parametrize("check", [True, False], ids=["checked", "plain"])

START = """  __shared__ unsigned long long bar; __shared__ int s[64];
  unsigned at = __cvta_generic_to_shared(&bar);
  if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], {count};" ::"r"(at) : "memory");
  __syncthreads();
"""
TEST = '"{{ .reg .pred p; mbarrier.{form}.b64 p, {operands}; selp.u32 %0, 1, 0, p; }}"'
WAYS = {
    "parity": ("test_wait.parity.shared::cta", '[%1], %2", "r"(at), "r"(0)'),
    "sticky parity": ("try_wait.parity.acquire.cta.shared::cta", '[%1], %2, 1000", "r"(at), "r"(0)'),
    "state": ("test_wait.shared", '[%1], %2", "r"(at), "l"(state)'),
    "state, generic address": ("try_wait", '[%1], %2", "l"(&bar), "l"(state)'),
}


@CHECKED
@pytest.mark.parametrize("way", WAYS)
def test_waits(way, check):
    form, operands = WAYS[way]
    template, inputs = operands.split('", ')
    test = TEST.format(form=form, operands=template)
    body = (
        START.format(count=64)
        + f"""
  s[i] = i * i; unsigned long long state; unsigned done = 0;
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
  while (!done) asm volatile({test} : "=r"(done) : {inputs} : "memory");
  out[i] = s[63 - i];"""
    )
    out = np.zeros(64, np.int32)
    run(body, check, 64, out=out)
    np.testing.assert_array_equal(out, np.arange(64)[::-1] ** 2)


@CHECKED
def test_counts_drops_and_bytes(check):
    body = (
        START.format(count=6)
        + """
  unsigned phases = 0;
  auto parity = [&](unsigned which) {
      unsigned done;
      asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done) : "r"(at), "r"(which) : "memory");
      return done;
  };
  if (i == 0) {
      out[0] = parity(0) * 10 + parity(1);  // nothing yet: phase 0 is not over, "the one before" is
      asm volatile("mbarrier.arrive.shared.b64 _, [%0], 4;" ::"r"(at));
      asm volatile("mbarrier.arrive_drop.shared.b64 _, [%0];" ::"r"(at));
      out[1] = parity(0);
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 48;" ::"r"(at));
      out[2] = parity(0);
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], 16;" ::"r"(at));
      asm volatile("mbarrier.complete_tx.shared.b64 [%0], 48;" ::"r"(at));
      out[3] = parity(0);
      asm volatile("mbarrier.complete_tx.shared.b64 [%0], 16;" ::"r"(at));
      out[4] = parity(0);
      asm volatile("mbarrier.arrive.shared.b64 _, [%0], 5;" ::"r"(at));  // one has left for good
      out[5] = parity(1);
      asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at));
  }"""
    )
    out = np.zeros(6, np.int32)
    run(body, check, out=out)
    np.testing.assert_array_equal(out, [1, 0, 0, 0, 1, 1])


def test_copies_of_the_older_kind_that_an_mbarrier_counts():
    body = (
        START.format(count=32)
        + """
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(s + i)), "l"(x + i));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at));
  asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L; }" ::"r"(at) : "memory");
  out[i] = s[31 - i];"""
    )
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    run(body, out=out, x=x)
    np.testing.assert_array_equal(out, x[::-1])


@CHECKED
def test_one_thread_is_elected(check):
    body = """  unsigned leader, chosen = 0;
  asm volatile("{ .reg .pred p; elect.sync %0|p, %2; @p mov.u32 %1, 1; }" : "=r"(leader), "+r"(chosen) : "r"(~0u));
  out[i] = chosen * 100 + leader;"""
    out = np.zeros(64, np.int32)
    run(body, check, 64, out=out)
    assert out.tolist() == [100, *[0] * 31] * 2


@CHECKED
def test_labels_and_branches(check):
    body = """  int n = 0;
  for (int round = 0; round < 2; round++)
      asm volatile("{ .reg .pred p; .reg .u32 k; mov.u32 k, 0; AGAIN: add.u32 k, k, 1; add.u32 %0, %0, k;"
                   "setp.lt.u32 p, k, %1; @p bra.uni AGAIN; bra DONE; add.u32 %0, %0, 1000; DONE: }"
                   : "+r"(n) : "r"(i));
  out[i] = n;"""
    out = np.zeros(32, np.int32)
    run(body, check, out=out)
    np.testing.assert_array_equal(out, [2 * sum(range(1, max(i, 1) + 1)) for i in range(32)])


def test_a_block_is_a_cluster():
    body = """  __shared__ int s[32]; unsigned rank, of, id, there;
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40; griddepcontrol.wait; griddepcontrol.launch_dependents;");
  asm("mov.u32 %0, %cluster_ctarank; mov.u32 %1, %cluster_nctarank; mov.u32 %2, %clusterid.x;"
      : "=r"(rank), "=r"(of), "=r"(id));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(s + i)), "r"(0));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(10 * of + rank + id) : "memory");
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  out[i] = s[(i + 1) % 32];"""
    out = np.zeros(32, np.int32)
    run(body, out=out)
    assert (out == 10).all()


def stopped(body, said, check=True):
    with pytest.raises(KernelError, match=said):
        run(body, check, 64, out=np.zeros(64, np.int32))


@CHECKED
def test_what_never_ends_is_named_with_its_numbers(check):
    wait = 'asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra L; }" ::"r"(at));'
    arrive = 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at));'
    stopped(START.format(count=64) + f"if (i < 60) {arrive} {wait}", "deadlock(?s:.*)but 60 of its 64 arrivals", check)
    poll = 'asm volatile("{ .reg .pred p; L: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra L; }" ::"r"(at));'
    if check:
        stopped(START.format(count=64) + f"if (i < 60) {arrive} {poll}", "mbarrier bar.0. to end, but 60 of its 64")
    expect = 'asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(at));'
    stopped(START.format(count=1) + f"if (i == 0) {expect} {wait}", "4,096 bytes were expected and 0 arrive", check)


def test_wrong_numbers():
    stopped(START.format(count="0"), "with something other than a count from 1 to 1048575")
    stopped('  asm volatile("setmaxnreg.inc.sync.aligned.u32 100;");', "a multiple of 8")
    mapped = '  unsigned a; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(a) : "r"(i)); out[0] = a;'
    stopped(mapped, "another block of a cluster")
