"""Attackers as clients of a run: the papers' loops, who they are, whole runs by hand, and who is measured."""

import re
from dataclasses import dataclass, replace
from math import erf, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.config import to_table
from fedstat.experiment.parsing import code_named
from fedstat.federated.aggregators import Median
from fedstat.federated.attacks import ATTACKS, ALittle, Gaussian, InnerProduct, LabelFlip, SignFlip, attackers, z_max
from fedstat.federated.client.seeds import Seeds
from fedstat.testing import check_attack
from tests.support.clients import image_clients, noise_regression, vector_clients
from tests.support.networks import conv_net
from tests.support.runs import KEY, STEP, run

BUILT_IN = {
    "sign-flip": SignFlip(0.4, scale=2.0),
    "gaussian": Gaussian(0.4, scale=0.5),
    "a-little": ALittle(0.4),
    "inner-product": InnerProduct(0.4, epsilon=0.7),
    "label-flip": LabelFlip(0.4),
}
MODEL = fs.models.mlp(3, 5, 2)


def changes_of(seed, m, a):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, 4)), rng.permutation(np.arange(m) < a)


def phi(z):
    return (1 + erf(z / sqrt(2))) / 2


def little(x, bad, rng):
    n, m = len(x), int(bad.sum())
    supporters = max(n // 2 + 1 - m, 1)
    z = 0.0
    while phi(z + 1e-4) < (n - m - supporters) / (n - m):
        z += 1e-4
    mine = [x[k] for k in range(n) if bad[k]]
    mean = sum(mine) / m
    spread = np.sqrt(sum((row - mean) ** 2 for row in mine) / m)
    return [mean - z * spread for _ in mine]


ORACLES = {
    "sign-flip": lambda x, bad, rng: [-2 * x[k] for k in range(len(x)) if bad[k]],
    "gaussian": lambda x, bad, rng: [0.5 * rng.standard_normal(x.shape[1]) for k in range(len(x)) if bad[k]],
    "a-little": little,
    "inner-product": lambda x, bad, rng: [
        -0.7 * sum(x[k] for k in range(len(x)) if not bad[k]) / sum(~bad) for _ in range(sum(bad))
    ],
    "label-flip": lambda x, bad, rng: [x[k] for k in range(len(x)) if bad[k]],
}


@pytest.mark.parametrize("name", ORACLES)
@given(seed=st.integers(0, 2**32), m=st.integers(2, 12), data=st.data())
@settings(max_examples=25, deadline=None)
def test_attacks_are_the_loops_of_their_papers(name, seed, m, data):
    x, bad = changes_of(seed, m, data.draw(st.integers(1, m - 1)))
    sent = BUILT_IN[name](torch.from_numpy(x), torch.from_numpy(bad), np.random.default_rng(seed)).numpy()
    np.testing.assert_allclose(sent, ORACLES[name](x, bad, np.random.default_rng(seed)), rtol=0, atol=1e-3)
    assert isinstance(BUILT_IN[name], ATTACKS[name])


@pytest.mark.parametrize("name", BUILT_IN)
def test_attacks_obey_their_laws(name):
    check_attack(BUILT_IN[name])


@pytest.mark.parametrize(
    ("n", "a", "z"),
    [
        (50, 24, 1.43),  # two supporters make 26 of 50: 24 of 26 honest ones lie below 1.43 in a table of the normal
        (51, 12, 0.36),  # 14 make 26 of 51: 25 of 39
        (51, 25, 1.77),  # one makes 26 of 51: 25 of 26
        (10, 1, 0),  # five of nine are needed, more than half
        (10, 6, 0.67),  # a majority already: three of four
        (4, 4, 0),
    ],
)
def test_z_max_leaves_a_majority_behind_the_attackers(n, a, z):
    assert z_max(n, a) == pytest.approx(z, abs=0.005)


def test_a_single_attacker_of_a_little_sends_what_it_trained():
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    bad = torch.arange(5) == 2
    assert torch.equal(ALittle(0.2, z=3.0)(x, bad, None), x[2:3])


@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 60),
    shares=st.lists(st.floats(0, 0.9), min_size=2, max_size=2).map(sorted),
)
@settings(max_examples=50, deadline=None)
def test_attackers_of_a_small_share_are_among_those_of_a_larger_one(seed, clients, shares):
    counts = [int(share * clients + 0.5) for share in shares]
    if counts[1] == clients:
        with pytest.raises(ValueError, match=r"attack.share = .* leaves none of"):
            attackers(SignFlip(shares[1]), clients, Seeds(seed))
        return
    shares = [share if count else 0.0 for share, count in zip(shares, counts, strict=True)]  # others are refused
    few, more = (attackers(SignFlip(share), clients, Seeds(seed)) for share in shares)
    assert [len(few), len(more)] == counts
    assert set(few) <= set(more) <= set(range(clients))
    assert np.array_equal(more, attackers(Gaussian(shares[1], 1.0), clients, Seeds(seed)))
    held = Seeds(seed + 1, seed, vary=("batches",))
    assert np.array_equal(more, attackers(SignFlip(shares[1]), clients, held))


