"""Figures 6 and 7 as printed: which populations are used, exact limit cases, and planted truths that must be found."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from simulations.catalogue import entries
from simulations.decompositions import effects
from simulations.decompositions import numbers as told
from simulations.decompositions import study as decompositions
from simulations.split import study as split

SMOKE = decompositions.SCALES["smoke"]
TINY = replace(SMOKE, seeds=1, populations=2, constant_seeds=1, control_seeds=1, rounds=2, control_rounds=2)


def test_figures_6_and_7_have_one_home():
    homes = [(e.shown.number, e.study) for e in entries() if e.paper == "FedSplit/FedFac"]
    assert [home for home in homes if home[0] in ("Figure 6", "Figure 7")] == [
        ("Figure 6", "decompositions"),
        ("Figure 7", "decompositions"),
    ]


def test_populations_are_chosen_by_their_labels_alone_and_all_are_counted():
    table = decompositions.look_at_labels(SMOKE, 0.5, 0.4, 300, 6, 2, 1)["populations"]
    assert table["seed"].tolist() == list(range(300, 300 + len(table)))
    assert len(table) >= 6
    for outputs, wanted in (("as written", 2), ("nearly one label", 1)):
        rows = table[table["outputs"] == outputs]
        assert rows["used"].tolist() == [place < wanted for place in range(len(rows))]  # the first of each kind
        assert ((rows["majority_share"] < decompositions.VARIED) == (outputs == "as written")).all()
    seed = int(table["seed"].iloc[0])
    drawn = decompositions.draw(SMOKE, "as written", 0.5, 0.4, SMOKE.samples, seed, test=200)
    assert table["majority_share"].iloc[0] == drawn.majority_share("test").mean()
    with pytest.raises(RuntimeError, match="are too few"):
        decompositions.look_at_labels(SMOKE, 1.0, 0.4, 300, 0, 0, 1)  # shared units alone leave labels to chance


def test_output_weights_are_the_papers_or_centred_and_nothing_else_differs():
    written, centred = (
        decompositions.draw(SMOKE, outputs, 0.5, 0.4, SMOKE.samples, 3).truth for outputs in ("as written", "centred")
    )
    np.testing.assert_array_equal(written.weights, centred.weights)
    for group in (written.personal_units, ~written.personal_units):
        np.testing.assert_allclose(written.output[group] - written.output[group].mean(), centred.output[group])


def test_the_complement_shares_what_the_truth_keeps_and_as_many():
    clients = decompositions.drawn_with_start(SMOKE, 0.5, 0.8, 20, 0.5, 3)
    result = decompositions.federate_identified(SMOKE, decompositions.control_arms(), clients, 1e-9, 3)
    states = {arm: result.states[arm, 3] for arm in decompositions.CONTROL_ARMS}
    true, complement = (np.asarray(states[arm].shared["hidden.weight"]).ravel() for arm in ("true", "complement"))
    assert (true ^ complement).all()
    assert true.sum() == complement.sum()
    own, personal = clients.truth.own, clients.truth.personal_units
    for arm, mine in (("true", personal), ("complement", ~personal)):  # what nobody shares stays at its start
        np.testing.assert_allclose(np.asarray(states[arm].clients["hidden.weight"])[:, mine], own[:, mine], atol=1e-5)


def test_without_noise_and_training_the_true_decomposition_is_the_truth():
    """The server's mean of shared true weights is the generator's, so only the score's noise is left to err."""
    scale = replace(SMOKE, clients=6, test=400, control_rounds=1)
    clients = decompositions.drawn_with_start(scale, 0.5, 0.8, 20, 0.0, 3)
    arms = decompositions.control_arms()
    found = {
        arm: decompositions.federate_identified(scale, {arm: method}, clients, 1e-9, 3)
        .history.query("metric == 'accuracy'")["value"].mean()
        for arm, method in arms.items()
    }  # fmt: skip
    truth = clients.truth
    x = clients.test.x.reshape(len(clients), -1, clients.test.x.shape[-1])
    scores = np.einsum("cnm,m->cn", np.maximum(np.einsum("cnd,cmd->cnm", x, truth.weights), 0), truth.output)
    assert found["true"] == pytest.approx(((scores > 0).ravel() == clients.test.y).mean(), abs=0.002)
    assert found["true"] > found["complement"] + 0.1


@pytest.mark.slow
def test_the_control_finds_the_good_decomposition():
    scale = replace(SMOKE, clients=12, test=200, control_rounds=6)
    rates = dict.fromkeys(decompositions.CONTROL_ARMS, 3e-3)
    tables = [decompositions.control(scale, 0.5, 0.8, 20, 0.5, seed, rates)["control"] for seed in range(5)]
    table = pd.concat(tables).query("metric == 'accuracy'").pivot(index="seed", columns="arm", values="value")
    assert fs.inference.paired_difference(table["true"], table["complement"]).low > 0.02


