"""The account of differential privacy: closed forms, what it rests on, what it refuses, and where it is printed."""

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld
from scipy import optimize, special, stats

import fedstat as fs
from fedstat import _account
from fedstat.federated.attendance import Dropout, Poisson, Stragglers, Trace
from fedstat.federated.mechanisms import Gaussian
from fedstat.report.runs import report_runs
from tests.support.clients import vector_clients
from tests.support.runs import run

MODEL = fs.models.mlp(3, 5, 2)


def spent(noise=2.0, clients=40, rounds=10, participation=1.0, delta=1e-5, **options):
    return fs.privacy.spent(
        Gaussian(clip=1.0, noise=noise, **options),
        clients=clients, rounds=rounds, participation=participation, delta=delta,
    )  # fmt: skip


def delta_of(epsilon, mu):
    """The delta of mu-Gaussian privacy (Dong, Roth and Su 2022, Corollary 1; Balle and Wang 2018, Theorem 8)."""
    upper = mpmath.ncdf(-epsilon / mu + mu / 2)
    return upper - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("rounds", [1, 10, 200])
@pytest.mark.parametrize("noise", [0.7, 2.0, 30.0])
def test_rounds_of_all_clients_are_one_gaussian_by_its_closed_form(noise, rounds):
    mu = math.sqrt(rounds) / noise
    found = spent(noise, rounds=rounds)
    with mpmath.workdps(60):
        due = optimize.brentq(lambda e: float(mpmath.log(delta_of(e, mu)) - math.log(1e-5)), 1e-6, mu * mu / 2 + 8 * mu)
    assert found.epsilon == pytest.approx(due, rel=1e-6)
    assert found.relation == "the change of one client put to zero"
    assert found.sampling == f"all 40 clients in {'one round' if rounds == 1 else f'each of {rounds} rounds'}"
    assert math.isinf(found.epsilon_server)


def test_a_server_that_sees_messages_sees_each_share_of_the_noise():
    """Where clients add noise, one message has the m-th part of its variance, and no draw hides who sent it."""
    for participation, m, twice in ((1.0, 40, 1), (0.25, 10, 2)):
        found = spent(6.0, at="client", participation=participation)
        assert found.epsilon_server == pytest.approx(spent(6.0 / twice / m**0.5).epsilon)
        assert found.epsilon == spent(6.0, participation=participation).epsilon < found.epsilon_server


def bound_by_loops(q, sigma, alpha):
    """Wang, Balle and Kasiviswanathan 2019, Theorem 9, of a Gaussian mechanism, term by term."""
    total = mpmath.mpf(1)
    for j in range(2, alpha + 1):
        each = 2 * mpmath.exp((j - 1) * j / (2 * sigma**2))
        if j == 2:
            each = min(4 * (mpmath.exp(1 / sigma**2) - 1), each)
        total += mpmath.mpf(q) ** j * mpmath.binomial(alpha, j) * each
    return float(mpmath.log(total) / (alpha - 1))


def test_a_fixed_number_of_participants_has_twice_the_sensitivity():
    """The account lies within the plain bound for deviation noise / 2 per replaced client, and not far off."""
    found, delta = spent(6.0, clients=100, rounds=50, participation=0.1), 1e-5
    assert found.relation == "the data of one client replaced"
    assert found.sampling == "10 of 100 clients, without replacement, in each of 50 rounds"

    def epsilon(sigma):  # conversion of Canonne, Kamath and Steinke 2020, Proposition 12
        return min(
            50 * bound_by_loops(0.1, sigma, a) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
            for a in range(2, 65)
        )

    assert 0.7 * epsilon(3.0) < found.epsilon <= epsilon(3.0) * (1 + 1e-9)
    too_little = spent(12.0, clients=100, rounds=50, participation=0.1).epsilon
    assert too_little < 0.7 * epsilon(3.0), "the multiplier of one added client is told apart"


