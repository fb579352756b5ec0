import struct
from dataclasses import replace

import numpy as np
import pytest

from llmc.checkpoints import TrainState, read_model, read_optimizer_state, write_model, write_optimizer_state
from llmc.checkpoints.saved_files import state_path
from llmc.config import GPT2Config
from llmc.data import PermutedLoader, write_tokens
from llmc.errors import UserError
from llmc.files.header import SIZE
from llmc.model import GPT2

CONFIG = GPT2Config(maxT=8, V=20, L=2, NH=2, C=8)
WIDE = GPT2Config(maxT=8, V=20, L=2, NH=2, C=32)  # can be cut into four parts
N = CONFIG.num_parameters_padded
STATE = TrainState(
    step=3,
    order="random",
    loader={"shard": 2, "sample": 2**40, "epoch": 5, "seed": 2**32 - 1},
    rng=2**64 - 3,
    losses=(0.1, 1 / 3),
    norms=(2.5,),
)


def trained(precision="fp32", master=True, steps=3, config=CONFIG):
    """A model after some updates, so that no moment is zero."""
    model = GPT2(config, "numpy", precision, master)
    model.init_weights()
    x = np.random.RandomState(0).randint(0, config.V, (2, 8))
    for _ in range(steps):
        step(model, x)
    return model


def step(model, x):
    model.zero_grad()
    model.forward(x, x, dloss=1.0)
    model.backward()
    model.update(1e-2)


def flat(views):
    return np.concatenate([view.reshape(-1) for view in views.values()])


@pytest.fixture
def saved(tmp_path):
    """A trained model and the file of its state."""
    model = trained()
    write_optimizer_state(tmp_path / "state.bin", model, STATE)
    return model, tmp_path / "state.bin"


def test_round_trip_is_exact(saved):
    model, path = saved
    again = GPT2(CONFIG)
    assert read_optimizer_state(path, again) == STATE
    assert again.t == 3
    np.testing.assert_array_equal(flat(again.m), flat(model.m))
    np.testing.assert_array_equal(flat(again.v), flat(model.v))


def test_the_next_step_is_the_same_bit_for_bit(saved):
    model, path = saved
    again = GPT2(CONFIG)
    again.params_flat[...] = model.params_flat
    read_optimizer_state(path, again)
    x = np.arange(16).reshape(2, 8)
    step(model, x)
    step(again, x)
    np.testing.assert_array_equal(again.params_flat, model.params_flat)


def test_llmc_finds_everything_where_it_expects_it(saved):
    """Byte offsets as in llm.c's load_state: four bytes a word, size_t and uint64 in two words."""
    model, path = saved
    raw = path.read_bytes()
    assert struct.unpack_from("<6i", raw) == (20240527, 1, 1, 0, 0, 0)  # one process, no master weights, no permutation
    assert struct.unpack_from("<i", raw, 4 * 10) == (3,)
    assert struct.unpack_from("<2Q", raw, 4 * 20) == (2**64 - 3, 2**64 - 3)
    assert struct.unpack_from("<2Q", raw, 4 * 30) == (2, 2**40)
    m, v = np.frombuffer(raw, "<f4", 2 * N, SIZE).reshape(2, N)  # (N,) both
    np.testing.assert_array_equal(m, flat(model.m))
    np.testing.assert_array_equal(v, flat(model.v))


def llmc_state(path, model, words=(), arrays=2, tail=b""):
    """A file as llm.c's save_state writes it; words: {position: int32}."""
    header = np.zeros(256, "<i4")
    header[:3] = 20240527, 1, 1
    header[10] = 7
    header.view("<u8")[10:12] = 1337
    header.view("<u8")[15:17] = 4, 90
    for word, value in dict(words).items():
        header[word] = value
    groups = [flat(model.m), flat(model.v), flat(model.params) + 1][:arrays]
    path.write_bytes(header.tobytes() + b"".join(group.tobytes() for group in groups) + tail)


def test_a_state_of_llmc_is_read(tmp_path):
    model = trained()
    llmc_state(tmp_path / "state.bin", model)
    again = GPT2(CONFIG)
    state = read_optimizer_state(tmp_path / "state.bin", again)
    assert state == TrainState(7, "files", {"shard": 4, "sample": 90, "epoch": 0}, 1337)
    assert again.t == 7
    np.testing.assert_array_equal(flat(again.v), flat(model.v))


def test_a_state_of_several_processes_without_zero_is_whole_in_each(tmp_path):
    model = trained()
    llmc_state(tmp_path / "state.bin", model, {2: 8})
    again = GPT2(CONFIG)
    state = read_optimizer_state(tmp_path / "state.bin", again)
    assert state.ranks == 8
    np.testing.assert_array_equal(flat(again.m), flat(model.m))


