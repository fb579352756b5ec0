"""Weights that are NaN or infinite are named when a model is read, and never exported."""

from math import isfinite

import numpy as np

from llmc.errors import UserError


def check_finite(model, path):
    """Raise UserError for a model with a weight that is no finite number: "…/model.bin has NaN in h.3.mlp.c_fc.weight".

    One pass over the weights; which tensor it is, is only looked for when there is one.
    """
    with np.errstate(all="ignore"):
        if isfinite(model.backend.global_norm(model.params_flat)):
            return
    from llmc.checkpoints.huggingface.tensor_layout import pieces  # its package imports this module

    for name, index, theirs, _, _ in pieces(model.config):
        index = slice(None) if name == "wte" else index  # with its padding
        values = model.backend.to_numpy(model.params[name][index])
        bad = np.count_nonzero(~np.isfinite(values))
        if bad:
            what = "NaN" if np.isnan(values).any() else "inf"
            raise UserError(
                f"{path} has {what} in {theirs} ({bad:,} of {values.size:,} weights): its training diverged or the file"
                " is damaged; take an earlier checkpoint, or train with a lower learning rate."
            )
