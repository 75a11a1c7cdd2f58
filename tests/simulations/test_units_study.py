"""The study of hidden units over clients: its readings, and what it says of planted peaks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma

import fedstat as fs
from simulations.units import numbers, study
from simulations.units.entropy import entropy_nearest_neighbour
from simulations.units.study import (
    SCALES,
    deal,
    entropies,
    evidence,
    images,
    scripted,
    summary,
    trained,
    unimodality,
    unit_outputs,
)

SMALL = replace(SCALES["smoke"], clients=20, units=8, epochs=(1, 2), probe=40)


def test_entropy_of_known_laws():
    rng = np.random.default_rng(3)
    rows = np.stack([rng.normal(0, 1, 20_000), rng.normal(0, 4, 20_000), rng.uniform(0, 3, 20_000)])
    expected = [0.5 * np.log(2 * np.pi * np.e), 0.5 * np.log(2 * np.pi * np.e * 16), np.log(3)]
    for k in (1, 3, 10):
        np.testing.assert_allclose(entropy_nearest_neighbour(rows, k=k), expected, atol=0.05)


@given(st.lists(st.floats(-5, 5, width=16), min_size=5, max_size=12, unique=True), st.integers(1, 4))
def test_entropy_uses_the_kth_neighbour(row, k):
    x = np.array(row)
    distances = np.sort(np.abs(x[:, None] - x[None, :]), axis=1)[:, k]
    expected = digamma(len(x)) - digamma(k) + np.log(2) + np.log(distances).mean()
    assert entropy_nearest_neighbour(x[None], k=k)[0] == pytest.approx(expected)


def test_a_unit_dead_at_several_clients_has_no_finite_entropy():
    row = np.r_[np.zeros(5), np.arange(1.0, 20.0)]
    assert entropy_nearest_neighbour(row[None], k=3)[0] == -np.inf
    with pytest.raises(ValueError, match="k must lie between 1"):
        entropy_nearest_neighbour(np.ones((1, 3)), k=3)


def test_one_peak_and_two_are_told_apart():
    rng = np.random.default_rng(1)
    one = unimodality(rng.normal(-1, 0.4, 200))
    assert one["dip_p"] > 0.05
    assert one["main"] == pytest.approx(-1, abs=0.2)
    two = unimodality(np.concatenate([rng.normal(0, 0.3, 120), rng.normal(2, 0.3, 80)]))
    assert two["dip_p"] < 0.001
    assert two["modes"] == 2
    assert (two["lowest"], two["highest"]) == pytest.approx((0, 2), abs=0.2)
    assert two["main"] == two["lowest"]
    assert np.isnan(unimodality(np.zeros(9))["dip"])


def test_scale_moves_the_peaks_and_leaves_their_shape():
    outputs = np.random.default_rng(2).lognormal(size=(100, 60)) * np.linspace(0.1, 3, 100)[:, None]
    before, after = (unimodality(entropy_nearest_neighbour(a * outputs)) for a in (1.0, 7.0))
    for name in ("lowest", "highest", "main"):
        assert after[name] == pytest.approx(before[name] + np.log(7), abs=1e-6)
    for name in ("modes", "dip", "dip_p"):
        assert after[name] == pytest.approx(before[name], abs=1e-9)


def test_outputs_are_those_of_the_written_out_network():
    rng = np.random.default_rng(3)
    w, b, seen = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3)), [rng.normal(size=(5, 4)), rng.normal(size=(6, 4))]
    means, single = unit_outputs(w, b, seen, 2)
    assert means.shape == (3, 2)
    assert single.shape == (3, 4)
    for k, unit in np.ndindex(2, 3):
        before = [float(sum(w[k, unit] * x) + b[k, unit]) for x in seen[k]]
        assert means[unit, k] == pytest.approx(np.mean([max(value, 0) for value in before]))
        assert single[unit, 2 * k : 2 * k + 2] == pytest.approx(before[:2])
    found = entropies(replace(SMALL, neighbour=1, far=1), means, single)
    assert np.array_equal(found["mean"][1], found["mean, far"][1])
    assert (found["single, rectified"][0] >= 0).all()


@pytest.mark.slow
def test_clients_start_as_the_reading_says_and_stages_are_one_training():
    x, y, probe = images(SMALL, 0)
    assert not {row.tobytes() for row in probe[:5]} & {row.tobytes() for row in x}
    parts = deal(SMALL, "one label", y, 0)
    assert all(len(set(y[part])) == 1 for part in parts)
    still = replace(SMALL, lr=1e-12)
    starts = {start: next(iter(trained(still, start, x, y, parts, 0)))[1] for start in study.STARTS}
    assert np.ptp(starts["common"], axis=0).max() < 1e-9
    assert np.ptp(starts["own"], axis=0).min() > 1e-4
    (_, _, _), (_, staged, _) = trained(SMALL, "common", x, y, parts, 0)
    ((_, whole, _),) = trained(replace(SMALL, epochs=(2,)), "common", x, y, parts, 0)
    assert np.array_equal(staged, whole)


def test_the_script_measures_what_it_trains_on_and_takes_the_loss_of_softmax_outputs():
    scale = replace(SMALL, epochs=(1, 2))
    rng = np.random.default_rng(5)
    x, y = rng.random((9, 6)).astype(np.float32), rng.integers(0, 10, 9)
    found = scripted(scale, x, y, [np.arange(9)], 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = fs.models.mlp(6, scale.units, 10)()
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    # nine images are one batch: the first epoch sees the start, the second one step of Adam, by which a weight moves by
    # the learning rate, against the sign of its gradient
    before = torch.relu(images @ network.hidden.weight.T + network.hidden.bias)
    assert found[1][:, 0] == pytest.approx(before.mean(dim=0).detach().numpy(), abs=1e-6)
    scores = before @ network.head.weight.T + network.head.bias
    shares = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
    loss = (shares.exp().sum(dim=1).log() - shares[range(9), labels]).sum()
    w, b = torch.autograd.grad(loss, [network.hidden.weight, network.hidden.bias])
    after = torch.relu(images @ (network.hidden.weight - 1e-3 * w.sign()).T + network.hidden.bias - 1e-3 * b.sign())
    assert found[2][:, 0] == pytest.approx(after.mean(dim=0).detach().numpy(), abs=1e-5)


def planted(gap: float) -> dict[str, pd.DataFrame]:
    """Return tables of entropies near zero, of which one-label clients have two fifths `gap` higher."""
    rows = []
    for reading in (*numbers.READINGS, numbers.SCRIPTED, ("common", "probe", "single, rectified")):
        for seed, epochs, partition in np.ndindex(6, 2, 2):
            rng = np.random.default_rng([seed, partition])
            entropy = rng.normal(0, 0.15, 100) + gap * partition * (np.arange(100) >= 60)
            if reading[2] == "single, rectified":
                entropy[:] = np.nan
            where = dict(zip(("start", "images", "value"), reading, strict=True))
            label = list(study.PARTITIONS)[partition]
            table = pd.DataFrame({"unit": np.arange(100), "entropy": entropy, "sd": np.exp(rng.normal(0, 0.1, 100))})
            rows.append(table.assign(dead=0.0, seed=seed, epochs=epochs + 1, partition=label, **where))
    return {"summary": summary(pd.concat(rows))}


@pytest.mark.slow
def test_a_planted_second_peak_is_found_and_none_is_invented():
    for gap, signs in ((2.0, ("more", "more")), (0.0, ("unclear", "less"))):
        found = numbers.findings(planted(gap))
        for reading in numbers.READINGS:
            name = numbers.name(reading)
            assert (found[f"peaks, {name}"].sign, found[f"gap, {name}"].sign) == signs
            assert found[f"low, {name}"].sign == "more"


def test_committed_outputs_stay_what_they_are():
    columns = {f"client {k}": np.linspace(0, k + 1, 4) for k in range(3)}
    table = pd.DataFrame({**columns, "unit": range(4), "partition": "iid", "images": "probe", "value": "mean"})
    tables = {"outputs": table, "summary": pd.DataFrame(), "histogram": pd.DataFrame()}
    once = evidence(tables)
    assert once["outputs"]["client 2"].tolist()[0] == 0
    assert once["outputs"][list(columns)].to_numpy().max() == 100
    pd.testing.assert_frame_equal(evidence(once)["outputs"], once["outputs"])
