"""``fedstat run experiment.toml``: data, partition, network, methods and training from one file."""

from fedstat.experiment.build import population
from fedstat.experiment.config import Experiment
from fedstat.experiment.parsing import read
from fedstat.experiment.run import run

__all__ = ["Experiment", "population", "read", "run"]
