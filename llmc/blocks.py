"""GPT-2 between tokens and losses: L blocks, the last layernorm and the head; forward, backward, and their arrays.

    x ─┬─ ln1 ─ qkv ─ attention ─ attproj ─(+)─ residual2 ─┬─ ln2 ─ fch ─ GELU ─ fcproj ─(+)─ residual3
       └────────────────────────────────────┘              └──────────────────────────────┘

One description serves training (`model.py`) and cached decoding (`kv_cache.py`); only attention differs. The head
comes last. Follows the GPT-2 paper (Radford et al. 2019: pre-layernorm blocks, tied embeddings) and llm.c's
train_gpt2.c for the names.
"""

from functools import lru_cache
from math import ceil, prod

from llmc.flat_buffer import Tensor

WRITTEN = ("wte", "qkvw", "attprojw", "fcw", "fcprojw")  # whose gradients a matmul can write; the others are added to
AGAIN = {0: "", 1: "gelu", 2: "gelu layernorm", 3: "layernorm"}  # level: whose outputs `backward` computes again
RECOMPUTE = tuple(AGAIN)


@lru_cache  # every step asks for it
def activation_table(config, B, T, stats=None, recompute=0) -> list[Tensor]:
    """What `forward` writes for tokens (B, T), in that order; llm.c's ActivationTensors.

    stats: shape of what attention keeps for its backward pass. With it, all that `backward` reads is kept layer by
    layer, except for what it computes again: recompute, one of RECOMPUTE, of which 0, 1 and 2 are those of llm.c's
    option -r. Without stats nothing is kept: one set of arrays serves all layers in turn.
    """
    C = config.C

    def kept(name, *shape, kind=""):
        return Tensor(name, (config.L, *shape) if stats else shape, bool(stats), kind)

    def factor_but_for(layer, name, *shape):
        whole = layer not in AGAIN[recompute] and stats
        return Tensor(name, (config.L, *shape) if whole else shape, bool(whole), "factor" if stats else "")

    return [
        Tensor("encoded", (B, T, C), kind="stream"),
        factor_but_for("layernorm", "ln1", B, T, C),
        kept("ln1_mean", B, T, kind="exact"),
        kept("ln1_rstd", B, T, kind="exact"),
        kept("qkv", B, T, 3 * C),
        *([kept("stats", *stats, kind="exact")] if stats else []),
        kept("atty", B, T, C),
        Tensor("attproj", (B, T, C)),  # read once, by the residual after it: one array serves all layers
        kept("residual2", B, T, C, kind="stream"),
        factor_but_for("layernorm", "ln2", B, T, C),
        kept("ln2_mean", B, T, kind="exact"),
        kept("ln2_rstd", B, T, kind="exact"),
        kept("fch", B, T, 4 * C),
        factor_but_for("gelu", "fch_gelu", B, T, 4 * C),
        Tensor("fcproj", (B, T, C)),  # likewise
        kept("residual3", B, T, C, kind="stream"),
        Tensor("lnf", (B, T, C)),
        Tensor("lnf_mean", (B, T), kind="exact"),
        Tensor("lnf_rstd", (B, T), kind="exact"),
    ]


