"""What the tuning study hands to its chapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.effects import Effects, Question, to_the_better
from simulations.estimates import mean_of, missing, times, undefined
from simulations.published import printed
from simulations.showing import NONE, fixed, rounded
from simulations.tuning.study import MEASURES, ORDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns of the trials and of the paper's tables, by step.
COLUMNS = dict(zip(ORDER, ("layers", "tau", "kappa"), strict=True))
PRINTED = {"layers": ("table_4", "layer"), "tau": ("table_5", "threshold"), "kappa": ("table_6", "contribution")}
WORDS = {"layers": "the layer", "tau": "the cut", "kappa": "the contribution"}
#: All images are split and dealt anew under every seed: a fifth for testing, a fifth of the rest for validation.
DESIGN = Design(clients="new", data="resplit", test_to_train=0.2 / 0.64)
ACCURACY, FRESH = "test accuracy", "test accuracy under fresh seeds"
GAIN, INFLUENCE = "gain from the smallest to the largest tau", "influence"
INFLUENCES = [("layers", "tau"), ("tau", "kappa")]
Setting = tuple[int, str]


def paper(name: str) -> pd.DataFrame:
    """Return the paper's table of a step: setting, value as the column of that step's name, accuracy."""
    file, column = PRINTED[name]
    rows = pd.DataFrame(printed("fedsplit", file)).astype({"accuracy": float})
    return rows.rename(columns={column: name})


def settings(tables: Tables) -> list[Setting]:
    """Return the settings in order: classes per client, and reading."""
    rows = tables["trials"][["classes", "reading"]].drop_duplicates()
    return [(int(classes), str(reading)) for classes, reading in rows.itertuples(index=False)]


def named(setting: Setting) -> str:
    """Say a setting in words."""
    return f"S = {setting[0]}, {setting[1]}"


def _of(table: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    return table[(table["classes"] == setting[0]) & (table["reading"] == setting[1])]


def scores(
    tables: Tables, setting: Setting, *, split: str, metric: str = "accuracy", seeds: str = "tuning"
) -> pd.DataFrame:
    """Return a setting's scores, seeds by trials."""
    own = _of(tables["scores"], setting)
    rows = own[(own["split"] == split) & (own["metric"] == metric) & (own["seeds"] == seeds)]
    return rows.pivot(index="seed", columns="trial", values="value")


def step(tables: Tables, setting: Setting, name: str, *, split: str) -> pd.DataFrame:
    """Return the scores of a step, seeds by the values that it chooses from."""
    trials = _of(tables["trials"], setting)
    trials = trials[trials["chooses"] == name]
    found = scores(tables, setting, split=split)[list(trials["trial"])]
    return found.set_axis(list(trials[COLUMNS[name]]), axis=1)


def role(tables: Tables, setting: Setting, name: str) -> str:
    """Return which trial was chosen, came second, or would have been chosen by test samples."""
    rows = _of(tables["roles"], setting)
    return str(rows.loc[rows["role"] == name, "trial"].iloc[0])


def spread(values: pd.DataFrame) -> pd.Series:
    """Return, for each seed, by how much the value that the other seeds call best exceeds the one they call worst.

    The largest mean minus the smallest grows with noise and with the number of values; this does not.
    """
    found = {}
    for seed in values.index:
        others = values.drop(index=seed).mean(skipna=False)
        if others.isna().any():
            return pd.Series(np.nan, index=values.index)
        found[seed] = values.loc[seed, others.idxmax()] - values.loc[seed, others.idxmin()]
    return pd.Series(found)


def one_run(values: pd.DataFrame) -> pd.Series:
    """Return, for each seed, how much better than under the other seeds a value looks that this seed alone chooses.

    A seed's level, which is common to all values, is taken out.
    """
    if values.isna().any(axis=None):
        return pd.Series(np.nan, index=values.index)
    centred = values.sub(values.mean(axis=1), axis=0)
    found = {}
    for seed in values.index:
        best = values.loc[seed].idxmax()
        found[seed] = centred.loc[seed, best] - centred.drop(index=seed)[best].mean()
    return pd.Series(found)


def _mean_over(tables: Tables, names: list[str], what: Any, split: str) -> pd.Series:
    """Average a quantity by seed over settings and steps."""
    parts = [what(step(tables, s, name, split=split)) for s in settings(tables) for name in names]
    return pd.concat(parts, axis=1).mean(axis=1, skipna=False)


def ends(name: str, values: pd.DataFrame) -> tuple[str, str]:
    """Name the largest and the smallest value of a step."""
    return arm(name, values.columns[-1]), arm(name, values.columns[0])


