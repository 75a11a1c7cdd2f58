"""Take a method out of the simulation, to clients that are real.

A method's steps are split between two ends that know only what their place knows: a `Server` without data and without
personal leaves, and a `Client` with its own data and nobody else's. What travels between them is what the method's
messages say (`fedstat.federated.codec`), as arrays and numbers. `fedstat.export.flower` carries them by Flower.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
