"""All figures and tables of the papers: which study reproduces them, or why none does."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from simulations.contract import About, Shown
from simulations.studies import in_order, study

FEDFAC, FACTORIZED = "FedSplit/FedFac", "Factorized-FL"
DECOMP, FILTER = "FedDecomp", "Filter decomposition"

#: What no study shows.
ELSEWHERE: dict[str, tuple[Shown, ...]] = {
    FEDFAC: (
        Shown("Figure 3", "splitting the hidden units of a network", "diagram"),
        Shown("Figure 4", "how clients' weights become columns for factor analysis", "diagram"),
        Shown("Figure 5", "the steps of FedFac", "diagram"),
        Shown("Table 1", "data sets, clients, samples and networks", "summary"),
    ),
    FACTORIZED: (
        Shown("Figure 1a", "label and domain heterogeneity in parameter space", "diagram"),
        Shown("Figure 2", "clients with labels of their own, and with domains of their own", "diagram"),
        Shown("Figure 3", "three ways to factorise a weight", "diagram"),
        Shown("Figure 5", "factorising a kernel, and matching clients", "diagram"),
    ),
}


@dataclass(frozen=True)
class Entry:
    """A figure or table, and the study that shows it.

    Attributes
    ----------
    paper : str
        As the ledger names it.
    shown : Shown
        What it is and what became of it.
    study : str
        Name of the study; empty if there is none.
    about : About or None
        The study's.
    """

    paper: str
    shown: Shown
    study: str = ""
    about: About | None = None


def entries() -> list[Entry]:
    """Return all figures and tables by paper, figures first, in the order of their numbers."""
    found = [Entry(paper, shown) for paper, every in ELSEWHERE.items() for shown in every]
    for name in in_order():
        about = study(name).ABOUT
        found += [Entry(about.paper, shown, name, about) for shown in about.shows]
    papers = list(dict.fromkeys([*ELSEWHERE, *(entry.paper for entry in found)]))
    return sorted(found, key=lambda entry: (papers.index(entry.paper), *_place(entry.shown.number)))


def _place(number: str) -> tuple[str, int, str]:
    """Return what "Figure 7b" is sorted by."""
    kind, label = number.split()[:2]
    digits = "".join(c for c in label if c.isdigit())
    return kind, int(digits), label


def listing() -> str:
    """Return the list of figures and tables, and of the studies beside them, for a terminal."""
    return "\n".join([*_figures(), "", "Studies of other questions", *_others()])


def _figures() -> Iterator[str]:
    paper = ""
    for entry in entries():
        if entry.paper != paper:
            paper = entry.paper
            yield f"\n{paper}" if entry is not entries()[0] else paper
        shown = entry.shown
        yield f"  {shown.number:<11}{shown.state:<12}{entry.study:<18}{shown.what}"
        if shown.how:
            yield textwrap.fill(shown.how, 100, initial_indent=" " * 43, subsequent_indent=" " * 43)
        if entry.about and (entry.about.data or entry.about.times):
            needs = f"needs {', '.join(entry.about.data) or 'no data'}"
            times = "; ".join(f"{scale}: {time}" for scale, time in entry.about.times.items())
            yield textwrap.fill(f"{needs}; {times}", 100, initial_indent=" " * 43, subsequent_indent=" " * 43)


def _others() -> Iterator[str]:
    for name in in_order():
        about = study(name).ABOUT
        if not about.shows:
            yield f"  {name:<18}{about.title}"
