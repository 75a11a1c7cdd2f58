"""Write ``docs/coverage.md`` and its figure from the committed tables: ``python -m simulations.coverage.table``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedstat._files import atomic_file
from fedstat._tables import Tables, read_tables
from fedstat.inference.intervals.moderated import MIN_METHODS
from fedstat.report.figures import style
from simulations.coverage.hospitals import INTERVALS, LEARNERS, SAMPLES
from simulations.coverage.numbers import by_seeds, figures, share, widths
from simulations.coverage.study import DESIGNS, FAMILIES, RULES, SHAPES, SKEWED, UNION
from simulations.showing import NONE, fixed, span

ROOT = Path(__file__).parents[2]
COMMITTED, PAGE = ROOT / "reports" / "results" / "coverage", ROOT / "docs" / "coverage.md"

HEAD = """# How often the intervals hold

`fedstat.inference.simultaneous` is run on drawn data whose true differences are known. A family is the comparisons that
are claimed together, and the tables give the percentage of families in which **all** intervals hold at once; 95 is
wanted. A star marks what is clearly too little: the upper Clopper-Pearson limit lies below 95. `default` is what
happens if nothing is asked for. With fewer than 8 methods it is Bonferroni's limits; from 8 methods on each pair has
the narrower of two intervals, one with moderated variances and one of the pair alone, widened by 5%.

![In four panels, for 2, 5, 10 and 30 methods, the percentage of families that hold by kind of error. Unadjusted
intervals fall far below 95 as methods become more; Bonferroni's and the default stay near 95 but for skewed and
collapsing runs.](coverage.svg)

*Families against one control with 5 seeds: unadjusted, Bonferroni and default, with 95% intervals. All tables, with
other numbers of seeds, follow below.*

Errors of runs are

{shapes}

Read with care:

- Skewed and collapsing runs: no t interval is safe there, and with few seeds a collapse that has not happened yet
  cannot be seen. The last table says how often a warning is printed. For normal runs a warning is false in at most 5%
  of families.
- Moderated limits rely on the methods being alike. As long as the one method that collapses has not done so, they are
  narrower than Bonferroni's and miss more often.
- Widths are medians over draws for each pair, divided by Bonferroni's width for the same pair; the tables show their
  range over pairs, for 8 methods or more: with fewer, the default is Bonferroni's.
- A star comes up by chance, too, about once in 40 numbers that are 95 in truth.
- Pairs whose differences are all equal have no interval and claim nothing; with rounded values and 3 seeds there are
  many.

Made by `python -m simulations coverage --scale paper --evidence reports/results/coverage`, and this page by
`python -m simulations.coverage.table`.
"""

HOSPITALS = """The usual study of hospitals: the same clients under every seed, each with one set of {samples} samples
that every seed splits anew, and a conclusion on new clients. Two learners really train on the splits. The interval
should cover their mean difference over new clients, whose samples are new as well. Parameters of clients lie around
the population's with a standard deviation of `spread` times the population's. The differences are

{learners}

The table gives the percentage of intervals that hold, with {seeds} seeds.
`Design(clients="same", data="resplit", over="clients")` takes the corrected crossed effects. Where the shared model
rests on all clients, these hold in {fair}%. Their medians are {wide} times as wide as those of the corrected t over
runs, which speaks of the same clients alone. They fail where the shared model is one client's ({one}% with 20
clients): what is peculiar to this client moves all clients alike, and no spread within a federation shows it.
"""


SKEWED_HEAD = """## Intervals for skewed runs, against the control: per cent of families that hold, with {seeds} seeds

With `skewed=True` an interval covers the t interval and the bootstrap-t interval, both at Bonferroni's level. Errors
are as above, or

{kinds}

