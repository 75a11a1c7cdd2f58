"""Statistics of units: principal-axis factoring of their correlations, and agreement over clients."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
