"""Rules for the number of factors against R's psych, exact laws and their own definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import beta, ks_2samp

from fedstat.factor import PrincipalAxis
from fedstat.factor.retention import (
    contribution_rule,
    factor_parallel_analysis,
    kaiser_rule,
    ledermann_bound,
    minimum_average_partial,
    parallel_analysis,
    scree_plot,
)
from tests.support.matrices import HARMAN8, HARMAN8_ROWS, HARMAN24, HARMAN24_ROWS, THURSTONE, THURSTONE_ROWS
from tests.support.psych import bfi


def eigenvalues(r):
    return np.linalg.eigvalsh(r)


def sample_correlation(rows, p, seed):
    return np.corrcoef(np.random.default_rng(seed).normal(size=(rows, p)).T)


# contribution and Kaiser


@pytest.mark.parametrize(("r", "expected"), [(HARMAN8, [1, 2, 3, 4, 6, 7]), (HARMAN24, [4, 10, 14, 16, 20, 23])])
def test_contribution_rule_on_published_matrices(r, expected):
    found = [contribution_rule(eigenvalues(r), kappa).n_factors for kappa in (0.5, 0.75, 0.85, 0.9, 0.95, 1.0)]
    assert found == expected
    assert [str(contribution_rule(eigenvalues(r), kappa)).count("the most allowed") for kappa in (0.95, 1.0)] == [0, 1]


@given(values=arrays(np.float64, st.integers(2, 9), elements=st.floats(-1, 5)), kappa=st.floats(0.01, 1))
def test_contribution_rule_is_its_definition(values, kappa):
    values[0] = 6
    rule = contribution_rule(values, kappa)
    positive = sorted((max(v, 0) for v in values), reverse=True)
    m = rule.n_factors
    assert 1 <= m <= len(values) - 1
    assert sum(positive[: m - 1]) < kappa * sum(positive)
    assert sum(positive[:m]) >= kappa * sum(positive) * (1 - 1e-9) or m == len(values) - 1
    np.testing.assert_allclose(rule.observed, np.cumsum(positive) / sum(positive), atol=1e-14)


def test_kaiser_rule():
    assert [kaiser_rule(eigenvalues(r)).n_factors for r in (HARMAN8, HARMAN24, THURSTONE)] == [2, 5, 3]
    assert kaiser_rule(np.ones(4) * (1 + 1e-15)).n_factors == 0  # R = identity, up to rounding
    assert kaiser_rule(eigenvalues(HARMAN24)[-6:]).n_factors == 5
    with pytest.raises(ValueError, match="give more of them"):
        kaiser_rule(eigenvalues(HARMAN24)[-5:])


# parallel analysis


@pytest.mark.parametrize(
    ("r", "rows", "m", "quantiles"),
    # psych 2.2.9, fa.parallel(fa = "pc", quant = 0.95), 3000 or 20 000 simulations: the leading quantiles
    [
        (HARMAN8, HARMAN8_ROWS, 2, [1.3253, 1.2114, 1.1305, 1.0636, 1.0048, 0.9502, 0.8941, 0.8300]),
        (HARMAN24, HARMAN24_ROWS, 3, [1.9604, 1.7823, 1.6599, 1.5608, 1.4746, 1.3936, 1.3214, 1.2553]),
        (THURSTONE, THURSTONE_ROWS, 1, [1.4250, 1.2810, 1.1877, 1.1065, 1.0367, 0.9715, 0.9095, 0.8456]),
    ],
)
def test_parallel_analysis_agrees_with_psych(r, rows, m, quantiles):
    rule = parallel_analysis(eigenvalues(r), rows, simulations=2000)
    assert rule.n_factors == m
    np.testing.assert_allclose(rule.reference[:8], quantiles, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 4, 30])
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_two_variables_have_an_exact_null_law(rows, quantile):
    """The first eigenvalue is 1 + |r|, and r^2 follows a beta law with parameters 1/2 and (rows - 2) / 2."""
    reference = parallel_analysis([1.5, 0.5], rows, simulations=20_000, quantile=quantile).reference
    exact = np.sqrt(beta(0.5, (rows - 2) / 2).ppf(quantile))
    np.testing.assert_allclose(reference[0], 1 + exact, atol=0.015)


@pytest.mark.parametrize(("p", "rows"), [(5, 12), (6, 7), (12, 6), (7, 3)])
def test_the_null_law_is_that_of_normal_rows(p, rows):
    """Also with more variables than rows; each eigenvalue that is not zero is compared."""
    from fedstat.factor.retention import _null_eigenvalues

    rng = np.random.default_rng(1)
    ours = np.array([_null_eigenvalues(p, rows, rng) for _ in range(2000)])
    brute = np.array([eigenvalues(sample_correlation(rows, p, seed))[::-1] for seed in range(2000)])
    rank = min(p, rows - 1)
    assert min(ks_2samp(ours[:, j], brute[:, j]).pvalue for j in range(rank)) > 0.001
    np.testing.assert_allclose(ours.sum(axis=1), p)
    assert (ours[:, rank:] == 0).all()


def test_planted_factors_are_found_and_chance_is_not():
    rng = np.random.default_rng(3)
    loadings = np.kron(np.eye(3), np.full((5, 1), 0.7))
    x = rng.normal(size=(300, 3)) @ loadings.T + np.sqrt(1 - 0.49) * rng.normal(size=(300, 15))
    planted, noise = eigenvalues(np.corrcoef(x.T)), eigenvalues(sample_correlation(300, 15, 0))
    assert parallel_analysis(planted, 300).n_factors == 3
    assert minimum_average_partial(np.corrcoef(x.T)).n_factors == 3
    assert parallel_analysis(noise, 300).n_factors == 0
    assert kaiser_rule(noise).n_factors > 4  # what parallel analysis is for


def test_a_seed_repeats_itself_and_the_note_says_what_was_done():
    rules = [parallel_analysis(eigenvalues(HARMAN8), 305, simulations=20, seed=s) for s in (4, 4, 5)]
    np.testing.assert_array_equal(rules[0].reference, rules[1].reference)
    assert (rules[0].reference != rules[2].reference).all()
    assert (
        str(rules[0]) == "parallel analysis (of components): 2 factors "
        "(closest: eigenvalue 2, 1.771 against 1.211; 95% quantile of 20 simulations of 305 independent rows, seed 4)"
    )


def test_rules_say_how_near_they_came_to_another_number():
    share, kaiser = contribution_rule(np.array([2.0, 1.0, 0.6, 0.4])), kaiser_rule(np.array([2.0, 1.0, 0.6, 0.4]))
    assert share.note == "share 0.9000 of the eigenvalues' sum, wanted 0.85, one fewer 0.7500"
    assert kaiser.note == "eigenvalues above 1; closest: eigenvalue 2, 1.000 against 1.000"
    last = parallel_analysis(np.array([1.4, 1.15, 0.8, 0.65]), 1000)  # the second is kept, and nearer than the third
    assert last.note.startswith(f"closest: eigenvalue 2, 1.150 against {last.reference[1]:.3f}; ")
    partial = minimum_average_partial(HARMAN8)
    best, second = np.sort(partial.observed[~np.isnan(partial.observed)])[:2]
    assert partial.note == f"average squared partial correlation {best:.3g}; next best: {second:.3g}"
    assert minimum_average_partial(np.eye(1)).note.endswith("correlation 0")  # there is no other number


def test_retention_ends_at_the_first_failure():
    values = [1.9, 1.5, 1.08, 1.07, 0.3, 0.15]  # the fourth exceeds its reference, the third does not
    rule = parallel_analysis(values, 100, simulations=500)
    assert list(rule.observed[:4] > rule.reference[:4]) == [True, True, False, True]
    assert rule.n_factors == 2


# minimum average partial


@pytest.mark.parametrize(
    ("r", "m", "values"),
    # psych 2.2.9, VSS()$map, which begins at one component
    [
        (HARMAN8, 2, [0.245120887855, 0.0664449590336, 0.127594379759, 0.204202701483, 0.271829458451, 0.43459126905]),
        (HARMAN24, 4, [0.0245381549469, 0.0216105380642, 0.0174872045894, 0.017379504638, 0.0208178059105]),
        (THURSTONE, 3, [0.0746616154135, 0.0670834122347, 0.0660852188955, 0.114324587767, 0.195256277076]),
    ],
)
def test_minimum_average_partial_agrees_with_psych(r, m, values):
    rule = minimum_average_partial(r)
    assert rule.n_factors == m
    np.testing.assert_allclose(rule.observed[1 : len(values) + 1], values, atol=1e-12)
    off_diagonal = r[~np.eye(len(r), dtype=bool)]
    np.testing.assert_allclose(rule.observed[[0, -1]], [np.mean(off_diagonal**2), 1], atol=1e-12)


def test_minimum_average_partial_of_equal_correlations():
    """Without their mean, p exchangeable variables correlate -1 / (p - 1)."""
    p, rho = 7, 0.4
    rule = minimum_average_partial(np.full((p, p), rho) + (1 - rho) * np.eye(p))
    np.testing.assert_allclose(rule.observed[:2], [rho**2, 1 / (p - 1) ** 2], rtol=1e-12)
    assert minimum_average_partial(np.full((p, p), 0.1) + 0.9 * np.eye(p)).n_factors == 0


def test_undefined_partial_correlations_take_no_part():
    lone = np.eye(9)
    lone[1:, 1:] = HARMAN8  # the third component is the lone variable
    order = np.array([3, 5, 8, 1, 0, 2, 7, 4, 6])
    lone = lone[np.ix_(order, order)]
    observed = minimum_average_partial(lone).observed
    np.testing.assert_allclose(observed[:3], minimum_average_partial(HARMAN8).observed[:3] * 56 / 72, rtol=1e-10)
    assert np.isnan(observed[3:]).all()
    deficient = minimum_average_partial(sample_correlation(6, 10, 0)).observed
    assert list(np.isfinite(deficient)) == [True] * 5 + [False] * 5
    assert deficient[4] == pytest.approx(1)


@given(seed=st.integers(0, 99), p=st.integers(2, 8))
def test_minimum_average_partial_is_its_definition(seed, p):
    r = sample_correlation(30, p, seed)
    values, vectors = np.linalg.eigh(r)
    rule = minimum_average_partial(r)
    for m in range(p - 1):
        leading = vectors[:, p - m :]
        left = r - (leading * values[p - m :]) @ leading.T
        partial = left / np.sqrt(np.outer(np.diag(left), np.diag(left)))
        expected = (np.sum(partial**2) - p) / (p * (p - 1))
        assert rule.observed[m] == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert rule.observed[rule.n_factors] == rule.observed.min()


# the bound, limit cases, plots, bad input


def test_ledermann_bound():
    assert [ledermann_bound(p) for p in (1, 2, 3, 4, 5, 6, 8, 9, 24)] == [0, 0, 1, 1, 2, 3, 4, 5, 17]
    for p in [*range(1, 200), 2048, 10**18, 10**18 + 1, 10**9 * (10**9 + 1) // 2]:
        m = ledermann_bound(p)
        assert (p - m) ** 2 >= p + m
        assert (p - m - 1) ** 2 < p + m + 1


def test_a_single_variable_and_two_rows():
    assert contribution_rule([1.0]).n_factors == 1
    assert [rule.n_factors for rule in (kaiser_rule([1.0]), parallel_analysis([1.0], 9))] == [0, 0]
    assert minimum_average_partial(np.eye(1)).n_factors == 0
    assert parallel_analysis([3 * (1 + 1e-15), 0, 0], 2).n_factors == 0  # two rows always correlate fully


def test_scree_plot_names_each_rule_and_groups_those_that_agree():
    import matplotlib.pyplot as plt

    values = eigenvalues(HARMAN8)
    rules = [contribution_rule(values), kaiser_rule(values), parallel_analysis(values, 305, quantile=0.9)]
    figure, (left, below) = plt.subplots(2)
    scree_plot(values, *rules, minimum_average_partial(HARMAN8), extracted=4, ax=left)
    shown = {line.get_label(): line.get_xydata() for line in left.get_lines()}
    np.testing.assert_allclose(shown["eigenvalue of the correlation matrix"][:, 1], values[::-1])
    np.testing.assert_allclose(shown["90% quantile for independent data"][:, 1], rules[2].reference)
    np.testing.assert_allclose(
        shown["2 factors: Kaiser rule,\nparallel analysis (of components),\nminimum average partial"], [[2, values[-2]]]
    )
    np.testing.assert_allclose(shown["3 factors: contribution rule"], [[3, values[-3]]])
    np.testing.assert_allclose(shown["1, the mean eigenvalue"][:, 1], 1)
    np.testing.assert_allclose(shown["4 factors extracted"][:, 0], 4.5)
    assert left.get_ylim()[0] == 0

    power_law = np.concatenate([2048 * 0.5 ** np.arange(1, 12), np.zeros(2037)])
    scree_plot(power_law, contribution_rule(power_law), kaiser_rule(np.ones(3)), ax=below)
    assert len(below.get_lines()[0].get_xdata()) == 16
    figure.draw_without_rendering()
    plt.close(figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contribution_rule([2.0, 0.0], 0.0), r"contribution must be a number in \(0, 1\], got 0.0"),
        (lambda: contribution_rule([-1.0, 0.0]), "eigenvalues must have a positive sum"),
        (lambda: kaiser_rule([]), r"eigenvalues must have shape \(variables,\) .* got shape \(0,\)"),
        (lambda: parallel_analysis(HARMAN8, 305), r"eigenvalues must have shape \(variables,\) .* got shape \(8, 8\)"),
        (lambda: kaiser_rule([1.0, np.nan]), "eigenvalues must be finite, but holds nan"),
        (lambda: parallel_analysis([2.0, 0.5], 9), "sum to p; got 2 with sum 2.5"),
        (lambda: parallel_analysis([1.5, 0.5], 1), "rows must be a whole number of at least 2"),
        (lambda: parallel_analysis([1.5, 0.5], 9.5), "rows must be a whole number"),
        (lambda: parallel_analysis([1.5, 0.5], np.nan), "rows must be a whole number"),
        (lambda: parallel_analysis([1.5, 0.5], 9, simulations=0), "simulations must be a whole number"),
        (lambda: parallel_analysis([1.5, 0.5], 9, quantile=95), r"quantile must be a number in \(0, 1\), got 95"),
        (lambda: parallel_analysis([1.5, 0.5], 9, seed=-1), "seed must be a non-negative integer"),
        (lambda: minimum_average_partial(np.ones((2, 3))), "R must be a square matrix"),
        (lambda: minimum_average_partial(np.array([[1, 0.5], [0.2, 1]])), "R must be symmetric"),
        (lambda: minimum_average_partial(4 * np.eye(2)), "ones on its diagonal"),
        (lambda: scree_plot([1.9], contribution_rule(np.ones(9))), "as many as there are factors, 8, got 1"),
        (lambda: scree_plot([1.5, 0.5], extracted=3), "as many as there are factors, 3, got 2"),
        (lambda: ledermann_bound(0), "p must be a whole number, at least 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# parallel analysis of factors


def reduced_by_hand(r):
    r = r.copy()
    np.fill_diagonal(r, 1 - 1 / np.diag(np.linalg.inv(r)))
    return np.linalg.eigvalsh(r)[::-1]


def test_reduced_eigenvalues_and_their_reference_by_brute_force():
    rule = factor_parallel_analysis(HARMAN8, 60, simulations=2000, quantile=0.5)
    np.testing.assert_allclose(rule.observed, reduced_by_hand(HARMAN8), atol=1e-12)
    brute = np.median([reduced_by_hand(sample_correlation(60, 8, seed)) for seed in range(2000)], axis=0)
    np.testing.assert_allclose(rule.reference, brute, atol=0.015)
    again, other = (factor_parallel_analysis(HARMAN8, 60, simulations=9, seed=s) for s in (0, 1))
    assert (again.reference != other.reference).all()
    assert str(again).startswith("parallel analysis (of factors): 2 factors (closest: eigenvalue 3, 0.070 against ")
    assert rule.note.startswith(
        f"closest: eigenvalue 3, {rule.observed[2]:.3f} against {rule.reference[2]:.3f}; 50% quantile of 2000 "
    )


def test_factors_that_correlate_are_found_where_components_miss_them():
    """Thurstone's nine tests have three factors that correlate by a half."""
    assert parallel_analysis(eigenvalues(THURSTONE), 213).n_factors == 1
    assert factor_parallel_analysis(THURSTONE, 213).n_factors == 3
    assert factor_parallel_analysis(sample_correlation(300, 15, 0), 300).n_factors < 4
    assert factor_parallel_analysis(np.eye(5), 100).n_factors == 0


