"""What goes with what: a method, its server's optimiser, its aggregator or mechanism, its compression."""

from __future__ import annotations

from fedstat.federated.method import Method
from fedstat.federated.route import overrides
from fedstat.federated.slots import is_statistic
from fedstat.federated.state import State


def check_composition(method: Method, state: State) -> None:
    """Refuse by its name a method that has no place for its optimiser, aggregator, compression or mechanism."""
    name, masks, rule = type(method).__name__, state.shared, method.mechanism or method.aggregator
    if all(leaf in masks and not masks[leaf].any() for leaf in state.server):
        raise ValueError(
            f"{name} keeps no weights at the server, on which server, aggregator, compression and mechanism work; "
            "leave them out."
        )
    aggregates = next(cls for cls in type(method).__mro__ if "aggregate" in vars(cls))
    if rule is not None and not vars(aggregates).get("averages", False):
        raise ValueError(f"{name} aggregates in a way of its own, which has no place for {rule!r}.")
    if rule is not None and any(len(mask) > 1 for mask in masks.values()):
        raise ValueError(f"{rule!r} needs clients that share the same elements, which {name}'s do not.")
    if method.compression is not None and method.exact_uploads:
        raise ValueError(
            f"{name} has no place for {method.compression!r}: its server keeps the sum of what clients remember, from "
            "which it would drift away if it heard something else than they have."
        )
    if (mechanism := method.mechanism) is None:
        return
    if own := [step for step in ("upload", "prelude") if overrides(method, step)]:
        raise ValueError(f"{name} has messages of its own ({own[0]}), which {mechanism!r} does not make private.")
    if running := [n for n in state.server if is_statistic(n) and (n not in masks or masks[n].any())]:
        raise ValueError(
            f"{name} shares running statistics of batch norm ({running[0]}), which {mechanism!r} does not make "
            "private. Keep them with the clients, as FedBN does, or take a network without."
        )
