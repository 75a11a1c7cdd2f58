"""The round loop: several methods and seeds, trained as one stack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedstat._random import stream
from fedstat.data import Clients
from fedstat.federated.codec import size
from fedstat.federated.evaluation import evaluate
from fedstat.federated.local import Learner, Training
from fedstat.federated.losses import choose_loss
from fedstat.federated.method import Method, Predictor, Update
from fedstat.federated.network import Model, Network, Params
from fedstat.federated.progress import progress_bar
from fedstat.federated.result import Key, Result, check_folder, describe_run, plain
from fedstat.federated.run import Bench, Run, Site, make_site, start_run
from fedstat.federated.training import Pool


def federate(
    method: Method | Sequence[Method] | Mapping[str, Method],
    model: Model,
    clients: Clients | Callable[[int], Clients],
    training: Training,
    *,
    rounds: int,
    participation: float = 1.0,
    seed: int | Iterable[int] = 0,
    evaluate_at: Iterable[int] | None = None,
    chunk: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    resume: Result | None = None,
    folder: str | Path | None = None,
    checkpoint: int = 10,
    progress: bool | None = None,
) -> Result:
    """Train methods on clients and evaluate every client's model.

    All methods and all seeds are trained together, stacked on the client axis. Under one seed they share what
    they can: clients (where these are drawn per seed), initial weights, participants and batch orders.

    Parameters
    ----------
    method : Method, sequence of Method, or mapping of label to Method
        What to run. Labels default to the class names.
    model : callable or nn.Module
        A function building the network (as `fedstat.models` offers), drawn anew for each seed; or a module,
        whose own weights every seed starts from.
    clients : Clients, or callable
        The data, or a function from a seed to data.
    training : Training
        Local training, the same for all methods.
    rounds : int
        Communication rounds in total, those of `resume` included.
    participation : float
        Share of clients drawn in each round, in (0, 1]; at least one.
    seed : int or iterable of int
        Master seeds, one run of every method for each.
    evaluate_at : iterable of int, optional
        Rounds after which all clients are evaluated, 0 for the start; by default every one from 1 on.
    chunk : int, optional
        Clients trained at once; by default as many as fill a fixed number of bytes. Results do not depend on
        it beyond rounding; 1 is the sequential loop.
    dtype : {"float32", "float64"}
        Floating type.
    device : str
        Torch device.
    resume : Result, optional
        Continue from an earlier result of the same configuration with fewer rounds; the outcome equals that
        of an uninterrupted run.
    folder : path, optional
        Save the run there every `checkpoint` rounds and at its end, so that `fedstat.load` and `resume` continue
        what was stopped. Each checkpoint replaces the one before when it is complete. A run that lies there already
        must be the one that is resumed.
    checkpoint : int
        Rounds between checkpoints.
    progress : bool, optional
        Show a progress bar; by default only on a terminal.

    Returns
    -------
    Result
        With the tidy table ``history`` (method, seed, round, client, estimand, split, metric, value). Its rows of
        the estimand ``traffic`` count the bytes that went up from and down to each participant in each round.

    Raises
    ------
    ValueError
        For arguments out of range, duplicate labels, or a network that does not fit the data.
    FloatingPointError
        If a client's loss or weights become infinite or NaN; round, client and learning rate are named. The last
        checkpoint stays.
    """
    if not 0 < participation <= 1:
        raise ValueError(f"participation must be a share in (0, 1], got {participation}.")
    for name, count in (("rounds", rounds), ("chunk", 1 if chunk is None else chunk), ("checkpoint", checkpoint)):
        if not isinstance(count, Integral) or count < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, got {count!r}.")
    if not isinstance(training, Training):
        raise ValueError(f"training must be a fedstat Training, got {training!r}.")
    if resume is not None and not isinstance(resume, Result):
        raise ValueError(f"resume must be a Result, as fs.load returns it, got {resume!r}.")
    if not isinstance(clients, Clients) and not callable(clients):
        raise ValueError(f"clients must be Clients or a function from a seed to Clients, got {type(clients).__name__}.")
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64", got {dtype!r}.')
    methods, seeds = _labels(method), _seeds(seed)
    every = range(1, rounds + 1)
    if isinstance(evaluate_at, int | str) or not (evaluated := set(every if evaluate_at is None else evaluate_at)) <= {
        0,
        *every,
    }:
        raise ValueError(f"evaluate_at must hold rounds between 0 and {rounds}, got {evaluate_at!r}.")

    sites = _sites(clients, model, seeds, getattr(torch, dtype), device)
    tasks = {choose_loss(training.loss, *_task(site.network, site.clients)) for site in sites.values()}
    if len(tasks) > 1:
        raise ValueError(f"clients(seed) must return one task for all seeds, got losses {', '.join(sorted(tasks))}.")
    (loss,) = tasks
    config = {
        **describe_run(methods, model, training, seeds, participation, dtype),
        "loss": loss,
        "classes": {str(s): plain(site.clients.classes or ()) for s, site in sites.items()},
        "clients": {str(s): len(site.clients) for s, site in sites.items()},
        "fingerprint": {str(s): _fingerprint(site) for s, site in sites.items()},
    }
    first = 0 if resume is None else resume.check_continues(config, rounds)
    if folder is not None:
        check_folder(Path(folder), continues=resume is not None)
    distinct = {site.offset: site.clients.train for site in sites.values()}
    pool = Pool.stack(list(distinct.values()), getattr(torch, dtype), device)
    runs = {
        (label, s): start_run(
            m, sites[s], Bench(loss, training, pool, chunk), None if resume is None else resume.states[label, s]
        )
        for label, m in methods.items()
        for s in seeds
    }
    history: list[pd.DataFrame | _Traffic] = [] if resume is None else [resume.history]

    def result(done: int) -> Result:
        before = {} if resume is None else resume.records
        return Result(
            history=_tidy(history),
            states={key: run.state for key, run in runs.items()},
            records={key: _joined(before.get(key, {}), run.records) for key, run in runs.items()},
            config={**config, "rounds": int(done)},
            model=model,
            methods=methods,
            populations={key: run.population for key, run in runs.items()},
        )

    if resume is None:
        history += [_opened(key, run) for key, run in runs.items()]
    if resume is None and 0 in evaluated:
        history += [_evaluated(key, run, 0) for key, run in runs.items()]
    with progress_bar("rounds", rounds - first, progress) as advance:
        for t in range(first, rounds):
            history += _round(runs, t, participation)
            if t + 1 in evaluated:
                history += [_evaluated(key, run, t + 1) for key, run in runs.items()]
            if folder is not None and ((t + 1) % checkpoint == 0 or t + 1 == rounds):
                result(t + 1).save(folder)
            advance()
    return result(rounds)


def participants(seed: int, round: int, clients: int, participation: float) -> np.ndarray:
    """Return the sorted ids of the clients that take part in `round`: a function of seed and round alone."""
    count = max(1, round_half_up(participation * clients))
    return np.sort(stream(seed, "participants", round).choice(clients, count, replace=False))


def round_half_up(value: float) -> int:
    """Round to the nearest integer, halves up (Python rounds them to even)."""
    return int(np.floor(value + 0.5))


def _labels(method: Method | Sequence[Method] | Mapping[str, Method]) -> dict[str, Method]:
    if isinstance(method, type):
        raise ValueError(f"method must be a fedstat Method, got the class {method.__name__}; call it to make one.")
    if isinstance(method, Mapping):
        methods = dict(method)
    else:
        listed = [method] if isinstance(method, Method) else list(method)
        methods = {type(m).__name__: m for m in listed}
        if len(methods) < len(listed):
            raise ValueError("two methods have the same class; pass a mapping of labels to methods.")
    for label, m in methods.items():
        if not isinstance(label, str):
            raise ValueError(f"labels of methods must be text, got {label!r}.")
        if not isinstance(m, Method):
            raise ValueError(f"method {label!r} must be a fedstat Method, got {m!r}. Did you pass the class?")
    if not methods:
        raise ValueError("method must hold at least one method.")
    return methods


def _seeds(seed: int | Iterable[int]) -> list[int]:
    seeds = list(seed) if isinstance(seed, Iterable) else [seed]
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(s, Integral) and s >= 0 for s in seeds):
        raise ValueError(f"seed must be one or several different non-negative integers, got {seed!r}.")
    return [int(s) for s in seeds]


def _sites(
    clients: Clients | Callable[[int], Clients],
    model: Model,
    seeds: Sequence[int],
    dtype: torch.dtype,
    device: str,
) -> dict[int, Site]:
    sites: dict[int, Site] = {}
    offset = 0
    for seed in seeds:
        data = clients if isinstance(clients, Clients) else clients(seed)
        sites[seed] = make_site(data, model, seed, dtype, device, offset)
        offset += 0 if isinstance(clients, Clients) else len(data)  # one population is stored once
    shapes = {site.clients.train.x.shape[2:] for site in sites.values()}
    if len(shapes) > 1:
        raise ValueError(f"clients(seed) must return inputs of one shape for all seeds, got {sorted(shapes)}.")
    return sites


def _task(network: Network, clients: Clients) -> tuple[int | None, int]:
    sample = torch.zeros(1, 2, *clients.train.x.shape[2:], device=network.device, dtype=network.dtype)
    weights = {name: leaf[None] for name, leaf in network.initial().items()}
    try:
        outputs = network.forward(weights, sample)
    except (RuntimeError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(
            f"the network does not take inputs of shape {tuple(clients.train.x.shape[2:])}: {error}"
        ) from None
    if not isinstance(outputs, Tensor):
        raise ValueError(f"the network must return a tensor of outputs, it returns {type(outputs).__name__}.")
    if outputs.shape[:-1] != sample.shape[:2]:
        raise ValueError(
            f"the network must map B samples to (B, outputs), with one output to (B, 1); for B = {sample.shape[1]} it "
            f"returns {tuple(outputs.shape[1:])}."
        )
    return (None if clients.classes is None else len(clients.classes)), outputs.shape[-1]


def _fingerprint(site: Site) -> str:
    """Hash of a seed's training data and network, so that a run is continued on nothing else."""
    digest = hashlib.sha256()
    for array in (site.clients.train.x, site.clients.train.y, site.clients.train.n):
        digest.update(np.ascontiguousarray(array).tobytes())
    for leaf in site.network.module.state_dict().values():
        digest.update(leaf.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _round(runs: Mapping[Key, Run], t: int, participation: float) -> list[_Traffic]:
    """One round of all runs: gather what everybody received, train equal local steps as one stack, hand it back."""
    stacks: dict[tuple[object, ...], list[Key]] = {}
    for key, run in runs.items():
        stacks.setdefault(_local_steps(key, run), []).append(key)
    sent = []
    for keys in stacks.values():
        ids = {key: participants(runs[key].site.seed, t, len(runs[key].site.clients), participation) for key in keys}
        starts = {}
        for key in keys:
            run = runs[key]
            starts[key] = run.method.receive(run.state, torch.from_numpy(ids[key]).to(run.network.device))
        stacked = starts[keys[0]]
        if len(keys) > 1:
            stacked = {name: torch.cat([starts[key][name] for key in keys]) for name in stacked}
        jobs = [job for key in keys for job in runs[key].site.jobs(ids[key].tolist())]
        run = runs[keys[0]]
        ends = run.bench.train(run.method, run.network, stacked, jobs, t)
        first = 0
        for key in keys:
            stop = first + len(ids[key])
            end = {name: leaf[first:stop] for name, leaf in ends.items()}
            sent.append(_aggregated(key, runs[key], t, ids[key], starts[key], end))
            first = stop
    return sent


def _local_steps(key: Key, run: Run) -> tuple[object, ...]:
    """Say which runs train as one stack: one method under several seeds, and methods whose local steps are FedAvg's.

    A module with frozen weights or constants of its own trains apart from those of other seeds.
    """
    own = ("receive", "leaves", "prepare", "phases", "objective", "gradient", "finish", "held_out", "batches")
    kind = type(run.method)
    plain = all(getattr(kind, step) is getattr(Method, step) for step in own) and run.network is run.site.network
    return (None if plain else key[0], run.network.constants and run.site.seed)


def _aggregated(key: Key, run: Run, t: int, chosen: np.ndarray, start: Params, end: Params) -> _Traffic:
    """Hand a round's outcome to the method; return the bytes that travelled."""
    n = run.site.clients.train.n[chosen]
    weight = n / n.sum() if run.method.weighting == "samples" else np.full(len(n), 1 / len(n))
    leaf = next(iter(end.values()))
    update = Update(
        ids=torch.from_numpy(chosen).to(leaf.device),
        start=start,
        end=end,
        weight=torch.from_numpy(weight).to(leaf.device, leaf.dtype),
        rng=stream(run.site.seed, "server", t),
        network=run.network,
    )
    down, up = run.method.download(run.state, start, update.ids), run.method.upload(run.state, update)
    run.state = run.method.aggregate(run.state, update)
    for name, value in run.method.record(run.state).items():
        run.records.setdefault(name, []).append(value.cpu().numpy())
    return _Traffic(key, t + 1, chosen, size(up), size(down))


@dataclass(frozen=True, eq=False)
class _Traffic:
    """Bytes that travelled in one round of one run."""

    key: Key
    round: int
    ids: np.ndarray
    up: np.ndarray
    down: np.ndarray


def _opened(key: Key, run: Run) -> _Traffic:
    """Bytes that travelled before the first round, where any did."""
    everyone = np.arange(len(run.site.clients))
    up, down = run.method.prelude(run.network, len(everyone))
    return _Traffic(key, 0, everyone if up or down else everyone[:0], size(up), size(down))


def _traffic_table(records: Sequence[_Traffic]) -> pd.DataFrame:
    """One row per record, client and direction."""
    counts = np.array([2 * len(r.ids) for r in records])
    sent = [np.concatenate([np.broadcast_to(v, len(r.ids)) for v in (r.up, r.down)]) for r in records]
    return pd.DataFrame(
        {
            "method": np.repeat(np.array([r.key[0] for r in records], dtype=object), counts),
            "seed": np.repeat([r.key[1] for r in records], counts),
            "round": np.repeat([r.round for r in records], counts),
            "client": np.concatenate([np.tile(r.ids, 2) for r in records]),
            "estimand": "traffic",
            "split": "train",
            "metric": np.concatenate([np.repeat(["bytes_up", "bytes_down"], len(r.ids)) for r in records]).astype(
                object
            ),
            "value": np.concatenate(sent).astype(float),
        }
    )


def _evaluated(key: Key, run: Run, t: int) -> pd.DataFrame:
    def models(some: Tensor) -> dict[str, Predictor]:
        return run.method.models(run.state, some, run.population)

    learner = Learner(run.network, run.bench.loss)
    table = evaluate(learner, run.bench.loss, models, run.site.held_out, run.bench.chunk)
    return table.assign(method=key[0], seed=key[1], round=t, split=run.site.split)


def _tidy(parts: Sequence[pd.DataFrame | _Traffic]) -> pd.DataFrame:
    """Join what was recorded, round after round, in each first what travelled and then what was measured."""
    columns = ["method", "seed", "round", "client", "estimand", "split", "metric", "value"]
    tables = [part for part in parts if isinstance(part, pd.DataFrame)]
    records = [part for part in parts if isinstance(part, _Traffic)]
    tables += [_traffic_table(records)] if records else []
    text = ["method", "estimand", "split", "metric"]
    joined = pd.concat([part.astype(dict.fromkeys(text, "object")) for part in tables], ignore_index=True)
    order = np.lexsort((joined["estimand"] != "traffic", joined["round"]))
    return joined.iloc[order][columns].reset_index(drop=True).astype(dict.fromkeys(text, "category"))


def _joined(before: Mapping[str, np.ndarray], now: Mapping[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    new = {name: np.stack(values) for name, values in now.items()}
    return {name: np.concatenate([part[name] for part in (before, new) if name in part]) for name in {**before, **new}}
