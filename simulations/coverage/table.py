"""Write ``docs/coverage.md`` from the committed tables: ``python -m simulations.coverage.table``."""

from __future__ import annotations

from pathlib import Path

from fedstat._files import atomic_file
from fedstat._tables import Tables, read_tables
from fedstat.inference.intervals.moderated import MIN_METHODS
from simulations.coverage.numbers import by_seeds, share, widths
from simulations.coverage.study import DESIGNS, FAMILIES, RULES, SHAPES
from simulations.showing import NONE, fixed, span

ROOT = Path(__file__).parents[2]
COMMITTED, PAGE = ROOT / "reports" / "results" / "coverage", ROOT / "docs" / "coverage.md"

HEAD = """# How often the intervals hold

`fedstat.inference.simultaneous` is run on drawn data whose true differences are known. The tables give the percentage
of families in which **all** intervals hold at once; 95 is wanted. A star marks what is clearly too little: the upper
Clopper-Pearson limit lies below 95. `default` is what happens if no rule is named: variances are moderated from 8
methods on, where they fit the prior, with Bonferroni's limits; otherwise it is the joint rule from 5 seeds on, and
Bonferroni's below.

Errors of runs are

{shapes}

Read with care:

- Skewed and collapsing runs: no t interval is safe there, and with few seeds a collapse that has not happened yet
  cannot be seen. The last table says how often a warning is printed. For normal runs a warning is false in at most 5%
  of families.
- Moderated limits lean on the methods being alike. While the one method that collapses has not done so yet, they miss
  more often than Bonferroni's, being narrower.
- A star comes up by chance, too, about once in 40 numbers that are 95 in truth.
- With normal errors of equal variances and 8 methods or more, variances were moderated in {moderated} per cent of
  families; in the others they did not fit the prior, which was a false alarm.
- Pairs whose differences are all equal have no interval and claim nothing; with rounded values and 3 seeds there are
  many.

Made by `python -m simulations coverage --scale paper --evidence reports/results/coverage`, and this page by
`python -m simulations.coverage.table`.
"""


def page(tables: Tables) -> str:
    """Return the page, in Markdown."""
    table = tables["coverage"]
    seeds = sorted(table["seeds"].unique())
    listed = ", ".join(str(s) for s in seeds)
    shapes = "\n".join(f"- *{shape}*: {meaning}" for shape, meaning in SHAPES.items())
    used = table.query("rule == 'default' and shape == 'normal'").query(f"methods >= {MIN_METHODS}")["moderated"]
    parts = [HEAD.format(shapes=shapes, moderated=span(100 * used, 1))]
    for family, words in FAMILIES.items():
        groups = list(table[table["family"] == family].groupby(["shape", "methods"], sort=False))
        header = ["errors of runs", "methods", *RULES.values()]
        for title, text in (
            (f"## Families, {words}: per cent that hold, with {listed} seeds\n", by_seeds),
            (f"## Families, {words}: median half-widths over Bonferroni's, with {listed} seeds\n", widths),
        ):
            body = [
                [shape, str(methods), *(text(rows, rule, seeds).replace("*", r"\*") for rule in RULES)]
                for (shape, methods), rows in groups
            ]
            parts += [title, _markdown(header, body)]
    parts.append("## One interval, by design\n")
    header = ["design", "seeds", "clients", "test to train", "holds", "median half-width"]
    parts.append(_markdown(header, [
        [DESIGNS[row["design"]], str(row["seeds"]), str(row["clients"] or NONE), f"{row['test_to_train'] or NONE}",
         share(row).replace("*", r"\*"), fixed(row["half_width"], 3)]
        for _, row in tables["designs"].iterrows()
    ]))  # fmt: skip
    parts.append("## How often the shape is warned of\n")
    shown = tables["flagged"].dropna()
    parts.append(_markdown(["errors of runs", "family", "methods", "seeds", "families with a warning, per cent"], [
        [row["shape"], FAMILIES[row["family"]], str(row["methods"]), str(row["seeds"]),
         fixed(100 * row["flagged"], 1)]
        for _, row in shown.iterrows()
    ]))  # fmt: skip
    return "\n".join(parts)


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    with atomic_file(PAGE) as path:
        path.write_text(page(read_tables(COMMITTED)))
    print(PAGE)
