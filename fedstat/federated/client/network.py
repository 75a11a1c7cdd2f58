"""A module's structure, its forward pass for one client or a stack of clients, and how its numbers round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedstat._checks import choice
from fedstat.federated.client.dropout import KeyedDropout, keys
from fedstat.federated.client.layers import Unrolled, copied, hooked, layers_of, norm_layers, stackable
from fedstat.parameterization import Form

Params = dict[str, Tensor]
Model = nn.Module | Callable[[], nn.Module]

#: float32, whose products may round to TF32 on a GPU.
TF32 = "tf32"
#: Layers compute in bfloat16; weights, sums of gradients, statistics and losses stay in float32.
MIXED = "bf16-mixed"
DTYPES = {"float32": torch.float32, "float64": torch.float64, TF32: torch.float32, MIXED: torch.float32}
_BACKENDS: Any = torch.backends
#: Torch's settings of a GPU's products, and of those of a processor, which round to TF32 or bfloat16 only if told to.
_OF_GPUS: tuple[Any, ...] = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
_OF_PROCESSORS: tuple[Any, ...] = (_BACKENDS.mkldnn.matmul, _BACKENDS.mkldnn.conv, _BACKENDS.mkldnn.rnn)


@dataclass(frozen=True, eq=False)
class Network:
    """The structure that all clients share: the names of the leaves, and how they make outputs.

    A leaf is a weight of the module, one part of it (``conv1.weight.u``) where the weight is parameterised, or a
    running statistic of batch norm.

    Attributes
    ----------
    module : nn.Module
        A template; after `initial` has read its weights they are never used.
    dtype : torch.dtype
        Floating type of weights and inputs.
    forms : mapping of str to Form
        How the parameterised weights are composed of parts.
    parts : dict of Tensor
        Initial parts of those weights, by the name of the leaf.
    mixed : bool
        Whether layers compute in bfloat16.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> from fedstat.federated import build
    >>> network = build(fs.models.mlp(4, 3, 2), np.random.default_rng(0))
    >>> network.head, network.layers[network.head], network.bytes
    ('head', ('head.weight', 'head.bias'), 92)
    """

    module: nn.Module
    dtype: torch.dtype = torch.float32
    forms: Mapping[str, Form] = field(default_factory=dict)
    parts: Params = field(default_factory=dict)
    mixed: bool = False

    @cached_property
    def weights(self) -> dict[str, torch.Size]:
        """The shape of every weight that trains, by its name in the module before parameterisation."""
        return {name: leaf.shape for name, leaf in self.module.named_parameters() if leaf.requires_grad}

    @cached_property
    def tied(self) -> dict[str, str]:
        """The further names of tied weights, which several layers hold, each with the name of the leaf."""
        names = {id(leaf): name for name, leaf in self.module.named_parameters() if leaf.requires_grad}
        layers = self.module.named_modules()
        held = (layer.named_parameters(owner, recurse=False, remove_duplicate=False) for owner, layer in layers)
        return {name: names[id(leaf)] for name, leaf in chain.from_iterable(held) if names.get(id(leaf), name) != name}

    @cached_property
    def trainable(self) -> tuple[str, ...]:
        """The leaves that gradients move."""
        return tuple(leaf for name in self.weights for leaf in self._leaves_of(name))

    @cached_property
    def statistics(self) -> tuple[str, ...]:
        """The running means and variances of batch norm, which the forward pass moves in training mode."""
        norms, names = norm_layers(self.module), [name for name, _ in self.module.named_buffers()]
        return tuple(name for name in names if name.rpartition(".")[0] in norms and name not in self._masks)

    @cached_property
    def shapes(self) -> dict[str, torch.Size]:
        """The shape of every leaf."""
        return {name: leaf.shape for name, leaf in self.initial().items()}

    @cached_property
    def constants(self) -> bool:
        """Whether the module has frozen weights or buffers that are no leaves, and so may differ between seeds."""
        tensors = {*dict(self.module.named_parameters()), *dict(self.module.named_buffers())}
        # calls set masks and keys
        return bool(tensors.difference(self.weights, self.statistics, self._masks, self._keys))

    @property
    def device(self) -> torch.device:
        """The device on which the weights are."""
        return next(self.module.parameters()).device

    @cached_property
    def bytes(self) -> int:
        """The size of one client's leaves in bytes."""
        return sum(shape.numel() for shape in self.shapes.values()) * self.dtype.itemsize

    @cached_property
    def layers(self) -> dict[str, tuple[str, ...]]:
        """The leaves of each layer with weights, in the module's order; recurrent layers are ``lstm.l0``, ``lstm.l1``.

        A norm layer counts as part of the weight layer before it.
        """
        groups: dict[str, list[str]] = {}
        norms = set(norm_layers(self.module)) | {
            name for name, layer in self.module.named_modules() if isinstance(layer, nn.GroupNorm | nn.LayerNorm)
        }
        layer = ""
        for leaf in self._in_order():
            weight = leaf.rpartition(".")[0] if leaf in self.parts else leaf
            owner, _, last = weight.rpartition(".")
            if owner not in norms:
                depth = last.rpartition("_l")[2]
                layer = f"{owner}.l{depth}" if last.startswith(("weight_", "bias_")) else owner or last
            groups.setdefault(layer, []).append(leaf)
        return {name: tuple(leaves) for name, leaves in groups.items()}

    @cached_property
    def head(self) -> str:
        """The last dense layer's name; a ValueError says if there is none apart, or its weights are tied."""
        dense = [name for name, layer in self.module.named_modules() if isinstance(layer, nn.Linear)]
        if not dense or not dense[-1]:
            raise ValueError("the network needs a dense layer (nn.Linear) as its head, below a body; it has none.")
        if other := [leaf for name, leaf in self.tied.items() if name.startswith(f"{dense[-1]}.")]:
            raise ValueError(
                f"the head {dense[-1]!r} holds {', '.join(other)} of another layer (tied weights), so that the network "
                "has no head of its own; untie them, or choose a method without a head."
            )
        return dense[-1]

    @cached_property
    def head_leaves(self) -> tuple[str, ...]:
        """The leaves of the head, as `head` finds it."""
        return tuple(leaf for leaf in self.shapes if leaf.startswith(f"{self.head}."))

    def layers_in_chain(self, known: Callable[[nn.Module], bool]) -> list[tuple[str, nn.Module]] | None:
        """Return the names and layers of a chain in their order, without those that do nothing; None if it is no chain.

        Of its layers all must be `known`, one after the other in `nn.Sequential` (or what is derived from it with the
        same forward pass). A forward pass of one's own, a hook, tied, frozen or parameterised weights and mixed
        precision make another network of it.
        """
        if self.forms or self.mixed:
            return None
        layers = [(name, layer) for name, layer in layers_of(self.module) if hooked(layer) or not _does_nothing(layer)]
        leaves = [f"{name}.{leaf}".removeprefix(".") for name, layer in layers for leaf, _ in layer.named_parameters()]
        if any(hooked(layer) or not known(layer) for _, layer in layers) or sorted(leaves) != sorted(self.weights):
            return None
        return layers

    @cached_property
    def kernels(self) -> dict[str, torch.Size]:
        """The shapes of the weights of dense, convolutional and recurrent layers, which can be made of parts."""
        found = {}
        for name, shape in self.weights.items():
            layer = self.module.get_submodule(name.rpartition(".")[0])
            if isinstance(layer, nn.Linear | nn.Conv2d | Unrolled) and len(shape) > 1:
                found[name] = shape
        return found

    @cached_property
    def norm_leaves(self) -> tuple[str, ...]:
        """The leaves of batch norm: scale, shift, running mean and variance."""
        norms = set(norm_layers(self.module))
        return tuple(leaf for leaf in self.shapes if leaf.rpartition(".")[0] in norms)

    def initial(self) -> Params:
        """Return a copy of the template's leaves."""
        tensors = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        return {
            leaf: (self.parts[leaf] if leaf in self.parts else tensors[leaf]).detach().to(self.dtype).clone()
            for leaf in self._in_order()
        }

    def compose(self, params: Params) -> Params:
        """Return the module's weights and statistics, built from one client's leaves; leaves of slots are ignored."""
        weights = {name: params[name] for name in self.shapes if name not in self.parts}
        for name, form in self.forms.items():
            weights[name] = form.compose({p: params[f"{name}.{p}"] for p in self._suffixes[name]})
        return weights

    def inputs(self, x: Tensor) -> Tensor:
        """Convert stored inputs for the network: bytes are pixels, as shares of 255; whole numbers are tokens."""
        if x.dtype == torch.uint8:
            return x.to(self.dtype) / 255
        return x.to(self.dtype) if x.is_floating_point() else x.long()

    def __call__(
        self,
        params: Params,
        x: Tensor,
        valid: Tensor | None = None,
        *,
        train: bool = False,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs (B, outputs) of one client's leaves on its inputs (B, ...).

        With `train`, batch norm uses the batch's own moments, over the rows where `valid` (B,) is true, and moves
        the statistics in `params` in place; and dropout draws by the key `noise`, an int64, or drops nothing without
        one.
        """
        if self.module.training != train:
            self.module.train(train)
        masks = {} if valid is None else dict.fromkeys(self._masks, valid)
        weights = {**self.compose(params), **masks, **({} if noise is None else self.keys(noise))}
        weights |= {name: weights[leaf] for name, leaf in self.tied.items()}
        # torch would tie by name: of a layer with two names it sets the weights twice and restores the first
        if not self.mixed:
            return torch.func.functional_call(self.module, weights, (x,), tie_weights=False)
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            return torch.func.functional_call(self.module, weights, (x,), tie_weights=False).to(self.dtype)

    def features(
        self,
        params: Params,
        x: Tensor,
        valid: Tensor | None = None,
        *,
        train: bool = False,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs of the head (B, f) and the outputs (B, outputs); see `__call__`."""
        seen: list[Tensor] = []
        with self.module.get_submodule(self.head).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
            outputs = self(params, x, valid, train=train, noise=noise)
        return seen[0].to(self.dtype), outputs

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Apply client k's leaves ``params[...][k]`` to its inputs ``x[k]`` in evaluation mode.

        Parameters
        ----------
        params : dict of Tensor, each (K, ...)
            Stacked leaves.
        x : Tensor, shape (K, B, ...)
            Stacked inputs.

        Returns
        -------
        Tensor, shape (K, B, outputs)
        """
        return torch.vmap(self.__call__)(params, x)

    def unit_leaves(self, layer: str) -> list[str]:
        """Return the leaves whose first axis runs over the units of `layer`, incoming weights first.

        A unit is an output neuron, an output channel or a gate row; it owns its incoming weights, its bias and the
        scale, shift and statistics of a batch norm that follows.

        Raises
        ------
        ValueError
            If the network has no such layer, or its weights are parameterised.
        """
        names = self.layers.get(layer, ())
        if not names or not any("weight" in name.rpartition(".")[2] for name in names):
            raise ValueError(f"the network has no layer {layer!r} with units; it has {', '.join(self.layers)}.")
        if any(name in self.parts for name in names):
            raise ValueError(f"layer {layer!r} is parameterised, and its parts are no units; leave it plain.")
        shapes, units = self.shapes, self.shapes[names[0]][0]
        return [name for name in names if shapes[name][0] == units]

    def incoming(self, layer: str) -> list[str]:
        """Return those of `unit_leaves` that hold incoming weights."""
        return [name for name in self.unit_leaves(layer) if len(self.shapes[name]) > 1]

    @property
    def noisy(self) -> bool:
        """Whether layers draw noise in training mode."""
        return bool(self._keys)

    def keys(self, noise: Tensor) -> Params:
        """Return the buffers that give the dropout layers their keys in one forward pass, whose own key is an int64."""
        return keys(self._keys, noise)

    @cached_property
    def _keys(self) -> list[str]:
        """The names of the buffers that hold the keys of the dropout layers that drop."""
        layers = self.module.named_modules()
        return [f"{n}.key".removeprefix(".") for n, layer in layers if isinstance(layer, KeyedDropout) and layer.p]

    @cached_property
    def _masks(self) -> list[str]:
        """The names of the buffers that tell batch norm which rows count."""
        return [f"{name}.valid".removeprefix(".") for name in norm_layers(self.module)]

    @cached_property
    def _suffixes(self) -> dict[str, list[str]]:
        """The names of the parts of each parameterised weight."""
        return {name: [p.rpartition(".")[2] for p in self.parts if p.rpartition(".")[0] == name] for name in self.forms}

    def _leaves_of(self, weight: str) -> list[str]:
        """Return the names of a weight's parts, or its own."""
        return [f"{weight}.{part}" for part in self._suffixes[weight]] if weight in self.forms else [weight]

    def _in_order(self) -> list[str]:
        """Return all leaves in the module's order, each layer's parameters before its statistics."""
        kept, layers = {*self.trainable, *self.statistics}, self.module.named_modules()
        names = (f"{owner}.{last}" for owner, layer in layers for last in (*layer._parameters, *layer._buffers))
        return [leaf for name in names for leaf in self._leaves_of(name.removeprefix(".")) if leaf in kept]


def _does_nothing(layer: nn.Module) -> bool:
    return type(layer) is nn.Identity or (type(layer) is KeyedDropout and layer.p == 0)


def parameterize(network: Network, forms: Mapping[str, Form], rng: np.random.Generator) -> Network:
    """Build weights from parts: each weight named in `forms` is replaced by the parts of its form.

    Parameters
    ----------
    network : Network
        The network; its other weights stay as they are.
    forms : mapping of weight name to Form
        The form of each weight, such as ``{"conv1.weight": Atoms((8, 1, 3, 3), 9)}``.
    rng : numpy Generator
        Source of the parts' initial values.

    Raises
    ------
    ValueError
        If a weight does not exist, is already parameterised, or has another shape than its form.

    Examples
    --------
    A weight becomes the product of two vectors, and a sparse matrix beside it:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> from fedstat.federated import build, parameterize
    >>> from fedstat.parameterization import Rank1Sparse
    >>> network = build(fs.models.mlp(16, 12, 2), np.random.default_rng(0))
    >>> network = parameterize(network, {"hidden.weight": Rank1Sparse((12, 16), 1)}, np.random.default_rng(1))
    >>> {name: tuple(shape) for name, shape in network.shapes.items() if "hidden" in name}
    {'hidden.weight.u': (16, 1), 'hidden.weight.v': (1, 12), 'hidden.weight.mu': (16, 12), 'hidden.bias': (12,)}
    """
    weights, tensors = network.weights, dict(network.module.named_parameters())
    parts = dict(network.parts)
    for name, form in forms.items():
        if name not in weights or name in network.forms:
            raise ValueError(
                f"forms names {name!r}; plain weights are {', '.join(sorted(weights.keys() - network.forms.keys()))}."
            )
        if tuple(weights[name]) != tuple(form.shape):
            raise ValueError(f"the form of {name!r} is for shape {tuple(form.shape)}, it has {tuple(weights[name])}.")
        made = form.parts(tensors[name].detach().cpu().to(network.dtype), rng)
        parts |= {f"{name}.{part}": leaf.to(network.device, network.dtype) for part, leaf in made.items()}
    return replace(network, forms={**network.forms, **forms}, parts=parts)


def bytes_of_one(stacked: Params) -> int:
    """Return the bytes of one client's leaves, of a stack (J, ...)."""
    return sum(leaf[0].nbytes for leaf in stacked.values())


def apart(leaves: Params, others: Params) -> Params:
    """Return leaves of which none lies in the memory of others: copies of those that do."""
    held = {leaf.untyped_storage().data_ptr() for leaf in others.values()}
    return {n: leaf.clone() if leaf.untyped_storage().data_ptr() in held else leaf for n, leaf in leaves.items()}


def floating(dtype: str) -> torch.dtype:
    """Return the floating type of weights and sums of a run whose ``dtype`` has this name."""
    choice("dtype", dtype, DTYPES)
    return DTYPES[dtype]


@contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """Let float32 products within the block be exact but for float32's own rounding, or TF32 on a GPU.

    Torch's defaults leave convolutions on a GPU to TF32, whose factors have 10 bits, and a program may have set
    anything. So every piece of work says which it is, and torch's settings are as they were when it is done.
    """
    before = [(setting, setting.fp32_precision) for setting in (*_OF_GPUS, *_OF_PROCESSORS)]
    try:
        for setting, _ in before:
            setting.fp32_precision = TF32 if tf32 and setting in _OF_GPUS else "ieee"
        yield
    finally:
        for setting, precision in before:
            setting.fp32_precision = precision


def rounds_to_tf32() -> bool:
    """Tell whether a GPU's products round to TF32 here."""
    return _OF_GPUS[0].fp32_precision == TF32


def check_device(device: str) -> None:
    """Refuse, with torch's reason, a device that torch does not find here."""
    try:
        torch.ones(1, device=torch.device(device)).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'device must be one that torch finds here, such as "cpu"; got {device!r}: {reason}') from None


