"""Statements of "Decoupling General and Personalized Knowledge in Federated Learning" (FedDecomp).

The method's parameters are a shared full-rank ``sigma`` and, for each client, a personal low-rank ``tau = B A``.
"""

PAPER = "FedDecomp"
LINK = "https://arxiv.org/abs/2406.19931"
