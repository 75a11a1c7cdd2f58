"""fedstat: a statistician's bench for personalised federated learning.

Names are loaded when first used, so that ``import fedstat`` costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "1.0.0"
