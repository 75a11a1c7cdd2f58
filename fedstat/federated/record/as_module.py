"""A model of a run as a module of torch."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from fedstat.federated.client.layers import copied
from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import Params
from fedstat.federated.method import Method
from fedstat.federated.state import Predictor


def as_module(models: Mapping[str, Predictor], estimand: str | None, learner: Learner) -> nn.Module:
    """Return the model of an estimand, by default the first, of the first client as a module in evaluation mode."""
    if estimand is not None and estimand not in models:
        raise ValueError(f"estimand must be one of {', '.join(models)}, got {estimand!r}.")
    predictor = models[estimand or next(iter(models))]
    params = {name: leaf[0] for name, leaf in predictor.params.items()}
    if getattr(predictor.outputs, "__func__", None) is Method.predict:
        module = copied(learner.network.module)
        module.load_state_dict(learner.network.compose(params), strict=False)  # constants stay, tied weights come once
        return module.eval()
    return _Predicting(predictor, learner, params).eval()


class _Predicting(nn.Module):
    """A predictor that is more than one network's forward pass."""

    def __init__(self, predictor: Predictor, learner: Learner, params: Params) -> None:
        super().__init__()
        self.predictor, self.learner = predictor, learner
        for name, leaf in params.items():
            self.register_buffer(name.replace(".", "|"), leaf)  # module names must not hold dots

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, ...) to outputs (B, Q)."""
        params = {name.replace("|", "."): leaf for name, leaf in self.named_buffers(recurse=False)}
        return self.predictor.outputs(self.learner, params, x)
