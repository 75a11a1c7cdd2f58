"""From a configuration to a run folder: what it ran, who held what, the run itself, and what it amounts to."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

import fedstat as fs
from fedstat._files import atomic_file, complete_folder, locked, sha256, write_text
from fedstat._in_words import counted
from fedstat._sealed import seal, unseal
from fedstat.data import Partition
from fedstat.experiment.build import Setup, set_up
from fedstat.experiment.config import Experiment, to_table
from fedstat.experiment.estimate import estimate
from fedstat.experiment.gaps import gaps
from fedstat.experiment.summaries import Summary, per_client, summarise
from fedstat.experiment.tuning import chosen_for
from fedstat.federated import Result
from fedstat.federated.fingerprint import of_clients, of_seeds
from fedstat.federated.plan import make_plan
from fedstat.federated.record.progress import Shown
from fedstat.federated.record.result import revive
from fedstat.inference import compare
from fedstat.inference.reading.formats.fedstat import NEW_CLIENTS, NOTED

#: Keys in which a run and the one that continues it may differ.
_FREE = ("rounds", "checkpoint", "evaluation.control", "evaluation.margin", "evaluation.predictions")


def run(experiment: Experiment, out: str | Path, *, resume: bool = False, progress: Shown = None) -> Result:
    """Run an experiment into a folder.

    The folder holds ``experiment.toml``, ``partition-SEED.npz`` and ``.svg``, ``run/`` (`fedstat.load` reads it),
    ``clients.csv``, ``summary.csv`` and ``pairs.csv``; for a table with gaps, ``gaps.csv`` and ``gaps.txt``: what was
    filled and how, and which words training lacks; where there are new clients, ``new-clients.csv``, hashes of their
    samples and, where predictions are kept, ``new-clients-predictions.parquet``; where parameters were tuned first,
    ``tuning.csv``, ``tuning.txt`` and all trials in ``tuning/``. A process that is killed leaves a folder that `resume`
    continues.

    Parameters
    ----------
    experiment : Experiment
        As `fedstat.experiment.read` returns it.
    out : path
        The folder.
    resume : bool
        Continue what lies there, which must be the same experiment with as many rounds and seeds or fewer; only what is
        missing is run. A finished run is only summarised again; where nothing lies yet the run starts.
    progress : bool or "lines", optional
        As in `fedstat.federate`.

    Raises
    ------
    ValueError, OSError
        If data, network and methods do not fit together, or the folder holds something else or is being written by
        another process; nothing is written then.
    FloatingPointError, Terminated
        As in `fedstat.federate`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "mine.toml")
    >>> _ = file.write_text('''rounds = 2
    ... data.name = "digits"
    ... partition = {kind = "iid", clients = 4}
    ... model = {name = "mlp", widths = [8]}
    ... training.lr = 0.1
    ... method.FedAvg = {}''')
    >>> result = fs.experiment.run(fs.experiment.read(file), file.parent / "out", progress=False)
    >>> sorted(path.name for path in (file.parent / "out").iterdir())
    ['clients.csv', 'experiment.toml', 'partition-0.npz', 'partition-0.svg', 'run', 'summary.csv']
    """
    check_folder(Path(out), experiment, resume)
    setup = set_up(experiment)
    estimate(setup)  # a rehearsal: what does not fit together fails before anything is written
    result, _ = carry_out(setup, Path(out), progress, resume=resume)
    return result


def check_folder(out: Path, experiment: Experiment, resume: bool) -> int:
    """Return how many rounds of the experiment a folder holds; refuse anything else, and a run that is not to go on."""
    before = _kept(out, settled(out, experiment), resume)
    return 0 if before is None else int(before.config["rounds"])


def _kept(out: Path, experiment: Experiment, resume: bool, **known: Any) -> Result | None:
    """Read what a folder holds of the experiment; `known` as in `revive`. Raises as `check_folder`."""
    begun = complete_folder(out / "run").exists()
    if not (out / "experiment.toml").exists():
        # hidden is what was not finished when a process was killed
        if begun:
            raise ValueError(f"{out / 'experiment.toml'} is missing beside the run that it describes; put it back.")
        if out.is_file() or (out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir())):
            raise ValueError(f"{out} exists and is no run folder; choose another with --out. Nothing was written.")
        return None
    if not resume:
        held = "a run already; continue it" if begun else "a run without rounds; begin it"
        raise ValueError(f"{out} holds {held} with --resume, or choose another folder with --out.")
    _check_same(out, experiment, begun)
    if not begun:
        return None
    before = revive(out / "run", **known)
    if before.config["rounds"] > experiment.rounds:
        held = counted(before.config["rounds"], "round")
        raise ValueError(f"{out} holds {held} already, more than rounds = {experiment.rounds}.")
    finished = before.config["rounds"] == experiment.rounds
    if finished and experiment.evaluation.predictions and not before.config.get("predictions"):
        raise ValueError(
            f"{out} holds a finished run without predictions, which come with the last round: raise rounds to continue "
            "it with them, or choose another folder with --out."
        )
    return before


def _check_same(out: Path, experiment: Experiment, begun: bool) -> None:
    """Refuse an experiment that differs from the folder's by more than a run that goes on may."""
    table = tomllib.loads(unseal(out / "experiment.toml"))
    was = dict(_flat(table))
    now = dict(_flat(to_table(experiment)))
    seeds = np.atleast_1d(was.get("seed", [])).tolist()
    if list(experiment.seeds[: len(seeds)]) == seeds:  # more seeds are run beside those that are there
        was["seed"] = now["seed"]
    if {was.get("executor"), now["executor"]} == {"auto", "ray"}:  # the same work, elsewhere
        was["executor"] = now["executor"]
    added = [label for label in experiment.method if label not in table.get("method", {})]
    keys = [key for key in (was | now) if was.get(key) != now.get(key) and key not in _FREE]
    keys = [key for key in keys if not key.startswith(tuple(f"method.{label}." for label in added))]
    if keys or added:
        told = [f"{key} was {was.get(key)!r} and is {now.get(key)!r}" for key in keys]
        differing = "; ".join([*told, *(f"method.{label} is new" for label in added)])
        way = ""
        if not begun:
            way = " It holds no round of a run yet: remove it, or take another."
        elif added:
            way = (
                f" Run {' and '.join(added)} alone: from a file without the other methods, into a folder of its own. "
                f"Then 'fedstat compare {out} THAT_FOLDER' pairs the runs by seed."
            )
        raise ValueError(
            f"{out} holds another experiment: {differing}. Only {', '.join(_FREE)}, auto or ray as executor, and "
            f"further seeds may differ.{way}"
        )


