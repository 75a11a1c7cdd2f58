"""The methods, one file each; `available` finds a method by its file in this folder alone."""

from __future__ import annotations

import importlib
import pkgutil

from fedstat._user_code import load_object
from fedstat.federated.method import Method
from fedstat.methods._cards import Card, Cards, Variant, cards
from fedstat.methods.cut import Count, Quantile


def available() -> Cards:
    """Return the built-in methods by name, each with its card; ``print`` shows them as a table.

    Returns
    -------
    Cards
        A mapping of names to cards, which say what a method is and, of each of its variants, what is personal, what
        travels in a round and is kept between rounds, what it needs, and where it came out among the others. Its
        ``table`` is a DataFrame with a row for each variant, and one for a method that was not measured.

    Examples
    --------
    >>> import fedstat as fs
    >>> found = fs.methods.available()
    >>> "FedNothing" in found, found["FedRep"].source
    (False, 'Collins et al. 2021')
    >>> found.table.loc[["FedAvg", "FedPer"], ["personal", "up", "down"]]
           personal      up    down
    method
    FedAvg  nothing  1.0000  1.0000
    FedPer     head  0.9121  0.9121
    """
    return cards(_found())


def find(name: str) -> type[Method]:
    """Return a method's class by its name or label, or from a file of one's own as ``mine.py:MyMethod``.

    Raises
    ------
    ValueError
        If there is no such method, file or class.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.methods.find("Ditto")(penalty=0.1).penalty
    0.1
    """
    if ":" in name:
        cls = load_object(name)
        if not (isinstance(cls, type) and issubclass(cls, Method)):
            file, _, wanted = name.rpartition(":")
            raise ValueError(f"{file} defines no subclass of fedstat.Method called {wanted!r}.")
        return cls
    found = _found()
    if name not in (known := {cls.label: cls for cls in found.values() if cls.label} | found):
        raise ValueError(
            f'there is no method {name!r}; built in are {", ".join(available())}, one\'s own is "file.py:Name".'
        )
    return known[name]


def _found() -> dict[str, type[Method]]:
    """Return all subclasses of `Method` that the files of this folder define, by name."""
    files = [file.name for file in pkgutil.iter_modules(__path__) if not file.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in files]
    classes = {cls for module in modules for cls in vars(module).values() if isinstance(cls, type)}
    return {cls.__name__: cls for cls in classes if issubclass(cls, Method) and cls.__module__.startswith(__name__)}


def __getattr__(name: str) -> type[Method]:
    if not name.startswith("_") and name in (found := _found()):
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_found(), *__all__]


__all__ = ["Card", "Cards", "Count", "Quantile", "Variant", "available", "find"]
