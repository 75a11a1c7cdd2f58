"""Outputs that are no numbers: they make missing values, which are counted and over which no mean passes."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat.demo import _rows
from fedstat.experiment.summaries import per_client, summarise
from fedstat.federated.client.local import Learner
from fedstat.federated.metrics import standard
from fedstat.federated.record.progress import in_brief
from fedstat.inference import compare, primary_summary
from fedstat.inference.reading.missing import complete_mean
from simulations.parts import complete

TASKS = {"cross_entropy": torch.tensor([[0, 1, 1], [0, 1, 1]]), "squared": torch.zeros(2, 3)}


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("loss", TASKS)
def test_an_output_that_is_no_number_makes_all_of_its_clients_metrics_missing(loss, wrong):
    torch.manual_seed(0)
    outputs = torch.randn(2, 3, 2 if loss == "cross_entropy" else 1, dtype=torch.float64)
    valid = torch.tensor([[True, True, True], [True, True, False]])
    right = standard(Learner(None, loss), outputs, TASKS[loss], valid)
    outputs[1, 2, 0] = wrong  # padding
    for name, values in standard(Learner(None, loss), outputs, TASKS[loss], valid).items():
        assert torch.equal(values, right[name])
    outputs[0, 1, 0] = wrong
    for name, values in standard(Learner(None, loss), outputs, TASKS[loss], valid).items():
        assert values[1] == right[name][1]
        assert values[0].isnan()


def test_a_loss_may_be_infinite_where_outputs_are_not():
    outputs = torch.tensor([[[1e308, -1e308], [0.0, 1.0]]], dtype=torch.float64)
    found = standard(
        Learner(None, "cross_entropy"), outputs, torch.tensor([[1, 1]]), torch.ones(1, 2, dtype=torch.bool)
    )
    assert found["log_loss"].isposinf().all()
    assert found["accuracy"] == 0.5


class Times(nn.Module):
    """One weight of `start`; outputs are the input times it, and the same negative."""

    def __init__(self, start=10.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([start]))

    def forward(self, x):
        return torch.cat([x * self.weight, -x * self.weight], dim=1)


def overflowing(seed=0):
    """Four clients; ten times the largest input of client 2's test samples is no float32."""
    x = np.random.default_rng(seed).normal(size=(40, 1))
    clients = fs.data.from_arrays(x, np.arange(40) % 2, np.repeat(np.arange(4), 10))
    clients.test.client(2)[0][0] = 3e38
    return clients


def test_outputs_that_overflow_are_missing_and_every_consumer_counts_them(capsys):
    def run(clients):
        methods = [fs.FedAvg(), fs.Local()]
        return fs.federate(
            methods, Times, clients, fs.Training(lr=0.0), rounds=3, seed=range(3), evaluate_at=[2, 3], progress=False
        )

    words = "6 of 24 values of accuracy are missing (6 infinite or NaN), the first at client 2 under seed 0"
    with pytest.warns(RuntimeWarning, match=r"(FedAvg|Local): 6 of 24 values of log_loss are missing"):
        broken = run(overflowing).history
    gone = broken[broken["value"].isna()]
    assert set(gone["client"]) == {2}
    assert set(gone["metric"]) == {"accuracy", "balanced_accuracy", "log_loss"}
    assert len(gone) == 2 * 3 * 2 * 3
    found = compare(broken)
    assert found.summary[["mean", "sd over seeds"]].isna().all(axis=None)
    assert list(found.summary["seeds"]) == [3, 3]
    assert found.differences.empty
    assert f"FedAvg: {words}; the method has no mean" in " ".join(str(found).split())
    assert "accuracy: FedAvg missing (means" in in_brief(
        [broken[broken["estimand"] == "global"].assign(round=1)], 1, 1, 0.0
    )