def carry_out(setup: Setup, out: Path, progress: Shown = None, *, resume: bool = False) -> tuple[Result, Summary]:
    """Run, or continue, what was set up, in a folder of its own; then summarise it. Raises as `run`."""
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(out / "experiment"))
        except BlockingIOError:
            raise BlockingIOError(f"{out} is being written by another process; nothing was written.") from None
        return _carried_out(setup, out, progress, resume)


def _carried_out(setup: Setup, out: Path, progress: Shown, resume: bool) -> tuple[Result, Summary]:
    """Do as `carry_out`, for a caller that keeps others from the folder."""
    experiment = settled(out, setup.experiment)
    setup = replace(setup, experiment=experiment)
    known = {"model": setup.model, "methods": setup.methods, "training": setup.training}
    before = _kept(out, experiment, resume, **known)
    files = {seed: out / f"partition-{seed}.npz" for seed in setup.partitions}
    unseen = {str(seed): of_clients(clients) for seed, clients in setup.unseen.items()}
    noted = out / NOTED  # a run knows nothing of them
    _check_dealt_alike(setup, files, noted, unseen)
    if before is None:
        _write_experiment(out, experiment)
    setup, tuned = chosen_for(setup, out, progress)
    if before is not None:
        before = replace(before, methods=setup.methods, training=setup.training)
        before.check_same(of_seeds(_config(setup), before.config["seeds"]))
        _write_experiment(out, experiment)
    if unseen:
        write_text(noted, json.dumps(unseen, indent=2) + "\n")
    for seed, file in files.items():
        if not file.exists():
            setup.partitions[seed].save(file)
    if before is None or before.config["rounds"] < experiment.rounds:
        before = fs.federate(
            setup.methods,
            setup.model,
            setup.dealt,
            setup.training,
            rounds=experiment.rounds,
            participation=setup.participation,
            attack=setup.attack,
            seed=experiment.seeds if before is None else before.config["seeds"],
            vary=experiment.vary,
            dtype=experiment.dtype,
            device=experiment.device,
            executor=setup.executor,
            validate=experiment.partition.validation > 0,
            metrics=setup.metrics,
            trained=experiment.evaluation.trained,
            predictions=experiment.evaluation.predictions,
            stop=experiment.stop,
            plan=experiment.plan,
            evaluate_at=experiment.evaluated,
            resume=before,
            folder=out / "run",
            checkpoint=experiment.checkpoint,
            progress=progress,
        )
    if len(before.config["seeds"]) < len(experiment.seeds):
        before = fs.extend(
            before,
            experiment.seeds,
            clients=setup.dealt,
            attack=setup.attack,
            metrics=setup.metrics,
            device=experiment.device,
            executor=setup.executor,
            participation=None if isinstance(setup.participation, float) else setup.participation,
            folder=out / "run",
            checkpoint=experiment.checkpoint,
            progress=progress,
        )
    if setup.dataset.classes:
        for seed, file in files.items():
            _draw_partition(file.with_suffix(".svg"), setup.partitions[seed], setup)
    return before, _summarised(setup, before, out, tuned)


