"""Statements of the literature on federated learning, beyond the papers that fedstat implements."""

PAPER = "The literature"
