"""How many files and functions a batch passes through in one training step: a reader has to know all of them.

    python -m llmc.tests.house.test_step_files

prints them. The bounds are what there is: who needs one more says why, and who needs fewer lowers them.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import llmc
from llmc.config import PRESETS, GPT2Config
from llmc.tests.tiny_corpus import write_corpus
from llmc.training.settings import TrainSettings
from llmc.training.trainer import Trainer

ROOT = Path(llmc.__file__).parent
MOST = {("cpu", "fp32"): (22, 113), ("cuda", "bf16"): (45, 163)}


def visited(backend, precision) -> dict:
    """{file: [functions]} of the third step of a tiny model; the first two compile and allocate."""
    found = {}

    def watch(frame, event, argument):
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(ROOT):
            name = frame.f_code.co_qualname
            if not name.endswith(">"):  # a lambda or a comprehension is a part of its function
                found.setdefault(str(Path(frame.f_code.co_filename).relative_to(ROOT)), {})[name] = True

    with TemporaryDirectory() as folder:
        write_corpus(folder)
        shape = dict(batch_size=2, sequence_length=16, preset="nano", val_batches=1)
        trainer = Trainer(TrainSettings(data=folder, backend=backend, precision=precision, **shape))
        for _ in range(2):
            trainer.train_step()
        sys.setprofile(watch)
        try:
            trainer.train_step()
        finally:
            sys.setprofile(None)
    return {file: [*functions] for file, functions in found.items()}


@pytest.mark.parametrize("backend, precision", MOST)
def test_a_step_passes_through_few_files(backend, precision, monkeypatch):
    monkeypatch.setitem(PRESETS, "nano", GPT2Config(maxT=16, V=257, L=2, NH=2, C=32))
    files = visited(backend, precision)
    most_files, most_functions = MOST[backend, precision]
    assert len(files) <= most_files and sum(map(len, files.values())) <= most_functions


if __name__ == "__main__":
    PRESETS["nano"] = GPT2Config(maxT=16, V=257, L=2, NH=2, C=32)
    for backend, precision in MOST:
        files = visited(backend, precision)
        print(f"{backend}, {precision}: {len(files)} files, {sum(map(len, files.values()))} functions")
        print(*(f"    {file}: {', '.join(functions)}" for file, functions in files.items()), sep="\n")
