"""Diagnostics, rotations and the table of loadings against R's psych and GPArotation, and by their identities."""

import numpy as np
import pytest
from factor_analyzer import calculate_bartlett_sphericity, calculate_kmo
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedstat.factor import Moments, PrincipalAxis
from fedstat.factor.diagnostics import bartlett, explained_variance, kmo, root_mean_square_residual
from fedstat.factor.rotation import OBLIQUE, ORTHOGONAL, rotate
from fedstat.factor.table import loading_table
from tests.support.matrices import (
    HARMAN5,
    HARMAN8,
    HARMAN8_ROWS,
    HARMAN24,
    HARMAN24_ROWS,
    THURSTONE,
    THURSTONE_NAMES,
    THURSTONE_ROWS,
)

# fa(Thurstone, 3, fm="pa", rotate="none", min.err=1e-12, max.iter=1e5, SMC=TRUE)$loadings
LOADINGS = np.array(
    [
        [0.820634600828, -0.3787771270934, -0.0241854977382],
        [0.837635964399, -0.3505918360182, -0.1023230765307],
        [0.788853548199, -0.3342111981896, -0.0651377708271],
        [0.704946162541, 0.3704015689370, -0.3077630673160],
        [0.679087664869, 0.3576956031196, -0.2067271983100],
        [0.617767759654, 0.1743723599565, -0.2885032123083],
        [0.650719114619, 0.1999390604269, 0.5119261293596],
        [0.653817369947, -0.0605209576091, 0.2721393157767],
        [0.593124324137, 0.2796608675046, 0.3059423409925],
    ]
)


def equicorrelated(p, rho):
    return np.full((p, p), rho) + (1 - rho) * np.eye(p)


def communalities(loadings, correlations=None):
    phi = np.eye(loadings.shape[1]) if correlations is None else correlations
    return np.diag(loadings @ phi @ loadings.T)


# KMO(R)$MSA, range(KMO(R)$MSAi), cortest.bartlett(R, n)$chisq
@pytest.mark.parametrize(
    ("r", "rows", "overall", "low", "high", "chi_square"),
    [
        (THURSTONE, THURSTONE_ROWS, 0.880389572352, 0.854378793225, 0.925904763330, 1081.9682765673),
        (HARMAN8, HARMAN8_ROWS, 0.845460850661, 0.779614388422, 0.898468908664, 2085.7404778752),
        (HARMAN24, HARMAN24_ROWS, 0.88133350241, 0.779935027439, 0.933513702930, 1545.8618633309),
    ],
)
def test_sampling_adequacy_and_sphericity_are_those_of_psych(r, rows, overall, low, high, chi_square):
    found = kmo(r)
    assert found.overall == pytest.approx(overall, abs=1e-10)
    assert [found.variables.min(), found.variables.max()] == pytest.approx([low, high], abs=1e-10)
    assert bartlett(r, rows).statistic == pytest.approx(chi_square, abs=1e-8)


@given(st.integers(0, 999), st.integers(2, 6), st.integers(10, 40))
def test_and_those_of_factor_analyzer_where_it_has_the_rows(seed, p, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(n, p))
    moments = Moments.of(x)
    adequacy, test = kmo(moments.correlation()), bartlett(moments.correlation(), moments.rows)
    each, overall = calculate_kmo(x / x.std(axis=0) * 9)  # in small units it would turn to a pseudo-inverse
    np.testing.assert_allclose(adequacy.variables, each, atol=1e-9)
    assert adequacy.overall == pytest.approx(overall, abs=1e-9)
    assert (test.statistic, test.p) == pytest.approx(calculate_bartlett_sphericity(x), rel=1e-8, abs=1e-10)


