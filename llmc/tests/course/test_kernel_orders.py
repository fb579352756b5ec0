"""Where a barrier goes into a kernel's text, and how two of its lines change places."""

import pytest

from llmc.course.old.kernel_checks import orders
from llmc.cuda.emulator.findings.barrier_advice import Place

BAR = "__syncthreads();"
ROUNDS = """__global__ void f(float* s)
{
    for (int r = 0; r < 4; r++) {
        s[r] = 1;
        __syncthreads();
        s[0] = s[r + 1];
    }
    for (int r = 0; r < 4; r++)
        if (r > 1) s[r] = 1;
        else s[r] = 2;
    if (s[0] > 1) {
        g(s);
        s[2] = s[1];
    }
    else
        s[3] = 1;
    if (s[0] > 2) {
        g(s);
        s[2] = s[1];
    }
}
"""


@pytest.mark.parametrize(
    "place, lines",
    [
        (Place("between", 0, (), 4, 6), {6: f"{BAR} s[0] = s[r + 1];"}),
        (Place("between", 0, (), 4, 9), {8: f"{BAR} for (int r = 0; r < 4; r++)"}),
        (Place("between", 17, (), 18, 19), {19: f"}} {BAR} if (s[0] > 2) {{ s[2] = s[1];"}),
        (Place("between", 11, (), 12, 13), {13: f"{BAR} s[2] = s[1];"}),  # with an `else`
        (Place("end of a loop", 3, ()), {7: f" {BAR} }}"}),
        (Place("end of a loop", 8, ()), {8: "for (int r = 0; r < 4; r++) {", 10: f"else s[r] = 2; {BAR} }}"}),
        (Place("after a call", 12, ()), {12: f"g(s); {BAR} "}),
    ],
)
def test_a_barrier_at_a_place(place, lines):
    changed = orders.with_barrier(ROUNDS, place, BAR).splitlines()
    assert len(changed) == len(ROUNDS.splitlines())
    differing = {k: b.strip() for k, (a, b) in enumerate(zip(ROUNDS.splitlines(), changed), 1) if a != b}
    assert {k: "".join(text.split()) for k, text in differing.items()} == {
        k: "".join(text.split()) for k, text in lines.items()
    }


def test_two_loops_and_another_order():
    changed = orders.in_two_loops(ROUNDS, 4, 6, BAR).splitlines()
    assert changed[4].split() == ["}", BAR, *"for (int r = 0; r < 4; r++) {".split()]
    code = ROUNDS.replace("s[r] = 1;", "int k = r + 1; s[k] = 1;", 1)
    assert "for (int r = 0; r < 4; r++) { int k = r + 1;\n" in orders.in_two_loops(code, 4, 6, BAR)
    changed = orders.exchanged(ROUNDS, 4, 6, BAR).splitlines()
    assert changed[3].strip() == f"s[0] = s[r + 1]; {BAR} s[r] = 1;" and not changed[5].strip()
    assert orders.parted(ROUNDS, 12, 16) is None  # two branches of one statement
    assert orders.in_two_loops(ROUNDS, 12, 13, BAR) is None
