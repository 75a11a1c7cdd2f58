"""Better, equivalent or worse: against draws from the posterior, the t test's limit, and the interval."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedstat.inference import Design, compare


def table(runs, metric="accuracy"):
    rows = [(label, seed, 0, value) for label, values in runs.items() for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["method", "seed", "client", metric])


def two(seeds=6, key=0):
    rng = np.random.default_rng(key)
    base = 0.6 + rng.normal(0, 0.02, seeds)
    return {"FedAvg": base, "B": base + 0.004 + rng.normal(0, 0.01, seeds)}


@pytest.mark.parametrize("ratio", [0.0, 0.25])
def test_they_are_those_of_draws_from_the_posterior(ratio):
    """Correlated values have the variance (1 / n + ratio) sigma^2 of their mean (Benavoli et al. 2017, section 3)."""
    runs = two()
    d = runs["B"] - runs["FedAvg"]
    how = {"data": "resplit", "test_to_train": ratio} if ratio else {"data": "drawn"}
    found = compare(table(runs), margin=0.005, design=Design(clients="new", **how)).probabilities().loc["B − FedAvg"]
    rng, draws = np.random.default_rng(1), 400_000
    sigma = np.sqrt(5 * d.var(ddof=1) / rng.chisquare(5, draws))
    true = d.mean() + np.sqrt(1 / 6 + ratio) * sigma * rng.normal(size=draws)
    shares = [(true > 0.005).mean(), (np.abs(true) <= 0.005).mean(), (true < -0.005).mean()]
    np.testing.assert_allclose(found[["better", "equivalent", "worse"]], shares, atol=0.004)


@given(st.integers(0, 10_000), st.integers(3, 9))
def test_as_the_margin_goes_to_zero_they_are_the_t_test(key, seeds):
    found = compare(table(two(seeds, key)), margin=1e-9)
    larger = found.probabilities()[["better", "worse"]].max(axis=1)
    np.testing.assert_allclose(larger, 1 - found.differences["p (t)"].astype(float) / 2, atol=1e-5)
    assert found.probabilities().sum(axis=1).to_numpy() == pytest.approx(1)


def test_the_limits_of_one_pair_hold_as_much_of_the_posterior_as_their_level_says():
    found = compare(table(two()))
    low, high = found.differences.iloc[0][["low", "high"]]
    centred = {"FedAvg": two()["FedAvg"], "B": two()["B"] - (low + high) / 2}
    around = compare(table(centred), margin=(high - low) / 2).probabilities()
    assert around["equivalent"].iloc[0] == pytest.approx(0.95)


def test_moderated_pairs_have_the_variance_of_their_intervals():
    rng = np.random.default_rng(0)
    runs = {label: 0.6 + rng.normal(0, 0.01, 5) for label in ("FedAvg", *"ABCDEFGHI")}
    found = compare(table(runs), margin=1e-9, simultaneous=False)
    assert (found.differences["df"] > 4).any()
    larger = found.probabilities()[["better", "worse"]].max(axis=1)
    difference, se, df = (found.differences[name].astype(float) for name in ("difference", "se", "df"))
    np.testing.assert_allclose(larger, stats.t.cdf(difference.abs() / se, df), atol=1e-5)
    assert (found.differences["p (t)"] >= 2 - 2 * larger - 1e-5).all()  # pays for the choice of the variance


def test_losses_turn_around_and_other_metrics_have_no_better_side():
    runs = two()
    gains, losses = (compare(table(runs, metric), margin=0.002) for metric in ("accuracy", "log_loss"))
    np.testing.assert_allclose(gains.probabilities()["better"], losses.probabilities()["worse"])
    odd = compare(table(runs, "value").assign(metric="depth"), margin=0.002).probabilities()
    assert list(odd) == ["above", "equivalent", "below"]
    same = compare(table(runs | {"C": runs["FedAvg"] + 0.1}), margin=0.002).probabilities()
    assert same.loc["C − FedAvg"].isna().all()
    with pytest.raises(ValueError, match="probabilities need a margin"):
        compare(table(runs)).probabilities()
    one = compare(table({label: values[:1] for label, values in runs.items()}), margin=0.002)
    assert one.probabilities().empty