def test_many_variables_whose_determinant_is_below_the_smallest_number():
    p, rho, rows = 700, 0.9, 1000
    r = equicorrelated(p, rho)
    assert np.linalg.det(r) == 0
    log_determinant = (p - 1) * np.log(1 - rho) + np.log(1 + (p - 1) * rho)
    expected = -(rows - 1 - (2 * p + 5) / 6) * log_determinant
    assert bartlett(r, rows).statistic == pytest.approx(expected, rel=1e-12)
    partial = rho / (1 + (p - 2) * rho)
    np.testing.assert_allclose(kmo(r).variables, rho**2 / (rho**2 + partial**2), rtol=1e-9)


def test_variables_without_correlations():
    lonely = np.eye(4)
    lonely[:2, :2] = equicorrelated(2, 0.5)
    found = kmo(lonely)
    np.testing.assert_allclose(found.variables, [0.5, 0.5, np.nan, np.nan])
    assert found.overall == pytest.approx(0.5)
    assert str(found) == "Kaiser-Meyer-Olkin measure 0.500 (single variables 0.500 to 0.500)"
    assert np.isnan(kmo(np.eye(3)).overall)
    assert "nan" in str(kmo(np.eye(3)))
    none = bartlett(np.eye(3), 10)
    assert (none.statistic, none.degrees_of_freedom, none.p) == (0, 3, 1)
    assert str(none).endswith("chi square 0.00 with 3 degrees of freedom, p-value 1.000")


def test_correlations_that_neither_can_judge():
    twins = np.eye(3)
    twins[0, 2] = twins[2, 0] = 1
    with pytest.raises(ValueError, match=r"variable [02] is a combination"):
        kmo(twins)
    with pytest.raises(ValueError, match=r"variable [02] is a combination"):
        bartlett(twins, 10)
    with pytest.raises(ValueError, match="at least two variables"):
        kmo(np.eye(1))
    with pytest.raises(ValueError, match="at least two variables"):
        bartlett(np.eye(1), 10)
    with pytest.raises(ValueError, match="rows must exceed the 9 variables, got 9"):
        bartlett(THURSTONE, 9)
    with pytest.raises(ValueError, match="finite"):
        kmo(np.full((2, 2), np.nan))


# fa(R, m, fm="pa", ...)$rms
@pytest.mark.parametrize(
    ("r", "m", "rms"), [(THURSTONE, 3, 0.00584143585759), (HARMAN8, 2, 0.0207484089616), (HARMAN24, 4, 0.0408200843782)]
)
def test_root_mean_square_residual_is_that_of_psych_and_stays_under_rotation(r, m, rms):
    loadings = PrincipalAxis(m).fit_correlation(r).loadings_
    assert root_mean_square_residual(r, loadings) == pytest.approx(rms, abs=1e-9)
    oblique = rotate(loadings, "oblimin")
    assert root_mean_square_residual(r, oblique) == pytest.approx(rms, abs=1e-9)


def test_explained_variance_is_that_of_psych():
    # fa(Thurstone, 3, fm="pa", rotate=...)$Vaccounted for "none" and "oblimin"
    none = explained_variance(LOADINGS)
    assert list(none.index) == [
        "SS loadings",
        "Proportion Var",
        "Cumulative Var",
        "Proportion Explained",
        "Cumulative Proportion",
    ]
    expected = [
        [4.5398202142, 0.79548167417, 0.66571510824],
        [0.5044244682, 0.08838685269, 0.07396834536],
        [0.5044244682, 0.59281132093, 0.66677966629],
        [0.7565084746, 0.13255781055, 0.11093371484],
        [0.7565084746, 0.88906628516, 1.0],
    ]
    np.testing.assert_allclose(none, expected, atol=1e-9)
    oblique = explained_variance(rotate(LOADINGS, "oblimin"))
    np.testing.assert_allclose(oblique.loc["SS loadings"], [2.6473707656, 1.8665687916, 1.4870774394], atol=2e-5)
    np.testing.assert_array_equal(explained_variance(np.zeros((3, 2))), 0)


