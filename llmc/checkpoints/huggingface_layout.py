"""What Hugging Face calls the parts of a GPT-2: names and shapes of its tensors, and config.json.

The tensors are llm.c's under other names, one for each layer instead of stacked. Matrices of the blocks are
transformers' Conv1D and stand (in, out), so they are transposed; wte has V rows, without padding. Follows transformers'
modeling_gpt2.py and configuration_gpt2.py.
"""

from llmc.config import GPT2Config
from llmc.errors import UserError

NAMES = {  # llm.c's name -> (Hugging Face's, whether it is stored transposed)
    "wte": ("wte.weight", False),
    "wpe": ("wpe.weight", False),
    "ln1w": ("h.{l}.ln_1.weight", False),
    "ln1b": ("h.{l}.ln_1.bias", False),
    "qkvw": ("h.{l}.attn.c_attn.weight", True),
    "qkvb": ("h.{l}.attn.c_attn.bias", False),
    "attprojw": ("h.{l}.attn.c_proj.weight", True),
    "attprojb": ("h.{l}.attn.c_proj.bias", False),
    "ln2w": ("h.{l}.ln_2.weight", False),
    "ln2b": ("h.{l}.ln_2.bias", False),
    "fcw": ("h.{l}.mlp.c_fc.weight", True),
    "fcb": ("h.{l}.mlp.c_fc.bias", False),
    "fcprojw": ("h.{l}.mlp.c_proj.weight", True),
    "fcprojb": ("h.{l}.mlp.c_proj.bias", False),
    "lnfw": ("ln_f.weight", False),
    "lnfb": ("ln_f.bias", False),
}
# transformers' name -> ours; a config.json that leaves one out means GPT-2's, which is our default too.
SIZES = {"n_positions": "maxT", "vocab_size": "V", "n_layer": "L", "n_head": "NH", "n_embd": "C"}
TANH_GELU = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")  # three names of one function
COMPUTED = {  # option -> values that compute what llmc computes, transformers' default first
    "activation_function": TANH_GELU,
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}
END_OF_TEXT = 50256  # of GPT-2's vocabulary


def pieces(config):
    """(our name, index into it, their name, their shape, transposed?) of every tensor of theirs, in our order."""
    for p in config.parameter_table():
        theirs, transposed = NAMES[p.name]
        if "{l}" not in theirs:
            rows = config.V if p.name == "wte" else p.shape[0]
            yield p.name, slice(0, rows), theirs, (rows, *p.shape[1:]), transposed
            continue
        shape = p.shape[:0:-1] if transposed else p.shape[1:]  # of one layer
        for l in range(config.L):
            yield p.name, l, theirs.format(l=l), shape, transposed


def options_of(config: GPT2Config, end_of_text: int | None) -> dict:
    """config.json of a model. end_of_text: its token id, or None, which is GPT-2's in GPT-2's vocabulary."""
    if end_of_text is None and config.V == GPT2Config().V:
        end_of_text = END_OF_TEXT
    options = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "tie_word_embeddings": True}
    options |= {theirs: getattr(config, ours) for theirs, ours in SIZES.items()} | {"n_inner": None}
    options |= {option: values[0] for option, values in COMPUTED.items()}
    options |= {f"{where}_pdrop": 0.0 for where in ("embd", "attn", "resid")}  # llmc trains without dropout
    return options | {"bos_token_id": end_of_text, "eos_token_id": end_of_text}


def config_of(path, options) -> GPT2Config:
    """The sizes in a config.json, or a UserError when its model is not one that llmc computes."""
    if options.get("model_type") != "gpt2":
        raise UserError(f"{path} is of model type {_short(options.get('model_type'))}, and llmc knows gpt2 only.")
    given = {ours: options[theirs] for theirs, ours in SIZES.items() if theirs in options}
    try:
        config = GPT2Config(**given)
    except UserError as error:
        raise UserError(f"{path} does not describe a GPT-2: {error}") from None
    wide = options.get("n_inner")
    wrong = [] if wide is None or wide == 4 * config.C else ["n_inner"]
    wrong += [option for option, values in COMPUTED.items() if options.get(option, values[0]) not in values]
    if wrong:
        value = _short(options[wrong[0]])
        raise UserError(f"{path} sets {wrong[0]} to {value}, which llmc does not compute; use another GPT-2.")
    return config


def _short(value):
    return repr(value)[:60]
