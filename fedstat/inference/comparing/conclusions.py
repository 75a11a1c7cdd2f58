"""What a reader may conclude from differences of methods, in plain sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from fedstat._in_words import counted
from fedstat.inference.formatting import first_of, interval, listed, p_value
from fedstat.inference.intervals.paired import decimals
from fedstat.inference.intervals.shape import HELD
from fedstat.inference.reading.formats.tidy import RUN
from fedstat.inference.reading.scores import Scores, size

#: Above so many methods pairs are counted rather than named.
_NAMED = 6
#: What stands before a sentence about pairs of which the shape of their differences warns.
_APART = f"On average, but with runs far apart (such intervals hold in only {HELD} of cases): "
#: Numbers of seeds above this are not told one from another.
MOST_SEEDS = 1000


def conclude(
    scores: Scores,
    differences: pd.DataFrame,
    control: str | None,
    margin: float | None,
    above: pd.DataFrame | None = None,
) -> tuple[str, ...]:
    """Say in sentences which methods differ, which are equivalent and which cannot be told apart.

    Tables are those of `Comparison`; without `above` and `control` all pairs are compared. Pairs whose runs lie far
    apart are told of by themselves, since no t interval is safe there, and absent runs with what would hold had they
    failed.
    """
    gaps = (*_absent(scores, differences), *_without(scores, control))
    if not len(differences):
        return gaps
    if above is not None:
        return (*_above(scores, differences, above, margin), *gaps)
    if control is not None:
        tell = partial(_against, scores, control=control, margin=margin, of=len(differences))
    elif len(scores.methods) <= _NAMED:
        tell = partial(_pairs, scores, margin=margin)
    else:
        tell = partial(_counts, scores)
    return (*_by_shape(differences, tell), *gaps)


def _by_shape(rows: pd.DataFrame, tell: Callable[[pd.DataFrame], Iterable[str]]) -> Iterable[str]:
    """Tell of rows whose runs lie far apart after the others, all at once and with a warning before it."""
    far = rows["runs apart"].to_numpy(bool)
    if not far.all():
        yield from tell(rows[~far])
    if told := " ".join(tell(rows[far])) if far.any() else "":
        yield _APART + told


def _are(than: str, methods: Sequence[str], each: Iterable[str], of: int) -> str:
    """Say which methods are `than` others: `each` with its difference, or how many of all and the first of them."""
    if len(methods) > _NAMED:
        return f"{len(methods)} of {of} methods are {than}: {first_of(methods, 3)}."
    return f"{listed(each)} {'is' if len(methods) == 1 else 'are'} {than}."


def _words(scores: Scores) -> tuple[str, str]:
    """Return the words for a positive and for a negative difference."""
    return {1: ("better than", "worse than"), -1: ("worse than", "better than"), 0: ("above", "below")}[
        scores.direction
    ]


def _seeds(rows: pd.DataFrame) -> str:
    counts = sorted({int(n) for n in rows["pairs"]})
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _could(rows: pd.DataFrame, scores: Scores, what: str = "difference", over: str = "", done: str = "found") -> str:
    """Say which difference would have been found where none was, and the largest one that the limits allow."""
    factor, unit = (100, " points") if scores.of_shares else (1, "")
    found, most = rows["detectable"], rows["at most"].max()
    # infinite is what no share can have, whose differences are 1 at most
    places = decimals(2 * factor * float(found.where(np.isfinite(found), 1.0).median()))
    low, high = (f"{factor * value:.{places}f}" for value in (found.min(), found.max()))
    sized = f"a {what} of {low if low == high else f'{low} to {high}'}{unit}"
    if np.isinf(found).any():
        sized = f"no {what}" if np.isinf(found).all() else f"at best a {what} of {low}{unit}"
    allowed = f"{factor * most:.{places}f} at most" if most > 0 else "none"
    return f": {sized}{over} would have been {done} with a power of 80%, and the limits allow {allowed}"


def _needed(rows: pd.DataFrame, scores: Scores, margin: float | None) -> str:
    """Say how many seeds would tell the methods apart, were they `margin` apart, or show that they are equivalent."""
    if margin is None:
        return ""
    counts, endless = list[str](), list[str]()
    for goal, column in (("for", "seeds needed"), ("to show equivalence within", "seeds for equivalence")):
        known, goal = rows[column].dropna(), f"{goal} {size(margin, scores)}"
        if not len(known) or (known <= rows.loc[known.index, "pairs"]).all():
            continue
        low, high = (
            f"{value:.0f}" if value <= MOST_SEEDS else f"more than {MOST_SEEDS}" for value in (known.min(), known.max())
        )
        if np.isinf(known).all():
            endless.append(goal)
        else:
            about = "about " if known.min() <= MOST_SEEDS else ""
            seeds = " seeds would be needed" * (not counts)
            counts.append(f"{about}{low if low == high else f'{low} to {high}'}{seeds} {goal}")
    said = ", and ".join(counts)
    said = f" {said[0].upper()}{said[1:]}." if said else ""
    return said + (f" No number of splits of these data would do {' or '.join(endless)}." if endless else "")


def _span(row: pd.Series, scores: Scores, width: float) -> str:
    """Give a difference with its interval, in the direction of the difference and with the decimals for a width."""
    factor, unit = (100, " points") if scores.of_shares else (1, "")
    sign = factor * (np.sign(row["difference"]) or 1.0)
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return interval((sign * row["difference"], low, high), decimals(factor * width), unit)


def _against(scores: Scores, rows: pd.DataFrame, control: str, margin: float | None, of: int) -> Iterable[str]:
    above, below = _words(scores)
    for word, sign in ((above, 1), (below, -1)):
        chosen = rows[(rows["outcome"] == "different") & (sign * rows["difference"] > 0)]
        if len(chosen):
            width = float((chosen["high"] - chosen["low"]).median())
            each = (f"{row['method']} (by {_span(row, scores, width)})" for _, row in chosen.iterrows())
            yield _are(f"{word} {control}", list(chosen["method"]), each, of)
    yield from _equivalent(scores, rows, margin)
    open_ = rows[rows["outcome"] == "undecided"]
    if len(open_):
        who = listed(open_["method"])
        if len(open_) > _NAMED:
            who = f"{len(open_)} of {of} methods ({first_of(open_['method'], 3)})"
        could, needed = _could(open_, scores), _needed(open_, scores, margin)
        yield f"{who} cannot be told apart from {control} with {_seeds(open_)}{could}.{needed}"
    yield from _no_spread(rows)


def _above(scores: Scores, rows: pd.DataFrame, above: pd.DataFrame, margin: float | None) -> Iterable[str]:
    """Say which methods are better than all of several controls, and how each compares with each control."""
    controls = list(dict.fromkeys(rows["against"]))
    two, known = len(controls) == 2, scores.direction != 0
    than = f"{'better than' if known else 'above'} {'both' if two else 'all of'} {listed(controls)}"
    over = f" over the {('better' if two else 'best') if known else ('larger' if two else 'largest')} of them"
    best, rest = above[above["better"]], above[~above["better"] & above["p"].notna()]

    def tell(best: pd.DataFrame) -> Iterable[str]:
        each = (
            f"{method} (by {size(row['gain'], scores, 3)} over {row['against']}, p = {p_value(row['p (adjusted)'])})"
            for method, row in best.iterrows()
        )
        yield _are(than, list(best.index), each, len(above)).replace("p = <", "p <")

    far = best.index.isin(rows["method"][rows["runs apart"].to_numpy(bool)])
    if len(best):
        yield from _by_shape(best.assign(**{"runs apart": far}), tell)
    if len(rest):
        others = f"None of {'the other ' if len(best) else ''}{len(rest)} methods is"
        could = _could(rest, scores, "gain", over, "shown")
        yield f"{f'{rest.index[0]} is not' if len(rest) == 1 else others} shown to be {than}{could}."
    # what the first sentence says of a method the next ones do not leave open
    said = rows["method"].isin(best.index) & (rows["outcome"] == "undecided")
    rows = rows.assign(outcome=rows["outcome"].mask(said, "better than all"))
    for control in controls:
        own = rows[rows["against"] == control]
        yield from _by_shape(own, partial(_against, scores, control=control, margin=margin, of=len(own)))


def _pairs(scores: Scores, rows: pd.DataFrame, margin: float | None) -> Iterable[str]:
    above, below = _words(scores)
    ranks = _ranked(scores)
    won: dict[str, dict[str, list[str]]] = {label: {above: [], below: []} for label in ranks}
    for _, row in rows[rows["outcome"] == "different"].iterrows():
        first, second = row["method"], row["against"]
        won[first][above if row["difference"] > 0 else below].append(second)
        won[second][below if row["difference"] > 0 else above].append(first)
    for _, row in rows[rows["outcome"] == "undecided"].iterrows():
        one = rows.loc[[row.name]]
        yield (
            f"{row['method']} and {row['against']} cannot be told apart with {_seeds(one)}{_could(one, scores)}."
            f"{_needed(one, scores, margin)}"
        )
    yield from _equivalent(scores, rows, margin)
    left = [*ranks]
    # those that differ from most others first; what one sentence has said the next one leaves out
    for label in sorted(ranks, key=lambda name: -max(map(len, won[name].values()))):
        left.remove(label)
        for word, whom in won[label].items():
            if others := [other for other in left if other in whom]:
                every = "both" if len(others) == 2 else "all others"
                yield f"{label} is {word} {every if len(others) == len(ranks) - 1 > 1 else listed(others)}."
    yield from _no_spread(rows)


def _absent(scores: Scores, rows: pd.DataFrame) -> Iterable[str]:
    """Say which runs are absent, and what the differences would be if they had failed.

    A failed run is worth zero where more is better, or the smallest mean of any run if one is negative; and the largest
    mean where less is better.
    """
    gone = {
        label: [str(seed) for seed, ran in zip(scores.seeds, own, strict=True) if not ran]
        for label, own in zip(scores.methods, scores.ran, strict=True)
        if not own.all()
    }
    if not gone:
        return
    each = (
        f"{len(seeds)} of {len(scores.seeds)} runs of {label} (seed{'s' * (len(seeds) > 1)} "
        f"{listed(seeds) if len(seeds) <= _NAMED else first_of(seeds, 3)})"
        for label, seeds in gone.items()
    )
    one = sum(map(len, gone.values())) == 1
    lack = f"{'is' if one else 'are'} absent" + f" or {'has' if one else 'have'} no value" * (scores.clients == (RUN,))
    yield f"{listed(each)} {lack}: a pair is compared on the seeds that both have."
    means, direction = scores.by_seed(), scores.direction
    touched = rows[rows["method"].isin(gone) | rows["against"].isin(gone)] if len(rows) else rows
    if not direction and len(touched):
        yield f"What their failure would mean is not said, as it is not known which way {scores.metric} is worse."
    if not direction or not len(touched):
        return
    worst = min(0.0, float(np.nanmin(means))) if direction > 0 else float(np.nanmax(means))
    whole = dict(zip(scores.methods, np.where(scores.ran, means, worst), strict=True))
    would = [float((whole[row["method"]] - whole[row["against"]]).mean()) for _, row in touched.iterrows()]
    above, below = _words(scores)
    if len(touched) > _NAMED:
        turned = (np.sign(would) != np.sign(touched["difference"])).sum()
        said = f"{turned} of {len(touched)} differences would change sign"
    else:
        said = listed(
            f"{row['method']} would be {above if value > 0 else below} {row['against']} by {size(value, scores)}"
            for value, (_, row) in zip(would, touched.iterrows(), strict=True)
        )
    rank = "largest" if direction < 0 else "smallest" * (worst < 0)
    where = f"{scores.metric} {worst:.4g}" + f", the {rank} mean of any run" * bool(rank)
    yield f"Had {'it' if one else 'they'} failed, at {where}, {said}."


def _without(scores: Scores, control: str | None) -> Iterable[str]:
    """Say which methods are compared with none, since values of them are missing, and what would help."""
    remedy = "Measure them, or leave those clients out of all methods"
    if control in scores.missing:
        yield f"Nothing is compared with {control}, of which values are missing. {remedy}, or take another control."
    elif missing := list(scores.missing):
        who = listed(missing) if len(missing) <= _NAMED else f"{len(missing)} methods ({first_of(missing, 3)})"
        yield f"{who} {'is' if len(missing) == 1 else 'are'} not compared: values are missing. {remedy}."


def _counts(scores: Scores, rows: pd.DataFrame) -> Iterable[str]:
    above, below = _words(scores)
    found = rows["outcome"].value_counts()
    open_ = rows[rows["outcome"] == "undecided"]
    yield (
        f"Of {len(rows)} pairs {found.get('different', 0)} differ, {found.get('equivalent', 0)} are equivalent and "
        f"{len(open_)} cannot be told apart with {_seeds(rows)}{_could(open_, scores) if len(open_) else ''}."
    )
    for label in _ranked(scores):
        mine = rows[(rows["method"] == label) | (rows["against"] == label)]
        if not len(mine):
            continue
        sign = np.where(mine["method"] == label, 1, -1) * np.sign(mine["difference"])
        sure = (mine["outcome"] == "different").to_numpy()
        up, down = int((sure & (sign > 0)).sum()), int((sure & (sign < 0)).sum())
        same, rest = ((mine["outcome"] == word).sum() for word in ("equivalent", "undecided"))
        also = f"equivalent to {same}, " * bool(same)
        yield f"{label} is {above} {counted(up, 'other')}, {below} {down}, {also}and not told apart from {rest}."
    yield from _no_spread(rows)


def _equivalent(scores: Scores, rows: pd.DataFrame, margin: float | None) -> Iterable[str]:
    same = rows[rows["outcome"] == "equivalent"]
    if margin is not None and len(same):
        pairs = "; ".join(f"{row['method']} and {row['against']}" for _, row in same.iterrows())
        yield f"Equivalent, to within {size(margin, scores)}: {pairs}."


def _no_spread(rows: pd.DataFrame) -> Iterable[str]:
    for _, row in rows[rows["outcome"] == "no spread"].iterrows():
        how = "have the same mean" if row["difference"] == 0 else "differ by the same amount"
        yield f"{row['method']} and {row['against']} {how} under every seed: there is no test."


def _ranked(scores: Scores) -> Sequence[str]:
    """Return the labels of methods that have a mean, the best first."""
    means = np.array([np.nanmean(row) if np.isfinite(row).any() else np.nan for row in scores.by_seed()])
    order = np.argsort(-means * (scores.direction or 1), kind="stable")
    return [scores.methods[i] for i in order if np.isfinite(means[i])]