def parts_of(tmp_path, model, parts):
    """The files of a state that so many ranks share, as llm.c lays them out: the r-th part of each layer."""
    for rank in range(parts):
        part = GPT2(model.config, "numpy", model.precision.name)
        part.keep_part(rank, parts)
        for name in ("m", "v", "master")[: 2 + (part.master is not None)]:
            for p in model.table:
                layers = p.shape[0] if p.stacked else 1
                cut = getattr(model, name)[p.name].reshape(layers, parts, -1)[:, rank]
                getattr(part, name)[p.name][...] = cut.reshape(getattr(part, name)[p.name].shape)
        part.t, part.has_master = model.t, model.has_master
        write_optimizer_state(state_path(tmp_path, 3, rank), part, TrainState(3, ranks=parts))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("before, now", [(2, 2), (2, 1), (1, 2), (4, 2), (2, 4)])
def test_any_number_of_ranks_reads_what_others_wrote(tmp_path, precision, before, now):
    model = trained(precision, config=WIDE)
    parts_of(tmp_path, model, before)
    parts_of(tmp_path / "again", model, now)
    for rank in range(now):
        part = GPT2(WIDE, "numpy", precision)
        part.keep_part(rank, now)
        state = read_optimizer_state(state_path(tmp_path, 3), part)
        assert (state.step, state.ranks, part.t) == (3, before, 3)
        write_optimizer_state(tmp_path / "written", part, TrainState(3, ranks=now))
        assert (tmp_path / "written").read_bytes() == state_path(tmp_path / "again", 3, rank).read_bytes()


