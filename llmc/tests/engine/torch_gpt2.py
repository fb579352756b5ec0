"""The referee: GPT-2 in PyTorch, written as plainly as possible, with autograd for its backward pass.

It takes parameters by llm.c's names and stacked over layers, so that gradients can be compared name by name.
"""

import torch
import torch.nn.functional as F


def parameters(values, dtype):
    """{name: leaf tensor} from {name: NumPy array}."""
    return {name: torch.tensor(v, dtype=dtype, requires_grad=True) for name, v in values.items()}


def logits(config, p, x):
    """(B, T, V) logits of tokens x (B, T)."""
    B, T = x.shape
    C, NH, hs = config.C, config.NH, config.hs
    stream = p["wte"][x] + p["wpe"][:T]  # (B, T, C)
    for l in range(config.L):
        norm = F.layer_norm(stream, (C,), p["ln1w"][l], p["ln1b"][l], 1e-5)  # (B, T, C)
        qkv = F.linear(norm, p["qkvw"][l], p["qkvb"][l])  # (B, T, 3C)
        q, k, v = (part.view(B, T, NH, hs).transpose(1, 2) for part in qkv.split(C, dim=2))  # (B, NH, T, hs)
        scores = q @ k.transpose(2, 3) / hs**0.5  # (B, NH, T, T)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        attention = scores.masked_fill(future, float("-inf")).softmax(-1)  # (B, NH, T, T)
        mixed = (attention @ v).transpose(1, 2).reshape(B, T, C)  # (B, T, C)
        stream = stream + F.linear(mixed, p["attprojw"][l], p["attprojb"][l])  # (B, T, C)
        norm = F.layer_norm(stream, (C,), p["ln2w"][l], p["ln2b"][l], 1e-5)  # (B, T, C)
        hidden = F.gelu(F.linear(norm, p["fcw"][l], p["fcb"][l]), approximate="tanh")  # (B, T, 4C)
        stream = stream + F.linear(hidden, p["fcprojw"][l], p["fcprojb"][l])  # (B, T, C)
    final = F.layer_norm(stream, (C,), p["lnfw"], p["lnfb"], 1e-5)  # (B, T, C)
    return F.linear(final, p["wte"][: config.V])  # (B, T, V): the padding rows of wte take no part


def loss_and_gradients(config, values, x, y, dtype):
    """(logits, loss, {name: gradient}) as NumPy arrays and a float."""
    p = parameters(values, dtype)
    x, y = torch.tensor(x, dtype=torch.int64), torch.tensor(y, dtype=torch.int64)
    z = logits(config, p, x)
    loss = F.cross_entropy(z.reshape(-1, config.V), y.reshape(-1))
    loss.backward()
    return z.detach().cpu().to(dtype).numpy(), loss.item(), {name: t.grad.cpu().numpy() for name, t in p.items()}


def adamw_losses(config, values, x, y, dtype, recipe, steps=10):
    """Losses of `steps` AdamW steps on one batch, each before its update. recipe: "A" or "B" of llmc/parity."""
    p = parameters(values, dtype)
    x, y = torch.tensor(x, dtype=torch.int64), torch.tensor(y, dtype=torch.int64)
    betas, decay = ((0.9, 0.999), 0.01) if recipe == "A" else ((0.9, 0.95), 0.0)
    optimizer = torch.optim.AdamW(p.values(), lr=1e-4, betas=betas, eps=1e-8, weight_decay=decay)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(config, p, x).reshape(-1, config.V), y.reshape(-1))
        loss.backward()
        losses.append(loss.item())
        if recipe == "B":
            torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        optimizer.step()
    return losses
