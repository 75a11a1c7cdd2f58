"""Choose methods' parameters on validation samples, count what that costs, and measure its optimism."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
import pandas as pd

from fedstat._checks import check_level, whole
from fedstat.data import Clients
from fedstat.federated.client.local import AnyTraining, Training
from fedstat.federated.client.network import Model
from fedstat.federated.federate import evaluated_rounds
from fedstat.federated.method import Method, label_of
from fedstat.federated.plan import Population, seeds_of
from fedstat.federated.record.progress import announce
from fedstat.inference import paired_difference
from fedstat.inference.intervals.paired import ROUNDING
from fedstat.inference.reading.scores import better
from fedstat.tuning.grid import Grid, Maker, Trial
from fedstat.tuning.outcome import Check, Tuning, Tunings, excess, spread_of
from fedstat.tuning.runner import How, Runner

#: The values of each parameter, or those of each arm.
Values = Mapping[str, Iterable[Any]] | Mapping[str, Mapping[str, Iterable[Any]]]


@overload
def tune(
    method: Maker, grid: Values, model: Model, clients: Population, training: AnyTraining, **how: Any
) -> Tuning: ...
@overload
def tune(
    method: Sequence[Method] | Mapping[str, Maker],
    grid: Values,
    model: Model,
    clients: Population,
    training: AnyTraining,
    **how: Any,
) -> Tunings: ...
def tune(  # type: ignore[misc]  # calls are checked for what they return and, here, for what they pass
    method: Maker | Sequence[Method] | Mapping[str, Maker],
    grid: Values,
    model: Model,
    clients: Population,
    training: AnyTraining,
    *,
    rounds: int,
    seed: int | Iterable[int],
    order: Sequence[str | Sequence[str]] | None = None,
    start: Mapping[str, Any] | None = None,
    growths: int = 3,
    metric: str = "accuracy",
    higher: bool | None = None,
    last: int = 10,
    fresh: int | Iterable[int] | None = None,
    also_test: bool = False,
    level: float = 0.95,
    folder: str | Path | None = None,
    **how: Unpack[How],
) -> Tuning | Tunings:
    """Choose methods' parameters on validation samples, all at once or one after the other.

    What is chosen by is the primary summary: the mean over clients, the last rounds and the seeds, of the model that
    `fedstat.compare` takes. Test samples are taken away before a trial starts. All trials share what the seeds decide,
    so that they are paired; those of a step that train alike run as one call.

    A best value at an end of its grid says that the grid was too narrow. Where the values are positive numbers in equal
    ratios, such as 0.01, 0.03, 0.1, the grid then grows beyond that end by the ratio of its two smallest values, until
    the best lies inside or the grid has grown `growths` times. All arms grow by this one rule.

    Parameters
    ----------
    method : class, callable or Method; or several
        What makes the method: ``fs.FedFac``, ``partial(fs.FedFac, dynamic=True)``, a function with parameters by name,
        or a method of which some values change. Several arms, each tuned by itself, are a mapping of label to such, or
        a sequence of methods, whose labels are their names.
    grid : mapping of str to sequence
        The values of each parameter, two at least, in the order in which the first of equals is taken. A name means the
        method's parameter, or else a field of `training` such as ``"lr"``; where both have it, it must be written
        ``"method.NAME"`` or ``"training.NAME"``. All arms have this grid, or each its own: a mapping of label to grid.
    model, clients, training
        As `fedstat.federate` takes them. The clients must hold validation samples.
    rounds : int
        Communication rounds of every trial.
    seed : int or iterable of int
        The seeds of tuning.
    order : sequence of str, or of sequences of str, optional
        Which parameters are chosen one after the other, with the best of the earlier ones held, such as
        ``("layers", "tau", "kappa")``; parameters that a step names together are chosen together. By default all are:
        the full grid.
    start : mapping, optional
        What parameters are held at before their step. By default the value that the method or the training has, in the
        grid or not; without one the first of the grid.
    growths : int
        How often the grid of a step may grow; 0 keeps grids as they are.
    metric : str
        What is chosen by: a standard metric, or one of `metrics`.
    higher : bool, optional
        Whether more is better; by default as `fedstat.compare` knows it by the name, and true of others.
    last : int
        How many of the last rounds are averaged, and evaluated.
    fresh : int or iterable of int, optional
        Seeds, none of them in `seed`, under which the chosen values and the runner-up run once more: the choice is
        then judged by numbers that it was not made by.
    also_test : bool
        Measure trials on test samples as well, in rows of the split ``test`` of `Tuning.scores`, and run those values
        under the fresh seeds that the test samples would have chosen. The choice does not look at them; it is for
        studies of what tuning on test samples would do.
    level : float
        Of the intervals.
    folder : path, optional
        Keep every finished call there, and checkpoints of the running one: the same call again continues and comes to
        the same numbers.
    **how
        Arguments of `fedstat.federate`: participation, attack, evaluate_at (all of the last rounds at least),
        metrics, chunk, dtype, device, executor, checkpoint, progress.

    Returns
    -------
    Tuning or Tunings
        Print it: the choice, every trial, the budget, and the optimism. Of several arms it is a mapping of label to
        `Tuning`, whose methods and training `fedstat.federate` takes as they are.

    Raises
    ------
    ValueError
        For a parameter that neither the method nor the training has, a grid without a choice, an order that misses a
        parameter, clients without validation samples, fresh seeds that tuning used, or last rounds that are not
        evaluated; and as `fedstat.federate`.
    FloatingPointError
        If training diverges at every value of a step. A trial that diverges under some seed is never chosen.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, test=0.2, validation=0.2)
    >>> tuning = fs.tune(
    ...     fs.FedAvg(), {"lr": [0.001, 0.1, 0.3]}, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.1),
    ...     rounds=5, seed=range(3), fresh=range(10, 14), last=2,
    ... )
    >>> tuning.best["lr"] > 0.001
    True
    >>> both = fs.tune(
    ...     [fs.FedAvg(), fs.Local()], {"lr": [0.03, 0.1]}, fs.models.mlp(3, 8, 2), clients, fs.Training(lr=0.1),
    ...     rounds=5, seed=range(3), growths=1, last=2,
    ... )
    >>> sorted(both.training)
    ['FedAvg', 'Local']
    """
    if unknown := sorted(set(how) - set(How.__annotations__)):
        raise TypeError(f"tune has no argument {unknown[0]!r}; it hands on {', '.join(How.__annotations__)}.")
    rounds, last, level = whole("rounds", rounds, 1), whole("last", last, 1), check_level(level)
    seeds, new = seeds_of(seed), [] if fresh is None else seeds_of(fresh)
    if both := sorted(set(seeds) & set(new)):
        raise ValueError(f"fresh holds the seed {both[0]}, which tuning uses; take seeds that it has not seen.")
    growths = whole("growths", growths, 0)
    if (at := how.get("evaluate_at")) is not None:
        how["evaluate_at"] = at = evaluated_rounds(at, rounds)
        if missing := sorted(set(range(max(0, rounds - last) + 1, rounds + 1)) - at):
            raise ValueError(
                f"evaluate_at must hold the last {last} rounds, which trials are chosen by, and misses {missing[0]}; "
                "add them, or lower last."
            )
    several = not isinstance(method, Method) and isinstance(method, Mapping | Sequence)
    makers: dict[str, Any] = _labelled(method) if several else {"": method}
    choices = {}
    for label, maker in makers.items():
        with _named(label):
            own, values = (_of_arm(label, *one) for one in (("training", training), ("grid", grid)))
            choices[label] = Grid.of(maker, own, values, order, start)
    more = better(metric) >= 0 if higher is None else bool(higher)
    found: dict[str, Tuning] = {}
    for number, (label, one) in enumerate(choices.items(), start=1):
        place = None if folder is None else Path(folder)
        if several:
            announce(how.get("progress"), "tuning", label)
            place = place and place / f"{number}-{re.sub(r'[^A-Za-z0-9]+', '-', label)}"
        runner = Runner(model, clients, rounds, min(last, rounds), metric, also_test, place, how)
        with _named(label):
            found[label] = _tuned(one, runner, seeds, new, growths, more, level)
    return Tunings(found) if several else found[""]


def _labelled(method: Any) -> dict[str, Maker]:
    """Return several arms by their labels."""
    if isinstance(method, Mapping) and method and all(isinstance(label, str) for label in method):
        return dict(method)
    labels = [] if isinstance(method, Mapping | str) else [label_of(one) for one in method]
    if not labels or len(set(labels)) < len(labels) or not all(isinstance(one, Method) for one in method):
        raise ValueError(
            f'method must be one method, or several with labels, such as {{"weak": fs.methods.FedProx(mu=0.01)}}; '
            f"a sequence holds methods of different classes. Got {method!r}."
        )
    return dict(zip(labels, method, strict=True))


def _of_arm(label: str, name: str, given: Any) -> Any:
    """Return an arm's part of an argument that is one for all arms or a mapping of label to each one's own."""
    each = isinstance(given, Mapping) and all(isinstance(one, Mapping | Training) for one in given.values())
    if not (label and given and each):
        return given
    if label not in given:
        raise ValueError(f"{name} has no entry for this arm; it has {', '.join(map(str, given))}.")
    return given[label]


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Put the label of one of several arms before what is wrong with it."""
    try:
        yield
    except (ValueError, FloatingPointError) as error:
        if label:
            raise type(error)(f"{label}: {error}") from error
        raise


