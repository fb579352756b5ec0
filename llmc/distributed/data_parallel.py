"""A model that all ranks train together: each on its own batches, with the same weights.

Data parallel: gradients are summed over all ranks, and each makes the same update. ZeRO-1 (Rajbhandari et al. 2020):
each rank has the moments and master weights of its part of every tensor, gets the sum of those gradients alone, updates
that part, and the parts are gathered. It computes the same numbers; only the norm is added up in another order. Parts
are cut as in llm.c: of each tensor, of one layer, rank r has the r-th of `world` equal pieces.
"""

from math import sqrt

from llmc.distributed.ranks import Ranks
from llmc.parts import own_pieces, pieces

ALONE = Ranks()


class DataParallel:
    """The ranks, and what they do between the backward pass and the next forward pass of a model.

    arrays: what carries arrays of the model's backend, by default the ranks themselves; an Nccl for those on GPUs.
    """

    def __init__(self, model, ranks=ALONE, arrays=None):
        self.model, self.ranks, self.arrays = model, ranks, ranks if arrays is None else arrays
        self.is_sharded = model.part != (0, 1)

    def start(self):
        """Give all ranks the weights of rank 0."""
        self.arrays.broadcast(self.model.params_flat)

    def sum_gradients(self):
        """Replace the gradients by their sum over all ranks: with ZeRO-1, in `own_grads`, those of our part."""
        if not self.is_sharded:
            self.arrays.all_reduce(self.model.grads_flat)
            return
        with self.arrays.group():
            for whole, own in zip(self._pieces(self.model.grads), self._pieces(self.model.own_grads)):
                self.arrays.reduce_scatter(own, whole)

    def global_norm(self) -> float:
        """Euclidean norm of the summed gradients, without the loss scale.

        Each rank adds up the squares of its part, piece by piece, also where it has all of them: so a clipped gradient
        is the same with ZeRO-1 and without it. Backends that run ahead of the host take everything at once, in float64.
        """
        model, ranks = self.model, self.ranks
        at_once = model.runs_ahead or model.config.C % ranks.world
        if ranks.world == 1 or (at_once and not self.is_sharded):
            return model.global_norm()
        if at_once:
            norms = [model.global_norm()]
        else:
            ours = own_pieces(model.grads, model.table, ranks.rank, ranks.world)
            ours = self._pieces(model.own_grads) if self.is_sharded else ours
            norms = [model.backend.global_norm(piece) / model.loss_scale for piece in ours]
        return sqrt(ranks.sum(sum(norm * norm for norm in norms))[0])

    def gather_weights(self):
        """With ZeRO-1, give each rank the parts that the others have updated."""
        if not self.is_sharded:
            return
        rank, world = self.model.part
        with self.arrays.group():
            for whole in self._pieces(self.model.params):
                self.arrays.all_gather(whole, whole.reshape(world, -1)[rank])

    def _pieces(self, buffer):
        return pieces(buffer, self.model.table, self.model.part[1])
