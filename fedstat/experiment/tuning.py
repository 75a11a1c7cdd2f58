"""What ``[tune]`` asks for: every method's parameters, chosen on validation samples before the run begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._files import atomic_file, write_text
from fedstat.experiment.build import Setup
from fedstat.experiment.parsing import grid_of
from fedstat.federated.client.local import training_of
from fedstat.federated.record.progress import Shown, announce

#: Said where samples that test under a seed of the run may have validated under a seed of tuning.
_MIXED = (
    "; seeds deal samples anew, so that some that test under a seed of the run validated under one of tuning: an "
    'official test part (partition.test = "all"), or vary without "partition", keeps them apart'
)


def chosen_for(setup: Setup, out: Path, progress: Shown = None) -> tuple[Setup, str]:
    """Tune the methods that have something to choose, and return the set-up with the choices, and how they were made.

    Every finished trial stays under ``tuning/`` in the run's folder, so that the same call continues. Without
    ``[tune]`` nothing is done.
    """
    experiment, tune = setup.experiment, setup.experiment.tune
    if tune is None:
        return setup, ""
    grids = {label: grid_of(experiment, label, values) for label, values in experiment.grids.items()}
    metric = tune.metric or ("accuracy" if setup.dataset.classes else "mse")
    try:
        found = fs.tune(
            {label: grid.maker for label, grid in grids.items()},
            {label: grid.values for label, grid in grids.items()},
            setup.model,
            setup.tuning_clients(),
            {label: training_of(setup.training, label) for label in grids},
            rounds=tune.rounds or experiment.rounds,
            seed=tune.seeds,
            growths=tune.growths,
            last=tune.last or experiment.evaluation.last,
            metric=metric,
            fresh=tune.fresh or None,
            folder=out / "tuning",
            participation=setup.participation,
            attack=setup.attack,
            metrics=setup.metrics,
            dtype=experiment.dtype,
            device=experiment.device,
            executor=setup.executor,
            checkpoint=experiment.checkpoint,
            progress=progress,
        )
    except (FloatingPointError, ValueError) as error:
        raise type(error)(f"tune, {error}") from None
    announce(progress, "the run, with what was chosen")
    table = pd.concat([tuning.table.assign(method=label) for label, tuning in found.items()], ignore_index=True)
    table = table[["method", "trial", "mean", "low", "high", "chosen"]].rename(columns={"mean": f"mean {metric}"})
    with atomic_file(out / "tuning.csv") as path:
        table.to_csv(path, index=False)
    write_text(out / "tuning.txt", f"{found}\n")
    untuned = [label for label in setup.methods if label not in found]
    told = found.sentence
    if untuned:
        told += f"; {', '.join(untuned)} not tuned, so that methods had unequal budgets"
    mixes = "partition" in experiment.vary and not isinstance(getattr(experiment.partition, "test", "all"), str)
    return (
        replace(setup, methods={**setup.methods, **found.method}, training={**experiment.trainings, **found.training}),
        told + _MIXED * mixes,
    )
