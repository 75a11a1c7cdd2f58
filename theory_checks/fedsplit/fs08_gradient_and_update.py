"""FS-08: the gradient and the accumulated update differ by 1/n.

FS-08c: the update that follows the mean loss.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.fedsplit.designs import listed

_STEP = Fraction(1, 8)


class _Unit(NamedTuple):
    """One client, one personal unit with output weight one, scalar inputs and G local steps."""

    inputs: tuple[int, ...]
    labels: tuple[int, ...]
    weight: int
    steps: int

    def loss(self, w: Fraction) -> Fraction:
        """Return the client's loss l_c as section 3.2 prints it, with its 1/(2n)."""
        errors = [max(w * x, Fraction(0)) - y for x, y in zip(self.inputs, self.labels, strict=True)]
        return sum((e * e for e in errors), Fraction(0)) / (2 * len(errors))

    def by_gradients(self) -> Fraction:
        """Return the weight after G steps along the gradient of the loss.

        The loss is quadratic on each side of zero, so a quotient of second order that stays on one side is its
        derivative there; zero counts to the right, as in the printed indicator.
        """
        w = Fraction(self.weight)
        for _ in range(self.steps):
            h = Fraction(1 if w >= 0 else -1)
            here, near, far = (self.loss(w + i * h) for i in range(3))
            w -= _STEP * (4 * near - 3 * here - far) / (2 * h)
        return w

    def by_updates(self, step: Fraction) -> Fraction:
        """Return the weight after the update that section 3.2 prints, a sum over G steps and n samples."""
        w = Fraction(self.weight)
        for _ in range(self.steps):
            w += step * sum((y - w * x) * x for x, y in zip(self.inputs, self.labels, strict=True) if w * x >= 0)
        return w

    def __str__(self) -> str:
        return (
            f"one unit of weight {self.weight}, inputs {listed(self.inputs)}, labels {listed(self.labels)}, "
            f"G = {self.steps}, η_l = 1/8"
        )


def _updates(step: Callable[[int], Fraction], sizes: tuple[int, ...] = (1, 2, 3)) -> Evidence:
    """G steps along the gradient of the loss against the printed sum of updates with a step that may depend on n."""
    units = [
        _Unit(x, y, w, steps)
        for n in sizes
        for x in itertools.product((1, 2), repeat=n)
        for y in itertools.product((-1, 0, 2), repeat=n)
        for w, steps in ((1, 1), (1, 2), (2, 3))
    ]
    among = "one sample" if sizes == (1,) else "up to three samples"
    names = ("weight by gradients of the loss", "by the printed update")
    sides = (Sides(str(u), u.by_gradients(), u.by_updates(step(len(u.inputs))), names) for u in units)
    return compared(sides, relation="==", of=f"cases of one unit with {among}, exactly")


FS08 = Claim(
    id="FS-08",
    place="section 3.2, local update: the displayed gradients, and the displayed formula of the accumulated update",
    said_by="paper",
    words="G steps along the gradient of the client's mean loss l_c are the accumulated update, both as printed.",
    statement="Delta w_q = -eta_l sum_(g in [G]) (partial l_c) / (partial w_(c,g,q))",
    severity="false",
    sensitivity="any difference: arithmetic is exact",
    flaw="The loss is a mean over the client's n samples and its gradient carries 1/n; in the accumulated update the "
    "factor is gone. The theory uses the update, so its local step is n times the step of the algorithm, and its rate "
    "is not the algorithm's (FS-10). Had the loss been printed as a sum, without its 1/n, the two would agree.",
    corrected="FS-08c",
)


@FS08.reading("both as printed")
def as_printed() -> Evidence:
    return _updates(lambda n: _STEP)


@FS08.control("one sample at the client")
def one_sample() -> Evidence:
    return _updates(lambda n: _STEP, sizes=(1,))


FS08C = Claim(
    id="FS-08c",
    place="corrected statement of FS-08",
    said_by="fedstat",
    words="With η_l / n in place of η_l the accumulated update is G steps along the gradient of the client's mean "
    "loss.",
    statement="1/n Delta w_q = -eta_l sum_(g in [G]) (partial l_c) / (partial w_(c,g,q))",
    severity="false",
    sensitivity="any difference: arithmetic is exact",
)


@FS08C.reading("step divided by n")
def divided() -> Evidence:
    return _updates(lambda n: _STEP / n)


@FS08C.mutant("step divided by n + 1")
def divided_by_one_more() -> Evidence:
    return _updates(lambda n: _STEP / (n + 1))
