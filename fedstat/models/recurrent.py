"""Recurrent networks that predict the next token of a sequence."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.factory import Factory


def lstm(
    classes: int, *, vocabulary: int, embedding: int = 8, hidden: int = 256, layers: int = 2, dense: int = 256
) -> Factory:
    """Build an embedding, LSTM layers, and two dense layers on the last hidden state.

    The layers are ``embedding``, ``lstm.l0``, ``lstm.l1``, ``hidden`` and ``head``. The FedFac paper's network for
    Shakespeare has two LSTM and two dense layers; it counts them from 1 and leaves the embedding out, so its layer 3 is
    ``hidden``. All sizes, and ReLU in the dense layer, are our choice.

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

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.lstm(80, vocabulary=80)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    885712
    """
    sizes = {"embedding": embedding, "hidden": hidden, "layers": layers, "dense": dense}
    return partial(NextToken, "lstm", classes, vocabulary=vocabulary, **sizes)


def gru(
    classes: int, *, vocabulary: int, embedding: int = 8, hidden: int = 256, layers: int = 2, dense: int = 256
) -> Factory:
    """Build what `lstm` builds, with GRU layers: ``embedding``, ``gru.l0``, ``gru.l1``, ``hidden``, ``head``.

    Parameters
    ----------
    classes, vocabulary, embedding, hidden, layers, dense : int
        See `lstm`.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.gru(80, vocabulary=80)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    686032
    """
    sizes = {"embedding": embedding, "hidden": hidden, "layers": layers, "dense": dense}
    return partial(NextToken, "gru", classes, vocabulary=vocabulary, **sizes)


def rnn(
    classes: int, *, vocabulary: int, embedding: int = 8, hidden: int = 256, layers: int = 2, dense: int = 256
) -> Factory:
    """Build what `lstm` builds, with tanh layers: ``embedding``, ``rnn.l0``, ``rnn.l1``, ``hidden``, ``head``.

    Parameters
    ----------
    classes, vocabulary, embedding, hidden, layers, dense : int
        See `lstm`.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.rnn(80, vocabulary=80)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    286672
    """
    sizes = {"embedding": embedding, "hidden": hidden, "layers": layers, "dense": dense}
    return partial(NextToken, "rnn", classes, vocabulary=vocabulary, **sizes)


class NextToken(nn.Module):
    """See `lstm`; the recurrent layers bear the name of their kind."""

    def __init__(
        self, kind: str, classes: int, *, vocabulary: int, embedding: int, hidden: int, layers: int, dense: int
    ) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.add_module(kind, getattr(nn, kind.upper())(embedding, hidden, layers, batch_first=True))
        self.hidden = nn.Linear(hidden, dense)
        self.head = nn.Linear(dense, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, L) to outputs (B, classes)."""
        states, _ = self.get_submodule(self.kind)(self.embedding(tokens))
        return self.head(torch.relu(self.hidden(states[:, -1])))
