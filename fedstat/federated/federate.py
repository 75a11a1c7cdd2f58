"""A run from its arguments to its result: the round loop, handed to a recorder, or to the caller round by round."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from numbers import Integral
from pathlib import Path

import numpy as np

from fedstat._checks import whole
from fedstat.federated.attacks import Attack
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.local import AnyTraining
from fedstat.federated.client.network import Model
from fedstat.federated.engine.executor import Executor, ExecutorName, RemoteExecutor
from fedstat.federated.engine.own_parts import rehearse_metrics
from fedstat.federated.method import Method
from fedstat.federated.metrics import Metric, choose_metrics
from fedstat.federated.patience import Patience
from fedstat.federated.plan import Plan, Population, make_plan
from fedstat.federated.record.checkpoints import sigterm_waits
from fedstat.federated.record.progress import Shown, announce, shown
from fedstat.federated.record.result import Result
from fedstat.federated.record.rows import Rows
from fedstat.federated.record.run_folder import check_free, sole_writer
from fedstat.federated.recorder import Recorder
from fedstat.federated.rounds import Key, Round, Run, loop
from fedstat.inference import AnalysisPlan, count_missing


def federate(
    method: Method | Sequence[Method] | Mapping[str, Method],
    model: Model,
    clients: Population,
    training: AnyTraining,
    *,
    rounds: int,
    participation: float | Attendance = 1.0,
    attack: Attack | None = None,
    seed: int | Iterable[int] = 0,
    vary: Iterable[str] | None = None,
    evaluate_at: Iterable[int] | None = None,
    validate: bool = False,
    metrics: Mapping[str, Metric] | Iterable[str] = (),
    trained: bool = False,
    predictions: bool = False,
    stop: Patience | None = None,
    chunk: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    executor: ExecutorName | Executor | RemoteExecutor = "auto",
    plan: AnalysisPlan | str | Path | None = None,
    resume: Result | None = None,
    folder: str | Path | None = None,
    checkpoint: int | None = None,
    progress: Shown = None,
) -> Result:
    """Train methods on clients and evaluate every client's model.

    All methods and all seeds are trained together, stacked on the client axis. Under one seed they share what
    they can: clients (where these are drawn per seed), initial weights, participants and batch orders.

    Parameters
    ----------
    method : Method, sequence of Method, or mapping of label to Method
        What to run. Labels default to the methods' names.
    model : callable or nn.Module
        A function building the network (as `fedstat.models` offers), drawn anew for each seed; or a module,
        whose own weights every seed starts from.
    clients : Clients, or callable
        The data, or a function from a seed to data; or from two seeds, that of the data and that of the partition.
    training : Training, or mapping of label to Training
        Local training, the same for all methods or each with its own.
    rounds : int
        Communication rounds in total, those of `resume` included.
    participation : float or Attendance
        Share of clients drawn in each round, in (0, 1]; at least one. Or who comes, drops out and does part of the
        work, such as ``fs.attendance.Poisson(0.3)``; `fedstat.attendance` has the usual ones.
    attack : Attack, optional
        What a share of each seed's clients do in place of taking part honestly, such as ``fs.attacks.SignFlip(0.2)``.
        The attackers are the same for all methods. They are not measured: history and predictions are those of the
        honest clients, and the column ``attacker`` of `Result.clients` tells who is who. `fedstat.attacks` says more.
    seed : int or iterable of int
        Master seeds below 2^63, one run of every method for each.
    vary : iterable of {"data", "partition", "initial weights", "participants", "batches"}, optional
        The sources of randomness that follow each seed; the others follow the first one, so that the spread over seeds
        is theirs. By default all of them vary that can: clients that are given as data do not, nor do the weights of a
        module. ``data`` and ``partition`` vary apart where `clients` is a function of two seeds; test and validation
        samples belong to the partition. `fedstat.federated.client.seeds` says what follows which source.
    evaluate_at : iterable of int, optional
        Rounds after which all clients are evaluated, 0 for the start; by default every one from 1 on.
    validate : bool
        Evaluate on the clients' validation samples as well as on their test samples, in rows of the split
        ``validation``, so that rounds can be chosen on other samples than those that are reported.
    metrics : mapping of str to callable, or iterable of str
        What to measure beside the standard metrics: functions of one client's outputs and targets, or names of
        `fedstat.metrics`, such as ``["macro_f1", "calibration_error"]``.
    trained : bool
        Evaluate participants' models also as their local training left them, before the server averages: the estimand
        ``trained``.
    predictions : bool
        Keep what the final models (with `stop`, the kept ones) predict for every sample that models are measured on,
        in `folder` and wherever the result is saved, so that `Result.predictions` has them after loading. A run that is
        continued may begin to.
    stop : Patience, optional
        When to end a method under a seed before `rounds`; the result keeps its best round's models.
    chunk : int, optional
        Clients stacked at once; by default as many as fill a fixed number of bytes, and half as many, with a warning,
        from when a GPU lacks the memory. Results do not depend on it beyond rounding, which is small in most networks.
        Batch norm in float32 amplifies it: it divides by deviations over few samples (`docs/reliability.md` has
        numbers). Where that matters, use float64, or keep to one `chunk`.
    dtype : {"float32", "float64", "tf32", "bf16-mixed"}
        Floating type. "tf32" is float32 whose products a GPU may round to TF32, with factors of 10 bits; a processor
        computes as under "float32". Under "bf16-mixed" layers compute in bfloat16, while weights, sums, statistics and
        losses stay in float32. Under the others products are exact but for the type's own rounding, whatever torch is
        set to outside the run.
    device : str
        Torch device, such as "cpu" or "cuda:1".
    executor : {"auto", "stacked", "per-client", "ray"}, Executor or RayExecutor
        Whether clients train as one stack, or each by itself on worker threads; by default the latter on a CPU where
        the network has convolutions that are large enough, or cannot be stacked. Results do not depend on it beyond
        rounding, with batch norm as for `chunk`. "ray" has that work done by a Ray cluster, on processors with
        the same bits; `RayExecutor` says how. An object of one's own is an `Executor`.
    plan : fedstat.inference.AnalysisPlan or path of its .toml file, optional
        How the run will be analysed. It is written into `folder` before the first round, and its hash into the
        configuration; a run that is continued keeps its plan, and one that began without a plan cannot get one.
    resume : Result, optional
        Continue from an earlier result of the same data, network, methods, own code and settings with fewer rounds; the
        outcome equals that of an uninterrupted run, on a GPU up to rounding.
    folder : path, optional
        Save the run there at its end and at checkpoints, so that `fedstat.load` and `resume` continue what was
        stopped or killed. History and traffic go there as they grow, and only their last rows are held. Each checkpoint
        replaces the one before when it is complete and has reached the disk. A run that lies there already must be the
        one that is resumed, and nobody else may write there. SIGTERM, in the main thread, lets the round in progress
        end and saves it (`Terminated`); a second one stops at once.
    checkpoint : int, optional
        Rounds between checkpoints. By default they go by time: the first after ten seconds, the next so that saving
        takes a twentieth of the time, at least ten seconds and at most ten minutes apart. Results do not depend on it.
    progress : bool or "lines", optional
        Show a progress bar; by default only on a terminal, and elsewhere, once a run has taken ten seconds, a line now
        and then on standard error. "lines" writes one after each round, but a second apart. Above bar or lines stands
        how each method's clients train, as `describe` says it. False is silent.

    Returns
    -------
    Result
        With the tidy tables ``history`` (method, seed, round, client, estimand, split, metric, value), in which the
        rows of the split ``common``, with client -1, measure a global model on the test set that all clients have in
        common, and ``traffic``, the bytes that went up from and down to each participant in each round, none up from
        who dropped out.
        Where an output of a model is infinite or NaN though its weights are not, training goes on and all metrics of
        that client but ``majority_share`` are NaN, with a warning at the end: `fedstat.compare` counts them.

    Raises
    ------
    ValueError
        For arguments out of range, duplicate labels, or a network that does not fit the data or would be trained
        wrongly (`fedstat.federated.engine.rehearsal`); for numbers that the floating type cannot hold, and tokens
        beyond the vocabulary; for a folder that holds something else; for another experiment than that of `resume`,
        and the message names what is different.
    OSError
        If the folder cannot be written, before training where that can be known. The last checkpoint stays.
    MemoryError
        If a GPU's memory does not hold one client alone.
    FloatingPointError
        If a client's training loss, weights or running statistics become infinite or NaN; round, client and learning
        rate are named. The last checkpoint stays.
    Terminated
        After SIGTERM, with `folder`: all finished rounds are saved. It is a SystemExit of status 143.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> result.history.query("metric == 'accuracy'").groupby(["method", "estimand"], observed=True).size()
    method  estimand
    Ditto   global      12
            personal    12
    FedAvg  global      12
    dtype: int64
    """
    rounds, evaluated = whole("rounds", rounds, 1), evaluated_rounds(evaluate_at, rounds)
    checkpoint = None if checkpoint is None else whole("checkpoint", checkpoint, 1)
    if resume is not None and not isinstance(resume, Result):
        raise ValueError(f"resume must be a Result, as fs.load returns it, got {resume!r}.")
    if stop is not None and not isinstance(stop, Patience):
        raise ValueError(f'stop must be a Patience, such as fs.Patience("log_loss", rounds=10), got {stop!r}.')
    chosen = choose_metrics(metrics)
    ready = make_plan(
        method, model, clients, training, participation, seed, vary, chunk, dtype, device, executor, attack
    )
    asked = {"validate": validate, "trained": trained, "predictions": predictions}
    ready = ready.observed(_planned(plan, ready, resume), chosen, stop, **asked)
    return carry_out(ready, rounds, evaluated, resume, folder, checkpoint, progress)


def rounds(
    method: Method | Sequence[Method] | Mapping[str, Method],
    model: Model,
    clients: Population,
    training: AnyTraining,
    *,
    participation: float | Attendance = 1.0,
    attack: Attack | None = None,
    seed: int | Iterable[int] = 0,
    vary: Iterable[str] | None = None,
    chunk: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    executor: ExecutorName | Executor | RemoteExecutor = "auto",
) -> Iterator[Round]:
    """Train methods on clients, a round at a time, for as long as the caller goes on asking.

    All arguments are those of `fedstat.federate`, which is this loop with a history, checkpoints and a progress bar.

    Yields
    ------
    Round
        After every round. It measures when asked to, and ends methods and seeds one by one (`Round.stop`).

    Raises
    ------
    ValueError, FloatingPointError
        As `fedstat.federate`.

    Examples
    --------
    Stop as soon as the mean accuracy is good enough:

    >>> import numpy as np, fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(200) % 5)
    >>> for round in fs.rounds(fs.FedAvg(), fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.5)):
    ...     table = round.evaluate(metrics=["macro_f1"])
    ...     accuracy = table.loc[table["metric"] == "accuracy", "value"].mean()
    ...     if accuracy > 0.9 or round.number == 50:
    ...         break
    >>> bool(accuracy > 0.9)
    True
    """
    plan = make_plan(
        method, model, clients, training, participation, seed, vary, chunk, dtype, device, executor, attack
    )
    return loop(plan.start({}), 0, plan.participation)


def carry_out(
    plan: Plan,
    rounds: int,
    evaluated: set[int],
    resume: Result | None,
    folder: str | Path | None,
    checkpoint: int | None,
    progress: Shown,
) -> Result:
    """Run what is all set, or continue it; it raises the errors of `federate`."""
    splits, first = _splits(plan), 0 if resume is None else resume.check_continues(plan.config, rounds)
    if plan.metrics:
        rehearse_metrics(plan.metrics, next(iter(plan.replicates.values())))
    with nullcontext() if folder is None else sole_writer(folder) as place, shown(first, rounds, progress) as advance:
        if place is not None:
            check_free(place, None if resume is None else plan.config)
        runs = plan.start({} if resume is None else resume.states, advance)
        advance(steps=0)
        for label in plan.methods:
            announce(progress, f"{label}:", runs[label, next(iter(plan.replicates))].route)
        recorder, done = Recorder(plan, runs, rounds, evaluated, splits, place, checkpoint, resume, advance), first
        with nullcontext(lambda: False) if place is None else sigterm_waits() as terminated:
            for round in islice(loop(runs, first, plan.participation), rounds - first):
                recorder.keep(round, terminated)
                done = round.number
            if place is not None and done == first:  # all had come to their end already
                recorder.save(done, place)
    _warn_of_missing(recorder.history.rows())
    if not isinstance(plan.participation, float):
        _warn_of_still_rounds(runs, plan.participation)
    return recorder.result(done)


def _warn_of_missing(history: Rows) -> None:
    """Warn of methods whose outputs were not all finite: a mean by pandas would leave the missing values out."""
    if all(np.isfinite(part["value"]).all() for part in history.parts()):
        return
    losses = (part[part["metric"].isin(("log_loss", "mse"))] for part in history.parts())
    for method, words in count_missing(losses).items():
        warnings.warn(f"{method}: {words}. fs.compare counts them; a mean by pandas does not.", RuntimeWarning, 3)


def _warn_of_still_rounds(runs: Mapping[Key, Run], participation: Attendance) -> None:
    """Warn of methods with rounds that had too few participants for a step."""
    for label in dict.fromkeys(label for label, _ in runs):
        mine = [run for key, run in runs.items() if key[0] == label]
        fewest = getattr(mine[0].method.aggregator, "fewest", 1)
        played = [run.replicate.attended(t, participation) for run in mine for t in range(run.state.round)]
        noised = mine[0].method.mechanism is not None  # then a round to which nobody came may have had a step
        still = [who for who in played if len(who.ids) < fewest and not (noised and who.of)]
        if still:
            had = "no participant" + " whose update arrived" * any(len(who.missing) for who in still)
            if fewest > 1:
                had = f"fewer participants than the {fewest} that the aggregator needs"
            words = f"{label}: {len(still)} of {len(played)} rounds had {had}, and ended without a step."
            warnings.warn(words, RuntimeWarning, 4)


def _planned(plan: AnalysisPlan | str | Path | None, ready: Plan, resume: Result | None) -> AnalysisPlan | None:
    """Return how the run will be analysed, which must fit its methods and must not change while it lasts."""
    if plan is None:
        return None if resume is None else resume.plan
    analysis = plan if isinstance(plan, AnalysisPlan) else AnalysisPlan.read(plan)
    if set(analysis.arms) != set(ready.methods):
        raise ValueError(
            f"plan: arms must be the labels of the methods, {', '.join(ready.methods)}; got {', '.join(analysis.arms)}."
        )
    if resume is not None and resume.plan is None:
        raise ValueError(
            "plan: the run to continue began without one, and what is written down after the first results is no "
            "plan. Leave it out, or start a new run on other seeds."
        )
    if resume is not None and resume.plan is not None and resume.plan.digest != analysis.digest:
        raise ValueError("plan: the run to continue began with another one, which stays; leave plan out to keep it.")
    return analysis


def _splits(plan: Plan) -> tuple[str, ...]:
    """Say on whose samples models are measured, beside those of the default split."""
    validate, stop = plan.config["validate"], plan.stop
    wanted = [*["validation"] * validate, *([] if stop is None else [stop.split])]
    for replicate in plan.replicates.values() if wanted else ():
        there = replicate.clients.splits
        if validate and not {"validation", "test"} <= there.keys():
            raise ValueError("validate needs clients with test and validation samples.")
        if stop is not None and stop.split not in there:
            raise ValueError(
                f"stop: Patience watches {stop.split} samples, and the clients have only {', '.join(there)}. Hold some "
                f"back where they are made, such as fs.data.from_arrays(..., {stop.split}=0.2)."
            )
        wanted = [split for split in wanted if split != replicate.split]
    return tuple(dict.fromkeys(wanted))


def evaluated_rounds(wanted: Iterable[int] | None, rounds: int) -> set[int]:
    """Return the rounds after which models are measured, of as many; by default all."""
    if wanted is None:
        return set(range(1, rounds + 1))
    listed = list(wanted) if isinstance(wanted, Iterable) else [wanted]
    if not (isinstance(wanted, Iterable) and all(isinstance(t, Integral) and 0 <= t <= rounds for t in listed)):
        raise ValueError(f"evaluate_at must hold rounds between 0 and {rounds}, got {wanted!r}.")
    return set(map(int, listed))