def _tuned(
    choices: Grid, runner: Runner, seeds: list[int], fresh: list[int], growths: int, higher: bool, level: float
) -> Tuning:
    """Choose for one arm, and check the choice under the fresh seeds."""
    scores, table, held, grown = _search(choices, runner, seeds, growths, higher, level)
    best = grown.trial(held)
    check = _checked(runner, scores, best, fresh, higher, level) if fresh else None
    added = {
        name: tuple(value for value in some if value not in choices.values[name])
        for name, some in grown.values.items()
        if len(some) > len(choices.values[name])
    }
    return Tuning(
        best=held, method=best.method, training=best.training, table=table, scores=runner.measured(fresh=False),
        budget=runner.budget(), check=check, steps=choices.steps, start=dict(choices.start), ends=grown.ends(held),
        grown=added, growths=growths, metric=runner.metric, higher=higher, rounds=runner.rounds, last=runner.last,
        seeds=tuple(seeds), level=level,
    )  # fmt: skip


class _Scores:
    """What trials came to, by label, in the order in which they first ran."""

    def __init__(self) -> None:
        self.trials: dict[str, Trial] = {}
        self.values: dict[str, pd.DataFrame] = {}  # seed by split

    def best(self, labels: Iterable[str], higher: bool, split: str = "validation") -> str | None:
        """Return the best in the mean over seeds; None if all diverged under some seed.

        Of equals it is the one that ran first, so that a value by which the grid grew must be better.
        """
        wanted = set(labels)
        means = {one: float(self.values[one][split].mean(skipna=False)) for one in self.trials if one in wanted}
        known = {one: value for one, value in means.items() if np.isfinite(value)}
        top = (max if higher else min)(known.values(), default=0.0)
        return next((one for one, value in known.items() if abs(value - top) <= ROUNDING * abs(top)), None)


