"""Tuning: planted optima, no look at test samples, the budget, the optimism of a choice, and what is refused."""

import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

import fedstat as fs
from fedstat.data import Clients
from fedstat.data.clients import Samples
from fedstat.tuning.outcome import excess

STILL = fs.Training(lr=0.0, batch_size=4)
MOVING = fs.Training(lr=0.1, local_epochs=2)  # in one step FedProx's mu would change nothing


@dataclass(frozen=True, kw_only=True)
class Planted(fs.Method):
    """A method whose score is a known function of its parameters, plus noise of each seed and setting."""

    a: float = 0.0
    b: float = 0.0
    noise: float = 0.0

    def init(self, network, federation):
        """Let the bias, which is the score, be largest at a = 2, b = 1; nothing trains at rate zero."""
        state = super().init(network, federation)
        drawn = np.random.default_rng([int(federation.rng.integers(2**31)), int(1000 * self.a), int(1000 * self.b)])
        value = -((self.a - 2) ** 2) - (self.b - 1) ** 2 if not self.noise else self.noise * drawn.normal()
        return replace(state, server={**state.server, "bias": torch.full((1,), value)})


def score(outputs, _y):
    """Return the mean output."""
    return float(np.mean(np.asarray(outputs)))


def still(seed=0, test=0.0, k=2, n=4):
    """Clients without signal: the output is the bias."""
    x, y = np.zeros((k, n, 1), np.float32), np.zeros((k, n), np.float32)
    held = Samples.from_rows(x, y)
    return Clients(held, Samples(held.x, held.y + np.float32(test), held.n), held)


def known_by_seed(seed):
    """As `still`, with the seed as the target of all validation samples."""
    clients = still(test=float(seed))
    return replace(clients, validation=clients.test)


