"""What is known of each method, for choosing one: cards, read from the table ``cards.csv`` beside this file.

``python -m simulations.chooser`` writes that table: it measures what a method keeps, sends and needs, and the study
``bench`` says where it came out.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fedstat.federated.method import Method

TABLE = Path(__file__).parent / "cards.csv"
#: The data sets of the bench, which are columns of the table.
CELLS = ("digits", "images", "roles")
#: What the outcomes on these data sets speak of.
SPEAKS_OF = (
    "Where a method came out speaks of other runs: of other clients with other samples like these (digits, images), "
    "and of the same 20 roles; 'not resolved' does not mean equal, and 'still learning' that the method or a control "
    "was not trained enough to be judged."
)
#: What is the client's, in the order of the table: the kinds of methods.
KINDS = ("one model for all", "part of the network", "added part", "whole model", "mixed models")


@dataclass(frozen=True)
class Variant:
    """A method as it stands, or with options that make another one of it.

    Attributes
    ----------
    options : str
        The options as they are written in a call; empty for the defaults.
    kind : str
        What is the client's: "one model for all" (nothing is), "part of the network", "added part" (what a plain
        network lacks), "whole model", or "mixed models" (the server sends every client a mean of its own, or clients
        mix models by weights of their own).
    personal : str
        What the client keeps for itself in a convolutional network with batch norm, in words.
    up, down : float
        What a client sends and receives in a round, mean over ten rounds in which all clients take part, as a multiple
        of what the network holds; FedAvg's are 1. What travels once, before the first round, does not count.
    state : float
        What is kept of a client between rounds, by itself or by the server, as a multiple of what the network holds.
    needs : str
        What must be there or given beside a dense last layer, in words; empty if nothing is.
    came_out : mapping of str to str
        By data set of the study `bench` the side of Local and of FedAvg on which the method's accuracy lies at equal
        budgets: "above both" by an intersection-union test, the others by simultaneous intervals; a data set is missing
        where the variant was not measured.

    Examples
    --------
    >>> import fedstat as fs
    >>> variant = fs.methods.available()["FedPer"].variants[0]
    >>> variant.personal, variant.up < 1
    ('head', True)
    """

    options: str
    kind: str
    personal: str
    up: float
    down: float
    state: float
    needs: str
    came_out: Mapping[str, str]


#: The table's row of a method that nobody has measured.
UNMEASURED = Variant("", "not measured", "not measured", math.nan, math.nan, math.nan, "not measured", {})


@dataclass(frozen=True)
class Card:
    """What is known of a method.

    Attributes
    ----------
    name : str
        The name of its class.
    about : str
        The first line of its docstring.
    source : str
        Whose it is: the first work that its docstring cites; empty if there is none.
    variants : tuple of Variant
        The method as it stands and with options that make another one of it; empty where nothing was measured.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.methods.available()["Ditto"].about
    'A shared model as FedAvg trains it, and a personal one that is pulled to it.'
    """

    name: str
    about: str
    source: str
    variants: tuple[Variant, ...]


class Cards(dict[str, Card]):
    """Methods by name, each with its card; ``print`` shows the table.

    Examples
    --------
    >>> import fedstat as fs
    >>> cards = fs.methods.available()
    >>> cards["FedFOMO"].variants[0].needs
    'validation data (20%)'
    """

    @property
    def table(self) -> pd.DataFrame:
        """The cards as a table, a row for each variant, by call: the attributes of `Variant`, and the source.

        A method that was not measured has a row that says so, and no numbers.
        """
        import pandas as pd

        rows = []
        for card in self.values():
            for variant in card.variants or (UNMEASURED,):
                call = f"{card.name}({variant.options})" if variant.options else card.name
                own = {name: getattr(variant, name) for name in ("kind", "personal", "up", "down", "state", "needs")}
                came_out = {cell: variant.came_out.get(cell) for cell in CELLS}
                rows.append({"method": call, **own, **came_out, "source": card.source})
        return pd.DataFrame(rows).set_index("method")

    def __repr__(self) -> str:
        table, place = self.table, {kind: i for i, kind in enumerate(KINDS)}  # other kinds come last
        shown = table.sort_values("kind", key=lambda kinds: kinds.map(place), kind="stable").drop(columns="kind")
        return f"{shown.fillna('').to_string(float_format=lambda share: f'{share:.2f}')}\n\n{SPEAKS_OF}"


def cards(methods: Mapping[str, type[Method]]) -> Cards:
    """Return the cards of methods, sorted by name."""
    variants, found = read_variants(), Cards()
    for name, cls in sorted(methods.items()):
        words = (cls.__doc__ or "").strip()
        found[name] = Card(name, words.splitlines()[0] if words else "", source(words), variants.get(name, ()))
    return found


def source(words: str) -> str:
    """Return the first work that a docstring cites: authors and year, or "FedDecomp paper" and the like."""
    words = " ".join(words.split())
    cited = re.search(
        r'\((?:[^()";]*; )?([A-Z][^()";]*? \d{4})|\(([\w/ -]+? paper)[,):]|\(([A-Z][^()"]*?), ".*?(\d{4})', words
    )
    return " ".join(filter(None, cited.groups())) if cited else ""


def read_variants() -> dict[str, tuple[Variant, ...]]:
    """Read the variants that were measured, by the method's name."""
    found: dict[str, tuple[Variant, ...]] = {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words: Any = {name: row[name] for name in ("options", "kind", "personal", "needs")}
            numbers: Any = {name: float(row[name]) for name in ("up", "down", "state")}
            came_out = {cell: row[cell] for cell in CELLS if row[cell]}
            found[row["method"]] = (*found.get(row["method"], ()), Variant(**words, **numbers, came_out=came_out))
    return found
