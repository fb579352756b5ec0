"""Kills, full disks and leftovers: a checkpoint is there whole, or it is not there."""

import os
import shutil
import sys
from itertools import count
from pathlib import Path

import pytest

from llmc.checkpoints import TrainState, checkpoints, latest_checkpoint, load_checkpoint, save_checkpoint
from llmc.checkpoints.folder import newest_model
from llmc.checkpoints.saved_files import read_record
from llmc.config import GPT2Config
from llmc.errors import UserError
from llmc.files.header import SIZE
from llmc.model import GPT2

CONFIG = GPT2Config(maxT=2, V=3, L=1, NH=1, C=2)
WATCHED = {"open", "os.rename", "os.remove", "os.mkdir", "os.listdir", "tempfile.mkstemp", "os.chmod"}


def save(folder, step, keep=0, shift=0.0):
    """A checkpoint in which every number is its step."""
    model = GPT2(CONFIG)
    model.params_flat[...] = step + shift
    for views, part in ((model.m, 0.25), (model.v, 0.5)):
        for view in views.values():
            view[...] = step + shift + part
    model.t = step
    return save_checkpoint(folder, model, TrainState(step, loader={"shard": 0, "sample": step, "epoch": 0}), keep)


def value(folder, step):
    """The number that all weights of a checkpoint have, after checking everything else in it."""
    model, state = load_checkpoint(folder, step)
    found = float(model.params_flat[0])
    assert (model.params_flat == found).all()
    for views, part in ((model.m, 0.25), (model.v, 0.5)):
        assert all((view == found + part).all() for view in views.values())
    assert state.step == model.t == state.loader["sample"] == step
    return found


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def files(*steps):
    return sorted(name for s in steps for name in (f"model_{s:08d}.bin", f"state_{s:08d}_00000.bin", f"DONE_{s:08d}"))


def test_names_are_llmcs_and_content_comes_back(tmp_path):
    assert save(tmp_path / "run", 7) == 7
    assert names(tmp_path / "run") == ["DONE_00000007", "model_00000007.bin", "state_00000007_00000.bin"]
    assert read_record(tmp_path / "run" / "DONE_00000007")["files"].keys() == set(names(tmp_path / "run")[1:])
    assert value(tmp_path / "run", 7) == 7


def test_the_newest_ones_are_kept(tmp_path):
    for step in (5, 10, 15):
        save(tmp_path, step)
    assert checkpoints(tmp_path) == [5, 10, 15]
    save(tmp_path, 20, keep=2)
    assert names(tmp_path) == files(15, 20)
    assert latest_checkpoint(tmp_path) == 20


def test_the_checkpoint_just_saved_stays_even_below_later_ones(tmp_path):
    for step in (5, 30):
        save(tmp_path, step)
    save(tmp_path, 10, keep=1)
    assert checkpoints(tmp_path) == [10, 30]


def test_no_folder_and_no_checkpoint(tmp_path):
    assert checkpoints(tmp_path / "none") == [] and latest_checkpoint(tmp_path) is None
    with pytest.raises(UserError, match="no complete checkpoint of step 3; complete checkpoints there: none"):
        load_checkpoint(tmp_path, 3)


