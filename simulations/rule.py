"""A rule of thumb for choosing a method: its advice is chosen by what the committed tables say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference.comparing.learning import STILL_LEARNING
from fedstat.methods import Cards
from simulations.bench.compared import cells
from simulations.bench.effects import against, effects
from simulations.effects import Effect
from simulations.phase.effects import grid_gains

#: Training alone, and one model for all.
CONTROLS = ("Local", "FedAvg")


def rule_of_thumb(methods: Cards, bench: Tables, phase: Tables) -> list[tuple[str, str]]:
    """Return the steps of the rule, each an advice with its evidence.

    Parameters
    ----------
    methods : Cards
        What `fedstat.methods.available` returns.
    bench, phase : mapping of str to DataFrame
        The tables of these studies.

    Returns
    -------
    list of (str, str)
        What to run first; what to do where training alone is not shown to be better than one model for all; what to do
        where it is; and which data sets say nothing. A step that rests on no data set is left out.
    """
    found = effects(bench)
    ends = {cell: against(bench, found, cell)["FedAvg", "Local"] for cell in cells(bench)}
    together = {cell: end for cell, end in ends.items() if not end.unjudged and end.high >= 0}
    alone = {cell: end for cell, end in ends.items() if not end.unjudged and end.high < 0}
    table = methods.table.drop(list(CONTROLS))
    came_out = table[[*ends]].fillna("")
    steps = [("Run FedAvg and Local first.", _beaten(came_out, phase))]
    if together:
        better = [name for name, row in came_out.iterrows() if any(_above("FedAvg", row[cell]) for cell in together)]
        advice = f"also try {_listed(better)}" if better else "stay with FedAvg"
        steps.append((f"Where Local is not shown to be better than FedAvg, {advice}.", _counted(together, came_out)))
    if alone:
        kept = table[[any(_above("FedAvg", row[cell]) for cell in alone) for _, row in came_out.iterrows()]]
        kept = kept[~came_out.loc[kept.index].apply(lambda words: words.str.contains("below")).any(axis=1)]
        advice = "give each client a model of its own" if len(kept) else "let clients train alone"
        evidence = " ".join([_counted(alone, came_out), *_cheapest(kept)])
        steps.append((f"Where Local is better than FedAvg, {advice}.", evidence))
    if silent := [cell for cell, end in ends.items() if end.unjudged]:
        steps.append((f"The bench says nothing of {_listed(silent)} yet.", "Local or FedAvg is still learning there."))
    return steps


def _above(control: str, words: str) -> bool:
    return f"above {control}" in words or "above both" in words


def _beaten(came_out: pd.DataFrame, phase: Tables) -> str:
    both = _listed(list(came_out.index[(came_out == "above both").any(axis=1)]))
    outcomes = grid_gains(phase)["outcome"]
    return (
        f"On the data sets of the bench, {both or 'no other method'} came out above both. On synthetic clients, "
        f"a split network did in {sum(outcomes == 'pays')} of {len(outcomes)} settings."
    )


def _counted(ends: Mapping[str, Effect], came_out: pd.DataFrame) -> str:
    said = []
    for cell, end in ends.items():
        judged = [words for words in came_out[cell] if words not in ("", "diverged", STILL_LEARNING)]
        above = {control: sum(_above(control, words) for words in judged) or "none" for control in CONTROLS}
        said.append(
            f"On {cell}, FedAvg - Local is {end.mean:.1f} points [{end.low:.1f}, {end.high:.1f}]. "
            f"Of {len(judged)} other methods, {above['FedAvg']} came out above FedAvg and {above['Local']} above Local."
        )
    return " ".join(said)


def _cheapest(kept: pd.DataFrame) -> Iterator[str]:
    """Name the method that stores least at a client between rounds, and the one that stores least but something."""
    ranked = kept.assign(travels=kept["up"] + kept["down"]).sort_values(["state", "travels"])["state"]
    first = [*ranked[ranked == 0].head(1).items(), *ranked[ranked > 0].head(1).items()]
    if first:
        said = [f"`{name}` ({f'{share:.0%} of a network' if share else 'nothing'})" for name, share in first]
        yield f"Of these, clients store least between rounds under {_listed(said)}."


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
