"""The questions of the bench: each arm against its controls, readings of one method, and longer training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.comparing.learning import STILL_LEARNING
from simulations.bench.compared import budgets, by_seed, cells, costs, own_controls
from simulations.bench.outcomes import CONTROLS, outcome
from simulations.effects import LEVEL, Effect, Effects, Question, above_all, once
from simulations.trained import untrained

#: The largest difference in accuracy that counts as none, points; fixed before any run.
MARGIN = 1.0
ALPHA = 1 - LEVEL
#: Digits and images have ten classes, of equal size; per cent.
CHANCE = 10.0
#: Readings of one method, two and two.
READINGS = (
    ("FedFac dynamic", "FedFac code"),
    ("Factorized-FL alpha, text", "Factorized-FL alpha, code"),
    ("Factorized-FL beta, text", "Factorized-FL beta, code"),
    ("FedDecomp text", "FedDecomp code"),
    ("FilterDecomp personal", "FilterDecomp personal, own head"),
    ("FilterDecomp fast/slow", "FilterDecomp fast/slow, alpha"),
)
AGAINST, LONGER = "each arm against {} of its budget", "the next budget of epochs"


@once
def effects(tables: Tables) -> Effects:
    """Return all differences in accuracy, in points; the data sets are the settings."""
    every = cells(tables)
    questions = (question for cell in every for question in _questions(tables, cell))
    return Effects(questions, {cell: not_trained(tables, cell) for cell in every})


def not_trained(tables: Tables, cell: str) -> dict[str, str]:
    """Return why arms of a data set are not trained enough to be judged.

    Roles speak one language, so that the most frequent character is known to a model for all of them, too.
    """
    own = tables["accuracy"][(tables["accuracy"]["cell"] == cell) & tables["accuracy"]["own"]]
    of_all = () if cell == "roles" else set(own.loc[own["estimand"].isin(["global", "cluster"]), "arm"])
    accuracy, share, gain = (100 * by_seed(tables, cell, of) for of in ("accuracy", "majority_share", "gain"))
    return untrained(accuracy, share, of_all=of_all, chance=CHANCE, gain=gain)


def _questions(tables: Tables, cell: str) -> Iterator[Question]:
    """Yield the questions of a data set: a pair is asked about by the first that names it."""
    wide, asked = by_seed(tables, cell), set[frozenset[str]]()
    pairs: dict[str, Sequence[tuple[str, str]]] = {
        AGAINST.format(kind): _against(tables, cell, kind) for kind in CONTROLS
    }
    pairs |= {"readings of one method": READINGS, LONGER: _longer(tables, cell)}
    for words, some in pairs.items():
        own = [(a, b) for a, b in some if {a, b} <= set(wide) and frozenset((a, b)) not in asked]
        asked |= {frozenset(pair) for pair in own}
        if own:
            yield Question(words, "accuracy", {cell: 100 * wide}, {cell: own}, _design(tables, cell), "points")


def _against(tables: Tables, cell: str, kind: str) -> list[tuple[str, str]]:
    of = costs(tables, cell)[f"control_{kind.lower()}"]
    return [(str(arm), str(control)) for arm, control in of.items() if arm != control]


def _longer(tables: Tables, cell: str) -> list[tuple[str, str]]:
    """Return the controls of the second budget, each with that of the first."""
    first, second = ([own_controls(tables, cell, name) for name, _ in budgets(tables, cell)] + [{}, {}])[:2]
    return [(second[kind], first[kind]) for kind in CONTROLS if kind in first and kind in second]


def _design(tables: Tables, cell: str) -> Design:
    """Say how seeds, clients and data belong together; roles are the same clients under every seed."""
    ratio = float(costs(tables, cell)["test_to_train"].iloc[0])
    clients: Literal["same", "new"] = "same" if cell == "roles" else "new"
    return Design(clients, "resplit", test_to_train=ratio) if ratio else Design(clients, "drawn")


def against(tables: Tables, found: Effects, cell: str) -> dict[tuple[str, str], Effect]:
    """Return each arm's difference to the controls of its own budget, by arm and kind of control."""
    return {
        (arm, kind): found["accuracy", cell, arm, control]
        for kind in CONTROLS
        for arm, control in _against(tables, cell, kind)
        if ("accuracy", cell, arm, control) in found
    }


def outcomes(tables: Tables, found: Effects) -> pd.DataFrame:
    """Return for each data set and arm where it came out.

    "Above both" and "below both" are asked of all methods of a data set together by an intersection-union test; above
    or below one control is read off the interval of that pair. An arm that is not trained enough, or whose control is
    not, is "still learning". An arm without a difference is left out.

    Returns
    -------
    DataFrame
        Columns ``cell``, ``arm`` and ``outcome``.
    """
    rows = []
    for cell in cells(tables):
        of = dict[str, dict[str, Effect]]()
        for (arm, kind), effect in against(tables, found, cell).items():
            of.setdefault(arm, {})[kind] = effect
        methods = {arm: list(each.values()) for arm, each in of.items() if len(each) == len(CONTROLS)}
        up = above_all(methods)
        down = above_all({arm: [effect.turned() for effect in some] for arm, some in methods.items()})
        for arm, each in of.items():
            sign = int(up.get(arm, 1.0) < ALPHA) - int(down.get(arm, 1.0) < ALPHA)
            signs = {k: sign or int(e.low > 0) - int(e.high < 0) for k, e in each.items()}
            rows.append((cell, arm, STILL_LEARNING if any(e.unjudged for e in each.values()) else outcome(signs)))
    return pd.DataFrame(rows, columns=["cell", "arm", "outcome"])