# rows of Pedigrees and Letter.Group, and the factors' correlations (12, 13, 23), by varimax(LOADINGS, eps=1e-15), by
# GPArotation's quartimax, cfT(kappa=3/18), geominT, oblimin, quartimin and geominQ(eps=1e-7), and by psych's
# kaiser(rotate="Promax") with that varimax inside
@pytest.mark.parametrize(
    ("method", "pedigrees", "letter_group", "correlations"),
    [
        ("varimax", [0.451381, 0.167435, 0.522896], [0.156404, 0.313777, 0.633], None),
        ("quartimax", [0.586843, 0.050692, 0.397801], [0.372002, 0.27126, 0.558247], None),
        ("equamax", [0.455728, 0.160346, 0.521345], [0.165606, 0.318169, 0.628451], None),
        ("geomin_ort", [0.520925, 0.308689, 0.372221], [0.5561, -0.024768, 0.462328], None),
        ("promax", [0.362668, -0.074136, 0.482033], [-0.096778, 0.172929, 0.670643], [0.602281, 0.597703, 0.570473]),
        ("oblimin", [0.38212, -0.050104, 0.46311], [-0.059731, 0.212351, 0.626739], [0.592625, 0.533447, 0.515137]),
        ("quartimin", [0.38212, -0.050104, 0.46311], [-0.059731, 0.212351, 0.626739], [0.592625, 0.533447, 0.515137]),
        (
            "geomin_obl",
            [0.396338, -0.030175, 0.448274],
            [-0.032358, 0.230093, 0.608843],
            [0.572687, 0.484536, 0.451659],
        ),
    ],
)
def test_rotations_are_those_of_r(method, pedigrees, letter_group, correlations):
    found = rotate(LOADINGS, method)
    np.testing.assert_allclose(found.loadings[7:], [pedigrees, letter_group], atol=3e-6)
    if correlations is None:
        assert found.correlations is None
    else:
        np.testing.assert_allclose(found.correlations[np.triu_indices(3, 1)], correlations, atol=3e-6)


@pytest.mark.parametrize("method", ORTHOGONAL + OBLIQUE)
def test_the_factors_order_and_signs_before_rotation_change_nothing(method):
    shuffled = (LOADINGS * [-1, 1, -1])[:, [2, 0, 1]]
    found, plain = rotate(shuffled, method), rotate(LOADINGS, method)
    np.testing.assert_allclose(found.loadings, plain.loadings, atol=3e-6)
    np.testing.assert_allclose(found.loadings, shuffled @ found.rotation, atol=1e-12)
    if method in OBLIQUE:
        np.testing.assert_allclose(found.correlations, plain.correlations, atol=3e-6)


@pytest.mark.parametrize("method", OBLIQUE)
def test_oblique_factors_are_ordered_by_the_variance_that_they_explain(method):
    """Which counts what they share with others: by the squares of the loadings alone the order would be another."""
    loadings = np.array([[4, 9, 9], [9, 9, 8], [2, -9, -6], [7, -9, 8], [-8, -9, 0], [-3, 5, -6]]) / 10
    found = rotate(loadings, method)
    assert (np.diff(np.diag(found.correlations @ found.loadings.T @ found.loadings)) < 0).all()
    assert (np.diff((found.loadings**2).sum(axis=0)) > 0).any()


_loadings = st.tuples(st.integers(1, 8), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-9, 9).map(lambda i: i / 10))
)


