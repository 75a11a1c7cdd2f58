"""Choose what is compared where nobody says it: split, metric, and the model of each method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedstat.inference.opening import Run
from fedstat.inference.reduction import Reduced

Estimand = str | Mapping[str, str] | None
#: Which of a method's models is measured where nobody chooses.
_MODELS = ("personal", "fine-tuned", "global")
SPLITS = ("test", "validation", "train")


def choose_split(runs: Mapping[str, Run], split: str | None) -> str:
    """Return the split that is measured on: by default of the clients' test samples, else validation, else training."""
    there = {name: {of for _, of in run.rounds} for name, run in runs.items()}
    wanted = {name: split or next((one for one in SPLITS if one in found), None) for name, found in there.items()}
    for name, one in wanted.items():
        if one not in there[name]:
            known = ", ".join(sorted(there[name]))
            raise ValueError(f"results must hold evaluations, but {name} has none of split {one!r}; it has {known}.")
    if len(set(wanted.values())) > 1:
        each = ", ".join(f"{name}: {one}" for name, one in wanted.items())
        raise ValueError(f"results must be measured on one split, got {each}; choose one that all have with split=.")
    return str(next(iter(wanted.values())))


def choose_metric(runs: Mapping[str, Run], metric: str | None, split: str) -> str:
    """Return the metric compared: by default accuracy, else mse, else the only one that all runs have."""
    there = {name: [one for one, of in run.rounds if of == split] for name, run in runs.items()}
    common = [one for one in next(iter(there.values())) if all(one in found for found in there.values())]
    if metric is None:
        metric = next((one for one in ("accuracy", "mse") if one in common), common[0] if len(common) == 1 else None)
        if metric is None:
            known = ", ".join(common) or "; ".join(f"{name}: {', '.join(found)}" for name, found in there.items())
            raise ValueError(f"results have no metric in common that is the usual one; choose with metric=. {known}.")
    for name, found in there.items():
        if metric not in found:
            known = ", ".join(found)
            raise ValueError(f"metric {metric!r} is not in the history of {name}, split {split!r}; it has {known}.")
    return metric


@dataclass(frozen=True, eq=False)
class Part:
    """One run's reduced numbers, a row for each method: the model of it that is chosen."""

    reduced: Reduced
    rows: Mapping[str, int]


def choose_models(reduced: Reduced, estimand: Estimand, name: str) -> Part:
    """Choose one model of each method, by name, never by the order of rows."""
    models: dict[str, dict[str, int]] = {}
    for i, (label, model) in enumerate(reduced.methods):
        models.setdefault(label, {})[model] = i
    rows = {}
    for label, found in models.items():
        wanted = estimand.get(label) if isinstance(estimand, Mapping) else estimand
        if wanted is None:
            wanted = usual_model(found)
        elif wanted not in found:
            raise ValueError(
                f"estimand of {label} must be one of {', '.join(sorted(found))} in {name}, got {wanted!r}."
            )
        rows[label] = found[wanted]
    return Part(reduced, rows)


def usual_model(models: Iterable[str]) -> str:
    """Return which of a method's models is measured where nobody chooses."""
    found = sorted(models)
    return next((model for model in _MODELS if model in found), found[0])
