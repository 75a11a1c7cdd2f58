"""FedFac: limits, what its authors ran, its statistic and cuts, units that change sides."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.factor import intraclass_correlation
from fedstat.federated.replicate import participants
from fedstat.methods import FedAvg, FedFac, FedPer, LGFedAvg
from fedstat.methods.cut import Count, Quantile, is_shared
from fedstat.methods.fedfac import communality
from fedstat.testing.methods import INPUTS, UNITS, check_method
from tests.support import authors, mixture
from tests.support.clients import image_clients
from tests.support.laws import ALL_BUT_LIMITS
from tests.support.networks import WIDTHS
from tests.support.runs import equal, run

# the layers here are too small for kappa to leave identified factors
pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


def test_cuts_range_from_fedavg_to_local_in_the_laws(examples):
    fedfac = FedFac(**FedFac.example)
    limits = {"all_shared": replace(fedfac, tau=0.0), "all_personal": replace(fedfac, tau=np.inf)}
    check_method(fedfac, **limits, except_for=ALL_BUT_LIMITS, examples=examples)


@pytest.mark.slow
def test_dynamic_fedfac_obeys_the_laws():
    fedfac = FedFac(layers=["hidden", "head"], tau=Quantile(0.5), kappa=0.5, dynamic=True)
    # with one client and all parts stored, a unit that turns shared again resumes the server's older value
    check_method(
        fedfac,
        all_shared=replace(fedfac, tau=0.0),
        all_personal=replace(fedfac, tau=np.inf),
        except_for=["one client"],
        examples=5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_fedfac_by_agreement_obeys_the_laws(dynamic):
    fedfac = FedFac(layers=["hidden", "head"], tau=Count(2), statistic="agreement", dynamic=dynamic)
    limits = {"all_shared": replace(fedfac, tau=0.0), "all_personal": replace(fedfac, tau=np.inf)}
    check_method(fedfac, **limits, examples=5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("top", [2, 3])
def test_fedfac_with_an_infinite_cut_on_the_lowest_layers_is_lgfedavg(dynamic, top):
    lowest = list(WIDTHS)[: len(WIDTHS) - top]
    fedfac = run(FedFac(layers=lowest, tau=np.inf, dynamic=dynamic), rounds=4)
    equal(fedfac, run(LGFedAvg(top=top, weighting="samples"), rounds=4), 0)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layer", ["conv1", "head"])
def test_fedfac_that_counts_all_units_is_fedavg_and_none_is_private_layers(layer, dynamic):
    for units, other in ((WIDTHS[layer], FedAvg()), (0, FedPer(layers=(layer,)))):
        fedfac = run(FedFac(layers=[layer], tau=Count(units), kappa=0.5, dynamic=dynamic))
        equal(fedfac, run(other), 0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_fedfac_without_layers_is_fedavg(dynamic):
    equal(run(FedFac(layers=(), dynamic=dynamic), rounds=4), run(FedAvg(), rounds=4), 0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_tau_zero_is_fedavg_bit_for_bit(dynamic):
    ours, fedavg = mixture.run(FedFac(layers=["hidden"], tau=0, dynamic=dynamic)), mixture.run(FedAvg())
    np.testing.assert_array_equal(mixture.measured(ours), mixture.measured(fedavg))
    for name, leaf in fedavg.states["it", 0].server.items():
        assert torch.equal(leaf, ours.states["it", 0].server[name])


def test_everything_personal_is_local_on_equal_budgets():
    ours, local = mixture.run(FedFac(layers=["hidden", "head"], tau=np.inf, dynamic=True)), mixture.run(fs.Local())
    np.testing.assert_array_equal(mixture.measured(ours), mixture.measured(local))


@pytest.mark.parametrize("dynamic", [False, True])
def test_fedfac_without_layers_is_fedavg_on_a_mixture(dynamic):
    ours, fedavg = mixture.run(FedFac(layers=(), dynamic=dynamic)), mixture.run(FedAvg())
    np.testing.assert_array_equal(mixture.measured(ours), mixture.measured(fedavg))


def test_dynamic_fedfac_with_a_constant_mask_is_fedsplit():
    mask = np.arange(10) % 3 == 0

    def constant(stacked, rng):
        return mask.astype(float)

    fedfac = mixture.run(FedFac(layers=["hidden"], tau=0.5, dynamic=True, statistic=constant))
    static = mixture.run(FedFac(layers=["hidden"], tau=0.5, statistic=constant))
    fedsplit = mixture.run(fs.FedSplit(shared_units={"hidden": mask}))
    for other in (fedfac, static):
        np.testing.assert_array_equal(mixture.measured(other), mixture.measured(fedsplit))


def shared_units(weights, kappa, percentile):
    """Which units are shared, from the participants' weights (clients, units, ...) of a layer."""
    columns = np.concatenate([w.reshape(len(w), -1).T for w in weights])
    values, vectors = np.linalg.eig(np.corrcoef(columns.T))
    values, vectors = values.real, vectors.real
    order = np.argsort(values)[::-1]
    count, total = 0, 0.0
    for j in order:
        total += values[j]
        if total / values.sum() >= kappa:
            break
        count += 1
    statistic = (vectors[:, order][:, :count] ** 2).sum(1)
    return statistic >= np.percentile(statistic, percentile)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_fedfac_is_what_its_authors_ran(participation):
    clients, kappa, layers = image_clients(6), 0.75, ("conv2", "hidden")
    method = FedFac(reading="code", layers=layers, kappa=kappa, tau=fs.Quantile(0.4), dynamic=True)
    result, network = authors.ours(method, clients, participation=participation)
    own = [authors.begun(authors.plain_body(), network) for _ in range(len(clients))]
    incoming = {f"{layer}.weight" for layer in layers}
    personal = {"conv2.bias", "norm2.weight", "norm2.bias", "hidden.bias"} | incoming
    common = [name for name, _ in own[0].named_parameters() if name not in personal]
    shared, rows, masks = {}, {}, []

    def load(module):
        state = module.state_dict() | shared
        for name, (mask, mean) in rows.items():
            state[name] = torch.where(mask.view(-1, *[1] * (mean.dim() - 1)), mean, state[name])
        module.load_state_dict(state)

    for t in range(authors.ROUNDS):
        ids = participants(0, t, len(clients), participation).tolist()
        for k in ids:
            load(own[k])
            optimizer = torch.optim.SGD(own[k].parameters(), lr=0.05, momentum=0.9)
            authors.steps(own[k], clients.train.client(k), optimizer, authors.TRAINING.local_epochs)
        states, n = [own[k].state_dict() for k in ids], clients.train.n[ids]

        def mean(name, states=states, n=n):
            return sum(m * state[name] for m, state in zip(n, states, strict=True)) / n.sum()

        for name in incoming:
            mask = shared_units([state[name].numpy() for state in states], kappa, 40)
            rows[name] = torch.from_numpy(mask), mean(name)
        masks.append({name: mask.numpy() for name, (mask, _) in rows.items()})
        shared = {name: mean(name) for name in common}
    for module in own:
        load(module)
    for layer in layers:
        found = result.records["it", 0][f"shared {layer}"]
        np.testing.assert_array_equal(found, [mask[f"{layer}.weight"] for mask in masks])
        assert 0 < found.mean() < 1
    authors.agree(result, own, clients)


