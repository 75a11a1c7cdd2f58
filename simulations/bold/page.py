"""Write ``docs/published-tables.md`` from the committed tables: ``python -m simulations.bold.page``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedstat._files import write_text
from fedstat.inference.formatting import listed
from simulations.bold.numbers import PLANNED, SPREADS
from simulations.studies import tell

ROOT = Path(__file__).parents[2]
COMMITTED, PAGE = ROOT / "reports" / "results" / "bold", ROOT / "docs" / "published-tables.md"
COUNTS = {"faces": "bold faces", "stand": "stand", "open": "not told apart", "contradicted": "contradicted",
          "order": "order only"}  # fmt: skip
PLACE = {"paper": "paper", "place": "place", "runs": "runs", "spread": "beside means"}
HOSPITALS = {"data": "data", "design": "read", "method": "best", "ahead": "ahead by", "answer": "answer",
             "among": "not told apart from"}  # fmt: skip
TEXT = """# Bold faces of published tables

This page asks of {tables} tables of {papers} papers and projects what [Which bold faces stand?](bold-faces.md) asks of
one. The rule, and which tables enter, were written into a plan, `simulations/bold/plan.toml`, before any answer
was computed. Tables of {later} entered later by the same rule, on 28 November 2026,
when the answers of the other {planned} were known; without them {before} of {of} stand.

Of {faces} bold faces, {order} have no deviation over runs that can be compared: only the order is known, and
{behind} of them are not the best printed. What a table does not say is read as three runs and a standard deviation.
Then **{stand} stand** of the other {judged}, {open} are not told apart from at least one other method, and {worse}
contradicted.

| where a table does not say | bold faces that stand, with 95% limits over papers |
|---|---|
{readings}

The tables are those whose text could be looked up, and no random sample: of {looked} papers looked for, {none} gave no
table, and nothing is said of those. For {unmarked} of the faces the text at hand has no bold type, and the best printed
value is judged in its place: {unmarked_stand} of {unmarked_judged} such values with deviations stand, and
{bold_stand} of {bold_judged} faces that were seen in bold. pFL-Bench publishes scripts and no results; of pFedHR,
Table 2 is left out.

## By what tables say

{kinds}

## By number of runs

Only tables that print deviations over runs are counted. Order only are faces that lack their own deviation, or those of
all other methods.

{runs}

## What a table would need

Suppose that differences and deviations are those printed. Of the faces that are not told apart, half would need
{median} runs of each method or fewer to be told apart with a probability of 80%, a quarter {first} or fewer, and a
quarter {third} or more. The last column of the next table gives the fewest and the most.

## Each table

An answer is no verdict on a method: it says what a table's runs allow. What stands beside a mean is a standard
deviation over runs (sd), half of a 95% interval (ci), a deviation over clients, or not stated. PFLlib's first table
repeats GPFL's Table 1 for 10 of its 20 methods. The numbers are in `simulations/published`, a file for each table, and
`fedstat compare` reads most of them.

{rows}

## Published runs

FLamby publishes its runs, five seeds for each data set. They are read "as printed", as the means and deviations that a
paper would print, and "paired on seeds", as the same runs compared seed by seed. "Ahead by" is the best mean minus the
next, in the data set's own score. Fed-LIDC-IDRI has one run, and is left out, as is a file that compares global models
with fine-tuned ones.

{hospitals}

Made by `python -m simulations bold --scale paper --evidence reports/results/bold` and
`python -m simulations.bold.page`.
"""


def page() -> str:
    """Return the page."""
    _, d, findings = tell("bold", COMMITTED)
    readings = [
        f"| {key.split()[0]} runs, a standard {SPREADS[key.split()[1]]} | {finding.words} |"
        for key, finding in findings.items()
    ]
    places = [row | {"place": f"{row['where']}, {row['place']}"} for row in d["rows"]]
    return TEXT.format(
        **d["all"],
        **d["needed"],
        later=listed(dict.fromkeys(row["paper"] for row in d["rows"] if row["entered"] != PLANNED)),
        planned=d["planned"]["tables"],
        before=d["planned"]["stand"],
        of=d["planned"]["judged"],
        worse="none is" if d["all"]["contradicted"] == "0" else f"{d['all']['contradicted']} are",
        readings="\n".join(readings),
        looked=d["looked"]["for"],
        none=d["looked"]["none"],
        unmarked=d["unmarked"],
        **d["seen"],
        behind=d["behind"],
        kinds=_table(d["kinds"], {"kind": "the table states", "tables": "tables", **COUNTS}),
        runs=_table(d["runs"], {"runs": "runs", "tables": "tables", **COUNTS}),
        rows=_table(places, {**PLACE, **COUNTS, "needed": "runs needed"}),
        hospitals=_table(d["hospitals"], HOSPITALS),
    )


def _table(rows: Iterable[dict[str, str]], columns: dict[str, str]) -> str:
    lines = [columns.values(), ["---"] * len(columns), *([row[key] for key in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    write_text(PAGE, page())
