"""Exact limits for a probability."""

from __future__ import annotations

from fedstat import _checks


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return two-sided Clopper-Pearson limits for a probability after `successes` in `n` independent trials.

    Parameters
    ----------
    successes, n : int
        Whole numbers, ``0 <= successes <= n`` and ``n >= 1``.
    level : float
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If a number is not whole or out of its range.

    Examples
    --------
    >>> from fedstat.inference import clopper_pearson
    >>> low, high = clopper_pearson(0, 100)
    >>> low, round(high, 4)  # nothing found in 100 trials: the one-sided limit would be the rule of three's 0.03
    (0.0, 0.0362)
    """
    from statsmodels.stats.proportion import proportion_confint

    successes, n = _checks.whole("successes", successes), _checks.whole("n", n)
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"successes must lie between 0 and n >= 1, got {successes} of {n}.")
    low, high = proportion_confint(successes, n, 1 - _checks.check_level(level), method="beta")
    return float(low), float(high)
