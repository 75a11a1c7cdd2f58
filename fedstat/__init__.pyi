from . import claims, data, factor, federated, inference, methods, models, ntk, report, testing, theory
from .federated import Method, Population, Result, State, Training, Update, federate, load
from .inference import compare
from .methods import Count, FedAvg, FedFac, FedSplit, Local, Quantile

__all__ = [
    "Count",
    "FedAvg",
    "FedFac",
    "FedSplit",
    "Local",
    "Method",
    "Population",
    "Quantile",
    "Result",
    "State",
    "Training",
    "Update",
    "claims",
    "compare",
    "data",
    "factor",
    "federate",
    "federated",
    "inference",
    "load",
    "methods",
    "models",
    "ntk",
    "report",
    "testing",
    "theory",
]

__version__: str
