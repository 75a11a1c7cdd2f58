"""Judge an identity of expressions in symbols: what agrees identically agrees for every value of the symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, count, pairwise
from typing import Any

from fedstat.claims.cases import Sides, enumeration
from fedstat.claims.evidence import Evidence
from fedstat.claims.mutation import Mutants, total


def identity(cases: Iterable[Sides], *, of: str) -> Evidence:
    """Judge whether two sides agree as rational expressions, for all values of their symbols.

    Both sides are brought to a common normal form, which decides for polynomials and their ratios: what stands
    "holds". A counterexample names values of the symbols at which the sides differ.

    Parameters
    ----------
    cases : iterable of Sides
        All cases that the statement is about, with sympy expressions as sides; a mapping names summands as elsewhere.
    of : str
        What was compared, in the plural.

    Raises
    ------
    ValueError
        If a side is no rational expression in its symbols, as with an irrational constant, or holds a float.

    Examples
    --------
    One step of FedAvg is a step on the mean loss; two are not:

    >>> import sympy
    >>> from fedstat.claims import Sides, fedavg_round, identity
    >>> w, c, d, h, lr = sympy.symbols("w c d h lr")
    >>> gradients = [lambda w: h * (w - c), lambda w: w - d]
    >>> mean = lambda w: sum(g(w) for g in gradients) / 2
    >>> def rounds(steps):
    ...     wanted = fedavg_round(w, [mean], lr=lr, steps=steps)
    ...     return [Sides(f"{steps} steps", fedavg_round(w, gradients, lr=lr, steps=steps), wanted)]
    >>> identity(rounds(1), of="rounds").verdict
    'holds'
    >>> identity(rounds(2), of="rounds").counterexample
    '2 steps, c = 0, d = 0, h = 0, lr = 1, w = 1: found 1/2, claimed 1/4'
    """
    import sympy

    def agree(left: Any, right: Any) -> bool:
        return bool(sympy.cancel(sympy.together(sympy.sympify(left) - right)) == 0)

    mutants = Mutants(agree, identity=True)

    def holds(case: Sides) -> bool:
        left, right = sympy.sympify(total(case.left)), sympy.sympify(total(case.right))
        if left.has(sympy.Float) or right.has(sympy.Float):
            raise ValueError(
                f"both sides must be exact, got {left} and {right} ({case.case}); write 0.1 as Fraction(1, 10)."
            )
        parts = (left - right).atoms(sympy.Number, sympy.NumberSymbol, sympy.Function, sympy.Pow)
        if not (left - right).is_rational_function() or any(e.is_number and not e.is_rational for e in parts):
            raise ValueError(
                f"both sides must be rational expressions, constants included, got {left} and {right} ({case.case})."
            )
        mutants.meet(case.left, case.right)
        return agree(left, right)

    found = enumeration(cases, holds, of=of, show=_where_they_differ)
    return found if found.verdict == "refuted" else replace(found, made=mutants.refuted)


def _where_they_differ(case: Sides) -> str:
    """Name the simplest small whole numbers for the symbols at which both sides are numbers and differ."""
    import sympy

    left, right = sympy.sympify(total(case.left)), sympy.sympify(total(case.right))
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    for values in _small(len(symbols)):
        chosen = dict(zip(symbols, values, strict=True))
        a, b = left.subs(chosen), right.subs(chosen)
        if a.is_finite and b.is_finite and a != b:
            at = "".join(f", {symbol} = {value}" for symbol, value in chosen.items())
            return f"{case.case}{at}: {case.names[0]} {a}, {case.names[1]} {b}".replace("-", "−")
    raise AssertionError("a rational expression that is not zero differs from zero at some whole numbers")


def _small(symbols: int) -> Iterator[tuple[int, ...]]:
    """Return tuples of whole numbers from 0, those with the smallest sum first, without end."""
    for largest in count() if symbols else (0,):
        for bars in combinations(range(largest + symbols - 1), max(symbols - 1, 0)):
            ends = (-1, *bars, largest + symbols - 1)
            yield tuple(b - a - 1 for a, b in pairwise(ends)) if symbols else ()
