"""Methods over several settings: Demsar's published example, statsmodels, enumeration and simulated coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from fedstat.inference import holm, ranks

# Demsar (2006), Table 6: AUC of C4.5 without and with two tuned parameters, on 14 data sets
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],  # printed as a tie, ranked as none
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def long(values, methods="ABCDEFG"):
    """A table of values (settings, seeds, methods)."""
    rows = [
        (f"data {i}", seed, methods[j], values[i][seed][j])
        for i, seed, j in itertools.product(*map(range, np.shape(values)))
    ]
    return pd.DataFrame(rows, columns=["setting", "seed", "method", "value"])


def test_demsars_example():
    result = ranks(DEMSAR)
    assert result.methods == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    np.testing.assert_allclose(result.mean_ranks, [1.964, 2.000, 2.893, 3.143], atol=5e-4)
    assert result.critical_difference == pytest.approx(1.25, abs=0.005)
    assert ranks(DEMSAR, level=0.9).critical_difference == pytest.approx(1.12, abs=0.005)
    # the paper does not correct for ties: its numbers are those of the uncorrected formula at our mean ranks
    n, k = DEMSAR.shape
    chi2 = 12 * n / (k * (k + 1)) * ((result.mean_ranks**2).sum() - k * (k + 1) ** 2 / 4)
    assert chi2 == pytest.approx(9.28, abs=0.005)
    assert (n - 1) * chi2 / (n * (k - 1) - chi2) == pytest.approx(3.69, abs=0.005)
    assert result.friedman > chi2
    assert result.friedman_p == pytest.approx(stats.friedmanchisquare(*DEMSAR.to_numpy().T).pvalue)
    # at 10% the paper finds C4.5+m+cf and C4.5+m better than C4.5 (by 1.179 and 1.143), and nothing at 5%
    assert ranks(DEMSAR).groups == (result.methods,)
    assert ranks(DEMSAR, level=0.9).groups == (result.methods[:3], result.methods[2:])


def test_nemenyis_p_values_are_those_of_scikit_posthocs():
    # posthoc_nemenyi_friedman of scikit-posthocs 0.17.1 on these numbers
    values = np.random.default_rng(0).normal(size=(14, 4)) + np.arange(4) * 0.4
    pairs = ranks(pd.DataFrame(values, columns=list("ABCD")), smaller=True).pairs
    printed = {"AB": 0.459525, "AC": 0.226697, "AD": 0.001442, "BC": 0.971686, "BD": 0.124350, "CD": 0.294509}
    for _, row in pairs.iterrows():
        name = "".join(sorted(row["method"] + row["against"]))
        assert row["p (Nemenyi)"] == pytest.approx(printed[name], abs=1e-6)


@settings(max_examples=10)  # each pays for a garbage collection in statsmodels
@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=2, max_size=9), st.booleans())
def test_ranks_against_brute_force(rows, smaller):
    table = pd.DataFrame(rows, columns=list("ABCD"), dtype=float)
    result = ranks(table, smaller=smaller)
    expected = {
        name: np.mean(
            [1 + sum((v < r[j]) if smaller else (v > r[j]) for v in r) + (r.count(r[j]) - 1) / 2 for r in rows]
        )
        for j, name in enumerate("ABCD")
    }
    np.testing.assert_allclose(result.mean_ranks, [expected[name] for name in result.methods])
    assert list(result.mean_ranks) == sorted(result.mean_ranks)
    assert 0 < result.p <= 1
    # groups: the maximal cliques among all subsets
    if result.p < 0.05:
        near = {
            subset
            for size in (2, 3, 4)
            for subset in itertools.combinations(result.methods, size)
            if max(expected[m] for m in subset) - min(expected[m] for m in subset) < result.critical_difference
        }
        largest = {s for s in near if not any(set(s) < set(other) for other in near)}
        assert set(result.groups) == largest
    else:
        assert result.groups == (result.methods,)


@pytest.mark.parametrize("n", [5, 9, 30])
def test_wilcoxon_is_scipys(n):
    values = np.random.default_rng(n).integers(0, 6, size=(n, 3)).astype(float)
    pairs = ranks(pd.DataFrame(values, columns=list("ABC"))).pairs
    theirs = [
        stats.wilcoxon(values[:, "ABC".index(a)], values[:, "ABC".index(b)]).pvalue
        for a, b in zip(pairs["method"], pairs["against"], strict=True)
    ]
    np.testing.assert_allclose(pairs["p (Wilcoxon, Holm)"], holm(theirs))


def test_iman_davenport_is_the_anova_of_ranks():
    tidy = DEMSAR.rank(axis=1).reset_index().melt(id_vars="index")
    anova = anova_lm(ols("value ~ C(index) + C(variable)", data=tidy).fit())
    result = ranks(DEMSAR)
    assert result.iman_davenport == pytest.approx(anova.loc["C(variable)", "F"])
    assert result.p == pytest.approx(anova.loc["C(variable)", "PR(>F)"])


def test_friedman_at_its_ends():
    same = ranks(pd.DataFrame(np.ones((5, 3)), columns=list("ABC")))
    assert (same.friedman, same.p, same.iman_davenport) == (0, 1, 0)
    assert (same.pairs["p (Wilcoxon, Holm)"] == 1).all()
    alike = ranks(pd.DataFrame(np.tile([1.0, 2.0, 3.0], (4, 1)), columns=list("ABC")))
    # by enumeration: all four settings rank alike
    orders = list(itertools.permutations(range(3)))
    exact = sum(len(set(choice)) == 1 for choice in itertools.product(orders, repeat=4)) / len(orders) ** 4
    assert alike.iman_davenport == np.inf
    assert alike.p == pytest.approx(exact)


def test_rounding_breaks_no_ties():
    """Three seeds whose means are equal but for rounding, as accuracies in hundredths are."""
    tied = ranks(long([[[0.1, 0.3, 0.2], [0.2, 0.2, 0.1], [0.3, 0.1, 0.3]]] * 8))
    assert tied.mean_ranks.tolist() == [2, 2, 2]
    assert (tied.p, tied.groups) == (1, (("A", "B", "C"),))
    # differences of one size: 0.3 - 0.2 and 0.2 - 0.1 are none
    rows = np.array(
        [[0.3, 0.2, 0.9], [0.1, 0.2, 0.9], [0.2, 0.1, 0.9], [0.4, 0.3, 0.9], [0.5, 0.5, 0.9], [0.7, 0.5, 0.9]]
    )
    whole = pd.DataFrame((100 * rows).round(), columns=list("ABC"))
    for column in ("p (Wilcoxon, Holm)", "p (Nemenyi)"):
        found = ranks(pd.DataFrame(rows, columns=list("ABC"))).pairs[column]
        np.testing.assert_array_equal(found, ranks(whole).pairs[column])


def test_a_table_with_seeds_is_averaged_first():
    values = np.random.default_rng(1).normal(size=(5, 3, 4))
    one = ranks(long(values))
    other = ranks(pd.DataFrame(values.mean(axis=1), columns=list("ABCD")))
    assert one.methods == other.methods
    assert one.p == other.p
    shuffled = long(values).sample(frac=1, random_state=0).astype({"method": "category", "setting": "category"})
    assert ranks(shuffled).p == pytest.approx(one.p)


GAPS = long(np.random.default_rng(2).normal(size=(5, 2, 3)), methods=["FedAvg", "Ditto", "Local"])
GAPS = GAPS[~((GAPS["method"] == "Local") & GAPS["setting"].isin(["data 1", "data 3"]))]


def test_a_method_that_is_missing_in_settings():
    with pytest.raises(ValueError, match=r"Local in data 1 \(seed 0\), .*data 3 \(seed 1\).*complete=True"):
        ranks(GAPS)
    assert "Left out 4 of 10 rows, which lack a method: Local in data 1" in str(ranks(GAPS, complete=True))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (DEMSAR.iloc[:, :2], "at least 3 methods and 2 settings, got 2 and 14"),
        (DEMSAR.iloc[:1], "got 4 and 1"),
        (DEMSAR.assign(setting="a"), r"columns \['setting'\] do not hold numbers"),
        (GAPS.drop(columns="setting"), "lacks the column 'setting'"),
        (pd.concat([GAPS, GAPS]), "several values at .*Average over clients"),
        (DEMSAR.iloc[[0, 0]], "the setting 0 occurs twice"),
        (DEMSAR * np.nan, "give complete=True for the 0 of 14 rows"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(ValueError, match=message):
        ranks(table)


def test_no_group_is_told_apart_where_friedman_finds_no_difference():
    rng = np.random.default_rng(67)
    values = rng.normal(size=(6, 8))
    values[:, 0] += 0.9
    values[:, 1] -= 0.9
    found = ranks(pd.DataFrame(values, columns=list("ABCDEFGH")))
    assert np.ptp(found.mean_ranks) > found.critical_difference
    assert found.p > 0.05
    assert found.groups == (found.methods,)


def test_wilcoxon_leaves_settings_without_a_difference_out():
    rng = np.random.default_rng(0)
    values = pd.DataFrame(rng.normal(size=(9, 3)), columns=list("ABC"))
    values["B"] = values["A"] + np.array([0, 0, 0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.7])
    values["C"] = values["A"] + 10
    found = ranks(values).pairs.set_index(["method", "against"])["p (Wilcoxon, Holm)"]
    exact = stats.wilcoxon([0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.7], method="exact").pvalue
    p = next(value for pair, value in found.items() if set(pair) == {"A", "B"})
    assert p == pytest.approx(exact)  # the largest of three by Holm
