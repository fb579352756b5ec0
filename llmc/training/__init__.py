"""Training: settings, schedule, the training loop, its log and its plot.

`train(TrainSettings(...))` makes a whole run, `resume(run)` continues one, and `Trainer` takes one step at a time.
"""

from llmc.training.log import LogWriter, read_log
from llmc.training.loop import resume, train
from llmc.training.plot import plot_run
from llmc.training.recipes import RECIPES
from llmc.training.report import StepReport, TrainResult
from llmc.training.schedule import learning_rate
from llmc.training.settings import TrainSettings
from llmc.training.trainer import Trainer

__all__ = [
    "RECIPES",
    "LogWriter",
    "StepReport",
    "TrainResult",
    "TrainSettings",
    "Trainer",
    "learning_rate",
    "plot_run",
    "read_log",
    "resume",
    "train",
]
