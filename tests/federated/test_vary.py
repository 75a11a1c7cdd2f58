"""One source of randomness varies with the seed and the others are held: nothing else moves, and nothing stays."""

import numpy as np
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat.experiment.parsing import parse
from fedstat.experiment.run import run as run_experiment
from fedstat.federated.client.samples import BatchOrders
from fedstat.federated.client.seeds import SOURCES
from fedstat.federated.plan import make_plan
from tests.support.clients import vector_clients
from tests.support.experiments import changed

SEEDS = [5, 2]
TRAINING = fs.Training(lr=0.1, batch_size=4, local_epochs=2)
M = fs.methods


def dealt(data, partition):
    """Samples by one seed, their owners by another."""
    x = np.random.default_rng(data).normal(size=(72, 3))
    x[:, 2] = np.arange(72)  # by which a sample is known again
    owner = np.random.default_rng([1, partition]).permutation(np.arange(72) % 6)
    return fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), owner, test=0.25, seed=partition)


def at_once(seed):
    """The same by one seed."""
    return dealt(seed, seed)


def net():
    """With dropout, whose noise is keyed."""
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def go(method=fs.FedAvg(), clients=dealt, seed=SEEDS, model=net, training=TRAINING, **options):  # noqa: B008
    options = {"rounds": 3, "participation": 0.5, "progress": False} | options
    return fs.federate({"it": method}, model, clients, training, seed=seed, **options)


def facts(seed=SEEDS, clients=dealt, **options):
    """What each source decides in a run, by seed."""
    traffic = go(clients=clients, seed=seed, **options).traffic
    found = {s: {"participants": rows["client"].tolist()} for s, rows in traffic.groupby("seed", sort=False)}
    plan = make_plan(fs.FedAvg(), net, clients, TRAINING, 0.5, seed, options.get("vary"))
    for (_, s), run in plan.start({}).items():
        held = run.replicate.clients
        rows = np.concatenate([part.client(k)[0] for part in (held.train, held.test) for k in range(6)])
        steps = BatchOrders(4, run.equipment.samples, 0, noisy=True).of(run.replicate.jobs(range(6)), 0, [2] * 6)
        found[s] |= {
            "data": rows[np.argsort(rows[:, 2])].tolist(),
            "partition": rows[:, 2].tolist(),
            "initial weights": plan.config["fingerprint"][str(s)]["weights"],
            "batches": (steps.places.tolist(), steps.noise.tolist()),
        }
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_seeds_agree_in_all_but_the_source_that_varies(source):
    first, second = facts(vary=[source]).values()
    assert [name for name in SOURCES if first[name] != second[name]] == [source]
    alone, other = facts(seed=SEEDS[0])[SEEDS[0]], facts(seed=SEEDS[1])[SEEDS[1]]
    assert first == alone
    assert second[source] == other[source]


def test_by_default_all_sources_vary_as_they_do_in_runs_of_one_seed():
    both = facts()
    assert both == facts(vary=SOURCES) == facts(clients=at_once)
    for seed in SEEDS:
        assert both[seed] == facts(seed=seed)[seed]
    assert all(both[SEEDS[0]][name] != both[SEEDS[1]][name] for name in SOURCES)
    assert go().config["vary"] == list(SOURCES)
    assert go(clients=vector_clients()).config["vary"] == ["initial weights", "participants", "batches"]


def a_random_split(federation):
    """Every third unit or so is personal."""
    return {"0": federation.rng.random(8) < 0.6}


#: Methods with draws of their own: which samples are held out and who is sent what, a gate, parts, further networks.
DRAWING = [M.FedFOMO(), M.PFedGate(parts=2), M.FedDecomp(), M.FedEM(), fs.FedSplit(shared_units=a_random_split)]


@pytest.mark.parametrize("method", DRAWING, ids=lambda method: type(method).__name__)
def test_where_nothing_varies_that_a_run_uses_all_seeds_are_one_run(method):
    """No draw of a method follows the seed past the sources."""

    def same(data, partition):
        return dealt(0, partition)

    model = fs.models.mlp(3, 8, 2) if isinstance(method, M.PFedGate) else net
    result = go(method, same, model=model, vary=["data"])
    first, second = (rows["value"].to_numpy() for _, rows in result.history.groupby("seed"))
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-6)
    assert all(np.array_equal(result.records["it", 5][n], a) for n, a in result.records["it", 2].items())
    later = go(method, same, model=model)
    first, second = (rows["value"].to_numpy() for _, rows in later.history.groupby("seed"))
    assert np.abs(first - second).max() > 1e-3


