import os

import numpy as np
import pytest

from llmc.checkpoints import read_config, read_debug_state, read_model, write_model
from llmc.config import GPT2Config, preset
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_write
from llmc.files.floats import bfloat16_to_float32, float32_to_bfloat16
from llmc.files.header import SIZE, make_header
from llmc.model import GPT2

CONFIG = GPT2Config(maxT=8, V=20, L=2, NH=2, C=8)


@pytest.fixture
def saved(tmp_path):
    """A model and the file it was written to."""
    model = GPT2(CONFIG)
    model.init_weights()
    write_model(tmp_path / "model.bin", model)
    return model, tmp_path / "model.bin"


def test_float32_round_trip_is_exact(saved):
    model, path = saved
    again = read_model(path)
    assert again.config == CONFIG == read_config(path)
    np.testing.assert_array_equal(again.params_flat, model.params_flat)
    assert list(path.parent.iterdir()) == [path]


def test_bfloat16_round_trip_rounds_to_the_nearest(saved, tmp_path):
    model, _ = saved
    write_model(tmp_path / "half.bin", model, "bfloat16")
    again = read_model(tmp_path / "half.bin")
    np.testing.assert_allclose(again.params_flat, model.params_flat, rtol=2**-8)
    write_model(tmp_path / "twice.bin", again, "bfloat16")
    assert (tmp_path / "twice.bin").read_bytes() == (tmp_path / "half.bin").read_bytes()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_chunks_make_no_difference(saved, tmp_path, monkeypatch, precision):
    model, _ = saved
    write_model(tmp_path / "whole.bin", model, precision)
    whole = read_model(tmp_path / "whole.bin").params_flat
    monkeypatch.setattr("llmc.files.floats.CHUNK", 1000)  # the model has 2,848
    write_model(tmp_path / "chunks.bin", model, precision)
    assert (tmp_path / "chunks.bin").read_bytes() == (tmp_path / "whole.bin").read_bytes()
    np.testing.assert_array_equal(read_model(tmp_path / "chunks.bin").params_flat, whole)


def test_llmcs_own_files_are_written_back_byte_for_byte(reference_dir, tmp_path):
    for name, precision in (("model.bin", "float32"), ("model_bf16.bin", "bfloat16")):
        original = reference_dir / "llmc_small" / name
        write_model(tmp_path / name, read_model(original), precision)
        assert (tmp_path / name).read_bytes() == original.read_bytes()


def test_bfloat16_against_pytorch():
    torch = pytest.importorskip("torch")
    random = np.random.RandomState(0)
    values = random.standard_normal(10_000).astype(np.float32) * np.float32(10.0) ** random.randint(-30, 30, 10_000)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-45, 1.00390625, 1.01171875], np.float32)
    values = np.concatenate([values, special]).astype(np.float32)
    expected = torch.tensor(values).bfloat16()
    got = bfloat16_to_float32(float32_to_bfloat16(values))
    np.testing.assert_array_equal(got, expected.float().numpy())


def damage(path, how):
    """Rewrite the file with its header words changed, or cut to a length."""
    raw = bytearray(path.read_bytes())
    for word, value in how.get("words", {}).items():
        raw[4 * word : 4 * word + 4] = int(value).to_bytes(4, "little", signed=True)
    path.write_bytes(bytes(raw[: how.get("length", len(raw))]) + how.get("tail", b""))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (dict(length=0), "is not an llm.c model file: it has 0 bytes"),
        (dict(length=SIZE - 1), "the header alone takes 1024"),
        (dict(length=SIZE), "is truncated: it has 1,024 bytes"),
        (dict(length=5000), "is truncated: it has 5,000 bytes"),
        (dict(tail=b"x"), "is too long"),
        (dict(words={0: 1}), "begins with 1, not with the magic number 20240326"),
        (dict(words={1: 4}), "version 4, but llmc reads version 3 or 5"),
        (dict(words={1: 5}), "is too long"),
        (dict(words={4: -2}), "header of .* is damaged: L must be a positive"),
        (dict(words={5: 3}), "is damaged: C=8 channels cannot be split"),
        (dict(words={3: 2**31 - 1}), "pads its vocabulary"),
        (dict(words={4: 2**30}), "is truncated"),  # must be refused before 10^12 bytes are allocated
    ],
)
def test_damaged_models_are_refused_in_one_sentence(saved, how, words):
    _, path = saved
    damage(path, how)
    with pytest.raises(UserError, match=words) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)


def test_missing_model_and_folder_instead_of_a_file(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_model(tmp_path / "none.bin")
    with pytest.raises(UserError, match="is a folder"):
        read_model(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="needs sparse files")
@pytest.mark.parametrize(("version", "itemsize"), [(3, 4), (5, 2)])
def test_files_beyond_two_and_four_gib_are_measured_right(tmp_path, version, itemsize):
    """gpt2-xl as a sparse file: 6.2 GB long, one block on the disk; reading the config must not read the weights."""
    config, path = preset("d48"), tmp_path / "xl.bin"
    c = config
    path.write_bytes(make_header(20240326, version, c.maxT, c.V, c.L, c.NH, c.C, c.Vp).tobytes())
    size = SIZE + itemsize * 1_557_686_400
    os.truncate(path, size)
    assert read_config(path) == config
    for wrong, words in ((size - 1, "truncated"), (size + 1, "too long"), (size - 2**32, "truncated")):
        if wrong > 0:
            os.truncate(path, wrong)
            with pytest.raises(
                UserError, match=f"is {words}: it has {wrong:,} bytes, but its header promises {size:,}"
            ):
                read_model(path)


def test_debug_state_must_belong_to_the_model(reference_dir, tmp_path):
    state = reference_dir / "llmc_small" / "debug_state.bin"
    config = read_config(reference_dir / "llmc_small" / "model.bin")
    assert read_debug_state(state, config).x.shape == (2, 32)
    with pytest.raises(UserError, match="promises"):
        read_debug_state(state, GPT2Config(maxT=64, V=509, L=2, NH=4, C=64))
    copy = tmp_path / "state.bin"
    copy.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(UserError, match="truncated"):
        read_debug_state(copy, config)
    damage(copy, dict(words={2: -1}))
    with pytest.raises(UserError, match="damaged"):
        read_debug_state(copy, config)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_the_system_refuses_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write .*choose another folder"), atomic_write(tmp_path / "file" / "x"):
        pass
