"""AdamW over the tensors of a model, or over one process's part of each: the same for every precision and backend.

What AdamW computes is up to the backend; `GPT2.update` says what the arguments are; here is the loop over the tensors.

Several processes share the work and the memory of an update as in llm.c's ZeRO-1: a tensor (or one layer of a stacked
tensor) is a piece, and part r of n is the r-th of n equal shares of each piece.
"""

from math import prod

import numpy as np

from llmc.errors import UserError
from llmc.flat_buffer import Tensor

EACH = 8  # elements of 16 bits that kernels read at once, from an address that is a multiple of that many


def update(model, numbers, decay, zero_grad, max_norm, norm):
    """One step of a GPT2, in which nothing waits for a GPU: what differs from step to step lies in its memory.

    numbers: lr, beta1, beta2, eps, weight_decay and t of `adamw_update` · the others: those of `GPT2.update`.
    """
    be, known = model.backend, norm is not None
    model.start_master()
    settings = be.adamw_settings(loss_scale=model.loss_scale, key=model.t * len(model.table), **numbers)
    if "norm" not in model.places:
        model.places["norm"] = be.from_numpy(np.zeros(1))
    place = model.places["norm"]  # (1,)
    if known:
        place[...] = be.from_numpy(np.full(1, norm)) if isinstance(norm, float) else norm

    def work():
        if max_norm is not None:
            be.clip(settings, place, None if known else model.own_grads.flat, max_norm)
        for arrays, decayed, where in _tensors(model, decay):
            be.adamw_update_by(*arrays, settings, decayed, zero_grad, **where)

    buffers = model.params, model.own_grads, model.m, model.v, model.master
    flats = [buffer.flat for buffer in buffers if buffer is not None]
    model.repeat(("update", decay, zero_grad, max_norm, known), [*flats, settings, place], work)
    if max_norm is None:
        return None
    later = be.later(place)
    return lambda: float(later()[0])


def _tensors(model, decay):
    """For each tensor: (params, grads, m, v, master), whether it decays, {tensor, place, rows} of `adamw_update_by`."""
    which, parts = model.part
    for i, p in enumerate(model.table):
        params = model.params[p.name].reshape(-1)  # (layers * parts * row,)
        row = params.size // (layers_of(p, parts) * parts)
        own = (model.own_grads, model.m, model.v, model.master)
        flats = (None if buffer is None else buffer[p.name].reshape(-1) for buffer in own)  # (layers * row,)
        where = dict(tensor=i, place=which * row, rows=(row, parts * row))
        yield (params[which * row :], *flats), decay == "all" or p.decayed, where


# ----------------------------------------------------------------------------------------------------- parts of tensors


def check_parts(config, parts):
    """Raise UserError unless every tensor of the model can be split into this many parts that kernels can handle."""
    if parts > 1 and config.C % (EACH * parts):
        raise UserError(
            f"{parts} ranks cannot split each tensor evenly, because {EACH} x {parts} does not divide"
            f" C={config.C}; use --zero 0, or another number of ranks."
        )


def cut_table(table, parts) -> list[Tensor]:
    """One part of each tensor: (L, size / parts) for stacked tensors, (size / parts,) for the others."""
    if parts == 1:
        return table
    return [Tensor(p.name, (*p.shape[: p.stacked], prod(p.shape[p.stacked :]) // parts), p.stacked) for p in table]


def layers_of(tensor, parts) -> int:
    """How many pieces a tensor is split into; with only one part there is nothing to split, and it stays whole."""
    return tensor.shape[0] if tensor.stacked and parts > 1 else 1


def pieces(buffer, table, parts) -> list:
    """The pieces of all tensors in a FlatBuffer, in the table's order, as arrays (n,) that are views of its memory."""
    return [piece for p in table for piece in buffer[p.name].reshape(layers_of(p, parts), -1)]


def own_pieces(buffer, table, which, parts) -> list:
    """Part `which` of each piece."""
    return [piece.reshape(parts, -1)[which] for piece in pieces(buffer, table, parts)]
