"""Training: settings, schedule, the loop, its log and its picture.

`train(TrainSettings(...))` is the whole of it, `resume(run)` goes on where it stopped, `Trainer` is one step at a time.
"""

from llmc.training.log import LogWriter, read_log
from llmc.training.loop import TrainResult, resume, train
from llmc.training.plot import plot_run
from llmc.training.progress import StepReport
from llmc.training.recipes import RECIPES
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
