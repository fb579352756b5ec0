"""The tables that the lessons show of an H200 are of the kernels that run today, and say when they were measured."""

import json
import re
from importlib import import_module

from llmc.bench.kernels.versions import default, versions
from llmc.course.exercises.layout import checkout
from llmc.kernels import FOLDER, LAYERS

REFERENCE = checkout() / "notebooks" / "reference"


def table(name):
    return json.loads((REFERENCE / f"{name}.json").read_text(encoding="utf-8"))


def chosen() -> dict:
    """{function: the versions that run, on GPUs without tensor cores and with them}."""
    found = {}
    for module in (import_module(f"llmc.kernels.{layer}") for layer in LAYERS):
        tensor = getattr(module, "TENSOR_CORES", {})
        for function in getattr(module, "VERSIONS", {}):
            found[function] = {default(module, function), *tensor.get(function, ())}
    return found


def test_every_table_says_when_and_on_what_it_was_measured():
    about = table("measured")
    assert set(about) == {path.stem for path in REFERENCE.glob("h?00_*.json")}
    assert all({"date", "device", "cupy", "torch"} == set(each) for each in about.values())


def test_ladders_have_all_versions_and_no_others():
    run, last = chosen(), {}
    stored = {row["kernel"] for row in table("h200_kernels")}
    assert {name for name in stored if "library" not in name} == {v.name for v in versions() if v.number} | {
        f"{function}_v{k}" for function, some in run.items() for k in sorted(some)[1:]
    }
    for row in table("h200_attention")["rows"]:
        if row["by"].startswith("llmc"):
            last[row["what"]] = max(last.get(row["what"], 0), int(row["by"].removeprefix("llmc v")))
    functions = {"forward": "attention_forward", "backward": "attention_backward", "decoding": "attention_cached"}
    assert last == {what: max(run[function]) for what, function in functions.items()}
    assert {r["version"] for r in table("h200_matmul_kernels")} == {"library"} | {f"v{k}" for k in range(1, 10)}
    for function in ("bias_backward", "layernorm_backward"):
        assert max(int(name[-1]) for name in table("h200_order")["runs"] if function in name) == max(run[function])


def test_steps_launched_the_kernels_that_run_today():
    launched = [name.rsplit("_v", 1) for name in table("h200_training")["launches"]["kernels"]]
    for function, run in chosen().items():
        mine = {int(version) for name, version in launched if re.match(rf"{function}(_|$)(?!by)", name)}
        assert not mine or mine & run, function
    kernels = {name for file in FOLDER.glob("**/*.cu") for name in re.findall(r"\b(\w+_v\d+)\(", file.read_text())}
    assert set(table("h200_mixed_training")["launches"]) - {"cuBLAS"} <= kernels


def test_tensor_cores_have_the_libraries_beside_them():
    rows, ours = table("h200_tensor_cores"), r"(matmul|attention)_\w*v\d+"
    measured = {row["what"] for row in rows}
    assert {row["what"] for row in rows if row["version"] == "library"} == measured and len(measured) == 3
    theirs = [r["kernel"] for r in table("h200_tensor_cores_counters") if not re.fullmatch(ours, r["kernel"])]
    assert len(theirs) == 3 and sum("cudnn" in name for name in theirs) == 2  # cuBLAS's, and both passes of cuDNN's