def _search(
    grid: Grid, runner: Runner, seeds: Sequence[int], growths: int, higher: bool, level: float
) -> tuple[_Scores, pd.DataFrame, dict[str, Any], Grid]:
    """Choose step by step from a grid that grows where the best is an end; what ran before is not run again.

    Return the scores, a table of each step's trials in the order of the grid, the choice, and the grid as it has grown.
    """
    scores, tables, held, chosen = _Scores(), list[pd.DataFrame](), dict(grid.start), None
    for number, names in enumerate(grid.steps, start=1):
        start, before = held, frozenset(scores.trials)
        kept: list[Trial] = [scores.trials[chosen]] if chosen else []  # its value of this step may lie outside the grid
        for growth in range(growths + 1):
            trials = grid.trials(names, start)
            trials += [trial for trial in kept if trial.label not in [one.label for one in trials]]
            new = [trial for trial in trials if trial.label not in scores.trials]
            what = f"step {number}" + (f", growth {growth}" if growth else "")
            scores.values |= runner.run(what, new, seeds, fresh=False) if new else {}
            scores.trials |= {trial.label: trial for trial in new}
            chosen = scores.best([trial.label for trial in trials], higher)
            if chosen is None:
                raise FloatingPointError(f"training diverged at every value of {', '.join(names)}; lower the rates.")
            held = dict(scores.trials[chosen].values)
            wider = grid.grown(names, held) if growth < growths else grid
            if wider.values == grid.values:
                break
            grid = wider
        rows = []
        for trial in trials:
            label = trial.label
            mean, low, high = spread_of(scores.values[label]["validation"], runner.metric, level)
            rows.append(
                {"step": number, "chooses": ", ".join(names), **trial.values, "mean": mean, "low": low, "high": high,
                 "chosen": label == chosen, "ran before": label in before, "trial": label}
            )  # fmt: skip
        tables.append(pd.DataFrame(rows))
    return scores, pd.concat(tables, ignore_index=True), held, grid


def _checked(runner: Runner, scores: _Scores, best: Trial, seeds: Sequence[int], higher: bool, level: float) -> Check:
    """Run the choice and the runner-up under fresh seeds, and what test samples would have chosen if they were seen."""
    others = [label for label in scores.trials if label != best.label]
    second = scores.best(others, higher)
    by_test = scores.best(scores.trials, higher, "test") if runner.also_test else None
    wanted = list(dict.fromkeys(one for one in (best.label, second, by_test) if one is not None))
    found = runner.run("fresh", [scores.trials[one] for one in wanted], seeds, fresh=True)
    same_data = isinstance(runner.clients, Clients)
    split = "test" if same_data and "test" in found[best.label] else "validation"
    before, after = scores.values[best.label]["validation"], found[best.label][split]
    difference = test_optimism = None
    if second is not None and len(after) > 1 and np.isfinite([after, found[second][split]]).all():
        difference = paired_difference(after, found[second][split], level=level)
    if by_test is not None:
        test_optimism = excess(scores.values[by_test]["test"], found[by_test]["test"], higher, level)
    return Check(
        best.label, second, by_test, runner.measured(fresh=True), split, same_data, float(before.mean()),
        spread_of(after, runner.metric, level), excess(before, after, higher, level), difference, test_optimism,
    )  # fmt: skip