def test_dynamic_fedfac_analyses_updates_or_weights_with_its_kappa_and_new_randomness():
    seen = {}

    def look(stacked, rng):
        seen.setdefault("stacks", []).append(stacked)
        seen.setdefault("draws", []).append(rng.random())
        return np.arange(10.0)

    stacks = {}
    for source in ("updates", "weights"):
        seen.clear()
        result = mixture.run(FedFac(layers=["hidden"], dynamic=True, statistic=look, source=source), rounds=2)
        stacks[source] = seen["stacks"][-1]
        assert len(set(seen["draws"])) == 3  # first analysis and two rounds, each with randomness of its own
    present = participants(0, 1, 6, 0.5)
    kept = result.states["it", 0].clients["hidden.weight"][present].numpy()
    np.testing.assert_allclose(stacks["weights"], kept, atol=1e-12)
    assert np.abs(stacks["updates"]).max() < np.abs(stacks["weights"]).max()
    few, many = (communality(stacks["weights"], kappa) for kappa in (0.3, 0.9))
    assert few.mean() < many.mean()  # more factors explain more
    first = [
        mixture.run(FedFac(layers=["hidden"], kappa=k), rounds=1).records["it", 0]["shared hidden"] for k in (0.3, 0.9)
    ]
    assert not np.array_equal(*first)


def test_rejoining_units_add_to_the_servers_value_or_take_the_average():
    """Decided by hand: unit 0 is personal in round one and shared in round two."""
    calls = []

    def flips(stacked, rng):
        calls.append(0)
        values = np.ones(10)
        values[0] = len(calls) > 2  # the call at the start and that of round one say personal
        return values

    states = {}
    for rejoin in ("add", "average"):
        calls.clear()
        method = FedFac(layers=["hidden"], tau=0.5, dynamic=True, statistic=flips, rejoin=rejoin)
        second = mixture.run(method, rounds=2, participation=1.0).states["it", 0]
        calls.clear()
        states[rejoin] = (mixture.run(method, rounds=1, participation=1.0).states["it", 0], second)
    first, add = states["add"]
    _, average = states["average"]
    start, end = first.clients["hidden.weight"][:, 0], add.clients["hidden.weight"][:, 0]
    torch.testing.assert_close(average.server["hidden.weight"][0], end.mean(0), rtol=0, atol=1e-12)
    expected = first.server["hidden.weight"][0] + (end - start).mean(0)
    torch.testing.assert_close(add.server["hidden.weight"][0], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(add.server["hidden.weight"][1:], average.server["hidden.weight"][1:], rtol=0, atol=1e-12)


def test_cuts():
    nu = np.array([0.1, 0.4, 0.4, np.nan, 0.9])
    before = np.array([True, True, True, True, False])
    np.testing.assert_array_equal(is_shared(nu, 0.4, before), [False, True, True, True, True])
    np.testing.assert_array_equal(is_shared(nu, Quantile(0.5), before), [False, True, True, True, True])
    np.testing.assert_array_equal(is_shared(nu, Count(2), before), [False, False, False, True, True])
    np.testing.assert_array_equal(is_shared(nu, Count(2), ~before), [False, True, False, False, True])
    np.testing.assert_array_equal(is_shared(nu, 0.0, ~before), np.ones(5, dtype=bool))
    np.testing.assert_array_equal(is_shared(nu, np.inf, before), np.zeros(5, dtype=bool))


def test_dead_units_keep_their_state():
    """A unit that never fires has constant updates; the analysis keeps it shared, as it began."""
    module = fs.models.mlp(INPUTS, UNITS, 2)()
    with torch.no_grad():
        module.hidden.weight[2] = 0
        module.hidden.bias[2] = -100
        module.head.weight[:, 2] = 0
    x = np.random.default_rng(0).normal(size=(60, INPUTS))
    clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(60) % 4)
    result = fs.federate(
        FedFac(layers=["hidden"], dynamic=True, kappa=0.5), module, clients, fs.Training(lr=0.1), rounds=3
    )
    shared = result.records["FedFac", 0]["shared hidden"]
    assert shared.shape == (3, UNITS)
    assert shared[:, 2].all()


