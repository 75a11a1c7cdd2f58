"""Agreement of two choices and the area under the curve, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from fedstat.factor import auc, chance_corrected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_agreement_is_cohens_kappa(pairs):
    a, b = np.array(pairs).T
    agreement, kappa = chance_corrected(a, b)
    assert agreement == pytest.approx(np.mean(a == b))
    if not np.isnan(kappa):
        assert kappa == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auc_is_scikit_learns(pairs):
    scores, positive = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    if 0 < positive.sum() < len(positive):
        assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: auc(np.ones(3), np.ones(3, dtype=bool)), "units of both kinds"),
        (lambda: chance_corrected(np.ones(3), np.ones(2)), "one length"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
