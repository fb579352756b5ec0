"""The model, data and settings of one run, and its actions: a training step, a validation, a sample.

It knows nothing about run folders, screens or signals; `loop.py` drives it. Follows the main loop in llm.c's
train_gpt2.cu.
"""

from collections import deque
from functools import cached_property
from itertools import takewhile
from math import inf, isfinite

import numpy as np

from llmc import __version__
from llmc.checkpoints.optimizer_state import TrainState
from llmc.data import find_corpus
from llmc.data.loader import DataLoader, ShuffledLoader
from llmc.data.permuted import LLM_C, PermutedLoader
from llmc.data.tokenizer import END_OF_TEXT, read_tokenizer, token_lengths, token_table
from llmc.distributed.data_parallel import ALONE, DataParallel
from llmc.errors import UserError
from llmc.evaluation import BASELINE_TOKENS, baselines, batch_losses, bits_per_byte
from llmc.files.digest import json_digest
from llmc.model import find_recompute
from llmc.sampling import generate
from llmc.training.hellaswag import HellaSwag
from llmc.training.loss_scale import LossScale
from llmc.training.memory import allocate_or_halve, check_memory, choose_batch, try_step
from llmc.training.outliers import OutlierDetector
from llmc.training.schedule import learning_rate
from llmc.training.settings import AUTO
from llmc.training.settings_file import setting_values
from llmc.training.start import config_of, in_turn, make_model, part_of
from llmc.training.surroundings import differences, surroundings

LOADERS = {"random": ShuffledLoader, LLM_C: PermutedLoader, "files": DataLoader}  # order: of the training batches
SAMPLE_TEMPERATURE = 0.8  # below 1, because small models are too unsure


class Diverged(ArithmeticError):
    """The loss, gradients or weights are not finite numbers; its argument says which: "the loss is nan at step 12"."""


class Stopped(Exception):
    """A step was abandoned between two of its micro-batches."""


