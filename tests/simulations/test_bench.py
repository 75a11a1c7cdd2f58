"""The bench: budgets are what they say, planted bests and planted differences are found, cells deal no sample twice."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat.federated.client.network import build
from fedstat.federated.plan import draw
from fedstat.tuning import runner
from simulations.bench import cells, runs
from simulations.bench.arms import CONTROLS, LEFT_OUT, absent, arms, controls
from simulations.bench.effects import against, effects
from simulations.bench.study import FIRST_TUNING_SEED, SCALES, Scale, run_cell
from tests.support.named import NAMED

E = 4
LAYERS = ("conv1", "conv2", "hidden")
EVERY = arms(E, 20, 20, LAYERS, ("convolutions", "norm layers", "numbers"))
SMALL = cells.digits(2, 2, (0.1,), clients=4)
AT_TUNING = runs.every_arm(SMALL)


# --- the arms --------------------------------------------------------------------------------------------------


def test_every_method_has_an_arm_or_a_reason_and_what_is_ambiguous_has_both_readings():
    used = {type(arm.method).__name__ for arm in EVERY.values()}
    assert absent().keys() == fs.methods.available().keys() - used
    assert absent().keys() & NAMED == LEFT_OUT.keys()
    readings = {}
    for arm in EVERY.values():
        if hasattr(arm.method, "reading"):
            readings.setdefault(type(arm.method).__name__, set()).add(arm.method.reading)
    assert readings == {name: {"code", "text"} for name in ("FedFac", "FactorizedFL", "FedDecomp")}
    assert len({arm.method for arm in EVERY.values()}) == len(EVERY) - 4  # the controls' longer versions


def passes(arm):
    """Count a client's epochs in a round over all copies of the network, as the method's own phases say."""
    network = build(fs.models.cnn(8, 10, norm=True), np.random.default_rng(0))
    network = arm.method.parameterize(network, np.random.default_rng(0))
    training = fs.Training(lr=0.1, local_epochs=arm.local_epochs or E)
    total = 0
    each = getattr(arm.method, "inner_steps", 1)  # pFedMe's gradients of a batch
    for phase in arm.method.phases(network, training, 2):  # FedALA mixes from the second round on, long in the second
        if phase.steps is None:  # APFL's single step of its share is no epoch
            copies = len({name.rpartition("/")[0] for name in phase.train if name.endswith("conv1.bias")})
            total += each * max(1, copies) * (training.local_epochs if phase.epochs is None else phase.epochs)
    return total


@pytest.mark.parametrize("label", EVERY)
def test_an_arm_trains_as_long_as_it_says_and_as_its_controls_do(label):
    arm = EVERY[label]
    assert passes(arm) == arm.models * E
    words = arm.epochs.partition(" (")[0]
    assert eval(words.replace("x", "*")) == arm.models * E
    assert arm.once == ("(+" in arm.epochs)
    by_kind = controls(label, arm)
    assert list(by_kind) == list(CONTROLS)
    for kind, control in by_kind.items():
        assert type(EVERY[control].method).__name__ == kind
        assert passes(EVERY[control]) == passes(arm)
        assert not EVERY[control].once or arm.method.fine_tune == EVERY[control].method.fine_tune == E


@pytest.mark.parametrize("label", [label for label, arm in EVERY.items() if arm.tuned])
def test_the_default_lies_in_the_middle_of_what_is_tried(label):
    arm = EVERY[label]
    for name, values in arm.tuned.items():
        assert values[1] == getattr(arm.method, name)
        order = [getattr(value, "q", value) for value in values]
        assert order == sorted(order)
        for setting, value in zip(arm.settings, (values[0], values[2]), strict=True):
            assert getattr(arm.at(setting), name) == value
            untouched = {other: getattr(arm.method, other) for other in arm.tuned}
            assert replace(arm.at(setting), **untouched) == arm.method
    assert arm.at("") is arm.method


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTROLS)
def test_a_control_of_two_budgets_is_the_control_trained_twice_as_long(kind):
    longer = runs.measure(runs.Trial(SMALL, f"{kind}, 2E", 0.1, "", (1,), "cpu"))["accuracy"]
    twice = replace(SMALL, local_epochs=2 * SMALL.local_epochs)
    plain = runs.measure(runs.Trial(twice, kind, 0.1, "", (1,), "cpu"))["accuracy"]
    pd.testing.assert_frame_equal(longer.drop(columns="arm"), plain.drop(columns="arm"))


# --- tuning ----------------------------------------------------------------------------------------------------

#: Planted: the best rate, what the two settings add to the default, and the rate from which on training diverges.
TRUTH = {
    "Local": (0.1, (), 9.0),
    "FedPer": (0.01, (), 9.0),  # outside the first grid
    "Ditto": (0.1, (0.2, 0.1), 9.0),
    "FedRoD": (0.3, (0.0, 0.0), 0.5),
    "FedCAC": (0.1, (-0.1, 0.3), 9.0),
    "APFL": (1e9, (0.0, 0.1), np.inf),  # the best rate is never reached
    "FedPAC": (0.1, (0.1, 0.2), 0.0),  # diverges everywhere
}


def planted(runner, name, trials, seeds, fresh):
    """Stand in for `Runner._together`: answer for each trial what is planted, with noise over seeds that cancels."""
    found = {}
    for trial in trials:
        lr, setting = trial.values["lr"], trial.values.get("setting", "")
        (arm,) = [label for label in TRUTH if setting in ("", *AT_TUNING[label].settings)
                  and AT_TUNING[label].at(setting) == trial.method]  # fmt: skip
        best, gains, limit = TRUTH[arm]
        gain = gains[AT_TUNING[arm].settings.index(setting)] if setting else 0.0
        mean = np.nan if lr >= limit else 0.5 + gain - 0.01 * abs(np.log(lr / best))
        # under one seed alone a rate that diverges elsewhere may look good
        values = [mean + noise if noise or np.isfinite(mean) else 0.99 for noise in (-0.1, 0.0, 0.1)]
        found[trial.label] = pd.DataFrame({"validation": values}, index=pd.Index(seeds, name="seed"))
        rows = {"trial": trial.label, "seed": seeds, "value": values, "split": "validation", "metric": "accuracy"}
        runner.scores.append(pd.DataFrame(rows).assign(fresh=fresh))
        runner.counts.append({"fresh": fresh, "trials": 1, "runs": len(seeds), "rounds": runner.rounds})
    return found


def test_tuning_finds_planted_bests_and_reports_what_diverges(monkeypatch, tmp_path):
    def here(parts, out, what):
        return {"tuning": pd.concat([part.compute()["tuning"] for part in parts], ignore_index=True)}

    monkeypatch.setattr(runner.Runner, "_together", planted)
    monkeypatch.setattr(runs, "run_parts", here)
    table, chosen = runs.tuned(replace(SMALL, rates=(0.03, 0.1, 0.3)), list(TRUTH), (1, 2, 3), "cpu", tmp_path)
    assert chosen["Local"] == (0.1, "")
    assert chosen["FedPer"][0] == pytest.approx(0.01, rel=0.15)
    assert chosen["Ditto"] == (0.1, "penalty = 0.15")
    assert chosen["FedRoD"] == (0.3, "")  # of equal settings the default
    assert chosen["FedCAC"] == (0.1, "tau = 0.75")
    assert chosen["APFL"][1] == "alpha = 0.75"
    assert "FedPAC" not in chosen
    assert set(table["arm"]) == set(TRUTH)  # not even the one that is lost is dropped
    assert table.groupby("arm")["end"].any().to_dict() == {arm: arm == "APFL" for arm in TRUTH}
    picked = table[table["chosen"]].groupby("arm")[["lr", "setting"]].agg(["first", "nunique"])
    assert (picked["lr", "nunique"] == 1).all()
    assert {arm: (row["lr", "first"], row["setting", "first"]) for arm, row in picked.iterrows()} == chosen
    assert not table.duplicated(["arm", "lr", "setting", "seed"]).any()


@pytest.mark.slow
def test_tuning_sees_no_test_sample_and_other_seeds_than_the_results(monkeypatch):
    seen = []

    def spy(*args, **how):
        clients = how["clients"] if "clients" in how else args[2]
        seen.append([draw(clients, s, s) for s in how["seed"]])
        raise FloatingPointError

    monkeypatch.setattr(runner, "federate", spy)
    monkeypatch.setattr(runs.fs, "federate", spy)
    runs.tune(runs.Trial(replace(SMALL, rates=(1.0, 2.0)), "Local", 1.0, "", (5,), "cpu"))
    runs.measure(runs.Trial(SMALL, "Local", 2.0, "", (5,), "cpu"))
    (tuning,), (result,) = seen[0], seen[-1]
    assert tuning.test is None
    assert not rows_of(tuning, ("train", "validation")) & rows_of(result, ("test",))
    assert rows_of(tuning, ("validation",)) == rows_of(result, ("validation",))
    for scale in SCALES.values():
        assert min(scale.every_tuning_seed) >= FIRST_TUNING_SEED
        assert all(max(scale.seeds_of(cell)) < FIRST_TUNING_SEED for cell in scale.cells)


# --- divergence ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_arm_that_diverges_is_reported_with_a_smaller_rate_or_without_numbers():
    wild = runs.Trial(SMALL, "FedPer", 1e30, "", (1, 2), "cpu")
    tried = runs.tune(replace(wild, cell=replace(SMALL, rates=(1e29, 1e30))))["tuning"]
    assert tried["accuracy"].isna().all()
    assert not tried["chosen"].any()
    tamed = runs.measure(wild, (0.03, 0.1))
    assert tamed["costs"]["lr"].item() == 0.1
    assert tamed["accuracy"]["value"].notna().all()
    lost = runs.measure(wild, (1e29,))
    assert lost["accuracy"]["value"].isna().all()
    whole = [runs.measure(runs.Trial(SMALL, arm, 0.1, "", (1, 2), "cpu")) for arm in CONTROLS]
    tables = {name: pd.concat([some[name] for some in (*whole, lost)]) for name in lost}
    found = effects(tables)
    assert not any("FedPer" in key for key in found)
    assert ("accuracy", "digits", "FedAvg", "Local") in found


# --- what is compared ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", SCALES["desk"].cells, ids=lambda cell: cell.name)
def test_planted_differences_are_found_within_budget_and_null_ones_are_not_claimed(cell):
    every = runs.every_arm(cell)
    budget = {"one": 0.0, "two": 0.2, "three": 0.3}  # longer training helps everybody alike
    planted = {"FedPer": 0.1, "FedDecomp text": -0.1, "FedEM": 0.1}
    rng = np.random.default_rng(4)
    common = rng.normal(scale=0.05, size=cell.seeds)  # what runs under one seed share
    rows, costs = [], []
    for label, arm in every.items():
        level = 0.4 + budget[runs.BUDGETS[arm.models]] + planted.get(label, 0.0)
        values = level + common + rng.normal(scale=0.005, size=cell.seeds)
        rows += [(label, seed, value, "personal", True, "accuracy", cell.name) for seed, value in enumerate(values)]
        told = {f"control_{k.lower()}": c for k, c in controls(label, arm).items()}
        longer = {"budget": runs.BUDGETS[arm.models], "times": arm.models, "test_to_train": 0.02}
        costs.append({"arm": label, "cell": cell.name, **told, **longer})
    accuracy = pd.DataFrame(rows, columns=["arm", "seed", "value", "estimand", "own", "metric", "cell"])
    tables = {"accuracy": accuracy, "costs": pd.DataFrame(costs)}
    found = against(tables, effects(tables), cell.name)
    assert set(found) == {
        (label, kind) for label, arm in every.items() for kind, other in controls(label, arm).items() if other != label
    }
    for kind in CONTROLS:
        clear = {arm for (arm, of), effect in found.items() if of == kind and (effect.low > 0 or effect.high < 0)}
        assert clear == set(planted)
        assert all(found[arm, kind].low < 100 * truth < found[arm, kind].high for arm, truth in planted.items())
        assert found["FedPer", kind].correlation > 0.9


@pytest.mark.parametrize("rounds", [(10,), (9, 10)])
def test_only_an_arms_own_estimand_has_all_metrics_and_what_it_gains_where_two_late_rounds_tell(rounds):
    rows = [
        (estimand, 1, metric, t, client, 0.5 + client + 0.25 * (t - np.mean(rounds)))
        for estimand in ("personal", "global")
        for metric in ("accuracy", "log_loss", "top")
        for t in rounds
        for client in (0, 2)
    ]
    table = runs.summaries(pd.DataFrame(rows, columns=["estimand", "seed", "metric", "round", "client", "value"]))
    found = table.set_index(["estimand", "metric", "own"])["value"].to_dict()
    means = {("personal", "accuracy", True), ("personal", "log_loss", True), ("global", "accuracy", False)}
    assert found.pop(("personal", "gain", True), None) == (0.5 if len(rounds) > 1 else None)  # a fifth is two rounds
    assert found == dict.fromkeys(means, 1.5)  # clients count alike


# --- the cells -------------------------------------------------------------------------------------------------


def rows_of(clients, splits=("train", "validation", "test")):
    """Return the inputs of all clients' samples in some splits, as bytes."""
    return {row for some in inputs_of(clients, splits) for row in some}


