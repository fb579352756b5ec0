"""A model that all ranks train together, each on its own batches but with the same weights.

Data parallel: gradients are summed over all ranks, and each makes the same update. ZeRO-1 (Rajbhandari et al. 2020):
each rank has the moments and master weights for its part of every tensor, gets the sum of only those gradients, updates
that part, and then the parts are gathered. It computes the same numbers; only the norm is added up in a different
order. Tensors are split as in llm.c: rank r has the r-th of `world` equal pieces of each tensor or, if it is stacked,
of each layer.
"""

from functools import cached_property
from math import sqrt

from llmc.distributed.ranks import Ranks
from llmc.optimizer import own_pieces, pieces

ALONE = Ranks()


class DataParallel:
    """The ranks, and what they do between a model's backward pass and its next forward pass.

    communicator: what carries the arrays of the model's backend; by default the ranks themselves, and for GPUs an Nccl.
    If that `hides` sums, it carries a layer's gradients while the backward pass goes on with the layer before.
    """

    def __init__(self, model, ranks=ALONE, communicator=None):
        self.model, self.ranks, self.communicator = model, ranks, communicator or ranks
        self.is_sharded, self._kept = model.part != (0, 1), {}
        self.final = self._sum_beside if getattr(communicator, "hides", False) else None  # for `GPT2.backward`

    def start(self):
        """Give all ranks the weights of rank 0."""
        self.communicator.broadcast(self.model.params_flat)

    # ------------------------------------------------------------------------------------------ gradients

    def sum_gradients(self):
        """Replace the gradients by their sum over all ranks; with ZeRO-1, only those of our part, in `own_grads`."""
        if self.final:
            return  # they are under way
        if not self.is_sharded:
            self.communicator.all_reduce(self.model.grads.flat)
            return
        with self.communicator.group():
            for own, whole in zip(self._flats("own_grads"), self._flats("grads")):
                self.communicator.reduce_scatter(own, whole)

    def _sum_beside(self, layer):
        """The same for one layer, while the backward pass goes on; None does the rest, and makes what follows wait."""
        model, communicator = self.model, self.communicator
        stacked = layer is not None
        names = [p.name for p in model.table if p.stacked == stacked]
        whole, own = (each.layer(layer) if stacked else each for each in (model.grads, model.own_grads))
        with communicator.beside():
            for name in names:
                if self.is_sharded:
                    communicator.reduce_scatter(own[name].reshape(-1), whole[name].reshape(-1))
                else:
                    communicator.all_reduce(whole[name].reshape(-1))
        if not stacked:
            communicator.join()

    def global_norm(self) -> float:
        """Euclidean norm of the summed gradients, without the loss scale.

        Each rank adds up the squares of its part, piece by piece, even if it has all parts, so that a clipped gradient
        is the same with and without ZeRO-1. Backends that run ahead of the host take everything at once, in float64.
        """
        model, ranks = self.model, self.ranks
        at_once = model.backend.RUNS_AHEAD or model.config.C % ranks.world
        if ranks.world == 1 or (at_once and not self.is_sharded):
            return model.global_norm()
        if at_once:
            norms = [model.global_norm()]
        else:
            ours = own_pieces(model.grads, model.table, ranks.rank, ranks.world)
            ours = self._flats("own_grads") if self.is_sharded else ours
            norms = [model.backend.global_norm(piece) / model.loss_scale for piece in ours]
        return sqrt(ranks.sum(sum(norm * norm for norm in norms))[0])

    def norm_on_device(self):
        """The same as an array, for `GPT2.update` of a model that runs ahead, so that nothing waits for it.

        None without ZeRO-1, because then `update` computes the norm itself.
        """
        if not self.is_sharded:
            return None
        norm = self.model.backend.norm_on_device(self.model.own_grads.flat)  # (1,)
        norm *= norm
        self.communicator.all_reduce(norm)
        norm **= 0.5
        norm /= self.model.loss_scale
        return norm

    # -------------------------------------------------------------------------------------------- weights

    def gather_weights(self):
        """With ZeRO-1, give each rank the parts that the others have updated."""
        if not self.is_sharded:
            return
        with self.communicator.group():
            for whole, part in zip(self._flats("params"), self._our_params):
                self.communicator.all_gather(whole, part)

    @cached_property
    def _our_params(self):
        return own_pieces(self.model.params, self.model.table, *self.model.part)

    def _flats(self, name):
        """The pieces of one of the model's buffers, as views."""
        if name not in self._kept:
            self._kept[name] = pieces(getattr(self.model, name), self.model.table, self.model.part[1])
        return self._kept[name]