def lost(noise, q, rounds, delta, outside):
    """Epsilon by the distribution of log ratios of (1 - q) N(0) + q N(1) to (1 - q) N(0) + q N(`outside`), composed."""
    x, n = np.linspace(-12 * noise, 12 * noise, 200_001), 2**20
    inside, other = (
        sum(w * stats.norm.pdf(x, m, noise) for w, m in ((1 - q, 0), (q, shift))) for shift in (1, outside)
    )
    ratio, mass = np.log(inside / other), inside * (x[1] - x[0])
    width = 2 * (rounds**0.5 * 14 * np.sqrt(mass @ ratio**2) + rounds * abs(mass @ ratio) + np.abs(ratio).max()) / n
    place = np.floor(ratio / width).astype(int)
    each = sum(np.bincount((place + k) % n, mass * abs(1 - k - (ratio / width - place)), n) for k in (0, 1))
    all_rounds = np.fft.irfft(np.fft.rfft(each) ** rounds, n)
    total = np.fft.fftfreq(n, 1 / n) * width
    return optimize.brentq(lambda e: all_rounds @ -np.expm1(np.minimum(e - total, 0)) - delta, 0, total.max())


@pytest.mark.parametrize(
    ("noise", "fixed", "poisson"), [(1.0, 7.2, 5.1), (2.0, 3.0, 1.7), (4.0, 1.4, 0.7), (8.0, 0.6, 0.3)]
)
def test_the_page_says_what_is_lost_at_least_and_bounds_lie_above(noise, fixed, poisson):
    how = {"noise": noise, "clients": 100, "rounds": 50}
    for participation, outside, due in ((0.1, -1, fixed), (Poisson(0.1), 0, poisson)):
        found = lost(noise, 0.1, 50, 1e-5, outside)
        assert found == pytest.approx(due, abs=0.06)
        assert found < spent(participation=participation, **how).epsilon
    assert f"{fixed}" in (page := Path("docs/differential-privacy.md").read_text())
    assert f"{poisson}" in page


def test_drawing_participants_never_costs_more_than_all_rounds():
    """Where the bound for draws is worse than none, as with little noise, that of a client in every round stands."""
    for noise in (0.3, 1.0, 5.0):
        for participation in (0.1, 0.5, 0.9):
            found = spent(noise, clients=100, rounds=300, participation=participation)
            assert found.epsilon <= spent(noise / 2, rounds=300).epsilon
    assert "as if drawn in every round" in spent(0.3, clients=100, rounds=300, participation=0.9).accountant
    assert spent(5.0, clients=100, participation=0.1).accountant.endswith("Rényi")


@pytest.mark.parametrize("participation", [1.0, 0.25, Poisson(0.25)])
def test_epsilon_grows_with_rounds_and_falls_with_noise_and_delta(participation):
    def epsilons(name, values):
        return [spent(**{name: v}, participation=participation).epsilon for v in values]

    assert (np.diff(epsilons("rounds", [0, 1, 5, 50, 500])) > 0).all()
    assert (np.diff(epsilons("noise", [0.5, 1.0, 4.0, 16.0])) < 0).all()
    assert (np.diff(epsilons("delta", [1e-8, 1e-5, 1e-2])) < 0).all()
    assert epsilons("rounds", [0]) == [0]
    assert epsilons("noise", [0]) == [math.inf]


def test_the_default_delta_is_below_one_over_the_clients():
    assert spent(delta=None).delta == 1e-5
    assert spent(delta=None, clients=10**6).delta == pytest.approx(10**-6.6)


def renyi(q, sigma, a):
    """The larger Rényi divergence of order a between a mixture of two normals and one of them, by quadrature."""
    x, step = np.linspace(-12 * sigma, a + 12 * sigma, 20_001, retstep=True)
    normal = stats.norm(scale=sigma).logpdf(x)
    mixture = np.logaddexp(math.log1p(-q) + normal, math.log(q) + stats.norm(1, sigma).logpdf(x))
    moments = [a * p + (1 - a) * r for p, r in ((mixture, normal), (normal, mixture))]
    return max(special.logsumexp(moment) + math.log(step) for moment in moments) / (a - 1)