@pytest.mark.slow
@given(_loadings, st.sampled_from(ORTHOGONAL + OBLIQUE))
def test_identities_of_a_rotation(loadings, method):
    """Also with zero rows, zero columns, and more factors than variables, which have no oblique rotation."""
    kept = loadings[:, loadings.any(axis=0)]
    if method in OBLIQUE and kept.shape[1] > 1 and np.linalg.matrix_rank(kept) < kept.shape[1]:
        with pytest.raises(ValueError, match="independent factors"):
            rotate(loadings, method)
        return
    found = rotate(loadings, method)
    t, phi = found.rotation, np.eye(loadings.shape[1])
    np.testing.assert_allclose(found.loadings, loadings @ t, atol=1e-12)
    if method in OBLIQUE:
        phi = found.correlations
        np.testing.assert_allclose(np.diag(phi), 1, atol=1e-9)
        assert np.linalg.eigvalsh(phi)[0] > 0
    np.testing.assert_allclose(t @ phi @ t.T, np.eye(len(t)), atol=1e-6)
    np.testing.assert_allclose(communalities(found.loadings, phi), communalities(loadings), atol=1e-6)
    assert (found.loadings.sum(axis=0) > -1e-12).all()
    explained = explained_variance(found).loc["SS loadings"]
    assert (np.diff(explained) < 1e-6).all()


@given(st.integers(0, 999))
def test_varimax_finds_the_same_axes_whatever_the_ones_it_starts_from(seed):
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    np.testing.assert_allclose(rotate(LOADINGS @ q).loadings, rotate(LOADINGS).loadings, atol=1e-6)


@pytest.mark.parametrize("method", ORTHOGONAL + OBLIQUE)
def test_dead_units_and_empty_factors_change_nothing(method):
    padded = np.zeros((12, 5))
    padded[np.ix_(range(9), [0, 2, 3])] = LOADINGS
    found, without = rotate(padded, method), rotate(LOADINGS, method)
    np.testing.assert_allclose(found.loadings[:9, :3], without.loadings, atol=1e-12)
    assert not found.loadings[9:].any()
    assert not found.loadings[:, 3:].any()


def test_a_single_factor_stays_as_it_is():
    found = rotate(-LOADINGS[:, :1], "promax")
    np.testing.assert_array_equal(found.loadings, LOADINGS[:, :1])
    np.testing.assert_array_equal(found.rotation, [[-1]])
    np.testing.assert_array_equal(found.correlations, [[1]])


def test_the_table_is_that_of_psych():
    # print(fa.sort(fa(Thurstone, 3, fm="pa", rotate="oblimin", ...)))
    printed = """
                        PA1   PA2   PA3   h2   u2 com
    Sentences          0.90 -0.03  0.04 0.82 0.18 1.0
    Vocabulary         0.89  0.06 -0.03 0.84 0.16 1.0
    Sent.Completion    0.84  0.03  0.00 0.74 0.26 1.0
    First.Letters      0.00  0.85  0.00 0.73 0.27 1.0
    Four.Letter.Words -0.02  0.75  0.10 0.63 0.37 1.0
    Suffixes           0.18  0.63 -0.08 0.50 0.50 1.2
    Letter.Series      0.03 -0.01  0.84 0.73 0.27 1.0
    Letter.Group      -0.06  0.21  0.63 0.52 0.48 1.2
    Pedigrees          0.38 -0.05  0.46 0.51 0.49 2.0
                           PA1  PA2  PA3
    SS loadings           2.65 1.87 1.49
    Proportion Var        0.29 0.21 0.17
    Cumulative Var        0.29 0.50 0.67
    Proportion Explained  0.44 0.31 0.25
    Cumulative Proportion 0.44 0.75 1.00
    Correlations of the factors
         PA1  PA2  PA3
    PA1 1.00 0.59 0.53
    PA2 0.59 1.00 0.52
    PA3 0.53 0.52 1.00
    Mean item complexity 1.2
    """
    shuffled = np.random.default_rng(0).permutation(9)
    names = [THURSTONE_NAMES[i] for i in shuffled]
    found = loading_table(rotate(LOADINGS[shuffled], "oblimin"), names)
    assert found.split() == printed.split()
    block = found.split("\n\n")[0].splitlines()
    assert len({len(line) for line in block}) == 1
    assert all(line.startswith(name) for line, name in zip(block[1:4], THURSTONE_NAMES, strict=False))