def test_every_arm_of_the_papers_size_can_be_built():
    scale = decompositions.SCALES["paper"]
    assert (scale.clients, scale.d, scale.units) == (100, 100, 200)
    assert scale.settings == split.SETTINGS
    small = replace(scale, clients=4, test=10)
    clients = decompositions.draw(small, "as written", 0.2, 0.4, 20, 1)
    for p, _ in scale.settings:
        arms = split.arms(scale, p)
        assert set(decompositions.ARMS) <= set(arms)
    network = fs.models.mlp(scale.d, scale.units, 1)
    for label in decompositions.ARMS:
        fs.federate(
            {label: split.arms(scale, 0.2)[label]}, network, clients, fs.Training(lr=1e-3), rounds=1, seed=1,
            progress=False,
        )  # fmt: skip


def planted(shift):
    """Tables in which each arm has the true decomposition's metrics plus `shift`, by arm."""
    rng = np.random.default_rng(0)

    def rows(place, arms):
        for seed in range(6):
            base = rng.normal(0.8, 0.02)
            for arm, metric in itertools.product(arms, decompositions.METRICS):
                value = base + shift.get(arm, 0.0) + rng.normal(0, 1e-4)
                yield {"arm": arm, "seed": seed, "metric": metric, "value": value, **place}

    settings = [{"outputs": "as written", "p": p, "alpha": 0.4} for p in (0.5, 0.8)]
    settings.append({"outputs": "centred", "p": 0.5, "alpha": 0.4})
    cell = {"p": 0.5, "alpha": 0.4, "samples": 20, "noise": 0.5}
    return {
        "accuracy": pd.DataFrame([row for place in settings for row in rows(place, decompositions.ARMS)]),
        "control": pd.DataFrame(rows(cell, decompositions.CONTROL_ARMS)),
    }


def test_planted_differences_are_found_with_their_signs():
    tables = planted({"random, every round": -0.05, "Local": 0.02, "FedAvg": -0.1, "complement": -0.03})
    found = told.effects(tables)
    rows = {row["key"]: row for row in told._outcomes(found, told.places(tables))}
    assert [rows[key]["equivalent"] for key in ("static", "dynamic", "dynamic, code")] == [2, 2, 2]
    for arm, points in (("random, every round", "−5.00"), ("Local", "2.00")):
        assert rows[arm]["different"] == 2
        assert rows[arm]["p = 0.5, α = 0.4"]["points"][:3] == points[:3]
    seen = told._seen(found)
    assert (seen["complement"], seen["random"], seen["of"]) == (1, 0, 1)
    assert float(seen["unseen"]["most"]) < 0.1


def test_an_interval_is_the_one_that_compare_makes():
    """Over the populations of all settings, and with centred output weights."""
    tables = planted({"random, every round": -0.05})
    found, every = told.effects(tables), "random, every round"
    for metric, (factor, _, _) in told.METRICS.items():
        table = factor * effects.pooled(tables, metric)[[*told.COMPARED, "true"]].rename_axis("seed")
        design = fs.inference.Design(clients="new", data="drawn")
        if metric != "accuracy":  # by accuracy the settings belong to the same question
            rows = table.reset_index().melt("seed", var_name="method", value_name="mse").assign(client=0)
            row = fs.compare(rows, control="true", design=design).differences.loc[f"{every} − true"]
            effect = found[metric, told.POOLED, every, "true"]
            assert (effect.mean, effect.low, effect.high) == pytest.approx(tuple(row[["difference", "low", "high"]]))
    centred = effects.by_arm(tables, "centred", effects.TUNED_AT)
    d = fs.inference.paired_difference(100 * centred[every], 100 * centred["true"])
    effect = found["accuracy", told.CENTRED, every, "true"]
    assert (effect.low, effect.high, effect.p) == pytest.approx((d.low, d.high, d.p))


def test_bands_hold_for_all_rounds_and_arms_together():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        values = rng.normal(size=(3, 5, 6)) * np.array([1.0, 3.0, 10.0])[:, None, None]
        inside.append((np.abs(values.mean(axis=1)) <= told.band(values)).all())
    assert np.mean(inside) > 0.93  # 95% less two standard errors


@pytest.mark.slow
def test_the_study_runs_and_keeps_what_it_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "simulations.parts.run_jobs", lambda what, jobs, keep, **_: [keep(k, job()) for k, job in enumerate(jobs)]
    )
    tables = decompositions.run(TINY, tmp_path)
    kept = decompositions.evidence(tables)
    for name, table in decompositions.evidence(kept).items():
        pd.testing.assert_frame_equal(table, kept[name])
    trained = kept["accuracy"].drop_duplicates(["outputs", "p", "alpha", "seed"])
    assert trained["outputs"].value_counts().to_dict() == {"as written": 2, "centred": 1, "nearly one label": 1}
    assert set(kept["curves"]["round"]) == {TINY.rounds}
    assert set(kept["late"]["arm"]) == set(told.DYNAMIC)
