"""What a table lacks: values, which were filled, words that training does not have, classes or samples of a client."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedstat.data import Partition
from fedstat.data.prepare import text_columns
from fedstat.experiment.build import Setup
from fedstat.experiment.dealing import Group
from fedstat.inference.formatting import first_of

#: How missing numbers are filled, by whose training samples teach it.
_FILLED = {
    "pooled": "the median of all clients' training samples",
    "client": "the median of the client's own training samples, and 0 where it has none",
}
#: Names that a sentence lists at most; gaps.csv has all.
_LISTED = 12


def gaps(setup: Setup) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return what a table lacks, and sentences of it; for other data only which groups are too small to be clients.

    There is a row for each client, new ones included, and column in which something is missing or unknown. Counts are
    those of the first seed's clients. A word is unknown if no training sample has it under one of the seeds, or others
    are more frequent.
    """
    experiment, x = setup.experiment, setup.dataset.x
    if experiment.data.prepare is None or x.ndim != 2:
        return pd.DataFrame(), tuple(_left_out(setup))
    table = x if hasattr(x, "iloc") else pd.DataFrame(x, columns=[f"column {j}" for j in range(x.shape[1])])
    text = text_columns(table)
    index, owner = _held(setup.partitions[experiment.seeds[0]])
    missing = table.iloc[index].isna().groupby(owner, sort=False)
    found = pd.DataFrame({"samples": missing.size()}).join(missing.sum()).reset_index(names="client")
    found = found.melt(["client", "samples"], var_name="column", value_name="missing")
    standard = experiment.data.prepare == "standard"
    number = _FILLED[experiment.data.fit_on] if standard else f"what prepare = {experiment.data.prepare} puts there"
    found["filled with"] = np.where(found["column"].isin(text) & standard, "(none), a word like any other", number)
    unknown = _unknown(setup, table[text]) if standard and text else {}
    places = zip(found["client"], found["column"], strict=True)
    found["unknown words"] = ["; ".join(sorted(unknown.get(place, ()))) for place in places]
    found = found[(found["missing"] > 0) | (found["unknown words"] != "")]
    found = found[["client", "column", "samples", "missing", "filled with", "unknown words"]]
    said = (*_sentences(found, len(index)), *_one_class(setup, index, owner), *_left_out(setup))
    dealt = {frozenset(zip(*map(np.ndarray.tolist, _held(of)), strict=True)) for of in setup.partitions.values()}
    if said and len(dealt) > 1:
        named = f"clients that are named, and values that are counted, are those of seed {experiment.seeds[0]}"
        said = (f"Clients are dealt anew under each seed: {named}.", *said)
    return found, said


def _held(partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of all samples that clients hold, and the name of the client of each."""
    parts = [*partition.train, *(partition.test or ())]
    names = np.array([*partition.names, *(partition.names if partition.test else ())], dtype=object)
    return np.concatenate(parts), np.repeat(names, [len(part) for part in parts])


def _unknown(setup: Setup, text: pd.DataFrame) -> dict[tuple[str, str], set[str]]:
    """Return the words of each client and column that have no indicator under some seed."""
    from fedstat.data.words import filled

    words, found = filled(text), dict[tuple[str, str], set[str]]()
    for seed, clients in setup.clients.items():
        if clients.transformer is None:  # every client has its own
            continue
        index, owner = _held(setup.partitions[seed])
        known = clients.transformer.named_transformers_["words"].known()
        for column, of in zip(text.columns, known, strict=True):
            here = words[column].to_numpy()[index]
            strange = ~np.isin(here, of)
            for name, word in set(zip(owner[strange], here[strange], strict=True)):
                found.setdefault((name, column), set()).add(word)
    return found


def _sentences(found: pd.DataFrame, samples: int) -> list[str]:
    said = []
    lacking = found[found["missing"] > 0]
    for how, of in lacking.groupby("filled with", sort=False):
        counts = of.groupby("column", sort=False)["missing"].sum()
        listed = first_of((f"{column} {count} of {samples}" for column, count in counts.items()), _LISTED)
        said.append(f"Missing values were filled with {how}: {listed}; gaps.csv counts them by client.")
    never = lacking[lacking["missing"] == lacking["samples"]]
    if len(never):
        each = (f"{', '.join(of['column'])} at {client}" for client, of in never.groupby("client", sort=False))
        said.append(f"Never measured: {first_of(each, _LISTED)}. What stands there is filled in all samples.")
    strange = found[found["unknown words"] != ""]
    if len(strange):
        rows = zip(strange["client"], strange["column"], strange["unknown words"], strict=True)
        listed = first_of((f'{column} "{words}" at {client}' for client, column, words in rows), _LISTED)
        said.append(
            "Words that training lacks, or that are too rare there, under one seed at least, and that count as none of "
            f"the others: {listed}."
        )
    return said


def _one_class(setup: Setup, index: np.ndarray, owner: np.ndarray) -> list[str]:
    """Name the clients all of whose samples are of one class."""
    classes = setup.dataset.classes
    of = pd.Series(setup.dataset.y[index]).groupby(owner, sort=False)
    alone = of.first()[of.nunique() == 1]
    if not classes or alone.empty:
        return []
    listed = first_of((f'{client} ("{classes[code]}")' for client, code in alone.items()), _LISTED)
    return [f"All samples are of one class at {listed}: accuracy there says nothing of the other classes."]


def _left_out(setup: Setup) -> list[str]:
    """Name the groups that are too small to be clients."""
    spec, groups = setup.experiment.partition, setup.dataset.groups
    if not isinstance(spec, Group):
        return []
    names = map(str, groups[spec.by or next(iter(groups))])
    small = sorted({*names} - {*setup.partitions[setup.experiment.seeds[0]].names})
    return [f"Left out, with fewer than min_size = {spec.min_size} samples: {first_of(small, _LISTED)}."] * bool(small)
