"""GPT-2 in Hugging Face's format, compared with transformers if it is installed; the rest needs only NumPy."""

import builtins
import json

import numpy as np
import pytest

from llmc.checkpoints import read_huggingface, write_huggingface
from llmc.checkpoints.huggingface.safetensors_file import read_index, write_safetensors
from llmc.checkpoints.huggingface.tensor_layout import COMPUTED
from llmc.checkpoints.huggingface.tokenizer_files import byte_letters, merges, write_huggingface_tokenizer
from llmc.config import GPT2Config
from llmc.data.bpe import train_bpe
from llmc.data.tokenizer import make_encoding, read_tokenizer
from llmc.errors import UserError
from llmc.files.digest import digest
from llmc.files.floats import bfloat16_to_float32, float32_to_bfloat16
from llmc.model import GPT2
from llmc.sampling import generate

CONFIG = GPT2Config(maxT=9, V=37, L=2, NH=3, C=12)
SIZES = dict(vocab_size=37, n_positions=9, n_embd=12, n_layer=2, n_head=3)
X = np.random.RandomState(0).randint(0, CONFIG.V, (2, 7))
TEXT = "def f(x):\n    return x  # naïve 東京, don't’s 1234\t\n\n" + "the theory of the other thing; " * 20


def random_model(scale=0.5):
    """A model without any parameter that is zero or one, so that every mix-up shows in the logits."""
    model, random = GPT2(CONFIG), np.random.RandomState(1)
    for p in CONFIG.parameter_table():
        model.params[p.name][...] = scale * random.standard_normal(p.shape)
    model.params["wte"][CONFIG.V :] = 0.0
    return model


def logits(model):
    return np.array(model.logits(X)[..., : CONFIG.V])


@pytest.fixture
def folder(tmp_path):
    """A model and the folder it was written to."""
    model = random_model()
    write_huggingface(tmp_path / "hf", model)
    return model, tmp_path / "hf"


# ----- against transformers ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """(GPT2LMHeadModel with large random parameters, its logits for X, the folder it saved itself in)."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    options = transformers.GPT2Config(**SIZES, bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(options).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.5)
    path = tmp_path_factory.mktemp("theirs")
    model.save_pretrained(path)
    return model, model(torch.tensor(X)).logits.detach().numpy(), path


def test_a_model_saved_by_transformers_gives_its_logits(theirs):
    _, expected, path = theirs
    model = read_huggingface(path)
    assert model.config == CONFIG
    np.testing.assert_allclose(logits(model), expected, atol=1e-5, rtol=0)
    np.testing.assert_allclose(logits(read_huggingface(path / "model.safetensors")), expected, atol=1e-5, rtol=0)
    assert not model.params["wte"][CONFIG.V :].any()


@pytest.mark.parametrize("how", ["half", "bfloat16"])
def test_half_precision_of_transformers_is_converted(theirs, tmp_path, how):
    torch = pytest.importorskip("torch")
    model, expected, path = theirs
    getattr(model, how)().save_pretrained(tmp_path)
    model.float()  # rounded now; the numbers in the file exactly
    rounded = model(torch.tensor(X)).logits.detach().numpy()
    np.testing.assert_allclose(logits(read_huggingface(tmp_path)), rounded, atol=1e-5, rtol=0)
    model.load_state_dict(type(model).from_pretrained(path).state_dict())


def test_shards_and_a_bare_model_without_prefix(theirs, tmp_path):
    model, expected, _ = theirs
    model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("model-0*.safetensors"))) > 1
    np.testing.assert_allclose(logits(read_huggingface(tmp_path / "shards")), expected, atol=1e-5, rtol=0)
    model.transformer.save_pretrained(tmp_path / "bare")
    assert "wte.weight" in read_index(tmp_path / "bare" / "model.safetensors")
    np.testing.assert_allclose(logits(read_huggingface(tmp_path / "bare")), expected, atol=1e-5, rtol=0)


