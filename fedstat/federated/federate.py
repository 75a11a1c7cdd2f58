"""The round loop: several methods and seeds, trained as one stack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedstat._random import stream
from fedstat.data import Clients
from fedstat.federated.evaluation import evaluate, to_tensors
from fedstat.federated.losses import LossName, choose_loss
from fedstat.federated.method import Method, Population, State, Update, on_device
from fedstat.federated.network import Model, Network, Params, build
from fedstat.federated.progress import progress_bar
from fedstat.federated.result import Result, describe_run
from fedstat.federated.training import Job, Pool, Training, chunk_size, train


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
    progress : bool, optional
        Show a progress bar; by default only on a terminal.

    Returns
    -------
    Result
        With the tidy table ``history`` (method, seed, round, client, estimand, split, metric, value).

    Raises
    ------
    ValueError
        For arguments out of range, duplicate labels, or a network that does not fit the data.
    FloatingPointError
        If a client's weights become infinite or NaN; round, client and learning rate are named.
    """
    if not 0 < participation <= 1:
        raise ValueError(f"participation must be a share in (0, 1], got {participation}.")
    for name, count in (("rounds", rounds), ("chunk", 1 if chunk is None else chunk)):
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
    config = {
        **describe_run(methods, model, training, seeds, participation, dtype),
        "clients": {str(s): len(site.clients) for s, site in sites.items()},
        "fingerprint": {str(s): _fingerprint(site) for s, site in sites.items()},
    }
    first = 0 if resume is None else resume.check_continues(config, rounds)
    network = sites[seeds[0]].network
    tasks = {choose_loss(training.loss, *_task(network, site.clients)) for site in sites.values()}
    if len(tasks) > 1:
        raise ValueError(f"clients(seed) must return one task for all seeds, got losses {', '.join(sorted(tasks))}.")
    (loss,) = tasks
    distinct = {site.offset: site.clients.train for site in sites.values()}
    pool = Pool.stack(list(distinct.values()), network.dtype, device)
    size = chunk_size(network) if chunk is None else chunk

    def trained(start: Params, jobs: Sequence[Job], round: int) -> Params:
        return train(network, loss, training, pool, start, jobs, round, size)

    runs = {
        (label, s): _Run(
            method,
            sites[s],
            on_device(_start(method, sites[s], trained) if resume is None else resume.states[label, s], device),
        )
        for label, method in methods.items()
        for s in seeds
    }
    history = [] if resume is None else [resume.history]
    if resume is None and 0 in evaluated:
        history += [_evaluated(key, run, loss, size, 0) for key, run in runs.items()]
    with progress_bar("rounds", rounds - first, progress) as advance:
        for t in range(first, rounds):
            _round(runs, t, participation, trained)
            if t + 1 in evaluated:
                history += [_evaluated(key, run, loss, size, t + 1) for key, run in runs.items()]
            advance()

    records = {key: _joined(resume.records[key] if resume else {}, run.records) for key, run in runs.items()}
    return Result(
        history=_tidy(history),
        states={key: run.state for key, run in runs.items()},
        records=records,
        config={**config, "rounds": int(rounds)},
        model=model,
        methods=methods,
    )


def participants(seed: int, round: int, clients: int, participation: float) -> np.ndarray:
    """Return the sorted ids of the clients that take part in `round`: a function of seed and round alone."""
    count = max(1, round_half_up(participation * clients))
    return np.sort(stream(seed, "participants", round).choice(clients, count, replace=False))


def round_half_up(value: float) -> int:
    """Round to the nearest integer, halves up (Python rounds them to even)."""
    return int(np.floor(value + 0.5))


@dataclass(frozen=True, eq=False)
class _Site:
    """Data and initial network of one seed; `offset` is its first row in the pool."""

    seed: int
    clients: Clients
    network: Network
    offset: int
    split: str
    held_out: tuple[Tensor, Tensor, Tensor]
    fresh: Callable[[], Params]


@dataclass(eq=False)
class _Run:
    """One method under one seed."""

    method: Method
    site: _Site
    state: State
    records: dict[str, list[np.ndarray]] = field(default_factory=dict)


