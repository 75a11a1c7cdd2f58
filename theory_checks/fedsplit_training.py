"""FedSplit's and FedFac's statements about trained networks (section 4.3), judged on the split study's tables.

Nothing is trained here. Many comparisons are made at once, so intervals are widened (Bonferroni) to keep 95%
over all comparisons of a claim; equivalences claimed together are an intersection-union test and need no
widening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import pandas as pd

from fedstat.claims import Claim, Evidence, Reading, all_of, within
from fedstat.inference import clopper_pearson, equivalence, mean_interval, paired_difference
from simulations import split, stability
from simulations.study import Tables, read_tables
from theory_checks.fedsplit import PAPER

INFINITY = float("inf")
#: "Nearly all" units: at least this share.
NEARLY_ALL = 0.95


def claims(folder: Path) -> tuple[Claim, ...]:
    """Return the claims, judged on the tables in `folder` when they are checked."""

    @lru_cache(maxsize=1)
    def tables() -> Tables:
        return read_tables(folder)

    return (
        Claim(
            trained=True,
            id="FS-40",
            paper=PAPER,
            place="section 4.3.1",
            statement='forall c: 0 < "share of" y_c = 1 < 1',
            words="The generator, as written, gives every client both classes.",
            readings=(Reading("balance as written", lambda: _both_classes(tables(), "none")),),
            mutant=lambda: _both_classes(tables(), "none", spoil=1),
            sensitivity="one one-class client in about one population out of twenty",
            corrected="FS-40c",
        ),
        Claim(
            trained=True,
            id="FS-40c",
            paper="fedstat",
            place="corrected statement of FS-40",
            statement='y_c = bb(1){y^*_c > op("median")(y^*_c)} => forall c: 0 < "share of" y_c = 1 < 1',
            words="With each client's score centred at its median, every client has both classes.",
            readings=(Reading('balance="median"', lambda: _both_classes(tables(), "median")),),
            mutant=lambda: _both_classes(tables(), "median", spoil=1),
            sensitivity="one one-class client in about one population out of ten",
        ),
        Claim(
            trained=True,
            id="FS-41",
            paper=PAPER,
            place="section 4.3.2, Figure 6",
            statement='A_"true" approx A_"oracle" approx A_"static" approx A_"dynamic" >> A_"random"',
            words="True, oracle, static and dynamic splits are nearly equal in accuracy, a random split is much worse.",
            readings=(
                Reading("random split drawn once", lambda: _figure_6(tables(), "random, once")),
                Reading("random split drawn in every round", lambda: _figure_6(tables(), "random, every round")),
                Reading("random split drawn for each client", lambda: _figure_6(tables(), "random, per client")),
                Reading("only: oracle nearly equals true", lambda: all_of(_nearly_equal(tables(), ("oracle",)))),
                Reading("only: static nearly equals true", lambda: all_of(_nearly_equal(tables(), ("static",)))),
                Reading("only: dynamic nearly equals true", lambda: all_of(_nearly_equal(tables(), ("dynamic",)))),
            ),
            mutant=lambda: all_of(_nearly_equal(_shifted(tables(), "oracle", -0.05), ("oracle",))),
            sensitivity="a difference of the margin, with the powers that the section on the split lists",
            assumptions="margin: a tenth of the gap between FedAvg and Local in each setting, one point at most",
        ),
        Claim(
            trained=True,
            id="FS-42",
            paper=PAPER,
            place="section 4.3.2, Figure 7",
            statement=f'1/m abs({{j : zeta_j (t) = zeta_j (t-1)}}) >= {NEARLY_ALL} " late in training"',
            words="Under dynamic FedFac nearly all units (95%) keep their state late in training.",
            readings=(
                Reading("factor analysis of updates", lambda: _stable(tables(), "dynamic")),
                Reading("factor analysis of weights", lambda: _stable(tables(), "dynamic, weights")),
            ),
            mutant=lambda: _stable(tables(), "random, every round"),
            sensitivity="the half-widths of the intervals, about one point",
        ),
        Claim(
            trained=True,
            id="FS-43",
            paper=PAPER,
            place="section 4.3.2, Figure 6",
            statement='A_"split" > max(A_"FedAvg", A_"Local")',
            words="Splitting beats both FedAvg and purely local training in this design.",
            readings=(
                Reading("the true split", lambda: _beats(tables(), "true", ("FedAvg", "Local"))),
                Reading("static FedFac", lambda: _beats(tables(), "static", ("FedAvg", "Local"))),
                Reading("dynamic FedFac", lambda: _beats(tables(), "dynamic", ("FedAvg", "Local"))),
                Reading("the true split, against FedAvg alone", lambda: _beats(tables(), "true", ("FedAvg",))),
            ),
            mutant=lambda: _beats(tables(), "FedAvg", ("true",)),
            sensitivity="the half-widths of the intervals, a few tenths of a point",
        ),
    )


def _both_classes(tables: Tables, balance: str, spoil: int = 0) -> Evidence:
    """Populations in which some client has one class only are rare: their probability is below 10%."""
    rows = tables["balance"].query("balance == @balance")
    bad = int((rows["one_class_clients"] + spoil > 0).sum())
    low, high = clopper_pearson(bad, len(rows))
    share = rows["one_class_clients"].sum() / rows["clients"].sum()
    what = (
        f"populations with a one-class client: {bad} of {len(rows)} ({share:.1%} of the clients; majority above 95% at "
        f"{rows['above_95'].sum() / rows['clients'].sum():.1%})"
    )
    return within(low, high, (0.0, 0.1), cases=len(rows), what=what)


def _settings(tables: Tables) -> list[tuple[float, float, int]]:
    """The settings of Figure 6, without the positive control."""
    return [s for s in split.settings_of(tables) if s[:2] != split.CONTROL]


def margin(points: pd.DataFrame) -> float:
    """A tenth of the gap between FedAvg and Local, one point at most; accuracies in percentage points."""
    return min(0.1 * abs(points["FedAvg"].mean() - points["Local"].mean()), 1.0)


def _name(setting: tuple[float, float, int]) -> str:
    return f"p = {setting[0]:g}, alpha = {setting[1]:g}"


def _nearly_equal(tables: Tables, arms: Sequence[str]) -> list[Evidence]:
    """Intersection-union test of equivalence with the true split over all settings, in percentage points."""
    parts = []
    settings = _settings(tables)
    for setting in settings:
        table = 100 * split.per_seed(tables, *setting)
        for arm in arms:
            e = equivalence(table[arm], table["true"], margin=margin(table))
            wide = paired_difference(table[arm], table["true"], level=1 - 0.05 / (len(settings) * len(arms)))
            # refuted only by an interval at the joint level; supported by the two one-sided tests
            low, high = (e.low, e.high) if e.outcome == "equivalent" else (wide.low, wide.high)
            what = f"{arm} less true at {_name(setting)} (points; power {e.power:.2f})"
            parts.append(within(low, high, (-e.margin, e.margin), cases=len(table), what=what))
    return parts


def _differences(
    tables: Tables, arm: str, others: Sequence[str], region: Callable[[pd.DataFrame], tuple[float, float]]
) -> list[Evidence]:
    """The arm's accuracy less the others', in every setting, in percentage points, against a claimed region."""
    parts = []
    settings = _settings(tables)
    for setting in settings:
        table = 100 * split.per_seed(tables, *setting)
        for other in others:
            d = paired_difference(table[arm], table[other], level=1 - 0.05 / (len(settings) * len(others)))
            what = f"{arm} less {other} at {_name(setting)} (points)"
            parts.append(within(d.low, d.high, region(table), cases=d.n, what=what))
    return parts


def _figure_6(tables: Tables, random: str) -> Evidence:
    """Four splits nearly equal, and the random one worse than the true one by more than the margin."""
    worse = _differences(tables, random, ("true",), lambda table: (-INFINITY, -margin(table)))
    return all_of([*_nearly_equal(tables, ("oracle", "static", "dynamic")), *worse])


def _beats(tables: Tables, arm: str, others: Sequence[str]) -> Evidence:
    """The arm's accuracy exceeds the others', in every setting."""
    return all_of(_differences(tables, arm, others, lambda table: (0.0, INFINITY)))


def _stable(tables: Tables, arm: str) -> Evidence:
    """Late agreement of consecutive splits, in every setting."""
    agreement = tables["agreement"]
    agreement = agreement[agreement["samples"] == _settings(tables)[0][2]]
    late = stability.settled(agreement, "agreement").query("arm == @arm")
    kappa = stability.settled(agreement, "kappa").query("arm == @arm")["kappa"].mean()
    groups = list(late.groupby(["p", "alpha"])["agreement"])
    parts = []
    for (p, alpha), values in groups:
        _, low, high = mean_interval(values.to_numpy(), level=1 - 0.05 / len(groups))
        what = f"units keeping their state at p = {p:g}, alpha = {alpha:g} (kappa over all settings {kappa:.2f})"
        parts.append(within(low, high, (NEARLY_ALL, INFINITY), cases=len(values), what=what))
    return all_of(parts)


def _shifted(tables: Tables, arm: str, by: float) -> Tables:
    """The tables with one arm's accuracies moved."""
    rows = tables["accuracy"].copy()
    rows.loc[(rows["arm"] == arm) & (rows["metric"] == "accuracy"), "value"] += by
    return {**tables, "accuracy": rows}
