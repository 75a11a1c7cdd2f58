"""Statements of "Factor-Assisted Federated Learning for Personalized Optimization" (FedSplit and FedFac)."""

PAPER = "FedSplit/FedFac"