def arm(name: str, value: Any) -> str:
    """Name a value of a step."""
    return f"{name} = {_value(name, value)}"


def effects(tables: Tables) -> Effects:
    """Return the differences of values in each step, of gains and of influences, and of choices under fresh seeds."""
    return Effects(question for question in _questions(tables) if any(question.pairs.values()))


def _questions(tables: Tables) -> Iterator[Question]:
    every = {name: {named(s): _points_by(name, step(tables, s, name, split="test")) for s in settings(tables)}
             for name in ORDER}  # fmt: skip
    deepest = {s: [(table.columns[-1], one) for one in table.columns[:-1]] for s, table in every["layers"].items()}
    yield Question("the deepest layer against the others", ACCURACY, every["layers"], deepest, DESIGN, "points")
    for name in ("tau", "kappa"):
        values = every[name]
        pairs = {s: [(table.columns[-1], table.columns[0])] for s, table in values.items()}
        yield Question(f"the largest {name} against the smallest", ACCURACY, values, pairs, DESIGN, "points")
        first = named(settings(tables)[0])
        printed_too = [arm(name, v) for v in paper(name)[name].unique()]
        shared = [pair for pair in combinations([one for one in values[first] if one in printed_too], 2)]
        rest = [pair for pair in shared if pair[::-1] not in pairs[first]]
        yield Question(
            f"the order of values of {name}", ACCURACY, {first: values[first]}, {first: rest}, DESIGN, "points"
        )
    text = [named(setting) for setting in settings(tables) if setting[1] == "text"]
    gains = pd.DataFrame({s: every["tau"][s].iloc[:, -1] - every["tau"][s].iloc[:, 0] for s in text})
    by = {"": [(text[0], text[-1])] if len(text) > 1 else []}
    yield Question("the cut by heterogeneity", GAIN, {"": gains}, by, DESIGN, "points")
    found = pd.DataFrame({name: 100 * _mean_over(tables, [name], spread, "test") for name in ORDER})
    yield Question("the order of influence", INFLUENCE, {"": found}, {"": INFLUENCES}, DESIGN, "points")
    chosen = {s: (role(tables, s, "chosen"), role(tables, s, "runner-up")) for s in settings(tables)}
    fresh = {named(s): 100 * scores(tables, s, split="test", seeds="fresh") for s in settings(tables)}
    resolved = {named(s): [pair] for s, pair in chosen.items()}
    yield Question("choices against runners-up", FRESH, fresh, resolved, DESIGN, "points")


def _points_by(name: str, values: pd.DataFrame) -> pd.DataFrame:
    return 100 * values.set_axis([arm(name, v) for v in values], axis=1)


def _excess(tables: Tables, setting: Setting, trial: str, split: str) -> tuple[float, float, float]:
    """Return a trial's score under the tuning seeds minus that under the fresh ones, with Welch's limits."""
    from scipy import stats

    before = scores(tables, setting, split=split)[trial]
    after = scores(tables, setting, split=split, seeds="fresh")[trial]
    if why := missing(before, after):
        return undefined(why)
    if min(len(before), len(after)) < 2 or before.nunique() == after.nunique() == 1:
        return undefined("values without spread have no limits", float(before.mean() - after.mean()))
    limits = stats.ttest_ind(before, after, equal_var=False).confidence_interval(0.95)
    return float(before.mean() - after.mean()), float(limits.low), float(limits.high)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the paper's patterns as differences of test accuracies in points, and the optimism of choices."""
    known = effects(tables)
    return dict(_patterns(tables, known)) | dict(_influence(tables, known)) | dict(_optimism(tables, known))


def _patterns(tables: Tables, known: Effects) -> Iterator[tuple[str, Finding]]:
    for setting in settings(tables):
        where = named(setting)
        layers = [arm("layers", one) for one in step(tables, setting, "layers", split="test")]
        closest = to_the_better(known[ACCURACY, where, layers[-1], one] for one in layers[:-1])
        what = f"test accuracy with the deepest layer minus the best of the others, {where}"
        yield f"deepest {where}", Finding.of(what, closest, digits=1)
        for name in ("tau", "kappa"):
            effect = known[ACCURACY, where, *ends(name, step(tables, setting, name, split="test"))]
            what = f"test accuracy at the largest {name} minus that at the smallest, {where}"
            yield f"{name} {where}", Finding.of(what, effect, digits=1)
    for effect in known.among("the cut by heterogeneity"):
        what = f"gain from the smallest to the largest tau at {effect.first}, minus that at {effect.second}"
        yield "tau by heterogeneity", Finding.of(what, effect, digits=1)


