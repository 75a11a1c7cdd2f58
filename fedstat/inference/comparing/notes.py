"""What must be known to read a comparison: what is measured, what is missing, and what was planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.formatting import interval, listed
from fedstat.inference.intervals.paired import mean_interval, spreads
from fedstat.inference.intervals.sequential import added_seeds
from fedstat.inference.reading.formats.tidy import RUN, UNNAMED
from fedstat.inference.reading.gathering import Gathered, few
from fedstat.inference.reading.scores import Scores, alone, size

#: What a value is, where the format does not say it: of each client, of a run, and of the samples that all have.
_OF_CLIENTS = "each client's {model} on its {split} samples, mean over clients and {when}"
_OF_RUNS = "the {model}, one number for each run on {split} samples, mean over {when}"
_COMMON = "the {model} on the common test set, mean over {when}"

#: What to ask where methods are not above naming the most frequent class.
_REMEDY = (
    'Are columns on one scale (prepare="standard" brings them there), is the learning rate right, and were '
    "there rounds enough?"
)


def in_words(
    found: Gathered, controls: tuple[str, ...], level: float, simultaneous: bool, pairs: int, margin: float | None
) -> str:
    """Say what the numbers measure."""
    scores = found.scores
    if found.kept:
        when = "the round that each run kept"
    elif scores.averaged:
        first, last = scores.averaged[0], scores.averaged[-1]
        alone = f"round {last} alone" if last else "the one evaluation"
        when = f"evaluated rounds {first} to {last}" if first < last else alone
    else:
        when = "each result's own last rounds"
    usual = _COMMON if scores.split == "common" else _OF_RUNS if scores.clients == (RUN,) else _OF_CLIENTS
    told = {name: of if of and scores.split != "common" else usual for name, of in found.measured.items()}
    parts = {of: [name for name, own in told.items() if own == of] for of in told.values()}
    whose = listed(
        of.format(model=_model(scores), split=scores.split, when=when) + f" ({few(names)})" * (len(parts) > 1)
        for of, names in parts.items()
    )
    words = f"{scores.metric} of {whose}"
    if not pairs or len(scores.seeds) < 2:
        return words
    against = f"differences to {listed(controls)}" if controls else "differences of all pairs"
    kind = "simultaneous " if simultaneous and pairs > 1 else ""
    return f"{words}; {against}, paired on seeds, {kind}{100 * level:.4g}% intervals" + (
        "" if margin is None else f", margin {size(margin, scores)}"
    )


def _model(scores: Scores) -> str:
    """Name the model that is measured; where methods differ in it, that of each."""
    methods: dict[str, list[str]] = {model: [] for model in scores.models}
    for label, model in zip(scores.methods, scores.models, strict=True):
        methods[model].append(label)
    if len(methods) > 1:
        whose = {of: listed(labels) if len(labels) < 7 else f"{len(labels)} methods" for of, labels in methods.items()}
        return f"model ({', '.join(f'{model} of {who}' for model, who in whose.items())})"
    (model,) = methods
    return f"model ({model})" if model == UNNAMED else f"model {model}" if " " in model else f"{model} model"


def notes_on(found: Gathered, level: float) -> list[str]:
    """Tell what must be known to read the numbers: gaps, short runs, unequal seeds, two weightings, few seeds."""
    scores = found.scores
    said = [f"{label}: {gaps}; the method has no mean and no difference." for label, gaps in scores.missing.items()]
    said += [
        f"{label} has a value under seed {seed} alone: it has no difference, which takes two seeds."
        for label, seed in alone(scores).items()
    ]
    said += [] if found.majority is None else _beside_majority(scores, found.majority, level)
    evaluated = scores.rounds[scores.rounds > 0]
    if len(scores.averaged) > 1 and len(scores.averaged) >= len(evaluated):
        said.append(
            f"Rounds {scores.averaged[0]} to {scores.averaged[-1]} are all that were evaluated: their mean is one of "
            "learning, not of where the methods end. Run longer, or average fewer rounds (last)."
        )
    for config in found.configs.values():
        if (looks := config.get("looks")) and looks[0] > 1:
            said.append(added_seeds(looks, level))
    some = scores.there.any(axis=1) & ~scores.there.all(axis=1)
    if some.any() and 2 * scores.there.all(axis=0).sum() >= len(scores.clients):
        first = int(np.argmax(some))
        client = scores.clients[int(np.argmin(scores.there[first]))]
        said.append(
            f"{some.sum()} of {len(scores.seeds)} seeds lack clients that others have; seed {scores.seeds[first]} "
            f"lacks client {client}. A seed's mean is over the clients that it has."
        )
    if scores.samples is not None:
        held = scores.samples[scores.there]
        if held.min() < held.max():
            said.append(
                f"Clients have {held.min():.0f} to {held.max():.0f} {scores.split} samples. Counted equally, a mean "
                "says what a client drawn at random can expect; by samples, what a sample drawn at random can expect."
            )
    return said


def _beside_majority(accuracy: Scores, share: Scores, level: float) -> list[str]:
    """Return sentences that name the methods below the majority share and those not shown to be above it.

    The accuracy minus the share, both of the same methods, seeds and clients, has an interval over seeds, all methods
    together at `level`. A method is below if the interval is, and not shown to be above if it holds 0; under a single
    seed, or without spread over seeds, the difference alone counts.
    """
    below, unshown = [], []
    each = 1 - (1 - level) / len(accuracy.methods)
    for label, values, shares in zip(accuracy.methods, accuracy.values, share.values, strict=True):
        by_seed = 100 * (values - shares)[~np.isnan(values).all(axis=1)].mean(axis=1)
        if not len(by_seed) or not np.isfinite(by_seed).all():
            continue
        spread = len(by_seed) > 1 and spreads(by_seed)
        found = np.clip(mean_interval(by_seed, each), -100, 100) if spread else (by_seed.mean(),) * 3
        if found[2] < 0:
            below.append(f"{label} by {-found[0]:.1f} points")
        elif found[1] <= 0:
            how = f"a difference of {interval(found, 1, ' points')}" if spread else "equal"
            unshown.append(f"{label} ({how})")
    said = [f"Always naming a client's most frequent class beats {', '.join(below)}."] if below else []
    if unshown:
        said.append(f"Not shown to beat always predicting a client's most frequent class: {', '.join(unshown)}.")
    return [*said[:-1], f"{said[-1]} {_REMEDY}"] if said else []


def against_plan(
    plan: AnalysisPlan | None,
    carried: Mapping[str, AnalysisPlan | None],
    scores: Scores,
    asked: Mapping[str, Any],
    controls: tuple[str, ...],
    beyond: list[str],
) -> list[str]:
    """Tell what was planned, before the runs if they carry the plan, and what came after.

    `carried` holds the plans that the runs began with, by digest, and `beyond` what no plan asks for, in words.
    """
    if plan is None:
        return []
    after = [*beyond]
    for name, value in asked.items():
        planned = getattr(plan, name)
        part = isinstance(value, Mapping) and isinstance(planned, Mapping) and value.items() <= planned.items()
        if value is not None and value != planned and not part:
            after.append(f"{name} {value} ({'not planned' if planned is None else f'planned: {planned}'})")
    if set(controls) != set(plan.controls):
        now, then = (listed(of) if of else "none, all pairs" for of in (controls, plan.controls))
        after.append(f"control {now} (planned: {then})")
    if more := [label for label in scores.methods if label not in plan.arms]:
        after.append(f"{listed(more)} added")
    if fewer := [label for label in plan.arms if label not in scores.methods]:
        after.append(f"{listed(fewer)} left out")
    counts = sorted({len(scores.seeds), *scores.ran.sum(axis=1).tolist()})
    if plan.seeds is not None and counts != [plan.seeds]:
        after.append(f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds (planned: {plan.seeds})")
    what = f"{len(plan.arms)} arms, {f'control {listed(plan.controls)}' if plan.controls else 'all pairs'}"
    said = f"Planned before the runs (plan {plan.digest[:12]}): {what}."
    as_said = "as planned"
    if set(carried) != {plan.digest}:
        why, as_said = "Not all runs carry it, so whether it came before them is not known here.", "as this plan says"
        for other in carried.values():
            if other is not None and other != plan:
                there = [f"{name} {value}" for name, value in vars(other).items() if value != getattr(plan, name)]
                why = f"The runs began with another one (plan {other.digest[:12]}: {', '.join(there)})."
        said = f"Held against plan {plan.digest[:12]}: {what}. {why}"
    unchecked = [f"{name} ({of})" for name in ("rule", "note") if (of := getattr(plan, name))]
    kept = f"All {'that can be checked' if unchecked else 'of it'} is {as_said}"
    words = f"Not {as_said}: {'; '.join(after)}" if after else kept
    return [said, words + (f"; not checked: {listed(unchecked)}" if unchecked else "") + "."]
