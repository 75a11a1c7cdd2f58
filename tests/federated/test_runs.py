"""What a run does beside training: checkpoints, divergence, traffic, new clients, descriptions."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat._files import sha256
from fedstat.federated import Method, Phase, Selected
from fedstat.federated.slots import slot
from tests.support.clients import image_clients, vector_clients
from tests.support.copies import PLAIN
from tests.support.manifests import relist
from tests.support.named import NAMED
from tests.support.networks import conv_net, plain_net
from tests.support.runs import TRAINING, offered, run, same, traffic, trajectory

pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


@dataclass(frozen=True, kw_only=True)
class Explodes(Method):
    """A method whose loss is infinite in the third round, at whoever trains first."""

    def phases(self, network, training, round):
        return (Phase(network.trainable, name="bad" if round == 2 else "good"),)

    def objective(self, learner, params, batch, context):
        loss = learner.loss(params, batch)
        return loss / 0 if context.phase == "bad" else loss


def floats(network, names=None):
    shapes = network.shapes
    return sum(shapes[name].numel() for name in (names or shapes))


def test_a_checkpointed_run_continues_to_the_same_bits_and_rewrites_only_changed_rows(tmp_path):
    whole = run(fs.methods.FedPer(), rounds=4)
    run(fs.methods.FedPer(), rounds=2, folder=tmp_path / "run", checkpoint=1)
    rows = {p.name: p.stat().st_ino for p in (tmp_path / "run/clients/0").glob("*.safetensors")}
    continued = run(fs.methods.FedPer(), rounds=4, folder=tmp_path / "run", resume=fs.load(tmp_path / "run", conv_net))
    same(whole, continued, atol=0)
    later = {p.name: p.stat().st_ino for p in (tmp_path / "run/clients/0").glob("*.safetensors")}
    kept = rows.keys() & later.keys()
    assert len(rows.keys() - kept) > 0
    assert all(rows[name] == later[name] for name in kept)
    for name, leaf in whole.states["it", 0].clients.items():
        assert torch.equal(leaf, fs.load(tmp_path / "run").states["it", 0].clients[name])


def test_divergence_names_round_client_and_rate_and_leaves_the_last_checkpoint(tmp_path):
    with pytest.raises(FloatingPointError, match=r"client \d+ \(seed 0\) .* in round 3 under Explodes at lr=0.05"):
        run(Explodes(), rounds=5, folder=tmp_path / "run", checkpoint=1)
    saved = fs.load(tmp_path / "run", conv_net, {"it": Explodes()})
    assert saved.config["rounds"] == 2
    assert all(leaf.isfinite().all() for leaf in saved.states["it", 0].server.values())


def test_methods_and_seeds_in_one_run_are_what_they_are_apart():
    methods = {"avg": fs.FedAvg(), "rep": fs.methods.FedRep(head_epochs=1), "per": fs.methods.FedPer()}
    options = {"participation": 0.5, "dtype": "float64"}
    together = fs.federate(methods, conv_net, image_clients(), TRAINING, rounds=2, seed=[0, 1], **options)
    for label, method in methods.items():
        apart = fs.federate({label: method}, conv_net, image_clients(), TRAINING, rounds=2, seed=1, **options)
        rows = together.history.query("method == @label and seed == 1")
        np.testing.assert_allclose(rows["value"], apart.history["value"], rtol=0, atol=1e-12)


def test_bytes_of_fedavg_and_of_shared_units_are_counted_for_participants_only():
    avg, per = run(fs.FedAvg()), run(fs.methods.FedPer())
    network = avg.network(("it", 0))
    for result, names in ((avg, None), (per, [n for n in network.shapes if not n.startswith("head")])):
        for metric in ("bytes_up", "bytes_down"):
            table = traffic(result, metric)
            assert (table.count(axis=1) == 3).all()
            assert set(np.unique(table.to_numpy()[~table.isna().to_numpy()])) == {8 * floats(network, names)}


def test_fedfac_sends_its_analysis_before_the_first_round():
    static = run(fs.FedFac(layers=["hidden"], kappa=0.5))
    up, down = traffic(static, "bytes_up"), traffic(static, "bytes_down")
    assert (up.loc[0] == 8 * 7 * 20).all()  # incoming weights of seven units
    assert (down.loc[0] == 1).all()  # one bit for each
    network, personal = static.network(("it", 0)), int((~static.records["it", 0]["shared hidden"][0]).sum())
    assert up.loc[1].dropna().unique() == 8 * (floats(network) - personal * 21)
    dynamic = run(fs.FedFac(layers=["hidden"], kappa=0.5, dynamic=True))
    assert traffic(dynamic, "bytes_up").loc[1].dropna().unique() == 8 * floats(network)
    shared = dynamic.records["it", 0]["shared hidden"][0].sum()
    assert traffic(dynamic, "bytes_down").loc[2].dropna().unique() == 8 * (floats(network) - (7 - shared) * 21) + 1


def test_units_of_a_convolution_own_the_batch_norm_that_follows():
    mask = {"conv1": np.array([True, False, True, True])}
    result = run(fs.FedSplit(shared_units=mask), rounds=3, participation=1.0)
    models = fs.FedSplit(shared_units=mask).models(result.states["it", 0], torch.arange(6))["personal"].params
    # a bias before batch norm has no gradient, and so no say
    for name in ("conv1.weight", "norm1.weight", "norm1.bias", "norm1.running_mean", "norm1.running_var"):
        units = models[name].flatten(2) if models[name].dim() > 2 else models[name][..., None]
        spread = (units - units[:1]).abs().amax((0, 2))
        assert torch.equal(spread > 0, ~torch.from_numpy(mask["conv1"]))


def test_units_of_a_recurrent_layer_are_its_gate_rows():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, num_layers=2, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 5, 3))
    clients = fs.data.from_arrays(x, (x[:, -1, 0] > 0).astype(int), np.arange(80) % 4)
    method = fs.FedFac(layers=["lstm.l1"], kappa=0.5, dynamic=True)
    result = run(method, clients=clients, model=Reader)
    assert result.records["it", 0]["shared lstm.l1"].shape == (3, 16)
    assert set(result.states["it", 0].clients) == {
        f"lstm.{n}_l1" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    assert isinstance(result.personal(0).lstm.weight_hh_l1, nn.Parameter)


def test_new_clients_train_only_what_is_personal_or_take_the_ensemble():
    method = fs.FedFac(layers=["hidden"], kappa=0.5)
    result = run(method)
    table = fs.newcomers(result, image_clients(3, seed=7))
    assert set(table["estimand"]) == {"personal", "ensemble"}
    assert sorted(table["client"].unique()) == [0, 1, 2]
    state, new = result.states["it", 0], image_clients(3, seed=7)
    models = [result.personal(k) for k in range(6)]
    x, y = (torch.from_numpy(v) for v in new.test.client(1))
    probabilities = torch.stack([model(x).softmax(1) for model in models]).mean(0)
    loss = nn.functional.nll_loss(probabilities.log(), y).item()
    rows = table.query("client == 1 and metric == 'log_loss'").set_index("estimand")["value"]
    assert rows["ensemble"] == pytest.approx(loss, abs=1e-10)
    assert state.round == 3


def test_a_new_client_of_fedavg_gets_the_global_model_and_of_fedper_its_own_head():
    new = image_clients(3, seed=7)
    result = run(fs.FedAvg())
    x, y = (torch.from_numpy(v) for v in new.test.client(0))
    loss = nn.functional.cross_entropy(result.personal(0)(x), y).item()
    rows = fs.newcomers(result, new).query("client == 0 and metric == 'log_loss'")
    assert rows["value"].tolist() == pytest.approx([loss], abs=1e-10)
    tuned = run(fs.methods.FedPer())
    assert set(fs.newcomers(tuned, new)["estimand"]) == {"personal"}
    state, federation = tuned.states["it", 0], run(fs.methods.FedPer(), rounds=1, clients=new).federations["it", 0]
    models = offered(fs.methods.FedPer(), state, federation)["personal"].params
    for name, leaf in state.server.items():
        assert torch.equal(models[name], leaf.expand_as(models[name])) != name.startswith("head")


def test_personal_statistics_of_a_new_client_are_those_of_all_its_samples():
    result, new = run(fs.methods.FedBN()), image_clients(3, seed=7)
    federation = run(fs.methods.FedBN(), rounds=1, clients=new).federations["it", 0]
    params = offered(fs.methods.FedBN(), result.states["it", 0], federation)["personal"].params
    module = conv_net().double().train()
    module.load_state_dict({**module.state_dict(), **{name: leaf[1] for name, leaf in params.items()}})
    for norm in (module.norm1, module.norm2):
        norm.momentum = 1.0
    module(torch.from_numpy(new.train.client(1)[0]))
    for name in ("norm1.running_mean", "norm1.running_var", "norm2.running_mean", "norm2.running_var"):
        torch.testing.assert_close(params[name][1], module.state_dict()[name], rtol=0, atol=1e-12)


def test_a_method_without_a_rule_for_new_clients_says_so():
    sharing = np.zeros((6, 7), dtype=bool)
    sharing[:3] = True

    @dataclass(frozen=True, kw_only=True)
    class Each(Method):
        def shared(self, network, federation):
            return {"hidden.bias": torch.from_numpy(sharing)}

    with pytest.raises(ValueError, match="Each has no rule for new clients here"):
        fs.newcomers(run(Each()), image_clients(3))
    with pytest.raises(ValueError, match="the new clients have classes"):
        fs.newcomers(run(fs.FedAvg(), model=plain_net), vector_clients(3))


@pytest.mark.parametrize(("name", "values"), [("lr", (0.1, 0.01)), ("local_epochs", (1, 3))])
def test_rates_and_epochs_of_the_runs_clients_are_none_of_new_ones(name, values):
    clients, new = image_clients(2), image_clients(2, seed=7)
    result = run(fs.methods.FedPer(), clients=clients, training=replace(PLAIN, **{name: values}))
    with pytest.raises(ValueError, match=f"'it' has one {name} for each client of the run, and none for new clients"):
        fs.newcomers(result, new)
    offered = {value: fs.newcomers(replace(result, training=replace(PLAIN, **{name: value})), new) for value in values}
    assert not offered[values[0]].equals(offered[values[1]])


def test_every_element_has_one_holder_and_what_travels_is_what_the_server_holds():
    table = fs.describe(fs.FedSplit(shared_units={"hidden": np.arange(7) < 3}), conv_net).table.set_index("leaf")
    assert table.loc["hidden.weight", "holder"] == "server 60, client 80"
    assert table.loc["hidden.weight", "up"] == 4 * 60
    assert table.loc["norm1.running_mean", "holder"] == "server"
    text = fs.describe(fs.FedAvg(), fs.models.lstm(5, vocabulary=9, embedding=2, hidden=3, dense=4)).table
    assert text.set_index("leaf").loc["embedding.weight", "up"] == 4 * 9 * 2
    with pytest.raises(ValueError, match="no shape of inputs was found"):
        fs.describe(fs.FedAvg(), lambda: nn.Sequential(nn.Conv1d(4, 3, 2), nn.Flatten()))


def test_moves_hold_elements_still():
    """Fine-tuning under a mask changes exactly the elements it allows."""

    @dataclass(frozen=True, kw_only=True)
    class Masked(Method):
        def models(self, state, ids, federation=None):
            start = self.receive(state, ids)
            moves = {"hidden.weight": torch.arange(20).view(1, 1, 20) < 5}
            end = federation.train(self, start, ids, (Phase(("hidden.weight",), 3),), state.round, moves=moves)
            return {"tuned": self.predictor(end), "global": self.predictor(start)}

    result = run(Masked())
    models = Masked().models(result.states["it", 0], torch.arange(6), result.federations["it", 0])
    change = models["tuned"].params["hidden.weight"] != models["global"].params["hidden.weight"]
    assert change[..., :5].any((1, 2)).all()
    assert not change[..., 5:].any()
    assert len(trajectory(result, "global")) == len(trajectory(result, "tuned"))


def test_parts_of_messages_cost_what_is_selected():
    values = torch.zeros(2, 3, dtype=torch.float64)
    message = {"some": Selected(values, torch.tensor([[True, False, True]]))}
    assert fs.federated.codec.size(message).tolist() == [16, 16]
    assert slot({"a/b": values, "c": values}, "a").keys() == {"b"}


def test_fewer_clients_than_a_method_needs_are_refused():
    @dataclass(frozen=True, kw_only=True)
    class Pair(Method):
        fewest = 2

    with pytest.raises(ValueError, match="Pair needs at least 2 clients, there are 1"):
        run(Pair(), clients=vector_clients(1), model=fs.models.mlp(3, 5, 2))
    with pytest.raises(ValueError, match="checkpoint must be a whole number"):
        run(fs.FedAvg(), checkpoint=0)


def test_frozen_layers_of_one_seed_do_not_serve_another():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(3, 5), nn.Linear(5, 2)
            self.first.requires_grad_(False)

        def forward(self, x):
            return self.head(torch.tanh(self.first(x)))

    together = run(fs.FedAvg(), clients=vector_clients(), model=Frozen, seed=[0, 1])
    alone = run(fs.FedAvg(), clients=vector_clients(), model=Frozen, seed=1)
    for name, leaf in alone.states["it", 1].server.items():
        assert torch.equal(leaf, together.states["it", 1].server[name])


def test_a_longer_server_step_leaves_variances_positive():
    result = run(fs.FedAvg(server=fs.server.SGD(lr=3.0)), rounds=4)
    assert (result.states["it", 0].server["norm1.running_var"] > 0).all()


@pytest.mark.parametrize("name", fs.methods.available())
def test_every_built_in_method_is_described_saved_and_read_again(name, tmp_path):
    cls = fs.methods.find(name)
    method = cls(**cls.example)
    model = cls.example_model or fs.models.mlp(3, 5, 2)
    table = fs.describe(method, model, vector_clients()).table
    held = table[table["holder"] != "message"]
    assert (held.loc[held["holder"] == "client", "down"] == 0).all() or name in SERVED or name not in NAMED
    result = run(method, rounds=2, clients=vector_clients(), model=model, training=PLAIN)  # SCAFFOLD has no momentum
    result.save(tmp_path / "run")
    again = fs.load(tmp_path / "run", model)
    assert repr(again.methods["it"]) == repr(method) or name == "FedSplit"  # whose shared units are an array
    for group in ("server", "memory"):
        here, there = getattr(result.states["it", 0], group), getattr(again.states["it", 0], group)
        assert list(here) == list(there)
        assert all(torch.equal(here[leaf], there[leaf]) for leaf in here)


#: Methods whose server makes something of what clients keep, and sends it to them.
SERVED = {"ClusteredFL", "FactorizedFL", "FedAMP", "FedCAC", "FedFOMO", "FedPAC", "PFedGate"}


def test_a_folder_that_holds_another_run_is_refused(tmp_path):
    run(fs.FedAvg(), rounds=1, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run already; continue it with resume"):
        run(fs.FedAvg(), rounds=1, folder=tmp_path / "run")


def test_nothing_but_methods_is_called_by_reading_a_run(tmp_path):
    run(fs.FedAvg(), rounds=1, folder=tmp_path / "run")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w')")
    config = tmp_path / "run" / "config.toml"
    text = config.read_text().replace('"fedstat.methods.fedavg.FedAvg"', '"fedstat.methods.find"')
    config.write_text(text.replace("[methods.it]", f'[methods.it]\nname = "{tmp_path / "evil.py"}:X"'))
    relist(tmp_path / "run", lambda listed: listed["sha256"].update({"config.toml": sha256(config)}))
    assert fs.load(tmp_path / "run").methods == {}
    assert not (tmp_path / "done").exists()


def test_the_ensemble_of_confident_models_has_finite_losses():
    clients = fs.data.relu_mixture(clients=4, d=6, units=8, test=40, seed=0, balance="median")
    method = fs.FedSplit(shared_units={"hidden": np.zeros(5, dtype=bool), "head": np.zeros(1, dtype=bool)})
    model = fs.models.mlp(6, 5, 1)()
    with torch.no_grad():
        model.head.weight.mul_(1e4)
    result = run(method, clients=clients, model=model, training=fs.Training(lr=1e-6), dtype="float32")
    table = fs.newcomers(result, clients).query("estimand == 'ensemble' and metric == 'log_loss'")
    assert np.isfinite(table["value"]).all()


def test_steps_of_several_batches_never_hold_a_sample_twice():
    from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples
    from fedstat.federated.client.seeds import Seeds

    for n, b, g in ((10, 32, 2), (23, 5, 2), (23, 5, 3), (2, 1, 3)):
        x = np.zeros((1, n, 1))
        pool = StackedSamples.stack([fs.data.Samples.from_rows(x, np.zeros((1, n), dtype=int))], torch.float64, "cpu")
        steps = BatchOrders(b, pool, 0, group=g).order([Job(0, Seeds(0), 0)], 0, [2])[0]
        assert steps.shape[1] == g
        if n >= g:
            for step in steps:
                used = step[step >= 0]
                assert len(used) == len(set(used.tolist()))
            for epoch in np.split(steps, 2):
                assert sorted(epoch[epoch >= 0]) == list(range(n))


def test_a_common_test_set_measures_global_models_once_and_no_mean_over_clients_sees_it():
    own, rng = image_clients(), np.random.default_rng(1)
    x, y = rng.normal(size=(1, 30, 6, 6)), rng.integers(0, 4, (1, 30))
    clients = replace(own, common=fs.data.Samples.from_rows(x, y))
    methods = {"avg": fs.FedAvg(), "ditto": fs.methods.Ditto(), "per": fs.methods.FedPer()}
    options = {"rounds": 2, "participation": 0.5, "dtype": "float64", "seed": [0, 1]}
    result = fs.federate(methods, conv_net, clients, TRAINING, **options)
    common = result.history.query("split == 'common'")
    assert set(common["client"]) == {-1}
    assert set(common["estimand"]) == {"global"}
    assert set(common["method"]) == {"avg", "ditto"}
    assert not common.duplicated(["method", "seed", "round", "metric"]).any()
    for label in ("avg", "ditto"):
        network = result.personal(0, label, 1, "global")
        loss = nn.functional.cross_entropy(network(torch.from_numpy(x[0])), torch.from_numpy(y[0])).item()
        rows = common.query("method == @label and seed == 1 and round == 2").set_index("metric")["value"]
        assert rows["log_loss"] == pytest.approx(loss, abs=1e-10)
    alone = fs.federate(methods, conv_net, own, TRAINING, **options)
    assert str(fs.compare(result)) == str(fs.compare(alone))
    shared = fs.compare(result, split="common", metric="log_loss", last=1)
    assert "the global model on the common test set" in shared.estimand
    expected = common.query("method == 'ditto' and round == 2 and metric == 'log_loss'")["value"].mean()
    assert shared.summary.loc["ditto", "mean"] == pytest.approx(expected)
    with pytest.raises(ValueError, match="has none of split 'common'"):
        fs.compare(alone, split="common")


def test_validation_samples_are_evaluated_beside_the_test_samples():
    rng = np.random.default_rng(0)
    x, client = rng.normal(size=(120, 3)), np.repeat(np.arange(4), 30)
    clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), client, test=0.2, validation=0.3)
    options = {"rounds": 2, "seed": 1, "progress": False}

    def history(of, **more):
        return fs.federate(fs.FedAvg(), fs.models.mlp(3, 4, 2), of, fs.Training(lr=0.1), **options, **more).history

    both = history(clients, validate=True)
    for split in ("test", "validation"):
        alone = history(replace(clients, test=clients.splits[split], validation=None)).query("split == 'test'")
        np.testing.assert_array_equal(both.query("split == @split")["value"], alone["value"])
    pd.testing.assert_frame_equal(fs.compare(both).summary, fs.compare(history(clients)).summary)
    with pytest.raises(ValueError, match="validate needs clients with test and validation samples"):
        history(replace(clients, validation=None), validate=True)
