"""Lesson 19: what a GPU's own counters say of every version, by NVIDIA's profiler ncu.

    counters="python3 -m llmc.course.lessons.tensor_cores.counters"
    ncu --clock-control none --page raw --csv -k 'regex:matmul_v|attention|nvjet|gemm' --metrics $($counters names) \
        $counters launch > raw.csv
    $counters raw.csv OUT.json

The second command launches each version once and counts, which needs a Hopper GPU; the third reads the counts. A row:
{"kernel", "us", "busy": % of the time that tensor cores compute, "conflicts": extra passes through the banks of shared
memory, "registers" of a thread, "waits": what keeps a warp waiting most}.
"""

import csv
import json
import sys
from pathlib import Path

from llmc import cuda
from llmc.course.lessons.tensor_cores import measured
from llmc.errors import UserError

STORED = Path("reference/h200_tensor_cores_counters.json")  # in the lessons' folder
TIME, REGISTERS = "gpu__time_duration.sum", "launch__registers_per_thread"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# ncu's names for what a warp waits for, in words
WAITS = {"long_scoreboard": "global memory", "short_scoreboard": "shared memory", "barrier": "other warps"}
WAITS |= {"wait": "its last instruction", "mio_throttle": "room for requests", "math_pipe_throttle": "a free pipe"}
WAITS |= {"gmma": "wgmma"}


def launch():
    """Each version of the product at 4096 x 4096 x 4096, the library's, and each version of attention, once."""
    versions = measured.able()
    if cuda.device() != "gpu" or 9 not in versions:
        raise UserError("only a Hopper GPU has all versions to count.")
    measured.products(measured.SQUARE, versions, time=False)
    measured.heads(measured.HEADS, (1, 2, 3), time=False)


def rows(path) -> list[dict]:
    """What ncu has written, a row for each kernel that it saw first. Raises UserError if it is something else."""
    lines = list(csv.reader(Path(path).read_text(encoding="utf-8").splitlines()))
    start = next((i for i, line in enumerate(lines) if line[:1] == ["ID"]), None)
    if start is None:
        raise UserError(f"{path} is not what `ncu --page raw --csv` writes: there is no line of names.")
    found = {}
    for line in lines[start + 2 :]:  # below the names are units
        row = dict(zip(lines[start], line))
        found.setdefault(row["Kernel Name"], row)
    return [_row(row) for row in found.values()]


def _row(row):
    def number(name):
        return float(row.get(name, "0").replace(",", "") or 0)

    stalls = {words: number(STALL.format(name)) for name, words in WAITS.items()}
    return {
        "kernel": row["Kernel Name"],
        "us": round(number(TIME) / 1e3, 1),
        "busy": round(number(BUSY), 1),
        "conflicts": int(number(CONFLICTS)),
        "registers": int(number(REGISTERS)),
        "waits": max(stalls, key=stalls.get),
    }


def stored(path=STORED) -> list[dict]:
    """The rows of a file that `main` has written."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def text(found) -> str:
    """The rows as a table."""
    lines = [f"{'kernel':<30}{'µs':>7}{'tensor cores':>14}{'extra passes':>14}{'registers':>11}  most wait for"]
    for row in found:
        name = row["kernel"] if row["kernel"].startswith(("matmul", "attention")) else "the library's"
        counts = f"{row['busy']:>13.0f}%{row['conflicts']:>14,}{row['registers']:>11}  {row['waits']}"
        lines.append(f"{name:<30}{row['us']:>7,.0f}{counts}")
    return "\n".join(lines)


def main(what, path=None):
    """As above."""
    if path:
        Path(path).write_text(json.dumps(rows(what), indent=1) + "\n", encoding="utf-8")
    elif what == "names":
        print(",".join([TIME, BUSY, CONFLICTS, REGISTERS, *map(STALL.format, WAITS)]))
    else:
        launch()


if __name__ == "__main__":
    main(*sys.argv[1:])
