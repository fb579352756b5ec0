"""AdamW over the tensors of a model, or over one process's part of each: one way for every precision and backend.

`GPT2.update` says what the arguments are; here is the way through the tensors. What AdamW computes is the backend's.
"""

import numpy as np

from llmc.optimizer_parts import layers_of


def update(model, numbers, decay, zero_grad, max_norm, norm):
    """One step of a GPT2, in which nothing waits for a GPU: what differs from step to step lies where it computes.

    numbers: lr, beta1, beta2, eps, weight_decay and t of `adamw_update` · the others: those of `GPT2.update`.
    """
    be, known = model.backend, norm is not None
    model.start_master()
    settings = be.adamw_settings(loss_scale=model.loss_scale, key=model.t * len(model.table), **numbers)
    if "norm" not in model.places:
        model.places["norm"] = be.from_numpy(np.zeros(1))
    there = model.places["norm"]  # (1,)
    if known:
        there[...] = be.from_numpy(np.full(1, norm)) if isinstance(norm, float) else norm

    def work():
        if max_norm is not None:
            be.clip(settings, there, None if known else model.own_grads.flat, max_norm)
        for arrays, decayed, where in _tensors(model, decay):
            be.adamw_update_by(*arrays, settings, decayed, zero_grad, **where)

    buffers = model.params, model.own_grads, model.m, model.v, model.master
    flats = [buffer.flat for buffer in buffers if buffer is not None]
    model.repeat(("update", decay, zero_grad, max_norm, known), [*flats, settings, there], work)
    if max_norm is None:
        return None
    later = be.later(there)
    return lambda: float(later()[0])


def _tensors(model, decay):
    """Of each tensor: (params, grads, m, v, master), whether it decays, {tensor, place, rows} of `adamw_update_by`."""
    which, parts = model.part
    for i, p in enumerate(model.table):
        params = model.params[p.name].reshape(-1)  # (layers * parts * row,)
        row = params.size // (layers_of(p, parts) * parts)
        own = (model.own_grads, model.m, model.v, model.master)
        flats = (None if buffer is None else buffer[p.name].reshape(-1) for buffer in own)  # (layers * row,)
        where = dict(tensor=i, place=which * row, rows=(row, parts * row))
        yield (params[which * row :], *flats), decay == "all" or p.decayed, where
