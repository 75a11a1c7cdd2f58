"""An accelerator that is none: the device "pretended", by whose rules one writes as for a GPU.

Its tensors lie in ordinary memory, and the processor's kernels compute what is asked of them; but torch takes them for
those of another device (PrivateUse1, which it keeps for backends of one's own), and an operation on tensors of both
devices is refused. What a GPU would have to wait for is counted. A tensor changes sides by a DLPack capsule, in which
the device is written over, so that nothing has to be compiled.

Torch learns of devices at its first backward pass, and for good: `install` belongs at the beginning of a process that
does nothing else.
"""

import ctypes
from collections import Counter
from functools import partial

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretended"
#: How often, since it was cleared, tensors went "to" the device and "from" it, and somebody "waited" for a value.
COUNTS = Counter()
#: Operations whose outcome, or its shape, is needed before the next one can be asked for.
_WAITS = {
    "aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::bincount", "aten::repeat_interleave.Tensor",
}  # fmt: skip
#: DLPack's numbers for processors, and for devices that it does not know.
_PROCESSOR, _OTHER = 1, 12


class _Head(ctypes.Structure):
    """The first fields of a DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("index", ctypes.c_int32)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _on(device, tensor):
    """Return a tensor in the same memory on another device."""
    capsule = torch._C._to_dlpack(tensor)
    head = _Head.from_address(_pointer(capsule, b"dltensor"))
    head.device, head.index = device, 0
    return torch._C._from_dlpack(capsule)


def _there(tensor):
    return tensor.device.type == NAME


def _computed(op, *args, **kwargs):
    """Compute an operation if its tensors are on the device, save single numbers, which CUDA takes from anywhere."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if away := [tensor for tensor in tensors if tensor.dim() and not _there(tensor)]:
        raise RuntimeError(f"{op.name()} of tensors on {NAME} and on {away[0].device}")
    COUNTS["waited"] += op.name() in _WAITS
    lent = dict[int, tuple[Tensor, Tensor]]()

    def lend(tensor):
        # an empty output may have to grow, which borrowed memory cannot
        alias = _on(_PROCESSOR, tensor) if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)
        lent[id(alias)] = alias, tensor
        return alias

    args, kwargs = tree_map_only(Tensor, lambda t: lend(t) if _there(t) else t, (args, kwargs))
    # numbers in the place of tensors have become numbers again on the way
    asked = zip(args, op._schema.arguments, strict=False)
    args = [_number(v) if str(a.type) == "Tensor" and not isinstance(v, Tensor) else v for v, a in asked]
    found = op(*args, **({**kwargs, "device": "cpu"} if "device" in kwargs else kwargs))
    for alias, tensor in lent.values():
        if alias.numel() and not tensor.numel():
            tensor.set_(_on(_OTHER, alias))
    return tree_map_only(Tensor, lambda t: lent[id(t)][1] if id(t) in lent else _on(_OTHER, t), found)


def _number(value):
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _convolution_backward(slopes, x, weight, *settings):
    transposed, groups = settings[3], settings[5]
    bias = [weight.shape[1] * groups if transposed else len(weight)]
    return _computed(torch.ops.aten.convolution_backward.default, slopes, x, weight, bias, *settings)


def _empty(size, *, dtype=None, memory_format=None, **_):
    return _on(_OTHER, torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def _empty_strided(size, stride, *, dtype=None, **_):
    return _on(_OTHER, torch.empty_strided(size, stride, dtype=dtype))


def _copied(source, target, non_blocking=False):
    if _there(source) != _there(target):
        COUNTS["to" if _there(target) else "from"] += 1
    source, written = (_on(_PROCESSOR, t) if _there(t) else t for t in (source, target))
    written.copy_(source)
    return target


def _cloned(storage):
    if storage.device.type != NAME:
        return _clone(storage)
    return torch.empty(0, dtype=torch.uint8, device=NAME).set_(storage).clone().untyped_storage()


_clone = torch.UntypedStorage.clone


def install():
    """Make the device known to torch."""
    _setup_privateuseone_for_python_backend(NAME)
    everything, aten, key = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL"), "PrivateUse1"
    ops, processors = torch.ops.aten, torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    everything.fallback(_computed, key)
    views = (ops.as_strided.default, ops.view.default, ops._reshape_alias.default, ops.unfold.default)
    sets = (ops.set_.source_Tensor, ops.set_.source_Storage, ops.set_.source_Storage_storage_offset)
    for op in (*views, *sets):  # they look at no memory
        aten.impl(op, partial(op.redispatch, processors), key)
    aten.impl(ops.empty.memory_format, _empty, key)
    aten.impl(ops.empty_strided.default, _empty_strided, key)
    aten.impl(ops._copy_from.default, _copied, key)
    aten.impl(ops.convolution_overrideable.default, partial(_computed, ops.convolution.default), key)
    aten.impl(ops.convolution_backward_overrideable.default, _convolution_backward, key)
    torch.UntypedStorage.clone = _cloned  # by which copies of modules copy their buffers
    install.kept = everything, aten  # what they hold ends with them
