"""Statements of the literature on federated learning, beyond the papers that fedstat implements."""

PAPER = "Federated learning in the literature"
