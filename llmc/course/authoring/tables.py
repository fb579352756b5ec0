"""Measure the stored tables again: what lessons 12 to 25 show of an H200 where there is no GPU.

    python3 -m llmc.course.authoring.tables FOLDER [h200_kernels …]

writes FOLDER/<table>.json, each measured in a process of its own, and to FOLDER/measured.json when and on what. All of
them take twelve minutes on a Hopper GPU with CuPy, ml_dtypes, PyTorch and cuDNN (the peers) and NVIDIA's profiler ncu
(the counters), and h200_fp8_steps as long again as PyTorch compiles for. Training runs, whose losses are stored in two
of the tables, are not repeated; those of fp8 are.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from llmc import cuda
from llmc.bench import kernels
from llmc.bench.kernels.versions import versions
from llmc.course.exercises.layout import checkout
from llmc.course.lessons.attention_kernels import results as attention
from llmc.course.lessons.backward_kernels import measured as order
from llmc.course.lessons.fp8_training import results as fp8
from llmc.course.lessons.gpu_training import results as training
from llmc.course.lessons.matmul_kernels import ladders as matmul
from llmc.course.lessons.mixed_training import results as mixed
from llmc.course.lessons.tensor_cores import measured as tensor_cores
from llmc.errors import UserError

MEASURED = "measured.json"  # {table: {"date", "device", "cupy", "torch"}}
TABLES = {
    "h200_kernels": lambda: list(kernels.measure(versions())),
    "h200_order": order.measure,
    "h200_matmul_kernels": matmul.measure,
    "h200_attention": lambda: {"device": cuda.name_of_gpu(), "rows": attention.measure()},
    "h200_training": training.measure,
    "h200_tensor_cores": tensor_cores.rows,
    "h200_tensor_cores_counters": tensor_cores.counters,
    "h200_mixed_training": mixed.measure_all,
    "h200_fp8_training": fp8.measure,
    "h200_fp8_steps": fp8.steps,
}


def main(words=None):
    """Measure the named tables, by default all of them. Raises UserError without a GPU."""
    parser = ArgumentParser(prog="python3 -m llmc.course.authoring.tables")
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", metavar="table", help=", ".join(TABLES))
    chosen = parser.parse_args(words)
    if cuda.device() != "gpu":
        raise UserError("only a GPU can be measured, and this machine has none that CuPy can use.")
    folder, names = chosen.folder.resolve(), chosen.tables or [*TABLES]
    folder.mkdir(parents=True, exist_ok=True)
    if len(names) == 1:
        return store(folder, *names)
    for name in names:
        start = perf_counter()
        subprocess.run([sys.executable, "-m", "llmc.course.authoring.tables", folder, name], check=True)
        print(f"{name} {perf_counter() - start:.0f} s", flush=True)


def store(folder, name):
    """Measure one table here, and write it and what is known about it."""
    os.chdir(checkout() / "notebooks")
    (folder / f"{name}.json").write_text(json.dumps(TABLES[name]()) + "\n", encoding="utf-8")
    about = dict(date=date.today().isoformat(), device=cuda.name_of_gpu())
    about |= {package.split("-")[0]: version(package) for package in ("cupy-cuda13x", "torch")}
    path = folder / MEASURED
    found = json.loads((path if path.exists() else Path("reference") / MEASURED).read_text(encoding="utf-8"))
    path.write_text(json.dumps(found | {name: about}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"tables: {error}")
