"""The study's table of runs by seed and arm, in points of accuracy."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from fedstat._tables import Tables
from simulations.burdens.loads import NONE, Burden

#: The method with nothing of its own at a client, with which the others are compared.
SHARED = "FedAvg"
#: One model for all clients.
OF_ALL = ("FedAvg", "FedNova")
CHANCE = 10.0


def settings_of(tables: Tables) -> list[str]:
    """Return the settings by name."""
    return list(dict.fromkeys(tables["runs"]["setting"]))


def methods_of(tables: Tables, setting: str) -> list[str]:
    """Return the methods that bear all burdens."""
    runs = tables["runs"]
    counts = runs[runs["setting"] == setting].groupby("method", sort=False)["burden"].nunique()
    return [str(name) for name in counts.index[counts == counts.max()]]


def burdens_of(tables: Tables, setting: str, kind: str = "") -> list[Burden]:
    """Return the burdens of a setting, or those of one kind."""
    runs = tables["runs"]
    rows = runs[(runs["setting"] == setting) & (runs["kind"] != "none")]
    found = rows[["kind", "way", "dose", "rule"]].drop_duplicates().itertuples(index=False)
    return [Burden(*row) for row in found if kind in ("", row.kind)]


def has(tables: Tables, setting: str, method: str, burden: Burden) -> bool:
    """Say whether a method bore a burden."""
    return not rows_of(tables, setting, method, burden).empty


def rows_of(tables: Tables, setting: str, method: str, burden: Burden = NONE) -> pd.DataFrame:
    """Return the runs of an arm by seed."""
    runs = tables["runs"]
    own = (runs["setting"] == setting) & (runs["method"] == method) & (runs["burden"] == burden.label)
    return runs[own].set_index("seed").sort_index()


def named(method: str, burden: Burden = NONE) -> str:
    """Name an arm as a column."""
    return f"{method}, {burden.label}"


def without(method: str, burden: Burden) -> str:
    """Name a method without a burden, at the clients that are honest under it."""
    return f"{named(method)} (clients of {burden.label})"


def alone(burden: Burden) -> str:
    """Name Local at the clients that are honest under a burden."""
    return f"Local (clients of {burden.label})"


def cost(method: str, burden: Burden) -> str:
    """Name a method's cost of a burden."""
    return f"cost of {named(method, burden)}"


def bearers(tables: Tables, setting: str) -> Iterator[tuple[str, Burden]]:
    """Yield each method with each burden that it bore."""
    runs, methods = tables["runs"], (*methods_of(tables, setting), "FedNova")
    borne = set(runs.loc[runs["setting"] == setting, ["method", "burden"]].itertuples(index=False, name=None))
    for burden in burdens_of(tables, setting):
        yield from ((method, burden) for method in methods if (method, burden.label) in borne)


def points(tables: Tables, setting: str) -> pd.DataFrame:
    """Return accuracies and costs by seed, in points: costs are with the burden - without, negative where it hurts."""
    found = {}
    for method in (*methods_of(tables, setting), "FedNova", "Local"):
        if has(tables, setting, method, NONE):
            found[named(method)] = rows_of(tables, setting, method)["accuracy"]
    for method, burden in bearers(tables, setting):
        rows = rows_of(tables, setting, method, burden)
        found |= {
            named(method, burden): rows["accuracy"],
            without(method, burden): rows["without"],
            alone(burden): rows["local"],
            cost(method, burden): rows["accuracy"] - rows["without"],
        }
    return 100 * pd.DataFrame(found)
