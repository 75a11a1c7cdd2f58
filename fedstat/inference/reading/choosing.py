"""Choose what is compared where nobody says it: split, metric, and the model of each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedstat.inference.formatting import listed
from fedstat.inference.predictions.metrics import METRICS as PREDICTED
from fedstat.inference.reading.opening import Entry
from fedstat.inference.reading.reduction import Reduced
from fedstat.inference.reading.scores import usual_metric, usual_split

Estimand = str | Mapping[str, str] | None
#: fedstat's names of models: of a method that has several the first one is measured where nobody chooses.
_MODELS = ("personal", "fine-tuned", "cluster", "global", "trained")


def choose_split(runs: Mapping[str, Entry], split: str | None) -> str:
    """Return the split that is measured on: by default of the clients' test samples, else validation, else training."""
    there = {name: {of for _, of in run.rounds} for name, run in runs.items()}
    wanted = {name: split or usual_split(found) for name, found in there.items()}
    for name, one in wanted.items():
        if one not in there[name]:
            known = ", ".join(sorted(there[name]))
            raise ValueError(f"results must hold evaluations, but {name} has none of split {one!r}; it has {known}.")
    if len(set(wanted.values())) > 1:
        each = ", ".join(f"{name}: {one}" for name, one in wanted.items())
        raise ValueError(f"results must be measured on one split, got {each}; choose one that all have with split=.")
    return str(next(iter(wanted.values())))


def choose_metric(runs: Mapping[str, Entry], metric: str | None, split: str) -> str:
    """Return the metric compared: by default accuracy, else mse, else the only one that all runs have."""
    there = {name: [one for one, of in run.rounds if of == split] for name, run in runs.items()}
    common = [one for one in next(iter(there.values())) if all(one in found for found in there.values())]
    if metric is None:
        metric = usual_metric(common)
        if metric is None:
            known = ", ".join(common) or "; ".join(f"{name}: {', '.join(found)}" for name, found in there.items())
            raise ValueError(f"results have no metric in common that is the usual one; choose with metric=. {known}.")
    for name, found in there.items():
        if metric not in found:
            kept = bool((runs[name].config or {}).get("predictions")) and metric in PREDICTED
            raise ValueError(
                f"metric {metric!r} is not in the history of {name}, split {split!r}; it has {', '.join(found)}."
                + f" It follows from the predictions that the run keeps: fs.assess({name!r}, {metric!r})." * kept
            )
    return metric


def choose_models(reduced: Reduced, estimand: Estimand, name: str, *, own: bool) -> Reduced:
    """Keep one model of each method, as `measured_models` chooses it, of the result called `name`."""
    models: dict[str, list[str]] = {}
    for label, model in reduced.methods:
        models.setdefault(label, []).append(model)
    chosen = tuple(measured_models(models, estimand, name, own=own).items())
    rows = [reduced.methods.index(one) for one in chosen]
    arrays = ("values", "counts", "missing", "curves", "present", "last_round")
    return replace(reduced, methods=chosen, **{of: getattr(reduced, of)[rows] for of in arrays})


def measured_models(
    models: Mapping[str, Sequence[str]], estimand: Estimand, source: str, *, own: bool = False
) -> dict[str, str]:
    """Return which of its models each method is measured by; refuse those of which none is known to be meant.

    `models` and the answer are by label, `estimand` is the model that is asked for, of all methods or by label, and
    `source` says in words what holds the values. With `own` each method lists its own model first, as in the results of
    fedstat; otherwise fedstat's names tell.
    """
    chosen, unclear = dict[str, str](), dict[str, None]()
    for label, found in models.items():
        wanted = estimand.get(label) if isinstance(estimand, Mapping) else estimand
        if wanted is not None and wanted not in found:
            raise ValueError(
                f"estimand of {label} must be one of {', '.join(sorted(found))} in {source}, got {wanted!r}."
            )
        if wanted is None and (own or len(found) == 1):
            wanted = found[0]
        elif wanted is None and {*found} <= {*_MODELS}:
            wanted = min(found, key=_MODELS.index)
        if wanted is None:
            unclear |= dict.fromkeys(sorted(found))
        else:
            chosen[label] = wanted
    if unclear:
        who = listed(label for label in models if label not in chosen)
        options = " or ".join(f"estimand={model!r}" for model in unclear)
        raise ValueError(
            f"{source} measures several models of {who}, and nothing says which of them is meant. Choose {options}."
        )
    return chosen
