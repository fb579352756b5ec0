"""Which run fits into a few minutes of this machine: the tiny GPT-2 on a CPU, GPT-2 124M in bf16 on a GPU.

The speed is that of a few steps of that very run, measured on request.
"""

from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

from llmc import cuda
from llmc.course.machine.facts import cores
from llmc.data.corpora.known_corpora import prepared
from llmc.terminal import llmc_command
from llmc.training.settings import AUTO, TrainSettings
from llmc.training.start import fastest_precision
from llmc.training.trainer import Trainer

TIMED = 6  # steps; the first one, which compiles, is not counted
SPARE = 0.9  # of the minutes: the rest is for checkpoints and samples
VALIDATIONS = 12  # in a run
LOWEST, ROUND = 20, 10  # steps: at least that many, and a multiple of it


@dataclass(frozen=True)
class Proposal:
    """A run for this machine. ms: duration of one of its steps · minutes: what it was asked to fit into."""

    machine: str
    settings: TrainSettings
    ms: float
    minutes: float
    num_parameters: int

    def command(self) -> str:
        """The run as a command for a terminal."""
        s, default = self.settings, TrainSettings()
        names = [name for name in vars(s) if getattr(s, name) != getattr(default, name)]
        return llmc_command(
            "train", *(word for name in names for word in (f"--{name.replace('_', '-')}", vars(s)[name]))
        )

    def __str__(self):
        s = self.settings
        size = (
            f"{self.num_parameters / 1e6:,.1f} million weights, B={s.batch_size} T={s.sequence_length}, {s.precision}"
        )
        speed = f"{self.ms:.0f} ms a step, {1e3 * s.tokens_per_step / self.ms:,.0f} tokens/s"
        return "\n".join(
            [
                f"this machine: {self.machine}",
                f"model {s.preset}: {size}: {speed}",
                f"in {self.minutes:g} minutes: {s.steps:,} steps, {s.steps * s.tokens_per_step:,} tokens of {s.data}",
                self.command(),
            ]
        )


def propose(minutes: float = 3.0) -> Proposal:
    """A run that this machine can do in that many minutes. It takes a few seconds to measure it."""
    machine, settings = candidate()
    trainer = Trainer(settings)
    seconds = []
    for _ in range(TIMED):
        start = perf_counter()
        trainer.train_step()  # its loss is read, so nothing is left in a GPU's queue
        seconds.append(perf_counter() - start)
    start = perf_counter()
    trainer.validate()
    validation = perf_counter() - start
    step = median(seconds[1:])
    steps = (60 * SPARE * minutes - VALIDATIONS * validation) / step
    steps = max(LOWEST, int(steps) // ROUND * ROUND)
    every = max(1, -(-steps // VALIDATIONS))
    settings = replace(trainer.settings, steps=steps, val_every=every, checkpoint_every=every)
    return Proposal(machine, settings, 1e3 * step, minutes, trainer.config.num_parameters)


def candidate() -> tuple[str, TrainSettings]:
    """(this machine in words, the settings of a run for it, except for the number of steps)."""
    if cuda.device() == "gpu":
        data = "tinyshakespeare" if "tinyshakespeare" in prepared() else "pydocs"
        large = dict(preset="d12", sequence_length=1024, batch_size=AUTO, backend="cuda", precision="bf16")
        return cuda.name_of_gpu(), TrainSettings(**large, data=data, learning_rate=6e-4, val_batches=4)
    precision = fastest_precision("cpu")
    usable = cores()[0]
    numbers = "multiplies bfloat16" if precision == "bf16" else "multiplies float32 best"
    return f"{usable:g} core{'s' * (usable != 1)}, {numbers}; no GPU", TrainSettings(
        precision=precision, val_batches=20
    )
