"""The study of filter decomposition on images: its formula, its counts, its words."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from simulations.filterdecomp.spread import plain_spread, spread


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_the_variance_over_participants_is_that_of_all_choices(m):
    rng = np.random.default_rng(m)
    alpha, atoms = rng.normal(1, 1, (6, 3, 2, 4)), rng.normal(0.5, 1, (6, 2, 2, 3))
    products = np.einsum("kroi,kabr->koiab", alpha, atoms)
    subsets = [list(c) for c in combinations(range(6), m)]
    plain = np.array([products[c].mean(0) for c in subsets])
    apart = np.array([np.einsum("roi,abr->oiab", alpha[c].mean(0), atoms[c].mean(0)) for c in subsets])
    found = spread(alpha, atoms, m)
    assert found.plain == pytest.approx(plain.var(axis=0).sum(), abs=1e-10)
    assert found.decomposed == pytest.approx(apart.var(axis=0).sum(), abs=1e-10)
    assert found.squared_bias == pytest.approx(((apart.mean(0) - products.mean(0)) ** 2).sum(), abs=1e-10)
    assert found.energy == pytest.approx((products.mean(0) ** 2).sum())
    assert plain_spread(products, m).plain == pytest.approx(found.plain, abs=1e-10)
