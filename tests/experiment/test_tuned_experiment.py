"""``[tune]`` and a method's own training: what a file asks for is what `fedstat.tune` and `federate` do by hand."""

import tomllib
from dataclasses import replace

import pandas as pd
import pytest

import fedstat as fs
from fedstat.cli._run import _stopped
from fedstat.experiment import population, read, run
from fedstat.experiment.config import to_table
from fedstat.experiment.parsing import parse

FILE = """
rounds = 4
seed = [0, 1]
[data]
name = "digits"
[partition]
kind = "dirichlet"
clients = 5
alpha = 0.3
min_size = 20
test = 0.3
validation = 0.2
[model]
name = "mlp"
widths = [8]
[method.Ditto]
grid = { penalty = [0.1, 1.0] }
training = { local_epochs = 2 }
[method.FedFac]
layers = ["hidden"]
kappa = 0.5
grid = { tau = [{ units = 2 }, { units = 4 }], lr = [0.1, 0.3] }
[method.Local]
[training]
lr = 0.1
[evaluation]
last = 2
control = "Local"
[tune]
seed = [100, 101]
rounds = 3
"""


def written(folder, text=FILE):
    (folder / "mine.toml").write_text(text)
    return folder / "mine.toml"


def clients_of(experiment):
    return lambda data, partition: population(experiment, partition)[0]


def test_the_run_is_that_of_the_values_which_tune_chooses_and_its_log_names_what_is_tuned(tmp_path, capsys):
    experiment = read(written(tmp_path))
    result = run(experiment, tmp_path / "out", progress="lines")
    said = capsys.readouterr().err
    order = [said.index(words) for words in ("tuning Ditto\n", "tuning FedFac\n", "the run, with what was chosen\n")]
    assert order == sorted(order)
    assert "round 4 of 4: test accuracy: Ditto" in said[order[-1] :]

    base = fs.Training(lr=0.1)
    how = {"rounds": 3, "seed": [100, 101], "last": 2, "progress": False}
    model, drawn = fs.models.mlp(64, 8, 10), clients_of(experiment)
    longer = fs.Training(lr=0.1, local_epochs=2)
    ditto = fs.tune(fs.methods.Ditto(), {"penalty": [0.1, 1.0]}, model, drawn, longer, **how)
    grid = {"tau": [fs.Count(2), fs.Count(4)], "lr": [0.1, 0.3]}
    fedfac = fs.tune(fs.FedFac(layers=["hidden"], kappa=0.5), grid, model, drawn, base, **how)
    expected = fs.federate(
        {"Ditto": ditto.method, "FedFac": fedfac.method, "Local": fs.Local()}, model, drawn,
        {"Ditto": ditto.training, "FedFac": fedfac.training, "Local": base},
        rounds=4, seed=[0, 1], vary=experiment.vary, validate=True, progress=False,
    )  # fmt: skip
    pd.testing.assert_frame_equal(result.history, expected.history)
    assert result.training["Ditto"].local_epochs == 2

    table = pd.read_csv(tmp_path / "out" / "tuning.csv")
    assert table.groupby("method")["chosen"].sum().to_dict() == {"Ditto": 1, "FedFac": 1}
    assert table.groupby("method").size().to_dict() == {"Ditto": len(ditto.table), "FedFac": len(fedfac.table)}
    assert (len(ditto.table), len(fedfac.table)) == (5, 6)  # grids grew, by 10, 100, 1000 and by 0.9
    by_hand = ditto.table.set_index("trial")["mean"]
    kept = table[table["method"] == "Ditto"].set_index("trial")["mean accuracy"]
    assert kept.to_dict() == pytest.approx(by_hand.to_dict())
    assert str(ditto) in (tmp_path / "out" / "tuning.txt").read_text()
    for place in (tmp_path / "out", tmp_path / "out" / "run"):
        table = " ".join(fs.compare(place).to_latex().split())
        assert (
            "parameters were chosen by accuracy on validation samples, 3 rounds under the seeds 100, 101: Ditto"
            in table
        )


def test_a_tuned_run_is_continued_with_its_choices(tmp_path):
    still = FILE + "growths = 0\n"
    whole = run(read(written(tmp_path, still), {"rounds": 6}), tmp_path / "whole", progress=False)
    text = still.replace("rounds = 3\n", "").replace("rounds = 4", "rounds = 3")  # tuning takes them from the run
    run(read(written(tmp_path, text)), tmp_path / "out", progress=False)
    before = (tmp_path / "out" / "tuning.csv").read_bytes()
    longer = read(written(tmp_path, text), {"rounds": 6})
    pd.testing.assert_frame_equal(
        run(longer, tmp_path / "out", resume=True, progress=False).history.query("round > 4").reset_index(drop=True),
        whole.history.query("round > 4").reset_index(drop=True),
    )
    assert (tmp_path / "out" / "tuning.csv").read_bytes() == before
    with pytest.raises(ValueError, match=r"method\.Ditto\.grid\.penalty was \[0\.1, 1\.0\] and is \[0\.1, 2\.0\]"):
        run(read(written(tmp_path, text), {"method.Ditto.grid.penalty": [0.1, 2.0]}), tmp_path / "out", resume=True)