def _names(table):
    return [line.split()[0] for line in table.split("\n\n")[0].splitlines()[1:] if not line.startswith("(")]


def test_order_and_length_of_the_table():
    loadings = np.array([[0.1, 0.7], [0.3, 0.2], [0, 0], [-0.9, 0.1], [0.2, -0.8], [0.1, 0.3]])
    assert _names(loading_table(loadings)) == ["V4", "V2", "V5", "V1", "V6", "V3"]
    assert _names(loading_table(loadings, sort=False)) == ["V1", "V2", "V3", "V4", "V5", "V6"]
    short = loading_table(loadings, per_factor=1)
    assert _names(short) == ["V4", "V5", "V3"]
    assert "(3 of 6 variables left out; at most 1 of each factor are shown)" in short
    assert _names(loading_table(loadings, per_factor=1, sort=False)) == ["V3", "V4", "V5"]
    # what stands below is that of all variables
    assert short.split("\n\n")[1:] == loading_table(loadings).split("\n\n")[1:]
    assert loading_table(loadings, sort=False).splitlines()[3].split() == ["V3", "0.00", "0.00", "0.00", "1.00"]


def test_heywood_cases_are_marked_and_only_they():
    fit = PrincipalAxis(2).fit_correlation(HARMAN5)
    table = loading_table(fit.loadings_, ["population", "schooling", "employment", "services", "house"])
    marked = [line.split()[0] for line in table.splitlines() if "*" in line]
    assert marked == ["population", "*"]
    assert "Heywood case (1 of 5 variables)" in table
    held = loading_table(PrincipalAxis(1).fit_correlation(HARMAN5).loadings_, communalities=[0.2, 1, 0.5, 0, 0])
    assert [line.split()[-3:-1] for line in held.splitlines() if "V2" in line] == [["1.00*", "0.00"]]
    assert "*" not in loading_table(LOADINGS)


def test_communalities_held_at_1_say_that_their_rows_do_not_add_up():
    block = np.array([[1, 0.8, 0.8], [0.8, 1, 0.4], [0.8, 0.4, 1]])  # one factor would explain 160% of the first
    fit = PrincipalAxis(2).fit_correlation(np.kron(np.eye(2), block))
    reproduced = float((fit.loadings_[0] ** 2).sum())
    assert reproduced > 1.01
    for printed in (fit.loadings_, rotate(fit.loadings_), rotate(fit.loadings_, "oblimin")):
        held = loading_table(printed, communalities=fit.communalities_)
        assert f"h2 is held at 1 there; the loadings alone make it up to {reproduced:.2f}" in held
        assert "held at 1" not in loading_table(printed)  # there h2 is what the loadings make it


def test_an_orthogonal_rotation_prints_as_its_loadings_do():
    rotation = rotate(LOADINGS)
    assert loading_table(rotation) == loading_table(rotation.loadings)


def test_a_single_factor_has_nothing_to_accumulate():
    table = loading_table(LOADINGS[:, :1])
    assert "Proportion Var" in table
    assert "Cumulative" not in table


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rotate(LOADINGS, "oblimax"), 'method must be one of "varimax", .*, got .oblimax'),
        (lambda: rotate(LOADINGS[0]), r"loadings must have shape \(variables, factors\) .* got shape \(3,\)"),
        (lambda: loading_table(np.zeros((3, 0))), "loadings must have shape"),
        (lambda: explained_variance(np.array([[0.1], [np.nan]])), r"holds nan at \[1, 0\]"),
        (lambda: loading_table(LOADINGS, ["a"]), "one name for each of the 9 variables, got 1"),
        (lambda: loading_table(LOADINGS, per_factor=0), "per_factor must be a whole number, at least 1, got 0"),
        (lambda: root_mean_square_residual(THURSTONE, LOADINGS[:8]), "got 8 and 9; columns that do not vary"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
