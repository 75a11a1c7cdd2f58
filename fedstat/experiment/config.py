"""What a configuration may say: all keys of an ``experiment.toml``, by table.

Above the tables
    rounds              communication rounds; required
    seed                a master seed or a list of them (0)
    vary                what follows each seed: "partition", "initial weights", "participants", "batches" (all four)
    participation       share of the clients in each round (1), or the table ``[participation]``
    device, dtype       as in `fedstat.federate` ("cpu", "float32")
    executor            "auto", "stacked", "per-client", "ray", or ``"mine.py:Name"`` ("auto")
    checkpoint          rounds between checkpoints (by time)

``[participation]``: who comes, drops out and does part of the work, instead of the share
    name                "poisson", "dropout", "stragglers" or "trace" of `fedstat.attendance`, or ``"mine.py:Name"``;
                        its arguments are further keys, such as ``share = 0.3``

``[data]``, required: either `name` or `file`
    name                a data set, as ``fedstat data list`` prints them
    root                the folder that holds the data sets (``FEDSTAT_DATA``)
    pool                deal the official test part, too (false)
    file                one's own .csv with a header, or .npz with arrays, inputs as ``x``
    client, target      columns or arrays of a file ("client", "y")
    inputs              of a .csv, the columns that are inputs (all but client and target)
    drop                instead, the columns that are not, such as ``["patient_id"]`` (none)
    prepare             "standard" (impute, standardise, encode text), or a transformer of scikit-learn's or a function
                        that makes one, as ``"mine.py:name"`` (none)
    fit_on              whose training samples teach it: "pooled" or "client" ("pooled")
    tokens              of an .npz, keep the whole numbers of ``x`` whole, for an embedding (false)

``[partition]``, required: who holds what
    kind                one of the next, each with keys of its own; required
        "iid"               clients
        "dirichlet"         clients, alpha, min_size (10), tries (100)
        "dirichlet-draws"   clients, alpha, train (500), held_out (100), apart (false)
        "shards"            clients, classes_per_client
        "one-label"         clients
        "group"             by (the only grouping), min_size (2)
        "domains"           by ("superclass"), groups (those of CIFAR-100)
    test                share of each client's own samples, "own classes" or "all" (0.2); not for "dirichlet-draws";
                        of tables and of one's own files the share is taken of each class of a client
    most_test           with "own classes", at most so many test samples for each client
    validation          share that neither trains nor tests (0)
    new_clients         who is offered models only after training: a share of the clients, drawn by each seed, or names,
                        such as ``["Basel"]`` (0)
    permute_labels      give every client its own permutation of the labels (false)

``[model]``, required
    name                a network of `fedstat.models`, or ``"mine.py:Name"``; its arguments are further keys

``[method.LABEL]``, at least one
    name                a method of `fedstat.methods`, or ``"mine.py:Name"`` (the label); its options are further keys
    server              how the server steps: "sgd", "adagrad", "adam" or "yogi" of `fedstat.server`, with options such
                        as ``{ name = "adam", lr = 0.01 }``, or ``"mine.py:Name"`` (it takes over what is aggregated)
    aggregator          how the server combines clients' changes: "mean", or "median", "trimmed-mean",
                        "geometric-median", "krum", "multi-krum" (with f and kept), "bulyan" or "clipped-mean" of
                        `fedstat.aggregators`, with options ("mean", weighted)
    compression         how uploads are compressed: "half", "qsgd", "rand-k", "top-k" or "sign" of
                        `fedstat.compression`, with options such as ``{ name = "top-k", share = 0.01 }`` (not at all)
    mechanism           how clients' changes are made differentially private: "gaussian" of `fedstat.mechanisms`, with
                        options, beside ``weighting = "uniform"`` (not at all)
    training            what differs from ``[training]`` for this method, such as ``{ lr = 0.01 }`` (nothing)
    grid                values to choose from by ``[tune]``, such as ``{ penalty = [0.1, 1.0] }`` (none)

``[training]``, required
    The arguments of `fedstat.Training`, such as lr, batch_size, local_epochs, optimizer, loss.
    schedule            "cosine" over the run's rounds; "milestones" or "warmup" with options, such as
                        ``{ name = "warmup", rounds = 5 }``; or ``"mine.py:name"`` (none)

``[evaluation]``
    every               rounds between evaluations; the last ones are all evaluated (1)
    last                the summary is the mean over so many last rounds (10)
    common              test global models on the official test part as well (false)
    metrics             what to measure beside the standard metrics: names, or ``"mine.py:name"``
    trained             test models also as local training left them (false)
    predictions         keep what the final models predict for every test and validation sample in ``run/predictions``,
                        which `Result.predictions` reads (false)
    control             label of the method that the others are compared with (FedAvg, or the first)
    margin              largest difference that counts as none

``[attack]``: clients that attack the run, see `fedstat.attacks`; models are measured on the honest ones
    name                "sign-flip", "gaussian", "a-little", "inner-product" or "label-flip", or ``"mine.py:Name"``; its
                        options are further keys
    share               the share of the clients that attack, in [0, 1); required

``[stop]``
    The arguments of `fedstat.Patience`: when a method under a seed ends early.

``[tune]``: before the run, choose parameters on validation samples, as `fedstat.tune` does; ``tuning.csv`` tells how
    grid                values that every method chooses from, such as ``{ lr = [0.01, 0.03, 0.1] }`` (none)
    seed                a seed or a list of them, none of the run's; required
    rounds              rounds of a trial (those of the run)
    last                rounds averaged (as for the evaluation)
    growths             how often a grid grows whose best value is an end of it (3)
    metric              what is chosen by ("accuracy", or "mse" of a regression)
    fresh               seeds under which choice and runner-up run again, to see how optimistic the choice was (none)

``[plan]``
    The arguments of `fedstat.inference.AnalysisPlan`: what will be compared; its arms are all methods, and `last` is
    that of the evaluation unless it is given.

``fedstat new NAME`` makes a file to begin with, ``fedstat run FILE --dry-run`` prints one with all its defaults, and
``--set TABLE.KEY=VALUE`` changes a value. `fedstat.experiment.read` makes an `Experiment` of a file, whose values are
plain, so that `to_table` can write them back; `fedstat.experiment.build` makes data, network and methods of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from fedstat.experiment.dealing import Counted, Dealing
from fedstat.federated import Patience, Training
from fedstat.federated.client.seeds import SOURCES, Seeds, check_vary
from fedstat.federated.plan import seeds_of
from fedstat.inference import AnalysisPlan

__all__ = ["to_table"]  # what `help` shows beside the keys: of dataclasses it would list all that Python adds to them

Seed = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Source:
    """``[data]``: where samples come from, a data set by its name or a file of one's own."""

    name: str | None = None
    root: str | None = None
    file: str | None = None
    client: str = "client"
    target: str = "y"
    inputs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    drop: tuple[str, ...] | None = None
    pool: bool = False
    prepare: str | None = None
    fit_on: Literal["pooled", "client"] = "pooled"
    tokens: bool = False

    def __post_init__(self) -> None:
        if (self.name is None) == (self.file is None):
            raise ValueError("give either name (a data set) or file (one's own .csv or .npz).")
        if self.file is not None and not self.file.lower().endswith((".csv", ".npz")):
            raise ValueError(f"file must end in .csv or .npz, got {self.file!r}.")
        given = [key for key in ("inputs", "drop") if getattr(self, key) is not None]
        if given and not (self.file or "").lower().endswith(".csv"):
            raise ValueError(f"{given[0]} names columns of a .csv, and the data are {self.name or self.file}.")
        if self.tokens and not (self.file or "").lower().endswith(".npz"):
            raise ValueError(f"tokens keeps whole numbers of an .npz, and the data are {self.name or self.file}.")
        if len(given) == 2:
            raise ValueError("inputs names the columns to use and drop those to leave out: give one of them, not both.")
        if self.prepare is not None and self.prepare != "standard" and ":" not in self.prepare:
            raise ValueError(f'prepare must be "standard" or one\'s own, as "mine.py:name", got {self.prepare!r}.')