def test_seeds_of_tuning_are_none_of_the_run(tmp_path):
    with pytest.raises(ValueError, match=r"tune\.seed holds 100, as seed does"):
        replace(read(written(tmp_path)), seed=tuple(range(102)))


def test_a_tuning_that_fails_leaves_a_folder_that_says_so(tmp_path):
    diverging = {"method": {"FedAvg": {}}, "evaluation.control": "FedAvg", "tune.grid": {"lr": [1e18, 1e19]}}
    with pytest.raises(FloatingPointError, match="tune, FedAvg: training diverged at every value of lr"):
        run(read(written(tmp_path), diverging), tmp_path / "out", progress=False)
    lower = read(written(tmp_path), {**diverging, "tune.grid": {"lr": [0.1, 0.3]}})
    with pytest.raises(ValueError, match="It holds no round of a run yet: remove it, or take another"):
        run(lower, tmp_path / "out", resume=True, progress=False)


def test_one_grid_for_all_is_an_equal_budget_and_said_so(tmp_path):
    changes = {"method": {"FedAvg": {}, "Local": {}}, "tune.grid": {"lr": [0.01, 0.3]}, "tune.growths": 0}
    experiment = read(written(tmp_path), changes)
    assert experiment.grids == {"FedAvg": {"lr": (0.01, 0.3)}, "Local": {"lr": (0.01, 0.3)}}
    from fedstat.experiment.build import set_up
    from fedstat.experiment.run import carry_out

    _, summary = carry_out(set_up(experiment), tmp_path / "out", False)
    told = summary.notes[0]
    assert "parameters were chosen by accuracy on validation samples, 3 rounds under the seeds 100, 101" in told
    assert "unequal" not in told
    uneven = read(written(tmp_path), {**changes, "method.FedAvg.grid": {"fine_tune": [0, 1]}})
    _, summary = carry_out(set_up(uneven), tmp_path / "uneven", False)
    assert "methods had unequal budgets of trials" in summary.notes[0]


def test_what_is_read_is_written_back():
    table = tomllib.loads(FILE)
    experiment = parse(table, ".")
    again = parse(to_table(experiment), ".")
    assert again == experiment
    assert to_table(experiment)["tune"] == {"seed": [100, 101], "grid": {}, "rounds": 3, "growths": 3, "fresh": []}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tune.seed": [0, 100]}, "tune.seed holds 0, as seed does"),
        ({"tune.fresh": [101]}, "tune.fresh holds 101, as tune.seed does"),
        ({"partition.validation": 0}, "tune needs validation samples to choose by, such as partition.validation = 0.2"),
        ({"method": {"Local": {}}}, r"tune\.grid is missing; it lists values for all methods"),
        (
            {"tune.grid": {"penalty": [1, 2]}},
            r"tune\.grid: there is no parameter 'penalty'; .* What FedFac lacks goes under \[method\.LABEL\]",
        ),
        ({"tune.grid": {"lrr": [0.1, 0.3]}}, r"tune\.grid: there is no parameter 'lrr' \(did you mean lr\?\)"),
        ({"tune.grid": {"lr": [0.1, -1.0]}}, r"tune\.grid: lr must be a number in \[0, inf\), got -1"),
        ({"method.Ditto.grids": {"lr": [1]}}, r"no key method\.Ditto\.grids \(did you mean grid\?\)"),
        ({"tune.grid": {"lr": 0.1}}, r"tune\.grid\.lr must be a list, got 0\.1"),
        ({"method.Ditto.grid": {"penalty": 0.1}}, r"method\.Ditto\.grid\.penalty must be a list of values, got 0\.1"),
        ({"method.Ditto.grid": {"penalty": [0.1]}}, r"method\.Ditto\.grid: grid\['penalty'\] holds one value, 0\.1"),
        ({"method.Ditto.grid": {"penalty": [0.1, "a"]}}, r"method\.Ditto\.grid\.penalty must be a number, got \"a\""),
        (
            {"method.Ditto.training": {"lt": 0.1}},
            r"there is no key method\.Ditto\.training\.lt; \[method\.Ditto\.training\] may hold",
        ),
        ({"method.Ditto.training": {"lr": -1}}, r"method\.Ditto\.training: lr must be a number in \[0, inf\)"),
        ({"tune": {"grid": {"lr": [0.1, 0.3]}}}, r"tune\.seed is missing"),
        ({"tune.rate": 1}, r"there is no key tune\.rate; \[tune\] may hold seed, grid"),
    ],
)
def test_tuning_that_cannot_be_is_refused_by_key(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path), changes)


def test_a_grid_without_tuning_is_refused():
    table = tomllib.loads(FILE)
    del table["tune"]
    with pytest.raises(ValueError, match=r"method\.Ditto\.grid needs a table \[tune\], with a seed such as"):
        parse(table, ".")


def test_a_stop_names_what_is_kept(tmp_path):
    (tmp_path / "begun" / "tuning").mkdir(parents=True)
    assert "stopped while tuning" in _stopped(tmp_path / "begun", 4)
