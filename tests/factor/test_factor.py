"""Principal-axis factor analysis against its definition, other software, exact arithmetic and exact models."""

import warnings

import mpmath
import numpy as np
import pytest
import torch
from factor_analyzer.utils import smc
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedstat.factor import IdentificationWarning, Moments, PrincipalAxis, principal_components_loadings, rotate, solver
from fedstat.factor.correlation import squared_multiple_correlations
from tests.support.matrices import HARMAN5, HARMAN8, HARMAN24, THURSTONE

unidentified = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


def population(p=12, m=3, seed=0):
    """Correlation matrix of an exact factor model, and its communalities."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(-1, 1, (p, m)) / np.sqrt(m)
    r = loadings @ loadings.T
    h = np.diag(r).copy()
    np.fill_diagonal(r, 1.0)
    return r, h


def spiked(p=300, m=6, n=900, seed=0):
    """Correlations of data with a few strong factors."""
    rng = np.random.default_rng(seed)
    return np.corrcoef(rng.normal(size=(n, m)) @ rng.normal(size=(m, p)) + rng.normal(size=(n, p)), rowvar=False)


def image(r, h, m):
    """F(h), and half the sum of squared discarded eigenvalues."""
    reduced = r.copy()
    np.fill_diagonal(reduced, h)
    values, vectors = np.linalg.eigh(reduced)
    kept = np.where(np.arange(len(h)) >= len(h) - m, np.maximum(values, 0), 0)
    return (vectors**2) @ kept, 0.5 * ((values - kept) ** 2).sum()


def by_definition(r, m, steps=20_000):
    """Iterate h <- min(F(h), 1) from the squared multiple correlations."""
    h = 1 - 1 / np.diag(np.linalg.inv(r))
    for _ in range(steps):
        new = np.minimum(image(r, h, m)[0], 1)
        if np.abs(new - h).max() < 1e-14:
            break
        h = new
    return h


def large(seed):
    """Exact models: five factors of 300 variables; three of 254 and one of two further variables."""
    many, _ = population(300, 5, seed)
    r = np.eye(256)
    r[:254, :254] = population(254, 3, seed)[0]
    r[254, 255] = r[255, 254] = 0.5
    return many, r


CASES = [(HARMAN5, 1), (HARMAN5, 2), *((HARMAN8, m) for m in (1, 2, 3, 4)), (HARMAN24, 4), (HARMAN24, 10)]
CASES += [(HARMAN24, 14), *((THURSTONE, m) for m in (1, 2, 3, 4, 5))]


@pytest.mark.parametrize(("r", "m"), CASES, ids=lambda value: len(value) if isinstance(value, np.ndarray) else value)
def test_the_solver_ends_where_the_definition_does(r, m):
    """Some are slow (Thurstone's with five factors takes 4,000 plain steps), bounded, or have other minima nearby."""
    fit = PrincipalAxis(m).fit_correlation(r)
    assert fit.converged_
    assert fit.identified_
    np.testing.assert_allclose(fit.communalities_, by_definition(r, m), atol=2e-10)
    step, psi = image(r, fit.communalities_, m)
    np.testing.assert_allclose((fit.loadings_**2).sum(axis=1), step, atol=1e-13)
    assert fit.residual_ == pytest.approx(np.abs(fit.communalities_ - np.minimum(step, 1)).max(), abs=1e-14)
    assert fit.criterion_ == pytest.approx(psi, rel=1e-10)
    assert fit.heywood_.tolist() == np.flatnonzero(fit.communalities_ >= 1 - 1e-6).tolist()


# psych 2.2.9: fa(r, m, fm = "pa", rotate = "none", min.err = 1e-14, max.iter = 100000)
PSYCH = {
    "Harman 8": (
        HARMAN8,
        2,
        """0.838017352 0.888826024 0.820485187 0.807652950 0.889358196 0.639920412 0.583088268 0.491933076""",
        """0.856020 0.848236 0.808205 0.830909 0.750355 0.630652 0.568734 0.607400""",
    ),
    "Harman 24": (
        HARMAN24,
        4,
        """0.550178015 0.229844376 0.338470373 0.349795788 0.638776931 0.676087311 0.728502873 0.512967977
        0.743893886 0.743173355 0.469860985 0.551716164 0.510717690 0.363999265 0.307466130 0.451194535 0.414375646
        0.414666416 0.234719177 0.416870284 0.422155125 0.399504267 0.511944544 0.487814364""",
        """0.598281 0.372147 0.419523 0.484024 0.688059 0.686660 0.678488 0.674759 0.696828 0.474719 0.555521
        0.469653 0.598877 0.425064 0.391063 0.510712 0.465613 0.517984 0.443186 0.615518 0.594369 0.610588 0.689497
        0.650607""",
    ),
    "Thurstone": (
        THURSTONE,
        3,
        """0.817498198 0.835018656 0.738229975 0.728864520 0.631842336 0.495276828 0.725479356 0.505199747
        0.523607381""",
        """0.820635 0.837636 0.788854 0.704946 0.679088 0.617768 0.650719 0.653817 0.593124""",
    ),
}


@pytest.mark.parametrize("name", PSYCH)
def test_psych_agrees_at_tight_settings(name):
    r, m, communalities, first = PSYCH[name]
    fit = PrincipalAxis(m).fit_correlation(r)
    np.testing.assert_allclose(fit.communalities_, np.array(communalities.split(), float), atol=1e-9)
    np.testing.assert_allclose(fit.loadings_[:, 0], np.array(first.split(), float), atol=1e-6)


def test_a_published_principal_factor_solution():
    """Harman's eight physical variables with his communalities on the diagonal (1967, pages 154-155)."""
    h = np.array([0.854, 0.897, 0.833, 0.783, 0.870, 0.687, 0.521, 0.579])
    with pytest.warns(ConvergenceWarning):  # one step is asked for
        fit = PrincipalAxis(2, start=h, solver="plain", max_iter=1).fit_correlation(HARMAN8)
    step = np.minimum(image(HARMAN8, h, 2)[0], 1)
    np.testing.assert_allclose(fit.communalities_, step, atol=1e-14)
    reduced = HARMAN8 - np.diag(1 - h)
    np.testing.assert_allclose(np.linalg.eigvalsh(reduced)[:-3:-1], [4.455751, 1.512747], atol=5e-6)
    loadings = np.array([[86, 85, 81, 83, 75, 64, 56, 62], [-33, -41, -41, -34, 56, 51, 49, 37]]).T / 100
    np.testing.assert_allclose((loadings**2).sum(axis=1), step, atol=0.015)


@pytest.mark.parametrize(("r", "m"), [(HARMAN8, 2), (HARMAN24, 4), (THURSTONE, 3)], ids=["8", "24", "9"])
def test_statsmodels_agrees_at_tight_settings(r, m):
    from statsmodels.multivariate.factor import Factor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Factor(corr=r, n_factor=m, method="pa", smc=True).fit(maxiter=20_000, tol=1e-13).communality
    np.testing.assert_allclose(PrincipalAxis(m).fit_correlation(r).communalities_, theirs, atol=1e-11)


@pytest.mark.parametrize(("r", "m"), [(HARMAN5, 2), (HARMAN8, 2), (HARMAN8, 3), (THURSTONE, 3)])
def test_minres_finds_the_same_minimum(r, m):
    """MINRES over loadings instead of communalities; beyond one a variable's own residual counts as well."""
    p = len(r)

    def residual_squares(flat):
        loadings = flat.reshape(p, m)
        residual = r - loadings @ loadings.T
        np.fill_diagonal(residual, np.minimum(np.diag(residual), 0))
        return 0.5 * (residual**2).sum(), (-2 * residual @ loadings).ravel()

    fit = PrincipalAxis(m).fit_correlation(r)
    start = principal_components_loadings(r, m)
    found = minimize(
        residual_squares, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 10_000}
    )
    assert fit.criterion_ == pytest.approx(found.fun, rel=1e-7)
    norms = (found.x.reshape(p, m) ** 2).sum(axis=1)
    np.testing.assert_allclose(fit.communalities_, np.minimum(norms, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("r", "m", "message"),
    [
        ([[1, 0.5], [0.2, 1]], 1, r"r must be symmetric, but differs from its transpose by up to 0\.3"),
        ([[1, 0.5, 0.2]], 1, r"r must have shape \(variables, variables\)"),
        ([[1, np.nan], [np.nan, 1]], 1, "r must be finite"),
        (np.eye(2), 1.5, "m must be a whole number, got 1.5"),
        (np.eye(2), 3, "m must lie between 1 and the 2 variables, got 3"),
    ],
)
def test_components_are_those_of_symmetric_matrices(r, m, message):
    with pytest.raises(ValueError, match=message):
        principal_components_loadings(r, m)


def test_fifty_digits_agree():
    """The definition by Jacobi's method in multiple precision, on correlations that are exact in both."""
    r = np.eye(4)
    r[np.triu_indices(4, 1)] = [0.5, 0.375, 0.25, 0.4375, 0.3125, 0.125]
    r = r + r.T - np.eye(4)
    with mpmath.workdps(50):
        exact = mpmath.matrix(r.tolist())
        h = [1 - 1 / (exact**-1)[j, j] for j in range(4)]
        for _ in range(600):
            reduced = exact.copy()
            for j in range(4):
                reduced[j, j] = h[j]
            values, vectors = mpmath.eigsy(reduced)
            new = [values[3] * vectors[j, 3] ** 2 for j in range(4)]
            step = max(abs(a - b) for a, b in zip(h, new, strict=True))
            h = new
            if step < mpmath.mpf(10) ** -40:
                break
        assert step < mpmath.mpf(10) ** -40
    fit = PrincipalAxis(1).fit_correlation(r)
    np.testing.assert_allclose(fit.communalities_, np.array(h, dtype=float), rtol=2e-15)


@pytest.mark.parametrize(("p", "m"), [(6, 1), (12, 3), (16, 3), (40, 8)])
def test_the_exact_factor_model_is_recovered(p, m):
    r, h = population(p, m)
    fit = PrincipalAxis(m).fit_correlation(r)
    np.testing.assert_allclose(fit.communalities_, h, atol=1e-12)
    np.testing.assert_allclose(fit.loadings_ @ fit.loadings_.T, r - np.diag(1 - h), atol=1e-12)
    assert fit.criterion_ < 1e-24


@st.composite
def samples(draw):
    """Few rows of a factor model with noise; its columns, and a number of factors below the Ledermann bound."""
    p = draw(st.integers(4, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    loadings = rng.normal(size=(draw(st.integers(1, 3)), p))
    x = rng.normal(size=(3 * p, len(loadings))) @ loadings + draw(st.floats(0.5, 2)) * rng.normal(size=(3 * p, p))
    return x, draw(st.integers(1, max(1, p // 3))), rng


@pytest.mark.slow
@given(samples(), st.booleans())
@unidentified
def test_properties_of_the_fixed_point(sample, bounded):
    x, m, rng = sample
    r = np.corrcoef(x, rowvar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = PrincipalAxis(m, bounded=bounded, max_iter=100).fit(x)
    assume(fit.converged_)
    h = fit.communalities_
    step, psi = image(r, h, m)
    np.testing.assert_allclose(h, np.minimum(step, 1) if bounded else step, atol=1e-9)
    # psi never rises along the plain iteration, and the solver ends no higher than a stretch of it
    start, last = squared_multiple_correlations(r), np.inf
    for steps in range(1, 15):
        level = solver.plain(r, start, m, 1.0 if bounded else np.inf, 1e-12, steps).criterion
        assert level <= last + 1e-14
        last = level
    assert psi <= last + 1e-12
    if not bounded:
        kept = np.maximum(fit.reduced_eigenvalues_[:m], 0)
        assert h.sum() == pytest.approx(kept.sum(), rel=1e-9)
    turned = rotate(fit.loadings_, "varimax").loadings
    np.testing.assert_allclose((turned**2).sum(axis=1), step, atol=1e-9)
    # order, signs, scales and levels of columns
    assume(fit.identified_)
    order, scale = rng.permutation(len(h)), rng.choice([-1, 1], len(h)) * 10 ** rng.uniform(-3, 3, len(h))
    other = PrincipalAxis(m, bounded=bounded, max_iter=100).fit((x * scale + 3 * scale)[:, order])
    np.testing.assert_allclose(other.communalities_, h[order], atol=1e-7)
    product = (other.loadings_ @ other.loadings_.T) * np.sign(np.outer(scale[order], scale[order]))
    np.testing.assert_allclose(product, (fit.loadings_ @ fit.loadings_.T)[np.ix_(order, order)], atol=1e-7)


@pytest.mark.parametrize("m", [2, 9])  # through the kept and through the discarded block
@pytest.mark.parametrize("device", [None, "cpu"])  # numpy, and what runs on a GPU
def test_the_hessian_is_that_of_psi(m, device):
    r, _ = population(12, 4, seed=3)
    h = np.random.default_rng(0).uniform(0.2, 0.9, 12)
    arrays = solver._NUMPY if device is None else solver._torch(device)
    product = solver._Spectrum(r, h, m, arrays).hessian(np.ones(12, bool))
    hessian = np.array([product(row) for row in np.eye(12)])

    def gradient(at):
        return at - image(r, at, m)[0]

    numeric = np.array([(gradient(h + e) - gradient(h - e)) / 2e-6 for e in 1e-6 * np.eye(12)])
    np.testing.assert_allclose(hessian, numeric, atol=1e-7)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)


def test_partial_and_device_solvers_end_at_the_same_point():
    r = spiked()
    fit = PrincipalAxis(6).fit_correlation(r)
    start = squared_multiple_correlations(r)
    for solution in (
        solver.lanczos(r, start, 6, 1.0, 1e-12, 100),
        solver.newton(r, start, 6, 1.0, 1e-12, 100, device="cpu"),
        solver.plain(r, start, 6, 1.0, 1e-12, 10_000),
    ):
        assert solution.converged
        assert solution.identified
        np.testing.assert_allclose(solution.communalities, fit.communalities_, atol=1e-10)
        np.testing.assert_allclose(np.abs(solution.loadings), np.abs(fit.loadings_), atol=1e-9)
        assert solution.criterion == pytest.approx(fit.criterion_, rel=1e-10)


def test_the_bound_on_the_curvature_is_one():
    r = spiked(p=60, m=3, n=200)
    solution = solver.newton(r, squared_multiple_correlations(r), 3, 1.0, 1e-12, 100)
    spectrum = solver._Spectrum(r, solution.communalities, 3, solver._NUMPY)
    product = spectrum.hessian(np.ones(60, bool))
    least = np.linalg.eigvalsh(np.array([product(row) for row in np.eye(60)]))[0]
    values, vectors = spectrum.values[:-4:-1], spectrum.vectors[:, :-4:-1]
    bound = solver._least_curvature_at_least(values, vectors, float(spectrum.values[-4]))
    assert 0.2 < bound <= least < 1


def test_a_missed_eigenvalue_is_noticed():
    """One Krylov space need not show a repeated eigenvalue as often as it occurs."""
    r = spiked()
    values, vectors = np.linalg.eigh(r)
    values, vectors = values[::-1], vectors[:, ::-1]
    following = solver.next_eigenvalue(r, np.ones(300), values[:6], vectors[:, :6])
    assert following == pytest.approx(values[6], rel=1e-3)
    others = [0, 1, 2, 4, 5]
    with pytest.raises(np.linalg.LinAlgError, match="missed"):
        solver.next_eigenvalue(r, np.ones(300), values[others], vectors[:, others])


def test_the_contribution_rule_sets_the_number_of_factors():
    for contribution, m in ((0.5, 1), (0.75, 2), (0.85, 3), (0.9, 4)):
        assert PrincipalAxis(contribution=contribution).fit_correlation(HARMAN8).n_factors_ == m
    for contribution, m in ((0.5, 4), (0.75, 10), (0.85, 14), (0.9, 16)):
        assert PrincipalAxis(contribution=contribution).fit_correlation(HARMAN24).n_factors_ == m


@pytest.mark.parametrize(
    ("r", "m"),
    [
        (HARMAN8, 5),  # above the Ledermann bound: exact fits form a continuum
        (HARMAN24, 18),
        (np.kron(np.eye(3), [[1, 0.5], [0.5, 1]]), 3),  # doublets: only products of two loadings are known
        (population(12, 3)[0], 4),  # one factor too many for an exact model
        (np.array([[1, 0.3], [0.3, 1]]), 1),
        (np.ones((1, 1)), 1),
        # psi is not smooth: a further eigenvalue of zero, none at all, two equal ones of which one is kept
        (np.full((6, 6), 0.5) + 0.5 * np.eye(6), 2),
        (np.eye(128), 3),
        (np.kron(np.eye(2), np.full((4, 4), 0.5) + 0.5 * np.eye(4)), 1),
        # the same with hundreds of columns, through the partial solver first
        (np.kron(np.eye(128), [[1, 0.5], [0.5, 1]]), 5),
        (np.full((300, 300), 0.5) + 0.5 * np.eye(300), 2),
        (large(1)[0], 6),
        (large(3)[1], 4),
    ],
    ids=[
        "8",
        "24",
        "doublets",
        "too-many",
        "two",
        "one",
        "zero",
        "identity",
        "tie",
        "doublets-256",
        "zero-300",
        "too-many-300",
        "doublet-256",
    ],
)
def test_what_the_data_do_not_identify_is_said(r, m):
    with pytest.warns(IdentificationWarning, match=rf"do not identify {m} factors? of {len(r)} .* Ledermann bound"):
        fit = PrincipalAxis(m).fit_correlation(r)
    assert not fit.identified_
    assert fit.residual_ < 1e-9
    assert np.isfinite(fit.loadings_).all()


def test_a_saddle_is_left_to_the_solver_that_descends():
    """Extrapolated steps from these largest correlations end on a saddle."""
    rng = np.random.default_rng(249)
    rng.integers(1, 22), rng.normal(size=(10, 30))
    x = rng.normal(size=(270, 256))
    x[:, 1::2] = x[:, ::2] + rng.uniform(0.1, 2) * rng.normal(size=(270, 128))
    auto, newton = (PrincipalAxis(15, start="largest", solver=s).fit(x) for s in ("auto", "newton"))
    assert auto.identified_
    np.testing.assert_array_equal(auto.communalities_, newton.communalities_)


def test_warnings_point_at_the_caller():
    r = np.array([[1, 0.3], [0.3, 1]])
    x = np.random.default_rng(0).normal(size=(9, 2))
    fits = (lambda f: f.fit(x), lambda f: f.fit_moments(Moments.of(x)))
    for call in (*fits, lambda f: f.fit_correlation(r)):
        with pytest.warns(IdentificationWarning) as caught:
            call(PrincipalAxis(1))
        assert caught[0].filename == __file__


@unidentified
def test_a_failed_fit_leaves_the_last_one():
    fit = PrincipalAxis(2).fit_correlation(HARMAN8)
    before = dict(vars(fit))
    with pytest.raises(ValueError, match="n_factors is 9"):
        fit.set_params(n_factors=9).fit_correlation(HARMAN5)
    assert {**vars(fit), "n_factors": 2}.keys() == before.keys()
    assert fit.loadings_ is before["loadings_"]
    assert fit.n_features_in_ == 8
    assert len(fit.set_params(n_factors=2).fit_correlation(THURSTONE).eigenvalues_) == 9


def test_without_the_bound_communalities_may_grow_without_end():
    with pytest.warns(ConvergenceWarning, match="use bounded"), pytest.warns(IdentificationWarning):
        fit = PrincipalAxis(14, bounded=False, max_iter=100).fit_correlation(HARMAN24)
    assert not fit.converged_
    assert fit.communalities_.max() > 10
    bounded = PrincipalAxis(14).fit_correlation(HARMAN24)
    assert bounded.converged_
    assert len(bounded.heywood_) == 3


def test_the_start_is_part_of_the_definition():
    """Harman's eight variables with three factors have minima 0.19 apart, from two customary starts."""
    fits = [PrincipalAxis(3, bounded=False, start=s).fit_correlation(HARMAN8) for s in ("smc", "largest")]
    assert all(fit.converged_ and fit.identified_ for fit in fits)
    assert np.abs(fits[0].communalities_ - fits[1].communalities_).max() == pytest.approx(0.19, abs=0.005)
    components = (principal_components_loadings(HARMAN8, 3) ** 2).sum(axis=1)
    from_components, own = (PrincipalAxis(3, start=s).fit_correlation(HARMAN8) for s in ("components", components))
    np.testing.assert_array_equal(from_components.communalities_, own.communalities_)


def test_the_letter_of_the_paper_is_principal_components():
    """Its loop takes all of R - AA' for the specific part and stands still after one step."""
    loadings = principal_components_loadings(HARMAN24, 4)
    sigma = HARMAN24 - loadings @ loadings.T
    values, vectors = np.linalg.eigh(HARMAN24 - sigma)
    again = vectors[:, :-5:-1] * np.sqrt(values[:-5:-1])
    np.testing.assert_allclose(np.abs(again), np.abs(loadings), atol=1e-12)
    np.testing.assert_allclose(loadings.T @ loadings, np.diag(np.linalg.eigvalsh(HARMAN24)[:-5:-1]), atol=1e-12)


def test_start_values_are_the_squared_multiple_correlations():
    r, _ = population()
    np.testing.assert_allclose(squared_multiple_correlations(r), smc(r).ravel(), atol=1e-12)
    np.testing.assert_array_equal(squared_multiple_correlations(np.ones((3, 3))), np.ones(3))
    x = np.random.default_rng(0).normal(size=(5, 8))  # more variables than rows
    r = np.corrcoef(x, rowvar=False)
    np.testing.assert_allclose(squared_multiple_correlations(r), np.abs(r - np.eye(8)).max(axis=1), atol=1e-15)


@unidentified
def test_dead_and_duplicated_units_more_columns_than_rows_and_as_many_factors():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8)) + 0.7 * rng.normal(size=(40, 8))
    alone = PrincipalAxis(2).fit(x)
    with_dead = np.insert(x, [0, 5], [0.0, 1 / 3], axis=1)
    fit = PrincipalAxis(2).fit(with_dead)
    assert fit.constant_.tolist() == [0, 6]
    np.testing.assert_allclose(np.delete(fit.communalities_, [0, 6]), alone.communalities_, atol=1e-12)
    assert not fit.loadings_[[0, 6]].any()
    np.testing.assert_allclose(fit.transform(with_dead), alone.transform(x), atol=1e-10)

    twins = PrincipalAxis(2).fit(np.hstack([x, x[:, :1]]))
    assert twins.communalities_[0] == pytest.approx(twins.communalities_[8], abs=1e-9)

    nothing = PrincipalAxis().fit(np.ones((3, 4)))
    assert nothing.loadings_.shape == (4, 0)
    assert not nothing.communalities_.any()
    for data, m in ((x[:5], 3), (x, 8), (x[:, :1], 1), (x[:2], 1)):
        fit = PrincipalAxis(m).fit(data)
        assert fit.converged_
        assert np.isfinite(fit.loadings_).all()
        assert (fit.communalities_ >= 0).all()
        assert (fit.communalities_ <= 1).all()


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True))
def test_blocks_of_rows_give_what_all_rows_give(seed, cuts):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20, 6)) @ rng.normal(size=(6, 6)) + rng.normal(size=6) * 10 ** rng.uniform(-3, 6)
    blocks = np.split(x, sorted(2 * c + 2 for c in cuts))
    pooled = sum((Moments.of(b) for b in blocks[1:]), Moments.of(blocks[0]))
    reference = Moments.of(x)
    np.testing.assert_allclose(pooled.mean, reference.mean, rtol=1e-12)
    np.testing.assert_allclose(pooled.correlation(), reference.correlation(), atol=1e-8)
    np.testing.assert_allclose((Moments.of(x) * 3).correlation(), reference.correlation(), atol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts, whole = PrincipalAxis(2, max_iter=50).fit_moments(pooled), PrincipalAxis(2, max_iter=50).fit(x)
    assert parts.n_features_in_ == 6
    if whole.identified_:
        np.testing.assert_allclose(parts.communalities_, whole.communalities_, atol=1e-4)


def test_many_rows_far_from_zero():
    """The mean of many equal numbers is not quite that number, and levels may be 1e8 times the spread."""
    z = np.random.default_rng(0).normal(size=(200_000, 3)) @ np.array([[1, 0.6, 0.3], [0, 0.8, 0.2], [0, 0, 0.9]])
    x = np.column_stack([z, np.full(200_000, 1 / 3), np.full(200_000, 0.1)])
    assert Moments.of(x).varies().tolist() == [True, True, True, False, False]
    exact = np.corrcoef(z, rowvar=False)
    blocks = np.array_split(z + 1e8, 50)
    np.testing.assert_allclose(Moments.of(x).correlation(), exact, atol=1e-13)
    np.testing.assert_allclose(sum(map(Moments.of, blocks[1:]), Moments.of(blocks[0])).correlation(), exact, atol=1e-8)


def test_scores_ignore_what_single_precision_leaves():
    x = np.random.default_rng(0).normal(size=(20, 30))
    r = np.corrcoef(x, rowvar=False)
    z = np.random.default_rng(1).normal(size=(5, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        double, single = (PrincipalAxis(3).fit_correlation(m).transform(z) for m in (r, r.astype(np.float32)))
    np.testing.assert_allclose(single, double, atol=1e-3)


def test_single_precision_is_analysed_in_double():
    x = np.random.default_rng(0).normal(size=(200, 3)) @ np.random.default_rng(1).normal(size=(3, 12))
    x = (x + np.random.default_rng(2).normal(size=x.shape)).astype(np.float32)
    fit = PrincipalAxis(3).fit(x)
    assert fit.communalities_.dtype == np.float64
    np.testing.assert_array_equal(fit.communalities_, PrincipalAxis(3).fit(x.astype(np.float64)).communalities_)


def test_scores_are_those_of_statsmodels():
    from statsmodels.multivariate.factor import Factor

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(200, 8))
    fit = PrincipalAxis(2).fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Factor(x, n_factor=2).fit(maxiter=5000, tol=1e-13)
    scores = theirs.factor_scoring(method="reg")
    signs = np.sign((theirs.loadings * fit.loadings_).sum(axis=0))
    np.testing.assert_allclose(fit.transform(x), scores * signs, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([PrincipalAxis()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def asymmetric():
    r = HARMAN5.copy()
    r[1, 3] = 0.5
    return r


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrincipalAxis(0).fit_correlation(HARMAN5), "n_factors must be a whole number, at least 1"),
        (lambda: PrincipalAxis(1.5).fit_correlation(HARMAN5), "n_factors must be a whole number"),
        (lambda: PrincipalAxis(6).fit_correlation(HARMAN5), "n_factors is 6, but there are 5 columns"),
        (lambda: PrincipalAxis(3).fit(np.eye(4)[:, [0, 1, 1]] * [1, 1, 0]), "only 2 of 3 columns vary"),
        (lambda: PrincipalAxis(contribution=0).fit_correlation(HARMAN5), r"must be a number in \(0, 1\], got 0"),
        (lambda: PrincipalAxis(contribution=1.2).fit_correlation(HARMAN5), "contribution must be a number in"),
        (lambda: PrincipalAxis(start="ones").fit_correlation(HARMAN5), 'start must be "smc"'),
        (lambda: PrincipalAxis(1, start=[0.5, 2, 0, 0, 0]).fit_correlation(HARMAN5), "start must hold 5"),
        (lambda: PrincipalAxis(solver="lapack").fit_correlation(HARMAN5), "solver must be"),
        (lambda: PrincipalAxis(bounded="no").fit_correlation(HARMAN5), "bounded must be True or False, got 'no'"),
        (lambda: PrincipalAxis(tol=np.inf).fit_correlation(HARMAN5), r"tol must be a number in \(0, inf\), got inf"),
        (lambda: Moments.of(np.array([["a"] * 3])), "could not convert"),
        (lambda: PrincipalAxis().fit(np.eye(3) * 1e160), "column 0 ranges from 0 to 1e.160; multiply it"),
        (lambda: PrincipalAxis().fit(np.eye(3) * 1e-170), "column 0 ranges from 0 to 1e-170; multiply it"),
        (lambda: Moments.of(np.eye(3)) * -1, "weight must be a number of times"),
        (lambda: PrincipalAxis(tol=0).fit_correlation(HARMAN5), r"tol must be a number in \(0, inf\), got 0"),
        (lambda: PrincipalAxis(max_iter=0).fit_correlation(HARMAN5), "max_iter must be"),
        (lambda: PrincipalAxis().fit(np.ones((1, 3))), "minimum of 2 is required"),
        (lambda: PrincipalAxis().fit_moments(Moments.of(np.ones((1, 3)))), "at least two rows"),
        (lambda: Moments.of(np.ones((2, 3))) + Moments.of(np.ones((2, 4))), "same columns, got 3 and 4"),
        (lambda: PrincipalAxis().fit(np.array([[1.0, np.nan], [1, 2]])), "row 0, column 1 holds NaN"),
        (lambda: PrincipalAxis().fit_correlation(np.ones((2, 3))), r"square matrix, got shape \(2, 3\)"),
        (lambda: PrincipalAxis().fit_correlation(asymmetric()), "symmetric; row 1, column 3 holds 0.5 against 0.69141"),
        (lambda: PrincipalAxis().fit_correlation(2 * np.eye(3)), "ones on its diagonal .* row 0, column 0 holds 2"),
        (
            lambda: PrincipalAxis().fit_correlation(np.array([[1, 2], [2, 1.0]])),
            r"entries in \[-1, 1\]; row 0, column 1",
        ),
        (lambda: PrincipalAxis().fit_correlation(np.array([[1, np.inf], [np.inf, 1]])), "finite; row 0, column 1"),
        (
            lambda: PrincipalAxis().fit_correlation(2 * np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]) / 2),
            "positive semidefinite, but has the eigenvalue -0.8",
        ),
        pytest.param(
            lambda: PrincipalAxis(1, solver="cuda").fit_correlation(HARMAN5),
            "needs a GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (lambda: principal_components_loadings(HARMAN5, 6), "m must lie between 1 and the 5 variables, got 6"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
