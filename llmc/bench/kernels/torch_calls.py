"""PyTorch's counterpart of each kernel, for the table in 16 bits: what a PyTorch user would call, in eager mode.

All tensors have 16 bits, even the residual stream, which ours keeps in float32; only AdamW's are float32, as under
autocast. Backward passes are autograd's, for a forward pass that was made before. PyTorch writes new tensors and does
not accumulate gradients, so it moves less data than our functions, which do.
"""

import numpy as np

from llmc.errors import UserError


def counterpart(function, arguments):
    """A function without arguments that has PyTorch compute what `function` computes, and returns the tensors.

    arguments: arrays and numbers by the contract's names, in 16 bits where training uses them; the tensors share their
    memory where possible. Gradients are returned, not accumulated. Raises UserError if PyTorch is not installed.
    """
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        raise UserError("PyTorch is not installed.") from None
    low = next(tensor.dtype for tensor in map(_tensor, arguments.values()) if _has_16_bits(tensor))
    found = {}
    for name, value in arguments.items():
        tensor = _tensor(value)
        if function != "adamw_update" and getattr(tensor, "dtype", None) == torch.float32:
            tensor = tensor.to(low)
        found[name] = tensor
    return CALLS[function](functional, **found)


def _has_16_bits(tensor) -> bool:
    return hasattr(tensor, "element_size") and tensor.is_floating_point() and tensor.element_size() == 2


def _tensor(value):
    """A NumPy or CuPy array as a tensor on the same memory; anything else unchanged."""
    import torch

    if not hasattr(value, "dtype") or not hasattr(value, "shape") or not value.shape:
        return value
    flat, kind = value.reshape(-1), {"int32": torch.int32}.get(value.dtype.name) or getattr(torch, value.dtype.name)
    return torch.from_dlpack(flat.view(np.uint8)).view(kind).reshape(value.shape)  # DLPack need not know bfloat16


def _backward(outputs, inputs, gradients):
    """Autograd's backward pass from `outputs`, again and again."""
    import torch

    return lambda: torch.autograd.grad(outputs, inputs, gradients, retain_graph=True)


# F: torch.nn.functional


def encoder_forward(F, out, tokens, wte, wpe):
    return lambda: (F.embedding(tokens, wte) + wpe[: tokens.shape[1]],)


def encoder_backward(F, dwte, dwpe, dout, tokens):
    wte, wpe = dwte.requires_grad_(), dwpe.requires_grad_()
    return _backward(F.embedding(tokens, wte) + wpe[: tokens.shape[1]], (wte, wpe), dout)


def layernorm_forward(F, out, mean, rstd, x, w, b):
    return lambda: (F.layer_norm(x, w.shape, w, b),)


def residual_layernorm_forward(F, residual, out, mean, rstd, x1, x2, w, b):
    def call():
        sums = x1 + x2
        return sums, F.layer_norm(sums, w.shape, w, b)

    return call


def layernorm_backward(F, dx, dw, db, dout, x, w, mean, rstd):
    inputs = x.requires_grad_(), w.requires_grad_(), db.requires_grad_()
    return _backward(F.layer_norm(x, w.shape, w, db), inputs, dout)


def layernorm_backward_rounded(F, dx, dsum, dw, db, dout, x, w, mean, rstd):
    backward = layernorm_backward(F, dx, dw, db, dout, x, w, mean, rstd)

    def call():
        found, *weights = backward()
        dx.add_(found)
        return dx, dx.sum(dim=(0, 1)), *weights

    return call


def bias_backward(F, db, dout):
    return lambda: (dout.sum(dim=(0, 1)),)


def residual_forward(F, out, x1, x2):
    return lambda: (x1 + x2,)


def gelu_forward(F, out, x):
    return lambda: (F.gelu(x, approximate="tanh"),)


def gelu_backward(F, dx, dout, x):
    x.requires_grad_()
    return _backward(F.gelu(x, approximate="tanh"), (x,), dout)


def scale(F, grads, factor):
    return lambda: (grads.mul_(factor),)


def matmul_forward(F, out, x, w, b):
    return lambda: (F.linear(x, w, b),)


def matmul_gelu_forward(F, gelu_out, out, x, w, b):
    def call():
        product = F.linear(x, w, b)
        return F.gelu(product, approximate="tanh"), product

    return call


def matmul_backward(F, dx, dw, db, dout, x, w):
    inputs = x.requires_grad_(), w.requires_grad_(), db.requires_grad_()
    return _backward(F.linear(x, w, db), inputs, dout)


def gelu_matmul_backward(F, dpre, dw, db, dout, pre, x, w, dbpre):
    inputs = pre.requires_grad_(), w.requires_grad_(), db.requires_grad_(), dbpre.requires_grad_()
    whole = pre + (dbpre - dbpre.detach())  # the bias is in pre already
    return _backward(F.linear(F.gelu(whole, approximate="tanh"), w, db), inputs, dout)


def _heads(qkv, NH):
    """q, k, v (B, NH, T, hs), views of qkv (B, T, 3C)."""
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    return qkv.view(B, T, 3, NH, C // NH).permute(2, 0, 3, 1, 4).unbind(0)


def _attention(F, qkv, NH):
    heads = F.scaled_dot_product_attention(*_heads(qkv, NH), is_causal=True)  # (B, NH, T, hs)
    return heads.transpose(1, 2).flatten(2)  # (B, T, C)


def attention_forward(F, out, stats, qkv, NH):
    return lambda: (_attention(F, qkv, NH),)


def attention_backward(F, dqkv, dout, out, stats, qkv, NH):
    qkv.requires_grad_()
    return _backward(_attention(F, qkv, NH), (qkv,), dout)


def attention_cached(F, out, cache, qkv, NH, start):
    def call():
        q, k, v = _heads(qkv, NH)  # (B, NH, 1, hs) each
        cache[0, :, :, start], cache[1, :, :, start] = k[:, :, 0], v[:, :, 0]
        found = F.scaled_dot_product_attention(q, *cache[:, :, :, : start + 1])  # (B, NH, 1, hs)
        return found.transpose(1, 2).flatten(2), cache

    return call


def fused_classifier(F, losses, logits, targets, dloss, V):
    """Forward and backward; the padding counts, as it does when PyTorch users pad the vocabulary."""
    import torch

    logits, targets = logits.flatten(0, 1).requires_grad_(), targets.flatten().long()

    def call():
        found = F.cross_entropy(logits, targets, reduction="none")  # (B·T,)
        return found, *torch.autograd.grad(found.sum() * dloss, logits)

    return call


def global_norm(F, grads):
    import torch

    return lambda: (torch.linalg.vector_norm(grads, dtype=torch.float32),)


def adamw_update(F, params, grads, m, v, master, settings):
    """PyTorch's fused AdamW on float32 weights and gradients, as in training with autocast."""
    import torch

    weights = torch.nn.Parameter(master)
    weights.grad = grads.to(torch.float32)
    optimizer = torch.optim.AdamW([weights], lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def call():
        optimizer.step()
        return (weights,)

    return call


CALLS = {
    call.__name__: call
    for call in (
        *(encoder_forward, encoder_backward, layernorm_forward, residual_layernorm_forward, layernorm_backward),
        *(layernorm_backward_rounded, bias_backward, residual_forward, gelu_forward, gelu_backward, scale),
        *(matmul_forward, matmul_gelu_forward, matmul_backward, gelu_matmul_backward),
        *(attention_forward, attention_backward, attention_cached, fused_classifier, global_norm, adamw_update),
    )
}
CALLS["matmul_gelu_forward_once"] = matmul_gelu_forward
