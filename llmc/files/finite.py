"""Weights that are NaN or infinite: reported when a model is read, and never exported."""

from math import isfinite

import numpy as np

from llmc.errors import UserError


def check_finite(model, path):
    """Raise UserError if a weight of the model is not a finite number: "…/model.bin has NaN in fcw of layer 3".

    This takes one pass over the weights, and only looks for the tensor if there is such a weight.
    """
    with np.errstate(all="ignore"):
        if isfinite(model.backend.global_norm(model.params_flat)):
            return
    for name, where, values in _parts(model):
        bad = np.count_nonzero(~np.isfinite(values))
        if bad:
            what = "NaN" if np.isnan(values).any() else "inf"
            raise UserError(
                f"{path} has {what} in {name}{where} ({bad:,} of {values.size:,} weights): its training diverged"
                " or the file is damaged; use an earlier checkpoint, or train with a lower learning rate."
            )


def _parts(model):
    """(name, " of layer 3" or "", values) of every tensor, a stacked one layer by layer."""
    for p in model.config.parameter_table():
        tensor = model.backend.to_numpy(model.params[p.name])
        if not p.stacked:
            yield p.name, "", tensor
            continue
        for l, values in enumerate(tensor):
            yield p.name, f" of layer {l}", values
