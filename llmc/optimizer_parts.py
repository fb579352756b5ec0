"""Cutting every tensor into equal parts, so that several processes can share the work and the memory of an update.

As in llm.c's ZeRO-1: a tensor, or one layer of a stacked one, is a piece, and part r of n is the r-th n-th of each
piece.
"""

from math import prod

from llmc.errors import UserError
from llmc.flat_buffer import Tensor

EACH = 8  # elements of 16 bits that kernels read at once, from an address that is a multiple of as many


def check_parts(config, parts):
    """Raise UserError unless every tensor of such a model can be cut into so many parts that kernels can take."""
    if parts > 1 and config.C % (EACH * parts):
        raise UserError(
            f"each of {parts} ranks takes one part of each tensor, but {EACH} x {parts} does not divide C={config.C};"
            " use --zero 0, or another number of ranks."
        )


def cut_table(table, parts) -> list[Tensor]:
    """One part of each tensor: (L, size / parts) of stacked ones, (size / parts,) of the others."""
    if parts == 1:
        return table
    return [Tensor(p.name, (*p.shape[: p.stacked], prod(p.shape[p.stacked :]) // parts), p.stacked) for p in table]


def layers_of(tensor, parts) -> int:
    """Into how many pieces a tensor falls: with one part there is nothing to cut, and it stays whole."""
    return tensor.shape[0] if tensor.stacked and parts > 1 else 1


def pieces(buffer, table, parts) -> list:
    """The pieces of all tensors of a FlatBuffer, in the table's order, as arrays (n,): views of its memory."""
    return [piece for p in table for piece in buffer[p.name].reshape(layers_of(p, parts), -1)]


def own_pieces(buffer, table, which, parts) -> list:
    """Part `which` of each of these pieces."""
    return [piece.reshape(parts, -1)[which] for piece in pieces(buffer, table, parts)]
