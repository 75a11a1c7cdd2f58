"""What we rely on in factor_analyzer, and what nothing of ours may rely on.

factor_analyzer 0.5.1 calls scikit-learn's ``check_array(force_all_finite=...)``, which scikit-learn 1.8 removed: its
``FactorAnalyzer.fit`` fails. We use the `Rotator` in `fedstat.factor.rotation`, which calls numpy alone, and in tests
``calculate_kmo``, ``calculate_bartlett_sphericity`` and ``utils.smc`` as oracles.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fedstat.factor import PrincipalAxis, rotate
from fedstat.factor.rotation import OBLIQUE, ORTHOGONAL
from tests.support.matrices import HARMAN8

ROOT = Path(__file__).parents[2]
USED = {"Rotator", "calculate_kmo", "calculate_bartlett_sphericity", "smc"}


def test_nothing_of_ours_takes_more_of_it_than_this_says():
    taken = {}
    for folder in ("fedstat", "simulations", "theory_checks", "reports", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "factor_analyzer" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("factor_analyzer"):
                    taken.setdefault(folder, set()).update(alias.name for alias in node.names)
                assert not (isinstance(node, ast.Import) and any("factor_analyzer" in a.name for a in node.names)), path
    assert taken["fedstat"] == {"Rotator"}
    assert set().union(*taken.values()) == USED


@pytest.mark.parametrize("method", ["varimax", "quartimax", "equamax", "geomin_ort"])
def test_orthogonal_rotations_of_two_factors_by_a_search_over_the_angle(method):
    """Kaiser's, Neuhaus and Wrigley's, Saunders's and Yates's criteria, written out."""
    loadings = PrincipalAxis(2).fit_correlation(HARMAN8).loadings_
    p = len(loadings)

    def criterion(turned):
        squares = turned**2
        if method == "geomin_ort":
            return np.exp(np.log(squares + 0.01).mean(axis=1)).sum()
        if method == "varimax":  # by Kaiser's rule
            squares = squares / squares.sum(axis=1, keepdims=True)
        weight = {"varimax": 1, "quartimax": 0, "equamax": 1}[method]  # orthomax; equamax of two factors is m / 2 = 1
        return -((squares**2).sum() - weight / p * (squares.sum(axis=0) ** 2).sum())

    def turned(angle):
        c, s = np.cos(angle), np.sin(angle)
        return loadings @ np.array([[c, -s], [s, c]])

    found = criterion(rotate(loadings, method).loadings)
    starts = np.linspace(0, np.pi / 2, 46)
    best = min(
        minimize_scalar(lambda a: criterion(turned(a)), bounds=(a, a + np.pi / 90), method="bounded").fun
        for a in starts
    )
    assert found == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("method", [*ORTHOGONAL, *OBLIQUE])
def test_every_method_offered_rotates_and_keeps_the_model(method):
    loadings = PrincipalAxis(3).fit_correlation(HARMAN8).loadings_
    found = rotate(loadings, method)
    phi = np.eye(3) if found.correlations is None else found.correlations
    np.testing.assert_allclose(found.loadings @ phi @ found.loadings.T, loadings @ loadings.T, atol=1e-10)
    np.testing.assert_allclose(np.diag(phi), 1, atol=1e-10)
