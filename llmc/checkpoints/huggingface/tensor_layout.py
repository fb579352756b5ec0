"""Hugging Face's names for the parts of a GPT-2: the names and shapes of its tensors, and config.json.

The tensors are llm.c's under other names, one per layer instead of stacked. The blocks' matrices belong to
transformers' Conv1D, which stores them as (in, out), so they are transposed; wte has V rows, without padding. Follows
transformers' modeling_gpt2.py and configuration_gpt2.py.
"""

from llmc.config import GPT2Config
from llmc.data.tokenizer import GPT2_END
from llmc.errors import UserError

NAMES = {  # llm.c's name -> Hugging Face's
    "wte": "wte.weight",
    "wpe": "wpe.weight",
    "ln1w": "h.{l}.ln_1.weight",
    "ln1b": "h.{l}.ln_1.bias",
    "qkvw": "h.{l}.attn.c_attn.weight",
    "qkvb": "h.{l}.attn.c_attn.bias",
    "attprojw": "h.{l}.attn.c_proj.weight",
    "attprojb": "h.{l}.attn.c_proj.bias",
    "ln2w": "h.{l}.ln_2.weight",
    "ln2b": "h.{l}.ln_2.bias",
    "fcw": "h.{l}.mlp.c_fc.weight",
    "fcb": "h.{l}.mlp.c_fc.bias",
    "fcprojw": "h.{l}.mlp.c_proj.weight",
    "fcprojb": "h.{l}.mlp.c_proj.bias",
    "lnfw": "ln_f.weight",
    "lnfb": "ln_f.bias",
}
# transformers' name -> ours; a size that config.json leaves out is GPT-2's, which is our default too
SIZES = {"n_positions": "maxT", "vocab_size": "V", "n_layer": "L", "n_head": "NH", "n_embd": "C"}
TANH_GELU = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")  # three names of one function
COMPUTED = {  # option -> values for which llmc computes the same, transformers' default first
    "activation_function": TANH_GELU,
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}


def pieces(config):
    """Yield (our name, index into it, their name, their shape, transposed?) for each of their tensors, in our order."""
    for p in config.parameter_table():
        theirs, transposed = NAMES[p.name], p.stacked and p.decayed
        if not p.stacked:
            rows = config.V if p.name == "wte" else p.shape[0]
            yield p.name, slice(0, rows), theirs, (rows, *p.shape[1:]), transposed
            continue
        shape = p.shape[:0:-1] if transposed else p.shape[1:]  # without the L layers
        for l in range(config.L):
            yield p.name, l, theirs.format(l=l), shape, transposed


def options_of(config: GPT2Config, end_of_text: int | None) -> dict:
    """The config.json of a model. end_of_text: its token id; None means GPT-2's id if the vocabulary is GPT-2's."""
    if end_of_text is None and config.V == GPT2Config().V:
        end_of_text = GPT2_END
    options = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "tie_word_embeddings": True}
    options |= {theirs: getattr(config, ours) for theirs, ours in SIZES.items()} | {"n_inner": None}
    options |= {option: values[0] for option, values in COMPUTED.items()}
    options |= {f"{where}_pdrop": 0.0 for where in ("embd", "attn", "resid")}  # llmc trains without dropout
    return options | {"bos_token_id": end_of_text, "eos_token_id": end_of_text}


def config_of(path, options) -> GPT2Config:
    """The sizes in a config.json. Raises UserError if llmc cannot compute what this model computes."""
    if options.get("model_type") != "gpt2":
        raise UserError(
            f"{path} has model type {_short(options.get('model_type'))}, but llmc knows only gpt2; use a GPT-2."
        )
    given = {ours: options[theirs] for theirs, ours in SIZES.items() if theirs in options}
    try:
        config = GPT2Config(**given)
    except UserError as error:
        raise UserError(f"{path} does not describe a GPT-2: {error}") from None
    n_inner = options.get("n_inner")
    wrong = [] if n_inner is None or n_inner == 4 * config.C else ["n_inner"]
    wrong += [option for option, values in COMPUTED.items() if options.get(option, values[0]) not in values]
    if wrong:
        value = _short(options[wrong[0]])
        raise UserError(f"{path} sets {wrong[0]} to {value}, which llmc does not support; use another GPT-2.")
    return config


def _short(value):
    return repr(value)[:60]
