"""Agreement of two choices, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from fedstat.factor import chance_corrected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_agreement_is_cohens_kappa(pairs):
    a, b = np.array(pairs).T
    agreement, kappa = chance_corrected(a, b)
    assert agreement == pytest.approx(np.mean(a == b))
    if not np.isnan(kappa):
        assert kappa == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="one length"):
        chance_corrected(np.ones(3), np.ones(2))