def test_only_the_order_of_batches_varies():
    options = {
        "model": fs.models.mlp(3, 8, 2),
        "clients": vector_clients(),
        "dtype": "float64",
        "evaluate_at": range(4),
    }
    tables = {
        size: go(training=fs.Training(lr=0.5, batch_size=size), vary=["batches"], **options).history.pivot_table(
            index=["round", "client", "metric"], columns="seed", values="value", observed=True
        )
        for size in (4, 100)
    }
    gaps = {size: (table[5] - table[2]).abs().groupby("round").max() for size, table in tables.items()}
    assert gaps[4][0] == 0
    assert gaps[4][1] > 1e-3
    assert gaps[100].max() < 1e-12, "with one batch of all samples no order is left"


def test_a_loaded_run_knows_which_seed_its_networks_and_its_newcomers_follow(tmp_path):
    model = fs.models.mlp(3, 8, 2)
    result = go(M.FedDecomp(), vector_clients(), model=model, vary=["batches"], folder=tmp_path / "run")
    back = fs.load(tmp_path / "run")
    assert back.config["vary"] == ["batches"]
    for key in result.states:
        there = result.network(key).initial()
        assert all(torch.equal(leaf, there[name]) for name, leaf in back.network(key).initial().items())
    with pytest.raises(ValueError, match=r"resume holds a run with vary.*participants.*; only rounds may differ"):
        go(M.FedDecomp(), vector_clients(), model=model, vary=["batches", "participants"], rounds=4, resume=back)
    longer = go(M.FedDecomp(), vector_clients(), model=model, vary=["batches"], rounds=4, resume=back)
    whole = go(M.FedDecomp(), vector_clients(), model=model, vary=["batches"], rounds=4)
    assert longer.history.equals(whole.history)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vary": ["weights"]}, "vary has no source 'weights'; name some of 'data', 'partition', 'initial weights'"),
        ({"vary": []}, "vary is empty, so that all seeds would be one run; name some of 'data'"),
        ({"vary": ["data"], "clients": at_once}, r"vary names 'data' without 'partition', but clients is a function of "
         r"one seed, which serves both; pass a function of two, clients\(data_seed, partition_seed\), or vary both"),
        ({"vary": ["partition"], "clients": at_once}, "vary names 'partition' without 'data'"),
        ({"vary": SOURCES, "clients": vector_clients()}, "vary names 'data', but clients are the same for all seeds; "
         "pass a function from a seed to Clients"),
        ({"vary": ["initial weights"], "model": net()}, "vary names 'initial weights', but model is a module, whose "
         "own weights every seed starts from; pass a function that builds it"),
    ],
)  # fmt: skip
def test_what_cannot_vary(options, message):
    with pytest.raises(ValueError, match=message):
        go(**options)


def test_a_function_of_one_seed_may_have_settings_with_defaults():
    def drawn(seed, alpha=0.5):
        assert alpha == 0.5
        return at_once(seed)

    assert go(clients=drawn, rounds=1).history.equals(go(clients=at_once, rounds=1).history)


def test_an_experiment_varies_what_its_file_says(tmp_path):
    def prints(name, **changes):
        experiment = parse(changed(seed=SEEDS, **changes), tmp_path)
        return run_experiment(experiment, tmp_path / name, progress=False).config

    held = prints("held", vary=["batches"], partition__new_clients=0.25)
    assert held["vary"] == ["batches"]
    assert held["fingerprint"]["5"] == held["fingerprint"]["2"]
    files = [fs.data.Partition.load(tmp_path / "held" / f"partition-{seed}.npz") for seed in SEEDS]
    assert files[0].fingerprint == files[1].fingerprint
    dealt = prints("dealt", vary=["partition"])
    others = {k for k, v in dealt["fingerprint"]["5"].items() if dealt["fingerprint"]["2"][k] != v}
    assert others == {"train", "test", "train_pool", "held"}
    assert dealt["fingerprint"]["2"]["weights"] == held["fingerprint"]["2"]["weights"]
    free = prints("free")
    assert free["vary"] == ["partition", "initial weights", "participants", "batches"]
    assert free["fingerprint"]["2"]["train"] == dealt["fingerprint"]["2"]["train"]
    with pytest.raises(
        ValueError, match="vary names 'data', but the samples of a data set are the same under all seeds"
    ):
        parse(changed(vary=["data"]), tmp_path)