def _influence(tables: Tables, known: Effects) -> Iterator[tuple[str, Finding]]:
    for name in ORDER:
        values = _mean_over(tables, [name], spread, "test")
        what = f"test accuracy of the best value minus the worst, told by the other seeds: {WORDS[name]}"
        yield f"influence {name}", Finding.of(what, mean_of(values), 100, "points", 1)
    for one, other in INFLUENCES:
        what = f"influence of {WORDS[one]} minus that of {WORDS[other]}"
        yield f"influence {one} over {other}", Finding.of(what, known[INFLUENCE, "", one, other], digits=1)


def _optimism(tables: Tables, known: Effects) -> Iterator[tuple[str, Finding]]:
    for setting in settings(tables):
        for name, split in (("chosen", "validation"), ("by test", "test")):
            trial = role(tables, setting, name)
            what = f"{split} accuracy of the value chosen by it, tuning seeds minus fresh seeds, {named(setting)}"
            estimate = times(100, _excess(tables, setting, trial, split))
            yield f"optimism {name} {named(setting)}", Finding.of(what, estimate, unit="points", digits=1)
        chosen, second = (role(tables, setting, name) for name in ("chosen", "runner-up"))
        what = f"test accuracy of the chosen values minus the runner-up under fresh seeds, {named(setting)}"
        yield f"resolved {named(setting)}", Finding.of(what, known[FRESH, named(setting), chosen, second], digits=1)
    for split in ("test", "validation"):
        values = _mean_over(tables, list(ORDER), one_run, split)
        what = f"by how much a value looks better under the one seed whose {split} samples choose it than under others"
        yield f"one run {split}", Finding.of(what, mean_of(values), 100, "points", 1)


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return our tables beside the paper's, the choices, the influence and the budget."""
    first = settings(tables)[0]
    budget = tables["budget"]
    spent = _of(budget[budget["of"] == "tuning"], first).iloc[0]
    return {
        "settings": [named(setting) for setting in settings(tables)],
        "paper_settings": [s.removeprefix("CIFAR-100, ") for s in paper("tau")["setting"].unique()],
        "steps": [{"name": name, "words": WORDS[name], "rows": _rows(tables, name)} for name in ORDER],
        "choices": [_choice(tables, setting) for setting in settings(tables)],
        "agreement": {name: _beside(tables, effects(tables), name) for name in ("tau", "kappa")},
        "deepest": str(step(tables, first, "layers", split="test").columns[-1]),
        "rates": [
            {"arm": str(row.arm), "lr": f"{row.lr:g}", "end": bool(row.end)}
            for row in tables["rates"][tables["rates"]["chosen"]].drop_duplicates("arm").itertuples()
        ],
        "trials": int(spent["trials"]),
        "runs": int(spent["runs"]),
        "epochs": f"{int(spent['local epochs']):,}",
        "all_runs": int(budget["runs"].sum()),
    }


def _rows(tables: Tables, name: str) -> list[dict[str, Any]]:
    """Return a step's rows: the value, the paper's accuracies, ours on test samples, and a mark of our choice."""
    table = paper(name).pivot(index=name, columns="setting", values="accuracy")
    table = table[list(paper("tau")["setting"].unique())]
    theirs = {value: [fixed(100 * v, 1) for v in table.loc[value]] for value in table.index}
    empty = [NONE] * table.shape[1]
    ours: dict[str, list[Any]] = {}
    for k, setting in enumerate(settings(tables)):
        values = step(tables, setting, name, split="test")
        trials = _of(tables["trials"], setting)
        picked = trials[(trials["chooses"] == name) & trials["chosen"]][COLUMNS[name]].iloc[0]
        for value in values:
            cells = ours.setdefault(_value(name, value), [None] * len(settings(tables)))
            cells[k] = (times(100, mean_of(values[value], within=(0, 1))), bool(value == picked))
    shown = rounded([{"e": cell[0]} for cells in ours.values() for cell in cells if cell], e=1)
    words = iter([row["e"] for row in shown])
    told = {
        value: [{"text": next(words), "chosen": cell[1]} if cell else {"text": NONE, "chosen": False} for cell in cells]
        for value, cells in ours.items()
    }
    blank = [{"text": NONE, "chosen": False}] * len(settings(tables))
    every = dict.fromkeys([*sorted(theirs, key=_rank), *told])
    return [{"value": v, "printed": theirs.get(v, empty), "ours": told.get(v, blank)} for v in every]


def _value(name: str, value: Any) -> str:
    """Name a value as rows do: layers of ours by name, the paper's by number, quantiles in percent."""
    if name == "tau":
        return value if isinstance(value, str) else f"{100 * value:g}%"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rank(value: str) -> float:
    return float(value.rstrip("%"))


