"""The study of filters: its measures on maps of known shape, planted filters, and its paper scale."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedstat as fs
from simulations.filters import numbers
from simulations.filters.study import (
    ARMS,
    CONTROL,
    SCALES,
    alike,
    arms,
    evidence,
    feature_maps,
    filters,
    network,
    one_seed,
    roughness,
    selectivity,
    similarity,
    sparsity,
)

RNG = np.random.default_rng(0)


def test_roughness_is_that_of_noise_and_of_a_ramp_whatever_their_scale():
    noise = RNG.normal(size=(50, 2, 32, 32))
    assert roughness(noise) == pytest.approx(2 / np.sqrt(np.pi), rel=0.02)
    ramp = np.broadcast_to(np.arange(32.0), (1, 1, 32, 32))
    assert roughness(ramp) == pytest.approx(0.5 / np.sqrt((32**2 - 1) / 12))
    assert roughness(3 - 5 * noise) == pytest.approx(roughness(noise))
    assert np.isnan(roughness(np.ones((1, 1, 4, 4))))


def test_sparsity_is_the_share_of_silent_pixels_of_equal_outputs():
    maps = np.full((4, 2, 5, 5), -1.0)
    maps[:, 0] = 2.0
    maps[0, 1] = 7.0
    assert sparsity(maps) == pytest.approx([0, 0.75])


def test_selectivity_is_one_for_classes_and_zero_in_the_mean_for_noise():
    labels = np.repeat(np.arange(10), 30)
    by_class = np.broadcast_to(1.0 + labels[:, None, None, None], (300, 1, 2, 2))
    assert selectivity(by_class, labels) == pytest.approx(1)
    nothing = selectivity(RNG.uniform(size=(300, 400, 1, 1)), labels)
    assert abs(nothing.mean()) < 4 * nothing.std() / 20


def test_similarity_is_the_correlation_over_pixels():
    a, b = RNG.normal(size=(3, 2, 4, 4)), RNG.normal(size=(3, 2, 4, 4))
    expected = [[np.mean([np.corrcoef(x[i].ravel(), y[j].ravel())[0, 1] for x, y in zip(a, b, strict=True)])
                 for j in range(2)] for i in range(2)]  # fmt: skip
    assert similarity(a, b) == pytest.approx(np.array(expected))
    assert np.diag(similarity(a, 1 - 2 * a)) == pytest.approx(-1)
    copies = np.concatenate([a, -a[:, ::-1]], axis=1)  # filters 0 and 3 agree up to sign, and so do 1 and 2
    found = alike(copies, np.array([False, True, True, False]))
    assert found["within"] == pytest.approx(1)
    assert found["across"] < 0.5


def convolution(weight):
    module = nn.Sequential()
    module.add_module("conv1", nn.Conv2d(1, len(weight), 3, padding=1, bias=False))
    module.conv1.weight.data = torch.from_numpy(weight).float()
    return module


def planted(noise: float) -> pd.DataFrame:
    """Measure filters that differ from FedAvg's smooth ones by noise, where they are personal."""
    scale = replace(SCALES["smoke"], clients=2, arms=("FedAvg", "static"))
    smooth = np.ones((4, 1, 3, 3)) + 0.1 * RNG.normal(size=(4, 1, 3, 3))
    shared = np.array([True, False, True, False])
    own = np.where(shared[:, None, None, None], smooth, smooth + noise * RNG.normal(size=smooth.shape))
    result = SimpleNamespace(
        personal=lambda k, arm, seed: convolution(smooth if arm == CONTROL else own),
        network=lambda key: SimpleNamespace(compose=dict, initial=lambda: convolution(smooth).state_dict()),
        records={("static", 0): {"shared conv1": shared[None]}},
    )
    x = RNG.normal(size=(40, 1, 12, 12)).astype(np.float32)
    table = filters(scale, result, 0, x, np.arange(40) % 4)["filters"]
    return table.set_index(["kind", "measure"])


def test_planted_noise_is_found_in_the_personal_filters_alone():
    table = planted(noise=3.0)
    assert table.loc[("personal", "roughness"), "value"] > 1.1 * table.loc[("personal", "roughness"), "fedavg"]
    assert table.loc[("personal", "correlation"), "value"] < 0.9
    assert table.loc[("shared", "correlation"), "value"] == pytest.approx(1)
    for measure in numbers.MEASURES:
        of = table.loc[("shared", measure)]
        assert of["value"] == pytest.approx(of["fedavg"])
    same = planted(noise=0.0)
    assert same.loc[("personal", "roughness"), "value"] == pytest.approx(same.loc[("personal", "roughness"), "fedavg"])


@pytest.mark.slow
def test_a_seed_has_all_arms_and_its_picture():
    tables = [one_seed(SCALES["smoke"], seed) for seed in (0, 1)]
    joined = {name: pd.concat([table[name] for table in tables]) for name in tables[0]}
    kept = evidence({**joined, **{name: tables[0][name] for name in ("maps", "image")}})
    found = numbers.findings(kept)
    assert set(numbers.split_arms(kept)) == set(SCALES["smoke"].arms) - {CONTROL}
    assert all(np.isfinite(finding.mean) for finding in found.values())
    shared = kept["filters"].query("kind == 'shared' and measure == 'correlation' and arm != 'dynamic, code'")
    assert (shared["value"] > shared["fedavg"]).all()  # nearer to FedAvg's filters than these are to the start
    assert set(numbers.figures(kept)) == {"maps", "differences"}


@pytest.mark.slow
def test_the_papers_scale_can_be_built():
    scale = SCALES["paper"]
    x = np.zeros((2, 3, 32, 32), dtype=np.float32)
    build = network(scale, x)
    assert feature_maps(build().eval(), scale.layer, x, "cpu").shape == (2, 64, 32, 32)
    assert list(arms(scale)) == list(ARMS)
    for method in arms(scale).values():
        fs.describe(method, build)
