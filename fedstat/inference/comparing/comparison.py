"""Comparison of methods, paired on seeds: tables, pictures, and sentences on what a reader may conclude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from fedstat.inference.comparing import drawing
from fedstat.inference.comparing.printing import (
    bullets,
    escaped,
    escaped_markdown,
    html_list,
    html_table,
    joined_csv,
    latex,
    table_markdown,
    table_text,
    wrapped,
)
from fedstat.inference.comparing.tables import Table, differences_table, summary_table
from fedstat.inference.intervals.design import Design
from fedstat.inference.reading.scores import Scores
from fedstat.inference.settings import ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows of differences that are printed, the others are counted; and characters of the name of a row in a terminal.
_ROWS, _LABEL = 30, 40


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared; ``print`` it, draw it, or take its tables.

    Attributes
    ----------
    scores : Scores
        What was compared: a number for each method, seed and client.
    summary : DataFrame
        A row for each method: ``model`` (which of its models is measured), ``mean`` over clients equally and over
        seeds, its t limits ``low`` and ``high`` (for each method alone), ``by samples`` (the mean with clients weighted
        by their samples; where these are known), ``sd over seeds``, ``seeds``, and ``missing`` (in words) where
        values are missing: then there is no mean. ``collapsed`` counts the runs that collapsed: they are far worse
        than their method's median run, and of little use (``docs/reading-a-comparison.md`` has the numbers). It has
        exact limits ``collapse low`` and ``collapse high`` for the probability that a run collapses, for each method
        alone.
    differences : DataFrame
        A row for each pair, named "A − B": ``method``, ``against``, ``difference``, its limits ``low`` and ``high``,
        ``correlation`` of the pairs, ``pairs`` (common seeds), ``sd`` over seeds, ``se`` and ``df`` that made the
        limits, ``p (t)`` and ``p (sign flips)`` of one test alone, ``p (adjusted)`` to the intervals, ``outcome``
        ("different", "equivalent", "undecided", "no spread", or "still learning" where a method is shown to improve by
        more than ``aim`` over the last fifth of the rounds, or clients' own models are no better than naming the most
        frequent class), the ``detectable`` difference that these seeds find with a power of 80% (infinite where even
        the largest one is not), the difference that the limits allow ``at most``,
        ``seeds needed`` to tell ``aim`` apart and ``seeds for equivalence`` within the margin, if there is no
        difference, each with a power of 80%, and, where samples are known, the same difference ``by samples`` with
        ``low by samples`` and ``high by samples``. ``runs apart`` marks the pairs
        whose runs lie so far apart, or lean so much, that t intervals may fail (`fedstat.inference.shape_notes`). The
        difference of runs that did not collapse stands as ``given no collapse`` with ``low given no collapse`` and
        ``high given no collapse``, over ``pairs without collapse``: seeds under which neither run collapsed. It goes
        with the two probabilities of collapse, and means little without them.
    control : str or None
        What the others are compared with; None if these are several, or all pairs are compared.
    level : float
        Of the intervals: of all together if they are simultaneous, else of each.
    simultaneous : bool
        Whether the intervals hold together.
    margin : float or None
        Largest difference that counts as none.
    estimand : str
        What the numbers measure, in words.
    conclusions : tuple of str
        A sentence for each question that the comparison answers.
    notes : tuple of str
        What must be known to read the numbers.
    generalises : str
        What the result speaks of, as the design allows.
    above : DataFrame or None
        With several controls a row for each other method, if it and all controls are trained enough: the better control
        ``against`` which it gains least, its ``gain`` over it, ``p`` of being better than all controls (the largest of
        the one-sided p-values), ``p (adjusted)`` for the number of methods (Holm), whether it is ``better``, the
        ``detectable`` gain over the better control that is shown with a power of 80%, and the gain over all of them
        that the limits allow ``at most``.
    design : Design or None
        How seeds, clients and data belong together, where that is known.
    majority : Scores or None
        Beside accuracies the share of each client's most frequent class, where the results tell it.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import compare
    >>> values = {"FedAvg": [0.71, 0.69, 0.70, 0.72], "Ditto": [0.80, 0.79, 0.81, 0.82]}
    >>> rows = [(m, s, 0, v) for m, of in values.items() for s, v in enumerate(of)]
    >>> found = compare(pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"]), control="FedAvg")
    >>> found.differences[["difference", "low", "high", "outcome"]].round(3)
                    difference    low   high    outcome
    Ditto − FedAvg         0.1  0.087  0.113  different
    >>> print(*found.conclusions)
    Ditto (by 10.0 points [8.7, 11.3]) is better than FedAvg. None of any method's 4 runs collapsed; up to 53% may.
    """

    scores: Scores
    summary: pd.DataFrame
    differences: pd.DataFrame
    control: str | None
    level: float
    simultaneous: bool
    margin: float | None
    estimand: str
    conclusions: tuple[str, ...]
    notes: tuple[str, ...]
    generalises: str
    above: pd.DataFrame | None = None
    design: Design | None = None
    majority: Scores | None = None

    @property
    def aim(self) -> float | None:
        """The difference that seeds needed are counted for: the margin, or for shares a point; None without either."""
        return self.scores.aim(self.margin)

    @property
    def gaps(self) -> Mapping[str, str]:
        """The number of missing values in words, by method; methods without missing values are left out."""
        return self.scores.missing

    def probabilities(self) -> pd.DataFrame:
        """Return the probabilities that the first method of a pair is better, equivalent within the margin, or worse.

        They are those of the posterior of the true difference, a t distribution about the mean difference with the
        pair's own ``se`` and ``df``: the correlated Bayesian t test (Benavoli et al. 2017) with its flat prior, and
        with a prior on variances where these are moderated. Each pair is judged alone: nothing is adjusted for their
        number, unlike intervals and outcomes. As the margin goes to zero the larger of better and worse becomes
        1 - p / 2, with p of the t test at that ``se``, which is ``p (t)`` where variances are not moderated.

        Returns
        -------
        DataFrame
            A row for each pair, with the columns better, equivalent and worse, which sum to one; above, equivalent and
            below where it is not known which way the metric is better; NaN without spread.

        Raises
        ------
        ValueError
            If the comparison has no margin.

        References
        ----------
        Benavoli, Corani, Demsar and Zaffalon (2017), Time for a change: a tutorial for comparing multiple classifiers
        through Bayesian analysis, JMLR 18.

        Examples
        --------
        >>> import pandas as pd
        >>> from fedstat.inference import compare
        >>> values = {"FedAvg": [0.71, 0.69, 0.70, 0.72], "Ditto": [0.72, 0.72, 0.71, 0.72]}
        >>> rows = [(m, s, 0, v) for m, of in values.items() for s, v in enumerate(of)]
        >>> table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
        >>> compare(table, control="FedAvg", margin=0.01).probabilities().round(2)
                        better  equivalent  worse
        Ditto − FedAvg    0.64        0.34   0.02
        """
        from scipy import stats

        margin, rows = self.margin, self.differences
        if margin is None:
            raise ValueError(
                "probabilities need a margin, the largest difference that counts as none: fix one beforehand, and "
                "give it to compare, such as margin=0.01."
            )
        of = stats.t(*(rows[name].astype(float) for name in ("df", "difference", "se")))
        above, below = of.sf(margin), of.cdf(-margin)
        direction = self.scores.direction
        first, last = ("better", "worse") if direction else ("above", "below")
        found = {first: below if direction < 0 else above, "equivalent": 1 - above - below}
        return pd.DataFrame(found | {last: above if direction < 0 else below}, index=rows.index)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a forest of the differences with their intervals, the largest at the top.

        Filled discs are different, squares equivalent, open discs undecided, crosses have no spread over seeds and no
        interval, and open triangles are not judged, since a method is still learning. The margin of equivalence is a
        grey band. Of more than 45 differences the 45 largest are drawn.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.

        Raises
        ------
        ValueError
            If there is no difference to draw.
        """
        return drawing.forest(self, ax)

    def curves(self, ax: Axes | None = None, *, axis: str = "rounds") -> Axes:
        """Draw the mean over seeds after each evaluated round, with bands that hold for all methods together.

        The band holds at the marked rounds; between marks its width is interpolated. With one seed there is no band,
        and where one would leave the picture it is not drawn. Of more than six methods the best ones and the control,
        six in all, have lines and bands of their own; the others are grey.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        axis : {"rounds", "bytes"}
            What the metric is drawn over. Bytes are what a run had sent up and down by then, all clients together, mean
            over seeds.

        Raises
        ------
        ValueError
            If there are no values after two rounds, or bytes are asked for and not known.
        """
        return drawing.curves(self, ax, axis=axis)

    def clients(self, ax: Axes | None = None, *, method: str | None = None, against: str | None = None) -> Axes:
        """Draw the difference of a method to another at each client, sorted.

        Differences are means over seeds; where clients are drawn anew for each seed, each client of each seed has a bar
        of its own. Bars of those that do better on average are dark, the others hatched: no verdict on single clients.
        For accuracies the band between two lines is where 95% of the bars at each place would lie if no client gained
        or lost: what the noise of the test samples alone may give, at most, since it is counted as independent between
        the methods and, where all seeds test on the same samples, as the same under all seeds.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure by default.
        method, against : str, optional
            The labels of the two methods; by default the best one and the control.

        Raises
        ------
        ValueError
            If there are no two such methods, or one of them lacks values of clients.
        """
        return drawing.clients(self, ax, method=method, against=against)

    def critical_difference(self, ax: Axes | None = None) -> Axes:
        """Draw mean ranks over seeds, and join the methods that cannot be told apart."""
        scores = self.scores
        table = pd.DataFrame(scores.by_seed().T, index=list(scores.seeds), columns=list(scores.methods))
        return drawing.draw_ranks(ranks(table, smaller=scores.direction < 0, level=self.level), ax)

    def to_latex(self) -> str:
        """Return the table for LaTeX; the best method, those equivalent and those not told apart are marked by rule."""
        return latex(self)

    def to_markdown(self) -> str:
        """Return the tables and sentences as Markdown."""
        parts = [bullets(self.conclusions), escaped_markdown(self.estimand), *map(table_markdown, self._tables())]
        parts += [bullets(self.notes), escaped_markdown(self.generalises)]
        return "\n\n".join(filter(None, parts)) + "\n"

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return summary and differences as one CSV table, and write it if there is a path.

        The column ``table`` tells the rows of the summary, the differences and, with several controls, what is above
        all of them; each row says what was measured. Numbers are not rounded, shares are not in percent, and missing
        cells are empty.
        """
        frames = {"summary": self.summary.rename_axis("method").reset_index(), "differences": self.differences}
        if self.above is not None:
            frames["above"] = self.above.rename_axis("method").reset_index()
        frames = {name: frame.dropna(axis="columns", how="all") for name, frame in frames.items()}
        measured = ("control", "level", "simultaneous", "margin", "estimand")
        same = {"metric": self.scores.metric, "split": self.scores.split}
        same |= {name: getattr(self, name) for name in measured}
        return joined_csv(frames, ("method", "against"), same, path)

    def __str__(self) -> str:
        parts = [wrapped(self.conclusions), wrapped([self.estimand]), *map(table_text, self._tables(_ROWS, _LABEL))]
        if (more := len(self.differences) - _ROWS) > 0:
            parts.append(f"{more} smaller differences are in the table `differences`, and in what to_csv writes.")
        parts += [wrapped(f"note: {note}" for note in self.notes), wrapped([self.generalises])]
        return "\n\n".join(filter(None, parts))

    def _repr_html_(self) -> str:
        parts = [html_list(self.conclusions), f"<p>{escaped(self.estimand)}</p>", *map(html_table, self._tables(_ROWS))]
        if (total := len(self.differences)) > _ROWS:
            every = html_table(differences_table(self))
            parts.append(f"<details><summary>all {total} differences</summary>{every}</details>")
        parts += [html_list(self.notes), f"<p>{escaped(self.generalises)}</p>"]
        return f'<div class="fedstat-comparison">{"".join(parts)}</div>'

    def _tables(self, most: int | None = None, label: int | None = None) -> list[Table]:
        """Return the tables of methods and, where there are any, of differences; arguments as of the latter."""
        differences = [differences_table(self, most, label=label)] if len(self.differences) else []
        return [summary_table(self, label=label), *differences]