def first_round(method, attack, model=MODEL, clients=None, **options):
    """What participants sent in the first round, and who of them attacks."""
    data = vector_clients() if clients is None else clients
    now = next(
        fs.rounds(
            method,
            model,
            data,
            fs.Training(lr=0.2, batch_size=4, local_epochs=2),
            dtype="float64",
            attack=attack,
            **options,
        )
    )
    ((key, update),) = now.updates.items()
    return update, now.runs[key].replicate.attackers.tolist()


def test_two_rounds_of_fedavg_under_sign_flips_are_plain_loops():
    """Full batches, one step a round; the participants' models are averaged by their samples."""
    clients, rate, scale = vector_clients(), 0.05, 3.0
    result = run(fs.FedAvg(), 2, clients=clients, model=MODEL, training=STEP, participation=1.0, evaluate_at=[0, 1, 2],
                 attack=SignFlip(0.3, scale))  # fmt: skip
    bad = set(result.clients.loc[result.clients["attacker"], "client"])
    assert len(bad) == 2
    module, (begun, _) = MODEL().double(), first_round(fs.FedAvg(), None)
    module.load_state_dict({name: leaf[0] for name, leaf in begun.start.items()})
    n = clients.train.n / clients.train.n.sum()
    for round in (0, 1, 2):
        hits = {}
        for k in range(len(clients)):
            x, y = clients.test.client(k)
            hits[k] = float((module(torch.from_numpy(x)).argmax(1).numpy() == y).mean())
        rows = result.history.query(f"metric == 'accuracy' and round == {round}").set_index("client")["value"]
        assert rows.to_dict() == pytest.approx({k: hit for k, hit in hits.items() if k not in bad})
        start = {name: p.detach().clone() for name, p in module.named_parameters()}
        moved = {name: torch.zeros_like(p) for name, p in start.items()}
        for k in range(len(clients)):
            x, y = map(torch.from_numpy, clients.train.client(k))
            module.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
            for name, p in module.named_parameters():
                moved[name] += n[k] * (scale if k in bad else -1) * rate * p.grad
        if round < 2:
            module.load_state_dict({name: start[name] + moved[name] for name in start})
    for name, p in module.named_parameters():
        torch.testing.assert_close(result.states[KEY].server[name], p.detach(), rtol=0, atol=1e-12)


def bits(here, there):
    """Both runs hold the same states, to the last bit."""
    for key, state in here.states.items():
        other = there.states[key]
        rows = torch.arange(state.clients.clients)
        for one, two in ((state.server, other.server), (state.clients.rows(rows), other.clients.rows(rows))):
            assert one.keys() == two.keys()
            assert all(torch.equal(leaf, two[name]) for name, leaf in one.items())


@pytest.mark.parametrize("attack", [SignFlip(0.0), Gaussian(0.0, 9.0), LabelFlip(0.0)])
def test_where_nobody_attacks_the_run_is_the_one_without(attack):
    plain, none = (run(fs.methods.FedPer(), attack=one, trained=True) for one in (None, attack))
    assert not none.clients["attacker"].any()
    assert none.history.equals(plain.history)
    assert none.traffic.equals(plain.traffic)
    bits(plain, none)


