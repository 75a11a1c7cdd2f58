"""A bound judged by the worst case of a method over all functions of a class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedstat.claims.evidence import Evidence
from fedstat.claims.mutation import Mutants
from fedstat.claims.runs import Functions, Method, Quantity, Run
from fedstat.claims.worst_cases import SOLVERS, TOLERANCE, NoWorstCase, Problem, WorstCase, worst_case

#: A ratio of worst case and bound is followed no further than this.
_CAP = 10.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting in which a theorem states that a measure is at most a bound.

    Attributes
    ----------
    case : str
        The setting in words.
    method, clients, measure, weights
        As `worst_case` takes them.
    bound : callable
        Returns the bound's summands by name, each a quantity of the `Run` that is not negative. They must grow with the
        functions, as the measure does, so none holds a number of its own. A bound G on gradients is not in `clients`:
        write G^2 as ``run.largest_gradient``, or as ``run.largest`` of all squared gradients that are meant.
    assumed : callable, optional
        Quantities of the `Run` that the theorem assumes not to be positive; they grow with the functions as the bound.

    Examples
    --------
    >>> from fedstat.claims import Functions, Setting, bounded, fedavg
    >>> setting = Setting(
    ...     case="a step of size 1", method=fedavg(step=1.0, local_steps=1), clients=[Functions(smoothness=1)],
    ...     measure=lambda run: run.distance, bound=lambda run: {"start": run.start},
    ... )
    >>> bounded([setting], of="steps").verdict
    'holds-on-cases'

    Constant functions reach the bound:

    >>> worst = setting.worst()
    >>> round(worst.reached, 4), round(abs(worst.functions[0](worst.run.first)), 4)
    (1.0, 0.0)
    """

    case: str
    method: Method
    clients: Sequence[Functions]
    measure: Callable[[Run], Quantity]
    bound: Callable[[Run], Mapping[str, Quantity]]
    weights: Sequence[float] | None = None
    assumed: Callable[[Run], Iterable[Quantity]] = lambda run: ()

    def worst(self, solvers: Iterable[str] = tuple(SOLVERS)) -> WorstCase:
        """Find the largest ratio of measure and bound, up to 10, and functions that reach it, whose bound is one."""

        def given(run: Run) -> Iterator[Quantity]:
            yield sum(self.bound(run).values())
            yield self.measure(run) * (1 / _CAP)
            yield from (1 + quantity for quantity in self.assumed(run))

        return worst_case(
            self.method, self.clients, measure=self.measure, given=given, weights=self.weights, solvers=solvers
        )


