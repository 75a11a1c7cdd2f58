"""The label of a single sample, read off the head's gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fedstat.privacy.observing import Observation


def infer_label(observation: Observation) -> int:
    """Return the label of the one sample behind a gradient (iDLG, Zhao et al. 2020).

    Under cross-entropy the gradient in the head's bias is the predicted probabilities minus the true class, so that it
    is negative at the true class alone. Without a bias the rows of the head's weight are taken, each of which is that
    number times the features: the true class is the row whose inner products with all others are not positive. With
    several samples, or after several steps, the answer would be a guess.
    """
    if observation.samples > 1:
        raise ValueError(
            f'labels "inferred" needs a message about one sample, this one is about {observation.samples}; take '
            'labels "known" or "optimised".'
        )
    head = f"{observation.network.head}."
    sent = {n.removeprefix(head): g for n, g in observation.gradient.items() if n.startswith(head)}
    if "bias" in sent:
        return int(sent["bias"].argmin())
    weight = sent.get("weight", sent.get("weight.full"))
    if weight is None or torch.isnan(weight).any():
        raise ValueError(
            'labels "inferred" needs the gradient of the head, which this client does not send; take labels "known" '
            'or "optimised".'
        )
    return int((weight @ weight.T).fill_diagonal_(0).sum(1).argmin())
