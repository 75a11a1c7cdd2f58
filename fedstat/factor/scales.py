"""How reliable the sums of items are that load on the same factor: alpha and omega."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedstat.factor.correlation import check_correlation
from fedstat.factor.rotation import Rotation, with_correlations


def reliability(R: np.ndarray, loadings: np.ndarray | Rotation) -> pd.DataFrame:
    """Return alpha and omega of the scale that each factor makes, and of all items together.

    An item belongs to the factor on which it loads most, and is reversed where it loads negatively. Of the sum of k
    standardised items with correlations R and uniquenesses u, alpha is ``k / (k - 1) (1 - k / sum R)`` (Cronbach 1951)
    and omega ``1 - sum u / sum R`` (McDonald 1999, omega total). Alpha equals omega if all items load alike on one
    factor, and is smaller otherwise.

    Parameters
    ----------
    R : ndarray, shape (p, p)
        Correlations of the items.
    loadings : ndarray, shape (p, m), or Rotation
        Their loadings; of a `Rotation` with the correlations of its factors.

    Returns
    -------
    DataFrame
        A row for each factor with items, and a last one for all items: ``scale``, the numbers of its ``items``, those
        of them that are ``reversed``, ``alpha`` and ``omega``. A scale of one item has neither.

    Raises
    ------
    ValueError
        If R is no correlation matrix, or the loadings have another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import reliability
    >>> loadings = np.array([[0.8], [0.7], [-0.6]])
    >>> r = loadings @ loadings.T + np.diag(1 - loadings[:, 0] ** 2)
    >>> print(reliability(r, loadings).round(3).to_string(index=False))
    scale     items reversed  alpha  omega
      PA1 [0, 1, 2]      [2]   0.74  0.745
      all [0, 1, 2]      [2]   0.74  0.745
    """
    r = check_correlation(R)
    pattern, phi = with_correlations(loadings)
    if len(pattern) != len(r):
        raise ValueError(f"loadings must have a row for each of the {len(r)} items of R, got {len(pattern)}.")
    unique = np.maximum(1 - ((pattern @ phi) * pattern).sum(axis=1), 0.0)  # a Heywood case has none
    home = np.abs(pattern).argmax(axis=1)
    sign = np.where(pattern[np.arange(len(r)), home] < 0, -1.0, 1.0)
    scales = {f"PA{j + 1}": np.flatnonzero(home == j) for j in range(pattern.shape[1])} | {"all": np.arange(len(r))}
    rows = []
    for name, items in scales.items():
        k, s = len(items), sign[items]
        total = s @ r[np.ix_(items, items)] @ s
        several = k > 1 and total > 0
        rows.append(
            {
                "scale": name,
                "items": items.tolist(),
                "reversed": items[s < 0].tolist(),
                "alpha": k / (k - 1) * (1 - k / total) if several else np.nan,
                "omega": 1 - unique[items].sum() / total if several else np.nan,
            }
        )
    return pd.DataFrame([row for row in rows if row["items"]])