@lru_cache
def gradient_tables(config, B, T, narrow_factors=False) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of activations: those with memory of their own, and those that share the logits' memory.

    `dresidual` flows through all layers; the others are overwritten in each. With a small vocabulary nothing is shared,
    nor is what has fewer bits than logits: narrow_factors.
    """
    C = config.C
    narrow = [Tensor("dresidual", (B, T, C), kind="stream"), Tensor("dbtc", (B, T, C))]
    wide = [Tensor("dqkv", (B, T, 3 * C), kind="factor"), Tensor("dfch", (B, T, 4 * C), kind="factor")]
    return (narrow, wide) if config.Vp >= 7 * C and not narrow_factors else (narrow + wide, [])


def forward(be, config, params, acts, attend, once=False):
    """Fill acts["lnf"] (B, T, C), and everything before it, from acts["encoded"] (B, T, C), the embedded tokens.

    be: the backend · params, acts: FlatBuffers · attend(l, a): writes a["atty"] (B, T, C) from a["qkv"] (B, T, 3C) of
    layer l · once: nobody will ask for the bits of GELU's outputs again. Each residual is added together with the
    layernorm after it, so that a backend can fuse the two.
    """
    matmul_gelu = be.matmul_gelu_forward_once if once else be.matmul_gelu_forward
    x = acts["encoded"]  # (B, T, C): the residual stream
    norm, weights = _norm_before(0, config, params, acts)
    be.layernorm_forward(*norm, x, *weights)  # (B, T, C)
    for l in range(config.L):
        w, a = params.layer(l), acts.layer(l)
        be.matmul_forward(a["qkv"], a["ln1"], w["qkvw"], w["qkvb"])  # (B, T, 3C)
        attend(l, a)  # (B, T, C)
        be.matmul_forward(a["attproj"], a["atty"], w["attprojw"], w["attprojb"])  # (B, T, C)
        norm = a["ln2"], a["ln2_mean"], a["ln2_rstd"]
        be.residual_layernorm_forward(a["residual2"], *norm, x, a["attproj"], w["ln2w"], w["ln2b"])  # (B, T, C)
        matmul_gelu(a["fch_gelu"], a["fch"], a["ln2"], w["fcw"], w["fcb"])  # both (B, T, 4C)
        be.matmul_forward(a["fcproj"], a["fch_gelu"], w["fcprojw"], w["fcprojb"])  # (B, T, C)
        x = a["residual3"]  # (B, T, C)
        norm, weights = _norm_before(l + 1, config, params, acts)
        be.residual_layernorm_forward(x, *norm, a["residual2"], a["fcproj"], *weights)  # (B, T, C)


def _norm_before(l, config, params, acts):
    """((out, mean, rstd), (w, b)) of the layernorm that block l begins with; for l = L, of the last one, lnf."""
    name, a, w = ("ln1", acts.layer(l), params.layer(l)) if l < config.L else ("lnf", acts, params)
    return (a[name], a[f"{name}_mean"], a[f"{name}_rstd"]), (w[f"{name}w"], w[f"{name}b"])


def backward(be, config, params, grads, acts, dacts, tokens, recompute=0, final=None, accumulate=True):
    """Add to grads what reaches the parameters from dacts["dbtc"] (B, T, C), the gradient of acts["lnf"].

    params, grads, acts: FlatBuffers, the last one of `activation_table` (with stats, and this recompute) · dacts: what
    `gradient_tables` lists, by name · final(l), if given, is called when nothing more will be added to the gradients of
    layer l, and with None at the end · accumulate=False: the gradients of WRITTEN are written, not added to.
    """
    final = final or (lambda layer: None)
    be.zero(dacts["dresidual"])  # (B, T, C): the gradient of the residual stream, from the last layer to the first
    last, stats = acts.layer(config.L - 1)["residual3"], (acts["lnf_mean"], acts["lnf_rstd"])  # (B, T, C), (B, T) each
    dstream, bias = dacts["dresidual"], grads.layer(config.L - 1)["fcprojb"]  # (B, T, C), (C,)
    into, read = (dstream, bias, grads["lnfw"], grads["lnfb"], dacts["dbtc"]), (last, params["lnfw"], *stats)
    above = be.layernorm_residual_backward(*into, *read, accumulate=accumulate)  # (B, T, C), (C,)
    for l in reversed(range(config.L)):
        x = acts.layer(l - 1)["residual3"] if l else acts["encoded"]  # (B, T, C)
        w, a, bias = params.layer(l), acts.layer(l), grads.layer(l - 1)["fcprojb"] if l else None  # bias: (C,)
        if "gelu" in AGAIN[recompute]:  # from what was kept, what the next block overwrote in `forward`
            be.gelu_again(a["fch_gelu"], a["fch"])  # (B, T, 4C)
        if "layernorm" in AGAIN[recompute]:
            for ln, read in (("ln1", x), ("ln2", a["residual2"])):  # (B, T, C) each
                be.layernorm_again(a[ln], read, w[f"{ln}w"], w[f"{ln}b"], a[f"{ln}_mean"], a[f"{ln}_rstd"])
        above = _block_backward(be, config, w, grads.layer(l), a, dacts, x, above, bias, accumulate)
        final(l)
    be.encoder_backward(grads["wte"], grads["wpe"], dacts["dresidual"], tokens)  # wte again: two gradients meet
    final(None)


def _block_backward(be, config, w, g, a, d, x, above, bias, accumulate):
    """One block, from its last layer to its first; x (B, T, C) is what it read.

    A residual needs no call: its gradient is dresidual for both branches. above: what layernorm_residual_backward
    returned last; bias (C,): for its next call, which is the end of this block. Returns what that returns.
    """
    dbtc, dstream, (dout, db) = d["dbtc"], d["dresidual"], above
    gradients = d["dfch"], g["fcprojw"], db, dout
    fcb = be.gelu_matmul_backward(*gradients, a["fch"], a["fch_gelu"], w["fcprojw"], g["fcb"], accumulate)  # (B, T, 4C)
    be.matmul_backward(dbtc, g["fcw"], fcb, d["dfch"], a["ln2"], w["fcw"], accumulate)  # (B, T, C)
    read = a["residual2"], w["ln2w"], a["ln2_mean"], a["ln2_rstd"]
    dout, db = be.layernorm_residual_backward(dstream, g["attprojb"], g["ln2w"], g["ln2b"], dbtc, *read, accumulate)
    be.matmul_backward(dbtc, g["attprojw"], db, dout, a["atty"], w["attprojw"], accumulate)  # (B, T, C)
    read = dbtc, a["atty"], a["stats"], a["qkv"]
    qkvb = be.attention_bias_backward(d["dqkv"], g["qkvb"], *read, config.NH, accumulate)  # (B, T, 3C)
    be.matmul_backward(dbtc, g["qkvw"], qkvb, d["dqkv"], a["ln1"], w["qkvw"], accumulate)  # (B, T, C)
    read = x, w["ln1w"], a["ln1_mean"], a["ln1_rstd"]
    into = dstream, bias, g["ln1w"], g["ln1b"]
    return be.layernorm_residual_backward(*into, dbtc, *read, accumulate)  # (B, T, C), (C,)


# ------------------------------------------------------------------------------------------------------------ the head
#
#     lnf ─ wteᵀ ─ logits ─ softmax and cross-entropy ─ losses
#
# The logits are the widest activations by far, Vp numbers per token. A backend that would rather not hold all of them
# says in HEAD_ROWS for how many tokens it does. The batch is then cut into parts of whole sequences, and the logits of
# each part are written over those of the one before. Their gradient can no longer wait for the backward pass, so what
# the forward pass would have done is done there, part by part: logits, their gradient, and what follows from it.


def sequences_at_once(config, backend, B, T) -> int:
    """For how many of B sequences of T tokens there is room for logits; a matter of these shapes alone.

    As many as the backend prefers, but at least one, and enough for the gradients that share the memory to fit.
    """
    rows = backend.HEAD_ROWS or B * T
    shared = sum(prod(tensor.shape) for tensor in gradient_tables(config, B, T)[1])
    return min(B, max(1, rows // T, -(-shared // (T * config.Vp))))


def is_cut(acts) -> bool:
    """Whether acts, of `model.activation_table`, has logits (n, T, Vp) for fewer sequences than there are."""
    return len(acts["logits"]) < len(acts["lnf"])


def head_forward(be, config, params, acts, targets=None, dloss=None):
    """Fill acts["losses"] (B, T) from acts["lnf"] (B, T, C) and targets (B, T); without targets only acts["logits"].

    With dloss, the gradient with respect to each token's loss, acts["logits"] hold their gradient afterwards; that of
    the last part, if they are cut.
    """
    for some in _slices(acts):
        logits = _logits(be, params, acts, some)
        if targets is not None:
            be.fused_classifier(acts["losses"][some], logits, targets[some], dloss, config.V)  # (≤ n, T)


def head_backward(be, config, params, grads, acts, dlnf, targets=None, dloss=None, accumulate=True):
    """*dlnf (B, T, C), and +grads["wte"], from the logits' gradient, which is there already unless logits are cut.

    If they are, targets and dloss are those of `head_forward`, whose work is done here; acts["losses"] are written too.
    accumulate=False: grads["wte"] is written, not added to.
    """
    for some in _slices(acts):
        dlogits = acts["logits"]
        if is_cut(acts):
            logits = _logits(be, params, acts, some)
            dlogits = be.classifier_gradient(acts["losses"][some], logits, targets[some], dloss, config.V)
        x, w = acts["lnf"][some], params["wte"]  # (≤ n, T, C), (Vp, C)
        be.matmul_backward(dlnf[some], grads["wte"], None, dlogits, x, w, accumulate=accumulate)
        accumulate = True  # the gradients of later parts are added to that of the first one


def _slices(acts):
    """Slices of the batch in order: as few as there can be, of about the same length."""
    n, B = len(acts["logits"]), len(acts["lnf"])
    each = ceil(B / ceil(B / n))
    return [slice(b, min(b + each, B)) for b in range(0, B, each)]


def _logits(be, params, acts, some):
    """The logits of some sequences, a slice: (≤ n, T, Vp)."""
    logits = acts["logits"][: some.stop - some.start]
    be.matmul_forward(logits, acts["lnf"][some], params["wte"], None)  # (≤ n, T, Vp)
    return logits