@pytest.mark.parametrize(("q", "noise", "rounds"), [(0.1, 2.0, 50), (0.5, 4.0, 20), (0.02, 1.0, 300)])
def test_poisson_sampling_is_that_of_integrated_divergences(q, noise, rounds):
    found = spent(noise, clients=100, rounds=rounds, participation=Poisson(q))
    assert found.relation == "one client added or removed"
    assert (
        found.sampling == f"each of 100 clients with probability {q}, by Poisson sampling, in each of {rounds} rounds"
    )

    def epsilon(a):  # conversion of Canonne, Kamath and Steinke 2020, Proposition 12
        return rounds * renyi(q, noise, a) + math.log1p(-1 / a) - (math.log(1e-5) + math.log(a)) / (a - 1)

    every = {a: epsilon(a) for a in range(2, 25)}
    best = min(every, key=every.get)
    assert 2 < best < 24
    assert found.epsilon == pytest.approx(every[best], rel=1e-6)
    exact = pld.PLDAccountant().compose(PoissonSampledDpEvent(q, GaussianDpEvent(noise)), rounds).get_epsilon(1e-5)
    assert 0.8 * found.epsilon < exact < found.epsilon, "a bound, and not far from numerical composition"


@pytest.mark.parametrize("noise", [0.5, 2.0, 10.0])
def test_poisson_sampling_costs_more_the_more_come_and_ends_at_everybody(noise):
    shares = (0.001, 0.01, 0.1, 0.3, 0.6, 0.9, 0.999, 1.0)
    found = [spent(noise, clients=100, rounds=20, participation=Poisson(q)) for q in shares]
    assert (np.diff([one.epsilon for one in found]) >= 0).all()
    assert found[0].epsilon < found[2].epsilon < found[-1].epsilon
    assert found[-1] == spent(noise, clients=100, rounds=20)
    fixed = spent(noise, clients=100, rounds=20, participation=0.1)
    assert found[2].epsilon < fixed.epsilon


def test_who_drops_out_or_is_slow_does_not_change_the_account():
    for base in (Poisson(0.1), 0.25, 1.0):
        due = spent(participation=base)
        assert spent(participation=Stragglers(base, 0.5, (0.1, 0.5))) == due
        for lossy in (Dropout(base, 0.3), Stragglers(Dropout(base, 0.3), 0.5, (0.1, 0.5))):
            words = f"{due.sampling}, some of whom drop out whatever their data"
            assert spent(participation=lossy) == replace(due, sampling=words)


def by_turns(round, clients, rng, fixed):
    return np.where(np.arange(clients) % 2 == round % 2, 1.0, np.nan)


class Seldom(Poisson):
    """A law of one's own by inheritance."""


@dataclass(frozen=True)
class Louder(Gaussian):
    """A mechanism of one's own."""


def test_only_what_is_known_has_an_account():
    with pytest.raises(ValueError, match="no account for Louder"):
        fs.privacy.spent(Louder(1.0, 1.0), clients=5, rounds=1)
    method = fs.FedAvg(weighting="uniform", mechanism=Louder(1.0, 1.0))
    result = run(method, clients=vector_clients(), model=MODEL)
    with pytest.raises(ValueError, match=r"no account for .*Louder, of it: Gaussian of fs.mechanisms alone has one"):
        fs.privacy.account(result)
    assert "it: epsilon is not known; no account for" in repr(result)
    with pytest.raises(
        ValueError, match=r"no account for participation mine.Own: who takes part is not drawn by a law"
    ):
        _account.spend(1.0, "server", {"type": "mine.Own"}, 5, 1, None)
    log = Trace(pd.DataFrame({"round": [1], "client": [0], "work": [1.0]}))
    for participation in (log, Dropout(log, 0.1), Stragglers(log, 0.5, (0.5, 0.5))):
        with pytest.raises(ValueError, match=r"no account for participation fedstat.*Trace: who takes part"):
            spent(participation=participation)
    with pytest.raises(ValueError, match=r"no account for participation .*\.by_turns: who takes part"):
        spent(participation=by_turns)
    for participation in (Poisson(0.5), Dropout(1.0, 0.1)):
        with pytest.raises(ValueError, match="no account for noise that clients add where they may be missing"):
            spent(participation=participation, at="client")
    with pytest.raises(ValueError, match=r"no account for participation .*Seldom"):
        spent(participation=Seldom(0.5))
    with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\)"):
        spent(delta=1)


