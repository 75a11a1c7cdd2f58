"""What the bench's tables say: who is ranked, how data sets agree, who is not dominated, how optimistic tuning was."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Ranks, ranks
from simulations.bench.outcomes import CONTROLS
from simulations.estimates import Estimate, mean_of

#: The data sets in the order of the chapter, and how sentences name them.
CELLS = {"digits": "digits", "images": "images of CIFAR-10", "roles": "roles of Shakespeare"}
LEVEL = 0.95


# --- who is there ----------------------------------------------------------------------------------------------


def cells(tables: Tables) -> list[str]:
    """Return the data sets in which an arm has all its seeds, in the order of the chapter."""
    return [cell for cell in CELLS if len(by_seed(tables, cell).columns)]


def by_seed(tables: Tables, cell: str, metric: str = "accuracy") -> pd.DataFrame:
    """Return what arms' own models reached in a data set: seeds by arms; an arm that lacks a seed is left out."""
    rows = tables["accuracy"]
    rows = rows[(rows["cell"] == cell) & rows["own"] & (rows["metric"] == metric)]
    wide = rows.pivot(index="seed", columns="arm", values="value")[list(dict.fromkeys(rows["arm"]))]
    return wide.dropna(axis="columns")


def costs(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the costs of a data set's arms, by arm."""
    rows = tables["costs"]
    return rows[rows["cell"] == cell].set_index("arm")


def controls(tables: Tables) -> set[str]:
    """Return the arms that are Local or FedAvg of some budget: those that are their own control."""
    rows = tables["costs"]
    return {
        str(arm) for kind in ("control_local", "control_fedavg") for arm in rows.loc[rows["arm"] == rows[kind], "arm"]
    }


def own_controls(tables: Tables, cell: str, budget: str) -> dict[str, str]:
    """Return the arms that are Local and FedAvg of a budget, by kind, as far as they did not diverge."""
    table, there = costs(tables, cell), set(by_seed(tables, cell))
    table = table[table["budget"] == budget]
    found: dict[str, str] = {}
    for kind in CONTROLS:
        own = [str(arm) for arm in table.index[table.index == table[f"control_{kind.lower()}"]] if arm in there]
        found |= {kind: own[0]} if own else {}
    return found


def budgets(tables: Tables, cell: str) -> list[tuple[str, list[str]]]:
    """Return the groups of equal epochs of a data set, cheapest first, each with its arms, most accurate first."""
    table, means = costs(tables, cell), by_seed(tables, cell).mean()
    table = table.loc[[arm for arm in table.index if arm in means]]
    order = table.groupby("budget")["times"].min().sort_values(kind="stable").index
    return [
        (str(name), list(means[table.index[table["budget"] == name]].sort_values(ascending=False, kind="stable").index))
        for name in order
    ]


def epochs_of(tables: Tables, cell: str, budget: str) -> int:
    """Return how many times E epochs the arms of a budget train in a round; what is trained once does not count."""
    table = costs(tables, cell)
    return int(table.loc[table["budget"] == budget, "times"].min() + 1e-9)


def every_arm(tables: Tables) -> list[str]:
    """Return all arms of any table, in the order of first appearance."""
    return list(dict.fromkeys(arm for name in ("costs", "accuracy", "tuning") for arm in tables[name]["arm"]))


def absent(tables: Tables) -> list[tuple[str, str, str]]:
    """Return arm, data set and reason where an arm has no complete row of seeds."""
    found = []
    for cell in (cell for cell in CELLS if cell in set(tables["accuracy"]["cell"])):
        there = set(by_seed(tables, cell))
        tried = set(tables["tuning"].loc[tables["tuning"]["cell"] == cell, "arm"])
        rows = tables["accuracy"][tables["accuracy"]["cell"] == cell]
        measured = set(rows.loc[rows["value"].notna(), "arm"])
        for arm in every_arm(tables):
            if arm not in there:
                why = "lacks seeds" if arm in measured else "diverged" if arm in tried else "not run"
                found.append((arm, cell, why))
    return found


# --- ranks -----------------------------------------------------------------------------------------------------


def ranked_arms(tables: Tables) -> list[str]:
    """Return the arms that can be ranked: there in all data sets, at the smallest budget of epochs in each."""
    lists = [set(budgets(tables, cell)[0][1]) for cell in cells(tables)]
    return [arm for arm in every_arm(tables) if lists and all(arm in own for own in lists)]


def blocks(tables: Tables) -> pd.DataFrame:
    """Return accuracies by block (data set and seed) and ranked arm, with as many seeds of every data set as of all."""
    arms = ranked_arms(tables)
    wide = {cell: by_seed(tables, cell)[arms] for cell in cells(tables)}
    seeds = min(len(table) for table in wide.values())
    parts = [table.iloc[:seeds].rename(index=str).add_prefix(f"{cell}, ", axis=0) for cell, table in wide.items()]
    return pd.concat(parts)


def over_seeds(tables: Tables) -> Ranks | None:
    """Rank arms with a data set under one seed as the block: it speaks of new seeds on these data sets.

    None where there are less than three arms, or one block.
    """
    if len(ranked_arms(tables)) < 3:
        return None
    table = blocks(tables)
    return ranks(table, level=LEVEL) if len(table) > 1 else None


def over_cells(tables: Tables) -> Ranks | None:
    """Rank arms with a data set as the block: it speaks of new data sets. None for one data set, or two arms."""
    arms = ranked_arms(tables)
    means = pd.DataFrame({cell: by_seed(tables, cell)[arms].mean() for cell in cells(tables)}).T
    return ranks(means, level=LEVEL) if means.shape[0] > 1 and means.shape[1] > 2 else None


def concordance(found: Ranks) -> float:
    """Return Kendall's W of the blocks that were ranked: 1 if all rank alike, about 1 over their number by chance."""
    return found.friedman / (found.settings * (len(found.methods) - 1))


def told_apart(found: Ranks) -> tuple[int, int]:
    """Return how many pairs of arms the groups tell apart, and of how many."""
    together = {pair for group in found.groups for pair in combinations(sorted(group), 2)}
    every = len(found.methods) * (len(found.methods) - 1) // 2
    return every - len(together), every


def correlations(tables: Tables) -> list[tuple[str, str, float]]:
    """Return Spearman's correlation of the ranked arms' accuracies: of two data sets, and of two halves of the seeds.

    The second, of a data set with itself, says how much the first could be if data sets did not differ: seeds in
    order, those of even and of odd place. NaN where all arms have one accuracy.
    """
    from scipy import stats

    arms = ranked_arms(tables)
    wide = {cell: by_seed(tables, cell)[arms] for cell in cells(tables)}
    pairs = [(a, b, wide[a].mean(), wide[b].mean()) for a, b in combinations(wide, 2)]
    halves = [(c, c, t.iloc[::2].mean(), t.iloc[1::2].mean()) for c, t in wide.items() if len(t) > 1]
    return [
        (a, b, float(stats.spearmanr(x, y).statistic) if min(x.nunique(), y.nunique()) > 1 else math.nan)
        for a, b, x, y in (*pairs, *halves)
        if len(arms) > 2
    ]


# --- bytes -----------------------------------------------------------------------------------------------------


def sent(tables: Tables, cell: str) -> pd.Series:
    """Return what a client sent and received over a whole run, megabytes by arm."""
    table = costs(tables, cell)
    return ((table["up"] + table["down"]) * table["rounds"] / 1e6).loc[list(by_seed(tables, cell))]


def front(spent: np.ndarray, gained: np.ndarray) -> np.ndarray:
    """Tell which alternatives no other dominates, spending no more and gaining no less, and one of them strictly.

    Parameters
    ----------
    spent, gained : ndarray, shape (n,)
        What each costs, and what it brings.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    no_worse = (spent[:, None] <= spent) & (gained[:, None] >= gained)  # row beats column
    strictly = (spent[:, None] < spent) | (gained[:, None] > gained)
    return np.asarray(~(no_worse & strictly).any(axis=0))


def undominated(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the arms of the smallest budget of epochs that none of these dominates by bytes and mean accuracy.

    Columns: ``spent`` (megabytes of a client over the run), ``seeds`` (share of the seeds under which the arm is
    undominated); cheapest first.
    """
    table = by_seed(tables, cell)[budgets(tables, cell)[0][1]]
    spent = sent(tables, cell)[list(table)]
    alone = np.array([front(spent.to_numpy(), values) for values in table.to_numpy()])
    every = pd.DataFrame({"spent": spent, "seeds": alone.mean(axis=0)}, index=table.columns)
    return every[front(spent.to_numpy(), table.mean().to_numpy())].sort_values("spent", kind="stable")


# --- tuning ---------------------------------------------------------------------------------------------------


def validated(tables: Tables, cell: str) -> pd.Series:
    """Return the mean validation accuracy of each arm at what was chosen for it."""
    rows = tables["tuning"]
    return rows[(rows["cell"] == cell) & rows["chosen"]].groupby("arm", sort=False)["accuracy"].mean()


def favourite(tables: Tables, cell: str) -> str | None:
    """Return the arm that validation prefers: of those with a model per client, at the smallest budget, no control.

    It looks at tuning seeds alone, so that the results of other seeds are no part of the choice.
    """
    own = tables["accuracy"]
    own = own[(own["cell"] == cell) & own["own"] & (own["estimand"] != "global")]
    arms = set(budgets(tables, cell)[0][1]) & set(own["arm"]) - controls(tables)
    table = validated(tables, cell)
    table = table[[arm for arm in table.index if arm in arms]].dropna()
    return str(table.idxmax()) if len(table) else None


def optimism(tables: Tables, cell: str) -> Estimate | None:
    """Return by how much choosing on the tuning seeds flatters what was chosen, in points, mean over arms.

    For each tuning seed: its validation accuracy at the choice of all seeds, less that at the best of all rates and
    settings by the other seeds; mean over arms, with limits over seeds. None below three tuning seeds.
    """
    rows = tables["tuning"][tables["tuning"]["cell"] == cell]
    rows = rows.assign(setting=rows["setting"].fillna(""))
    every = rows.pivot(index="seed", columns=["arm", "lr", "setting"], values="accuracy").dropna(axis="columns")
    picked = rows[rows["chosen"]].drop_duplicates("arm")[["arm", "lr", "setting"]]
    gaps = []
    for arm, *chosen in picked.itertuples(index=False, name=None):
        if len(every) < 3 or (arm, *chosen) not in every.columns:
            continue
        place, values = every[arm].columns.get_loc(tuple(chosen)), every[arm].to_numpy()
        # the best by the other seeds, for each seed
        others = ((values.sum(axis=0) - values) / (len(values) - 1)).argmax(axis=1)
        gaps.append(values[:, place] - values[np.arange(len(values)), others])
    return mean_of(100 * np.mean(gaps, axis=0)) if gaps else None