def _check_dealt_alike(setup: Setup, files: dict[int, Path], noted: Path, unseen: dict[str, Any]) -> None:
    """Refuse a folder in which partitions, or the samples of new clients, are others than those set up."""
    for seed, file in files.items():
        if file.exists() and Partition.load(file).fingerprint != setup.partitions[seed].fingerprint:
            raise ValueError(f"{file} holds another partition: the data, or how they are dealt, have changed since.")
    try:
        known = dict(json.loads(noted.read_bytes())) if noted.exists() else {}
        known.pop("predictions", None)  # which are made again
    except (ValueError, TypeError) as error:
        raise ValueError(f"{noted} is damaged: {error}. Put back what was there.") from None
    if any(unseen.get(seed) != hashes for seed, hashes in known.items()):
        raise ValueError(f"{noted} holds hashes of other samples: those of new clients have changed since.")


def settled(out: Path, experiment: Experiment) -> Experiment:
    """Fill in what tuning takes from the run; one that is continued keeps what it had, and with it its choices."""
    tune = experiment.tune
    if tune is None:
        return experiment
    file = out / "experiment.toml"
    was = tomllib.loads(unseal(file)).get("tune", {}) if file.exists() else {}
    rounds = tune.rounds or was.get("rounds", experiment.rounds)
    last = tune.last or was.get("last", experiment.evaluation.last)
    return replace(experiment, tune=replace(tune, rounds=rounds, last=last))


def _write_experiment(out: Path, experiment: Experiment) -> None:
    with atomic_file(out / "experiment.toml") as path:
        path.write_bytes(seal(tomli_w.dumps(to_table(experiment))))


def _config(setup: Setup) -> dict[str, Any]:
    """Describe the run that an experiment makes, as a run's folder does."""
    how, validate = setup.experiment, setup.experiment.partition.validation > 0
    plan = make_plan(
        setup.methods, setup.model, setup.dealt, setup.training, setup.participation, how.seeds, how.vary, None,
        how.dtype, how.device, setup.executor, setup.attack,
    )  # fmt: skip
    return plan.observed(how.plan, setup.metrics, how.stop, validate=validate, trained=how.evaluation.trained).config


