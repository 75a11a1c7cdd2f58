"""Attacked runs: what is said of them, how they are compared, and what is refused."""

import numpy as np
import pytest

import fedstat as fs
from fedstat.federated.attacks import LabelFlip, SignFlip
from fedstat.report.sources import read_source, settings_of
from tests.support.clients import vector_clients
from tests.support.runs import STEP

MODEL = fs.models.mlp(3, 5, 2)


def under(label, attack, **how):
    how = {"rounds": 2, "seed": range(3), "progress": False, "executor": "per-client"} | how
    return fs.federate({label: fs.FedAvg()}, MODEL, vector_clients(), STEP, attack=attack, **how)


def test_runs_under_other_attacks_are_compared_on_the_clients_that_are_honest_in_all(tmp_path):
    runs = {
        label: under(label, attack)
        for label, attack in {"few": SignFlip(0.2), "more": LabelFlip(0.4), "none": None}.items()
    }
    found = fs.compare(runs, control=None)
    assert "differ in attack (SignFlip(share=0.2, scale=1.0) and LabelFlip(share=0.4))." in " ".join(found.notes)
    assert "honest in all of them, 4 under each seed" in " ".join(found.notes)
    assert not found.scores.missing
    assert (
        found.generalises == "The comparison speaks of other runs on these clients with these data, not of other "
        "clients or other data."
    )
    bad = runs["more"].clients.query("attacker")
    for label, values in zip(found.scores.methods, found.scores.by_seed(), strict=True):
        rows = (
            runs[label].history.query("metric == 'accuracy'").merge(bad[["seed", "client"]], how="left", indicator=True)
        )
        mean = rows[rows["_merge"] == "left_only"].groupby("seed")["value"].mean()
        np.testing.assert_allclose(values, mean)
    for label, result in runs.items():
        result.save(tmp_path / label)
    again = fs.compare([tmp_path / label for label in runs], control=None)
    np.testing.assert_array_equal(again.scores.values, found.scores.values)
    one, other = under("few", SignFlip(0.2), seed=[0]), under("none", None, seed=[0])
    one.clients["attacker"] = True
    with pytest.raises(ValueError, match=r"no client is honest in all of the results. Compare methods within one run"):
        fs.compare([one, other])


def test_what_is_printed_says_that_a_run_was_attacked(tmp_path):
    words = "2 of 6 clients attack by SignFlip(share=0.3, scale=1.0), drawn by each seed"
    result = under("it", SignFlip(0.3))
    assert words in repr(result)
    assert words in " ".join(fs.compare(result).notes)
    assert words in " ".join(fs.assess(result).notes)
    result.save(tmp_path / "run")
    settings = dict(settings_of([read_source(tmp_path / "run")]))
    assert settings["attack"].startswith(words)
    assert "1 of 6 clients attacks by LabelFlip(share=0.2), drawn by the seed;" in repr(
        under("it", LabelFlip(0.2), seed=0)
    )
    held = under("it", SignFlip(0.3), vary=["batches"])
    assert "drawn once for all seeds" in repr(held)
    assert "Initial weights and attackers were the same under every seed" in fs.compare(held).generalises
    noise = fs.FedAvg(weighting="uniform", mechanism=fs.mechanisms.Gaussian(clip=1.0, noise=0.1))
    hidden = fs.federate(noise, MODEL, vector_clients(), STEP, rounds=1, seed=[0, 1], vary=["batches"], progress=False)
    assert "and the noise of mechanisms were the same under every seed" in fs.compare(hidden).generalises
    for none in (None, SignFlip(0.0)):
        assert "attack" not in repr(under("it", none))
