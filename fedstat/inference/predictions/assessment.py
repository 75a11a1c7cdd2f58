"""Assess predictions: how good at each client by name, how much better than a control, and for whom that holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from fedstat import _checks
from fedstat.inference.comparing.drawing import by_client
from fedstat.inference.comparing.printing import (
    bullets,
    html_list,
    html_table,
    joined_csv,
    table_markdown,
    table_text,
    wrapped,
)
from fedstat.inference.formatting import listed
from fedstat.inference.predictions import drawing
from fedstat.inference.predictions.conclusions import conclude, notes_on
from fedstat.inference.predictions.metrics import CUT, METRICS
from fedstat.inference.predictions.printing import tables
from fedstat.inference.predictions.table import Predictions, arrange, predictions_of
from fedstat.inference.predictions.tabulating import CLIENTS, PATIENTS, tabulate
from fedstat.inference.reading.choosing import Estimand, measured_models
from fedstat.inference.reading.formats.fedstat import evaluation_of
from fedstat.inference.reading.scores import usual_split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Metrics where nobody chooses, by what is predicted; with a threshold sensitivity and specificity join them.
USUAL = {
    "two classes": ("auc", "brier", "accuracy", "calibration_intercept", "calibration_slope"),
    "classes": ("accuracy", "brier", "log_loss"),
    "numbers": ("mse", "mae", "r2"),
    "times": ("concordance",),
}
#: Rows of clients that are printed; the others are counted.
_ROWS = 40


@dataclass(frozen=True, eq=False)
class Assessment:
    """What predictions are worth, by client and over all; ``print`` it, draw it, or take its tables.

    In all tables a row has ``metric``; ``low`` and ``high``, the limits over patients and runs, or over patients alone
    where there is one run; the same over each source, as ``low (patients)`` and so on; ``variance (patients)`` and
    ``variance (runs)``, the parts of the estimate's variance; ``df``, Satterthwaite's degrees of freedom of their sum;
    ``n`` and ``events``, the patients tested and those with the event, on average over seeds;
    ``seeds``, those in which the metric is defined, and in ``undefined`` why it is not in others, or in none.

    Attributes
    ----------
    clients : DataFrame
        A row for each client, method and metric: ``method``, ``client``, ``name``, ``estimate``.
    pooled : DataFrame
        A row for each method, metric and ``over``: "all patients" (one value over the patients of all clients together)
        or "mean over clients" (of the clients' own values, each counted equally, where they are defined). ``clients``
        counts the clients in it.
    differences : DataFrame
        A row for each method but the control, metric and ``over``, which is as above or "client" with ``client`` and
        ``name``: ``difference`` to the control on the same patients, with limits that hold together for all methods,
        and for all clients where it is theirs; ``p (adjusted)``, below 1 - level where these exclude zero; ``outcome``:
        "better", "worse", "different" (where neither more nor less is better), "undecided", "tie" (equal for every
        patient) or "no spread" (without limits: the values are equal for these patients, or there is a value under
        one seed only, which says nothing of runs).
    control : str or None
        What the others are compared with; None with one method.
    level : float
        Confidence level.
    threshold : float
        Probability from which the event is named.
    over : {"all patients", "mean over clients"}
        What conclusions speak of.
    predictions : Predictions
        What was assessed.
    conclusions : tuple of str
        What may be said; the last sentence says of whom the intervals speak.
    notes : tuple of str
        What must be known to read the numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> import fedstat as fs
    >>> chance = [0.1, 0.2, 0.3, 0.4, 0.35, 0.8, 0.7, 0.6, 0.45, 0.9]
    >>> table = pd.DataFrame({"method": "FedAvg", "outcome": [0, 0, 0, 0, 0, 1, 1, 1, 1, 0], "probability": chance})
    >>> found = fs.assess(table, metrics="auc")
    >>> found.pooled[["over", "estimate", "low", "high", "events"]].head(1).round(3)
               over  estimate   low   high  events
    0  all patients     0.833  0.39  0.972     4.0
    """

    clients: pd.DataFrame
    pooled: pd.DataFrame
    differences: pd.DataFrame
    control: str | None
    level: float
    threshold: float
    over: str
    predictions: Predictions
    conclusions: tuple[str, ...]
    notes: tuple[str, ...]

    def plot_calibration(self, ax: Axes | None = None, *, draws: int = 500, seed: int = 0) -> Axes:
        """Draw the share of events over the predicted probability, with bands over patients."""
        return drawing.calibration(self.predictions, self.level, ax, draws, seed)

    def plot_roc(self, ax: Axes | None = None, *, draws: int = 500, seed: int = 0) -> Axes:
        """Draw sensitivity over one minus specificity, with bands over patients."""
        return drawing.roc(self.predictions, self.level, ax, draws, seed)

    def plot_decision(self, ax: Axes | None = None, *, draws: int = 500, seed: int = 0) -> Axes:
        """Draw the net benefit over the threshold, beside that of treating all and none, with bands over patients."""
        return drawing.decision(self.predictions, self.level, ax, draws, seed)

    def plot_clients(self, metric: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the differences to the control at each client, by default in the first metric, with joint limits."""
        metric = metric or self.clients["metric"].iloc[0]
        rows = self.differences[(self.differences["over"] == "client") & (self.differences["metric"] == metric)]
        rows = rows[rows["outcome"] != "undefined"]
        if self.control is None or not len(rows) or self.predictions.anew:
            raise ValueError(f"there are no differences of {metric} at clients to draw.")
        return by_client(rows, self.control, self.level, ax)

    def to_markdown(self) -> str:
        """Return sentences and tables as Markdown."""
        parts = [bullets(self.conclusions), *map(table_markdown, tables(self)), bullets(self.notes)]
        return "\n\n".join(filter(None, parts)) + "\n"

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the three tables as one in CSV, with a column ``table``, and write it if there is a path.

        Numbers are not rounded, shares are not in percent, and missing cells are empty.
        """
        parts = {"pooled": self.pooled, "clients": self.clients, "differences": self.differences}
        first = ("metric", "over", "client", "name", "method", "against", "estimate", "difference")
        return joined_csv(parts, first, {"level": self.level, "threshold": self.threshold}, path)

    def __str__(self) -> str:
        parts = [wrapped(self.conclusions), *map(table_text, tables(self, _ROWS))]
        return "\n\n".join(filter(None, [*parts, wrapped(f"note: {note}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        parts = [html_list(self.conclusions), *map(html_table, tables(self, _ROWS)), html_list(self.notes)]
        return f'<div class="fedstat-comparison">{"".join(parts)}</div>'


def assess(
    table: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    control: str | None = None,
    threshold: float | None = None,
    level: float = 0.95,
    pooled: Literal["patients", "clients"] = "patients",
    estimand: Estimand = None,
    split: str | None = None,
    new_clients: bool = False,
    event: str | int | None = None,
) -> Assessment:
    """Assess predictions at each client and over all, with intervals over patients and over training runs.

    Each metric's value is the mean over seeds of what a trained model reaches. Intervals over patients are of the
    models that were trained: patients are drawn anew at the same clients. Those over runs are of other trainings,
    tested on the same patients. Those over both add the two variances. Nothing is drawn at random: variances over
    patients come from each patient's influence, which for the area under the ROC curve is DeLong's method.

    Where methods differ is asked on the same patients, so that what patients do to all methods alike cancels. Where a
    metric is undefined at a client, as where all have one outcome, it is so for all methods, with the reason.

    Parameters
    ----------
    table : DataFrame, path or Result
        A run that keeps predictions, as its folder or result; or predictions, CSV or parquet, a row for each method,
        seed, client and patient. Columns ``method`` and ``outcome`` with ``probability`` (outcomes 0 and 1), or one
        ``p_<class>`` for each class, or ``value`` (numbers); for censored times ``time``, ``event`` (0 or 1) and
        ``risk`` (more is sooner) instead of these. Optional: ``seed``, ``client`` with its ``name``, ``estimand``,
        ``split``, and ``sample``, by which a patient is known within the client under all methods and seeds; by default
        the order of rows.
    metrics : str or sequence of str, optional
        Of two classes: auc, average_precision, brier, log_loss, accuracy, balanced_accuracy, sensitivity, specificity,
        calibration_intercept, calibration_slope, expected_over_observed. Of several: auc (each class against the
        others, averaged), brier, log_loss, accuracy, balanced_accuracy. Of numbers: mse, mae, r2. Of times:
        concordance.
    control : str, optional
        The method that the others are compared with; by default that of the run's experiment, else FedAvg if it is
        there, else the first.
    threshold : float, optional
        Of two classes, the probability from which the event is named, 0.5 by default; where given, sensitivity and
        specificity join the usual metrics.
    level : float
        Confidence level.
    pooled : {"patients", "clients"}
        Whether conclusions speak of all patients together, or of the mean over clients; the tables have both.
    estimand : str or mapping of str to str, optional
        Which model of the methods is assessed, as in `fedstat.compare`.
    split : str, optional
        Whose predictions; by default those of test samples, else validation, else training samples.
    new_clients : bool
        Assess a run's new clients, which took no part in training, on the models that each method offers them. The
        table is the folder of a ``fedstat run`` with ``new_clients`` and ``predictions = true``.
    event : str or int, optional
        Which of two classes is the event, of a run or a table with ``p_<class>``; by default the second of a run's
        classes, and 1 of the classes 0 and 1.

    Raises
    ------
    ValueError
        If the table is no table of predictions, methods are not tested on the same patients, or an argument is unknown.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44. Newcombe (2006), Statistics in Medicine 25, for areas near
    one. Bonett and Price (2012), Journal of Educational and Behavioral Statistics 37, for differences of proportions.
    How often the intervals hold is measured in ``docs/predictions.md``.

    Examples
    --------
    Two methods at two hospitals:

    >>> import numpy as np
    >>> import pandas as pd
    >>> import fedstat as fs
    >>> rng = np.random.default_rng(0)
    >>> outcome, hospital = rng.integers(0, 2, 200), np.arange(200) % 2
    >>> rows = [pd.DataFrame({"method": method, "client": hospital, "outcome": outcome,
    ...                       "probability": 1 / (1 + np.exp(-gain * (2 * outcome - 1) - rng.normal(size=200)))})
    ...         for method, gain in {"Local": 0.3, "FedAvg": 1.5}.items()]
    >>> found = fs.assess(pd.concat(rows), metrics="auc", control="Local")
    >>> found.differences[["over", "name", "outcome"]].to_dict("list")["outcome"]
    ['better', 'better', 'better', 'better']
    """
    _checks.choice("pooled", pooled, ("patients", "clients"))
    level = _checks.check_level(level)
    cut = 0.5 if threshold is None else _checks.number("threshold", threshold, "[0, 1]")
    read, again, anew, known = predictions_of(table, new_clients, event)
    rows, assumed = _chosen(read, estimand, split, own=again is not None)
    predictions = replace(arrange(rows, again), anew=anew)
    if new_clients:
        assumed += ["New clients' own models, also Local's, had one round of training, unless a method's rule differs."]
    if threshold is not None and predictions.kind != "two classes":
        raise ValueError(f"threshold must be left out unless outcomes are of two classes, got {threshold}.")
    names = _metrics(metrics, predictions, threshold is not None)
    methods = predictions.methods
    if control is not None and control not in methods:
        raise ValueError(f"control must be one of {', '.join(methods)}, got {control!r}.")
    if control is None:
        own = evaluation_of(Path(table)).get("control") if isinstance(table, str | Path) else None
        control = next((label for label in (own, "FedAvg") if label in methods), methods[0])
    made = [tabulate(predictions, name, methods.index(control), cut, level) for name in names]
    clients, whole, differences = (pd.concat(of, ignore_index=True) for of in zip(*made, strict=True))
    others = "other patients" if again is None else "training samples"
    over = PATIENTS if pooled == "patients" else CLIENTS
    if predictions.kind == "two classes" and (by_cut := [name.replace("_", " ") for name in names if name in CUT]):
        assumed += [f"In {listed(by_cut)} the event is named from a probability of {cut:g} on."]
    return Assessment(
        clients, whole, differences, control if len(methods) > 1 else None, level, cut, over, predictions,
        conclude(whole, differences, predictions, control, over, level, cut),
        (*known, *assumed, *notes_on(clients, whole, predictions, others)),
    )  # fmt: skip


def _chosen(table: pd.DataFrame, estimand: Estimand, split: str | None, own: bool) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of one split and of one model of each method (of a run its `own`), and the choice in words."""
    said, splits = [], [one for one in table["split"].unique() if one]
    if splits:
        split = split or usual_split(splits) or (splits[0] if len(splits) == 1 else None)
        if split not in splits:
            raise ValueError(f"split must be one of {', '.join(splits)}, got {split!r}.")
        table = table[table["split"] == split]
        said += [f"Predictions are of {split} samples."]
    elif split is not None:
        raise ValueError(f"split is {split!r}, but the table has no column split.")
    models = {m: list(of.unique()) for m, of in table.groupby("method", sort=False)["estimand"]}
    chosen = measured_models(models, estimand, "the table", own=own)
    table = table[table["estimand"] == table["method"].map(chosen)]
    if any(len(of) > 1 for of in models.values()):
        said += [f"The models are {', '.join(f'{model} of {label}' for label, model in chosen.items())}."]
    return table, said


def _metrics(metrics: str | Sequence[str] | None, predictions: Predictions, cut: bool) -> list[str]:
    known = [name for name, one in METRICS.items() if predictions.kind in one.kinds]
    if metrics is None:
        joined = ("sensitivity", "specificity") if cut else ()
        return [*USUAL[predictions.kind], *joined]
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in known:
            raise ValueError(f"metrics must be among {', '.join(known)} for these predictions, got {name!r}.")
    if not names or len({*names}) < len(names):
        raise ValueError(f"metrics must name each metric once, got {names}.")
    return names
