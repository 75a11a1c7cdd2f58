"""The tables of the study on filter decomposition by seed and arm, and intervals that hold together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Comparison, Design, TimeToTarget, compare, to_target
from fedstat.inference.intervals.design import overlap_ratio
from simulations.beside import beside_printed
from simulations.effects import Effect, Effects, Question, once
from simulations.estimates import Estimate, logarithms, means_by, missing, undefined
from simulations.filterdecomp.arms import ESTIMAND, GLOBAL, OURS, OURS_HEAD, PERSONAL, SENDING
from simulations.published import printed
from simulations.trained import untrained

#: Every seed draws 1,200 training images anew from the same ones, and deals them to new clients; 1,017 test images are
#: those of all seeds, so that two have .51 of their images in common. At desk scale.
DESIGN = Design(clients="new", data="resplit", test_to_train=overlap_ratio(1017, 1200, 0.51))
#: CIFAR-10 has ten classes of equal size, as the digits have; per cent.
CHANCE = 10.0
PERSONAL_ACCURACY, LATE_ACCURACY = "personal accuracy", "global accuracy, last ten rounds"
EQUAL_ROUNDS, EQUAL_NUMBERS = "global accuracy at equal rounds", "global accuracy at equal numbers sent"
WHOLE = "all layers"
VARIANCE, ERROR = "log variance of the aggregate", "log mean squared error of the aggregate"
OWN, RELATIVE = "log variance, each on its own way", "log variance over squared size, each on its own way"
PRODUCT, AVERAGE = "product of averages", "average of products"
#: The number of atoms that spans all filters, with which others are compared.
ATOMS = "9"
#: What varies in Figures 3a and 3c.
VARIED = {"Figure 3a": "local epochs", "Figure 3c": "participants"}
Pairs = list[tuple[str, str]]
#: The arm of the paper's Table 1 that it calls "Ours".
PRINTED_AS = {"Ours": OURS}
PRINTED_SEEDS = 3
#: Rounds to a target: this share of FedAvg's own mean accuracy in the last ten rounds, a rule fixed before the runs.
SHARE = 0.9
LAST = 10


def table_cells(tables: Tables) -> list[str]:
    """Return the names of the cells of Table 1."""
    values = tables["values"]
    return list(dict.fromkeys(values.loc[values["shown"] == "Table 1", "cell"]))


def curve_cells(tables: Tables) -> list[str]:
    """Return the names of the cells of Figures 2 and 5."""
    values = tables["values"]
    return list(dict.fromkeys(values.loc[values["shown"].isin(["Figure 2", "Figure 5"]), "cell"]))


def figure_of(tables: Tables, cell: str) -> str:
    """Return the figure that shows a cell's curves."""
    shown = tables["values"].loc[tables["values"]["cell"] == cell, "shown"]
    return "Figure 2" if (shown == "Figure 2").any() else "Figure 5"


def place(tables: Tables) -> str:
    """Return the name of the cell of Figures 3a to 3c and of the fast and slow protocol."""
    return str(tables["spread"]["cell"].iloc[0])


def short(cell: str) -> str:
    """Return what tells our cells apart; a name of the paper's stays whole."""
    images, _, rest = cell.rpartition(", ")
    return rest if images in ("9,085 images of CIFAR-10", "digits") else cell


def by_seed(tables: Tables, shown: str, cell: str, metric: str = "accuracy", column: str = "arm") -> pd.DataFrame:
    """Return one row per seed and one column per arm (or per value of another column); shares in per cent.

    Tables 1 and 2 speak of each client's own model on test images of its classes, figures of the global model on the
    common test set.
    """
    rows = tables["values"]
    rows = rows[(rows["shown"] == shown) & (rows["cell"] == cell) & (rows["metric"] == metric)]
    if shown.startswith("Table"):
        rows = rows[(rows["estimand"] == rows["arm"].map(ESTIMAND)) & (rows["split"] == "test")]
    else:
        rows = rows[(rows["estimand"] == "global") & (rows["split"] == "common")]
    return rows.pivot(index="seed", columns=column, values="value") * (1 if metric == "log_loss" else 100)


