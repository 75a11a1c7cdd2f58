"""What the functions that offer networks return."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

#: Builds a module with fresh weights, drawn from torch's generator, whenever it is called.
Factory = Callable[[], nn.Module]
