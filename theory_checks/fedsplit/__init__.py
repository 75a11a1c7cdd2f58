"""Statements of "Factor-Assisted Federated Learning for Personalized Optimization" (FedSplit and FedFac)."""

PAPER = "FedSplit/FedFac"
LINK = "https://arxiv.org/abs/2312.04281"