def inputs_of(clients, splits=("train", "validation", "test")):
    """Return each client's inputs as bytes."""
    parts = [getattr(clients, split) for split in splits]
    return [
        [row.tobytes() for part in parts if part is not None for row in np.asarray(part.client(k)[0])]
        for k in range(len(clients))
    ]


@pytest.fixture
def made_up(monkeypatch):
    """Put unlike images in the place of CIFAR-10's, and text without repetition in the place of Shakespeare's."""
    rng = np.random.default_rng(0)
    x, y, test = rng.normal(size=(700, 3, 32, 32)).astype(np.float32), np.arange(700) % 10, np.arange(700) % 3 == 0
    monkeypatch.setattr(cells, "images", lambda name: (x, y, test))
    monkeypatch.setattr(cells, "halved", lambda name: (x[..., ::2, ::2].copy(), y, test))
    lengths = (900, 1500, 700, 1200)
    texts = [np.arange(n) + 10_000 * k for k, n in enumerate(lengths)]
    windows = [np.lib.stride_tricks.sliding_window_view(text, 81) for text in texts]
    roles = np.repeat(np.array(["A", "B", "C", "D"], dtype=object), [len(w) for w in windows])
    every = np.concatenate(windows)
    order = np.argsort(rng.random(len(texts)))  # roles need not lie in the order of their size
    every = np.concatenate([every[roles == "ABCD"[k]] for k in order])
    roles = np.concatenate([roles[roles == "ABCD"[k]] for k in order])
    text = SimpleNamespace(
        x=every[:, :80], y=every[:, 80] % 80, groups={"role": roles}, classes=tuple(map(chr, range(80)))
    )
    monkeypatch.setattr(cells.datasets, "read", lambda name: text)
    cells._texts.cache_clear()
    yield text
    cells._texts.cache_clear()


