"""The differences that the split study reports."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fedstat._tables import Tables
from simulations.effects import DRAWN, Effects, Question
from simulations.showing import setting
from simulations.split.study import ARMS, CONTROL, per_seed, settings_of

#: Accuracies within so many points of each other count as equal, here and where networks are told from each other by
#: their units alone: half of the point that is used on images, since test samples of the generator are plenty.
MARGIN = 0.5
#: Arms compared with the true shared units in all settings.
COMPARED = (
    "static", "dynamic", "dynamic, code", "dynamic, updates", "random, every round", "random, per client", "Local",
    "FedAvg",
)  # fmt: skip
#: By a theorem these have the law of the true units. What is proved is not tested: their differences are a question of
#: their own.
BY_THEOREM = ("oracle", "random, once")
OVER = "mean over the settings"
MAJORITY = "majority class"
Setting = tuple[float, float, int]


def effects(tables: Tables) -> Effects:
    """Return accuracies, balanced accuracies and log-losses, each arm's minus those under the true units.

    The control of sharing is a question of its own.
    """
    main, control = settings(tables)
    accuracy, log_loss = (over_settings(tables, main, metric) for metric in ("accuracy", "log_loss"))
    balanced, share = (over_settings(tables, main, metric)[OVER] for metric in ("balanced_accuracy", "majority_share"))
    every, sharing = "random, every round", per_seed(tables, *control)
    against_majority = accuracy[OVER].assign(**{MAJORITY: share["FedAvg"]})
    points = {where: 100 * table for where, table in accuracy.items()}
    losses = {where: [("true", "Local")] for where in log_loss}
    return Effects(
        [
            Question("each arm against the true units", "accuracy", points, _against_true(points), DRAWN, "points"),
            Question(
                "arms with the law of the true units", "accuracy", points,
                {where: [(arm, "true") for arm in BY_THEOREM] for where in points}, DRAWN, "points",
            ),
            *(
                Question(
                    f"the control of sharing{words}", "accuracy", {setting(*control[:2]): 100 * sharing},
                    {setting(*control[:2]): pairs}, DRAWN, "points",
                )
                for words, pairs in (
                    ("", [(arm, "true") for arm in _shown(sharing)]),
                    (", arms with the law of the true units", [(arm, "true") for arm in BY_THEOREM]),
                )
            ),
            Question(
                "balanced, Local against the true units", "balanced accuracy", {OVER: 100 * balanced},
                {OVER: [("Local", "true")]}, DRAWN, "points",
            ),
            Question(
                "log-loss against the true units", "log-loss", log_loss,
                losses | {OVER: [("true", "Local"), (every, "true")]}, DRAWN, "nats",
            ),
            Question(
                "FedAvg against the majority class", "accuracy", {OVER: 100 * against_majority},
                {OVER: [("FedAvg", MAJORITY)]}, DRAWN, "points",
            ),
        ]
    )  # fmt: skip


def settings(tables: Tables) -> tuple[list[Setting], Setting]:
    """Return the settings of the paper's Figure 6, and the control of sharing."""
    every = settings_of(tables)
    control = next(s for s in every if s[:2] == CONTROL)
    return [s for s in every if s != control], control


def over_settings(tables: Tables, main: Sequence[Setting], metric: str) -> dict[str, pd.DataFrame]:
    """Return a metric by seed and arm in each setting, and its mean over the settings for arms that are in all."""
    found = {setting(*s[:2]): per_seed(tables, *s, metric) for s in main}
    common = [arm for arm in ARMS if all(arm in table for table in found.values())]
    return found | {OVER: sum(table[common] for table in found.values()) / len(found)}


def _shown(table: pd.DataFrame) -> list[str]:
    """Return the arms that are compared where these ran: cuts at the median, too, unless they are the true number."""
    return [arm for arm in ARMS if arm in table and arm not in ("true", *BY_THEOREM)]


def _against_true(points: dict[str, pd.DataFrame]) -> dict[str, list[tuple[str, str]]]:
    return {
        where: [(arm, "true") for arm in (COMPARED if where == OVER else _shown(table))]
        for where, table in points.items()
    }
