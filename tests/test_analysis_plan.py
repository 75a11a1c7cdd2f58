"""A plan of the analysis: one content, one digest, and nothing in a file that is not understood."""

import hashlib
import json
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstat.inference import AnalysisPlan

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
        ({"arms": ["FedAvg"]}, r"arms must be at least two different labels, got \['FedAvg'\]"),
        ({"arms": ["FedAvg", "FedAvg"]}, "arms must be at least two different"),
        ({"arms": ["FedAvg", 3]}, "arms must be a list of labels"),
        ({"control": "Local"}, "control must be one of the arms FedAvg, Ditto, got 'Local'"),
        ({"margin": 0}, "margin must be a positive number in units of the metric, got 0"),
        ({"margin": float("inf")}, "margin must be a positive number"),
        ({"margin": float("nan")}, "margin must be a positive number"),
        ({"metric": ""}, "metric must be text, or left out, got ''"),
        ({"last": 0}, "last must be a whole number from 1 on, got 0"),
        ({"last": True}, "last must be a whole number from 1 on, got True"),
        ({"seeds": 1}, "seeds must be a whole number from 2 on, got 1"),
        ({"level": 95}, "level must lie between 0 and 1, such as 0.95, got 95"),
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
        ('arm = ["a", "b"]', r"plan\.toml: a plan has no key 'arm'; did you mean 'arms'\?"),
        ('arms = ["a", "b"]\nzzz = 1', r"no key 'zzz'; a plan has arms, control, margin, metric, last"),
        ("seeds = 6", r"plan\.toml: arms is missing"),
        ('arms = "a"', r"plan\.toml: arms must be a list of labels, got 'a'"),
        ('arms = ["a", "b"]\nmargin = "2%"', r"plan\.toml: margin must be a positive number"),
        ('arms = ["a", "b"]\nlast = 2.0', r"plan\.toml: last must be a whole number from 1 on, got 2\.0"),
        ('arms = ["a", "b"]\nestimand = {c = "x"}', r"plan\.toml: estimand names 'c'"),
    ],
)
def test_files_that_are_no_plan(tmp_path, text, message):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        AnalysisPlan.read(file)
