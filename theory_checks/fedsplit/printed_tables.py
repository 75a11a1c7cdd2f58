"""The numbers of the paper's tables, exactly as printed."""

from __future__ import annotations

from decimal import Decimal

from simulations import published as tables

#: One row of a table of the paper that is compared: numbers by setting or column.
Row = dict[str, Decimal]

AS_PRINTED = "the numbers as printed; the paper gives no standard errors, so that small differences may be noise"
LAST_DIGIT = "the last printed digit"
CIFAR100 = ("CIFAR-100, S = 5", "CIFAR-100, S = 10", "CIFAR-100, S = 30")


def printed(table: int, by: str = "setting", **where: str) -> Row:
    """Return the numbers of a table's rows that have these values in the named columns, by another column.

    Parameters
    ----------
    table : int
        The table's number in the paper.
    by : str
        Column that tells the chosen rows apart.
    **where : str
        Values of the other columns.
    """
    every = tables.printed("fedsplit", f"table_{table}")
    rows = [row for row in every if all(row[name] == value for name, value in where.items())]
    return {row[by]: Decimal(list(row.values())[-1]) for row in rows}