def small(cell):
    """Return a cell with few clients."""
    return replace(cell, clients=3, samples={"digits": None, "images": 12, "roles": 12}[cell.name])


@pytest.mark.parametrize("cell", SCALES["desk"].cells, ids=lambda cell: cell.name)
def test_no_sample_is_dealt_twice(made_up, cell):
    cell = small(cell)
    clients = cells.populate(cell, 7)
    dealt = [row for own in inputs_of(clients) for row in own]
    assert len(set(dealt)) == len(dealt)
    assert len(dealt) == {"digits": 1797, "images": 57, "roles": 36}[cell.name]
    again, other = cells.populate(cell, 7), cells.populate(cell, 8)
    assert inputs_of(again) == inputs_of(clients)
    assert inputs_of(other) != inputs_of(clients)


def test_roles_are_those_with_most_text_under_every_seed_and_no_character_is_used_twice(made_up):
    cell = small(SCALES["desk"].cells[2])
    for seed in (7, 8):
        clients = cells.populate(replace(cell, samples=None), seed)
        used, owners = [], []
        for k in range(len(clients)):
            for split in (clients.train, clients.validation, clients.test):
                x, y = (np.asarray(part) for part in split.client(k))
                following = x[:, -1] + 1
                assert (following % 80 == y).all()  # the target is the character after the sample's
                used.append(np.column_stack([x, following]).ravel())
                owners.append(set(x.ravel() // 10_000))
        used = np.concatenate(used)
        assert len(np.unique(used)) == len(used)
        assert owners == [{1}] * 3 + [{3}] * 3 + [{0}] * 3  # B, D, A


def test_tokens_beyond_the_vocabulary_do_not_occur(made_up):
    cell = small(SCALES["desk"].cells[2])
    network = build(cells.network(cell), np.random.default_rng(0))
    assert network.shapes["head.weight"][0] == 80


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:kappa")  # three clients identify few factors
@pytest.mark.parametrize("cell", SCALES["paper"].cells, ids=lambda cell: cell.name)
def test_the_papers_arms_and_networks_can_be_built(made_up, cell):
    made_up.x %= 80
    # few and short samples: the number of weights does not depend on their length
    few = replace(small(cell), samples=6 if cell.name == "roles" else None, length=min(cell.length, 3))
    clients = cells.populate(few, 0)
    network = cells.network(few)
    every = arms(cell.local_epochs, cell.rounds, cell.clients, cells.split_layers(cell), cells.offered(cell))
    assert len(every) == (43 if cell.name == "roles" else 50)
    for arm in every.values():
        for setting in ("", *(arm.settings[:1] if cell.name == "digits" else ())):
            assert len(fs.describe(arm.at(setting), network, clients).table)
    attention = every["FedAMP"].tuned["alpha"][2] * (cell.clients - 1)
    assert attention <= fs.methods.FedAMP.scale


@pytest.mark.slow
def test_the_tables_have_the_columns_that_chapter_and_chooser_read(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "run_parts", one_by_one)
    monkeypatch.setattr("simulations.bench.study.run_parts", one_by_one)
    tables = run_cell(Scale((SMALL,), tuning_seeds=1, dataset="digits", arms=(*CONTROLS, "FedBN")), SMALL, tmp_path)
    assert {name: list(table) for name, table in tables.items()} == {
        "tuning": ["cell", "arm", "lr", "setting", "seed", "accuracy", "chosen", "end"],
        "accuracy": ["cell", "arm", "estimand", "own", "seed", "metric", "value"],
        "costs": [
            "cell", "arm", "lr", "setting", "epochs", "times", "budget", "control_local", "control_fedavg", "up",
            "down", "state", "clients", "rounds", "test_to_train",
        ],
    }  # fmt: skip
    costs = tables["costs"].set_index("arm")
    network = build(cells.network(SMALL), np.random.default_rng(0))
    floats = sum(int(np.prod(shape)) for shape in network.shapes.values())
    norm = sum(int(np.prod(network.shapes[leaf])) for leaf in network.norm_leaves)
    assert costs.loc["FedAvg", ["up", "down", "state"]].tolist() == [4 * floats, 4 * floats, 0]
    assert costs.loc["Local", ["up", "down", "state"]].tolist() == [0, 0, 4 * floats]
    assert costs.loc["FedBN", ["up", "down", "state"]].tolist() == [4 * (floats - norm), 4 * (floats - norm), 4 * norm]


def one_by_one(parts, out, what):
    """Stand in for `run_parts` without workers and cache."""
    tables = [part.compute() for part in parts]
    return {name: pd.concat([some[name] for some in tables], ignore_index=True) for name in tables[0]}
