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
    DECOMP: (
        Shown("Figure 1", "general and personal knowledge when parameters are partitioned", "diagram"),
        Shown("Figure 2", "the same when every parameter is a sum", "diagram"),
        Shown("Figure 3", "one client's round", "diagram"),
        Shown("Figure 4", "how far the shared part moves if the low-rank part trains first", "diagram"),
    ),
    FILTER: (Shown("Figure 1a", "averaging atoms and coefficients apart", "diagram"),),
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
    """Return the list of figures and tables, and of all studies with what they need, for a terminal."""
    return "\n".join([*_figures(), "", "Studies: python -m simulations NAME", *_studies()])


def names() -> str:
    """Return a line for every study: its name, its title and which figures or tables it shows."""
    abouts = {name: study(name).ABOUT for name in in_order()}
    return "\n".join(
        _block(f"  {name:<17}", about.title + f" ({about.paper}, {about.where})" * bool(about.paper))
        for name, about in abouts.items()
    )


def _figures() -> Iterator[str]:
    """Yield a line that names paper, figure and command, so that a search for "Figure 6" finds all three together."""
    for entry in entries():
        shown = entry.shown
        command = f"python -m simulations {entry.study}" if entry.study else ""
        place = f"{entry.paper}, {shown.number}"
        yield f"{place:<32}{command:<42}{shown.state}" if command else f"{place:<32}{shown.state}"
        yield _block("    ", shown.what)
        if shown.how:
            yield _block("    ", f"({shown.how})")
        if shown.outcome:
            yield _block("    ", f"-> {shown.outcome}")


def _studies() -> Iterator[str]:
    for name in in_order():
        about = study(name).ABOUT
        yield _block(f"  {name:<17}", about.title)
        if about.data:
            yield _block(" " * 19, f"needs {', '.join(about.data)}")
        if about.times:
            yield _block(" " * 19, "; ".join(f"{scale}: {time}" for scale, time in about.times.items()))


def _block(lead: str, words: str) -> str:
    return textwrap.fill(words, 110, initial_indent=lead, subsequent_indent=" " * len(lead))