def test_parts_that_are_not_this_models_are_refused(tmp_path):
    llmc_state(state_path(tmp_path, 7), trained(), {2: 3})
    raw = state_path(tmp_path, 7).read_bytes()
    state_path(tmp_path, 7).write_bytes(raw[: 1024 + (len(raw) - 1024) // 3])
    with pytest.raises(UserError, match="one of 3 parts, into which this model cannot be split"):
        read_optimizer_state(state_path(tmp_path, 7), GPT2(CONFIG))


def test_the_master_weights_of_llmc_become_the_weights(tmp_path):
    model = trained()
    llmc_state(tmp_path / "state.bin", model, {4: 1}, arrays=3)
    again = GPT2(CONFIG)
    read_optimizer_state(tmp_path / "state.bin", again)
    np.testing.assert_array_equal(again.params_flat, model.params_flat + 1)


@pytest.mark.parametrize("master", [True, False])
def test_the_master_weights_of_16_bits_follow_v(tmp_path, master):
    model = trained("bf16", master)
    write_optimizer_state(tmp_path / "state.bin", model, TrainState(3, loss_scale=(15, 7)))
    words = np.fromfile(tmp_path / "state.bin", "<i4", 256)
    assert words[4] == master and (tmp_path / "state.bin").stat().st_size == 1024 + (8 + 4 * master) * model.m.flat.size
    again = GPT2(CONFIG, "numpy", "bf16", master)
    assert read_optimizer_state(tmp_path / "state.bin", again).loss_scale == (15, 7)
    assert again.has_master == master
    np.testing.assert_array_equal(flat(again.v), flat(model.v))
    if master:
        np.testing.assert_array_equal(again.master.flat, model.master.flat)
        exact = GPT2(CONFIG)  # in float32 they are the weights, as llm.c's are
        read_optimizer_state(tmp_path / "state.bin", exact)
        np.testing.assert_array_equal(exact.params_flat, model.master.flat)


def test_a_model_in_16_bits_is_written_in_the_version_that_loses_nothing(tmp_path):
    for precision, version in (("fp32", 3), ("bf16", 5), ("fp16", 3)):
        model = trained(precision)
        write_model(tmp_path / "model.bin", model)
        assert np.fromfile(tmp_path / "model.bin", "<i4", 2)[1] == version
        again = read_model(tmp_path / "model.bin", precision=precision)
        assert again.params_flat.dtype == model.params_flat.dtype and (again.params_flat == model.params_flat).all()


@pytest.fixture
def shuffled_loader(tmp_path):
    """A loader in llm.c's order over two files of 12 and 5 windows, in the middle of its second epoch."""
    for i, windows in enumerate((12, 5)):
        write_tokens(tmp_path / f"x_train_{i}.bin", np.arange(8 * windows + 1))
    loader = PermutedLoader(tmp_path / "x_train_*.bin", B=2, T=4)
    for _ in range(17 + 9):
        loader.next_batch()
    return loader


def test_a_shuffled_state_of_llmc_is_read(tmp_path, shuffled_loader):
    """Its tail, field by field: number of files, their order, number of windows, their order, mt19937_state."""
    position = shuffled_loader.state()
    tail = shuffled_loader.permutation(position)
    files, windows = struct.unpack_from("<Q2i", tail), struct.unpack_from("<Q12i", tail, 16)
    assert files[0] == 2 and sorted(files[1:]) == [0, 1] and windows[0] == 12 and sorted(windows[1:]) == list(range(12))
    assert len(tail) == 16 + 8 + 48 + 8 + 4 + 4 + 4 * 624 + 8
    unset, left, following = struct.unpack_from("<Qii", tail, 72)
    assert unset == 0 and following == 2 * (1 + 11 + 4) and left == 625 - following
    assert struct.unpack_from("<2I", tail, len(tail) - 8) == (0, 0x9908B0DF)
    words = {5: 1, 30: position["shard"], 32: position["sample"]}
    garbage = tail[:72] + b"\x12\x34\x56\x78" * 2 + tail[80:]  # llm.c never sets these eight bytes
    llmc_state(tmp_path / "state.bin", trained(), words, tail=garbage)
    state = read_optimizer_state(tmp_path / "state.bin", GPT2(CONFIG))
    assert (state.order, state.permutation, state.loader["seed"]) == ("llm.c", tail, 42)
    again = PermutedLoader(tmp_path / "x_train_*.bin", B=2, T=4)
    again.load_state(state.loader, state.permutation, epochs=5)
    assert again.state() == position  # also the epoch, of which the file says nothing
    for _ in range(40):
        assert (again.next_batch()[0] == shuffled_loader.next_batch()[0]).all()


@pytest.mark.parametrize("precision, processes", [("fp32", 1), ("bf16", 1), ("fp32", 8)])
def test_a_shuffled_state_comes_back(tmp_path, shuffled_loader, precision, processes):
    position = shuffled_loader.state()
    state = replace(STATE, order="llm.c", loader=position, permutation=shuffled_loader.permutation(position))
    path, model = tmp_path / "state.bin", trained(precision)
    write_optimizer_state(path, model, replace(state, ranks=processes))
    raw = bytearray(path.read_bytes())
    raw[8:12] = struct.pack("<i", processes)  # as llm.c without ZeRO has it: each process writes all
    path.write_bytes(raw)
    again = GPT2(CONFIG, "numpy", precision)
    assert read_optimizer_state(path, again) == replace(state, ranks=processes)
    np.testing.assert_array_equal(flat(again.v), flat(model.v))


def test_parts_of_a_shuffled_state(tmp_path, shuffled_loader):
    model, position = trained(config=WIDE), shuffled_loader.state()
    for rank in range(2):
        part = GPT2(WIDE)
        part.keep_part(rank, 2)
        permutation = shuffled_loader.permutation(position, rank)
        state = TrainState(3, "llm.c", position, ranks=2, permutation=permutation)
        write_optimizer_state(state_path(tmp_path, 3, rank), part, state)
    again = GPT2(WIDE)
    found = read_optimizer_state(state_path(tmp_path, 3), again)
    assert found.permutation == shuffled_loader.permutation(position, rank=0) != permutation
    assert found.ranks == 2 and model.m.flat.size == again.m.flat.size


@pytest.mark.parametrize("tail", [b"", b"\1" * 2600, None, 8, 100])
def test_a_shuffled_state_with_another_tail(tmp_path, shuffled_loader, tail):
    whole = shuffled_loader.permutation(shuffled_loader.state())
    tail = whole + b"0" if tail is None else whole[:tail] if isinstance(tail, int) else tail
    llmc_state(tmp_path / "state.bin", trained(), {5: 1}, tail=tail)
    with pytest.raises(UserError, match="does not end with llm.c's order of batches"):
        read_optimizer_state(tmp_path / "state.bin", GPT2(CONFIG))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({2: 0}, "damaged"),
        ({3: 1}, "damaged"),
        ({4: 2}, "damaged"),
        ({4: 1}, "takes"),  # promises master weights that are not there
        ({5: -1}, "damaged"),
        ({5: 2}, "damaged"),
        ({5: 1, 40: 1}, "damaged"),  # shuffled in two ways
        ({10: -1}, "damaged"),
        ({31: -1}, "damaged"),  # shard 2^64 - …
        ({40: 3}, "damaged"),
        ({41: 8}, "damaged"),  # eight of seven steps skipped
        ({46: 2**31 - 1}, "takes"),
        ({47: -5}, "damaged"),
        ({46: 5, 47: -5}, "damaged"),
        ({48: 25}, "damaged"),  # a loss scale of 2^25
        ({48: -1}, "damaged"),
        ({49: -1}, "damaged"),
    ],
)
def test_damaged_headers_are_refused(tmp_path, words, message):
    llmc_state(tmp_path / "state.bin", trained(), words)
    with pytest.raises(UserError, match=message):
        read_optimizer_state(tmp_path / "state.bin", GPT2(CONFIG))


def test_another_models_state_and_a_truncated_one_are_refused(saved):
    _, path = saved
    with pytest.raises(UserError, match="truncated, or another model's"):
        read_optimizer_state(path, GPT2(GPT2Config(maxT=8, V=20, L=3, NH=2, C=8)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="truncated, or another model's"):
        read_optimizer_state(path, GPT2(CONFIG))


def test_skipped_steps_count_for_the_schedule_but_not_for_adamw(tmp_path):
    model = trained(steps=2)
    write_optimizer_state(tmp_path / "state.bin", model, TrainState(step=5))
    again = GPT2(CONFIG)
    assert read_optimizer_state(tmp_path / "state.bin", again).step == 5
    assert again.t == 2


def test_only_float32(tmp_path):
    model = trained("fp64")
    with pytest.raises(UserError, match="float32"):
        write_optimizer_state(tmp_path / "state.bin", model, TrainState(3))
    write_optimizer_state(tmp_path / "state.bin", trained(), TrainState(3))
    with pytest.raises(UserError, match="float32"):
        read_optimizer_state(tmp_path / "state.bin", model)
