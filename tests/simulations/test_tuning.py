"""The study of tuning: its measures on planted truths, its smoke run, and that the paper's scale can be built."""

import numpy as np
import pandas as pd
import pytest

from fedstat.federated import build
from fedstat.models import vgg16
from simulations.tuning import numbers, study


def drawn(effects, noise, seeds, rng):
    """Scores of seeds by values: effects, a level of each seed, and noise."""
    level = rng.normal(size=(seeds, 1))
    return pd.DataFrame(np.asarray(effects) + level + noise * rng.normal(size=(seeds, len(effects))))


def test_influence_is_unbiased_where_nothing_matters_and_the_range_where_much_does():
    rng = np.random.default_rng(0)
    noise = [numbers.spread(drawn(np.zeros(5), 1.0, 3, rng)).mean() for _ in range(400)]
    assert abs(np.mean(noise)) < 4 * np.std(noise) / np.sqrt(400)
    ranges = [np.ptp(drawn(np.zeros(5), 1.0, 3, rng).mean()) for _ in range(100)]
    assert np.mean(ranges) > 1  # what the range of means would have told
    large = [numbers.spread(drawn([0, 1, 9, 3, 2], 0.5, 3, rng)).mean() for _ in range(200)]
    assert np.mean(large) == pytest.approx(9, abs=0.2)


def test_one_run_that_chooses_is_optimistic_by_the_largest_of_the_noises_whatever_the_seeds_levels():
    rng = np.random.default_rng(1)
    found = [numbers.one_run(drawn(np.zeros(5), 1.0, 3, rng)).mean() for _ in range(500)]
    # the largest of five normals about their mean is at 1.163; the others' mean of the same value is at zero
    assert np.mean(found) == pytest.approx(1.163, abs=4 * np.std(found) / np.sqrt(500))
    assert np.allclose(numbers.one_run(drawn([0, 5, 1], 1e-9, 3, rng)), 0, atol=1e-6)


@pytest.mark.slow
def test_the_smoke_run_tells_its_chapter(tmp_path):
    scale = study.SCALES["smoke"]
    tables = study.run(scale, tmp_path)
    trials = tables["trials"]
    assert trials.groupby("chooses")["chosen"].sum().eq(1).all()
    assert set(trials.loc[trials["step"] == 1, "tau"]) == {0.5}
    assert set(trials.loc[trials["step"] == 1, "kappa"]) == {0.85}
    found = numbers.findings(tables)
    told = numbers.numbers(tables, {})
    assert len(told["choices"]) == len(scale.settings)
    assert {f"deepest {numbers.named(s)}" for s in scale.settings} <= set(found)
    again = study.one_setting(scale, 2, "text", float(scale.rates[0]))
    assert again["scores"]["value"].tolist() == tables["scores"]["value"].tolist()


def test_tuning_seeds_fresh_seeds_and_those_of_the_rate_are_different_at_every_scale():
    for scale in study.SCALES.values():
        used = [range(first, first + n) for first, n in ((0, scale.seeds), (100, scale.fresh), (200, scale.seeds))]
        assert len(set().union(*used)) == sum(map(len, used))
        assert (scale.shift > 0) == (scale.clients < 20)  # smoke and quick are a second look


def test_the_papers_scale_builds_every_trial_on_its_network():
    scale = study.SCALES["paper"]
    assert scale.layers == ("conv1", *(f"conv{i}" for i in range(3, 14)), "hidden1", "hidden2")
    assert (scale.clients, scale.rounds, scale.participation, scale.batch) == (100, 500, 0.1, 64)
    assert {classes for classes, _ in scale.settings} == {5, 10, 30}
    network, grid = build(vgg16(100), np.random.default_rng(0)), study.grid(scale)
    for layers in grid["layers"]:
        for _, reading in scale.settings:
            method = study.method(reading)(layers=layers, tau=grid["tau"][-1], kappa=grid["kappa"][-1])
            assert all(network.incoming(layer) for layer in method.layers)
