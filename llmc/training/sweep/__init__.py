"""The same training run with several learning rates, side by side, to find the one that ends lowest."""

from llmc.training.sweep.driver import PLOT, RESULTS, default_rates, sweep
from llmc.training.sweep.plot import plot_sweep
from llmc.training.sweep.result import SweepRun, best, finding, table

__all__ = ["PLOT", "RESULTS", "SweepRun", "best", "default_rates", "finding", "plot_sweep", "sweep", "table"]