def results(tmp_path, **options):
    """A run with and without a mechanism; and what a folder knows of it."""
    mechanism = Gaussian(clip=1.0, noise=4.0)
    methods = {"plain": fs.FedAvg(), "private": fs.FedAvg(weighting="uniform", mechanism=mechanism)}
    how = {"rounds": 3, "seed": (0, 1), "progress": False} | options
    result = fs.federate(methods, MODEL, vector_clients(8), fs.Training(lr=0.2), **how)
    result.save(tmp_path / "run")
    return result, fs.load(tmp_path / "run")


def test_the_account_is_of_what_the_run_did(tmp_path):
    for participation in (1.0, 0.5, Poisson(0.5), Dropout(Poisson(0.5), 0.1)):
        result, loaded = results(tmp_path, participation=participation)
        table = fs.privacy.account(result, delta=1e-6)
        due = spent(4.0, clients=8, rounds=3, participation=participation, delta=1e-6)
        for row in table[table["method"] == "private"].to_dict("records"):
            assert {name: row[name] for name in vars(due)} == vars(due)
            assert (row["noise"], row["clients"]) == (4.0, 8)
        bare = table[table["method"] == "plain"]
        assert np.isinf(bare["epsilon"]).all()
        assert (bare[["relation", "sampling", "accountant"]] == "no mechanism").all(axis=None)
        assert fs.privacy.account(loaded, delta=1e-6).equals(table)


def test_under_an_attack_there_is_no_account(tmp_path):
    result, _ = results(tmp_path, attack=fs.attacks.ALittle(share=0.25))
    with pytest.raises(ValueError, match="no account under an attack: what attackers send may follow what others do"):
        fs.privacy.account(result)
    assert "private: epsilon is not known; no account under an attack" in repr(result)


def test_what_all_clients_teach_has_no_account():
    """Another client's inputs, standardised together, change the updates of clients that it never met."""
    rng = np.random.default_rng(0)
    x, y, client = rng.normal(size=(120, 3)), rng.integers(2, size=120), np.arange(120) % 6
    method = fs.FedAvg(weighting="uniform", mechanism=Gaussian(clip=1.0, noise=4.0))
    results = {}
    for fit_on in ("pooled", "client"):
        clients = fs.data.from_arrays(x, y, client, test=0.3, prepare="standard", fit_on=fit_on)
        how = {"model": fs.models.mlp(3, 2), "clients": clients, "training": fs.Training(lr=0.1), "progress": False}
        results[fit_on] = fs.federate(method, rounds=1, **how)
        if fit_on == "client":
            with pytest.raises(ValueError, match="other training samples of seed 0"):
                fs.federate(method, rounds=2, resume=results["pooled"], **how)
    assert fs.privacy.account(results["client"])["epsilon"].iloc[0] == spent(4.0, clients=6, rounds=1).epsilon
    with pytest.raises(ValueError, match="no account where all clients' samples together teach what prepares"):
        fs.privacy.account(results["pooled"])
    assert "epsilon is not known; no account where all clients' samples" in repr(results["pooled"])


class Mine(fs.FedAvg):
    """May look at all clients' data, in ways that no account knows."""


def test_who_sends_nothing_spends_nothing_and_what_a_method_of_ones_own_tells_is_not_counted():
    methods = {"alone": fs.Local(), "private": fs.FedAvg, "mine": Mine, "not alone": fs.methods.find("FedPer")()}
    private = {"weighting": "uniform", "mechanism": Gaussian(clip=1.0, noise=4.0)}
    methods = {label: m(**private) if isinstance(m, type) else m for label, m in methods.items()}
    result = fs.federate(methods, MODEL, vector_clients(8), fs.Training(lr=0.2), rounds=3, progress=False)
    table = fs.privacy.account(result).set_index("method")
    sent = result.traffic.groupby("method", observed=False)[["bytes_up", "bytes_down"]].sum().sum(axis=1)
    assert sent["alone"] == 0 < sent.drop("alone").min()
    assert (table.loc["alone", ["epsilon", "epsilon_server"]] == 0).all()
    assert table.loc["alone", "relation"] == "no message"
    assert np.isinf(table.loc["not alone", "epsilon"])
    assert "\nalone: epsilon is 0, for it sends no message\n" in repr(result)
    due = str(spent(4.0, clients=8, rounds=3, delta=None))
    assert f"\nprivate: {due}\n" in repr(result)
    assert f"\nmine: {due}; what else a method of one's own tells is not counted\n" in repr(result)


