"""Metrics are scikit-learn's, and influences their derivatives by a patient's weight, found numerically."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit, logit
from sklearn import metrics as sk

from fedstat.inference.predictions.metrics import METRICS

RNG = np.random.default_rng(0)
N = 60
Y = (RNG.random(N) < 0.3).astype(int)
P = np.round(expit(logit(0.3) + 2 * (Y - 0.3) + 1.5 * RNG.normal(size=(3, N))), 2).clip(0.01, 0.99)  # with ties
CLASS = RNG.integers(0, 3, N)
SHARES = RNG.dirichlet([1, 1, 1], (2, N)) * 0.6 + 0.4 * np.eye(3)[CLASS]
NUMBER = RNG.normal(size=N)
FITTED = NUMBER + RNG.normal(size=(2, N))


def recall(of):
    return lambda y, p, **more: sk.recall_score(y, p >= 0.4, pos_label=of, **more)


def at_most(name):
    return lambda y, p, **more: getattr(sk, name)(y, p >= 0.4, **more)


ORACLES = {
    "auc": (Y, P, sk.roc_auc_score),
    "brier": (Y, P, sk.brier_score_loss),
    "log_loss": (Y, P, sk.log_loss),
    "accuracy": (Y, P, at_most("accuracy_score")),
    "balanced_accuracy": (Y, P, at_most("balanced_accuracy_score")),
    "sensitivity": (Y, P, recall(1)),
    "specificity": (Y, P, recall(0)),
    "expected_over_observed": (
        Y, P, lambda y, p, sample_weight=1.0: (sample_weight * p).sum() / (sample_weight * y).sum()
    ),
    "mse": (NUMBER, FITTED, sk.mean_squared_error),
    "mae": (NUMBER, FITTED, sk.mean_absolute_error),
    "r2": (NUMBER, FITTED, sk.r2_score),
    "classes brier": (
        CLASS, SHARES, lambda y, p, **more: sk.brier_score_loss(y, p, labels=[0, 1, 2], scale_by_half=False, **more)
    ),
    "classes log_loss": (CLASS, SHARES, sk.log_loss),
    "classes accuracy": (CLASS, SHARES, lambda y, p, **more: sk.accuracy_score(y, p.argmax(axis=1), **more)),
    "classes balanced_accuracy": (
        CLASS, SHARES, lambda y, p, **more: sk.balanced_accuracy_score(y, p.argmax(axis=1), **more)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_metrics_and_influences_are_those_of_scikit_learn(name):
    y, p, oracle = ORACLES[name]
    value, influence = METRICS[name.split()[-1]].of(y, p, 0.4)
    step = 1e-5
    for one, of, own in zip(value, influence, p, strict=True):
        assert one == pytest.approx(oracle(y, own), rel=1e-12)
        for i in range(0, N, 4):
            weights = np.ones(N)
            weights[i] += step
            more = oracle(y, own, sample_weight=weights)
            weights[i] -= 2 * step
            assert of[i] == pytest.approx((more - oracle(y, own, sample_weight=weights)) / (2 * step), abs=1e-8)


def test_area_of_several_classes_is_scikit_learns():
    value, influence = METRICS["auc"].of(CLASS, SHARES, 0.5)
    assert value == pytest.approx([sk.roc_auc_score(CLASS, p, multi_class="ovr", average="macro") for p in SHARES])
    assert influence.sum(axis=1) == pytest.approx([0, 0], abs=1e-12)


def test_average_precision_is_scikit_learns_with_its_jackknife():
    value, influence = METRICS["average_precision"].of(Y, P, 0.5)
    for one, of, p in zip(value, influence, P, strict=True):
        assert one == pytest.approx(sk.average_precision_score(Y, p), rel=1e-12)
        for i in range(N):
            without = sk.average_precision_score(np.delete(Y, i), np.delete(p, i))
            assert of[i] == pytest.approx((one - without) * (N - 1) / N, abs=1e-12)


@pytest.mark.parametrize("name", ["calibration_slope", "calibration_intercept"])
def test_recalibration_is_statsmodels_with_one_step_deletion(name):
    value, influence = METRICS[name].of(Y, P, 0.5)
    for one, of, p in zip(value, influence, P, strict=True):
        ones, x = np.ones((N, 1)), logit(p)
        design, offset = (np.column_stack([ones, x]), None) if name == "calibration_slope" else (ones, x)
        fit = sm.GLM(Y, design, offset=offset, family=sm.families.Binomial()).fit(tol=1e-12, maxiter=100)
        assert one == pytest.approx(fit.params[-1], rel=1e-9)
        assert of == pytest.approx(fit.get_influence().d_params[:, -1], abs=1e-9)


def test_recalibration_without_a_fit_is_undefined():
    apart, flat, certain = Y * 0.5 + 0.2, np.full(N, 0.3), np.where(np.arange(N) == 3, 1.0, P[0])
    value, _ = METRICS["calibration_slope"].of(Y, np.stack([apart, 1 - apart, flat, certain, P[0]]), 0.5)
    assert np.isnan(value).tolist() == [True, True, True, True, False]
    value, _ = METRICS["calibration_intercept"].of(Y, np.stack([apart, flat, certain]), 0.5)
    assert np.isnan(value).tolist() == [False, False, True]


def test_concordance_counts_pairs_as_harrell_does():
    """Harrell, Lee and Mark (1996): usable if the shorter time ends in an event; ties of risk count half."""
    time, event = RNG.integers(1, 12, N).astype(float), RNG.integers(0, 2, N)
    risk = np.round(RNG.normal(size=(2, N)) - time / 6, 1)
    value, influence = METRICS["concordance"].of(np.column_stack([time, event]), risk, 0.5)

    def brute(r, w):
        agree = total = 0.0
        for i in range(N):
            for j in range(N):
                if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                    total += w[i] * w[j]
                    agree += w[i] * w[j] * ((r[i] > r[j]) + 0.5 * (r[i] == r[j]))
        return agree / total

    for one, of, r in zip(value, influence, risk, strict=True):
        assert one == pytest.approx(brute(r, np.ones(N)), rel=1e-12)
        for i in (0, 7, 20):
            up = np.where(np.arange(N) == i, 1 + 1e-5, 1.0)
            assert of[i] == pytest.approx((brute(r, up) - brute(r, 2 - up)) / 2e-5, abs=1e-8)
