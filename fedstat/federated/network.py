"""A module's structure, and its forward pass for a stack of clients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

Params = dict[str, Tensor]
Model = nn.Module | Callable[[], nn.Module]


@dataclass(frozen=True, eq=False)
class Network:
    """The structure all clients share: what the leaves are called and how they make outputs.

    Attributes
    ----------
    module : nn.Module
        A template; its own weights are never used after `initial` read them.
    dtype : torch.dtype
        Floating type of weights and inputs.
    """

    module: nn.Module
    dtype: torch.dtype = torch.float32

    @property
    def shapes(self) -> dict[str, torch.Size]:
        """Shape of every leaf that trains."""
        return {name: leaf.shape for name, leaf in self._trained()}

    @property
    def device(self) -> torch.device:
        """Where weights live."""
        return next(self.module.parameters()).device

    @property
    def bytes(self) -> int:
        """Size of one client's weights."""
        return sum(shape.numel() for shape in self.shapes.values()) * self.dtype.itemsize

    def initial(self) -> Params:
        """Return a copy of the template's weights."""
        return {name: leaf.detach().to(self.dtype).clone() for name, leaf in self._trained()}

    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        """Named parameters that train; frozen ones stay in the module, the same for everybody."""
        return [(name, leaf) for name, leaf in self.module.named_parameters() if leaf.requires_grad]

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Apply client k's weights ``params[...][k]`` to client k's inputs ``x[k]``.

        Parameters
        ----------
        params : dict of Tensor, each (K, ...)
            Stacked weights.
        x : Tensor, shape (K, B, ...)
            Stacked inputs.

        Returns
        -------
        Tensor, shape (K, B, outputs)
        """

        def single(weights: Params, inputs: Tensor) -> Tensor:
            return torch.func.functional_call(self.module, weights, (inputs,))

        return torch.vmap(single)(params, x)

    def unit_leaves(self, layer: str) -> list[str]:
        """Names of the leaves whose first axis runs over the units of `layer`: incoming weights and bias.

        Raises
        ------
        ValueError
            If the network has no such layer or it has no weights.
        """
        names = [name for name in (f"{layer}.weight", f"{layer}.bias") if name in self.shapes]
        if not names or names[0] != f"{layer}.weight":
            layers = [name.removesuffix(".weight") for name in self.shapes if name.endswith(".weight")]
            raise ValueError(f"the network has no layer {layer!r} with units; it has {', '.join(layers)}.")
        return names


def build(model: Model, rng: np.random.Generator, dtype: torch.dtype = torch.float32) -> Network:
    """Build a network whose weights are drawn from `rng`; global generators are left as they were.

    Parameters
    ----------
    model : callable or nn.Module
        A function that builds a module draws new weights for every generator; a module instance always starts
        from the weights it has.
    rng : numpy Generator
        Source of the seed for the module's constructor.
    dtype : torch.dtype
        Floating type to compute in.

    Raises
    ------
    ValueError
        If the module has layers that the stacked engine cannot run.
    """
    if isinstance(model, nn.Module):
        module = copy.deepcopy(model)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(rng.integers(2**62)))
            module = model()
        if not isinstance(module, nn.Module):
            raise ValueError(f"model must be an nn.Module or a function returning one, got {type(module).__name__}.")
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm | nn.RNNBase | nn.modules.dropout._DropoutNd):
            raise ValueError(
                f"layer {name!r} is {type(layer).__name__}, which the stacked engine cannot run (running "
                "statistics, recurrent kernels and dropout have no per-client rule yet). GroupNorm or LayerNorm "
                "can replace batch norm."
            )
    if not any(leaf.requires_grad for leaf in module.parameters()):
        raise ValueError("model has no parameters to train.")
    return Network(module.to(dtype), dtype)
