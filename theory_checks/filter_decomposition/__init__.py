"""Statements of "Overcome Data Heterogeneity in Federated Learning with Filter Decomposition"."""

PAPER = "Filter decomposition"
LINK = "https://openreview.net/forum?id=VzrswFtUDf"
