"""What the study of FedFac with its authors' network hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.comparing.learning import late_gain
from fedstat.inference.intervals.design import overlap_ratio
from simulations.beside import beside_printed
from simulations.contract import Finding
from simulations.effects import Effects, Question
from simulations.estimates import by_run, mean_of
from simulations.published import printed
from simulations.resnet18.cells import ARMS, AVERAGED, CODE, LAYER, PERSONAL_MASKED, RANDOM, SHARED_MASKED, UNMASKED
from simulations.showing import fixed, rounded
from simulations.trained import untrained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The largest difference in accuracy that counts as none, points; and what guessing reaches, per cent.
MARGIN, CHANCE = 1.0, 10.0
#: What the share of images that two seeds have in common makes of limits, by the images that a client trains on. All
#: clients train on 30,000 or 15,000 of 40,000 images, and test on 6,000 of 10,000. The larger share is taken for both.
#: At other scales limits are wider than needed.
_SHARED = {300: overlap_ratio(60, 300, 30 / 40), 150: overlap_ratio(60, 150, 6 / 10)}
#: What is compared: words, unit and decimals by metric; of log-loss less is better.
METRICS = {
    "accuracy": ("accuracy", "points", 1),
    "balanced_accuracy": ("balanced accuracy", "points", 1),
    "log_loss": ("log-loss", "nats", 2),
}
#: The comparisons of each table of the paper: the first arm minus the second.
PAIRS = {
    "Table 2": (
        (CODE, "FedAvg"), (CODE, AVERAGED), (CODE, "FedPer"), (CODE, LAYER), (AVERAGED, "FedAvg"),
        ("FedPer", "FedAvg"), ("FedPer", AVERAGED),
    ),
    "Table 8": ((CODE, RANDOM), (SHARED_MASKED, PERSONAL_MASKED), (CODE, SHARED_MASKED), (CODE, PERSONAL_MASKED)),
}  # fmt: skip
#: The paper's labels of our arms.
_PRINTED = {
    "table_2": ("method", "FedAvg", {"FedAvg": "FedAvg", "FedPer": "FedPer", "FedFac dynamic": CODE}),
    "table_8": (
        "variant", "factor analysis",
        {"factor analysis": CODE, "random split": RANDOM, "shared masked": SHARED_MASKED,
         "personal masked": PERSONAL_MASKED},
    ),
}  # fmt: skip


def networks(tables: Tables) -> list[str]:
    """Return the networks that ran, in their order."""
    return list(dict.fromkeys(tables["accuracy"]["network"]))


def by_seed(tables: Tables, network: str, metric: str) -> pd.DataFrame:
    """Return one row per seed and one column per arm, shares in per cent."""
    rows = tables["accuracy"]
    wide = by_run(rows[(rows["network"] == network) & (rows["metric"] == metric)], "arm")
    return wide[[arm for arm in ARMS if arm in wide]] * (1 if metric == "log_loss" else 100)


def curves(tables: Tables, network: str) -> pd.DataFrame:
    """Return accuracies in per cent, one row per arm and seed, one column per measured round."""
    rows = tables["curves"]
    return 100 * rows[rows["network"] == network].pivot(index=["arm", "seed"], columns="round", values="accuracy")


def best(tables: Tables, network: str, last: int) -> pd.DataFrame:
    """Return the paper's summary: the largest mean of `last` measurements in a row, by seed and arm."""
    return curves(tables, network).T.rolling(last).mean().max().unstack("arm")


def compared(tables: Tables, network: str) -> dict[str, list[tuple[str, str]]]:
    """Return the comparisons of each table whose arms ran."""
    ran = set(by_seed(tables, network, "accuracy"))
    return {table: [pair for pair in pairs if ran.issuperset(pair)] for table, pairs in PAIRS.items()}


def gains(tables: Tables, network: str) -> pd.DataFrame:
    """Return the change of accuracy over the last fifth of the rounds, points, by seed and arm; NaN if not known."""
    each = curves(tables, network)
    return pd.Series(late_gain(each.to_numpy(), each.columns.to_numpy(int)), each.index).unstack("arm")


def not_trained(tables: Tables, network: str) -> dict[str, str]:
    """Return why arms are not trained enough to be judged; masked ones are not meant to learn, and never are held."""
    accuracy, share = (by_seed(tables, network, metric) for metric in ("accuracy", "majority_share"))
    gain = gains(tables, network)
    meant, common = [arm for arm in accuracy if arm in UNMASKED], ("FedAvg", AVERAGED)
    known = gain.fillna(math.inf) if gain.notna().to_numpy().any() else None
    return untrained(accuracy[meant], share[meant], of_all=common, chance=CHANCE, gain=known, margin=MARGIN)


def _design(network: str) -> Design:
    ratio = _SHARED[300 if network == "resnet18" else 150]
    return Design(clients="new", data="resplit", test_to_train=ratio)


