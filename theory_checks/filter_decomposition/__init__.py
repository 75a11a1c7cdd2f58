"""Statements of "Overcome Data Heterogeneity in Federated Learning with Filter Decomposition"."""

PAPER = "Filter decomposition"
