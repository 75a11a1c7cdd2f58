"""Attacked runs: what is said of them, how they are compared, and what is refused."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import set_up
from fedstat.experiment.run import carry_out
from fedstat.federated.attacks import LabelFlip, SignFlip
from fedstat.report.sources import read_source, settings_of
from tests.support.clients import vector_clients
from tests.support.runs import STEP

MODEL = fs.models.mlp(3, 5, 2)


def under(label, attack, method=None, **how):
    how = {"rounds": 2, "seed": range(3), "progress": False, "executor": "per-client"} | how
    return fs.federate({label: method or fs.FedAvg()}, MODEL, vector_clients(), STEP, attack=attack, **how)


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


def test_prototypes_are_falsified_where_no_weights_travel():
    result = under("it", SignFlip(0.4), method=fs.methods.FedProto(), rounds=1, seed=0)
    honest = under("it", None, method=fs.methods.FedProto(), rounds=1, seed=0)
    bad = result.clients["attacker"].to_numpy()
    counts = honest.states["it", 0].memory["counts"].double()
    key = next(name for name in honest.states["it", 0].clients if "head" not in name)
    assert torch.equal(honest.states["it", 0].clients[key][0], result.states["it", 0].clients[key][0])
    means = {of: of.states["it", 0].memory["mean"] for of in (honest, result)}
    kept = [fs.federate({"it": fs.methods.FedProto()}, MODEL, vector_clients(), STEP, rounds=1, progress=False,
                        participation=fs.attendance.Trace(_only(np.flatnonzero(some))))
            for some in (bad, ~bad)]  # fmt: skip
    of_bad, of_good = (one.states["it", 0].memory["mean"].double() for one in kept)
    n = torch.stack([counts[np.flatnonzero(some).tolist()].sum(0) for some in (bad, ~bad)])
    wanted = (n[1][:, None] * of_good - n[0][:, None] * of_bad) / n.sum(0)[:, None]
    torch.testing.assert_close(means[result].double(), wanted, rtol=0, atol=1e-6)
    assert not torch.equal(means[honest], means[result])


def _only(ids):
    return pd.DataFrame({"round": 1, "client": ids, "work": 1.0})


@dataclass(frozen=True, kw_only=True)
class Secret(fs.Local):
    """Sends what nobody receives."""

    def upload(self, state, update):
        return {"secret": torch.ones(len(update.ids), 3)}


def test_methods_that_send_nothing_to_falsify_are_refused():
    with pytest.raises(ValueError, match=r"SignFlip\(share=0.4, scale=1.0\) has nothing to falsify.* but secret"):
        under("it", SignFlip(0.4), method=Secret(), seed=0)
    assert under("it", LabelFlip(0.4), method=Secret(), seed=0).clients["attacker"].sum() == 2
    assert under("it", SignFlip(0.4), method=fs.Local(), seed=0).clients["attacker"].sum() == 2


def test_a_positive_share_has_an_attacker():
    with pytest.raises(ValueError, match=r"0.02 makes none of 6 clients an attacker; the smallest .* one is 0.084"):
        under("it", SignFlip(0.02))
    assert under("it", SignFlip(0.084), seed=0).clients["attacker"].sum() == 1


def test_rules_and_attacks_are_not_one_another():
    with pytest.raises(ValueError, match=r"aggregator must be a rule .* got SignFlip"):
        fs.FedAvg(aggregator=SignFlip(0.2))
    with pytest.raises(ValueError, match=r"attack must be one .* got TrimmedMean"):
        under("it", fs.aggregators.TrimmedMean(0.2))


def test_the_summary_of_an_experiment_counts_honest_clients_alone(tmp_path):
    """The client with the fewest test samples attacks: the standard error is that of the others."""
    (tmp_path / "one.toml").write_text("""
rounds = 1
data.name = "digits"
partition = {kind = "dirichlet", clients = 4, alpha = 0.3}
model = {name = "mlp", widths = [4]}
training.lr = 0.1
evaluation.last = 1
attack = {name = "sign-flip", share = 0.5}
[method.FedAvg]
[method.Own]
name = "Per-FedAvg"
[method.pFedMe]
""")
    experiment = read(tmp_path / "one.toml")
    fs.experiment.run(experiment, tmp_path / "out", progress=False)
    result = fs.load(tmp_path / "out" / "run")
    assert isinstance(result.methods["Own"], fs.methods.PerFedAvg)
    assert isinstance(result.methods["pFedMe"], fs.methods.PFedMe)
    _, summary = carry_out(set_up(experiment), tmp_path / "out", False, resume=True)
    honest = result.clients.loc[~result.clients["attacker"], "test"]
    assert f"a client has {honest.min()} to {honest.max()} test samples" in str(summary)
    assert "2 of 4 clients attack by SignFlip(share=0.5, scale=1.0), drawn by the seed;" in " ".join(
        str(summary).split()
    )
    with pytest.raises(ValueError, match="did you mean FedAvg"):
        read(tmp_path / "one.toml", {"method.FedAv": {}})