class Choice(BaseModel, extra="allow", strict=True):
    """``[model]``, ``[attack]`` and the like: what is chosen, and as further keys its arguments in plain values.

    One's own is named by its path, as ``/path/mine.py:Name``.
    """

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """The further keys."""
        return self.model_extra or {}

    def given(self, options: Mapping[str, Any]) -> Self:
        """Return the same choice with other options; those that are None, which TOML lacks, are left out."""
        known = {name: value for name, value in options.items() if value is not None}
        return type(self)(**known | {name: getattr(self, name) for name in type(self).model_fields})


class MethodChoice(Choice):
    """``[method.LABEL]``: a method, and what is its own of local training and of tuning, as a file would hold them."""

    training: dict[str, Any] = {}
    grid: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Tune:
    """``[tune]``: parameters that are chosen on validation samples before the run, see `fedstat.tune`.

    The seeds deal clients anew where the partition varies, so that a sample which tests under one seed of the run may
    have validated under a seed of tuning. An official test part, or a partition that does not vary, keeps them apart.
    """

    seed: Seed | Annotated[tuple[Seed, ...], Field(min_length=1)]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rounds: Counted | None = None
    last: Counted | None = None
    growths: Annotated[int, Field(ge=0)] = 3
    metric: str | None = None
    fresh: tuple[Seed, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of tuning."""
        return (self.seed,) if isinstance(self.seed, int) else self.seed


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """``[evaluation]``: when models are tested, and on what.

    A run that is continued for more rounds may begin to keep `predictions`. `margin` is in the unit of the metric, and
    lets methods be found equivalent.
    """

    every: Counted = 1
    last: Counted = 10
    common: bool = False
    metrics: tuple[str, ...] = ()
    trained: bool = False
    predictions: bool = False
    control: str | None = None
    margin: Annotated[float, Field(gt=0)] | None = None


@dataclass(frozen=True, kw_only=True)
class General:
    """The keys above the tables.

    Sources of randomness that `vary` does not name follow the first seed. Results do not depend on the executor, beyond
    rounding, which batch norm in float32 amplifies: see `chunk` of `fedstat.federate`.
    """

    rounds: Annotated[int, Field(ge=1, le=10**6)]
    seed: Seed | Annotated[tuple[Seed, ...], Field(min_length=1)] = 0
    vary: tuple[str, ...] = SOURCES[1:]
    participation: float | dict[str, Any] = 1.0
    device: str = "cpu"
    dtype: Literal["float32", "float64", "tf32", "bf16-mixed"] = "float32"
    executor: str = "auto"
    checkpoint: Counted | None = None

    def __post_init__(self) -> None:
        seeds_of(list(self.seeds))
        object.__setattr__(self, "vary", check_vary(self.vary))
        if "data" in self.vary:
            raise ValueError(
                "vary names 'data', but the samples of a data set are the same under all seeds; 'partition' says who "
                "holds which of them."
            )

    @property
    def seeds(self) -> tuple[int, ...]:
        """All master seeds."""
        return (self.seed,) if isinstance(self.seed, int) else self.seed

    def partition_seed(self, seed: int) -> int:
        """Return the seed that the partition follows under one of the master seeds."""
        return Seeds(seed, self.seeds[0], self.vary).of("partition")


@dataclass(frozen=True, kw_only=True)
class Experiment(General):
    """A whole configuration; `fedstat.experiment.read` makes it of a file.

    Parameters
    ----------
    data, partition, model, method, training, evaluation
        The tables; methods by label.
    trainings : mapping of str to Training
        Local training of each method by label: `training`, but for what is its own.
    attack : Choice, optional
        ``[attack]``: what some clients do in place of taking part honestly.
    tune : Tune, optional
        ``[tune]``: what is chosen before the run.
    stop : Patience, optional
        ``[stop]``: when a method under a seed ends early.
    plan : AnalysisPlan, optional
        ``[plan]``: how the run will be analysed.
    parts : mapping of str to object
        Those entries of ``[training]`` that name an optimiser, a schedule or a loss, as a file would hold them.

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
    >>> fs.experiment.read(file).evaluated
    [1, 2]
    """

    data: Source
    partition: Dealing
    model: Choice
    method: Mapping[str, MethodChoice]
    training: Training
    trainings: Mapping[str, Training]
    evaluation: Evaluation = field(default_factory=Evaluation)
    attack: Choice | None = None
    tune: Tune | None = None
    stop: Patience | None = None
    plan: AnalysisPlan | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tune is None:
            return
        named: dict[int, str] = {}
        for key, seeds in {"seed": self.seeds, "tune.seed": self.tune.seeds, "tune.fresh": self.tune.fresh}.items():
            for seed in seeds:
                if seed in named:
                    raise ValueError(f"{key} holds {seed}, as {named[seed]} does; they must be different seeds.")
                named[seed] = key

    @property
    def grids(self) -> dict[str, dict[str, Any]]:
        """What tuning chooses from, by label where there is a choice: the values of all methods, and each one's own."""
        common = {} if self.tune is None else self.tune.grid
        return {label: grid for label, choice in self.method.items() if (grid := {**common, **choice.grid})}

    @property
    def trials(self) -> dict[str, int]:
        """How many combinations of values tuning begins with, by label."""
        return {label: math.prod(map(len, grid.values())) for label, grid in self.grids.items()}

    @property
    def evaluated(self) -> list[int]:
        """Rounds after which models are tested."""
        every, end = self.evaluation.every, self.rounds + 1
        return sorted({*range(every, end, every), *range(max(1, end - self.evaluation.last), end)})


def to_table(experiment: Experiment) -> dict[str, Any]:
    """Return the configuration as a TOML file would hold it, with every default filled in."""
    table = asdict(experiment)
    del table["trainings"]
    table["training"] |= table.pop("parts")
    for key, choice in {"model": experiment.model, "attack": experiment.attack}.items():
        table[key] = None if choice is None else {"name": choice.name, **choice.options}
    table["method"] = {
        label: {"name": c.name, **c.options, **{k: v for k in ("training", "grid") if (v := getattr(c, k))}}
        for label, c in experiment.method.items()
    }
    return _plain(table)


def _plain(value: Any) -> Any:
    """Leave out what is None, which TOML lacks, and write tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
