"""The methods, one file each."""

from fedstat.methods.cut import Count, Quantile
from fedstat.methods.fedavg import FedAvg
from fedstat.methods.fedfac import FedFac
from fedstat.methods.fedsplit import FedSplit
from fedstat.methods.local import Local

__all__ = ["Count", "FedAvg", "FedFac", "FedSplit", "Local", "Quantile"]