def test_rounds_after_an_early_stop_are_not_counted():
    rng = np.random.default_rng(0)
    x, y, client = rng.normal(size=(120, 3)), rng.integers(2, size=120), np.arange(120) % 6
    clients = fs.data.from_arrays(x, y, client, validation=0.3, seed=0)  # labels are noise: nothing gets better
    method = fs.FedAvg(weighting="uniform", mechanism=Gaussian(clip=1.0, noise=5.0))
    result = run(method, 30, clients=clients, model=MODEL, stop=fs.Patience("log_loss", rounds=1))
    (row,), (state,) = fs.privacy.account(result).to_dict("records"), result.states.values()
    assert row["rounds"] == state.round < 30
    assert row["epsilon"] == spent(5.0, clients=6, rounds=state.round, participation=0.5).epsilon
    told = repr(result)  # no run had all rounds that were asked for
    assert f"it: {spent(5.0, clients=6, rounds=state.round, participation=0.5, delta=None)}" in told
    assert "these are the rounds of the longest run: one that stopped before it spent less" in told


def test_comparisons_assessments_reports_and_prints_state_it(tmp_path):
    result, _ = results(tmp_path, predictions=True)
    due = str(spent(4.0, clients=8, rounds=3, delta=None))
    assert due.startswith("epsilon 1.69")
    assert "at delta 1e-05 (the change of one client put to zero; all 8 clients in each of 3 rounds" in due
    assert f"private: {due}" in repr(result)
    assert "plain: epsilon is infinite, for it has no mechanism" in repr(result)
    for source in (result, tmp_path / "run"):
        notes = "\n".join(fs.compare(source).notes)
        assert f"private: {due}" in notes
        assert "plain: epsilon is infinite" in notes
        assert "it does not cover what clients measure on their data" in notes
        assert "nor which classes and words of text there are" in notes
        assert {f"private: {due}.", "plain: epsilon is infinite, for it has no mechanism."} < {*fs.assess(source).notes}
    report_runs([tmp_path / "run"], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "epsilon 1.69" in text
    assert "put to zero; all 8 clients in each of 3 rounds" in text


def test_runs_without_any_mechanism_say_nothing_of_it():
    result = run(fs.FedAvg(), clients=vector_clients(), model=MODEL, predictions=True)
    assert "epsilon" not in repr(result) + "".join((*fs.compare(result).notes, *fs.assess(result).notes))


def test_without_dp_accounting_a_line_says_how_to_get_it(tmp_path, monkeypatch):
    result, _ = results(tmp_path)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    _account._gaussian.cache_clear()
    with pytest.raises(ImportError, match=r"epsilon needs dp-accounting: pip install 'fedstat\[privacy\]'"):
        fs.privacy.account(result)
    said = "private: epsilon is not known; epsilon needs dp-accounting: pip install 'fedstat[privacy]'"
    assert said in repr(result)
    assert any(said in note for note in fs.compare(result).notes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *((lambda p=p: spent(participation=p), r"participation must be a number in \(0, 1\]") for p in
          (2.0, 0, -1, math.nan, True)),
        (lambda: fs.privacy.spent(Gaussian, clients=5, rounds=1), "no account for <class .*Gaussian'>"),
        (lambda: fs.privacy.account(fs.FedAvg), "result must be one of fs.federate or fs.load, got <class"),
        (lambda: fs.privacy.audit(Gaussian, clients=5, rounds=1), "mechanism must be one such as .* got <class"),
        (lambda: fs.privacy.audit(None, clients=5, rounds=1), "mechanism must be one such as .* got None"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()