@pytest.mark.parametrize(
    ("complete", "theirs"),
    [(True, [4.364138, 1.921594, 1.305203, 0.970727, 0.724643, 0.222698, 0.000958]), (False, [4.2606, 1.9128, 1.2649])],
)
def test_with_communalities_of_one_factor_it_keeps_what_psych_keeps(complete, theirs):
    """``fa.parallel(bfi[1:25])`` of psych 2.2.9: six factors, and ``fa.values``."""
    x = bfi().dropna() if complete else bfi()
    rule = factor_parallel_analysis(x.corr().to_numpy(), len(x), communalities="one factor")
    assert rule.n_factors == 6
    np.testing.assert_allclose(rule.observed[: len(theirs)], theirs, atol=2e-4)
    fit = PrincipalAxis(1).fit_correlation(x.corr().to_numpy())
    np.testing.assert_allclose(rule.observed, fit.reduced_eigenvalues_, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: factor_parallel_analysis(HARMAN8, 9), r"rows must be at least columns \+ 2 = 10, got 9"),
        (lambda: factor_parallel_analysis(HARMAN8, 50.5), "rows must be a whole number"),
        (
            lambda: factor_parallel_analysis(HARMAN8, 50, simulations=0),
            "simulations must be a whole number, at least 1",
        ),
        (lambda: factor_parallel_analysis(HARMAN8[:2], 50), "R must be a square matrix"),
    ],
)
def test_bad_input_of_the_analysis_of_factors_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