#: Grids stay as they are; their growth has tests of its own.
PLANTED = dict(rounds=1, seed=range(2), growths=0, metric="score", metrics={"score": score}, last=1, progress=False)
GRID = {"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 5.0]}


def planted(method=Planted, grid=GRID, clients=still, training=STILL, **how):
    """Tune the planted method."""
    return fs.tune(method, grid, partial(nn.Linear, 1, 1), clients, training, **{**PLANTED, **how})


def labelled(seed, shuffled=False, n=160):
    """Two classes that a line separates, over four clients."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    drawn = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(n) % 4, test=0.3, validation=0.3, seed=seed)
    if not shuffled:
        return drawn
    return replace(drawn, test=replace(drawn.test, y=1 - drawn.test.y))


def learned(clients=labelled, grid=None, **how):
    """Tune rates on real training."""
    grid = {"lr": [0.003, 0.1, 1.0], "mu": [0.01, 10.0]} if grid is None else grid
    settings = {"rounds": 3, "seed": range(2), "growths": 0, "last": 2, "order": ("lr", "mu"), "progress": False, **how}
    return fs.tune(fs.methods.find("FedProx"), grid, fs.models.mlp(3, 4, 2), clients, MOVING, **settings)


@pytest.mark.parametrize(
    "method", [Planted, Planted(), partial(Planted, noise=0.0), lambda a=0.0, b=0.0: Planted(a=a, b=b)]
)
def test_the_planted_optimum_is_found_and_built(method):
    found = planted(method)
    assert found.best == {"a": 2.0, "b": 1.0}
    assert (found.method.a, found.method.b) == (2.0, 1.0)
    assert found.table["chosen"].sum() == 1
    assert len(found.table) == 12
    assert found.ends == {}  # neither 2 of 0..3 nor 1 of 0, 1, 5 is an end


def test_one_after_the_other_equals_the_full_grid_where_effects_add_up_and_costs_less():
    full, steps = planted(), planted(order=("a", "b"))
    assert steps.best == full.best
    assert steps.budget.loc["tuning", "trials"] == 4 + 2  # b = 0 was the start and ran in the first step
    assert full.budget.loc["tuning", "trials"] == 12
    assert planted(order=(("b", "a"),)).best == full.best
    assert steps.table.groupby("step")["chosen"].sum().tolist() == [1, 1]
    assert steps.table["ran before"].sum() == 1


def test_less_is_better_of_losses_and_the_first_of_equals_is_taken():
    assert planted(higher=False).best == {"a": 0.0, "b": 5.0}
    assert planted(metric="brier", metrics={"brier": score}).best == {"a": 0.0, "b": 5.0}  # a loss by its name
    squared = planted(metric="mse", metrics=())  # the square of the score
    assert squared.best == {"a": 2.0, "b": 1.0}
    equal = planted(grid={"a": [3.0, 1.0]})
    assert equal.best == {"a": 3.0}
    assert equal.ends == {"a": 3.0}
    assert planted(grid={"a": [2.0, 3.0]}).ends == {"a": 2.0}
    # beyond an end a value must be better, not as good
    flat = planted(Planted(a=2.0, b=1.0), {"lr": [1e-3, 1e-4, 1e-5]}, growths=3)
    assert (flat.best, flat.budget.loc["tuning", "trials"]) == ({"lr": 1e-3}, 4)


def test_a_later_step_keeps_what_was_better_outside_its_grid():
    found = planted(Planted(b=1.0), {"a": [0.0, 2.0], "b": [5.0, 9.0]}, order=("a", "b"))
    assert found.best == {"a": 2.0, "b": 1.0}
    assert found.table["mean"][found.table["chosen"]].tolist() == [0.0, 0.0]
    assert found.ends == {"a": 2.0}
    whole = planted(grid={"a": np.array([1.0, 2.0, 4.0], np.float32), "b": [0.0, 1.0]}, growths=1)
    assert whole.best == {"a": 2.0, "b": 1.0}
    assert type(whole.best["a"]) is float


@dataclass(frozen=True, kw_only=True)
class Peaked(Planted):
    """A method whose score falls with the distance of log a to that of the peak; beyond 0.1 there is none."""

    peak: float = 1.0

    def init(self, network, federation):
        state = super().init(network, federation)
        value = float("nan") if self.a > 0.1 else 1 - abs(np.log(self.a / self.peak))
        return replace(state, server={**state.server, "bias": torch.full((1,), value)})


def test_grids_grow_by_their_ratio_until_the_best_lies_inside_or_three_times():
    peaks = {"inside": 3e-3, "low": 3.3e-4, "high": 5.0, "far": 1e-9}
    found = planted({arm: Peaked(peak=peak) for arm, peak in peaks.items()}, {"a": [1e-3, 3e-3, 9e-3]}, growths=3)
    assert {arm: one.best["a"] for arm, one in found.items()} == {
        "inside": 3e-3, "low": 3.3e-4, "high": 0.081, "far": 3.7e-5
    }  # fmt: skip
    assert {arm: one.grown.get("a") for arm, one in found.items()} == {
        "inside": None, "low": (1.1e-4, 3.3e-4), "high": (0.027, 0.081, 0.24), "far": (3.7e-5, 1.1e-4, 3.3e-4)
    }  # fmt: skip
    assert {arm: one.ends for arm, one in found.items() if one.ends} == {"far": {"a": 3.7e-5}}
    assert {arm: one.budget.loc["tuning", "trials"] for arm, one in found.items()} == {
        "inside": 3, "low": 5, "high": 6, "far": 6
    }  # fmt: skip
    assert "grew, 3 times at most, by 0.00011, 0.00033." in str(found["low"])
    assert "low a = 0.00033 (one of 5 trials; a grew by 0.00011, 0.00033)" in found.sentence
    assert found.sentence.endswith("unequal budgets of trials")


def test_whole_numbers_stay_whole_and_what_is_refused_or_unevenly_spaced_does_not_grow():
    assert planted(grid={"a": [8, 16]}, growths=3).grown == {"a": (1, 2, 4)}
    assert planted(grid={"a": [5, 15]}, growths=3).grown == {}
    for some in ([0.0, 1.0], [1.0, 1.5, 1.8]):
        assert planted(grid={"a": some}, growths=3).grown == {}
    refused = planted(Planted(a=2.0), {"momentum": [0.9, 0.3], "b": [0.25, 0.5]}, growths=1)  # no momentum is above 1
    assert refused.grown == {"b": (1.0,)}
    assert refused.ends == {"momentum": 0.9, "b": 1.0}
    together = planted(grid={"a": [0.5, 1.0], "b": [0.25, 0.5]}, growths=3)
    assert together.best == {"a": 2.0, "b": 1.0}
    assert len(together.table) == 4 * 4


def test_growth_makes_later_steps_start_from_the_grown_value_and_trials_run_once(tmp_path):
    how = {"grid": {"a": [0.5, 1.0], "b": [0.0, 1.0]}, "order": ("a", "b"), "growths": 2, "folder": tmp_path}
    found = planted(**how)
    assert found.best == {"a": 2.0, "b": 1.0}
    assert found.budget.loc["tuning", "trials"] == 4 + 1
    assert {place.name for place in tmp_path.iterdir()} >= {"step 1", "step 1, growth 1", "step 1, growth 2", "step 2"}
    assert str(planted(**how)) == str(found)


def test_several_arms_are_each_tuned_as_if_alone():
    grids = {"FedAvg": {"lr": [0.003, 0.1]}, "FedProx": {"lr": [0.003, 0.1], "mu": [0.01, 10.0]}}
    how = dict(rounds=3, seed=range(2), last=2, fresh=(10, 11), growths=1, progress=False)
    methods, model = [fs.FedAvg(), fs.methods.FedProx()], fs.models.mlp(3, 4, 2)
    found = fs.tune(methods, grids, model, labelled, MOVING, **how)
    for method, label in zip(methods, grids, strict=True):
        assert str(found[label]) == str(fs.tune(method, grids[label], model, labelled, MOVING, **how))
    assert found.method["FedProx"].mu == found["FedProx"].best["mu"]
    again = fs.federate(found.method, model, labelled, found.training, rounds=3, seed=range(2), validate=True)
    rows = again.history.query("split == 'validation' and metric == 'accuracy' and round > 1 and method == 'FedAvg'")
    chosen = found["FedAvg"].table.query("chosen")["mean"].iloc[-1]
    assert rows.groupby("seed")["value"].mean().mean() == pytest.approx(chosen, abs=1e-12)


@pytest.mark.parametrize(
    ("method", "how", "words"),
    [
        ([Planted(), Planted()], {}, "several with labels"),
        ({}, {}, "several with labels"),
        ({"one": Planted, "two": 3}, {}, "two: method must be"),
        ({"one": Planted, "two": Planted}, {"grid": {"one": {"a": [1.0, 2.0]}}}, "two: grid has no entry.*it has one"),
        ({"one": Planted, "two": Planted}, {"training": {"two": STILL}}, "one: training has no entry"),
        (Planted, {"growths": -1}, "growths must be"),
    ],
)
def test_arms_that_cannot_be_are_refused_by_label(method, how, words):
    with pytest.raises(ValueError, match=words):
        planted(method, **how)


def test_the_start_is_what_the_method_has_or_what_is_said():
    assert planted(Planted(b=1.0), order=("a", "b")).start == {"a": 0.0, "b": 1.0}
    assert planted(order=("a", "b"), start={"b": 5.0}).start == {"a": 0.0, "b": 5.0}
    assert planted(lambda a, b: Planted(a=a, b=b), order=("a", "b")).start == {"a": 0.0, "b": 0.0}


def test_training_is_tuned_by_its_name_and_what_diverges_is_never_chosen():
    found = learned(grid={"lr": [0.1, 1e30], "training.batch_size": [8, 16]}, order=None)
    assert found.best["lr"] == 0.1
    assert found.training.lr == 0.1
    assert found.table["mean"].isna().sum() == 2
    assert "because training diverged or outputs were no numbers: 2 of" in str(found)
    with pytest.raises(FloatingPointError, match="diverged at every value of lr"):
        learned(grid={"lr": [1e29, 1e30]}, order=None)


def test_test_samples_are_never_seen():
    first, second = learned(fresh=(10, 11)), learned(partial(labelled, shuffled=True), fresh=(10, 11))
    pd.testing.assert_frame_equal(first.table, second.table)
    assert first.best == second.best
    seen = learned(also_test=True)
    pd.testing.assert_frame_equal(first.table, seen.table)
    assert set(first.scores["split"]) == {"validation"}
    assert set(seen.scores["split"]) == {"validation", "test"}
    of_test = first.check.scores["split"] == "test"
    assert not np.allclose(first.check.scores["value"][of_test], second.check.scores["value"][of_test])


def test_the_choice_is_by_validation_samples_where_test_samples_say_the_opposite():
    seen = learned(partial(labelled, shuffled=True), also_test=True, fresh=(10, 11))
    assert seen.best == learned().best
    means = seen.scores.query("metric == 'accuracy'").groupby(["split", "trial"], sort=False)["value"].mean()
    assert seen.check.by_test == means["test"].idxmax() != seen.check.chosen


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_optimism_is_positive_where_the_choice_looked_better_than_it_is(metric):
    found = learned(metric=metric, fresh=(10, 11), also_test=True)
    sign = 1 if metric == "accuracy" else -1
    assert found.check.optimism[0] == pytest.approx(sign * (found.check.tuned - found.check.fresh[0]))
    shared = found.scores.query("metric == @metric").groupby(["split", "trial"], sort=False)["value"].mean() * sign
    assert found.check.by_test == shared["test"].idxmax()  # whatever the step, the first of equals
    last = shared["validation"][[label for label in found.table.query("step == 2")["trial"]]]
    assert found.check.chosen == last.idxmax()
    assert found.check.runner_up == shared["validation"].drop(found.check.chosen).idxmax()


def test_limits_of_optimism_are_welchs_and_rounding_is_no_spread():
    one, other, alike = (pd.Series(values) for values in ([0.9, 0.7, 0.75], [0.6, 0.65], [0.1 + 0.2, 0.3]))
    due = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.9)
    assert excess(one, other, higher=False, level=0.9) == pytest.approx((-0.475 / 3, *due), abs=1e-12)
    _, low, high = excess(alike, other, higher=True, level=0.9)  # df is that of the side that varies
    assert (high - low) / 2 == pytest.approx(0.025 * np.tan(0.9 * np.pi / 2))
    assert np.isnan(excess(alike, pd.Series([0.2, 0.2]), higher=True, level=0.9)[1:]).all()


def test_a_score_that_is_missing_under_one_seed_is_never_chosen():
    def partly(outputs, y):
        value = score(outputs, y)
        return float("nan") if value > -0.5 and y.mean() > 0 else value

    how = {"metrics": {"score": partly}, "clients": known_by_seed}
    found = planted(grid={"a": [1.0, 2.0]}, start={}, method=Planted(b=1.0), **how)
    assert found.best == {"a": 1.0}
    assert np.isnan(found.table["mean"][1])


def test_what_diverged_is_counted_and_bytes_go_both_ways():
    spent = learned(grid={"lr": [0.1, 1e30]}, order=None).budget.loc["tuning"]
    assert spent[["trials", "runs", "rounds"]].tolist() == [2, 4, 12]
    assert spent["client rounds"] == 2 * 3 * 4  # of the trial that did not diverge
    alone = fs.federate(fs.methods.find("FedProx")(), fs.models.mlp(3, 4, 2), labelled, MOVING, rounds=3, seed=range(2))
    assert spent["bytes"] == alone.traffic["bytes_up"].sum() + alone.traffic["bytes_down"].sum() > 0
    assert alone.traffic["bytes_down"].sum() > 0


def test_another_grid_in_the_same_folder_is_refused(tmp_path):
    one, other = {"mu": [0.01, 10.0]}, {"mu": [0.01, 5.0]}
    learned(grid=one, order=None, folder=tmp_path)
    with pytest.raises(ValueError, match=r"step 1 holds other trials.*another folder"):
        learned(grid=other, order=None, folder=tmp_path)


def test_scores_are_those_of_federate():
    found = learned(grid={"mu": [0.01, 10.0]}, order=None)
    alone = fs.federate(
        fs.methods.find("FedProx")(mu=10.0), fs.models.mlp(3, 4, 2), labelled, MOVING, rounds=3,
        seed=range(2), validate=True,
    )  # fmt: skip
    rows = alone.history.query("split == 'validation' and metric == 'accuracy' and round > 1")
    assert found.table["mean"][1] == pytest.approx(rows.groupby("seed")["value"].mean().mean(), abs=1e-12)
    values = found.scores.query("metric == 'log_loss'").groupby("trial")["value"].mean()
    assert abs(values.iloc[0] - values.iloc[1]) > 1e-3  # the trials differ


def test_the_budget_counts_what_the_participants_did():
    spent = learned(grid={"mu": [0.01, 10.0]}, order=None, fresh=(5, 6, 7), participation=0.5).budget
    fresh = "check on fresh seeds"
    assert spent.loc["tuning", ["trials", "runs", "rounds", "client rounds"]].tolist() == [2, 4, 12, 24]
    assert spent.loc[fresh, ["trials", "runs", "rounds"]].tolist() == [2, 6, 18]
    assert spent.loc["tuning", "samples"] == 2 * 24 * 16  # of a client's 40, 12 are for test and 12 for validation
    assert spent.loc["tuning", "local steps"] == 2 * 24  # each client's samples fit a batch


def test_fresh_seeds_of_the_same_data_are_measured_on_test_samples_and_of_new_data_on_validation():
    nested, fixed = learned(fresh=(5, 6)), learned(labelled(3), fresh=(5, 6))
    assert (nested.check.split, fixed.check.split) == ("validation", "test")
    assert fixed.check.same_data
    assert "of these data alone" in str(fixed)
    assert "of these data alone" not in str(nested)


@pytest.mark.slow
def test_choosing_among_noise_is_optimistic_as_much_as_the_largest_of_normals_and_fresh_seeds_are_not():
    grid, repeats, seeds = {"a": [float(k) for k in range(8)]}, 40, 3
    found = [
        planted(Planted(noise=1.0), grid, seed=range(100 * r, 100 * r + seeds), fresh=range(100 * r + 50, 100 * r + 53))
        for r in range(repeats)
    ]
    optimism = np.array([one.check.optimism[0] for one in found])
    fresh = np.array([one.check.fresh[0] for one in found])
    largest = 1.4236 / np.sqrt(seeds)  # mean of the largest of eight normals
    assert abs(optimism.mean() - largest) < 4 * optimism.std() / np.sqrt(repeats)
    assert optimism.mean() > 4 * optimism.std() / np.sqrt(repeats)
    assert abs(fresh.mean()) < 4 / np.sqrt(3 * repeats)
    runner_up = [one.check.difference.low > 0 or one.check.difference.high < 0 for one in found]
    assert np.mean(runner_up) < 0.25  # nothing is resolved where nothing differs, but for errors of one in twenty


def test_an_interrupted_tuning_continues_with_the_same_numbers(tmp_path, monkeypatch):
    whole, calls = learned(fresh=(5, 6)), []

    def counting(*args, **how):
        calls.append(how["folder"].name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fs.federate(*args, **how)

    monkeypatch.setattr(sys.modules["fedstat.tuning.runner"], "federate", counting)
    with pytest.raises(KeyboardInterrupt):
        learned(fresh=(5, 6), folder=tmp_path / "kept")
    again = learned(fresh=(5, 6), folder=tmp_path / "kept")
    assert calls == ["step 1.1", "step 1.2", "step 1.3", "step 1.3", "step 2", "fresh"]
    for one, other in ((whole.table, again.table), (whole.scores, again.scores), (whole.budget, again.budget)):
        assert one.to_csv() == other.to_csv()
    assert whole.check.optimism == again.check.optimism
    assert str(whole) == str(learned(fresh=(5, 6), folder=tmp_path / "kept"))
    assert len(calls) == 6  # nothing ran again
    with pytest.raises(ValueError, match="holds other trials"):
        learned(partial(labelled, n=120), fresh=(5, 6), folder=tmp_path / "kept")


def test_it_prints_the_choice_the_trials_the_budget_and_the_optimism():
    told = str(planted(order=("a", "b"), fresh=range(5, 8)))
    for words in ("a=2.0, b=1.0", "then b", "(ran before)", "6 trials", "12 runs", "Optimism", "runner-up"):
        assert words in told
    assert "not measured" in str(planted())
    assert "<table" in planted()._repr_html_()
    assert repr(planted()) == "Tuning(a=2.0, b=1.0; 12 trials under the 2 seeds 0, 1, 24 runs of 1 round)"


@pytest.mark.parametrize(("higher", "best"), [(True, 2.0), (False, 0.0)])
def test_a_choice_that_stays_better_is_said_to_be_ahead(higher, best):
    def moved(outputs, y):  # values differ by seed, their differences do a little
        return score(outputs, y) * (1 + 0.01 * float(y.mean()))

    how = {"metrics": {"score": moved}, "clients": known_by_seed}
    found = planted(grid={"a": [2.0, 1.0, 0.0]}, higher=higher, fresh=range(5, 9), **how)
    assert found.best == {"a": best}
    assert "ahead of the runner-up" in str(found)


def test_one_seed_has_no_limits_and_says_so():
    one = planted(seed=0, fresh=1)
    assert one.best == {"a": 2.0, "b": 1.0}
    assert np.isnan(one.check.optimism[1])
    assert one.check.difference is None
    assert "limits unknown" in str(one)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"grid": {}}, "grid must map"),
        ({"grid": {"a": []}}, "holds no value"),
        ({"grid": {"a": [1.0]}}, "nothing is chosen"),
        ({"grid": {"a": [1.0, 1.0]}}, "twice"),
        ({"grid": {"a": "12"}}, "must list values"),
        ({"grid": {"lrr": [1.0]}}, r"no parameter 'lrr' \(did you mean lr\?\)"),
        ({"grid": {"c": [1.0, 2.0]}}, "no parameter 'c'; the method has"),
        ({"grid": {"a": [1.0, 2.0], "b": [1.0, 2.0]}, "order": ("a",)}, "order misses b"),
        ({"order": ("a", "b", "a")}, "order names 'a'"),
        ({"order": "a"}, "order must be a sequence"),
        ({"start": {"noise": 1.0}}, "start names 'noise'"),
        ({"clients": replace(still(), validation=None)}, "no validation samples.*validation=0.2"),
        ({"fresh": (1, 5)}, "fresh holds the seed 1"),
        ({"metric": "accuracy"}, "metric 'accuracy' is not in the history"),
        ({"method": 3}, "method must be"),
        ({"method": lambda a, b: a}, "must make a fedstat Method"),
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": 4, "last": 2, "evaluate_at": [1, 4]}, "must hold the last 2 rounds.*and misses 3; add them"),
        ({"evaluate_at": 1}, "evaluate_at must hold rounds between"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(how, words):
    with pytest.raises(ValueError, match=words):
        planted(**how)


def test_a_name_that_method_and_training_share_must_say_whose_it_is():
    @dataclass(frozen=True, kw_only=True)
    class Slow(fs.Method):
        lr: float = 0.5

    with pytest.raises(ValueError, match=r"say method.lr or training.lr"):
        planted(Slow, {"lr": [0.1, 0.2]}, metric="mse", metrics=())
    found = planted(Slow, {"training.lr": [0.0, 0.1], "method.lr": [0.1, 0.2]}, metric="mse", metrics=())
    assert (found.training.lr, found.method.lr) == (found.best["training.lr"], found.best["method.lr"])
    with pytest.raises(TypeError, match="no argument 'stop'"):
        planted(stop=None)
