"""``[partition]`` of a file: who holds what, a class for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from pydantic import Field

from fedstat.data.dealing import CIFAR100_DOMAINS

Counted = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """``[partition]``: who holds what; one subclass for each ``kind``.

    `fedstat.experiment.population` draws the clients of an experiment in Python. The functions that the kinds name draw
    the same under the same seed, as does `fedstat.data.from_csv` or `from_npz` for a file and ``kind = "group"``:

    >>> import numpy as np, fedstat as fs
    >>> source = fs.data.datasets.read("digits")
    >>> held = np.flatnonzero(~source.test)  # without the official test part; all samples with pool = true
    >>> part = fs.data.dirichlet(source.y[held], 10, 0.3, min_size=10, seed=3).within(held)
    >>> clients = fs.data.from_indices(source.x, source.y, part, test=0.2, seed=3, classes=source.classes)

    For tables, and files of one's own, the last step has ``stratify=True``. With ``test = "own classes"`` the partition
    goes through `fedstat.data.own_test` before it, and with ``permute_labels`` through `fedstat.data.permute_labels`.
    New clients are a share, drawn at random, or names, the same under every seed.
    """

    kind: str
    validation: Share = 0.0
    new_clients: Share | Annotated[tuple[str, ...], Field(min_length=1)] = 0.0
    permute_labels: bool = False


@dataclass(frozen=True, kw_only=True)
class DirichletDraws(Dealing):
    """``kind = "dirichlet-draws"``: see `fedstat.data.dirichlet_draws`, which draws the test samples as well."""

    kind: Literal["dirichlet-draws"] = "dirichlet-draws"
    clients: Counted
    alpha: Positive
    train: Counted = 500
    held_out: Counted = 100
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Tested(Dealing):
    """A partition that leaves the choice of test samples to the user.

    `test` is a share of each client's own samples, or the official test part, of which a client gets copies of the
    samples of the classes it holds ("own classes", at most `most_test` of them, drawn at random), or of all.
    """

    test: Share | Literal["own classes", "all"] = 0.2
    most_test: Counted | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.test, str) and not self.test + self.validation < 1:
            raise ValueError(f"test + validation must be less than 1, got {self.test} + {self.validation}.")
        if self.most_test is not None and self.test != "own classes":
            raise ValueError(f'most_test goes with test = "own classes", got test = {self.test}.')


@dataclass(frozen=True, kw_only=True)
class Iid(Tested):
    """``kind = "iid"``: see `fedstat.data.iid`."""

    kind: Literal["iid"] = "iid"
    clients: Counted


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Tested):
    """``kind = "dirichlet"``: see `fedstat.data.dirichlet`; that no client has less than ten samples is ours."""

    kind: Literal["dirichlet"] = "dirichlet"
    clients: Counted
    alpha: Positive
    min_size: Counted = 10
    tries: Counted = 100


@dataclass(frozen=True, kw_only=True)
class Shards(Tested):
    """``kind = "shards"``: see `fedstat.data.shards`."""

    kind: Literal["shards"] = "shards"
    clients: Counted
    classes_per_client: Counted


@dataclass(frozen=True, kw_only=True)
class OneLabel(Tested):
    """``kind = "one-label"``: see `fedstat.data.one_label_shards`."""

    kind: Literal["one-label"] = "one-label"
    clients: Counted


@dataclass(frozen=True, kw_only=True)
class Group(Tested):
    """``kind = "group"``: see `fedstat.data.by_group`; `by` may be left out where the data have one grouping."""

    kind: Literal["group"] = "group"
    by: str | None = None
    min_size: Counted = 2


@dataclass(frozen=True, kw_only=True)
class Domains(Tested):
    """``kind = "domains"``: see `fedstat.data.domains`."""

    kind: Literal["domains"] = "domains"
    clients: Counted
    by: str = "superclass"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: CIFAR100_DOMAINS)


AnyDealing = Annotated[
    Iid | Dirichlet | DirichletDraws | Shards | OneLabel | Group | Domains, Field(discriminator="kind")
]
KINDS: dict[str, type[Dealing]] = {cls.kind: cls for cls in get_args(get_args(AnyDealing)[0])}
