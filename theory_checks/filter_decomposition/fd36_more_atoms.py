"""FD-36: more atoms raise accuracy on average, not everywhere.

FD-36c: three atoms are the worst in every setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

from fedstat.claims import Claim, Evidence, Sides, all_of, compared
from simulations.published import printed

_ATOMS = (3, 6, 9, 12)
_NAMES = ("hundredths of a point", "with more atoms")


def _table() -> dict[str, dict[int, int]]:
    """Return accuracies in hundredths of a point by setting and number of atoms."""
    table: dict[str, dict[int, int]] = {}
    for row in printed("filter_decomposition", "table_2"):
        table.setdefault(row["setting"], {})[int(row["atoms"])] = int(100 * Fraction(row["accuracy"]))
    return table


def _means() -> dict[int, Fraction]:
    """Return the mean accuracy over the settings."""
    table = _table()
    return {m: Fraction(sum(row[m] for row in table.values()), len(table)) for m in _ATOMS}


def _rising(rows: Iterable[str], atoms: Sequence[int] = _ATOMS) -> Evidence:
    """Judge accuracy in these settings, from each number of atoms to the next."""

    def steps() -> Iterator[Sides]:
        table = _table()
        for setting in rows:
            for few, more in pairwise(atoms):
                accuracies = table[setting][few], table[setting][more]
                yield Sides(f"{setting}, from {few} to {more} atoms", *accuracies, _NAMES)

    return compared(steps(), of="steps in Table 2", relation="<", every=True)


FD36 = Claim(
    id="FD-36",
    place="section 6.5, first paragraph, fourth sentence, Table 2",
    said_by="paper",
    words="Larger numbers of filter atoms correspond to higher accuracy.",
    statement="m_a < m'_a => A(m_a) < A(m'_a)",
    severity="false",
    assumptions="printed accuracies of six settings with 3, 6, 9 and 12 atoms, of which no deviations are printed",
    sensitivity="a hundredth of a point, as printed",
    flaw="In three of the six settings the largest number of atoms is not the best, and three of the eighteen steps "
    "from one number to the next lose accuracy, up to half a point. It is the mean over the settings that rises at "
    "every step, by a tenth of a point from nine to twelve.",
    corrected="FD-36c",
)


@FD36.reading("every step to more atoms raises accuracy, in every setting")
def every_step() -> Evidence:
    return _rising(_table())


@FD36.reading("the largest number of atoms is the best in every setting")
def largest_is_best() -> Evidence:
    cases = (
        Sides(f"{setting}, {m} against 12 atoms", row[m], row[12], _NAMES)
        for setting, row in _table().items()
        for m in _ATOMS[:-1]
    )
    return compared(cases, of="comparisons in Table 2", relation="<", every=True)


@FD36.reading("on average over the settings, every step to more atoms raises accuracy")
def on_average() -> Evidence:
    means = _means()
    cases = (Sides(f"from {few} to {more} atoms", means[few], means[more], _NAMES) for few, more in pairwise(_ATOMS))
    return compared(cases, of="steps of the mean over settings", relation="<", every=True)


@FD36.reading("more atoms are better in most comparisons of two numbers, in every setting: a positive rank correlation")
def by_rank() -> Evidence:
    def cases() -> Iterator[Sides]:
        for setting, row in _table().items():
            pairs = list(combinations(_ATOMS, 2))
            worse = sum(row[few] > row[more] for few, more in pairs)
            yield Sides(setting, worse, len(pairs) - worse, ("pairs where fewer are better", "pairs where more are"))

    return compared(cases(), of="settings of Table 2", relation="<", every=True)


@FD36.control("CIFAR-100, in both settings of which every step raises accuracy")
def cifar100() -> Evidence:
    return _rising(setting for setting in _table() if setting.startswith("CIFAR100"))


@FD36.mutant("CIFAR-100 with 6 and 9 atoms exchanged")
def exchanged() -> Evidence:
    return _rising((setting for setting in _table() if setting.startswith("CIFAR100")), (3, 9, 6, 12))


FD36C = Claim(
    id="FD-36c",
    place="corrected statement of FD-36",
    said_by="fedstat",
    words="In every setting three atoms are the worst, and on average over the settings accuracy rises at every step.",
    statement='A_3 < A_m " for " m > 3, quad macron(A)_3 < macron(A)_6 < macron(A)_9 < macron(A)_12',
    severity="false",
    assumptions="printed accuracies of six settings with 3, 6, 9 and 12 atoms; worded after seeing the table",
    sensitivity="a hundredth of a point, as printed",
)


def _worst(number: int) -> Evidence:
    cases = (
        Sides(f"{setting}, {number} against {m} atoms", row[number], row[m], _NAMES)
        for setting, row in _table().items()
        for m in _ATOMS
        if m != number
    )
    return compared(cases, of="comparisons in Table 2", relation="<", every=True)


@FD36C.reading("all settings")
def all_settings() -> Evidence:
    return all_of([_worst(3), on_average()])


@FD36C.mutant("six atoms the worst")
def six() -> Evidence:
    return _worst(6)
