"""CL-33: steps on batches can make a fine-tuned model worse on its own data.

CL-33c: full gradients and steps of at most 2 / L never hurt.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, local_steps

CL33 = Claim(
    id="CL-33",
    place="folklore: why personalisation by fine-tuning is said to be safe on the training data",
    said_by="folklore",
    words="A model that a client has fine-tuned from the global one is no worse than the global one on the client's "
    "own training data.",
    statement="F_k (w_k) <= F_k (w)",
    severity="unstated condition",
    assumptions="squared error of a slope through the origin, steps of gradient descent that a learner "
    "would call small: at most 1 / L for the samples that it uses",
    sensitivity="any larger loss, exact",
    flaw="A step on a batch goes towards that batch's optimum, not the client's. If the global model is "
    "nearly best for the client already, the step leads away from there.",
    corrected="CL-33c",
)

Sample = tuple[int, int]


class Tuning(NamedTuple):
    """A client's samples (x, y), the global slope, and the rate as a share of 1 / L of the samples used."""

    samples: tuple[Sample, ...]
    start: Fraction
    share: Fraction

    def loss(self, w: Fraction) -> Fraction:
        """Return half the mean squared error of ``y = w x`` on all samples."""
        return sum(((w * x - y) ** 2 for x, y in self.samples), Fraction(0)) / (2 * len(self.samples))

    def tuned(self, batch: tuple[Sample, ...], steps: int) -> Fraction:
        """Return the slope after steps on a batch."""
        curvature = Fraction(sum(x * x for x, _ in batch), len(batch))

        def gradient(w: Fraction) -> Fraction:
            return sum((x * (w * x - y) for x, y in batch), Fraction(0)) / len(batch)

        return Fraction(local_steps(self.start, gradient, steps=steps, lr=self.share / curvature))

    def __str__(self) -> str:
        samples = ", ".join(map(str, self.samples))
        return f"samples (x, y) {samples}, w = {self.start}, step {self.share} / L"


def _tunings(shares: tuple[Fraction, ...]) -> Iterator[Tuning]:
    points = [(1, 0), (1, 2), (2, 1), (-1, 1)]
    for n, start, share in product((2, 3), (Fraction(0), Fraction(1), Fraction(-2)), shares):
        for samples in combinations_with_replacement(points, n):
            yield Tuning(samples, start, share)


def _losses(shares: tuple[Fraction, ...], *, whole: bool, steps: tuple[int, ...] = (1, 3)) -> Iterator[Sides]:
    for case, several in product(_tunings(shares), steps):
        for batch in [case.samples] if whole else [(sample,) for sample in case.samples]:
            used = "all samples" if whole else f"the sample {batch[0]}"
            after, before = case.loss(case.tuned(batch, several)), case.loss(case.start)
            yield Sides(f"{case}, steps on {used}: {several}", after, before, names=("loss after", "before"))


_SMALL = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(1))


@CL33.reading("steps on a batch of one sample")
def on_batches() -> Evidence:
    return compared(_losses(_SMALL, whole=False), of="fine-tuned models")


@CL33.condition("steps on all of the client's samples")
def on_all() -> Evidence:
    return compared(_losses(_SMALL, whole=True), of="fine-tuned models")


CL33C = Claim(
    id="CL-33c",
    place="corrected statement of CL-33, the descent lemma",
    said_by="fedstat",
    words="With gradients of all of the client's samples and steps of at most 2 / L no fine-tuned model is worse on "
    "them.",
    statement="0 < eta <= 2 / L ==> F_k (w_k) <= F_k (w)",
    severity="false",
    assumptions="as in CL-33",
    sensitivity="any larger loss, exact",
)


@CL33C.reading("steps up to 2 / L")
def up_to_two() -> Evidence:
    return compared(_losses((*_SMALL, Fraction(3, 2), Fraction(2)), whole=True), of="fine-tuned models")


@CL33C.mutant("steps of 2.01 / L")
def beyond() -> Evidence:
    return compared(_losses((Fraction(201, 100),), whole=True), of="fine-tuned models")
