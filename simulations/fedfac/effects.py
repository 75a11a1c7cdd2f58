"""The differences that the FedFac study reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design, fairness
from simulations.effects import Effects, Question, once
from simulations.estimates import means_by
from simulations.fedfac.cells import TEST, VALIDATION
from simulations.fedfac.per_seed import AGAINST, FACTOR, by_seed, groups, masked, pooled, settings_of
from simulations.fedfac.runs import ARMS, CORE, CURVES
from simulations.trained import untrained

#: The largest difference in accuracy that counts as none, points; fixed before any run.
MARGIN = 1.0
#: Every seed deals the same samples anew, to clients and to their training and test parts.
DESIGN = Design(clients="new", data="resplit", test_to_train=TEST / (1 - TEST - VALIDATION))
#: Tests of new clients, a tenth of all, whose samples the others did not train on.
NEW_CLIENTS = Design(clients="new", data="resplit", test_to_train=0.1 * TEST / (0.9 * (1 - TEST - VALIDATION)))
#: What the message compares FedFac with.
QUESTION = ("FedPer", "random split", "layer split")
COMPETITORS = ("FedAvg", "FedProx", "FedPer", "LG-FedAvg", "FedEM", "FedRep")
#: The versions of FedFac that are compared with the competitors.
VERSIONS = ("FedFac dynamic", "FedFac code")
SPREAD, LOSS, NEW, MASKED = (
    "standard deviation over clients", "training loss", "accuracy at new clients", "accuracy with masked units",
)  # fmt: skip
#: What dynamic FedFac's models are made into: rules for new clients, and models with some units drawn anew.
HEIRS = ("Ensemble", "LocalTrain", "personal masked", "shared masked")
#: Images and digits have ten classes, of equal size; per cent.
CHANCE = 10.0
Pair = tuple[str, str]


@once
def effects(tables: Tables) -> Effects:
    """Return all differences; most are asked of a group of settings, as means over them (`over`)."""
    every = groups(tables)
    questions = (question for group in every for question in _questions(tables, group))
    alone = {setting: not_trained(tables, setting) for setting in settings_of(tables)}
    # a mean over settings is not judged if one of them is not
    means = {
        over(tables, group): {
            arm: f"{why} at {short(setting)}" if len(settings_of(tables, group)) > 1 and arm != lead(setting) else why
            for setting in settings_of(tables, group)
            for arm, why in _with_heirs(setting, alone[setting]).items()
        }
        for group in every
    }
    return Effects(questions, alone | means)


def not_trained(tables: Tables, setting: str) -> dict[str, str]:
    """Return why arms of a setting are not trained enough to be judged."""
    accuracy, share = (100 * by_seed(tables, setting, metric) for metric in ("accuracy", "majority_share"))
    return untrained(accuracy, share, of_all=("FedAvg", "FedProx"), chance=CHANCE)


def _with_heirs(setting: str, missed: Mapping[str, str]) -> dict[str, str]:
    """Add to arms that are not trained enough what is made of them."""
    found, dynamic = dict(missed), "FedFac dynamic"
    if dynamic in missed:
        found |= dict.fromkeys(HEIRS, f"{dynamic}: {missed[dynamic]}")
    if parts := [f"{arm}: {missed[arm]}" for arm in (dynamic, "FedAvg") if arm in missed]:
        found[lead(setting)] = "; ".join(parts)
    return found


def over(tables: Tables, group: str) -> str:
    """Name the setting that is the mean over a group's settings: the setting itself if it is the only one."""
    every = settings_of(tables, group)
    return every[0] if len(every) == 1 else "mean over the partitions of CIFAR-10’s images"


def lead(setting: str) -> str:
    """Name the difference in training loss at a setting, of which two are compared."""
    return f"FedFac dynamic − FedAvg at {short(setting)}"


def short(setting: str) -> str:
    """Return a setting's name without that of the data."""
    return setting.rpartition(", ")[2] or setting


def summaries(arm: str) -> Pair:
    """Name the two summaries of an arm's rounds: the paper's and ours."""
    return f"{arm}, best ten rounds", f"{arm}, last ten rounds"


def splits(tables: Tables, group: str) -> Question:
    """Ask what FedFac gains over FedPer and over other splits, under the seeds that all of them have."""
    where = over(tables, group)
    known = (100 * pooled(tables, group))[[*FACTOR, *AGAINST]].dropna()
    words = f"FedFac against FedPer and other splits ({group})"
    return Question(words, "accuracy", {where: known}, {where: list(product(FACTOR, AGAINST))}, DESIGN, "points")


