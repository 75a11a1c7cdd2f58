"""Statements of the literature on federated averaging, beyond the papers that fedstat implements."""

PAPER = "FedAvg in the literature"