def atoms_by_seed(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the personal accuracy by number of atoms, in per cent, over the seeds that all numbers have."""
    first, second = by_seed(tables, "Table 1", cell), by_seed(tables, "Table 2", cell, column="atoms")
    both = second.assign(**{"9": first[OURS]})
    both.columns = [int(name) for name in both.columns]
    return both.sort_index(axis=1).dropna()


def figure_3(tables: Tables, shown: str, arm: str) -> pd.DataFrame:
    """Return an arm's global accuracy in Figure 3a by local epochs, in Figure 3c by participants, in per cent."""
    some = tables["values"]
    some = some[some["arm"] == arm]
    column = {"Figure 3a": "epochs", "Figure 3c": "participants"}[shown]
    return by_seed({**tables, "values": some}, shown, place(tables), column=column).dropna(axis=1)


def both_at(tables: Tables, shown: str) -> dict[str, pd.DataFrame]:
    """Return the accuracy of FedAvg and FilterDecomp in Figure 3a or 3c by what varies, as far as both ran."""
    ours, theirs = (figure_3(tables, shown, arm) for arm in ("FilterDecomp", "FedAvg"))
    return {
        f"{x} {VARIED[shown].removesuffix('s' * (x == 1))}": pd.DataFrame(
            {"FilterDecomp": ours[x], "FedAvg": theirs[x]}
        ).dropna()
        for x in theirs
        if x in ours
    }


def turn(tables: Tables, shown: str) -> tuple[str, str] | None:
    """Return the largest number of Figure 3a and the one before, or of 3c and the least; None with fewer than two."""
    at = list(both_at(tables, shown))
    return (at[-1], at[-2 if shown == "Figure 3a" else 0]) if len(at) > 1 else None


@once
def effects(tables: Tables) -> Effects:
    """Return the differences of personal and global accuracy, and those of logarithms of variances."""
    questions = (question for question in _questions(tables) if any(question.pairs.values()))
    varied = {number: table for shown in VARIED for number, table in both_at(tables, shown).items()}
    return Effects(
        questions,
        {short(cell): not_trained(tables, cell) for cell in (*table_cells(tables), *curve_cells(tables))}
        | {number: untrained(table, table, of_all=GLOBAL, chance=CHANCE) for number, table in varied.items()},
    )


def not_trained(tables: Tables, cell: str) -> dict[str, str]:
    """Return why arms of a cell, with their own models or with the global one, are not trained enough to be judged."""
    found: dict[str, str] = {}
    if cell in table_cells(tables):
        own = (by_seed(tables, "Table 1", cell, metric) for metric in ("accuracy", "majority_share"))
        found |= untrained(*own)
    if cell in curve_cells(tables):
        of_all = by_seed(tables, figure_of(tables, cell), cell)
        of_all = of_all[[arm for arm in GLOBAL if arm in of_all]]
        found |= untrained(of_all, of_all, of_all=GLOBAL, chance=CHANCE)
    return found


def _questions(tables: Tables) -> Iterator[Question]:
    def points(words: str, metric: str, values: Mapping[str, pd.DataFrame], pairs: Mapping[str, Pairs]) -> Question:
        return Question(words, metric, values, pairs, DESIGN, "points")

    first = {short(cell): by_seed(tables, "Table 1", cell) for cell in table_cells(tables)}
    others = [arm for arm in PERSONAL if arm not in (OURS, OURS_HEAD)]
    personal: Pairs = [*product((OURS, OURS_HEAD), others), (OURS_HEAD, OURS)]
    yield points("personal filters against the other methods", PERSONAL_ACCURACY, first, _at_all(first, personal))
    second = {short(cell): _by_atoms(tables, cell) for cell in table_cells(tables)}
    fewer = {cell: [(m, ATOMS) for m in table if m != ATOMS and ATOMS in table] for cell, table in second.items()}
    yield points("numbers of atoms against nine", PERSONAL_ACCURACY, second, fewer)
    for words, table, values, known in (
        ("the order of the methods", "table_1", first, _at_all(first, personal)),
        ("the order of the numbers of atoms", "table_2", second, fewer),
    ):
        for cell in table_cells(tables):
            where = short(cell)
            names = [name for name in of_paper(table, cell).index if name in values[where]]
            rest = [pair for pair in combinations(names, 2) if not {pair, pair[::-1]} & set(known[where])]
            yield points(f"{words}, {where}", PERSONAL_ACCURACY, {where: values[where]}, {where: rest})
    curves = {
        short(cell): by_seed(tables, figure_of(tables, cell), cell).reindex(columns=list(GLOBAL))
        for cell in curve_cells(tables)
    }
    against = [("FilterDecomp", other) for other in GLOBAL if other != "FilterDecomp"]
    yield points("FilterDecomp’s global model against the others", LATE_ACCURACY, curves, _at_all(curves, against))
    for shown, name in VARIED.items():
        at = both_at(tables, shown)
        yield points(f"FilterDecomp against FedAvg by {name}", shown, at, _at_all(at, [("FilterDecomp", "FedAvg")]))
        if pair := turn(tables, shown):
            by_arm = {
                arm: pd.DataFrame({number: table[arm] for number, table in at.items()})
                for arm in ("FedAvg", "FilterDecomp")
            }
            yield points(f"more {name}", shown, by_arm, _at_all(by_arm, [pair]))
    for metric, values in variances(tables).items():
        pair = (PRODUCT, AVERAGE) if metric in (VARIANCE, ERROR) else ("FilterDecomp", "FedAvg")
        whole = {where: table for where, table in values.items() if where.endswith(WHOLE)}
        for words, some in ((metric, whole), (f"{metric}, layer by layer", values)):
            here = {where: table for where, table in some.items() if some is whole or where not in whole}
            yield Question(words, metric, here, _at_all(here, [pair]), DESIGN)
    rows = sending(tables)
    late, equal = {"": late_accuracy(rows)}, {"": at_equal_numbers(rows)}
    fast = [(arm, "FedAvg") for arm in SENDING if arm in late[""]]
    yield points("fewer numbers sent, at equal rounds", EQUAL_ROUNDS, late, {"": fast})
    yield points("at equal numbers sent", EQUAL_NUMBERS, equal, {"": [("FilterDecomp", "FedAvg"), *fast]})


def at_equal_rounds(found: Effects, tables: Tables, arm: str) -> Effect:
    """Return the difference of an arm to FedAvg at equal rounds; that of FilterDecomp is one of Figures 2 and 5."""
    ours = arm == "FilterDecomp"
    return found[LATE_ACCURACY if ours else EQUAL_ROUNDS, short(place(tables)) if ours else "", arm, "FedAvg"]


def _at_all(settings: Iterable[str], pairs: Pairs) -> dict[str, Pairs]:
    return {setting: pairs for setting in settings}


def _by_atoms(tables: Tables, cell: str) -> pd.DataFrame:
    return atoms_by_seed(tables, cell).rename(columns=str)


def curves(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the global model's curves in a cell of Figures 2 and 5, as `fedstat.inference` takes them."""
    rows = tables["curves"]
    rows = rows[(rows["cell"] == cell) & rows["shown"].isin(["Figure 2", "Figure 5"]) & rows["arm"].isin(GLOBAL)]
    return rows.rename(columns={"arm": "method"}).assign(value=100 * rows["accuracy"])


def compared(tables: Tables, cell: str) -> Comparison:
    """Return the comparison from which bands over rounds are drawn."""
    tidy = curves(tables, cell)[["method", "seed", "round", "value"]]
    tidy = tidy.assign(value=tidy["value"] / 100, client=0, metric="accuracy", estimand="global", split="test")
    return compare(tidy, control="FedAvg", last=LAST, design=DESIGN)


def rounds_to_target(tables: Tables, cell: str) -> TimeToTarget | None:
    """Return the rounds after which the global models reach `SHARE` of FedAvg's mean accuracy in the last ten.

    None where that accuracy is not known.
    """
    table = curves(tables, cell)
    late = table[(table["method"] == "FedAvg") & (table["round"] > table["round"].max() - LAST)]
    if why := missing(late["value"].rename("FedAvg's late accuracy")):
        undefined(why)
        return None
    return to_target(table, SHARE * float(late["value"].mean()), control="FedAvg")


# --- variance of the aggregate ------------------------------------------------------------------------------------


def geometric(effect: Effect) -> Estimate:
    """Return a ratio and its limits: a difference of logarithms, taken back."""
    if effect.why:
        return undefined(effect.why, math.exp(effect.mean))
    return math.exp(effect.mean), math.exp(effect.low), math.exp(effect.high)


def moments(tables: Tables, clients: int, arm: str, layer: str | None = None) -> pd.DataFrame:
    """Return the moments of an arm's aggregates of so many clients by seed and round; of all layers, or of one."""
    rows = tables["spread"]
    rows = rows[(rows["arm"] == arm) & (rows["clients"] == clients) & ((rows["layer"] == layer) | (layer is None))]
    return rows.groupby(["seed", "round"])[["plain", "decomposed", "bias", "energy"]].sum(skipna=False)


def variances(tables: Tables) -> dict[str, dict[str, pd.DataFrame]]:
    """Return logarithms of variances, means over rounds by seed: by metric, then by participants and layer.

    `VARIANCE` and `ERROR` (mean squared error) are those of both aggregates of FilterDecomp's clients; `OWN` compares
    the two methods on their own trajectories, all layers, `RELATIVE` after division by the squared norm of their mean
    filters.
    """
    clients = [int(m) for m in dict.fromkeys(tables["spread"]["clients"])]
    layers: list[str | None] = [*sorted(tables["spread"]["layer"].unique()), None]
    found: dict[str, dict[str, pd.DataFrame]] = {metric: {} for metric in (VARIANCE, ERROR, OWN, RELATIVE)}
    for m, layer in product(clients, layers):
        ours = moments(tables, m, "FilterDecomp", layer)
        for metric, above in ((VARIANCE, ours["decomposed"]), (ERROR, ours["decomposed"] + ours["bias"])):
            found[metric][at_layer(m, layer)] = _mean_logs({PRODUCT: above, AVERAGE: ours["plain"]})
        if layer is None:
            theirs = moments(tables, m, "FedAvg")
            own = {"FilterDecomp": ours["decomposed"], "FedAvg": theirs["plain"]}
            found[OWN][at_layer(m, None)] = _mean_logs(own)
            found[RELATIVE][at_layer(m, None)] = _mean_logs(
                {arm: own[arm] / of["energy"] for arm, of in zip(own, (ours, theirs), strict=True)}
            )
    return found


def at_layer(clients: int, layer: str | None) -> str:
    """Name the number of participants and the layer, or all layers."""
    return f"{clients} participants, {layer or WHOLE}"


def _mean_logs(columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Average logarithms over rounds, by seed; NaN where a value is not positive."""
    return logarithms(pd.DataFrame(columns)).groupby("seed").mean(skipna=False)


# --- what travels -------------------------------------------------------------------------------------------------


def sending(tables: Tables) -> pd.DataFrame:
    """Return the curves of the fast and slow protocol with FedAvg's, FedProx's and FilterDecomp's of the same cell."""
    rows = tables["curves"]
    rows = rows[(rows["cell"] == place(tables)) & (rows["shown"].isin(["A.2", "Figure 2", "Figure 5"]))]
    rows = rows[rows["arm"].isin(["FedAvg", "FilterDecomp", *SENDING])]
    seeds = set.intersection(*(set(some["seed"]) for _, some in rows.groupby("arm")))
    return rows[rows["seed"].isin(seeds)]


def late_accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over the last ten rounds by seed and arm, in per cent."""
    late = rows[rows["round"] > rows["round"].max() - LAST]
    return 100 * means_by(late, "arm", "accuracy")


def at_equal_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy by seed and arm at the last measured round by which no more numbers had travelled than the
    thriftiest arm's in all, in per cent; 0 rounds count as the accuracy of the first measured one.
    """  # fmt: skip
    budget = rows.groupby(["seed", "arm"])["numbers"].max().groupby("seed").min()
    within = rows[rows["numbers"] <= rows["seed"].map(budget) * (1 + 1e-9)]
    # the first measured round stands before those within the budget, for arms that have none there
    first = rows[rows["round"] == rows.groupby(["seed", "arm"])["round"].transform("min")]
    both = pd.concat([first, within]).sort_values("round", kind="stable")
    return 100 * both.groupby(["seed", "arm"]).tail(1).pivot(index="seed", columns="arm", values="accuracy")


# --- the paper ----------------------------------------------------------------------------------------------------


def of_paper(table: str, cell: str) -> pd.DataFrame:
    """Return a printed column in per cent, by arm or number of atoms; empty for a cell that is not printed."""
    rows = [row for row in printed("filter_decomposition", table) if row["setting"] == printed_name(cell)]
    by = "method" if table == "table_1" else "atoms"
    names = [PRINTED_AS.get(row[by], row[by]) for row in rows]
    return pd.DataFrame({"value": [float(row["accuracy"]) for row in rows], "seeds": PRINTED_SEEDS}, index=names)


def printed_name(cell: str) -> str:
    """Return the name of the paper's cell that has as many classes a client."""
    return {"2 classes a client": "CIFAR10 (100,2)", "5 classes a client": "CIFAR10 (100,5)"}.get(short(cell), cell)


def agreement(tables: Tables, found: Effects, cell: str, arms: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return Table 1's column beside ours, for some arms or all; None for a cell that is not printed."""
    theirs, ours = of_paper("table_1", cell), by_seed(tables, "Table 1", cell).dropna()
    if theirs.empty:
        return None
    known = [arm for arm in theirs.index if arm in ours and (not arms or arm in arms)]
    return beside_printed(
        theirs.loc[known], ours, control="FedAvg + FT",
        difference=lambda a, b: found[PERSONAL_ACCURACY, short(cell), a, b],
    )  # fmt: skip


def atoms_agreement(tables: Tables, found: Effects, cell: str) -> dict[str, Any] | None:
    """Return Table 2's column beside ours; None for a cell that is not printed."""
    ours, theirs = _by_atoms(tables, cell), of_paper("table_2", cell)
    known = [name for name in theirs.index if name in ours]
    if len(known) < 2:
        return None
    return beside_printed(
        theirs.loc[known], ours, control=ATOMS, difference=lambda a, b: found[PERSONAL_ACCURACY, short(cell), a, b]
    )