def _questions(tables: Tables, group: str) -> Iterator[Question]:
    """Yield a group's questions; a pair is asked about by the first that names it."""
    where, every = over(tables, group), settings_of(tables, group)
    points = {where: 100 * pooled(tables, group)}
    asked = set[tuple[str, Pair]]()

    def ask(
        words: str,
        pairs: Sequence[Pair],
        values: Mapping[str, pd.DataFrame] = points,
        metric: str = "accuracy",
        unit: str = "points",
        design: Design = DESIGN,
    ) -> Iterator[Question]:
        """Ask about the pairs in all settings, under the seeds that all arms have."""
        of = {s: [p for p in pairs if metric != "accuracy" or (s, p) not in asked] for s in values}
        of = {s: some for s, some in of.items() if some}
        asked.update((s, pair) for s, some in of.items() for pair in some)
        if of:
            names = {s: list(dict.fromkeys(arm for pair in some for arm in pair)) for s, some in of.items()}
            known = {s: values[s][names[s]].dropna() for s in of}
            yield Question(f"{words} ({group})", metric, known, of, design, unit)

    dynamic = "FedFac dynamic"
    asked |= {(where, pair) for pair in product(FACTOR, AGAINST)}
    yield splits(tables, group)
    yield from ask("drawing the random split anew", [("random split, every round", "random split")])
    yield from ask("the controls of sharing", [(dynamic, "Local"), (dynamic, "FedAvg")])
    yield from ask("fine-tuning", [(dynamic, "FedAvg+")])
    losses = {where: pooled(tables, group, "log_loss")}
    yield from ask("FedFac by log-loss", [(dynamic, other) for other in QUESTION], losses, "log-loss", "nats")
    if group == groups(tables)[0]:
        single = {s: 100 * by_seed(tables, s) for s in every}
        seeded = [[c for c in COMPETITORS if (c in CORE) == many] for many in (True, False)]
        for some, words in zip(seeded, ("", " under few seeds"), strict=True):
            yield from ask(f"FedFac against its competitors{words}", list(product(VERSIONS, some)), single)
        best, last = (100 * pooled(tables, group, f"weighted_accuracy{more}") for more in (", best ten rounds", ""))
        two = pd.concat([best[list(CURVES)].set_axis([summaries(a)[0] for a in CURVES], axis=1),
                         last[list(CURVES)].set_axis([summaries(a)[1] for a in CURVES], axis=1)], axis=1)  # fmt: skip
        yield from ask("the best ten rounds", [summaries(a) for a in CURVES], {where: two}, "weighted accuracy")
    curves = {s: _training_loss(tables, s) for s in every}
    yield from ask("training loss", [(dynamic, "FedAvg")], curves, LOSS, "nats")
    if len(every) > 1:
        gaps = pd.DataFrame({lead(s): curves[s][dynamic] - curves[s]["FedAvg"] for s in (every[0], every[-1])})
        pairs = [(lead(every[0]), lead(every[-1]))]
        yield from ask("training loss by heterogeneity", pairs, {where: gaps}, LOSS, "nats")
    spread = means_by(pd.concat([spreads(tables, s) for s in every]), "arm", "shrunken")
    pairs = [(dynamic, other) for other in ("FedAvg", "FedPer", "Local")]
    yield from ask("spread over clients", pairs, {where: spread}, SPREAD)
    late = {where: 100 * pooled(tables, group, table="newcomers")}
    pairs = [("Ensemble", "LocalTrain"), ("Ensemble", "FedAvg+")]
    yield from ask("new clients", pairs, late, NEW, design=NEW_CLIENTS)
    masks = 100 * pd.concat([masked(tables, s) for s in every]).groupby("seed").agg(lambda v: v.mean(skipna=False))
    yield from ask("masked units", [("personal masked", "shared masked")], {where: masks}, MASKED)


def _training_loss(tables: Tables, setting: str) -> pd.DataFrame:
    """Return the training loss by seed and arm, mean over all rounds."""
    rows = tables["curves"]
    return means_by(rows[(rows["setting"] == setting) & (rows["split"] == "train")], "arm", "value")


def spreads(tables: Tables, setting: str) -> pd.DataFrame:
    """Return each arm's standard deviation over clients without the noise of the test, and raw, by seed."""
    rows = tables["clients"][tables["clients"]["setting"] == setting]
    found = []
    for seed, own in rows.groupby("seed"):
        for arm in (arm for arm in ARMS if arm in own and own[arm].notna().all()):
            if not np.isfinite(own[arm]).all():
                found.append({"seed": seed, "arm": arm, **dict.fromkeys(("raw", "shrunken", "noise only"), np.nan)})
                continue
            table = fairness([own[arm].to_numpy()], [own["test"].to_numpy()]).table
            sd = table[table["measure"] == "sd"].set_index("version")["mean"]
            found.append({"seed": seed, "arm": arm, **{v: 100 * sd[v] for v in ("raw", "shrunken", "noise only")}})
    return pd.DataFrame(found)
