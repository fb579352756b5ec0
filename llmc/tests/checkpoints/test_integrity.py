"""What changes in a checkpoint after it was saved is noticed, and the sentence names the file and the way on.

Forty bits are flipped, one at a time; LLMC_FLIPS=200 for more, with a report:
    LLMC_FLIPS=200 python -m pytest -s -o addopts= llmc/tests/checkpoints/test_integrity.py
"""

import json
import os
import random
import shutil

import numpy as np
import pytest

from llmc.checkpoints import (
    TrainState,
    checkpoints,
    load_checkpoint,
    load_model,
    read_model,
    save_checkpoint,
    write_huggingface,
    write_model,
)
from llmc.checkpoints.saved_files import check_file, read_record, write_record
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.files.digest import HashingFile, digest
from llmc.model import GPT2

FLIPS = int(os.environ.get("LLMC_FLIPS", 40))
CONFIG = GPT2Config(maxT=4, V=9, L=4, NH=2, C=4)


def model(shift=0.0):
    m = GPT2(CONFIG)
    m.init_weights()
    m.params["lnfb"][...] = shift
    m.m["wte"][...], m.v["wte"][...], m.t = 1.0, 2.0, 3
    return m


def save(folder, *steps):
    """Checkpoints with a record; the model of each step is another one."""
    for step in steps:
        state = TrainState(step, loader={"epoch": 0, "shard": 0, "sample": step}, losses=(4.5,), norms=(1.0,))
        state.about["settings"] = {"seed": 42}
        save_checkpoint(folder, model(step), state)


def content(folder, step):
    """Everything that a resume takes from a checkpoint."""
    m, state = load_checkpoint(folder, step)
    arrays = [m.params_flat, m.m.flat, m.v.flat]
    return [array.tobytes() for array in arrays], m.t, state


def flip(path, bit):
    raw = bytearray(path.read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)


def refusal(folder, step):
    with pytest.raises(UserError) as caught:
        load_checkpoint(folder, step)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_flipped_bits_are_refused_or_harmless(tmp_path):
    save(tmp_path, 5, 10)
    files = [path for path in sorted(tmp_path.iterdir()) if "10" in path.name]
    assert len(files) == 3
    before, places, counts = content(tmp_path, 10), random.Random(1), dict.fromkeys(["refused", "harmless"], 0)
    for number in range(FLIPS):
        path = files[number % 3]
        raw = path.read_bytes()
        flip(path, places.randrange(8 * len(raw)))
        try:
            assert content(tmp_path, 10) == before
            assert path.name.startswith("DONE")  # the layout of its JSON
            counts["harmless"] += 1
        except UserError as error:
            assert str(error).startswith(
                f"{path} has changed since it was saved; to continue from step 5 instead, delete DONE_"
            )
            counts["refused"] += 1
        path.write_bytes(raw)
    print(f"\n{FLIPS} flipped bits: {counts}")
    assert content(tmp_path, 10) == before and counts["refused"] >= 0.9 * FLIPS


def test_what_the_advice_says_works(tmp_path):
    save(tmp_path, 5, 7, 10)
    flip(tmp_path / "model_00000010.bin", 9000)
    flip(tmp_path / "state_00000007_00000.bin", 9000)
    assert "step 5 instead, delete DONE_00000007, DONE_00000010 in this folder" in refusal(tmp_path, 10)
    for step in (7, 10):
        (tmp_path / f"DONE_{step:08d}").unlink()
    assert checkpoints(tmp_path) == [5] and content(tmp_path, 5)[2].step == 5
    flip(tmp_path / "model_00000005.bin", 9000)
    assert "there is no earlier checkpoint, so restore the file" in refusal(tmp_path, 5)


@pytest.mark.parametrize("name", ["model_{:08d}.bin", "state_{:08d}_00000.bin", "DONE_{:08d}"])
def test_a_file_of_another_step_is_refused(tmp_path, name):
    save(tmp_path, 5, 10)
    shutil.copy(tmp_path / name.format(5), tmp_path / name.format(10))
    assert refusal(tmp_path, 10).startswith(
        f"{tmp_path / name.format(10)} has changed since it was saved; to continue from"
    )


def test_all_three_files_of_another_step_are_refused(tmp_path):
    save(tmp_path, 5)
    for name in ("model_{:08d}.bin", "state_{:08d}_00000.bin", "DONE_{:08d}"):
        shutil.copy(tmp_path / name.format(5), tmp_path / name.format(10))
    assert "DONE_00000010 has changed since it was saved" in refusal(tmp_path, 10)


@pytest.mark.parametrize("name", ["model_00000010.bin", "state_00000010_00000.bin", "DONE_00000010"])
def test_a_truncated_file_is_refused(tmp_path, name):
    save(tmp_path, 5, 10)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(tmp_path, 10).startswith(f"{path} has changed since it was saved; to continue from step 5")


def test_without_a_record_it_is_read_as_before(tmp_path):
    """As llm.c writes it: an empty DONE."""
    save(tmp_path, 10)
    (tmp_path / "DONE_00000010").write_bytes(b"")
    m, state = load_checkpoint(tmp_path, 10)
    assert state.about == {"files": {}} and check_file(tmp_path / "model_00000010.bin") is None
    assert np.array_equal(load_model(tmp_path / "model_00000010.bin").params_flat, m.params_flat)
    save_checkpoint(tmp_path, m, TrainState(11))
    assert load_checkpoint(tmp_path, 11)[1].about["step"] == 11


