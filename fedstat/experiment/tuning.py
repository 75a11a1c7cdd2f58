"""What ``[tune]`` asks for: every method's parameters, chosen on validation samples before the run begins."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._files import atomic_file
from fedstat.experiment.build import Setup
from fedstat.experiment.reading import grid_of
from fedstat.federated.client.local import training_of
from fedstat.federated.record.progress import Shown, announce
from fedstat.tuning import Tuning
from fedstat.tuning.grid import shown

#: Said where samples that test under a seed of the run may have validated under a seed of tuning.
_MIXED = (
    "; seeds deal samples anew, so that some that test under a seed of the run validated under one of tuning: an "
    'official test part (partition.test = "all"), or vary without "partition", keeps them apart'
)


def chosen_for(setup: Setup, out: Path, progress: Shown = None) -> tuple[Setup, str]:
    """Tune the methods that have something to choose, and return the set-up with the choices, and how they were made.

    Every finished trial stays under ``tuning/`` in the run's folder, so that the same call continues; ``tuning.csv``
    lists all of them, and ``tuning.txt`` says what was chosen, at what cost and how optimistically. Without ``[tune]``
    nothing is done.

    Raises
    ------
    ValueError, FloatingPointError
        As `fedstat.tune`; the table is named.
    """
    experiment, tune = setup.experiment, setup.experiment.tune
    if tune is None:
        return setup, ""
    methods, training = dict(setup.methods), dict(experiment.trainings)
    found: dict[str, Tuning] = {}
    for number, (label, values) in enumerate(experiment.grids.items(), 1):
        if values:
            grid = grid_of(experiment, label, values)
            announce(f"tuning {label}", progress)
            try:
                found[label] = fs.tune(
                    grid.maker,
                    grid.values,
                    setup.model,
                    setup.tuning_clients(),
                    training_of(setup.training, label),
                    rounds=tune.rounds or experiment.rounds,
                    seed=tune.seeds,
                    last=tune.last or experiment.evaluation.last,
                    metric=tune.metric or ("accuracy" if setup.dataset.classes else "mse"),
                    fresh=tune.fresh or None,
                    folder=out / "tuning" / f"{number}-{re.sub(r'[^A-Za-z0-9]+', '-', label)}",
                    participation=experiment.participation,
                    metrics=setup.metrics,
                    dtype=experiment.dtype,
                    device=experiment.device,
                    executor=setup.executor,
                    checkpoint=experiment.checkpoint,
                    progress=progress,
                )
            except FloatingPointError as error:
                raise FloatingPointError(f"tune, {label}: {error}") from None
            except ValueError as error:
                raise ValueError(f"tune, {label}: {error}") from None
            methods[label], training[label] = found[label].method, found[label].training
    announce("the run, with what was chosen", progress)
    table = pd.concat([_rows(label, tuning) for label, tuning in found.items()], ignore_index=True)
    with atomic_file(out / "tuning.csv") as path:
        table.to_csv(path, index=False)
    told = _words(found, list(methods)) + (_MIXED if _mixes(setup) else "")
    with atomic_file(out / "tuning.txt") as path:
        each = [f"{label}\n\n{tuning}" for label, tuning in found.items()]
        path.write_text("\n\n".join([f"{told[0].upper()}{told[1:]}.", *each]) + "\n", encoding="utf-8")
    return replace(setup, methods=methods, training=training), told


def _mixes(setup: Setup) -> bool:
    """Tell whether samples that test under a seed of the run may have validated under a seed of tuning."""
    test = getattr(setup.experiment.partition, "test", "all")
    return "partition" in setup.experiment.vary and not isinstance(test, str)


def _rows(label: str, tuning: Tuning) -> pd.DataFrame:
    """Return a method's trials as rows that those of other parameters go with."""
    table = tuning.table[["trial", "mean", "low", "high", "chosen"]].rename(columns={"mean": f"mean {tuning.metric}"})
    table.insert(0, "method", label)
    return table


def _words(found: dict[str, Tuning], labels: list[str]) -> str:
    """Say what was chosen, by how many trials, and whether all methods could choose from as many."""
    one = next(iter(found.values()))
    trials = {label: int(tuning.budget.loc["tuning", "trials"]) for label, tuning in found.items()}
    ends = {label: " and ".join(tuning.ends) for label, tuning in found.items()}
    chosen = ", ".join(
        f"{label} {', '.join(f'{name} = {shown(value)}' for name, value in tuning.best.items())} "
        f"(one of {trials[label]} trials{ends[label] and f'; {ends[label]} at the end of the grid'})"
        for label, tuning in found.items()
    )
    how = f"{one.metric} on validation samples, {one.rounds} rounds under the seeds {', '.join(map(str, one.seeds))}"
    said = f"parameters were chosen by {how}: {chosen}"
    untuned = [label for label in labels if label not in found]
    if untuned:
        return f"{said}; {', '.join(untuned)} not tuned, so that methods had unequal budgets"
    return said if len(set(trials.values())) == 1 else f"{said}; methods had unequal budgets of trials"
