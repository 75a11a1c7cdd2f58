"""The laws that methods obey, and optimisers, losses, metrics, schedules, executors and more: built in or anybody's."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
