"""More seeds for a finished run: only what is missing is run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat._checks import whole
from fedstat.data import Clients
from fedstat.federated.attacks import Attack, poisons
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.local import AnyTraining
from fedstat.federated.client.network import Model
from fedstat.federated.engine.executor import NAMES, AnyExecutor
from fedstat.federated.federate import carry_out
from fedstat.federated.fingerprint import differences, digest, of_seeds
from fedstat.federated.method import Method
from fedstat.federated.metrics import BUILT_IN, Metric, choose_metrics
from fedstat.federated.patience import Patience
from fedstat.federated.plan import Plan, Population, make_plan, seeds_of
from fedstat.federated.record.progress import Shown
from fedstat.federated.record.result import Result, load
from fedstat.federated.record.rows import joined
from fedstat.federated.record.run_folder import check_free, sole_writer
from fedstat.federated.recorder import from_ranges
from fedstat.federated.revival import revived_method
from fedstat.federated.rounds import Key


def extend(
    result: Result,
    seeds: int | Iterable[int],
    *,
    clients: Population | None = None,
    model: Model | None = None,
    methods: Mapping[str, Method] | None = None,
    training: AnyTraining | None = None,
    attack: Attack | None = None,
    metrics: Mapping[str, Metric] | Iterable[str] = (),
    chunk: int | None = None,
    device: str | None = None,
    executor: AnyExecutor | None = None,
    participation: Attendance | None = None,
    folder: str | Path | None = None,
    checkpoint: int | None = None,
    progress: Shown = None,
) -> Result:
    """Run a finished run under more seeds: the same methods, network, clients, training and rounds.

    The outcome is that of one run of all seeds, to the bits where clients train by themselves ("per-client") on a
    processor, and otherwise within rounding, since a stack of other size, or a GPU, may sum in another order.

    Parameters
    ----------
    result : Result
        The finished run; it stays as it is.
    seeds : int or iterable of int
        How many seeds there shall be, counted on from the first; or the seeds themselves. Those that the run has stay.
    clients : Clients or callable, optional
        As in `federate`; needed where the run drew them by seed, was loaded from a folder, or had its data poisoned.
    model, methods, training, attack, metrics
        As in `federate`, where the run does not know them: after loading, if they are not fedstat's own.
    chunk, device, executor, checkpoint, progress
        As in `federate`; by default the run's own device and executor.
    participation : Attendance, optional
        As in `federate`, where the run does not know it: a trace, or an attendance of one's own.
    folder : path, optional
        Where to save the whole: the folder of `result`, or a free one. What lay there stays until all is complete.
        Checkpoints lie beside it under a hidden name, and the same call continues from them.

    Returns
    -------
    Result
        Of all seeds, those of `result` first.

    Raises
    ------
    ValueError
        If the run is not finished, something that is needed is not given, or it is not the run's; the message names it.
    OSError, FloatingPointError, Terminated
        As `federate`.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> more = fs.extend(result, seeds=2, progress=False)
    >>> sorted(more.states)
    [('Ditto', 0), ('Ditto', 1), ('FedAvg', 0), ('FedAvg', 1)]
    """
    if not isinstance(result, Result):
        raise ValueError(f"result must be a Result, as fs.load returns it, got {result!r}.")
    config = result.config
    if not config["finished"]:
        raise ValueError(
            f"the run holds {config['rounds']} of {config['rounds_asked']} rounds; finish it first, with "
            "fs.federate(..., resume=result)."
        )
    new = _missing(config["seeds"], seeds)
    attendance = revived_method(config["participation"]) if participation is None else participation
    if attendance is None:
        raise ValueError("this result does not know its attendance; pass participation=...")
    known = _known(result, model, methods, training)
    against = _attack(result, attack)
    drawn, measured = _clients(result, clients, against), _metrics(config, metrics)
    stop = Patience(**{k: v for k, v in config["stop"].items() if k != "type"}) if config["stop"] else None

    def planned(seeds: list[int]) -> Plan:
        assert known.model is not None
        assert known.training is not None
        plan = make_plan(
            known.methods, known.model, drawn, known.training, attendance, seeds, config["vary"], chunk,
            config["dtype"], config["device"] if device is None else device, _executor(config, executor),
            against, config["seeds"][0],
        )  # fmt: skip
        asked = {name: config.get(name, False) for name in ("validate", "trained", "predictions")}
        return plan.observed(result.plan, measured, stop, **asked)

    first = config["seeds"][:1]
    if told := differences(of_seeds(config, first), planned(first).config):
        raise ValueError(f"the run to extend has {', '.join(told)}; only seeds may differ.")
    if not new and folder is None:
        return result
    with nullcontext() if folder is None else sole_writer(folder) as place:
        if place is not None:
            check_free(place, config)
        whole_run = result
        part = None if place is None else place.with_name(f".{place.name}.seeds")
        if new:
            plan = planned(new)
            checkpoint = None if checkpoint is None else whole("checkpoint", checkpoint, 1)
            before = _before(part, plan, config["seeds"])
            if before is None or not before.config["finished"]:
                evaluated = from_ranges(config["evaluated"])
                before = carry_out(plan, config["rounds_asked"], evaluated, before, part, checkpoint, progress)
            whole_run = _joined(known, before)
        if place is not None and part is not None:
            files = whole_run.write(place)["predictions"]
            whole_run = replace(whole_run, predicted=dict(zip(whole_run.states, files, strict=False)))
            _remove(part)
    return whole_run


def _missing(there: Sequence[int], wanted: int | Iterable[int]) -> list[int]:
    """Return the seeds that are still to be run."""
    if isinstance(wanted, Iterable):
        return [seed for seed in seeds_of(wanted) if seed not in there]
    if whole("seeds", wanted, 1) < len(there):
        raise ValueError(f"seeds must be at least the {len(there)} that the run has, got {wanted}.")
    others = (seed for seed in count(there[0]) if seed not in there)
    return seeds_of([next(others) for _ in range(wanted - len(there))]) if wanted > len(there) else []


def _known(
    result: Result, model: Model | None, methods: Mapping[str, Method] | None, training: AnyTraining | None
) -> Result:
    """Complete what a result knows of its run, and refuse one that knows too little."""
    known = {**result.methods, **(methods or {})}
    labels = list(result.config["methods"])
    if strange := [label for label in known if label not in labels]:
        raise ValueError(f"methods: the run has no method {strange[0]!r}; it has {', '.join(labels)}.")
    if lacking := [label for label in labels if label not in known]:
        raise ValueError(f"this result does not know the method of {lacking[0]!r}; pass methods={{label: method}}.")
    model = result.model if model is None else model
    training = result.training if training is None else training
    if model is None:
        raise ValueError("this result does not know its network; pass model=...")
    if training is None:
        raise ValueError("this result does not know its loss, optimiser or schedule; pass training=...")
    return replace(result, model=model, methods={label: known[label] for label in labels}, training=training)


def _attack(result: Result, given: Attack | None) -> Attack | None:
    """Return the attack of the run, if there is one."""
    if given is not None or "attack" not in result.config:
        return given
    for run in result.runs.values():
        return run.replicate.attack
    if (found := revived_method(result.config["attack"]["what"])) is None:
        raise ValueError("this result was loaded, and its attack is not fedstat's own; pass attack=...")
    return found


def _clients(result: Result, given: Population | None, attack: Attack | None) -> Population:
    """Return the clients, or the function that draws them."""
    varies = not {"data", "partition"}.isdisjoint(result.config["vary"])
    if varies and (given is None or isinstance(given, Clients)):
        raise ValueError("the run's clients differ from seed to seed; pass clients=, the function that draws them.")
    if given is not None:
        return given
    if poisons(attack):
        raise ValueError("the run's clients hold data that the attack poisoned; pass clients=, as they were before.")
    if not result.federations:
        raise ValueError("this result was loaded, and a run's folder does not hold the samples; pass clients=...")
    return next(iter(result.federations.values())).clients


def _metrics(config: Mapping[str, Any], given: Mapping[str, Metric] | Iterable[str]) -> dict[str, Metric]:
    """Return the metrics that the run measured beside the standard ones."""
    known = {**BUILT_IN, **choose_metrics(given)}
    for name, code in config["metrics"].items():
        if name not in known or digest(known[name]) != code:
            raise ValueError(f"the run measured {name!r} by a function of its own; pass metrics={{{name!r}: ...}}.")
    return {name: known[name] for name in config["metrics"]}


def _executor(config: Mapping[str, Any], given: AnyExecutor | None) -> AnyExecutor:
    if given is not None:
        return given
    for name in NAMES:
        if config["executor"] == name:
            return name
    raise ValueError(f"the run's executor is {config['executor']}, an object of its own; pass executor=...")


def _before(part: Path | None, plan: Plan, there: Sequence[int]) -> Result | None:
    """Return what an earlier call has done of the missing seeds before it was stopped."""
    if part is None or not part.exists():
        return None
    before = load(part, plan.model, plan.methods, plan.training)
    if set(before.config["seeds"]) <= set(there):  # it was stopped after all was saved
        _remove(part)
        return None
    if before.config["seeds"] != list(plan.replicates):
        listed = ", ".join(map(str, before.config["seeds"]))
        raise ValueError(f"{part} holds the beginning of seeds {listed}; extend by these first, or remove it.")
    before.check_same(plan.config)
    return before


def _remove(part: Path) -> None:
    """Remove a run's folder; killed meanwhile, it is not taken for a run."""
    if part.exists():
        aside = part.with_name(f"{part.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(part, aside)
        shutil.rmtree(aside)


def _joined(here: Result, there: Result) -> Result:
    """Return one run of the seeds of two, rows in the order of a run of all seeds."""
    seeds = [*here.config["seeds"], *there.config["seeds"]]
    keys = [(label, seed) for label in here.config["methods"] for seed in seeds]

    def both(name: str) -> dict[Key, Any]:
        found = {**getattr(here, name), **getattr(there, name)}
        return {key: found[key] for key in keys if key in found}

    def table(name: str) -> pd.DataFrame:
        one, other = getattr(here, name), getattr(there, name)
        rows = joined([one, other], dict(one.dtypes))
        run = pd.MultiIndex.from_tuples(keys).get_indexer(pd.MultiIndex.from_frame(rows[["method", "seed"]]))
        return rows.take(np.lexsort((run, rows["round"]))).reset_index(drop=True)

    tables = ("classes", "clients", "fingerprint")
    return replace(
        here,
        history=table("history"),
        traffic=table("traffic"),
        clients=pd.concat([here.clients, there.clients], ignore_index=True),
        states=both("states"),
        records=both("records"),
        kept=both("kept"),
        runs=both("runs"),
        predicted=both("predicted"),
        config={
            **here.config,
            **{name: here.config[name] | there.config[name] for name in tables},
            "seeds": seeds,
            "looks": [*here.config.get("looks", [len(here.config["seeds"])]), len(seeds)],
            "device": there.config["device"],
            "rounds": max(here.config["rounds"], there.config["rounds"]),
        },
    )
