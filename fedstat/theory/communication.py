"""Count what the fast/slow protocol of filter decomposition communicates."""

from __future__ import annotations

from fractions import Fraction

from fedstat._checks import number, whole

Number = Fraction | float


def communication_fraction(beta: Number, *, atoms: int, coefficients: int, head: int) -> Number:
    """Return the share of parameters that travel if the coefficients do so once in ``1 / beta`` rounds.

    With A atoms, C coefficients and h parameters in the head::

        (beta (A + C + h) + (1 - beta) (A + h)) / (A + C + h) = beta + (1 - beta) s,   s = (A + h) / (A + C + h)

    so the share is close to beta only if atoms and head are few. Parameters that travel every round count as head, e.g.
    hidden dense layers unless they are sent as rarely as the coefficients.

    Parameters
    ----------
    beta : Fraction or float
        Share of rounds with the coefficients, in (0, 1].
    atoms, coefficients, head : int
        Numbers of parameters, at least one in all.

    Returns
    -------
    Fraction or float
        The share relative to sending all parameters in every round; exact for a fraction.

    Raises
    ------
    ValueError
        If `beta` is no share, a count is negative or fractional, or all counts are zero.

    References
    ----------
    Filter decomposition, section A.2.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.theory import communication_fraction
    >>> share = communication_fraction(Fraction(1, 5), atoms=100, coefficients=9_000, head=900)
    >>> print(share, "of the parameters travel, not", Fraction(1, 5))
    7/25 of the parameters travel, not 1/5
    """
    number("beta", beta, "(0, 1]")
    atoms, coefficients, head = whole("atoms", atoms, 0), whole("coefficients", coefficients, 0), whole("head", head, 0)
    everything = atoms + coefficients + head
    if everything == 0:
        raise ValueError("atoms, coefficients and head must not all be 0: give the network's numbers of parameters.")
    return (beta * everything + (1 - beta) * (atoms + head)) / everything