def test_transformers_computes_our_logits(folder):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, path = folder
    theirs, info = transformers.GPT2LMHeadModel.from_pretrained(path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    got = theirs.eval()(torch.tensor(X)).logits.detach().numpy()
    np.testing.assert_allclose(got, logits(model), atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """(model, folder of its export in float32, in bfloat16): one that does not fall into a loop at once."""
    config = GPT2Config(maxT=48, V=97, L=3, NH=2, C=32)
    model, random = GPT2(config), np.random.RandomState(5)
    for p in config.parameter_table():
        model.params[p.name][...] = random.standard_normal(p.shape) * {"wte": 0.05, "wpe": 0.5}.get(p.name, 0.1)
    model.params["wte"][config.V :] = 0.0
    folders = [tmp_path_factory.mktemp(name) for name in ("float32", "bfloat16")]
    for folder in folders:
        write_huggingface(folder, model, precision=folder.name[:-1])
    return model, *folders


def test_transformers_generates_our_text(writer):
    """Greedily, token for token, from several beginnings."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, path, _ = writer
    theirs = transformers.GPT2LMHeadModel.from_pretrained(path).eval()
    for start in ([1], [5, 80, 33], [96, 2]):
        n = 48 - len(start)
        options = dict(do_sample=False, max_new_tokens=n, pad_token_id=0)
        found = theirs.generate(torch.tensor([start]), **options)[0, len(start) :].tolist()
        assert found == list(generate(model, start, n, temperature=0)) and len(found) == n and len(set(found)) > 8


def test_transformers_loads_bfloat16(writer):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model, whole, path = writer
    assert (path / "model.safetensors").stat().st_size < 0.6 * (whole / "model.safetensors").stat().st_size
    theirs = transformers.GPT2LMHeadModel.from_pretrained(path, dtype="auto").eval()
    assert theirs.dtype == torch.bfloat16
    rounded = read_huggingface(path)
    expected = bfloat16_to_float32(float32_to_bfloat16(np.array(model.params_flat)))
    np.testing.assert_array_equal(rounded.params_flat, expected)
    x = np.random.RandomState(2).randint(0, 97, (2, 48))
    got = theirs.float()(torch.tensor(x)).logits.detach().numpy()
    np.testing.assert_allclose(got, rounded.logits(x)[..., :97], atol=2e-5, rtol=0)
    out = theirs.to(torch.bfloat16).generate(torch.tensor([[1]]), do_sample=False, max_new_tokens=20, pad_token_id=0)
    assert out.shape == (1, 21)


def test_another_precision_is_refused(tmp_path):
    with pytest.raises(UserError, match='"float32" or "bfloat16", not \'fp8\''):
        write_huggingface(tmp_path, random_model(), precision="fp8")
    assert not list(tmp_path.iterdir())


def test_transformers_gives_the_same_tokens(tmp_path):
    transformers = pytest.importorskip("transformers")
    encoding = make_encoding(train_bpe(TEXT, 44) + [b"<|endoftext|>"], 300)
    write_huggingface(tmp_path, random_model())
    write_huggingface_tokenizer(tmp_path, encoding, 9)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.encode(TEXT + "\x00 unseen Ω") == encoding.encode_ordinary(TEXT + "\x00 unseen Ω")
    assert theirs.decode(theirs.encode(TEXT)) == TEXT
    assert theirs.eos_token_id == encoding.eot_token and len(theirs) == encoding.n_vocab


# ----- on its own ----------------------------------------------------------------------------------------------------


def test_round_trip_is_exact(folder):
    model, path = folder
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "model.safetensors"]
    np.testing.assert_array_equal(read_huggingface(path).params_flat, model.params_flat)
    assert read_huggingface(path, precision="fp64").params_flat.dtype == np.float64


def test_the_library_reads_what_we_write(folder):
    safetensors = pytest.importorskip("safetensors.numpy")
    model, path = folder
    tensors = safetensors.load_file(path / "model.safetensors")
    assert len(tensors) == 4 + 12 * CONFIG.L
    np.testing.assert_array_equal(tensors["transformer.h.1.mlp.c_fc.weight"], model.params["fcw"][1].T)


def store(path, tensors, header=None):
    """Write a safetensors file by hand: {name: (dtype, array of its bits)}."""
    entries, data = {}, b""
    for name, (dtype, array) in tensors.items():
        offsets = [len(data), len(data) + array.nbytes]
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(entries | (header or {})).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def stored_bits(path):
    """{name: ("F32", array)} of a folder's weights, for `store`."""
    return {name: ("F32", tensor.read()) for name, tensor in read_index(path / "model.safetensors").items()}


@pytest.mark.parametrize(
    ("dtype", "to_bits", "back"),
    [
        ("F16", lambda x: x.astype("<f2"), lambda bits: bits.astype(np.float32)),
        ("BF16", float32_to_bfloat16, bfloat16_to_float32),
        ("F64", lambda x: x.astype("<f8"), lambda bits: bits.astype(np.float32)),
    ],
)
def test_other_floats_are_converted(folder, dtype, to_bits, back):
    _, path = folder
    bits = {name: (dtype, to_bits(array)) for name, (_, array) in stored_bits(path).items()}
    store(path / "model.safetensors", bits)
    model = read_huggingface(path)
    np.testing.assert_array_equal(model.params["qkvw"][1], back(bits["transformer.h.1.attn.c_attn.weight"][1]).T)
    np.testing.assert_array_equal(model.params["wte"][: CONFIG.V], back(bits["transformer.wte.weight"][1]))


def test_causal_masks_and_a_tied_head_are_accepted(folder):
    model, path = folder
    tensors = stored_bits(path)
    tensors["transformer.h.0.attn.bias"] = ("U8", np.ones((1, 1, 9, 9), np.uint8))
    tensors["transformer.h.0.attn.masked_bias"] = ("F32", np.float32([-1e4]))
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    store(path / "model.safetensors", tensors)
    np.testing.assert_array_equal(read_huggingface(path).params_flat, model.params_flat)
    del tensors["transformer.wte.weight"]  # then the head is what both have; torch.compile puts a word in front of all
    store(path / "model.safetensors", {f"_orig_mod.{name}": tensor for name, tensor in tensors.items()})
    np.testing.assert_array_equal(read_huggingface(path).params_flat, model.params_flat)


def change(path, **options):
    """Replace options in the config.json of a folder."""
    (path / "config.json").write_text(json.dumps(json.loads((path / "config.json").read_text()) | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(n_inner=24), "n_inner to 24"),
        (dict(activation_function="gelu"), "activation_function to 'gelu'"),
        (dict(activation_function="relu"), "activation_function to 'relu'"),
        (dict(layer_norm_epsilon=1e-6), "layer_norm_epsilon to 1e-06"),
        (dict(scale_attn_weights=False), "scale_attn_weights to False"),
        (dict(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx to True"),
        (dict(add_cross_attention=True), "add_cross_attention to True"),
        (dict(model_type="llama"), "model type 'llama'"),
        (dict(model_type=None), "model type None"),
        (dict(tie_word_embeddings=False), "its own output head, but llmc ties"),
        (dict(n_head=5), "does not describe a GPT-2: C=12 channels cannot be split"),
        (dict(n_layer=10**30), "lacks the tensor"),
        (dict(n_layer="2"), "L must be a positive whole number"),
        (dict(vocab_size=38), r"wte.weight of .* has shape \(37, 12\), but its config.json requires \(38, 12\)"),
        (dict(n_embd=10**9, n_head=1), "but its config.json requires"),
        (dict(n_layer=1), "holds the tensor 'transformer.h.1"),
    ],
)
def test_models_that_would_give_other_logits_are_refused(folder, options, message):
    _, path = folder
    change(path, **options)
    with pytest.raises(UserError, match=message) as caught:
        read_huggingface(path)
    assert "\n" not in str(caught.value)


def test_options_with_the_same_function_are_not_refused(folder):
    _, path = folder
    change(path, n_inner=48, activation_function="gelu_pytorch_tanh", reorder_and_upcast_attn=True, resid_pdrop=0.1)
    assert read_huggingface(path).config == CONFIG


def test_a_config_without_options_means_those_of_gpt2(folder):
    _, path = folder
    options = json.loads((path / "config.json").read_text())
    kept = {name: value for name, value in options.items() if name in SIZES or name == "model_type"}
    assert not COMPUTED.keys() & kept.keys()
    (path / "config.json").write_text(json.dumps(kept))
    assert read_huggingface(path).config == CONFIG


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("lm_head.weight", ("F32", np.zeros((37, 12), "<f4")), "its own output head, but llmc ties"),
        ("lm_head.weight", ("F32", np.zeros((5, 5), "<f4")), "its own output head, but llmc ties"),
        ("score.weight", ("F32", np.zeros((2, 12), "<f4")), "holds the tensor 'score.weight'"),
        ("transformer.wpe.weight", ("I64", np.zeros((9, 12), "<i8")), "holds I64, but llmc reads"),
        (
            "transformer.ln_f.bias",
            ("F32", np.zeros(11, "<f4")),
            r"has shape \(11,\), but its config.json requires \(12,\)",
        ),
    ],
)
def test_other_tensors_are_refused(folder, name, tensor, message):
    _, path = folder
    store(path / "model.safetensors", stored_bits(path) | {name: tensor})
    with pytest.raises(UserError, match=message):
        read_huggingface(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a safetensors file, or is truncated"),
        (b"\xff" * 8, "not a safetensors file, or is truncated"),
        ((90).to_bytes(8, "little") + b"{}", "not a safetensors file, or is truncated"),
        ((2).to_bytes(8, "little") + b"[]", "header is not a JSON object"),
        ((2).to_bytes(8, "little") + b"\xff\xff", "header is not a JSON object"),
        ((5000).to_bytes(8, "little") + b"[" * 5000, "header is not a JSON object"),
    ],
)
def test_files_of_another_kind_are_refused(folder, content, message):
    _, path = folder
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_huggingface(path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [2**62, 2**62]}, "incorrectly"),
        ({"shape": [-1]}, "incorrectly"),
        ({"shape": [True]}, "incorrectly"),
        ({"shape": [1] * 9}, "incorrectly"),
        ({"shape": 3}, "incorrectly"),
        ({"data_offsets": [0, 8, 9]}, "incorrectly"),
        ({"data_offsets": [8, 4]}, "incorrectly"),
        ({"data_offsets": [0, 2**40]}, "incorrectly"),
        ({"data_offsets": [30, 38]}, "truncated"),
        ({"dtype": 4}, "incorrectly"),
        ({"dtype": "F64"}, "does not match its shape"),
        ({"shape": [3]}, "does not match its shape"),
    ],
)
def test_header_entries_are_checked(tmp_path, entry, message):
    sound = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    store(tmp_path / "x", {"a": ("F32", np.zeros(2, "<f4"))}, {"a": sound | entry})
    with pytest.raises(UserError, match=message):
        read_index(tmp_path / "x")
    store(tmp_path / "x", {}, {"a": [1, 2]})
    with pytest.raises(UserError, match="incorrectly"):
        read_index(tmp_path / "x")