def _draw_partition(path: Path, partition: Partition, setup: Setup) -> None:
    """Write a partition's picture. It comes after the training, which need not wait for it."""
    import matplotlib.pyplot as plt

    from fedstat.report.partition import who_holds_what

    figure = who_holds_what(partition, setup.dataset.y, setup.dataset.classes)
    with plt.rc_context({"svg.hashsalt": "fedstat"}), atomic_file(path) as temporary:
        figure.savefig(temporary, metadata={"Date": None})
        temporary.write_bytes(seal(temporary.read_text(encoding="utf-8"), markup=True))
    plt.close(figure)


def _summarised(setup: Setup, result: Result, out: Path, tuned: str) -> Summary:
    """Write the tables of a finished run."""
    how = setup.experiment.evaluation
    offered, predicted, notes = _offered(setup, result)
    lacking, told = gaps(setup)
    compared = partial(compare, result, last=how.last, margin=how.margin)
    comparison, pairs = compared(control=how.control or "auto"), compared(control=None)
    honest = result.clients.query("not attacker") if "attacker" in result.clients else result.clients
    known = {
        seed: pd.DataFrame(
            {
                "name": clients.names,
                **{f"{split}_samples": samples.n for split, samples in clients.splits.items()},
                **({"train_majority_share": clients.majority_share()} if clients.classes else {}),
            }
        )
        for seed, clients in setup.clients.items()
    }
    summary = summarise(
        result.history,
        result.traffic,
        {seed: clients.train.n for seed, clients in setup.clients.items()},
        honest["test"].to_numpy(),
        comparison,
        last=how.last,
        newcomers=offered,
        tuned=tuned,
        notes=(*notes, *told),
        lossy=setup.dataset.lossy,
    )
    tables = {
        "clients.csv": per_client(result.history, result.traffic, known, how.last),
        "summary.csv": summary.table(),
        "pairs.csv": pairs.differences,
        "new-clients.csv": offered,
        "gaps.csv": lacking,
    }
    if told:
        write_text(out / "gaps.txt", "\n".join(told) + "\n")
    for name, table in tables.items():
        if table is not None and len(table):
            with atomic_file(out / name) as path:
                (table.assign(data=summary.stamp) if summary.stamp else table).to_csv(path, index=False)
    if predicted is not None:
        with atomic_file(out / NEW_CLIENTS) as path:
            predicted.to_parquet(path, index=False)
        noted = json.loads((out / NOTED).read_bytes()) | {"predictions": sha256(out / NEW_CLIENTS)}
        write_text(out / NOTED, json.dumps(noted, indent=2) + "\n")
    else:
        (out / NEW_CLIENTS).unlink(missing_ok=True)  # those of fewer rounds
    return summary


def _offered(setup: Setup, result: Result) -> tuple[pd.DataFrame | None, pd.DataFrame | None, tuple[str, ...]]:
    """Return what every method offers new clients: values, predictions if kept, and notes on methods without a rule."""
    tables, predicted, notes = [], [], dict[str, None]()
    for key, state in result.states.items():
        if (unseen := setup.unseen.get(key[1])) is not None:
            offer = partial(fs.newcomers, replace(result, states={key: state}), unseen, device=setup.experiment.device)
            try:
                table = offer()
            except ValueError as error:
                notes[f"{key[0]} offers new clients nothing: {error}"] = None
                continue
            tables.append(table.assign(name=np.asarray(unseen.names)[table["client"]]))
            if setup.experiment.evaluation.predictions:
                found = offer(predictions=True)
                predicted.append(found.assign(client=found["name"]))  # other seeds may have other new clients
    offered, kept = (pd.concat(of, ignore_index=True) if of else None for of in (tables, predicted))
    return offered, kept, tuple(notes)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values by dotted keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