def test_in_a_run_of_ours_an_empty_record_is_damaged(tmp_path):
    save(tmp_path, 5, 10)
    (tmp_path / "settings.json").write_text('{"steps": 10, "sha256": "…"}', encoding="utf-8")
    (tmp_path / "DONE_00000010").write_bytes(b"")
    assert refusal(tmp_path, 10).startswith(
        f"{tmp_path / 'DONE_00000010'} has changed since it was saved; to continue from"
    )


def test_a_checkpoint_that_is_saved_again_knows_its_own_files(tmp_path):
    save(tmp_path, 10)
    m, state = load_checkpoint(tmp_path, 10)
    m.params["lnfw"][...] = 2.0
    save_checkpoint(tmp_path, m, state)
    assert (load_checkpoint(tmp_path, 10)[0].params["lnfw"] == 2.0).all()


# ----- models --------------------------------------------------------------------------------------------------------


def test_a_damaged_model_of_a_run_is_not_sampled_from(tmp_path):
    save(tmp_path, 5, 10)
    final = tmp_path / "model.bin"
    write_model(final, model(10.0))
    assert check_file(final) == digest(tmp_path / "model_00000010.bin")
    for path in (final, tmp_path / "model_00000010.bin"):
        flip(path, 8 * 1024 + 5)
        with pytest.raises(UserError, match=f"{path.name} has changed since it was saved; use another checkpoint"):
            load_model(path)
    assert load_model(tmp_path / "model_00000005.bin").params["lnfb"][0] == 5
    with pytest.raises(UserError, match="is not an llm.c model"):
        load_model(tmp_path / "state_00000005_00000.bin")


def test_a_model_of_an_earlier_end_of_the_run_is_known(tmp_path):
    """The run was continued, and the checkpoint that its model.bin came from has been removed."""
    write_model(tmp_path / "model.bin", model(3.0))
    state = TrainState(10, about={"files": {"model.bin": digest(tmp_path / "model.bin")}})
    save_checkpoint(tmp_path, model(10.0), state)
    assert load_model(tmp_path / "model.bin").params["lnfb"][0] == 3
    flip(tmp_path / "model.bin", 8 * 1024 + 5)
    with pytest.raises(UserError, match="model.bin has changed since it was saved"):
        load_model(tmp_path / "model.bin")


def test_a_model_that_no_checkpoint_knows_is_read(tmp_path):
    save(tmp_path, 5)
    write_model(tmp_path / "mine.bin", model())
    assert check_file(tmp_path / "mine.bin") is None and load_model(tmp_path / "mine.bin").config == CONFIG


@pytest.mark.parametrize(
    "name, index, bad, words",
    [
        ("fcw", 3, np.nan, "has NaN in fcw of layer 3 \\(1 of 64 weights\\)"),
        ("wpe", 0, np.inf, "has inf in wpe \\(4 of 16 weights\\)"),
        ("wte", -1, np.nan, "has NaN in wte \\(4 of 512 weights\\)"),  # in its padding
    ],
)
def test_weights_that_are_not_finite_are_named_and_never_exported(tmp_path, name, index, bad, words, backend):
    m = model()
    place = (index, 0, 0) if name == "fcw" else index
    m.params[name][place] = bad
    write_model(tmp_path / "m.bin", m)
    with pytest.raises(UserError, match=f"m.bin {words}"):
        read_model(tmp_path / "m.bin", backend)
    with pytest.raises(UserError, match=f"the model {words}"):
        write_huggingface(tmp_path / "hf", m)
    assert not (tmp_path / "hf").exists()


def test_weights_that_are_large_but_finite_are_read(tmp_path, backend):
    m = model()
    m.params["fcw"][...] = 1e30  # its square is not a float32
    write_model(tmp_path / "m.bin", m)
    assert read_model(tmp_path / "m.bin", backend).params["fcw"].max() == np.float32(1e30)


# ----- digests and records -------------------------------------------------------------------------------------------


def test_a_file_is_hashed_as_it_is_written(tmp_path):
    with open(tmp_path / "f", "wb") as plain:
        file = HashingFile(plain)
        for size in (10, 3 << 20, 5, 1 << 20, (1 << 20) - 1, 2 << 20):  # in and without a thread
            file.write(np.random.default_rng(size).bytes(size))
        found = file.digest()
    assert found == digest(tmp_path / "f")


def test_a_record_comes_back_and_an_edited_one_does_not(tmp_path):
    record = {"step": 3, "files": {"a": "b"}, "rate": 0.1}
    write_record(tmp_path / "DONE_00000003", record)
    assert read_record(tmp_path / "DONE_00000003") == record
    outer = json.loads((tmp_path / "DONE_00000003").read_text())
    (tmp_path / "DONE_00000003").write_text(json.dumps(outer, indent=4))  # another layout is no other record
    assert read_record(tmp_path / "DONE_00000003") == record
    outer["record"]["step"] = 4
    for text in (json.dumps(outer), "[]", "{", "3", '{"record": 3}'):
        (tmp_path / "DONE_00000003").write_text(text)
        with pytest.raises(UserError, match="DONE_00000003 has changed since it was saved; delete it"):
            read_record(tmp_path / "DONE_00000003")