@pytest.mark.parametrize("attack", [Gaussian(0.4, 9.0), LabelFlip(0.4)])
def test_honest_clients_of_local_are_not_touched(attack):
    plain, attacked = (run(fs.Local(), attack=one, model=MODEL, clients=vector_clients()) for one in (None, attack))
    honest = attacked.clients.loc[~attacked.clients["attacker"], "client"]
    assert len(honest) == 4
    rows = plain.history[plain.history["client"].isin(honest)].reset_index(drop=True)
    assert attacked.history.equals(rows)


def test_false_labels_are_those_flipped_by_hand_beforehand():
    clients = image_clients()
    attack = LabelFlip(0.4)
    attacked = run(fs.methods.Ditto(), clients=clients, attack=attack)
    bad = attacked.clients["attacker"].to_numpy()
    y = clients.train.y.copy()
    for i, k in enumerate(clients.train.owners):
        if bad[k]:
            y[i] = 3 - y[i]
    by_hand = run(fs.methods.Ditto(), clients=replace(clients, train=replace(clients.train, y=y)))
    bits(by_hand, attacked)
    assert attacked.config["fingerprint"] == by_hand.config["fingerprint"]
    rows = by_hand.history[~by_hand.history["client"].isin(np.flatnonzero(bad))].reset_index(drop=True)
    assert attacked.history.equals(rows)


def test_every_seed_has_false_labels_of_its_own():
    """Seeds hold the same clients, of whom others attack; each run is the one of its seed alone."""
    attack, how = LabelFlip(0.4), {"clients": vector_clients(), "model": MODEL}
    both = run(fs.FedAvg(), seed=[0, 3], attack=attack, executor="per-client", **how)
    for seed in (0, 3):
        alone = run(fs.FedAvg(), seed=seed, attack=attack, executor="per-client", vary=None, **how)
        mine = both.history[both.history["seed"] == seed].reset_index(drop=True)
        assert mine.equals(alone.history)
    prints = both.config["fingerprint"]
    assert prints["0"]["train"] != prints["3"]["train"]
    assert prints["0"]["test"] == prints["3"]["test"]


