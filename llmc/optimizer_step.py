"""AdamW over the tensors of a model: in float32, with weights of 16 bits, and on a device that runs ahead of the host.

`GPT2.update` says what the arguments are; here is the way through the tensors. What AdamW computes is the backend's.
"""

from math import isfinite

import numpy as np

from llmc.optimizer_parts import layers_of


def update(model, numbers, decay, zero_grad, max_norm, norm):
    """One step of a GPT2. numbers: the keyword arguments of `adamw_update` · the others: those of `GPT2.update`."""
    if model.runs_ahead:
        return _update_ahead(model, numbers, decay, zero_grad, max_norm, norm)
    if model.precision.is_mixed:
        return _update_rounded(model, numbers, decay, zero_grad, max_norm, norm)
    norm = None if max_norm is None else model.clip_gradients(max_norm, norm)
    for flats, decayed, _, _ in _parts(model, decay):
        each = numbers if decayed else numbers | {"weight_decay": 0.0}
        model.backend.adamw_update(*flats, **each, clear=zero_grad)
    return None if max_norm is None else lambda: norm


def _update_rounded(model, numbers, decay, zero_grad, max_norm, norm):
    """The same for weights of 16 bits. What scales the gradients does so in float32, within AdamW.

    With a norm that is not finite, all arrays stay as they are, as in `_update_ahead`.
    """
    factor = 1.0 / model.loss_scale
    if max_norm is not None:
        norm = model.global_norm() if norm is None else norm
        if not isfinite(norm):
            return lambda: norm
        factor *= max_norm / (norm + 1e-6) if norm > max_norm else 1.0
    model.start_master()
    for flats, decayed, i, place in _parts(model, decay):
        each = numbers if decayed else numbers | {"weight_decay": 0.0}
        key = model.t * len(model.table) + i
        model.backend.adamw_update_rounded(*flats, key, place=place, factor=factor, clear=zero_grad, **each)
    return None if max_norm is None else lambda: norm


def _update_ahead(model, numbers, decay, zero_grad, max_norm, known=None):
    """The same without waiting for the norm: what differs from step to step lies where the backend computes."""
    be, mixed = model.backend, model.precision.is_mixed
    if mixed:
        model.start_master()
        numbers |= {"loss_scale": model.loss_scale, "key": model.t * len(model.table)}
    settings = be.adamw_settings(**numbers)
    if "norm" not in model.places:
        model.places["norm"] = be.from_numpy(np.zeros(1))
    norm = model.places["norm"]  # (1,)
    if known is not None:
        norm[...] = be.from_numpy(np.full(1, known)) if isinstance(known, float) else known

    def work():
        if max_norm is not None:
            be.clip(settings, norm, model.grads_flat if known is None else None, max_norm)
        for flats, decayed, *which in _rows(model, decay) if mixed else _parts(model, decay):
            which = dict(zip(("tensor", "place", "rows"), which)) if mixed else {}
            be.adamw_update_by(*flats, settings, decayed=decayed, clear=zero_grad, **which)

    buffers = model.params, model.own_grads, model.m, model.v, model.master
    flats = [buffer.flat for buffer in buffers if buffer is not None]
    model.repeat(("update", decay, zero_grad, max_norm, known is None), [*flats, settings, norm], work)
    if max_norm is None:
        return None
    later = be.later(norm)
    return lambda: float(later()[0])


def _rows(model, decay):
    """The same as _parts, but a tensor at a time, with (row, stride) last: where its pieces lie in the first array."""
    which, parts = model.part
    for i, p in enumerate(model.table):
        params = model.params[p.name].reshape(-1)  # (layers * parts * row,)
        row = params.size // (layers_of(p, parts) * parts)
        flats = (None if buffer is None else buffer[p.name].reshape(-1) for buffer in _own(model))  # (layers * row,)
        yield [params[which * row :], *flats], decay == "all" or p.decayed, i, which * row, (row, parts * row)


def _own(model):
    """What belongs to the part of the weights that this process updates: the gradients, m, v, and in 16 bits master."""
    return [model.own_grads, model.m, model.v] + [model.master] * model.precision.is_mixed


def _parts(model, decay):
    """([params, grads, m, v], whether weights decay, number of the tensor, place in it) of each piece to update.

    The four arrays are (size,). In 16 bits a fifth follows, master, which may be None.
    """
    which, parts = model.part
    for i, p in enumerate(model.table):
        layers = layers_of(p, parts)
        params = model.params[p.name].reshape(layers, parts, -1)  # (layers, parts, size)
        flats = [None if buffer is None else buffer[p.name].reshape(layers, -1) for buffer in _own(model)]
        for l in range(layers):
            place = (l * parts + which) * params.shape[-1]
            arrays = [params[l, which], *(None if flat is None else flat[l] for flat in flats)]
            yield arrays, decay == "all" or p.decayed, i, place
