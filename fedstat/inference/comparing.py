"""Compare methods, paired on seeds: the front door of the statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.choosing import Estimand
from fedstat.inference.comparison import Comparison
from fedstat.inference.conclusions import conclude
from fedstat.inference.design import Design
from fedstat.inference.family import Family, Rule
from fedstat.inference.family import simultaneous as simultaneous_family
from fedstat.inference.gathering import Gathered, gather
from fedstat.inference.levels import check_level
from fedstat.inference.notes import against_plan, in_words, notes_on
from fedstat.inference.opening import read_runs
from fedstat.inference.paired import sign_flip_test
from fedstat.inference.planning import plan as seeds_for
from fedstat.inference.sameness import check_across, held_sources, told_design
from fedstat.inference.scores import Scores
from fedstat.inference.tost import check_margin

if TYPE_CHECKING:
    import pandas as pd

#: What stands for the choice of a control where nobody chooses.
AUTO = "auto"
_UNKNOWN = (
    "How the seeds came about is not known here: the comparison speaks of other runs of the same kind, and of other "
    "clients or data only as far as these changed with the seed."
)
_ONE_SEED = "The comparison speaks of this run alone: with one seed a difference may be chance."


def compare(
    results: Any,
    *,
    metric: str | None = None,
    control: str | None = AUTO,
    estimand: Estimand = None,
    last: int | None = None,
    split: str | None = None,
    level: float | None = None,
    margin: float | None = None,
    simultaneous: bool = True,
    moderated: bool | str = "auto",
    across: str | Sequence[str] = (),
    design: Design | None = None,
    plan: AnalysisPlan | None = None,
) -> Comparison:
    """Compare methods, paired on seeds, and say what may be concluded.

    Results are one or several of: what `fedstat.federate` returns, its history, a run's folder, a file or a table
    (`fedstat.read_results` says which). A method that ran under other seeds in another result is the same method. What
    cannot be compared is refused: runs on other data or with other participants, by the fingerprints that they
    carry, and runs that end after other rounds. A client whose value is infinite, NaN or absent leaves its method
    without a mean, and is counted.

    Parameters
    ----------
    results : Result, DataFrame, path, or a sequence or mapping of them
        Runs under common seeds; a mapping gives them names.
    metric : str, optional
        By default accuracy, else mse, else the only one.
    control : str or None
        Label of the method that the others are compared with; None compares all pairs. By default FedAvg if it is
        there, else the first.
    estimand : str or mapping of str to str, optional
        Which model of the methods is measured, for all or by label: "personal", "global", "fine-tuned", "trained". By
        default the personal one, else the fine-tuned, else the global, else the first by name.
    last : int, optional
        The primary summary is the mean over clients and over the evaluated ones of the last `last` rounds, 10 by
        default; of runs that stopped early, over clients in the round that each kept.
    split : str, optional
        The samples measured on: by default the clients' test samples, else validation, else training samples; "common"
        for the test set that all clients have in common.
    level : float, optional
        Confidence level, 0.95 by default.
    margin : float, optional
        Largest difference that counts as none, in the unit of the metric and fixed beforehand: outcomes may then be
        "equivalent". Seeds needed are counted for it; for shares they are counted for a point otherwise.
    simultaneous : bool
        Whether all intervals (and all equivalences) are to hold together at `level`, rather than each.
    moderated : bool or "auto"
        Whether variances of the methods borrow strength from each other; by default where that is
        not visibly wrong.
    across : str or sequence of str
        In what the results may differ: "data", "participants", "rounds". The difference is then named.
    design : Design, optional
        How seeds, clients and data belong together, which decides the interval; by default as the runs tell.
    plan : AnalysisPlan, optional
        What was planned beforehand; by default the runs' own plan. It gives metric, control, estimand, last, split,
        level and margin where these arguments are left out. The notes tell whether the runs began with it, and what
        came after.

    Raises
    ------
    ValueError
        If the results cannot be compared, an argument is out of range, or a label is unknown.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import compare
    >>> base = [0.71, 0.69, 0.70, 0.72]
    >>> values = {"FedAvg": base, "Ditto": [0.80, 0.79, 0.81, 0.82], "Local": [0.79, 0.80, 0.80, 0.81]}
    >>> rows = [(m, s, 0, v) for m, of in values.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
    >>> print(*compare(table, control=None, margin=0.03).conclusions)
    Equivalent, to within 3 points: Ditto and Local. FedAvg is worse than both.
    """
    asked = {"metric": metric, "estimand": estimand, "last": last, "split": split, "level": level, "margin": margin}
    if not isinstance(design, Design | None):
        raise ValueError(f"design must be a fedstat.inference.Design, got {design!r}.")
    found, chosen, plan, before = _gathered(results, asked, check_across(across), plan)
    scores, level = found.scores, check_level(chosen["level"])
    margin = None if chosen["margin"] is None else _margin(chosen["margin"], scores, level)
    control = _control(scores, control, plan)
    design = design or told_design(found.configs, found.clients)
    pairs = _pairs(scores, control)
    rule: Rule = "joint" if simultaneous else "none"
    known = design or Design(clients="new", data="drawn")
    aim = scores.aim(margin)
    differences, notes = _differences(scores, pairs, known, level, rule, moderated, margin, aim)
    told = " ".join(filter(None, (design.sentence() if design else _UNKNOWN, held_sources(found.configs))))
    return Comparison(
        scores=scores,
        summary=_summary(scores, known, level),
        differences=differences,
        control=control,
        level=level,
        simultaneous=simultaneous,
        margin=margin,
        estimand=in_words(found, control, level, simultaneous, len(pairs), margin),
        conclusions=conclude(scores, differences, control, aim),
        notes=(*notes_on(found, level), *notes, *found.notes, *against_plan(plan, before, scores, asked, control)),
        generalises=_ONE_SEED if len(scores.seeds) == 1 else told,
    )


def _gathered(
    results: Any, asked: Mapping[str, Any], across: Sequence[str], plan: AnalysisPlan | None
) -> tuple[Gathered, dict[str, Any], AnalysisPlan | None, bool]:
    """Gather the runs, let a plan decide what the arguments leave open, and tell whether all runs carry that plan."""
    runs = read_runs(results)
    plans = [run.plan for run in runs.values() if run.plan is not None]
    if plan is None and plans:
        if len({one.digest for one in plans}) > 1:
            raise ValueError("results were run under different analysis plans; choose one with plan=.")
        plan = plans[0]
    usual: dict[str, Any] = {"last": 10, "level": 0.95}
    chosen: dict[str, Any] = {
        name: next((v for v in (value, getattr(plan, name, None)) if v is not None), usual.get(name))
        for name, value in asked.items()
    }
    found = gather(runs, chosen["metric"], chosen["split"], chosen["last"], chosen["estimand"], across)
    named = asked["estimand"] if isinstance(asked["estimand"], Mapping) else {}
    labels = found.scores.methods
    for label in named:
        # the same label in several results goes with the result's name
        if not any(known == label or known.startswith(f"{label} (") for known in labels):
            raise ValueError(f"estimand must name methods of {', '.join(labels)}, got {label!r}.")
    return found, chosen, plan, plan is not None and found.plans == {plan.digest}


def _margin(margin: float, scores: Scores, level: float) -> float:
    """Return a margin that some difference can exceed, at a level at which equivalence is tested."""
    margin = check_margin(margin)
    if scores.of_shares and margin >= 1:
        raise ValueError(
            f"margin must be below 1 for {scores.metric}, whose values are shares, got {margin:g}: no difference is "
            "larger. A point is 0.01."
        )
    if level <= 0.5:
        raise ValueError(f"level must exceed 0.5 where there is a margin, got {level:g}.")
    return margin


def _control(scores: Scores, control: str | None, plan: AnalysisPlan | None) -> str | None:
    """Return the label that the others are compared with; None for all pairs."""
    if control == AUTO and plan is not None:
        control = plan.control
    if control == AUTO:
        return "FedAvg" if "FedAvg" in scores.methods else scores.methods[0]
    if control is not None and control not in scores.methods:
        raise ValueError(f"control must be one of {', '.join(scores.methods)}, or None for all pairs, got {control!r}.")
    return control


def _checked_margin(margin: float, scores: Scores) -> float:
    """Return the margin; of shares it is below 1, since who writes 1 means a point."""
    if scores.of_shares and check_margin(margin) >= 1:
        raise ValueError(
            f"margin must be below 1 for {scores.metric}, which lies in [0, 1], got {margin:g}. A point is 0.01."
        )
    return check_margin(margin)


def _pairs(scores: Scores, control: str | None) -> list[tuple[int, int]]:
    """Return the pairs compared, as numbers of methods; those with missing values have no difference."""
    whole = [i for i, label in enumerate(scores.methods) if label not in scores.missing]
    if control is None:
        return list(combinations(whole, 2))
    against = scores.methods.index(control)
    return [(i, against) for i in whole if i != against and control not in scores.missing]


def _summary(scores: Scores, design: Design, level: float) -> pd.DataFrame:
    """Tabulate the methods, each by itself, with the limits that the design gives its difference to zero."""
    import pandas as pd

    lowest, highest = (0.0, 1.0) if scores.of_shares else (-np.inf, np.inf)
    values = np.append(scores.values, np.zeros_like(scores.values[:1]), axis=0)
    values[[i for i, label in enumerate(scores.methods) if label in scores.missing]] = np.nan
    alone = [(m, len(scores.methods)) for m in range(len(scores.methods))]
    settings: dict[str, Any] = {"design": design, "level": level, "rule": "none", "moderated": False}
    found = simultaneous_family(values, alone, **settings)
    table = pd.DataFrame(
        {"model": scores.models, "mean": found.estimate, "low": np.maximum(found.low, lowest),
         "high": np.minimum(found.high, highest), "sd over seeds": found.sd, "seeds": scores.ran.sum(axis=1)},
        index=list(scores.methods),
    )  # fmt: skip
    if scores.samples is not None and not design.crossed:
        weighted = simultaneous_family(values, alone, weights=scores.samples, **settings)
        table["by samples"], table["low by samples"] = weighted.estimate, np.maximum(weighted.low, lowest)
        table["high by samples"] = np.minimum(weighted.high, highest)
    if scores.missing:
        table["missing"] = [scores.missing.get(label, "") for label in scores.methods]
    return table


def _differences(
    scores: Scores,
    pairs: Sequence[tuple[int, int]],
    design: Design,
    level: float,
    rule: Rule,
    moderated: bool | str,
    margin: float | None,
    aim: float | None,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Tabulate the differences of pairs, with intervals that hold together."""
    import pandas as pd

    columns = [
        "method", "against", "difference", "low", "high", "correlation", "pairs", "sd", "p (t)", "p (sign flips)",
        "p (adjusted)", "outcome", "seeds needed",
    ]  # fmt: skip
    if not pairs or len(scores.seeds) < 2:
        return pd.DataFrame(columns=columns), ()
    settings: dict[str, Any] = {"design": design, "rule": rule, "moderated": moderated}
    family = simultaneous_family(scores.values, pairs, level=level, **settings)
    _check_common(scores, family)
    inner = None
    if margin is not None:
        # one side alone can be wrong for each pair, which the joint rule for both sides does not keep
        one_sided = {**settings, "rule": "none" if rule == "none" else "bonferroni"}
        inner = simultaneous_family(scores.values, pairs, level=2 * level - 1, **one_sided)
    edge = 1.0 if scores.of_shares else np.inf
    equal = scores.by_seed()
    rows = []
    for k, (i, j) in enumerate(pairs):
        both = np.isfinite(equal[i]) & np.isfinite(equal[j])
        flips = sign_flip_test(equal[i][both], equal[j][both])
        outcome = _outcome(family, inner, margin, k)
        needed = np.nan if aim is None else _needed(family, k, aim, level)
        rows.append(
            [scores.methods[i], scores.methods[j], family.estimate[k], max(family.low[k], -edge),
             min(family.high[k], edge), family.correlation[k], family.n[k], family.sd[k], family.p_single[k], flips,
             family.p[k], outcome, needed]
        )  # fmt: skip
    index = [f"{scores.methods[i]} − {scores.methods[j]}" for i, j in pairs]
    table = pd.DataFrame(rows, index=index, columns=columns)
    if scores.samples is not None and not design.crossed:
        weighted = simultaneous_family(scores.values, pairs, level=level, weights=scores.samples, **settings)
        table["by samples"], table["low by samples"] = weighted.estimate, np.maximum(weighted.low, -edge)
        table["high by samples"] = np.minimum(weighted.high, edge)
    return table, (*family.notes, *_spread_note(table, level))


def _spread_note(differences: pd.DataFrame, level: float) -> list[str]:
    """Say how far off seeds needed may be, which grow with the square of a spread that few seeds tell roughly."""
    from scipy import stats

    counted = differences[
        (differences["outcome"] == "undecided") & np.isfinite(differences["seeds needed"].astype(float))
    ]
    if not len(counted):
        return []
    df = int(counted["pairs"].min()) - 1
    least, most = (df / stats.chi2.ppf(q, df) for q in ((1 + level) / 2, (1 - level) / 2))
    return [
        f"Seeds needed rest on the spread over {df + 1} seeds, whose {100 * level:.4g}% limits allow {least:.1g} to "
        f"{f'{most:.2g}' if most < 100 else 'more than 100'} times as many."
    ]


def _needed(family: Family, k: int, margin: float, level: float) -> float:
    """Return the seeds that would tell a pair apart that differs by `margin`, with a power of 80%; inf if none do.

    Where the same data are split again and again, n splits are worth ``1 / (1 / n + test_to_train)`` independent ones.
    """
    if not np.isfinite(family.se[k]) or family.design.crossed:
        return np.nan
    count = 1 if family.rule == "none" else len(family.pairs)
    worth = seeds_for(
        float(family.sd[k]), margin=margin, level=level, comparisons=count, pilot_seeds=int(family.n[k])
    ).seeds
    rest = 1 / worth - (family.design.test_to_train or 0.0)
    return float(np.ceil(1 / rest)) if rest > 0 else np.inf


def _check_common(scores: Scores, family: Family) -> None:
    """Refuse pairs without two common seeds, where there are such seeds."""
    for (i, j), n in zip(family.pairs, family.n, strict=True):
        if n < 2:
            raise ValueError(
                f"{scores.methods[i]} and {scores.methods[j]} have {n} common seeds; pairs need at least 2. Run both "
                "under the same seeds."
            )


def _outcome(family: Family, inner: Family | None, margin: float | None, k: int) -> str:
    """Say what one pair comes out as; equivalent if the interval for it lies within the margin."""
    if not np.isfinite(family.se[k]):
        return "no spread"
    if inner is not None and margin is not None and -margin < inner.low[k] and inner.high[k] < margin:
        return "equivalent"
    return "different" if family.low[k] > 0 or family.high[k] < 0 else "undecided"