@given(seed=st.integers(0, 2**32), m=st.integers(3, 11), data=st.data())
@settings(max_examples=50, deadline=None)
def test_under_the_median_a_minority_stays_within_honest_values(seed, m, data):
    x, bad = changes_of(seed, m, data.draw(st.integers(1, (m - 1) // 2)))
    malicious, rng = torch.from_numpy(bad), np.random.default_rng(seed)
    for attack in (SignFlip(0.4, 1e6), Gaussian(0.4, 1e6), InnerProduct(0.4, 1e6), ALittle(0.4, 1e6)):
        sent = torch.from_numpy(x)
        sent[malicious] = attack(torch.from_numpy(x), malicious, rng)
        honest = sent[~malicious]
        outcome = Median()(sent, torch.ones(m) / m)
        assert ((honest.min(0).values <= outcome) & (outcome <= honest.max(0).values)).all()
        if not isinstance(attack, ALittle) or bad.sum() > 1:
            assert (sent.mean(0).abs() > honest.abs().max(0).values).any()


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_run_that_goes_on_is_the_one_that_never_stopped(name, tmp_path):
    how = {"attack": BUILT_IN[name], "trained": True, "predictions": True, "model": MODEL, "clients": vector_clients()}
    whole, half = (run(fs.methods.FedPer(), rounds, **how) for rounds in (4, 2))
    half.save(tmp_path / "run")
    loaded = fs.load(tmp_path / "run")
    assert loaded.clients.equals(half.clients)
    assert loaded.predictions().equals(half.predictions())
    done = run(fs.methods.FedPer(), 4, resume=loaded, folder=tmp_path / "run", **how)
    assert done.history.equals(whole.history)
    bits(done, whole)
    with pytest.raises(ValueError, match="attack = "):
        run(fs.methods.FedPer(), 5, resume=done, **{**how, "attack": None})
    with pytest.raises(ValueError, match=r"attack\.what\.share = 0\.4 \(0\.2 here\)"):
        run(fs.methods.FedPer(), 5, resume=done, **{**how, "attack": replace(BUILT_IN[name], share=0.2)})


def test_divergence_under_an_attack_names_it():
    attack = SignFlip(0.4, scale=1e300)
    with pytest.raises(FloatingPointError, match=rf"the attack {re.escape(repr(attack))} may drive them there"):
        run(fs.FedAvg(), 4, model=MODEL, clients=vector_clients(), attack=attack)
    with pytest.raises(FloatingPointError, match=r"at lr=1e\+200. Lower lr, or scale the inputs\.$"):
        wild = fs.Training(lr=1e200)
        run(fs.FedAvg(), model=MODEL, clients=vector_clients(), attack=SignFlip(0.0), training=wild)


def test_a_run_without_an_attack_gets_none_later():
    before = run(fs.FedAvg(), 1, model=MODEL, clients=vector_clients())
    with pytest.raises(ValueError, match="attack = nothing"):
        run(fs.FedAvg(), 2, model=MODEL, clients=vector_clients(), attack=SignFlip(0.2), resume=before)


@pytest.mark.parametrize("attack", [SignFlip(0.4), LabelFlip(0.4)])
def test_more_seeds_have_attackers_too(attack, tmp_path):
    clients, how = vector_clients(), {"model": MODEL, "attack": attack, "executor": "per-client"}
    whole = run(fs.FedAvg(), seed=[0, 1, 2], clients=clients, **how)
    run(fs.FedAvg(), seed=[0], clients=clients, folder=tmp_path / "run", **how)
    more = fs.extend(fs.load(tmp_path / "run"), 3, clients=clients, progress=False)
    assert more.clients.equals(whole.clients)
    columns = ["method", "seed", "round", "client", "metric"]
    one, two = (of.history.sort_values(columns).reset_index(drop=True) for of in (more, whole))
    assert one.equals(two)


def test_poisoned_clients_are_not_poisoned_again():
    result = run(fs.FedAvg(), model=MODEL, clients=vector_clients(), attack=LabelFlip(0.4))
    with pytest.raises(ValueError, match="that the attack poisoned; pass clients="):
        fs.extend(result, 2)


@pytest.mark.parametrize("name", BUILT_IN)
def test_executors_see_the_same_attack(name):
    one, two = (run(fs.methods.FedPer(), attack=BUILT_IN[name], executor=e) for e in ("stacked", "per-client"))
    for n, leaf in one.states[KEY].server.items():
        torch.testing.assert_close(leaf, two.states[KEY].server[n], rtol=0, atol=1e-10)


def test_what_clients_keep_stays_what_they_trained():
    """Clients share other units of a layer: attackers falsify those that they share, and the head that all share."""
    masks = np.arange(60).reshape(6, 10) % 2 == 0
    masks[1] = ~masks[1]
    method, model = fs.FedSplit(shared_units={"hidden": masks}), fs.models.mlp(3, 10, 2)
    (honest, _), (update, bad) = (first_round(method, attack, model) for attack in (None, SignFlip(0.4)))
    assert len(bad) == 2
    units = torch.from_numpy(masks)
    shared = {"hidden.weight": units[:, :, None], "hidden.bias": units}
    for name, end in honest.end.items():
        lies = torch.where(shared.get(name, torch.tensor(True)), 2 * honest.start[name] - end, end)
        for k in range(6):
            torch.testing.assert_close(update.end[name][k], (lies if k in bad else end)[k], rtol=0, atol=1e-14)
            assert k in bad or torch.equal(update.end[name][k], end[k])


def test_running_statistics_are_those_that_attackers_saw():
    (honest, _), (update, bad) = (
        first_round(fs.FedAvg(), attack, conv_net, image_clients()) for attack in (None, Gaussian(0.4, 1.0))
    )
    for name, leaf in honest.end.items():
        told = [k for k in range(6) if not torch.equal(update.end[name][k], leaf[k])]
        assert told == ([] if "running" in name or "num_batches" in name else bad)


#: What some methods do with uploads beside averaging them.
OWN_WAYS = ["SCAFFOLD", "FedAMP", "FedFOMO", "FactorizedFL", "FedCAC", "FedPAC", "PFedGate", "FilterDecomp", "Ditto"]


@pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in OWN_WAYS else pytest.mark.slow) for n in sorted(fs.methods.available())]
)
def test_every_method_has_attackers(name):
    """As many bytes travel in the first round, honest clients alone are measured, and attackers send other models."""
    cls = fs.methods.find(name)
    method, model = cls(**cls.example), cls.example_model or fs.models.mlp(3, 5, 2)
    how = {"clients": vector_clients(), "model": model, "participation": 1.0, "training": fs.Training(lr=0.05)}
    plain, attacked = (run(method, 2, attack=attack, **how) for attack in (None, SignFlip(0.4, 0.5)))
    bad = attacked.clients.loc[attacked.clients["attacker"], "client"]
    assert sorted(set(range(6)) - set(bad)) == sorted(attacked.history["client"].unique())
    for result in (plain, attacked):
        assert (result.history["value"].notna()).all()
    one, two = (result.traffic.query("round <= 1").reset_index(drop=True) for result in (plain, attacked))
    assert one.equals(two)
    (honest, _), (update, _) = (first_round(method, attack, model) for attack in (None, SignFlip(0.4, 0.5)))
    told = {k for n, leaf in honest.end.items() for k in range(6) if not torch.equal(leaf[k], update.end[n][k])}
    assert told == (set() if name == "Local" else set(bad))


