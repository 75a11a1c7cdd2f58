"""What the study of FedDecomp with the paper's network hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.contract import Finding
from simulations.effects import Effects, Question
from simulations.estimates import mean_of
from simulations.feddecomp.cells import CODE
from simulations.feddecomp.effects import CHANCE, MARGIN
from simulations.feddecomp.papers import PAPER, beside
from simulations.feddecomp.per_seed import LOG_LOSS, Layout, by_seed, late_gains, layouts
from simulations.feddecomp.runs import BEST
from simulations.published import printed
from simulations.resnet8.study import ARMS, DIRICHLET, TRIED
from simulations.showing import fixed, mean_sd, rounded
from simulations.trained import untrained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The share of its images that a seed has in common with another: 20,000 of 35,000 train, 4,000 of 10,000 test; the
#: larger is taken for both. At other scales it is less, and limits are wider than needed.
_COMMON = 20 / 35
#: The arms by the paper's names.
NAMES = {arm.removesuffix(" code"): arm for arm in ARMS}
OTHERS = tuple(arm for arm in ARMS if arm != CODE)
#: What is compared: words, unit and decimals by metric; by all but the last, more is better.
METRICS = {
    "accuracy": ("accuracy", "points", 1),
    BEST: ("largest mean accuracy over rounds", "points", 1),
    "balanced_accuracy": ("balanced accuracy", "points", 1),
    LOG_LOSS: ("log-loss", "nats", 2),
}  # fmt: skip


def effects(tables: Tables) -> Effects:
    """Return FedDecomp minus every other arm by every metric; the arms of a metric hold together."""
    layout = layouts(tables)[0]
    pairs, design = [(CODE, other) for other in OTHERS], _design(layout)
    questions = (
        Question(
            f"FedDecomp at the paper's rate against the others by {words}", metric,
            {"": by_seed(tables, layout, DIRICHLET, metric)[list(ARMS)]}, {"": pairs}, design, unit,
        )
        for metric, (words, unit, _) in METRICS.items()
    )  # fmt: skip
    return Effects(questions, {"": not_trained(tables, layout)})


def _design(layout: Layout) -> Design:
    held_out = 100 * layout.train // 500
    return Design(clients="new", data="resplit", test_to_train=overlap_ratio(held_out, layout.train, _COMMON))


def not_trained(tables: Tables, layout: Layout) -> dict[str, str]:
    """Return why arms are not trained enough to be judged."""
    accuracy, share = (by_seed(tables, layout, DIRICHLET, metric) for metric in ("accuracy", "majority_share"))
    gain = late_gains(tables, layout, DIRICHLET, layout.train)
    return untrained(accuracy, share, of_all=("FedAvg",), chance=CHANCE, gain=gain, margin=MARGIN)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return FedDecomp minus every other arm by every metric."""
    found = effects(tables)
    return {
        f"{metric} {other}": Finding.of(f"{words}, {CODE} − {other}", found[metric, "", CODE, other], digits=digits)
        for metric, (words, _, digits) in METRICS.items()
        for other in OTHERS
    }


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return each arm beside what is printed of it, and what another rate is worth to FedAvg."""
    layout, (of,) = layouts(tables)[0], config["experiments"]
    wide = {metric: by_seed(tables, layout, DIRICHLET, metric) for metric in (*METRICS, "majority_share")}
    rows = [
        {
            "arm": arm, "best": mean_sd(wide[BEST][arm]),
            "accuracy": mean_of(wide["accuracy"][arm], within=(0.0, 100.0)),
            "balanced": mean_of(wide["balanced_accuracy"][arm], within=(0.0, 100.0)),
            "log_loss": mean_of(wide[LOG_LOSS][arm]),
        }
        for arm in ARMS
    ]  # fmt: skip
    tried = 100 * tables["tuning"].groupby("lr")["accuracy"].mean()
    share = by_seed(tables, layout, DIRICHLET, "majority_share")[TRIED]
    return {
        "setup": of["setup"], "network": of["world"]["network"], "world": layout.world, "seeds": of["seeds"],
        "dirichlet": f"{DIRICHLET:g}", "rows": rounded(rows, accuracy=1, balanced=1, log_loss=2),
        "share": fixed(float(share.mean()), 1),
        "tried": [{"lr": f"{lr:g}", "accuracy": fixed(value, 1)} for lr, value in tried.items()],
        "untrained": [{"arm": arm, "why": words} for arm, words in not_trained(tables, layout).items()],
        "paper": beside(
            printed(PAPER, "table_1"), of["world"]["printed"], wide[BEST], NAMES, "method", "FedAvg",
            f"{DIRICHLET:g}", design=_design(layout), untrained=not_trained(tables, layout),
        ),
    }  # fmt: skip


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds, the mean over seeds and their range."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    looks = dict(zip(ARMS, (("0.45", ":"), ("0.45", "--"), ("black", "-."), ("black", "-")), strict=True))
    with style():
        figure, axis = plt.subplots(figsize=(WIDTH, 2.6), layout="constrained")
        for arm, (color, line) in looks.items():
            rows = tables["curves"][tables["curves"]["arm"] == arm]
            wide = 100 * rows.pivot(index="round", columns="seed", values="accuracy")
            axis.fill_between(wide.index, wide.min(axis=1), wide.max(axis=1), color="0.85", lw=0)
            axis.plot(wide.index, wide.mean(axis=1), line, color=color, lw=1.1)
            axis.annotate(
                f" {arm}", (wide.index[-1], wide.iloc[-1].mean()), va="center", fontsize=7, annotation_clip=False
            )
        axis.set_xlabel("round")
        axis.set_ylabel("mean accuracy over clients (per cent)")
    return {"curves": figure}
