"""Cutting every tensor into equal parts, so that several processes can share the work and the memory of an update.

As in llm.c's ZeRO-1, a tensor (or one layer of a stacked tensor) is a piece, and part r of n is the r-th of n equal
shares of each piece.
"""

from math import prod

from llmc.errors import UserError
from llmc.flat_buffer import Tensor

EACH = 8  # elements of 16 bits that kernels read at once, from an address that is a multiple of as many


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
