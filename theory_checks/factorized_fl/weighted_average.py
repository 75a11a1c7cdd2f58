"""The weights with which a client averages the clients' vectors, equation (5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import special


class Scores(NamedTuple):
    """A client's similarities in quarters, its own (one) first, and the scale of the softmax."""

    similarity: tuple[float, ...]
    scale: int

    def __str__(self) -> str:
        return f"similarities ({', '.join(f'{s:g}' for s in self.similarity)}), ε = {self.scale}".replace("-", "−")


def scores(largest_scale: int) -> st.SearchStrategy[Scores]:
    """Draw scores of two to five clients."""
    others = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, -0.25, -0.5, -0.75, -1.0])
    similarity = st.one_of(*[st.tuples(st.just(1.0), *[others] * n) for n in range(1, 5)])
    return st.builds(Scores, similarity, st.integers(1, largest_scale))


def softmax(case: Scores, *, threshold: float = -1.0, exclude: bool = False) -> np.ndarray:
    """Return the weights; scores below the threshold count as zero, and get the weight exp(0), or are left out."""
    similarity = np.array(case.similarity)
    score = np.where(similarity >= threshold, similarity, -np.inf if exclude else 0.0)
    return np.asarray(special.softmax(case.scale * score))