def _choice(tables: Tables, setting: Setting) -> dict[str, Any]:
    """Return what was chosen at a setting, its fresh scores, and the optimism."""
    trial = role(tables, setting, "chosen")
    rows = _of(tables["trials"], setting)
    last = rows[rows["chosen"]].iloc[-1]
    fresh = {m: scores(tables, setting, split="test", metric=m, seeds="fresh")[trial] for m in MEASURES}
    within = {m: (0.0, np.inf if m == "log_loss" else 1.0) for m in MEASURES}
    parts = {m: mean_of(fresh[m], within=within[m]) for m in MEASURES}
    return {
        "setting": named(setting),
        "layer": str(last["layers"]),
        "tau": f"{100 * last['tau']:g}%",
        "kappa": f"{last['kappa']:g}",
        "tuned": fixed(100 * float(last["mean"]), 1),
        "optimism": _points(_excess(tables, setting, trial, "validation")),
        "test_optimism": _points(_excess(tables, setting, role(tables, setting, "by test"), "test")),
        "same": role(tables, setting, "by test") == trial,
        "accuracy": _points(parts["accuracy"]),
        "balanced": _points(parts["balanced_accuracy"]),
        "majority": fixed(100 * parts["majority_share"][0], 1),
        "log_loss": rounded([{"e": parts["log_loss"]}], e=2)[0]["e"],
    }


def _points(estimate: tuple[float, float, float]) -> str:
    return str(rounded([{"e": times(100, estimate)}], e=1)[0]["e"])


def _beside(tables: Tables, known: Effects, name: str) -> dict[str, Any] | None:
    """Compare the paper's most heterogeneous setting with ours, by the text; None if the grids have less in common."""
    rows = paper(name)
    one = rows[rows["setting"] == rows["setting"].iloc[0]]
    values = step(tables, settings(tables)[0], name, split="test")
    ours = (100 * values).set_axis([_value(name, v) for v in values], axis=1)
    theirs = pd.DataFrame({"value": 100 * one["accuracy"].to_numpy(), "seeds": 1}, index=list(one[name]))
    theirs = theirs.loc[[v for v in theirs.index if v in ours]]
    if len(theirs) < 2:
        return None
    where = named(settings(tables)[0])
    return beside_printed(
        theirs, ours[list(theirs.index)], control=str(theirs.index[0]),
        difference=lambda a, b: known[ACCURACY, where, f"{name} = {a}", f"{name} = {b}"],
    )  # fmt: skip


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the paper's tables above and ours below: accuracy by layer, cut and contribution."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    lines, marks, fills = ("-", "--", ":", "-."), "os^D", ("black", "white", "0.6", "white")
    with style():
        figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.4), sharey="row", layout="constrained")
        for column, name in enumerate(ORDER):
            for k, (setting, some) in enumerate(paper(name).groupby("setting", sort=False)):
                rows = some.sort_values(name, key=lambda v: v.map(_rank))
                at = rows[name].to_numpy(float) if name == "layers" else np.arange(len(rows))
                axes[0, column].plot(
                    at, 100 * rows["accuracy"], lines[k], marker=marks[k], color="black", mfc=fills[k], ms=3.5, lw=0.8,
                    label=str(setting).removeprefix("CIFAR-100, "),
                )  # fmt: skip
                if name != "layers":
                    axes[0, column].set_xticks(at, list(rows[name]))
            for k, setting in enumerate(settings(tables)):
                values = 100 * step(tables, setting, name, split="test")
                at = np.arange(values.shape[1])
                mean, low, high = np.array([mean_of(values[v], within=(0, 100)) for v in values]).T
                axes[1, column].errorbar(
                    at + 0.07 * (k - 1), mean, [mean - low, high - mean], ls=lines[k], marker=marks[k], color="black",
                    mfc=fills[k], ms=3.5, lw=0.8, elinewidth=0.6, label=named(setting),
                )  # fmt: skip
                axes[1, column].set_xticks(at, [_value(name, v) for v in values])
        titles = ("layer with personal units (Λ)", "quantile of the cut (τ)", "contribution of the factors (κ)")
        for axis, title in zip(axes[1], titles, strict=True):
            axis.set_xlabel(title)
        axes[0, 0].set_ylabel("the paper: test accuracy (%)")
        axes[1, 0].set_ylabel("ours: test accuracy (%)")
        axes[0, 0].legend(fontsize=7, frameon=False)
        axes[1, 0].legend(fontsize=7, frameon=False, loc="upper left")
    return {"tables": figure}
