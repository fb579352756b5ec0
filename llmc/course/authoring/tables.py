"""Measure the stored tables again: what lessons 12 to 20 show of an H200 where there is no GPU.

    python3 -m llmc.course.authoring.tables FOLDER [h200_kernels …]

writes FOLDER/<table>.json, and to FOLDER/measured.json when and on what each was measured. All of them take ten minutes
on a Hopper GPU with CuPy, ml_dtypes, PyTorch (the peers) and NVIDIA's profiler ncu (the counters). Training runs, whose
losses are stored in two of the tables, are not made again.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from llmc import cuda
from llmc.course.exercises.layout import checkout

MEASURED = "measured.json"  # {table: {"date", "device", "cupy", "torch"}}
LESSON = "{python} -m llmc.course.lessons."
COUNT = "ncu --clock-control none --page raw --csv -k 'regex:matmul_v|attention|nvjet|gemm'"
TABLES = {
    "h200_kernels": "{python} -m llmc.cli bench --kernels --json > {file}",
    "h200_order": LESSON + "backward_kernels.measured {file}",
    "h200_matmul_kernels": LESSON + "matmul_kernels.ladders {file}",
    "h200_attention": LESSON + "attention_kernels.results {file}",
    "h200_training": LESSON + "gpu_training.results {file}",
    "h200_tensor_cores": (tensor := LESSON + "tensor_cores.measured") + " {file}",
    "h200_tensor_cores_counters": f"{COUNT} --metrics $({tensor} names) {tensor} launch > {{file}}.csv && "
    + f"{tensor} {{file}} {{file}}.csv && rm {{file}}.csv",
    "h200_mixed_training": LESSON + "mixed_training.results {file}",
}


def main(words=None):
    """Measure the tables that are named, by default all."""
    parser = ArgumentParser(prog="python3 -m llmc.course.authoring.tables")
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", metavar="table", help=", ".join(TABLES))
    chosen, lessons = parser.parse_args(words), checkout() / "notebooks"
    about = dict(date=date.today().isoformat(), device=cuda.name_of_gpu())
    about |= {name: version(package) for name, package in (("cupy", "cupy-cuda13x"), ("torch", "torch"))}
    for name in chosen.tables or TABLES:
        start, file = perf_counter(), chosen.folder.resolve() / f"{name}.json"
        subprocess.run(TABLES[name].format(python=sys.executable, file=file), shell=True, check=True, cwd=lessons)
        print(f"{name} {perf_counter() - start:.0f} s", flush=True)
        path = chosen.folder / MEASURED
        found = json.loads((path if path.exists() else lessons / "reference" / MEASURED).read_text(encoding="utf-8"))
        path.write_text(json.dumps(found | {name: about}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
