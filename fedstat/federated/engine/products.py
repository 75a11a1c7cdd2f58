"""How products of float32 numbers round: as they are, or TF32 where a GPU offers it.

Torch's defaults leave convolutions on a GPU to TF32, whose factors have 10 bits, and a program may have set anything.
Every piece of work of a run therefore says which it is, and torch's settings are as they were when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

#: float32, whose products may round to TF32 on a GPU.
TF32 = "tf32"
_BACKENDS: Any = torch.backends
#: Torch's settings of a GPU's products, and of those of a processor, which round to TF32 or bfloat16 only if told to.
_OF_GPUS: tuple[Any, ...] = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
_OF_PROCESSORS: tuple[Any, ...] = (_BACKENDS.mkldnn.matmul, _BACKENDS.mkldnn.conv, _BACKENDS.mkldnn.rnn)


@contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """Let float32 products within the block be exact but for float32's own rounding, or TF32 on a GPU."""
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
