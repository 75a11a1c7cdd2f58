"""Layers in the form that the stacked engine can run: batch norm under a mask, recurrent layers in plain operations.

The engine runs one module for many clients under ``torch.vmap``, with batches padded to one length. Torch's batch
norm would count the padding, its recurrent layers have no batching rule, its embedding keeps the padding row of the
first client alone, and its dropout draws from a global generator. `stackable` replaces them (dropout by
`fedstat.federated.client.dropout`), and refuses layers that have no stacked form. What a forward pass does beyond its
layers shows in the rehearsal (`fedstat.federated.engine.rehearsal`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstat.federated.client.dropout import DROPOUTS, KeyedDropout

#: The batch norms that are replaced, and the ranks of input that each accepts.
_RANKS = {nn.BatchNorm1d: (2, 3), nn.BatchNorm2d: (4,), nn.BatchNorm3d: (5,)}


class MaskedBatchNorm(nn.Module):
    """Batch norm (Ioffe and Szegedy, 2015, Algorithm 1) whose moments count valid rows only.

    It shares the parameters and running statistics of a torch layer, under the same names, and is torch's own operation
    whenever all rows are valid. In training mode the outputs at other rows are the bias alone, and whatever stands
    there has no influence. A channel with a single value, at which torch raises an error, has variance zero; without
    any valid row running statistics stay as they are, bit for bit.

    The mask `valid`, (B,), empty if all rows count, is a buffer, which ``functional_call`` sets for one call. Running
    statistics, (C,), move in place: under ``functional_call`` the caller's tensors, under ``torch.vmap`` their rows.
    """

    valid: Tensor
    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> None:
        super().__init__()
        _check(layer)
        self.num_features, self.eps, self.momentum = layer.num_features, layer.eps, cast(float, layer.momentum)
        self.ranks = _RANKS[type(layer)]
        self.register_parameter("weight", layer.weight)
        self.register_parameter("bias", layer.bias)
        self.register_buffer("running_mean", layer.running_mean)
        self.register_buffer("running_var", layer.running_var)
        self.register_buffer("valid", torch.ones(0, dtype=torch.bool), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x`, shape (B, C, ...)."""
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; this batch norm needs {' or '.join(map(str, self.ranks))} axes with "
                f"{self.num_features} channels on the second."
            )
        batch = self.training or self.running_mean is None or self.running_var is None
        if not batch or (not self.valid.numel() and x.shape[0] * x.shape[2:].numel() > 1):
            mean, variance = self.running_mean, self.running_var
            if x.is_cuda and mean is not None and x.dtype != mean.dtype:  # under vmap, CUDA takes them of one type only
                return self(x.to(mean.dtype)).to(x.dtype)
            return F.batch_norm(x, mean, variance, self.weight, self.bias, batch, self.momentum, self.eps)
        channel = (-1, *[1] * (x.ndim - 2))
        centred, variance = self._centre(x.to(torch.promote_types(x.dtype, torch.float32)))
        scale = torch.rsqrt(variance + self.eps)
        outputs = centred * (scale if self.weight is None else scale * self.weight).view(channel)
        return (outputs if self.bias is None else outputs + self.bias.view(channel)).to(x.dtype)

    def _centre(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return deviations from the valid rows' mean (else zero), biased variance (C,); move running statistics."""
        valid = self.valid if self.valid.numel() else x.new_ones(len(x), dtype=torch.bool)
        if valid.shape != x.shape[:1]:
            raise ValueError(f"valid has shape {tuple(valid.shape)}; x has {len(x)} rows and needs ({len(x)},).")
        rows, axes = valid.view(-1, *[1] * (x.ndim - 1)), [0, *range(2, x.ndim)]
        count = valid.sum() * x.shape[2:].numel()
        total = count.clamp(min=1)
        # `where`, not a product: padding may hold anything, and zero times infinity is NaN.
        mean = torch.where(rows, x, 0).sum(axes, keepdim=True) / total
        centred = torch.where(rows, x - mean, 0)
        variance = centred.square().sum(axes) / total
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                unbiased = variance * total / (count - 1).clamp(min=1)
                for running, batch in ((self.running_mean, mean.flatten()), (self.running_var, unbiased)):
                    moved = (1 - self.momentum) * running + self.momentum * batch
                    running.copy_(torch.where(count > 0, moved, running))
        return centred, variance


def _lstm(inner: Tensor, outer: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = (outer + inner).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(inner: Tensor, outer: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    (r, z, n), (own_r, own_z, own_n) = outer.chunk(3, dim=-1), inner.chunk(3, dim=-1)
    n = (n + (r + own_r).sigmoid() * own_n).tanh()
    z = (z + own_z).sigmoid()
    return ((1 - z) * n + z * h,)


#: Returns the state after a step, hidden states first. Its arguments are what hidden states and inputs add to the
#: gates, and the state before.
_CELLS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda inner, outer, h: ((outer + inner).tanh(),),
    "RNN_RELU": lambda inner, outer, h: ((outer + inner).relu(),),
}


class Unrolled(nn.Module):
    """Recurrent layers as a loop over time in plain operations, with the interface and weights (shared) of torch's.

    LSTM: Hochreiter and Schmidhuber (1997), with forget gates by Gers et al. (2000), gates in torch's order i, f, g, o.
    GRU: Cho et al. (2014) in torch's form, gates in the order r, z, n; the reset gate r acts on what hidden states add
    to n, bias included. RNN: Elman (1990). Bidirectional layers and projections are refused.
    """

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        _check(layer)
        self.mode, self.hidden_size, self.num_layers, self.bias = (
            layer.mode, layer.hidden_size, layer.num_layers, layer.bias,
        )  # fmt: skip
        self.batch_first = layer.batch_first
        self.dropout = KeyedDropout(nn.Dropout(layer.dropout))
        for name, leaf in layer.named_parameters():
            self.register_parameter(name, leaf)

    def forward(
        self, x: Tensor, hx: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
        """Run over sequences of one length, not packed ones; arguments and outcomes are those of torch's layers."""
        if not isinstance(x, Tensor) or x.ndim != 3:
            what = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"type {type(x).__name__}"
            raise ValueError(f"x must be a tensor of 3 axes, a batch of sequences of one length; it has {what}.")
        steps = x.transpose(0, 1) if self.batch_first else x
        if hx is None:
            zeros = x.new_zeros(self.num_layers, steps.shape[1], self.hidden_size)
            hx = (zeros, zeros) if self.mode == "LSTM" else zeros
        starts = (hx,) if isinstance(hx, Tensor) else hx
        ends = []
        for depth in range(self.num_layers):
            steps, end = self._layer(depth, self.dropout(steps) if depth else steps, [s[depth] for s in starts])
            ends.append(end)
        output = steps.transpose(0, 1) if self.batch_first else steps
        state = tuple(torch.stack(of_layers) for of_layers in zip(*ends, strict=True))
        return output, state if self.mode == "LSTM" else state[0]

    def _layer(self, depth: int, steps: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        """Return one layer's hidden states (L, B, hidden) and its last state."""
        weight, recurrent = (getattr(self, f"weight_{kind}_l{depth}") for kind in ("ih", "hh"))
        outer, inner = (getattr(self, f"bias_{kind}_l{depth}", None) for kind in ("ih", "hh"))
        if outer is not None and self.mode != "GRU":  # in a GRU the reset gate acts between the two
            outer, inner = outer + inner, None
        cell, recurrent, outputs = _CELLS[self.mode], recurrent.T, []
        for driven in F.linear(steps, weight, outer).unbind():
            hidden = state[0] @ recurrent
            state = cell(hidden if inner is None else hidden + inner, driven, *state)
            outputs.append(state[0])
        return torch.stack(outputs), state


class PaddedEmbedding(nn.Embedding):
    """``nn.Embedding`` whose padding row gets no gradient, of any client; its weight is shared, not copied."""

    def __init__(self, layer: nn.Embedding) -> None:
        nn.Module.__init__(self)
        vars(self).update({name: getattr(layer, name) for name in nn.Embedding.__constants__})
        self.weight = layer.weight

    def forward(self, x: Tensor) -> Tensor:
        """Look up tokens `x`, any shape; returns (..., embedding_dim)."""
        rows = F.embedding(x, self.weight)
        padding = x.eq(cast(int, self.padding_idx))
        return torch.where(padding[..., None], rows.detach(), rows)


#: What runs in place of a layer of torch.
_STAND_INS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    **dict.fromkeys(_RANKS, MaskedBatchNorm),
    **dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), Unrolled),
    **dict.fromkeys(DROPOUTS, KeyedDropout),
    nn.Embedding: PaddedEmbedding,
}


def stackable(module: nn.Module) -> nn.Module:
    """Replace batch norm, recurrent layers, dropout and padded embeddings by layers that run stacked over clients.

    The module is changed in place, at any depth, and returned, or its replacement. Leaves keep their names and values.
    If a layer cannot run stacked, nothing is changed and a ValueError names it and the remedy.
    """
    for name, layer in module.named_modules():
        _check(layer, name)
    old = [layer for layer in module.modules() if _has_stand_in(layer)]
    replaced = {layer: _STAND_INS[type(layer)](layer).train(layer.training) for layer in old}
    # One layer may have several names (tied weights), and its replacement must have them too.
    for parent in list(module.modules()) if old else ():
        for name, child in parent._modules.items():
            if child in replaced:
                setattr(parent, name, replaced[child])
    return replaced.get(module, module)


def _has_stand_in(layer: nn.Module) -> bool:
    return type(layer) in _STAND_INS and not (type(layer) is nn.Embedding and layer.padding_idx is None)


def copied(module: nn.Module) -> nn.Module:
    """Return a deep copy in which tensors that a layer computed in an earlier call, and still holds, are None."""
    held = (value for layer in module.modules() for value in vars(layer).values() if isinstance(value, Tensor))
    memo: dict[int, Any] = {id(value): None for value in held if _computed(value)}
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # a module may hold anything
        raise ValueError(
            f"the network cannot be copied, which every client's own model needs: {str(error).splitlines()[0]} Let its "
            "layers hold weights, buffers, numbers and text only."
        ) from None


def _computed(value: Tensor) -> bool:
    """Tell whether a forward pass made a tensor: it has a history, or belonged to a stack that is gone."""
    if value.is_leaf and value.layout == torch.strided:
        try:
            value.untyped_storage()
        except NotImplementedError:
            return True
    return not value.is_leaf


def layers_of(module: nn.Module, name: str = "") -> list[tuple[str, nn.Module]]:
    """Return the layers that a module calls one after the other, with their names; itself if it may do anything else.

    Only of `nn.Sequential`, and of what is derived from it with the same forward pass, is the order known.
    """
    own = ("__call__", "__iter__", "forward")
    if any(getattr(type(module), name, None) is not getattr(nn.Sequential, name) for name in own) or hooked(module):
        return [(name, module)]
    children = module._modules.items()  # one layer may come twice
    below = (layers_of(layer, f"{name}.{child}".removeprefix(".")) for child, layer in children if layer is not None)
    return [*chain.from_iterable(below)]


def hooked(module: nn.Module) -> bool:
    """Tell whether something of the user's runs around a module's forward pass, or in place of it."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module)


def norm_layers(module: nn.Module) -> list[str]:
    """Return the dotted names of the `MaskedBatchNorm` layers, in order; ``""`` is the module itself."""
    return [name for name, layer in module.named_modules() if isinstance(layer, MaskedBatchNorm)]


_LAZY, _NORM = nn.modules.lazy.LazyModuleMixin, nn.modules.batchnorm._BatchNorm
_INSTANCE, _DROPOUT = nn.modules.instancenorm._InstanceNorm, nn.modules.dropout._DropoutNd
_EMBEDDING = (nn.Embedding, nn.EmbeddingBag)
_BARE = "take its hooks or its own forward away, which the layer that runs in its place would not have"
#: Layers without a stacked form: their classes, which of them it is, and what to do about it.
_UNFIT: tuple[tuple[Any, Callable[[Any], object], str], ...] = (
    (_LAZY, lambda x: not isinstance(x, _NORM), "give its number of inputs, as {1} asks for it"),
    (_NORM, lambda x: type(x) not in _RANKS, "use nn.BatchNorm1d, 2d or 3d itself"),
    (_NORM, lambda x: x.momentum is None, "give momentum a number, such as 0.1"),
    (_INSTANCE, lambda x: x.track_running_stats, "set track_running_stats=False, or use nn.GroupNorm"),
    (nn.LSTMCell, lambda x: True, "use nn.LSTM"),
    (nn.RNNBase, lambda x: type(x) not in (nn.LSTM, nn.GRU, nn.RNN), "use nn.LSTM, nn.GRU or nn.RNN itself"),
    (nn.RNNBase, lambda x: x.bidirectional or x.proj_size, "set bidirectional=False and proj_size=0"),
    (_EMBEDDING, lambda x: x.max_norm is not None, "set max_norm=None, as it changes weights in the forward pass"),
    (_EMBEDDING, lambda x: x.scale_grad_by_freq, "set scale_grad_by_freq=False, as it would count a batch's padding"),
    (_EMBEDDING, lambda x: x.sparse, "set sparse=False"),
    (_DROPOUT, lambda x: type(x) not in DROPOUTS and x.p > 0, "use nn.Dropout itself, or set p=0 (it is {0.p})"),
    (nn.MultiheadAttention, lambda x: x.dropout > 0, "set dropout=0 (it is {0.dropout})"),
    (nn.Module, lambda x: _has_stand_in(x) and hooked(x), _BARE),
)


def _check(layer: nn.Module, name: str = "") -> None:
    """Raise ValueError if a layer has no stacked form."""
    for kinds, unfit, remedy in _UNFIT:
        if isinstance(layer, kinds) and unfit(layer):
            where, kind = f"layer {name!r}" if name else "the module itself", type(layer).__name__
            told = remedy.format(layer, kind.removeprefix("Lazy"))
            raise ValueError(f"{where} ({kind}) cannot run stacked over clients: {told}.")