One standard error of a number near 95 is {error:.1f}.
"""


def page(tables: Tables) -> str:
    """Return the page, in Markdown."""
    table = tables["coverage"]
    seeds = sorted(table["seeds"].unique())
    listed = ", ".join(str(s) for s in seeds)
    shapes = "\n".join(f"- *{shape}*: {meaning}" for shape, meaning in SHAPES.items())
    parts = [HEAD.format(shapes=shapes)]
    for family, words in FAMILIES.items():
        groups = list(table[table["family"] == family].groupby(["shape", "methods"], sort=False))
        body = [
            [shape, str(methods), *(by_seeds(rows, rule, seeds).replace("*", r"\*") for rule in RULES)]
            for (shape, methods), rows in groups
        ]
        parts.append(f"## Families, {words}: per cent that hold, with {listed} seeds\n")
        parts.append(_markdown(["errors of runs", "methods", *RULES.values()], body))
        body = [
            [shape, str(methods), *(widths(rows, "default", [s]) for s in seeds)]
            for (shape, methods), rows in groups
            if methods >= MIN_METHODS
        ]
        parts.append(f"## Families, {words}: widths of the default over Bonferroni's\n")
        parts.append(_markdown(["errors of runs", "methods", *(f"{s} seeds" for s in seeds)], body))
    parts += [_skewed(tables["skewed"]), "## One interval, by design\n"]
    header = ["design", "seeds", "clients", "test to train", "holds", "median half-width"]
    parts.append(_markdown(header, [
        [DESIGNS[row["design"]], str(row["seeds"]), str(row["clients"] or NONE), f"{row['test_to_train'] or NONE}",
         share(row).replace("*", r"\*"), fixed(row["half_width"], 3)]
        for _, row in tables["designs"].iterrows()
    ]))  # fmt: skip
    hospitals = tables["hospitals"].rename(columns={"interval": "rule"})
    corrected = 100 * hospitals[hospitals["rule"] == "corrected"].set_index(["learners", "clients"])["coverage"]
    width = hospitals.set_index(["learners", "spread", "test_to_train", "clients", "seeds"]).groupby("rule")[
        "half_width"
    ]
    wide = (width.get_group("corrected") / width.get_group("over runs")).drop("one client", level="learners")
    parts += ["## Hospitals that split their samples anew\n", HOSPITALS.format(
        fair=span(corrected.drop("one client"), 0), one=span(corrected["one client", 20], 0), wide=span(wide, 1),
        learners="\n".join(f"- *{name}*: {meaning}" for name, meaning in LEARNERS.items()), seeds=listed,
        samples=SAMPLES,
    )]  # fmt: skip
    places = ["learners", "spread", "test_to_train", "clients"]
    header = ["learners", "spread", "test to train", "clients", *INTERVALS.values(), "median half-width, corrected"]
    parts.append(_markdown(header, [
        [*map(str, place), *(by_seeds(rows, rule, seeds).replace("*", r"\*") for rule in INTERVALS),
         ", ".join(fixed(w, 3) for w in rows[rows["rule"] == "corrected"].set_index("seeds")["half_width"][seeds])]
        for place, rows in hospitals.groupby(places, sort=False)
    ]))  # fmt: skip
    parts.append("## How often the shape is warned of\n")
    shown = tables["flagged"].dropna()
    parts.append(_markdown(["errors of runs", "family", "methods", "seeds", "families with a warning, per cent"], [
        [row["shape"], FAMILIES[row["family"]], str(row["methods"]), str(row["seeds"]),
         fixed(100 * row["flagged"], 1)]
        for _, row in shown.iterrows()
    ]))  # fmt: skip
    return "\n".join(parts)


def _skewed(table: pd.DataFrame) -> str:
    """Return the section on intervals for skewed runs: per cent that hold, and widths, beside those of t."""
    seeds = sorted(table["seeds"].unique())
    kinds = "\n".join(f"- *{shape}*: {meaning}" for shape, meaning in SKEWED.items() if shape not in SHAPES)
    body = [
        [str(shape), str(methods), *(by_seeds(rows, rule, seeds).replace("*", r"\*") for rule in UNION),
         widths(rows, "union", seeds)]
        for (shape, methods), rows in table.groupby(["shape", "methods"], sort=False)
    ]  # fmt: skip
    header = ["errors of runs", "methods", *UNION.values(), "width over t's"]
    error = 100 * float(np.sqrt(0.05 * 0.95 / table["replicates"].min()))
    head = SKEWED_HEAD.format(seeds=", ".join(map(str, seeds)), kinds=kinds, error=error)
    return f"{head}\n{_markdown(header, body)}"


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    tables = read_tables(COMMITTED)
    with atomic_file(PAGE) as path:
        path.write_text(page(tables))
    with style(), atomic_file(PAGE.with_suffix(".svg")) as path:
        figures(tables)["coverage"].savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
    print(PAGE)
