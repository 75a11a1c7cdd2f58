"""A plan of the analysis: one content, one digest, and nothing in a file that is not understood."""

import hashlib
import json
import string
import sys
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat.experiment.parsing import parse
from fedstat.experiment.run import run as run_experiment
from fedstat.inference import AnalysisPlan
from tests.support.clients import vector_clients
from tests.support.experiments import changed

WORDS = st.text(string.ascii_letters + 'é"\\#= \n', min_size=1, max_size=12)
PLANS = st.lists(WORDS, min_size=2, max_size=5, unique=True).flatmap(
    lambda arms: st.builds(
        AnalysisPlan,
        arms=st.just(arms),
        control=st.none() | st.sampled_from(arms),
        margin=st.none() | st.floats(1e-9, 1e9),
        metric=st.none() | WORDS,
        last=st.integers(1, 1000),
        split=st.none() | WORDS,
        estimand=st.none() | WORDS | st.dictionaries(st.sampled_from(arms), WORDS),
        level=st.floats(0.01, 0.99),
        seeds=st.none() | st.integers(2, 100),
        rule=st.just("") | WORDS,
        note=st.just("") | WORDS,
    )
)
PLAN = AnalysisPlan(arms=("FedAvg", "Ditto"), control="FedAvg", margin=0.02, metric="accuracy", seeds=6)


@given(PLANS)
def test_a_plan_is_read_as_it_was_written(tmp_path_factory, plan):
    file = tmp_path_factory.mktemp("plan") / "plan.toml"
    plan.write(file)
    back = AnalysisPlan.read(file)
    assert back == plan
    assert back.digest == plan.digest


def test_the_digest_is_that_of_the_content_and_not_of_the_layout(tmp_path):
    content = {
        "arms": ["FedAvg", "Ditto"], "control": "FedAvg", "last": 10, "level": 0.95, "margin": 1.0,
        "metric": "accuracy", "note": "", "rule": "", "seeds": 6,
    }  # fmt: skip
    written = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    assert replace(PLAN, margin=1).digest == written
    file = tmp_path / "plan.toml"
    file.write_text('# why\nseeds=6\nmargin = 1\nmetric="accuracy"\ncontrol = "FedAvg"\narms = ["FedAvg", "Ditto"]\n')
    assert AnalysisPlan.read(file).digest == written


@pytest.mark.parametrize(
    "change",
    [{"arms": ("Ditto", "FedAvg")}, {"control": None}, {"margin": 0.03}, {"metric": None}, {"last": 9}, {"seeds": 7},
     {"split": "test"}, {"estimand": "personal"}, {"estimand": {"Ditto": "personal"}}, {"level": 0.9}, {"rule": "x"},
     {"note": "x"}],
)  # fmt: skip
def test_every_part_of_a_plan_counts(change):
    assert replace(PLAN, **change).digest != PLAN.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": "FedAvg"}, "arms must be a list of labels, got 'FedAvg'"),
        ({"arms": None}, "arms must be a list of labels, got None"),
        ({"arms": ["FedAvg"]}, r"arms must be at least two different labels, got \['FedAvg'\]"),
        ({"arms": ["FedAvg", "FedAvg"]}, "arms must be at least two different"),
        ({"arms": ["FedAvg", 3]}, "arms must be a list of labels"),
        ({"control": "Local"}, "control must be one of the arms FedAvg, Ditto, got 'Local'"),
        ({"margin": 0}, r"margin must be a number in \(0, inf\), got 0\. It is the largest difference"),
        ({"margin": float("inf")}, r"margin must be a number in \(0, inf\), got"),
        ({"margin": float("nan")}, r"margin must be a number in \(0, inf\), got"),
        ({"metric": ""}, "metric must be text, or left out, got ''"),
        ({"last": 0}, "last must be a whole number, at least 1, got 0"),
        ({"last": True}, "last must be a whole number, at least 1, got True"),
        ({"seeds": 1}, "seeds must be a whole number, at least 2, got 1"),
        ({"level": 95}, r"level must be a number in \(0, 1\), got 95\. For 95% write 0\.95"),
        ({"estimand": {"Local": "personal"}}, "estimand names 'Local', which is none of the arms FedAvg, Ditto"),
        ({"estimand": 3}, "estimand must be a model's name, or one for each arm, got 3"),
        ({"note": None}, "note must be text, got None"),
    ],
)
def test_what_no_plan_may_say(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arms = [", r"plan\.toml is no TOML"),
        ('arm = ["a", "b"]', r"plan\.toml: a plan has no key 'arm' \(did you mean arms\?\); it has arms, control"),
        ('arms = ["a", "b"]\nzzz = 1', r"no key 'zzz'; it has arms, control, margin, metric, last"),
        ("seeds = 6", r"plan\.toml: arms is missing"),
        ('arms = "a"', r"plan\.toml: arms must be a list of labels, got 'a'"),
        ('arms = ["a", "b"]\nmargin = "2%"', r"plan\.toml: margin must be a number in \(0, inf\), got '2%'"),
        ('arms = ["a", "b"]\nlast = 2.0', r"plan\.toml: last must be a whole number, at least 1, got 2\.0"),
        ('arms = ["a", "b"]\nestimand = {c = "x"}', r"plan\.toml: estimand names 'c'"),
    ],
)
def test_files_that_are_no_plan(tmp_path, text, message):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        AnalysisPlan.read(file)


