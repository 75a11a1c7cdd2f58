"""Compare methods, paired on seeds: the front door of the statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from fedstat._checks import check_level
from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.comparing.collapse import collapse_sentence, collapsed
from fedstat.inference.comparing.comparison import Comparison
from fedstat.inference.comparing.conclusions import conclude
from fedstat.inference.comparing.differences import tabulate_above, tabulate_differences, tabulate_methods
from fedstat.inference.comparing.learning import STILL_LEARNING, changing_sentences, learning_sentence, still_learning
from fedstat.inference.comparing.notes import against_plan, in_words, notes_on
from fedstat.inference.intervals.design import Design
from fedstat.inference.intervals.equivalence import check_margin
from fedstat.inference.reading.choosing import Estimand
from fedstat.inference.reading.gathering import Gathered, gather
from fedstat.inference.reading.opening import read_runs
from fedstat.inference.reading.sameness import check_across, held_sources, told_design
from fedstat.inference.reading.scores import Scores, alone

#: What stands for the choice of a control where nobody chooses.
AUTO = "auto"
_UNKNOWN = (
    "How the seeds came about is not known here: the comparison speaks of other runs of the same kind, and of other "
    "clients or data only as far as these changed with the seed."
)
_MEMORISED = (
    "Measured on samples that clients trained on, where memorising them wins: to compare, keep test samples apart."
)
_ONE_SEED = "The comparison speaks of this run alone: with one seed a difference may be chance."


def compare(
    results: Any,
    *,
    metric: str | None = None,
    control: str | Sequence[str] | None = AUTO,
    estimand: Estimand = None,
    last: int | None = None,
    split: str | None = None,
    level: float | None = None,
    margin: float | None = None,
    simultaneous: bool = True,
    moderated: bool | str = "auto",
    skewed: bool = False,
    across: str | Sequence[str] = (),
    design: Design | None = None,
    plan: AnalysisPlan | None = None,
    smaller: bool = False,
) -> Comparison:
    """Compare methods, paired on seeds, and say what may be concluded.

    Results are one or several of: what `fedstat.federate` returns, its history, a run's folder, a file or a table
    (`fedstat.read_results` says which). A method that ran under other seeds in another result is the same method; one
    that ran later and alone, under the same seeds, is compared by naming both results. What cannot be compared is
    refused: runs on other data or with other participants, by the fingerprints that they carry, and runs that end after
    other rounds. A client whose value is infinite, NaN or absent leaves its method without a mean, and is counted;
    where there are no clients, such a value is a run that is absent.

    Parameters
    ----------
    results : Result, DataFrame, path, or a sequence or mapping of them
        Runs under common seeds; a mapping gives them names.
    metric : str, optional
        By default accuracy, else mse, else the only one.
    control : str, sequence of str, or None
        Label of the method that the others are compared with; None compares all pairs. By default that of the
        experiments of ``fedstat run``, else FedAvg if it is there, else the first. Of several controls, such as
        ("Local", "FedAvg"), the question is which methods are better than all of them; each method is also compared
        with each control.
    estimand : str or mapping of str to str, optional
        Which model of the methods is measured, for all or by label: "personal", "global", "fine-tuned", "trained". By
        default a method's only one; in results of fedstat its own, which it lists first; in other tables the first of
        "personal", "fine-tuned", "cluster" and "global" that it has. Several models under other names must be chosen
        from.
    last : int, optional
        The primary summary is the mean over clients and over the evaluated ones of the last `last` rounds, by
        default as many as the experiments say, else 10; of runs that stopped early, over clients in the round that each
        kept.
    split : str, optional
        The samples measured on: by default the clients' test samples, else validation, else training samples; "common"
        for the test set that all clients have in common.
    level : float, optional
        Confidence level, 0.95 by default.
    margin : float, optional
        Largest difference that counts as none, in the unit of the metric and fixed beforehand: outcomes may then be
        "equivalent". By default that of the experiments, if they are compared in the metric that is usual. Seeds needed
        are counted for it; for shares they are counted for a point otherwise.
    simultaneous : bool
        Whether all intervals (and all equivalences) are to hold together at `level`, rather than each.
    moderated : bool or "auto"
        Whether variances of the methods borrow strength from each other, as `simultaneous` says; by default from 8
        methods on.
    skewed : bool
        Whether intervals allow for runs whose errors lean to one side, as `simultaneous` says; from 8 seeds on. They
        are wider, in simulation by up to 27% for normal runs and up to 71% for exponential ones.
    across : str or sequence of str
        In what the results may differ: "data", "participants", "rounds". The difference is then named.
    design : Design, optional
        How seeds, clients and data belong together, which decides the interval; by default as the runs tell.
    plan : AnalysisPlan, optional
        What was planned beforehand; by default the runs' own plan. It gives metric, control, estimand, last, split,
        level and margin where these arguments are left out. The notes tell whether the runs began with it, and what
        came after.
    smaller : bool
        Whether smaller values are better; by default as the metric's name says, where it is known.

    Raises
    ------
    ValueError
        If the results cannot be compared, an argument is out of range, a label is unknown, or a method has several
        models and nothing says which of them is meant.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import compare
    >>> base = [0.71, 0.69, 0.70, 0.72]
    >>> values = {"FedAvg": base, "Ditto": [0.80, 0.79, 0.81, 0.82], "Local": [0.79, 0.80, 0.80, 0.81]}
    >>> rows = [(m, s, 0, v) for m, of in values.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
    >>> print(*compare(table, control=None, margin=0.03).conclusions)
    Equivalent, to within 3 points: Ditto and Local. FedAvg is worse than both. None of any method's 4 runs collapsed;
    up to 53% may.
    """
    asked = {"metric": metric, "estimand": estimand, "last": last, "split": split, "level": level, "margin": margin}
    if not isinstance(design, Design | None):
        raise ValueError(f"design must be a fedstat.inference.Design, got {design!r}.")
    found, chosen, plan, carried = _gathered(results, asked, check_across(across), plan)
    scores, level = replace(found.scores, smaller=smaller), check_level(chosen["level"])
    margin = None if chosen["margin"] is None else _margin(chosen["margin"], scores, level)
    controls = _controls(scores, control, plan, chosen["control"])
    several = len(controls) > 1
    if several and level <= 0.5:
        raise ValueError(f"level must exceed 0.5 where there are several controls, got {level:g}.")
    design = design or told_design(found.configs, found.clients)
    pairs = _pairs(scores, controls)
    known = design or Design(clients="new", data="drawn")
    rule = "bonferroni" if simultaneous else "none"
    how: dict[str, Any] = {"design": known, "rule": rule, "moderated": moderated, "skewed": skewed}
    aim = scores.aim(margin)
    fallen = collapsed(scores, found.majority)
    differences, notes = tabulate_differences(scores, pairs, level, how, margin, aim, fallen)
    above = None
    if several and len(differences) and not set(controls) & set(scores.missing):
        above = tabulate_above(scores, pairs, differences, level, how)
    learning = still_learning(scores, found.majority, level, aim)
    judge = ~differences[["method", "against"]].isin(list(learning)).any(axis=1)
    differences.loc[~judge, "outcome"] = STILL_LEARNING
    if above is not None:
        above = above[~above.index.isin(list(learning)) & (not set(controls) & set(learning))]
    single = None if several or not controls else controls[0]
    beyond = ["each interval for itself"] * (not simultaneous and len(pairs) > 1)
    beyond += ["intervals for skewed runs"] * skewed + [f"moderated {moderated}"] * (moderated != "auto")
    planned = against_plan(plan, carried, scores, asked | {"margin": margin}, controls, beyond)
    told = " ".join(filter(None, (design.sentence() if design else _UNKNOWN, held_sources(found.configs))))
    return Comparison(
        scores=scores,
        summary=tabulate_methods(scores, known, level, fallen, skewed),
        differences=differences,
        control=single,
        level=level,
        simultaneous=simultaneous,
        margin=margin,
        estimand=in_words(found, controls, level, simultaneous, len(pairs), margin),
        conclusions=(_MEMORISED,) * (scores.split == "train")
        + conclude(scores, differences[judge], single, aim, above)
        + changing_sentences(scores, learning)
        + learning_sentence(learning, [*found.configs.values()])
        + collapse_sentence(scores, fallen, level),
        notes=(*notes_on(found, level), *notes, *found.notes, *planned),
        generalises=_ONE_SEED if len(scores.seeds) == 1 else told,
        above=above,
        design=design,
        majority=found.majority,
    )


def _gathered(
    results: Any, asked: Mapping[str, Any], across: Sequence[str], plan: AnalysisPlan | None
) -> tuple[Gathered, dict[str, Any], AnalysisPlan | None, dict[str, AnalysisPlan | None]]:
    """Gather the runs, let a plan decide what the arguments leave open, and return what plans the runs began with."""
    runs = read_runs(results)
    carried = {"" if run.plan is None else run.plan.digest: run.plan for run in runs.values()}
    plans = [one for one in carried.values() if one is not None]
    if plan is None and plans:
        if len(plans) > 1:
            raise ValueError("results were run under different analysis plans; choose one with plan=.")
        plan = plans[0]
    usual: dict[str, Any] = {"last": 10, "level": 0.95}
    for name in ("control", "last", *(["margin"] if asked["metric"] is None else [])):
        said = {run.evaluation[name] for run in runs.values() if name in run.evaluation}
        usual |= {name: said.pop()} if len(said) == 1 else {}
    chosen: dict[str, Any] = {
        name: next((v for v in (value, getattr(plan, name, None)) if v is not None), usual.get(name))
        for name, value in asked.items()
    }
    chosen["control"] = usual.get("control")
    found = gather(runs, chosen["metric"], chosen["split"], chosen["last"], chosen["estimand"], across)
    named = asked["estimand"] if isinstance(asked["estimand"], Mapping) else {}
    labels = found.scores.methods
    for label in named:
        # the same label in several results goes with the result's name
        if not any(known == label or known.startswith(f"{label} (") for known in labels):
            raise ValueError(f"estimand must name methods of {', '.join(labels)}, got {label!r}.")
    return found, chosen, plan, carried


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


def _controls(
    scores: Scores, control: str | Sequence[str] | None, plan: AnalysisPlan | None, usual: str | None
) -> tuple[str, ...]:
    """Return the labels that the others are compared with, by default the plan's, else the `usual` one; none for all
    pairs."""
    if isinstance(control, str) and control == AUTO:
        control = AUTO if plan is None else plan.control
    if isinstance(control, str) and control == AUTO:
        return (next((label for label in (usual, "FedAvg") if label in scores.methods), scores.methods[0]),)
    controls = () if control is None else (control,) if isinstance(control, str) else tuple(control)
    for label in controls:
        if label not in scores.methods:
            known = ", ".join(scores.methods)
            raise ValueError(f"control must be one of {known}, or None for all pairs, got {label!r}.")
    if control is not None and not (controls and len(set(controls)) == len(controls)):
        raise ValueError(f"control must name different methods, got {list(controls)}.")
    if len(controls) > 1 and len(controls) == len(scores.methods):
        raise ValueError(f"control must leave a method to compare, got all of them: {', '.join(controls)}.")
    return controls


def _pairs(scores: Scores, controls: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the pairs compared, as numbers of methods; those with missing values or one seed have no difference."""
    apart = {*scores.missing, *({*alone(scores)} - {*controls})}
    whole = [i for i, label in enumerate(scores.methods) if label not in apart]
    if not controls:
        return list(combinations(whole, 2))
    others = [i for i in whole if scores.methods[i] not in controls]
    return [(i, j) for j in map(scores.methods.index, controls) if j in whole for i in others]