def test_numbers_begin_at_a_multiple_of_eight(tmp_path):
    for name in ("a", "ab", "abc"):
        write_safetensors(tmp_path / name, {name: (3, 2)}, [np.arange(6.0).reshape(2, 3).T])
        tensor = read_index(tmp_path / name)[name]
        assert tensor.start % 8 == 0
        np.testing.assert_array_equal(tensor.read(), [[0, 3], [1, 4], [2, 5]])


def test_missing_parts_are_named(folder, tmp_path):
    _, path = folder
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(UserError, match="holds no model.safetensors; save the model again"):
        read_huggingface(path)
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../secret.safetensors"}}')
    with pytest.raises(UserError, match="does not say which files"):
        read_huggingface(path)
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-1.safetensors"}}')
    with pytest.raises(UserError, match="lacks model-1.safetensors"):
        read_huggingface(path)
    (path / "config.json").unlink()
    with pytest.raises(UserError, match="lacks config.json"):
        read_huggingface(path)
    with pytest.raises(UserError, match="there is no folder"):
        read_huggingface(tmp_path / "not" / "there")


# ----- the hub ------------------------------------------------------------------------------------------------------


def test_without_huggingface_hub_the_sentence_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args):
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r"no folder openai-.*pip install huggingface_hub`.*local folder") as caught:
        read_huggingface("openai-community/gpt2")
    assert "\n" not in str(caught.value)