def effects(tables: Tables) -> Effects:
    """Return the differences of each table by every metric; those of a network, table and metric hold together."""
    questions = (
        Question(
            f"{table} by {words}, {network}", metric, {network: by_seed(tables, network, metric)}, {network: pairs},
            _design(network), unit,
        )
        for network in networks(tables)
        for table, pairs in compared(tables, network).items()
        if pairs
        for metric, (words, unit, _) in METRICS.items()
    )  # fmt: skip
    return Effects(questions, {network: not_trained(tables, network) for network in networks(tables)})


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the differences of both tables by every metric."""
    found = effects(tables)
    return {
        f"{network} {metric} {first} {second}": Finding.of(
            f"{words}, {first} − {second}, {network}", found[metric, network, first, second], digits=digits
        )
        for network in networks(tables)
        for pairs in compared(tables, network).values()
        for metric, (words, _, digits) in METRICS.items()
        for first, second in pairs
    }


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return of each network its arms beside what is printed of them, and what another rate is worth to FedAvg."""
    return {"settings": [_setting(tables, of, config["scale"]) for of in config["experiments"]]}


def _setting(tables: Tables, of: Mapping[str, Any], scale: str) -> dict[str, Any]:
    size = of["size"]
    network = size["network"]
    wide = {metric: by_seed(tables, network, metric) for metric in (*METRICS, "majority_share")}
    share, gain = (0.0, 100.0), gains(tables, network)
    rows = [
        {
            "arm": arm, "what": ARMS[arm], "accuracy": mean_of(wide["accuracy"][arm], within=share),
            "balanced": mean_of(wide["balanced_accuracy"][arm], within=share),
            "log_loss": mean_of(wide["log_loss"][arm]), "gain": mean_of(gain[arm]),
        }
        for arm in wide["accuracy"]
    ]  # fmt: skip
    warm = tables["warm"].set_index("network")["accuracy"] if "warm" in tables else {}
    return {
        "network": network, "size": size, "seeds": of["seeds"], "compared": [
            {"table": table, "pairs": [{"first": first, "second": second} for first, second in pairs]}
            for table, pairs in compared(tables, network).items()
            if pairs
        ],
        "rows": rounded(rows, accuracy=1, balanced=1, log_loss=2, gain=1),
        "share": fixed(float(wide["majority_share"].to_numpy().mean()), 1),
        "warm": fixed(100 * float(warm[network]), 1) if network in warm else "",
        "tried": _tried(tables, network),
        "untrained": [{"arm": arm, "why": words} for arm, words in not_trained(tables, network).items()],
        "paper": _beside(tables, network, size["last"]) if scale in ("desk", "paper") else [],
    }  # fmt: skip


def _tried(tables: Tables, network: str) -> list[dict[str, str]]:
    if "tuning" not in tables:
        return []
    rows = tables["tuning"]
    means = 100 * rows[rows["network"] == network].groupby("lr")["accuracy"].mean()
    return [{"lr": f"{lr:g}", "accuracy": fixed(value, 1)} for lr, value in means.items()]


def _beside(tables: Tables, network: str, last: int) -> list[dict[str, Any]]:
    """Return Tables 2 and 8 beside ours, by the paper's summary; one run behind each printed value is assumed."""
    found, ours, missed = [], best(tables, network, last), not_trained(tables, network)
    for table, (column, control, names) in _PRINTED.items():
        rows = {row[column]: row for row in printed("fedsplit", table) if row["setting"] == "CIFAR-10, Dirichlet 0.5"}
        labels = [label for label, arm in names.items() if arm in ours]
        if len(labels) < 2:
            continue
        values = pd.DataFrame({"value": [100 * float(rows[label]["accuracy"]) for label in labels], "seeds": 1}, labels)
        own = pd.DataFrame({label: ours[names[label]] for label in labels})
        why = {label: missed[names[label]] for label in labels if names[label] in missed}
        one = beside_printed(values, own, control=control, difference=_design(network), untrained=why)
        found.append({"table": table.replace("table_", "Table "), **one})
    return found


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw accuracy over rounds by network and table: the mean over seeds and their range."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    panels: dict[str, dict[str, Any]] = {
        "Table 2": {"FedAvg": "--", AVERAGED: (0, (6, 2, 1, 2, 1, 2)), "FedPer": "-.", CODE: "-", LAYER: ":"},
        "Table 8": {CODE: "-", RANDOM: ":", SHARED_MASKED: "--", PERSONAL_MASKED: "-."},
    }  # fmt: skip
    figures = {}
    for network in networks(tables):
        each = curves(tables, network)
        drawn = {table: {arm: lines[arm] for arm in lines if arm in each.index} for table, lines in panels.items()}
        drawn = {table: lines for table, lines in drawn.items() if lines}
        with style():
            figure, axes = plt.subplots(
                1, len(drawn), figsize=(WIDTH, 3.0), sharey=True, squeeze=False, layout="constrained"
            )
            for axis, (table, lines) in zip(axes[0], drawn.items(), strict=True):
                for arm, line in lines.items():
                    wide = each.loc[arm]
                    axis.fill_between(wide.columns, wide.min(), wide.max(), color="0.9", lw=0)
                    axis.plot(wide.columns, wide.mean(), ls=line, color="black", lw=1.0, label=arm)
                axis.set_xlabel("round")
                axis.set_title(table, fontsize=8)
                axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=7, handlelength=4)
            axes[0, 0].set_ylabel("mean accuracy over clients (per cent)")
        figures[network] = figure
    return figures
