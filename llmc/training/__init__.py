"""Training: settings, schedule, the loop, its log and its picture. `train(TrainSettings(...))` is the whole of it."""

from llmc.training.log import LogWriter, read_log
from llmc.training.loop import TrainResult, train
from llmc.training.plot import plot_run
from llmc.training.progress import StepReport
from llmc.training.schedule import learning_rate
from llmc.training.settings import TrainSettings

__all__ = ["LogWriter", "StepReport", "TrainResult", "TrainSettings", "learning_rate", "plot_run", "read_log", "train"]
