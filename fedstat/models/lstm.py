"""Next character from a window of characters."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.factory import Factory


def lstm(
    classes: int, *, vocabulary: int, embedding: int = 8, hidden: int = 256, layers: int = 2, dense: int = 256
) -> Factory:
    """Embedding, LSTM layers, and two dense layers on the last hidden state.

    Layers: ``embedding``, ``lstm.l0``, ``lstm.l1``, ``hidden``, ``head``. The FedFac paper's network for Shakespeare
    has two LSTM and two dense layers; it counts them from 1 and leaves the embedding out, so its layer 3 is
    ``hidden``. All sizes, and ReLU in the dense layer, are ours.

    Parameters
    ----------
    classes : int
        Outputs.
    vocabulary : int
        Number of different tokens; inputs are (B, L) of int64, from 0.
    embedding, hidden, dense : int
        Width of the embedding, of the LSTM layers and of the dense layer below the head.
    layers : int
        Number of LSTM layers.
    """
    return partial(
        NextToken, classes, vocabulary=vocabulary, embedding=embedding, hidden=hidden, layers=layers, dense=dense
    )


class NextToken(nn.Module):
    """See `lstm`."""

    def __init__(self, classes: int, *, vocabulary: int, embedding: int, hidden: int, layers: int, dense: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.hidden = nn.Linear(hidden, dense)
        self.head = nn.Linear(dense, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, L) to outputs (B, classes)."""
        states, _ = self.lstm(self.embedding(tokens))
        return self.head(torch.relu(self.hidden(states[:, -1])))
