"""A plain GPT-2 in PyTorch with our weights, for `llmc bench --peer torch` to time beside ours.

It is written the way a PyTorch user would write it: nn.Linear, scaled_dot_product_attention, autograd,
torch.optim.AdamW.
"""

import numpy as np

from llmc.errors import UserError
from llmc.terminal import pip


def torch_step(
    model, fused=False, compiled=False, mode=None, padded=False, betas=(0.9, 0.95), autocast=None, float8=False
):
    """A function (x, y, wait=True, lr=1e-4) -> loss: one training step in PyTorch, starting from `model`'s weights.

    x, y: (B, T) integers, arrays or tensors · wait=False: returns None, without waiting for a GPU · fused: use
    PyTorch's single-kernel AdamW instead of its default · compiled: use torch.compile, in this mode · padded: use the
    model's padded vocabulary, which suits a GPU better; the loss then counts the padding · betas: AdamW's · autocast:
    "bf16" or "fp16" for PyTorch's mixed precision, with matmuls in that format and weights in float32; in fp16, its
    GradScaler scales the loss · float8: let torchao multiply in 8 bits, each tensor scaled by its amax.
    It runs where the model's arrays are, and with TF32 if that is the model's precision. Raises UserError if PyTorch is
    not installed, or has no GPU to run on.
    """
    torch = _torch(f"--peer torch needs PyTorch; install it with `{pip('install', 'torch')}`, or leave the option out.")
    device = _device(model)
    network = _network(model, model.config.Vp if padded else model.config.V, float8).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), betas=betas, weight_decay=0.0, fused=fused)

    run = torch.compile(network, mode=mode) if compiled else network
    low = _numbers(torch, autocast)
    scaler = torch.amp.GradScaler(device, enabled=autocast == "fp16")

    def step(x, y, wait=True, lr=1e-4):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        x, y = (torch.as_tensor(tokens, dtype=torch.int64, device=device) for tokens in (x, y))  # both (B, T)
        with torch.autocast(device, dtype=low, enabled=low is not None):
            loss = run(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item() if wait else None

    return step


def torch_gradients(model, x, y, autocast=None, float8=False) -> dict:
    """{name: array} for every gradient that PyTorch computes for `model`'s weights, in float32 and in our shapes.

    x, y: (B, T) integers, on the host · autocast, float8: as in torch_step, without its scaling of the loss. Raises
    UserError as torch_step does.
    """
    torch = _torch(f"this comparison needs PyTorch; install it with `{pip('install', 'torch')}`.")
    device = _device(model)
    network = _network(model, model.config.V, float8).to(device)
    x, y = (torch.as_tensor(tokens, dtype=torch.int64, device=device) for tokens in (x, y))  # both (B, T)
    low = _numbers(torch, autocast)
    with torch.autocast(device, dtype=low, enabled=low is not None):
        loss = network(x, y)
    loss.backward()
    layers = {}
    for name, parameter in network.named_parameters():
        layers.setdefault(_our_name(name.split(".")), []).append(parameter.grad.float().cpu().numpy())
    stacked = {p.name for p in model.table if p.stacked}
    return {name: np.stack(each) if name in stacked else each[0] for name, each in layers.items()}


def _torch(without):
    """Import PyTorch; raises UserError with this sentence if it is not installed."""
    try:
        import torch
    except ImportError:
        raise UserError(without) from None
    return torch


def _numbers(torch, autocast):
    """The type that autocast multiplies in, or None."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(autocast)


def _device(model) -> str:
    """Where PyTorch runs: "cpu" or "cuda", as the model does. Also makes PyTorch multiply as the model does."""
    import torch

    if isinstance(model.params_flat, np.ndarray):
        return "cpu"
    if not torch.cuda.is_available():
        raise UserError("this PyTorch cannot use the GPU; install PyTorch with CUDA, or leave --peer out.")
    torch.set_float32_matmul_precision("high" if model.precision.rounds_factors else "highest")
    return "cuda"


def _network(model, V, float8=False):
    """The nn.Module for V tokens, with copies of the model's parameters; float8: linear layers are torchao's."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    config, C = model.config, model.config.C

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.qkv, self.attproj = nn.Linear(C, 3 * C), nn.Linear(C, C)
            self.fc, self.fcproj = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

        def forward(self, x):
            B, T, _ = x.shape
            heads = (
                part.view(B, T, config.NH, config.hs).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(C, 2)
            )
            mixed = F.scaled_dot_product_attention(*heads, is_causal=True)  # (B, NH, T, hs)
            x = x + self.attproj(mixed.transpose(1, 2).reshape(B, T, C))  # (B, T, C)
            return x + self.fcproj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))  # (B, T, C)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(config.maxT, C)
            self.blocks = nn.ModuleList(Block() for _ in range(config.L))
            self.lnf = nn.LayerNorm(C)

        def forward(self, x, y):
            stream = self.wte(x) + self.wpe.weight[: x.shape[1]]  # (B, T, C)
            for block in self.blocks:
                stream = block(stream)
            logits = F.linear(self.lnf(stream), self.wte.weight)  # (B, T, V)
            return F.cross_entropy(logits.view(-1, V), y.view(-1))

    network = Network()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(_ours(model, name.split("."), V)))
    if float8:
        from torchao.float8 import convert_to_float8_training

        convert_to_float8_training(network)
    return network


def _ours(model, path, V):
    """Our array for a PyTorch parameter, by the parts of its name: ["blocks", "3", "qkv", "weight"] -> qkvw[3]."""
    place, ours = path[:-2], _our_name(path)
    values = model.params[ours][int(place[1])] if place else model.params[ours]
    values = model.backend.to_numpy(values).astype(np.float32)  # PyTorch does not know ml_dtypes
    return values[:V] if ours == "wte" else values


def _our_name(path):
    """["blocks", "3", "qkv", "weight"] -> "qkvw"."""
    layer, kind = path[-2:]
    return layer if layer in ("wte", "wpe") else layer + kind[0]
