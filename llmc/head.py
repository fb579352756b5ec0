"""The head of GPT-2, from the last layernorm's output to the losses and back: for all sequences at once, or for a few.

    lnf ─ wteᵀ ─ logits ─ softmax and cross-entropy ─ losses

The logits are the widest activations by far, Vp numbers per token. A backend that would rather not hold all of them
says in HEAD_ROWS for how many tokens it does. The batch is then cut into parts of whole sequences, and the logits of
each part are written over those of the one before. Their gradient can no longer wait for the backward pass, so what the
forward pass would have done is done there, part by part: logits, their gradient, and what follows from it.
"""

from math import prod

from llmc import blocks


def sequences_at_once(config, backend, B, T) -> int:
    """For how many of B sequences of T tokens there is room for logits; a matter of these shapes alone.

    As many as the backend prefers, but at least one, and enough for the gradients that share the memory to fit.
    """
    rows = backend.HEAD_ROWS or B * T
    shared = sum(prod(tensor.shape) for tensor in blocks.gradient_tables(config, B, T)[1])
    return min(B, max(1, rows // T, _ceil_div(shared, T * config.Vp)))


def _ceil_div(a, b):
    return -(-a // b)


def is_cut(acts) -> bool:
    """Whether acts, of `model.activation_table`, has logits (n, T, Vp) for fewer sequences than there are."""
    return len(acts["logits"]) < len(acts["lnf"])


def forward(be, config, params, acts, targets=None, dloss=None):
    """Fill acts["losses"] (B, T) from acts["lnf"] (B, T, C) and targets (B, T); without targets only acts["logits"].

    With dloss, the gradient with respect to each token's loss, acts["logits"] hold their gradient afterwards; that of
    the last part, if they are cut.
    """
    for part in _parts(acts):
        logits = _logits(be, params, acts, part)
        if targets is not None:
            be.fused_classifier(acts["losses"][part], logits, targets[part], dloss, config.V)  # (≤ n, T)


def backward(be, config, params, grads, acts, dlnf, targets=None, dloss=None, accumulate=True):
    """*dlnf (B, T, C), and +grads["wte"], from the logits' gradient, which is there already unless logits are cut.

    If they are, targets and dloss are those of `forward`, whose work is done here; acts["losses"] are written too.
    accumulate=False: grads["wte"] is written, not added to.
    """
    for part in _parts(acts):
        dlogits = acts["logits"]
        if is_cut(acts):
            logits = _logits(be, params, acts, part)
            dlogits = be.classifier_gradient(acts["losses"][part], logits, targets[part], dloss, config.V)
        x, w = acts["lnf"][part], params["wte"]  # (≤ n, T, C), (Vp, C)
        be.matmul_backward(dlnf[part], grads["wte"], None, dlogits, x, w, accumulate=accumulate)
        accumulate = True  # the gradients of later parts are added to that of the first one


def _parts(acts):
    """Slices of the batch in order: as few as there can be, of about the same length."""
    n, B = len(acts["logits"]), len(acts["lnf"])
    each = _ceil_div(B, _ceil_div(B, n))
    return [slice(b, min(b + each, B)) for b in range(0, B, each)]


def _logits(be, params, acts, part):
    """The logits of one part, (≤ n, T, Vp)."""
    logits = acts["logits"][: part.stop - part.start]
    be.matmul_forward(logits, acts["lnf"][part], params["wte"], None)  # (≤ n, T, Vp)
    return logits
