"""How seeds, clients and data of an experiment belong together, and what its result speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedstat import _checks

#: What the sentence says beyond "other runs", by clients and data: over runs, and over new clients.
_OVER_RUNS = {
    ("same", "fixed"): "on these clients with these data, not of other clients or other data",
    ("same", "resplit"): "on these clients with other samples of theirs, not of other clients",
    ("same", "drawn"): "on these clients with new data of theirs, not of other clients",
    ("new", "fixed"): "on other clients to whom the same data are dealt, not of other data",
    ("new", "resplit"): "on other clients to whom other samples like these are dealt, not of another population",
    ("new", "drawn"): "on other clients of the same population, not of another population",
}
_NEW_CLIENTS = {"fixed": "which keep their data", "resplit": "with samples of their own", "drawn": "with new data"}


@dataclass(frozen=True)
class Design:
    """How the seeds, the clients and the data of runs belong together; it decides the interval.

    Attributes
    ----------
    clients : {"same", "new"}
        "same": the same clients under every seed, crossed with seeds (hospitals, writers). "new": clients drawn or
        dealt anew for every seed, nested in seeds.
    data : {"fixed", "resplit", "drawn"}
        "fixed": training and test samples are the same under every seed. "resplit": one fixed set of samples is split
        into training and test samples anew for every seed. "drawn": every seed draws its samples from a population.
    over : {"runs", "clients"}
        What the sentence is to speak of: other runs on clients that come about as these did, or new clients like
        these. It makes a difference where the clients are the same under every seed.
    test_to_train : float, optional
        For "resplit", and only there: the number of test samples over the number of training samples of one split.

    Raises
    ------
    ValueError
        If a field has an unknown value, or fields do not go together.

    Notes
    -----
    Of S splits of the same data the variance of the mean over runs is ``(1 / S + test_to_train)`` times that between
    splits. Over new clients, K of them, only the part that a split does to all clients at once, through a shared model,
    is corrected: ``var(clients) / K + (1 / S + test_to_train) var(splits) + var(both) / (S K)``. For new clients have
    new samples, and what the samples of one client do to it under all splits alike is in the variance between clients.

    References
    ----------
    Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52.

    Examples
    --------
    >>> from fedstat.inference import Design
    >>> print(Design(clients="same", data="fixed").sentence())
    The comparison speaks of other runs on these clients with these data, not of other clients or other data.
    >>> print(Design(clients="same", data="fixed", over="clients").sentence())
    The comparison speaks of other runs on other clients like these, which keep their data.
    """

    clients: Literal["same", "new"]
    data: Literal["fixed", "resplit", "drawn"]
    over: Literal["runs", "clients"] = "runs"
    test_to_train: float | None = None

    def __post_init__(self) -> None:
        _checks.check_fields(
            self, clients=("same", "new"), data=("fixed", "resplit", "drawn"), over=("runs", "clients"),
            test_to_train="(0, inf)",
        )  # fmt: skip
        if self.data == "resplit" and self.test_to_train is None:
            raise ValueError(
                "test_to_train is needed with data='resplit': splits of the same samples are correlated, by how much "
                "depends on it. Give the number of test samples over the number of training samples."
            )
        if self.test_to_train is not None and self.data != "resplit":
            raise ValueError(f"test_to_train={self.test_to_train} has no use with data={self.data!r}. Leave it out.")

    @property
    def crossed(self) -> bool:
        """Whether seeds and clients are both random and crossed: the same clients, and a sentence on new ones."""
        return self.clients == "same" and self.over == "clients"

    def sentence(self) -> str:
        """Return the one sentence that says what the result generalises to."""
        allowed = "; for the overlap of splits of the same samples the interval allows" * (self.data == "resplit")
        new = f"on other clients like these, {_NEW_CLIENTS[self.data]}"
        to = new if self.crossed else _OVER_RUNS[self.clients, self.data]
        return f"The comparison speaks of other runs {to}{allowed}."


def overlap_ratio(test: float, train: float, common: float = 1.0) -> float:
    """Return the ratio that corrects for the samples which two seeds have in common; zero if they have none.

    Results of two splits of the same samples are taken to correlate by the test samples' share of both parts (Nadeau
    and Bengio 2003). Where seeds draw from the same samples and have but a part of them in common (`common`), they
    correlate by that part of it. With validation samples beside, these count as neither.
    """
    correlation = common * test / (test + train)
    return correlation / (1 - correlation)
