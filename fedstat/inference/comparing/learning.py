"""Say which methods are still learning: a difference to them tells when they were stopped, not which is better."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedstat._in_words import attacked
from fedstat.inference.formatting import interval, listed
from fedstat.inference.intervals.paired import mean_interval
from fedstat.inference.reading.scores import Scores, still_changing

#: The outcome of a pair that is not judged.
STILL_LEARNING = "still learning"
#: The share of the rounds, the last ones, over which a curve must be level.
LAST = 0.2


def still_learning(scores: Scores, share: Scores | None, level: float, aim: float | None) -> dict[str, str]:
    """Return by label why methods are not trained enough to be judged; those that are, are left out.

    The metric still improves if its `late_gain` exceeds `aim` and is shown by a t interval over seeds, all methods
    together at `level`. Or clients' own models are in mean not above what always naming each client's most frequent
    class of training reaches (`share`), where that is known.
    """
    gains = late_gain(scores.curves, scores.rounds)
    each = 1 - (1 - level) / len(scores.methods)
    factor, unit = (100, " points") if scores.of_shares else (1, "")
    values = scores.by_seed()
    own = None if share is None else share.by_seed()
    found = {}
    for m, label in enumerate(scores.methods):
        gain = scores.direction * gains[m, np.isfinite(gains[m])]
        known = np.isfinite(values[m]) if own is None else np.isfinite(values[m] + own[m])
        if own is not None and scores.models[m] == "personal" and known.any():
            reached, usual = (100 * float(of[m, known].mean()) for of in (values, own))
            if reached <= usual:
                found[label] = f"accuracy {reached:.1f}%, each client's most frequent class {usual:.1f}%"
        if aim is not None and (rise := rising(gain, each, aim)):
            verb = "rises" if scores.direction > 0 else "falls"
            by = interval((factor * value for value in rise), 1 if unit else 3, unit)
            found[label] = f"{scores.metric} still {verb}: by {by} over the last fifth of the rounds"
    return found


def rising(gain: ArrayLike, level: float, aim: float) -> tuple[float, float, float] | None:
    """Return the mean gain of the seeds with its limits if it is shown and exceeds `aim`; else None."""
    gain = np.asarray(gain, float)
    if len(gain) < 2 or not gain.std():
        return None
    mean, low, high = mean_interval(gain, level)
    return (mean, low, high) if low > 0 and mean > aim else None


def late_gain(curves: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """Return the change over the last fifth of the rounds by a least-squares line, for each curve (..., rounds).

    `rounds` are those evaluated; 0 is the state before training. The change is NaN where a value is missing, or where
    fewer than two rounds were evaluated in that fifth.
    """
    length = LAST * max(rounds, default=0)
    late = np.flatnonzero(rounds > rounds[-1:] - length)
    if len(late) < 2:
        return np.full(np.shape(curves)[:-1], np.nan)
    x = rounds[late] - rounds[late].mean()
    return length * (curves[..., late] @ x) / (x @ x)


def changing_sentences(scores: Scores, but: Collection[str] = ()) -> tuple[str, ...]:
    """Say which methods, `but` for some, still changed within the rounds that are averaged."""
    each = [f"{label} {change}" for label, change in still_changing(scores).items() if label not in but]
    if not each:
        return ()
    ends = "its mean is not where it ends" if len(each) == 1 else "their means are not where they end"
    return (f"{listed(each)} from the first half of these rounds to the second: {ends}.",)


def learning_sentence(learning: Mapping[str, str], configs: Collection[Mapping[str, Any]]) -> tuple[str, ...]:
    """Say which methods are not judged, and why; `configs` tell of attacks and noise, where rounds are no remedy."""
    if not learning:
        return ()
    each = {label: f"{label} ({why})" for label, why in learning.items()}
    rise = [words for label, words in each.items() if " still " in learning[label]]
    rest = [words for words in each.values() if words not in rise]
    groups = {"still learning": rise, "no better than the most frequent class": rest}
    why = "; and since ".join(f"{what}: {listed(which)}" for what, which in groups.items() if which)
    against = ["clients attack"] * any(attacked(config) for config in configs)
    methods = [spec for config in configs for spec in config.get("methods", {}).values()]
    if any(isinstance(spec, Mapping) and spec.get("mechanism") for spec in methods):
        against += ["noise hides clients"]
    but = f", though that need not help where {listed(against)}" if against else ""
    return (f"Not judged, since {why}. {'Run longer, or tune' if rise else 'Tune'} for these rounds{but}.",)