METHODS = {"FedAvg": fs.FedAvg(), "Ditto": fs.methods.Ditto()}


def go(rounds=2, methods=METHODS, **options):
    return fs.federate(
        methods, fs.models.mlp(3, 4, 2), vector_clients(), fs.Training(lr=0.1), rounds=rounds, progress=False, **options
    )


def test_the_plan_lies_in_the_folder_before_the_first_round(tmp_path, monkeypatch):
    def stopped(*_):
        back = fs.load(tmp_path / "run")
        assert (back.config["rounds"], back.config["finished"], len(back.history)) == (0, False, 0)
        assert back.plan == PLAN
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["fedstat.federated.federate"], "loop", stopped)  # a function has the module's name
        with pytest.raises(KeyboardInterrupt):
            go(plan=PLAN, folder=tmp_path / "run")
    result = go(resume=fs.load(tmp_path / "run"), folder=tmp_path / "run")
    whole = go(plan=PLAN)
    pd.testing.assert_frame_equal(result.history, whole.history, check_categorical=False)
    pd.testing.assert_frame_equal(result.traffic, whole.traffic, check_categorical=False)
    assert result.plan == fs.load(tmp_path / "run").plan == PLAN
    assert result.config == whole.config
    assert result.config["plan"] == PLAN.digest


def test_a_plan_file_is_as_good_as_a_plan_and_stays_with_the_run(tmp_path):
    PLAN.write(tmp_path / "mine.toml")
    go(plan=tmp_path / "mine.toml", folder=tmp_path / "run")
    back = fs.load(tmp_path / "run")
    assert go(3, resume=back, plan=PLAN).plan == PLAN
    with pytest.raises(ValueError, match="plan: the run to continue began with another one, which stays"):
        go(3, resume=back, plan=replace(PLAN, margin=0.1))
    with pytest.raises(ValueError, match="began without one, and what is written down after the first results is no"):
        go(3, resume=go(), plan=PLAN)
    assert go().plan is None


def test_a_plan_that_was_changed_or_taken_away_is_noticed(tmp_path):
    go(plan=PLAN, folder=tmp_path / "run")
    file = tmp_path / "run" / "plan.toml"
    text = file.read_text()
    file.write_text("# a comment changes nothing\n" + text)
    assert fs.load(tmp_path / "run").plan == PLAN
    file.write_text(text.replace("0.02", "0.05"))
    with pytest.raises(ValueError, match=r"plan\.toml is missing or has been changed since the run began"):
        fs.load(tmp_path / "run")
    file.unlink()
    with pytest.raises(ValueError, match=r"plan\.toml is missing or has been changed since the run began"):
        fs.load(tmp_path / "run")
    go(folder=tmp_path / "other")
    (tmp_path / "other" / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.toml is not a file of this run"):
        fs.load(tmp_path / "other")


def test_a_plan_of_other_methods_is_refused():
    with pytest.raises(ValueError, match="plan: arms must be the labels of the methods, FedAvg; got FedAvg, Ditto"):
        go(methods=fs.FedAvg(), plan=PLAN)


def test_a_plan_in_an_experiment_is_for_its_methods(tmp_path):
    table = changed(method={"FedAvg": {}, "Local": {}}, plan={"control": "Local", "margin": 0.02})
    run_experiment(parse(table, tmp_path), tmp_path / "out", progress=False)
    expected = AnalysisPlan(arms=["FedAvg", "Local"], control="Local", margin=0.02)
    assert fs.load(tmp_path / "out/run").plan == expected
    run_experiment(parse(table | {"rounds": 4}, tmp_path), tmp_path / "out", progress=False, resume=True)
    assert fs.load(tmp_path / "out/run").plan == expected
    later = parse(table | {"plan": {"control": "Local", "margin": 0.1}}, tmp_path)
    with pytest.raises(ValueError, match=r"plan\.margin was 0\.02 and is 0\.1"):
        run_experiment(later, tmp_path / "out", resume=True)


def test_a_plan_in_an_experiment_averages_the_rounds_of_its_evaluation_unless_it_says_otherwise(tmp_path):
    for plan, last in (({}, 2), ({"last": 3}, 3)):
        table = changed(method={"FedAvg": {}, "Local": {}}, evaluation={"last": 2}, plan=plan)
        assert parse(table, tmp_path).plan == AnalysisPlan(arms=["FedAvg", "Local"], last=last)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"control": "FedProx"}, "plan.*control must be one of the arms FedAvg, Local, got 'FedProx'"),
        ({"arms": ["FedAvg", "FedProx"]}, 'plan.arms must be the methods, "FedAvg", "Local"; got "FedAvg", "FedProx"'),
        ({"margn": 0.1}, r"there is no key plan\.margn \(did you mean margin\?\)"),
        ("plan.toml", "plan must be a table"),
    ],
)
def test_plans_that_no_experiment_has(plan, message):
    with pytest.raises(ValueError, match=message):
        parse(changed(method={"FedAvg": {}, "Local": {}}, plan=plan), None)