def bounded(settings: Iterable[Setting], *, of: str) -> Evidence:
    """Judge a bound by the worst case over all functions of a class, in each of several settings.

    The bound is scaled to one, so that the worst case is its ratio to the bound; heterogeneity, start and gradients
    take all values. Nowhere above one is support, and the largest ratio says how sharp the bound is. Above one
    anywhere is a refutation, if the functions rebuilt from the solution show it without a solver; `Setting.worst`
    returns them. An excess of at most 1 part in 10,000 is not told from none. If the solvers disagree by more, or the
    functions do not reach what they found, it is undecided. The summary names the solvers and the dual value. Mutants
    leave all but a thousandth of each summand out in turn.

    Parameters
    ----------
    settings : iterable of Setting
        The settings, simplest first.
    of : str
        What the settings are, in the plural.

    Raises
    ------
    ValueError
        If there is no setting, or a setting's bound, measure or clients do not grow with the functions.

    Examples
    --------
    Does a step of size 1 / L on convex functions leave at most a quarter of L times the squared distance? It does, and
    two thirds of that, a sixth, would do as well; an eighth is refuted:

    >>> from fedstat.claims import Functions, Setting, bounded, fedavg
    >>> def step(share):
    ...     return Setting(
    ...         case="one step of size 1", method=fedavg(step=1.0, local_steps=1), clients=[Functions(smoothness=1)],
    ...         measure=lambda run: run.gap, bound=lambda run: {"start": share * run.start},
    ...     )
    >>> found = bounded([step(1 / 4)], of="steps")
    >>> found.verdict, round(found.margin, 2)
    ('holds-on-cases', 0.67)
    >>> bounded([step(1 / 8)], of="steps").verdict
    'refuted'
    """
    summands, asked = [(setting, _summands(setting)) for setting in settings], " and ".join(SOLVERS)
    if not summands:
        raise ValueError("settings must not be empty: an enumeration of nothing proves nothing.")
    tried = [(setting, _ratio(setting)) for setting, _ in summands]
    found = [(setting, case) for setting, case in tried if case and case.agreed]
    failing = [(setting, case) for setting, case in found if case.reached > 1 + TOLERANCE]
    if len(found) < len(tried) and not failing:
        few = f"{len(tried) - len(found)} of {len(tried)} {of}"
        return Evidence("undecided", f"{asked} do not agree on a worst case in {few}", len(tried))
    setting, worst = max(found, key=lambda pair: pair[1].value)
    most = max(case.apart for _, case in found)
    apart = f"dual value {worst.dual:.4g}; {asked}, dual values and rebuilt functions at most {most:.0e} apart"
    if failing:
        first, case = failing[0]
        times = f"at least {_CAP:g}" if case.reached > _CAP - TOLERANCE else f"{case.reached:.4g}"
        example = f"{first.case}: functions in dimension {case.functions[0].points.shape[1]}, {times} times the bound"
        summary = f"exceeded in {len(failing)} of {len(tried)} {of}; largest ratio {worst.value:.4g}, {apart}"
        return Evidence("refuted", summary, len(tried), worst.value, example)
    mutants = Mutants(lambda left, right: left <= right * (1 + TOLERANCE), identity=False)
    mutants.meet(worst.value, 1.0)
    summary = f"no function exceeds it in {len(tried)} {of}; largest ratio {worst.value:.4g} ({setting.case}), {apart}"
    made = mutants.refuted | _without_each(summands)
    return Evidence("holds-on-cases", summary, len(tried), worst.value, made=made)


def _summands(setting: Setting) -> list[str]:
    """Return the names of the bound's summands; refuse a setting in which something does not grow with the functions.

    If all grow alike, functions whose bound is one stand for all others.
    """
    for kind in setting.clients:
        if math.isfinite(kind.gradient):
            raise ValueError(
                f"clients of a setting must have no bound on gradients, got {kind} ({setting.case}); "
                "leave it out, and write its square in the bound as run.largest_gradient."
            )
    run = Problem(setting.method, setting.clients, setting.weights).run
    bound = setting.bound(run)
    if not isinstance(bound, Mapping):
        raise ValueError(
            f"bound must return its summands by name, a dict, got {type(bound).__name__} ({setting.case})."
        )
    for what, quantity in (
        *((f'the summand "{name}" of the bound', part) for name, part in bound.items()),
        ("measure", setting.measure(run)),
        *(("assumed", part) for part in setting.assumed(run)),
        *(("run.largest", condition.expression) for condition in run.conditions),
    ):
        if constant := getattr(quantity, "decomposition_dict", {1: quantity}).get(1, 0):
            raise ValueError(
                f"{what} must grow with the functions, but holds the number {constant:g} ({setting.case}); "
                "make it a multiple of a quantity of the run."
            )
    return list(bound)


def _ratio(setting: Setting, solvers: Iterable[str] = tuple(SOLVERS)) -> WorstCase | None:
    """Return the setting's worst case; None if a solver gives up."""
    try:
        return setting.worst(solvers)
    except NoWorstCase:
        return None


def _without(setting: Setting, name: str) -> Setting:
    """Leave a summand out of the bound, all but a thousandth, so that the problem stays bounded."""

    def bound(run: Run) -> Mapping[str, Quantity]:
        return {one: (1e-3 if one == name else 1) * part for one, part in setting.bound(run).items()}

    return replace(setting, bound=bound)


def _without_each(summands: Sequence[tuple[Setting, list[str]]]) -> dict[str, bool]:
    """Leave out each summand of a bound that has several, in one setting after the other until one refutes the rest."""
    found = {}
    for name in dict.fromkeys(name for _, names in summands for name in names if len(names) > 1):
        cases = (_ratio(_without(s, name), ["CLARABEL"]) for s, names in reversed(summands) if name in names)
        found[f"without the {name}"] = any(c and c.agreed and c.reached > 1 + TOLERANCE for c in cases)
    return found
