"""The probabilities that one method is better than another, equivalent or worse, as Bayesian comparisons have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedstat.inference.comparing.compared import Compared
from fedstat.inference.reading.scores import better

if TYPE_CHECKING:
    import pandas as pd


def probabilities(comparison: Compared) -> pd.DataFrame:
    """Return what `Comparison.probabilities` promises."""
    import pandas as pd
    from scipy import stats

    margin, rows = comparison.margin, comparison.differences
    if margin is None:
        raise ValueError(
            "probabilities need a margin, the largest difference that counts as none: fix one beforehand, and give it "
            "to compare, such as margin=0.01."
        )
    of = stats.t(*(rows[name].astype(float) for name in ("df", "difference", "se")))
    above, below = of.sf(margin), of.cdf(-margin)
    direction = better(comparison.scores.metric)
    first, last = ("better", "worse") if direction else ("above", "below")
    found = {first: below if direction < 0 else above, "equivalent": 1 - above - below}
    return pd.DataFrame(found | {last: above if direction < 0 else below}, index=rows.index)