def test_without_done_it_does_not_count_and_is_cleaned_up(tmp_path):
    save(tmp_path, 5)
    save(tmp_path, 10)
    (tmp_path / "DONE_00000010").unlink()
    (tmp_path / ".model_00000011.bin.new.abc_1.tmp").write_bytes(b"half")
    (tmp_path / ".DONE_00000005.abc_1.tmp").write_bytes(b"half")
    (tmp_path / "state_00000012_00000.bin.new").write_bytes(b"whole, not yet named")
    others = ["main.log", "model.bin", "model_notes.txt", ".main.log.x.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"of somebody else")
    assert latest_checkpoint(tmp_path) == 5
    with pytest.raises(UserError, match="complete checkpoints there: 5"):
        load_checkpoint(tmp_path, 10)
    save(tmp_path, 15)
    assert names(tmp_path) == sorted([*files(5, 15), *others])


def test_leftovers_make_room_before_anything_is_written(tmp_path, monkeypatch):
    save(tmp_path, 5)
    (tmp_path / "model_00000009.bin").write_bytes(b"gigabytes")
    found = []
    monkeypatch.setattr("llmc.checkpoints.folder.write_model", lambda path, model: found.extend(names(tmp_path)))
    with pytest.raises(UserError):
        save(tmp_path, 10)
    assert found == files(5)


def test_done_without_its_files_does_not_count(tmp_path):
    save(tmp_path, 5)
    save(tmp_path, 10)
    (tmp_path / "model_00000010.bin").unlink()
    (tmp_path / "DONE_99999999999999999999999").touch()
    assert latest_checkpoint(tmp_path) == 5


def test_a_state_of_another_step_is_refused(tmp_path):
    for step in (5, 10):
        save(tmp_path, step)
    shutil.copy(tmp_path / "state_00000005_00000.bin", tmp_path / "state_00000010_00000.bin")
    (tmp_path / "DONE_00000010").write_bytes(b"")  # as llm.c's: without a digest
    with pytest.raises(UserError, match="claims to be of step 5; use another checkpoint"):
        load_checkpoint(tmp_path, 10)


def test_saving_a_step_again_replaces_it(tmp_path):
    save(tmp_path, 5)
    save(tmp_path, 5, shift=0.125)
    assert value(tmp_path, 5) == 5.125
    assert names(tmp_path) == files(5)


def test_newest_model_is_the_final_one_else_that_of_the_newest_checkpoint(tmp_path):
    assert newest_model(tmp_path) is None
    save(tmp_path, 5)
    assert newest_model(tmp_path) == tmp_path / "model_00000005.bin"
    (tmp_path / "model.bin").touch()
    assert newest_model(tmp_path) == tmp_path / "model.bin"


# ----- killed processes ----------------------------------------------------------------------------------------------


def exit_status(work, kill_at):
    """Do `work` in a child process that dies at its `kill_at`-th call to the file system."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls = count(1)

    def watch(event, _):
        if event in WATCHED and next(calls) == kill_at:
            os._exit(9)

    try:
        real_fsync = os.fsync
        os.fsync = lambda handle: (watch("open", None), real_fsync(handle))
        sys.addaudithook(watch)
        work()
        os._exit(0)
    finally:
        os._exit(1)


def killed_everywhere(before, tmp_path, work):
    """Yield the folder that each death of `work` leaves, with the exit status; the last time it survives (0)."""
    for kill_at in count(1):
        folder = tmp_path / str(kill_at)
        shutil.copytree(before, folder)
        status = exit_status(lambda folder=folder: work(folder), kill_at)
        assert status in (0, 9)
        yield folder, status
        if status == 0:
            assert kill_at > 20, "the deaths were not where files are written"
            return


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_killed_anywhere_a_new_checkpoint_is_whole_or_absent_and_the_old_ones_are_there(tmp_path):
    before = tmp_path / "before"
    for step in (1, 2):
        save(before, step)
    for folder, status in killed_everywhere(before, tmp_path, lambda folder: save(folder, 3, keep=2)):
        there = checkpoints(folder)
        assert there in ([1, 2], [1, 2, 3], [2, 3]) and (status or there == [2, 3])
        assert [value(folder, step) for step in there] == there
        save(folder, 4, keep=1)
        assert names(folder) == files(4)


@needs_fork
@pytest.mark.parametrize(("shift", "outcomes"), [(0.0, {(1, 2)}), (0.5, {(1, 2), (1,), (1, 2.5)})])
def test_killed_anywhere_a_step_saved_again_is_never_mixed(tmp_path, shift, outcomes):
    """Saved again with the same content (the end of a run), it is never missing; with other content, it may be."""
    before = tmp_path / "before"
    for step in (1, 2):
        save(before, step)
    seen = set()
    for folder, _ in killed_everywhere(before, tmp_path, lambda folder: save(folder, 2, keep=2, shift=shift)):
        seen.add(tuple(value(folder, step) for step in checkpoints(folder)))
    assert seen == outcomes


# ----- full disks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [100, SIZE + 4 * CONFIG.num_parameters_padded])
def test_a_full_disk_is_one_sentence_and_changes_nothing(tmp_path, room):
    """Room for part of the model; for the model and part of the state."""
    resource = pytest.importorskip("resource")
    save(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(UserError, match="cannot write .*; free some space") as caught:
            save(tmp_path, 2, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == files(1)
    assert value(tmp_path, 1) == 1


def test_a_disk_that_is_full_at_the_last_moment(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(path, record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llmc.checkpoints.folder.write_record", full)
    with pytest.raises(UserError, match="cannot save in .*: No space left on device; free some space"):
        save(tmp_path, 2, keep=1)
    assert names(tmp_path) == files(1)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(UserError, match="choose another folder"):
        save(tmp_path / "run", 1)


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("llmc.checkpoints.folder.write_optimizer_state", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    assert names(tmp_path) == files(1)