def test_attackers_are_measured_nowhere():
    x, y = np.random.default_rng(0).normal(size=(160, 3)), np.arange(160) % 2
    clients = fs.data.from_arrays(x[:120], y[:120], np.arange(120) % 6, test=0.3, validation=0.2)
    common = fs.data.Samples(x[120:], y[120:], np.array([40]))
    clients = replace(clients, common=common)
    result = run(
        fs.FedAvg(), 3, clients=clients, model=MODEL, validate=True,
        attack=SignFlip(0.4), trained=True, stop=fs.Patience("log_loss", rounds=2),
    )  # fmt: skip
    honest = set(result.clients.loc[~result.clients["attacker"], "client"])
    assert len(honest) == 4
    by = result.history.groupby(["split", "estimand"], observed=True)["client"].agg(set)
    assert by["common", "global"] == {-1}
    assert all(who <= honest for (split, _), who in by.items() if split != "common")
    assert by["test", "global"] == by["validation", "global"] == honest
    assert set(result.predictions()["client"]) == honest
    assert set(fs.newcomers(result, vector_clients(3))["client"]) == {0, 1, 2}
    assert "note" in repr(fs.compare(result))
    assert result.personal(int(min(set(range(6)) - honest))) is not None


@dataclass(frozen=True)
class Copies:
    """Every attacker sends what the first participant trained."""

    share: float

    def __call__(self, changes, malicious, rng):
        return changes[:1].expand(int(malicious.sum()), -1)


@dataclass(frozen=True)
class Wide(Copies):
    """Sends a number too many."""

    def __call__(self, changes, malicious, rng):
        return torch.zeros(int(malicious.sum()), changes.shape[1] + 1)


@dataclass(frozen=True)
class Global(Copies):
    """Draws from numpy's own generator."""

    def __call__(self, changes, malicious, rng):
        return changes[malicious] + np.random.normal()  # noqa: NPY002


@dataclass(frozen=True)
class Writes(Copies):
    """Writes into what it is given."""

    def __call__(self, changes, malicious, rng):
        changes[malicious] *= -1
        return changes[malicious]


@dataclass(frozen=True)
class Divides(Copies):
    """Sends directions, of which a change of nothing has none."""

    def __call__(self, changes, malicious, rng):
        return changes[malicious] / changes[malicious].norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class PoisonsAll(LabelFlip):
    """Changes everybody's labels."""

    def poison(self, clients, malicious):
        return super().poison(clients, ~malicious)


@dataclass(frozen=True)
class Nobody(LabelFlip):
    """Forgets to return clients."""

    def poison(self, clients, malicious):
        return None


@pytest.mark.parametrize(
    ("attack", "law"),
    [
        (Wide(0.2), "'shape': 3 attackers must send changes of shape"),
        (Global(0.2), "'repeat'"),
        (Writes(0.2), "'untouched'"),
        (Divides(0.2), "'finite'"),
        (PoisonsAll(0.2), "'honest'"),
        (Nobody(0.2), "'call': poison fails.*Nobody.poison must return Clients"),
    ],
)
def test_broken_laws_are_named(attack, law):
    with pytest.raises(AssertionError, match=f"{type(attack).__name__} breaks the law {law}"):
        check_attack(attack)


