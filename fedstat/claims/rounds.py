"""A round of FedAvg as a pure function: the steps that a claim is about, in numbers, fractions or symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

#: A model: a number, a fraction, a symbol or an array of them.
Model = TypeVar("Model", bound=Any)


def local_steps(w: Model, gradient: Callable[[Model], Model], *, steps: int, lr: Any) -> Model:
    """Make gradient steps of one size.

    Parameters
    ----------
    w : number, Fraction, sympy expression or array
        The model at the start; it is not changed.
    gradient : callable
        Returns the gradient at a model.
    steps : int
        Number of steps; none leaves the model as it is.
    lr : number
        Step size.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import local_steps
    >>> local_steps(Fraction(1), lambda w: 2 * w, steps=3, lr=Fraction(1, 4))
    Fraction(1, 8)
    """
    for _ in range(steps):
        w = w - lr * gradient(w)
    return w


def fedavg_round(
    w: Model,
    gradients: Sequence[Callable[[Model], Model]],
    *,
    lr: Any,
    steps: int | Sequence[int] = 1,
    weights: Sequence[Any] | Mapping[int, Any] | None = None,
) -> Model:
    """Let clients make gradient steps from one model, and add up their models with weights.

    Parameters
    ----------
    w : number, Fraction, sympy expression or array
        The server's model; arrays of fractions have ``dtype=object``.
    gradients : sequence of callable
        Each client's gradient.
    lr : number
        Step size.
    steps : int or sequence of int
        Local steps E, of all clients or of each.
    weights : sequence, mapping or None
        Each client's weight. A mapping from clients to weights names those who take part. Weights are used as they
        are, so that a sampling scheme whose weights add up to one only in expectation can be judged. None weighs all
        clients alike.

    Examples
    --------
    Two clients ``h / 2 (w - c)^2`` with optimum 1/3, from which two local steps move away:

    >>> from fractions import Fraction
    >>> from fedstat.claims import fedavg_round
    >>> gradients = [lambda w: 2 * w, lambda w: w - 1]
    >>> for steps in (1, 2):
    ...     print(fedavg_round(Fraction(1, 3), gradients, lr=Fraction(1, 4), steps=steps))
    1/3
    17/48
    """
    each = [steps] * len(gradients) if isinstance(steps, int) else steps
    given = [1] * len(gradients) if weights is None else weights
    shares: Mapping[int, Any] = given if isinstance(given, Mapping) else dict(enumerate(given))
    if len(each) != len(gradients) or not shares or not set(shares) <= set(range(len(gradients))):
        raise ValueError(
            f"steps and weights must fit the {len(gradients)} gradients, got steps={steps!r}, weights={weights!r}."
        )
    total = sum(p * local_steps(w, gradients[k], steps=each[k], lr=lr) for k, p in shares.items())
    return total / len(gradients) if weights is None else total