def history(values, method="A", **more):
    """Rows of (seed, round, client)."""
    rows = [
        {"method": method, "seed": s, "round": t + 1, "client": k, "estimand": "personal", "split": "test",
         "metric": "accuracy", "value": value} | more
        for (s, t, k), value in np.ndenumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize("wrong", [np.nan, pytest.param(np.inf, marks=pytest.mark.slow)])
def test_comparisons_take_no_mean_over_the_rest(wrong):
    rng = np.random.default_rng(0)
    values = {label: rng.random((3, 12, 4)) for label in ("A", "B", "FedAvg")}
    whole = pd.concat([history(of, label) for label, of in values.items()])
    values["B"][1, 8, 3] = wrong
    broken = pd.concat([history(of, label) for label, of in values.items()])
    found, right = compare(broken), compare(whole)
    assert np.isnan(primary_summary(broken, "accuracy")["B"]).tolist() == [False, True, False]
    assert np.isnan(found.summary.loc["B", "mean"])
    pd.testing.assert_series_equal(found.summary["mean"].drop("B"), right.summary["mean"].drop("B"))
    np.testing.assert_array_equal(found.differences["difference"], right.differences["difference"].iloc[:1])
    assert found.summary.loc["B", "missing"].startswith("1 of 120 values of accuracy are missing")
    assert "B: 1 of 120 values" in str(found)
    assert [len(row) for row in _rows(found)] == [6, 6, 6]
    assert "1 of 120" in _rows(found)[1][0]
    # a round before the window is no part of the summary
    values["B"][1, 8, 3], values["B"][1, 0, 0] = 0.5, wrong
    assert "missing" not in compare(pd.concat([history(of, label) for label, of in values.items()])).summary
    # without the control there is nothing to compare with
    values["FedAvg"][0, 11, 0] = wrong
    assert compare(pd.concat([history(of, label) for label, of in values.items()])).differences.empty
    # what was not run is not missing
    short = compare([history(values["A"], "A"), history(values["A"][:2] / 2, "B")])
    assert list(short.summary["seeds"]) == [3, 2]
    assert short.summary["mean"].notna().all()


def test_summaries_and_lines_for_clients_take_no_mean_over_the_rest():
    rng = np.random.default_rng(1)
    values, sizes = rng.random((2, 14, 3)), {0: np.ones(3), 1: np.ones(3)}
    sent = pd.DataFrame({"method": "A", "seed": [0, 1], "round": 1, "client": 0, "bytes_up": 14, "bytes_down": 0})
    right = summarise(history(values), sent, sizes, np.full(3, 9), compare(history(values), last=5), last=5)
    values[1, 2, 1] = np.nan  # long before the last rounds
    offered = history(values[:, 13:, :], metric="mse")
    offered.loc[4, "value"] = np.inf
    rows = pd.concat([history(values), history(values, metric="log_loss")], ignore_index=True)
    found = summarise(rows, sent, sizes, np.full(3, 9), compare(rows, last=5), last=5, newcomers=offered)
    papers, before = (of.papers.set_index("summary")["mean"] for of in (found, right))
    assert "missing" not in found.comparison.summary
    last = papers.index.str.contains("last")
    assert papers[~last].isna().all()  # a round that is missing might have been the best
    np.testing.assert_allclose(papers[last], before[last])
    assert "A, as the papers summarise it: 1 of 84 values of accuracy are missing" in str(found)
    assert np.isnan(found.newcomers.loc[0, "mean"])
    assert "A, new clients: 1 of 6 values of mse are missing" in str(found)
    table = found.table()
    assert table.loc[table["mean"].isna(), "missing"].str.contains("of").all()
    assert "missing" not in right.table()

    rows.loc[rows.eval("round == 12 and client == 0 and metric == 'log_loss'"), "value"] = np.nan
    late = summarise(rows, sent, sizes, np.full(3, 9), compare(rows, last=5), last=5)
    assert np.isnan(late.beside.loc["A", "log_loss"])
    assert "A, beside the primary summary: 2 of 30 values of log_loss are missing" in str(late)
    names = {seed: pd.DataFrame({"name": [*"abc"]}) for seed in (0, 1)}
    lines = per_client(rows, sent, names, 5)
    assert len(lines) == 6
    assert lines["log_loss"].isna().tolist() == [True, False, False] * 2
    assert lines["accuracy"].notna().all()
    assert len(per_client(rows.assign(value=np.nan), sent, names, 5)) == 6  # a client without numbers keeps its line


def test_a_complete_mean_is_pandas_mean():
    rows = history(np.random.default_rng(2).random((3, 4, 5)))
    expected = rows.groupby(["seed", "client"])["value"].mean()
    pd.testing.assert_series_equal(complete_mean(rows, ["seed", "client"]), expected)


class Kept(nn.Module):
    """A layer, and a weight of large numbers that does nothing."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.full((4,), 3e38))
        self.head = nn.Linear(1, 2)

    def forward(self, x):
        return self.head(x)


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_weights_that_are_finite_train_though_their_sum_is_not(executor):
    clients = fs.data.from_arrays(np.ones((8, 1)), np.arange(8) % 2, np.arange(8) // 4)
    result = fs.federate(fs.FedAvg(), Kept, clients, fs.Training(lr=0.1), rounds=2, executor=executor, progress=False)
    assert result.history["value"].notna().all()


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_running_statistics_that_overflow_are_divergence(executor):
    clients = fs.data.from_arrays(1e30 * np.arange(8.0)[:, None], np.arange(8) % 2, np.arange(8) // 4)
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2))
    with pytest.raises(FloatingPointError, match=r"client 0 \(seed 0\) became infinite or NaN in round 1"):
        fs.federate(fs.FedAvg(), model, clients, fs.Training(lr=0.1), rounds=1, executor=executor, progress=False)


@pytest.mark.parametrize("split", ["train", "validation", "test", "common"])
@pytest.mark.parametrize("name", ["x", "y"])
def test_numbers_that_the_floating_type_cannot_hold_are_refused_by_split_and_client(split, name):
    x, y = np.ones((12, 2)), np.linspace(0, 1, 12)
    clients = fs.data.from_indices(
        x, y, [np.arange(6), np.arange(6, 11)], validation=0.2, names=["ann", "bob"], common=[11]
    )
    values = getattr(clients.all_splits[split], name)
    values[(clients.all_splits[split].start[-1], *[1] * (values.ndim - 1))] = -1e300
    whose = "" if split == "common" else " of client bob"
    message = rf"{name} must be at most 3\.403e\+38 in float32, but {split} sample 0{whose} holds -1e\+300.*float64"
    run = {"rounds": 1, "progress": False}
    with pytest.raises(ValueError, match=message):
        fs.federate(fs.FedAvg(), fs.models.mlp(2, 1), clients, fs.Training(lr=0.0), **run)


def test_a_study_takes_missing_values_for_divergence():
    with pytest.warns(RuntimeWarning, match="values of log_loss are missing"):
        result = fs.federate(fs.FedAvg(), Times, overflowing(), fs.Training(lr=0.0), rounds=1, progress=False)
    with pytest.raises(FloatingPointError, match="FedAvg: 1 of 4 values of accuracy are missing"):
        complete(result)
