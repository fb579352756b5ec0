"""`llmc bench --kernels [NAME]`: every version of every kernel in llmc/kernels: is it right, and how near to the limit?

On a GPU: µs of a launch at the sizes of GPT-2 124M, and the share of the limit: a large copy or the library's float32
product, whichever bounds the kernel, both measured in the same run. On the emulator: what it moves, at small sizes.
Right means: as the "numpy" backend in float64 to 1e-5 of the largest element, and at the timed size as version 1.
"""

import json

from llmc import cuda
from llmc.kernel_bench.cases import ONE_ROW, SMALL
from llmc.kernel_bench.checks import check
from llmc.kernel_bench.table import head, line
from llmc.kernel_bench.times import add_times, library_in_float32, limits
from llmc.kernel_bench.versions import versions


def run(name: str, as_json: bool) -> int:
    """Measure and print; 1 when a kernel is wrong, else 0."""
    chosen = versions(name)
    rows = []
    for row in measure(chosen):
        rows.append(_rounded(row))
        if not as_json:
            print(*([head(row)] if len(rows) == 1 else []), line(row), sep="\n", flush=True)
    if as_json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row["right"] for row in rows) else 1


def measure(chosen):
    """Yield a dict for each version, those of one function side by side; `head` and `line` say what is in it."""
    on_gpu = cuda.device() == "gpu"
    with library_in_float32():
        bounds = limits() if on_gpu else {}
        for function in dict.fromkeys(version.function for version in chosen):
            group = [version for version in chosen if version.function == function]
            rows = check(group, ONE_ROW if on_gpu else SMALL)
            if on_gpu:
                add_times(group, rows, bounds)
            yield from rows


def _rounded(row) -> dict:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