def _check_called_without_arguments(model: Callable[[], nn.Module]) -> None:
    try:
        signature(model).bind()
    except TypeError as error:
        name = getattr(model, "__name__", repr(model))
        raise ValueError(
            f"model is called without arguments, but {name} needs some ({error}); pass a function such as "
            f"lambda: {name}(...)."
        ) from None
    except ValueError:  # some callables do not tell what they take
        pass


def build(
    model: Model, rng: np.random.Generator, dtype: torch.dtype = torch.float32, *, mixed: bool = False
) -> Network:
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
    mixed : bool
        Let layers compute in bfloat16.

    Raises
    ------
    ValueError
        If the module has layers that the stacked engine cannot run, complex or empty weights, or nothing to train.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> from fedstat.federated import build
    >>> network = build(fs.models.mlp(4, 3, 2), np.random.default_rng(0))
    >>> sorted(network.initial())
    ['head.bias', 'head.weight', 'hidden.bias', 'hidden.weight']
    """
    if not callable(model):
        raise ValueError(
            f"model must be an nn.Module or a function returning one, such as fs.models.mlp(3, 5, 2), got "
            f"{repr(model) if isinstance(model, str) else type(model).__name__}."
        )
    if isinstance(model, nn.Module):
        module = copied(model)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(rng.integers(2**62)))
            try:
                module = model()
            except TypeError:
                _check_called_without_arguments(model)
                raise
        if not isinstance(module, nn.Module):
            raise ValueError(f"model must be an nn.Module or a function returning one, got {type(module).__name__}.")
    if not any(leaf.requires_grad for leaf in module.parameters()):
        raise ValueError("model has no parameters to train.")
    for name, weight in (model if isinstance(model, nn.Module) else module).named_parameters():
        if not weight.numel():
            raise ValueError(
                f"{name!r} of the network has shape {tuple(weight.shape)}, which holds no numbers; leave its layer "
                "out, or make a buffer of what only marks a place."
            )
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            raise ValueError(
                f"{name!r} of the network has a hook, which would be lost: each client has weights of its own. "
                "Freeze it with requires_grad_(False), or change gradients in the gradient step of a method."
            )
    module = stackable(module)
    for name, leaf in (*module.named_parameters(), *module.named_buffers()):
        if leaf.is_complex():
            raise ValueError(
                f"{name!r} of the network is complex, and the engine computes with real numbers; let it hold real and "
                "imaginary parts (torch.view_as_real) and make them complex in the forward pass."
            )
    return Network(module.to(dtype), dtype, mixed=mixed)