def test_offline_is_one_sentence_unless_the_files_are_cached(folder, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    model, path = folder

    def offline(*args, **options):
        raise ConnectionError("Name or service not known\nand more")

    monkeypatch.setattr(hub.utils, "get_session", offline)
    with pytest.raises(UserError, match="cannot fetch no-such/gpt2 .*Name or service not known and more") as caught:
        read_huggingface("no-such/gpt2")
    assert "\n" not in str(caught.value)

    def cached(repository, name, local_files_only=False):
        return path / name

    monkeypatch.setattr(hub, "hf_hub_download", cached)
    np.testing.assert_array_equal(read_huggingface("no-such/gpt2").params_flat, model.params_flat)


def test_a_damaged_file_of_the_cache_is_noticed(folder, tmp_path, monkeypatch):
    """The hub's cache calls a large file by its SHA-256, and links to it by its name."""
    hub = pytest.importorskip("huggingface_hub")
    model, path = folder
    blob = tmp_path / digest(path / "model.safetensors")
    (path / "model.safetensors").rename(blob)
    (path / "model.safetensors").symlink_to(blob)
    monkeypatch.setattr(hub, "hf_hub_download", lambda repository, name, **_: str(path / name))
    np.testing.assert_array_equal(read_huggingface("no-such/gpt2").params_flat, model.params_flat)
    raw = bytearray(blob.read_bytes())
    raw[-1] ^= 1
    blob.write_bytes(raw)
    with pytest.raises(UserError, match="no-such/gpt2 is damaged: .* delete") as caught:
        read_huggingface("no-such/gpt2")
    assert str(blob) in str(caught.value) and "\n" not in str(caught.value)


# ----- the tokenizer -----------------------------------------------------------------------------------------------


def test_letters_of_bytes_are_gpt2s():
    letters = byte_letters()
    assert len(set(letters)) == 256 and not any(letter.isspace() for letter in letters)
    assert (letters[ord(" ")], letters[ord("\n")], letters[ord("~")], letters[255]) == ("Ġ", "Ċ", "~", "ÿ")


def test_merges_are_those_the_tokenizer_was_trained_with():
    tokens = train_bpe(TEXT, 44)
    encoding = make_encoding(tokens + [b"<|endoftext|>"], 300)
    for (a, b), token in zip(merges(encoding), tokens[256:], strict=True):
        assert a + b == token and tokens.index(a) < tokens.index(token) > tokens.index(b)


def test_tokens_that_no_merge_makes_are_refused():
    tokens = [bytes([b]) for b in range(256)] + [b"abc", b"<|endoftext|>"]
    with pytest.raises(UserError, match="token 256 .* is not a merge"):
        merges(make_encoding(tokens, 257))


def test_gpt2s_own_files(reference_dir, tmp_path):
    """llm.c's tokenizer file gives the vocab.json and merges.txt of OpenAI's release."""
    encoding = read_tokenizer(reference_dir / "gpt2_tokenizer.bin")
    write_huggingface_tokenizer(tmp_path, encoding, 1024)
    originals = [path.read_text(encoding="utf-8") for path in (reference_dir.parent / "tiktoken").iterdir()]
    vocabulary = next(json.loads(text) for text in originals if text.startswith("{"))
    rules = next(text for text in originals if text.startswith("#version"))
    assert json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8")) == vocabulary
    assert (tmp_path / "merges.txt").read_text(encoding="utf-8").strip() == rules.strip()
