"""The audit: valid limits for what is right, and accounting errors that it must contradict."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

import fedstat as fs
from fedstat.federated import attendance
from fedstat.federated.attendance import Dropout, Poisson
from fedstat.federated.mechanisms import Gaussian, clipped
from fedstat.privacy import auditing
from fedstat.privacy.auditing import _limit, _threshold

#: Clients and rounds of most audits.
FEW = {"clients": 6, "rounds": 3, "trials": 4000}


def claimed(clip=1.0, noise=4.0, **options):
    how = {name: FEW[name] for name in ("clients", "rounds")} | options
    return fs.privacy.spent(Gaussian(clip=clip, noise=noise), **how).epsilon


@dataclass(frozen=True)
class TwiceDivided(Gaussian):
    """The noise on the sum is divided by m, and with the mean once more."""

    def combine(self, changes, of, rng):
        total = clipped(changes, self.clip).sum(-2)
        return (total + self._drawn(total, rng) / of) / of


@dataclass(frozen=True)
class WithoutClip(Gaussian):
    """The standard deviation of the noise lacks its factor, the norm."""

    def _drawn(self, like, rng):
        return super()._drawn(like, rng) / self.clip


@dataclass(frozen=True)
class ByLeaf(Gaussian):
    """Each of four leaves is cut to the norm for itself."""

    def combine(self, changes, of, rng):
        total = torch.cat([clipped(part, self.clip) for part in changes.split(1, -1)], -1).sum(-2)
        return (total + self._drawn(total, rng)) / of


@dataclass(frozen=True)
class Uncut(Gaussian):
    """Nothing is cut."""

    def combine(self, changes, of, rng):
        total = changes.sum(-2)
        return (total + self._drawn(total, rng)) / of


@pytest.mark.parametrize(
    ("mutant", "clip", "noise"),
    [(TwiceDivided, 1.0, 4.0), (WithoutClip, 8.0, 4.0), (ByLeaf, 1.0, 1.2), (Uncut, 1.0, 4.0)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mechanism_with_an_error_is_contradicted_and_the_right_one_is_not(mutant, clip, noise):
    how = FEW | {"trials": 20_000, "rounds": 1} if mutant is ByLeaf else FEW
    epsilon = claimed(clip, noise, rounds=how["rounds"], delta=1e-2)
    assert fs.privacy.audit(mutant(clip, noise), delta=1e-2, **how).lower > epsilon
    for at in ("server", "client"):
        right = fs.privacy.audit(Gaussian(clip, noise, at=at), delta=1e-2, **how)
        assert 0 < right.lower < epsilon


@pytest.mark.slow
def test_the_account_of_one_added_client_is_contradicted_where_one_is_replaced():
    """By replacing a client the sum moves twice as far."""
    how = {"clients": 10, "rounds": 2, "participation": 0.9, "delta": 1e-2}
    mechanism = Gaussian(clip=1.0, noise=2.0)
    added = fs.privacy.spent(mechanism, **how | {"participation": 1.0}).epsilon
    found = fs.privacy.audit(mechanism, trials=20_000, **how)
    assert found.replaced
    assert added < found.lower < fs.privacy.spent(mechanism, **how).epsilon


@pytest.mark.slow
def test_the_same_participants_in_every_round_contradict_the_account_of_draws(monkeypatch):
    """One draw for the whole run: whoever is in it is in every round."""
    how = {"clients": 10, "rounds": 16, "participation": 0.1, "delta": 1e-3, "trials": 4000}
    mechanism = Gaussian(clip=1.0, noise=1.5)
    epsilon = claimed(noise=1.5, clients=10, rounds=16, participation=Poisson(0.1), delta=1e-3)
    assert fs.privacy.audit(mechanism, **how).lower < epsilon
    draw = auditing.participants
    monkeypatch.setattr(auditing, "participants", lambda seed, t, *rest: draw(seed, 0, *rest))
    assert fs.privacy.audit(mechanism, **how).lower > epsilon


def test_the_number_that_came_is_no_divisor(monkeypatch):
    """One client, who comes to half of the rounds: where it is removed, nobody comes, and nothing would be released."""
    how = {"clients": 1, "rounds": 2, "participation": Poisson(0.5), "delta": 1e-3}
    mechanism, epsilon = Gaussian(clip=1.0, noise=4.0), claimed(noise=4.0, **how)
    assert fs.privacy.audit(mechanism, trials=4000, **how).lower < epsilon
    monkeypatch.setattr(attendance, "expected_of", lambda participation, clients: None)
    assert fs.privacy.audit(mechanism, trials=4000, **how).lower > 3 * epsilon


def test_an_audit_under_poisson_sampling_of_everybody_is_that_of_all():
    one, all_ = (fs.privacy.audit(Gaussian(1.0, 2.0), **FEW | {"participation": p}) for p in (Poisson(1.0), 1.0))
    assert one == all_


@pytest.mark.slow
def test_poisson_sampling_has_the_account_that_neither_fixed_nor_all_participants_have():
    how = {"clients": 10, "rounds": 16, "delta": 1e-3}
    mechanism, epsilon = Gaussian(clip=1.0, noise=1.0), claimed(noise=1.0, participation=Poisson(0.1), **how)
    right = fs.privacy.audit(mechanism, participation=Poisson(0.1), trials=2000, **how)
    assert 0 < right.lower < epsilon
    assert not right.replaced
    assert fs.privacy.audit(mechanism, trials=2000, **how).lower > 1.5 * epsilon
    assert fs.privacy.audit(Uncut(1.0, 1.0), participation=Poisson(0.1), trials=500, **how).lower > epsilon


@pytest.mark.slow
def test_a_fixed_number_of_participants_contradicts_the_account_of_poisson_sampling():
    """Draws of 7 in 10 claimed as Poisson sampling with probability 0.7: the accounting error of this field."""
    how = {"clients": 10, "rounds": 8, "participation": 0.7, "delta": 0.03}
    mechanism = Gaussian(clip=1.0, noise=2.0)
    found = fs.privacy.audit(mechanism, trials=8000, **how)
    drawn = how | {"participation": Poisson(0.7)}
    epsilon = fs.privacy.spent(mechanism, **drawn).epsilon
    assert epsilon < found.lower < fs.privacy.spent(mechanism, **how).epsilon
    assert 0.5 * epsilon < fs.privacy.audit(mechanism, trials=8000, **drawn).lower < epsilon


def test_a_limit_is_that_of_clopper_and_pearson():
    alpha, delta = 0.05, 1e-3
    low = stats.binomtest(90, 100).proportion_ci(1 - alpha, "exact").low
    high = stats.binomtest(3, 100).proportion_ci(1 - alpha, "exact").high
    assert _limit(0.9, 0.03, 100, delta, alpha) == pytest.approx(math.log((low - delta) / high))
    assert _limit(0.5, 0.5, 100, delta, alpha) == _limit(0, 1, 100, delta, alpha) == 0


def test_the_threshold_is_the_best_on_either_side():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(1, 1, 200), rng.normal(0, 1, 200)
    best = 0
    for cut in np.concatenate([inside, outside]):
        for above in (True, False):
            shares = [float(np.mean((scores > cut) == above)) for scores in (inside, outside)]
            best = max(best, float(_limit(*shares, 200, 1e-5, 0.05)))
    cut, above = _threshold(inside, outside, 1e-5, 0.05)
    shares = [float(np.mean((scores > cut) == above)) for scores in (inside, outside)]
    assert float(_limit(*shares, 200, 1e-5, 0.05)) == pytest.approx(best)


@pytest.mark.slow
def test_limits_exceed_the_truth_no_more_often_than_they_may():
    """At 80% confidence, in 200 audits of a mechanism whose epsilon is exact; also where nothing is released."""
    epsilon = claimed(noise=2.0, rounds=1, delta=1e-2)
    how = {"clients": 3, "rounds": 1, "delta": 1e-2, "confidence": 0.8, "trials": 400}
    found = np.array([fs.privacy.audit(Gaussian(1.0, 2.0), seed=s, **how).lower for s in range(200)])
    assert stats.binomtest(int((found > epsilon).sum()), 200, 0.2, alternative="greater").pvalue > 1e-3
    nothing = [fs.privacy.audit(Gaussian(1.0, 1e6), seed=s, **how).lower for s in range(100)]
    assert stats.binomtest(int(np.sum(np.array(nothing) > 1e-3)), 100, 0.2, alternative="greater").pvalue > 1e-3


def test_an_audit_repeats_and_says_what_it_found():
    found = fs.privacy.audit(Gaussian(1.0, 2.0), **FEW)
    assert found == fs.privacy.audit(Gaussian(1.0, 2.0), **FEW)
    assert found != fs.privacy.audit(Gaussian(1.0, 2.0), seed=1, **FEW)
    assert str(found).startswith(f"epsilon is {found.lower:.3f} at least, at delta 1e-05 and 95% confidence: the test")
    assert not found.replaced
    assert found.trials == 2000
    with pytest.raises(ValueError, match="trials must be"):
        fs.privacy.audit(Gaussian(1.0, 2.0), clients=3, rounds=1, trials=2)
    with pytest.raises(ValueError, match=r"participation must be a number in \(0, 1\]"):
        fs.privacy.audit(Gaussian(1.0, 2.0), clients=3, rounds=1, participation=Dropout(1.0, 0.1))