def test_own_attacks_are_tried_before_a_run_and_then_run():
    with pytest.raises(ValueError, match=r"attack Wide breaks the law 'shape'"):
        run(fs.FedAvg(), attack=Wide(0.2))
    update, bad = first_round(fs.FedAvg(), Copies(0.4))
    for name, leaf in update.end.items():
        for k in bad:
            torch.testing.assert_close(leaf[k] - update.start[name][k], leaf[0] - update.start[name][0])


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (SignFlip, "attack must be one such as"),
        (lambda changes, malicious, rng: changes, "attack must be one such as"),
        (Copies(1.0), r"attack.share must be a number in \[0, 1\)"),
        (SignFlip(0.95), "leaves none of 6 clients honest"),
    ],
)
def test_what_is_no_attack_is_refused(attack, words):
    with pytest.raises(ValueError, match=words):
        run(fs.FedAvg(), attack=attack)


def test_numbers_have_no_labels_to_flip():
    with pytest.raises(ValueError, match="LabelFlip needs classes, and the clients' targets are numbers"):
        run(fs.FedAvg(), clients=noise_regression(), model=fs.models.mlp(3, 4, 1), attack=LabelFlip(0.4))
    with pytest.raises(ValueError, match=r"share must be a number in \[0, 1\)"):
        SignFlip(1.0)
    with pytest.raises(ValueError, match=r"scale must be a number in \(0, inf\)"):
        Gaussian(0.1, 0.0)


FILE = """
rounds = 2
seed = [0, 1]
data.name = "digits"
partition = {kind = "iid", clients = 6}
model = {name = "mlp", widths = [8]}
training.lr = 0.1
evaluation.last = 1
[method.FedAvg]
[method.Local]
[attack]
"""


@pytest.mark.slow
def test_a_file_names_an_attack(tmp_path):
    (tmp_path / "one.toml").write_text(FILE + 'name = "sign-flip"\nshare = 0.3')
    experiment = read(tmp_path / "one.toml")
    assert to_table(experiment)["attack"] == {"name": "sign-flip", "share": 0.3, "scale": 1.0}
    fs.experiment.run(experiment, tmp_path / "out", progress=False)
    result = fs.load(tmp_path / "out" / "run")
    assert result.clients.groupby("seed")["attacker"].sum().tolist() == [2, 2]
    assert result.history.groupby(["method", "seed"], observed=True)["client"].nunique().tolist() == [4] * 4
    more = read(tmp_path / "one.toml", {"rounds": 3, "seed": [0, 1, 2]})
    fs.experiment.run(more, tmp_path / "out", resume=True, progress=False)
    assert fs.load(tmp_path / "out" / "run").clients["attacker"].sum() == 6
    for change, words in (
        ({"attack.name": "sign"}, "attack.name must be one of|attack.name"),
        ({"attack.share": 1.0}, r"attack: share must be a number in \[0, 1\)|attack\.share"),
        ({"attack.scal": 1.0}, "scal"),
        (
            {"attack": {"nme": "sign-flip", "share": 0.3}},
            r"attack\.name is missing; attack holds nme \(did you mean name\?\)\.$",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            read(tmp_path / "one.toml", change)


def test_a_file_names_an_attack_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text("""
from dataclasses import dataclass

@dataclass(frozen=True)
class Silent:
    share: float

    def __call__(self, changes, malicious, rng):
        return 0 * changes[malicious]
""")
    (tmp_path / "one.toml").write_text(FILE + 'name = "mine.py:Silent"\nshare = 0.3')
    assert code_named(tmp_path / "one.toml") == {"attack.name": f"{tmp_path / 'mine.py'}:Silent"}
    fs.experiment.run(read(tmp_path / "one.toml"), tmp_path / "out", progress=False)
    config = fs.load(tmp_path / "out" / "run").config
    assert config["attack"]["what"]["share"] == 0.3
    assert config["attack"]["what"]["type"].endswith("Silent")
