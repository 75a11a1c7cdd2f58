"""fedstat: a statistician's bench for personalised federated learning.

Names are loaded when first used, so that ``import fedstat`` costs nothing.
"""

from difflib import get_close_matches

import lazy_loader

_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _lazy(name)
    except AttributeError:
        if name.startswith("_"):
            raise
    for module in ("methods", "models", "data", "federated", "inference", "factor", "theory", "claims", "report"):
        if name in dir(_lazy(module)):
            raise AttributeError(f"fedstat has no {name!r}; it is fedstat.{module}.{name}.")
    near = get_close_matches(name, {*__all__, *dir(_lazy("methods"))}, n=3)
    found = " or ".join(f"fedstat.{'methods.' * (one not in __all__)}{one}" for one in near)
    raise AttributeError(f"fedstat has no {name!r}{f'; did you mean {found}?' if found else '.'}")


__version__ = "1.0.0"