class Trainer:
    """One run in memory. `step` counts completed steps; the parameters are those after that many steps.

    With several ranks, all of them make the same calls, and losses are for all ranks together.

    say(line), if given, receives progress if a corpus has to be prepared · model, state: from a checkpoint, to continue
    from it bit for bit; without them, the settings say which model to make · ranks, communicator: the run's, as in
    DataParallel. `changed`: how the surroundings differ from the checkpoint's (["threads 1 instead of 2"]), so that the
    last bits will differ. Raises UserError if the data or the model cannot be used, or do not belong together.
    """

    def __init__(self, settings, say=None, model=None, state=None, ranks=ALONE, communicator=None):
        settings, self.ranks = settings.shared_by(ranks.world), ranks
        with in_turn(ranks):  # the first one prepares the corpus
            corpus = find_corpus(settings.data, say=say)
        self.encoding = read_tokenizer(corpus.tokenizer)
        automatic = settings.batch_size == AUTO
        s = choose_batch(settings, config_of(settings, self.encoding), corpus, ranks) if automatic else settings
        check_memory(s, self.encoding, corpus.train, model, ranks=ranks)
        self.model = model or make_model(s, self.encoding)
        if model is None:
            self.model.keep_part(*part_of(s, ranks))
        self.model.recompute = find_recompute(self.model.backend, s.recompute)
        self.model.backend.choose(s.matmul, s.attention)
        if automatic:
            s = allocate_or_halve(self.model, s, say, ranks)
        else:
            self.model.allocate(s.batch_size, s.sequence_length)
        self.settings = s = s.shared_by(ranks.world)
        self.config = self.model.config
        self.micro_batches = s.micro_batches // ranks.world  # of each rank in a step
        shape = dict(B=s.batch_size, T=s.sequence_length, V=self.config.V, rank=ranks.rank, world=ranks.world)
        seeded = {} if s.order == "files" else {"seed": s.seed}
        self.train_loader = LOADERS[s.order](corpus.train, **seeded, **shape)
        self.val_loader = DataLoader(corpus.val, **shape)
        self.val_batches = min(s.val_batches or self.val_loader.num_batches, self.val_loader.num_batches)
        self._measure_validation_text()
        self.hellaswag = HellaSwag(s, self.encoding, self.config, ranks, say) if s.hellaswag_every else None
        self.together = DataParallel(self.model, ranks, communicator)
        self.loss_detector, self.norm_detector = OutlierDetector(s.skip_loss_z), OutlierDetector(s.skip_norm_z)
        self.loss_scale = LossScale() if self.model.precision.overflows else None
        self.overflowed = False
        self.step, self.changed = 0, []
        self._begun = deque()  # (functions of the losses, learning rate, function of the norm, loader's state) of steps
        if state is not None:
            self._resume(state)
        ranks.agree({**setting_values(s), "llmc": __version__, "step": self.step, **self._inputs()})
        self.together.start()
        if communicator is not None:
            with in_turn(
                ranks, ranks.local
            ):  # the first one measures which products are fastest, for all on its machine
                try_step(self.model, s.batch_size, s.sequence_length)
        self._position = self.train_loader.state()  # after the last step that has ended

    def _measure_validation_text(self):
        """Compute bits per byte and the baselines on exactly the validation tokens that the loss is measured on."""
        s = self.settings
        measured = self.val_batches * s.batch_size * s.sequence_length * self.ranks.world
        tokens = self.val_loader.head(measured + 1)  # (measured + 1,)
        self._targets, self._lengths = tokens[1:], token_lengths(self.encoding)  # (measured,), (V,)
        self.baselines = baselines(self.train_loader.head(BASELINE_TOKENS), tokens, self.config.V)
        self.bytes_per_token = float(np.mean(self._lengths[self._targets]))

    # ------------------------------------------------------------------------------------------- state

    def state(self) -> TrainState:
        """Everything that the next step depends on, apart from the model."""
        return TrainState(
            step=self.step,
            order=self.settings.order,
            loader=self._position,
            permutation=self.train_loader.permutation(self._position) if self.settings.order == LLM_C else b"",
            rng=self.settings.seed,
            losses=tuple(self.loss_detector.values),
            norms=tuple(self.norm_detector.values),
            ranks=self.ranks.world,
            loss_scale=(self.loss_scale.log2, self.loss_scale.good_steps) if self.loss_scale else (0, 0),
            about={
                "settings": setting_values(self.settings),
                "data": {name: loader.shards.fingerprints() for name, loader in self._loaders.items()},
                "surroundings": self._surroundings,
            },
        )

    def _inputs(self) -> dict:
        """Digests of what, besides the settings, must be the same on all ranks; the weights are rank 0's in any case.

        For the tokens: digests of the first file of each kind, which every rank has read by now, and the sizes of all
        files.
        """
        prints = [loader.shards.fingerprints() for loader in self._loaders.values()]
        tokens = [[[size for _, size, _ in each], each[0][2]] for each in prints]
        found = {"tokens": tokens, "tokenizer": [token.hex() for token in token_table(self.encoding)]}
        found |= {"HellaSwag examples": self.hellaswag.all} if self.hellaswag else {}
        return {f"the digest of {name}": json_digest(value)[:12] for name, value in found.items()}

    @property
    def _loaders(self):
        return {"train": self.train_loader, "val": self.val_loader}

    @cached_property
    def _surroundings(self):
        return surroundings(self.model.backend, self.settings.precision, self.ranks.world)

    def _resume(self, state):
        """Restore a state. The batches and their order must be the same, or some batches would be seen twice."""
        s = self.settings
        if state.order != s.order:
            raise UserError(
                f"the checkpoint was trained with --order {state.order}; use the same option to continue from it."
            )
        for name, fingerprints in state.about.get("data", {}).items():
            self._loaders[name].shards.expect(fingerprints)
        if s.order == LLM_C:
            self._find_permutation(state)
        else:
            self.train_loader.load_state(self._translated(state))
        self.loss_detector = OutlierDetector(s.skip_loss_z, state.losses)
        self.norm_detector = OutlierDetector(s.skip_norm_z, state.norms)
        if self.loss_scale:
            self.loss_scale = LossScale(*state.loss_scale)
        self.step = state.step
        self.changed = differences(state.about.get("surroundings", {}), self._surroundings)

    def _find_permutation(self, state):
        """Go to a position in llm.c's order; a state written by llm.c does not say which epoch it is in."""
        if state.ranks != self.ranks.world:
            raise UserError(
                f"the order of the batches was drawn for {state.ranks} ranks; continue with that number, or start"
                " a new run from the weights with --model."
            )
        taken = state.step * self.micro_batches
        self.train_loader.load_state(state.loader, state.permutation, taken // self.train_loader.num_batches + 1)

    def _translated(self, state) -> dict:
        """The loader's position in batches of all our ranks, converted from batches of the earlier number of ranks."""
        s = self.settings
        before = state.ranks * state.about.get("settings", {}).get("batch_size", s.batch_size)
        return {**state.loader, "sample": state.loader["sample"] * before // (self.ranks.world * s.batch_size)}

    # ------------------------------------------------------------------------------------------- steps

    def train_step(self, stop=lambda: False):
        """One step. Returns (mean loss in nats per token, learning rate, gradient norm before clipping).

        Outliers (see outliers.py) and gradients that overflow float16 cause no update; `skipped` then says why. Raises
        Diverged if the loss or norm is not finite, and Stopped if stop() becomes true between two micro-batches;
        `state()` and the parameters are then as they were before the step.
        """
        self.begin_step(stop)
        return self.end_step()

    def begin_step(self, stop=lambda: False):
        """Launch the next step; `end_step` reads its results. Errors are the same as for `train_step`.

        If `overlaps_steps`, the next step may begin before this one ends, so that a GPU keeps working while the host
        reads and logs. Until all steps have ended, the parameters are ahead of `state()`; after Diverged they are
        useless.
        """
        s = self.settings
        lr = learning_rate(
            self.step + len(self._begun),
            s.learning_rate,
            warmup=s.warmup,
            total=s.steps,
            final_fraction=s.final_fraction,
            kind=s.schedule,
        )
        losses = self._accumulate(stop)
        self.together.sum_gradients()
        norm = None if self._decides else self._update(lr)
        self._begun.append((losses, lr, norm, self.train_loader.state()))

    def end_step(self):
        """Complete the oldest step that has begun; result and errors are the same as for `train_step`."""
        losses, lr, updated, position = self._begun.popleft()
        norm = updated() if updated else self.together.global_norm()
        self.overflowed = self._overflows(norm)
        loss, norm = self._finite(losses, norm)
        useful = not (self.overflowed or any([self.loss_detector.add(loss), self.norm_detector.add(norm)]))
        if useful and not updated:
            self._update(lr, norm=norm)
        elif updated and not useful:
            self.model.t -= 1  # gradients that overflow have changed nothing
        self.step += 1
        self._position = position
        return loss, lr, norm

    def _update(self, lr, norm=None):
        """Take AdamW's step on all ranks. Returns a function that gives the norm of the gradients."""
        s = self.settings
        numbers = dict(beta1=s.beta1, beta2=s.beta2, eps=s.eps, weight_decay=s.weight_decay)
        norm = self.together.norm_on_device() if norm is None else norm
        updated = self.model.update(lr, **numbers, max_norm=s.clip or inf, norm=norm)
        self.together.gather_weights()
        return updated

    @property
    def _decides(self) -> bool:
        """Whether the host sees a step's loss and norm before its update; if not, the update itself checks the norm."""
        s = self.settings
        return not self.model.backend.RUNS_AHEAD or bool(s.skip_loss_z or s.skip_norm_z)

    @property
    def overlaps_steps(self) -> bool:
        """Whether a step may begin before the previous one has ended; not in float16, which needs its loss scale."""
        return not self._decides and self.loss_scale is None

    @property
    def begun(self) -> int:
        """How many steps have begun but not ended."""
        return len(self._begun)

    def _accumulate(self, stop=lambda: False):
        """Functions that return the losses of the step's micro-batches; their mean gradient is in model.grads.

        Each micro-batch has B·T tokens, so the mean over all tokens is the mean of the micro-batches' means: the loss
        and gradient of each count 1/n or, with several ranks, 1/(n · ranks). The first gradient replaces that of the
        step before. The losses are only read once everything else has been launched, so that a GPU is never idle in
        between.
        """
        model, n, losses = self.model, self.micro_batches, []
        if self.loss_scale:
            model.loss_scale = self.loss_scale.value
        for i in range(n):
            if i and stop():
                raise Stopped
            x, y = self.train_loader.next_batch()  # both (B, T) int32
            model.launch(x, y, dloss=1.0 / (n * self.ranks.world))
            model.backward(accumulate=i > 0, final=self.together.final if i == n - 1 else None)
            losses.append(model.loss_later())
        return losses

    def _overflows(self, norm) -> bool:
        """Whether the gradients were too large for float16; if so, halves the loss scale, as only that may help."""
        if self.loss_scale is None or (self.loss_scale.is_smallest and not isfinite(norm)):
            return False
        if isfinite(norm):
            self.loss_scale.good_step()
            return False
        self.loss_scale.overflow()
        return True

    def _finite(self, losses, norm):
        """(mean loss, norm). Raises Diverged if one of them is not finite, unless gradients merely overflowed."""
        losses = [loss() for loss in losses]
        loss = self.ranks.mean(sum(losses) / len(losses))
        wrong = [f"loss is {loss}" for loss in (*losses, loss) if not isfinite(loss)]
        wrong += [] if isfinite(norm) or self.overflowed else [f"gradient norm is {norm}"]
        if wrong:
            raise Diverged(f"the {wrong[0]} at step {self.step + 1}")
        return loss, norm

    @property
    def skipped(self) -> str | None:
        """Why the last step made no update, such as "loss z-score of 5.31"; None if it made one."""
        if self.overflowed:
            return f"gradients that overflow float16; the loss scale is {self.loss_scale.value:,.0f} now"
        for name, detector in (("loss", self.loss_detector), ("norm", self.norm_detector)):
            if detector.is_outlier:
                return f"{name} z-score of {detector.z:.2f}"
        return None

    def check_weights(self):
        """Raise Diverged if the weights are no longer finite numbers, or too large to compute with."""
        norm = self.model.backend.global_norm(self.model.params_flat)
        if not isfinite(norm):
            raise Diverged(f"the norm of the weights is {norm} after step {self.step}")

    def validate(self, stop=lambda: False):
        """Mean loss (nats per token) over `val_batches` batches of each rank; None if stop() becomes true meanwhile."""
        total = 0.0
        for loss in batch_losses(self.model, self.val_loader, self.val_batches):
            total += loss
            if stop():
                return None
        return self.ranks.mean(total / self.val_batches)

    def bits_per_byte(self, val_loss) -> float:
        """Convert a loss returned by `validate` to bits per byte of the validation text."""
        return bits_per_byte(val_loss, self._targets, self._lengths)

    def sample(self, stop=lambda: False) -> str:
        """Text that the model writes from the start of a document; when a document ends, the next one starts on a new
        line.

        The text ends early if stop() becomes true.
        """
        s, start = self.settings, [self.encoding.eot_token]
        window = s.sequence_length  # positions beyond it were never trained
        ids = generate(self.model, start, s.sample_tokens, temperature=SAMPLE_TEMPERATURE, seed=s.seed, window=window)
        return self.encoding.decode(list(takewhile(lambda _: not stop(), ids))).replace(END_OF_TEXT, "\n")