def first_units(method):
    """Which hidden units are shared after one round."""
    return mixture.run(method, rounds=1, evaluate_at=()).records["it", 0]["shared hidden"][0]


def test_the_static_analysis_looks_at_changes_from_the_common_start_in_several_batch_orders():
    seen = {}

    @dataclass(frozen=True, kw_only=True)
    class Probe(FedAvg):
        def init(self, network, federation):
            start = {n: leaf.expand(6, *leaf.shape) for n, leaf in network.initial().items()}
            ends = [federation.warmup(start), *(federation.warmup(start, repeat=r) for r in range(3))]
            seen["changes"] = np.stack([(end["hidden.weight"] - start["hidden.weight"]).numpy() for end in ends])
            return super().init(network, federation)

    mixture.run(Probe(), rounds=1, evaluate_at=())
    first, *orders = seen["changes"]
    np.testing.assert_array_equal(first, orders[0])
    assert not any(np.allclose(a, b) for a, b in itertools.combinations(orders, 2))
    for replicates in (1, 3):
        method = FedFac(layers=["hidden"], tau=Count(4), statistic="agreement", replicates=replicates)
        expected = is_shared(intraclass_correlation(np.stack(orders[:replicates])), Count(4), np.ones(10, dtype=bool))
        np.testing.assert_array_equal(first_units(method), expected)


def test_the_dynamic_analysis_looks_at_the_participants_updates():
    seen = []

    def look(stacked, rng):
        seen.append(stacked)
        return np.nan_to_num(intraclass_correlation(stacked))

    fedfac = {"layers": ["hidden"], "tau": Count(4), "dynamic": True}
    # the callable's first look is at weights, where the named statistic looks at changes: compare the round's units
    spied = first_units(FedFac(statistic=look, source="updates", **fedfac))
    assert [s.shape for s in seen] == [(6, 10, 8), (3, 10, 8)]
    start = is_shared(np.nan_to_num(intraclass_correlation(seen[1])), Count(4), np.ones(10, dtype=bool))
    np.testing.assert_array_equal(spied, start)
    np.testing.assert_array_equal(first_units(FedFac(statistic="agreement", **fedfac)), spied)


def test_units_dead_from_the_start_keep_their_state():
    module = fs.models.mlp(8, 10, 1)()
    with torch.no_grad():
        module.hidden.weight[2], module.hidden.bias[2] = 0, -100
    method = FedFac(layers=["hidden"], statistic="agreement", dynamic=True)
    result = fs.federate({"it": method}, module, mixture.clients(), mixture.TRAINING, rounds=2, evaluate_at=())
    assert result.records["it", 0]["shared hidden"][:, 2].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "icc"}, "statistic must be"),
        ({"statistic": 1}, "statistic must be"),
        ({"statistic": "agreement", "source": "weights"}, 'use source="updates"'),
        ({"replicates": 0}, "replicates must be a whole number, at least 1"),
    ],
)
def test_bad_choices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FedFac(layers=["hidden"], **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedFac(layers="hidden"), "layers must be a sequence"),
        (lambda: FedFac(layers=["hidden"], kappa=0), r"kappa must be a number in \(0, 1\], got 0"),
        (lambda: FedFac(layers=["hidden"], tau=-1), r"tau must be a number in \[0, inf\], a Quantile"),
        (lambda: FedFac(layers=["hidden"], tau="0.5"), "tau must be a number"),
        (lambda: fs.Quantile(1.5), r"quantile must be a number in \[0, 1\]"),
        (lambda: fs.Count(-1), "a whole number, at least 0"),
        (
            lambda: mixture.run(FedFac(layers=["hidden"], tau=Count(11))),
            "asks for 11 shared units, but the layer has 10",
        ),
        (lambda: mixture.run(FedFac(layers=["hidden"], statistic=lambda m, r: np.ones(3))), "each of the 10 units"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
