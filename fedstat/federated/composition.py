"""What goes with what: a method, its server's optimiser, its aggregator, its compression."""

from __future__ import annotations

from fedstat.federated.method import Method
from fedstat.federated.state import State


def check_composition(method: Method, state: State) -> None:
    """Refuse by the method's name an optimiser, aggregator or compression that has nothing to work on.

    Raises
    ------
    ValueError
        It says what the method lacks.
    """
    name, masks = type(method).__name__, state.shared
    if all(leaf in masks and not masks[leaf].any() for leaf in state.server):
        raise ValueError(
            f"{name} shares nothing, so that server, aggregator and compression have no effect; leave them out."
        )
    aggregates = next(cls for cls in type(method).__mro__ if "aggregate" in vars(cls))
    if method.aggregator is not None and not vars(aggregates).get("averages", False):
        raise ValueError(f"{name} aggregates in a way of its own, which has no place for {method.aggregator!r}.")
    if method.aggregator is not None and any(len(mask) > 1 for mask in masks.values()):
        raise ValueError(f"{method.aggregator!r} needs clients that share the same elements, which {name}'s do not.")
