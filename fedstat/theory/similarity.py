"""Compute the weights by which a client averages other clients' parameters (Factorized-FL)."""

from __future__ import annotations

import numpy as np

from fedstat._checks import array, number

#: By how much cosines computed in floating point may exceed one.
_ROUNDING = 1e-12


def factorized_average_weights(similarity: np.ndarray, *, threshold: float, scale: float, exclude: bool) -> np.ndarray:
    """Return the softmax weights of one client's personalised average, from its similarities to all clients.

    Parameters
    ----------
    similarity : ndarray, shape (K,)
        Similarity to each client, in [-1, 1]; a client's similarity to itself, one by definition, is an entry too.
    threshold : float
        Least similarity of a matched client; minus infinity matches everybody.
    scale : float
        Factor of the similarities in the exponent, at least zero; zero weights the clients equally.
    exclude : bool
        Whether clients below the threshold have the weight zero; otherwise they have the similarity zero, and so the
        weight ``exp(0) = 1`` before normalisation, as in the paper's text.

    Returns
    -------
    ndarray, shape (K,)
        Not negative, with sum one.

    Raises
    ------
    ValueError
        If `similarity` is no vector of numbers in [-1, 1], `threshold` is not a number, `scale` is negative or not
        finite, or all clients are to be excluded.

    References
    ----------
    Factorized-FL, equations (4) and (5), with the weight inside the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import factorized_average_weights
    >>> similarity = np.array([1.0, 0.9, 0.1])  # to itself, to a client alike, to a stranger
    >>> factorized_average_weights(similarity, threshold=0.5, scale=5.0, exclude=True).round(3)
    array([0.622, 0.378, 0.   ])
    >>> factorized_average_weights(similarity, threshold=0.5, scale=5.0, exclude=False).round(3)
    array([0.62 , 0.376, 0.004])

    As the paper's text has it, a stranger still gets a little weight.
    """
    similarity = array("similarity", similarity, ("clients",))
    wrong = np.flatnonzero(np.abs(similarity) > 1 + _ROUNDING)
    if wrong.size:
        raise ValueError(f"similarity must lie in [-1, 1]; entry {wrong[0]} is {similarity[wrong[0]]}.")
    number("threshold", threshold)
    number("scale", scale, "[0, inf)")
    matched = similarity >= threshold
    if exclude and not matched.any():
        raise ValueError(
            f"threshold must let one client pass, got {threshold}; the largest similarity is {similarity.max()}."
        )
    score = np.where(matched, similarity, -np.inf if exclude else 0.0)
    with np.errstate(over="ignore"):  # an exponent of minus infinity makes the weight zero, as it should be
        weight = np.exp(scale * (score - score.max())) if scale > 0 else np.isfinite(score).astype(np.float64)
    return weight / weight.sum()