def _labels(method: Method | Sequence[Method] | Mapping[str, Method]) -> dict[str, Method]:
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
) -> dict[int, _Site]:
    sites: dict[int, _Site] = {}
    offset = 0
    for seed in seeds:
        data = clients if isinstance(clients, Clients) else clients(seed)
        network = build(model, stream(seed, "initial weights"), dtype)
        network.module.to(device)
        split = next(name for name in ("test", "validation", "train") if name in data.splits)

        def fresh(seed: int = seed, data: Clients = data) -> Params:
            if isinstance(model, nn.Module):
                raise ValueError("independent initial weights need a function that builds the network, not a module.")
            drawn = [build(model, stream(seed, "client weights", k), dtype).initial() for k in range(len(data))]
            return {name: torch.stack([d[name] for d in drawn]).to(device) for name in drawn[0]}

        sites[seed] = _Site(seed, data, network, offset, split, to_tensors(data.splits[split], dtype, device), fresh)
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
    except (RuntimeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the network does not take inputs of shape {tuple(clients.train.x.shape[2:])}, or does not return a "
            f"tensor: {error}"
        ) from None
    if outputs.shape[:-1] != sample.shape[:2]:
        raise ValueError(
            f"the network must map B samples to (B, outputs), with one output to (B, 1); for B = {sample.shape[1]} it "
            f"returns {tuple(outputs.shape[1:])}."
        )
    return (None if clients.classes is None else len(clients.classes)), outputs.shape[-1]


def _fingerprint(site: _Site) -> str:
    """Hash of a seed's training data and initial weights, so that a run is continued on nothing else."""
    digest = hashlib.sha256()
    for array in (site.clients.train.x, site.clients.train.y, site.clients.train.n):
        digest.update(np.ascontiguousarray(array).tobytes())
    for leaf in site.network.initial().values():
        digest.update(leaf.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _start(method: Method, site: _Site, trained: Callable[[Params, Sequence[Job], int], Params]) -> State:
    everyone = [Job(site.offset + k, site.seed, k) for k in range(len(site.clients))]
    population = Population(
        clients=site.clients,
        rng=stream(site.seed, "method"),
        warmup=lambda params, replicate=0: trained(params, everyone, -1 - replicate),
        fresh=site.fresh,
    )
    return method.init(site.network, population)


def _round(
    runs: Mapping[tuple[str, int], _Run],
    t: int,
    participation: float,
    trained: Callable[[Params, Sequence[Job], int], Params],
) -> None:
    """One round of all runs: gather what everybody received, train it as one stack, hand it back."""
    starts: list[Params] = []
    jobs: list[Job] = []
    ids: list[np.ndarray] = []
    for run in runs.values():
        site = run.site
        ids.append(participants(site.seed, t, len(site.clients), participation))
        device = next(iter(run.state.server.values())).device
        starts.append(run.method.receive(run.state, torch.from_numpy(ids[-1]).to(device)))
        jobs += [Job(site.offset + k, site.seed, k) for k in ids[-1].tolist()]
    stacked = {name: torch.cat([start[name] for start in starts]) for name in starts[0]}
    ends = trained(stacked, jobs, t)

    first = 0
    for run, chosen, start in zip(runs.values(), ids, starts, strict=True):
        stop = first + len(chosen)
        end = {name: leaf[first:stop] for name, leaf in ends.items()}
        first = stop
        n = run.site.clients.train.n[chosen]
        weight = n / n.sum() if run.method.weighting == "samples" else np.full(len(n), 1 / len(n))
        leaf = next(iter(end.values()))
        update = Update(
            ids=torch.from_numpy(chosen).to(leaf.device),
            start=start,
            end=end,
            weight=torch.from_numpy(weight).to(leaf.device, leaf.dtype),
            rng=stream(run.site.seed, "server", t),
        )
        run.state = run.method.aggregate(run.state, update)
        for name, value in run.method.record(run.state).items():
            run.records.setdefault(name, []).append(value.cpu().numpy())


def _evaluated(key: tuple[str, int], run: _Run, loss: LossName, chunk: int, t: int) -> pd.DataFrame:
    site = run.site
    x, y, n = site.held_out
    everyone = torch.arange(len(site.clients), device=x.device)
    tables = []
    for estimand, params in run.method.models(run.state, everyone).items():
        values = evaluate(site.network, loss, params, x, y, n, chunk)
        tables += [
            pd.DataFrame({"client": np.arange(len(n)), "estimand": estimand, "metric": name, "value": v.cpu().numpy()})
            for name, v in values.items()
        ]
    table = pd.concat(tables, ignore_index=True)
    return table.assign(method=key[0], seed=key[1], round=t, split=site.split)


def _tidy(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    columns = ["method", "seed", "round", "client", "estimand", "split", "metric", "value"]
    if not parts:
        return pd.DataFrame(columns=columns)
    text = ["method", "estimand", "split", "metric"]
    joined = pd.concat([part.astype(dict.fromkeys(text, "object")) for part in parts], ignore_index=True)
    return joined[columns].astype(dict.fromkeys(text, "category"))


def _joined(before: Mapping[str, np.ndarray], now: Mapping[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    new = {name: np.stack(values) for name, values in now.items()}
    return {name: np.concatenate([part[name] for part in (before, new) if name in part]) for name in {**before, **new}}
