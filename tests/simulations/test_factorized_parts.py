"""The parts of Factorized-FL's readings, its variants, and what the study finds in planted truths."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat.federated import build
from fedstat.federated.state import State
from fedstat.methods import FactorizedFL
from fedstat.methods.factorizedfl import ReadingPart
from simulations.factorized_parts.arms import BASES, CELLS, SWITCHES, cell_arms, domain_arms, network, single_arms
from simulations.factorized_parts.compared import effects, leads
from simulations.factorized_parts.numbers import findings, numbers
from simulations.factorized_parts.study import SCALES, evidence, heat, nearest, same_domain, similarity
from simulations.factorized_parts.variants import (
    Matched,
    Matching,
    Mixed,
    OtherKernel,
    Watched,
    WithoutMu,
    basis_below_the_head,
)
from tests.support.runs import differ, run, same

PARTS = get_args(ReadingPart)
MOMENTUM = fs.Training(lr=0.02, momentum=0.9, batch_size=8, local_epochs=2)


@pytest.mark.parametrize("variant", ["alpha", "beta"])
@pytest.mark.parametrize(("reading", "other"), [("code", "text"), ("text", "code")])
def test_a_reading_with_all_parts_switched_is_the_other_reading(variant, reading, other):
    options = {"variant": variant, "tau": 0.0, "epsilon": 1.0, "sparsity": 0.003}
    mixed = run(Mixed(reading=reading, switched=PARTS, **options), rounds=3, training=MOMENTUM)
    same(mixed, run(FactorizedFL(reading=other, **options), rounds=3, training=MOMENTUM))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_changes_the_code_s_reading(part):
    options = {"variant": "beta", "tau": 0.0, "epsilon": 1.0, "sparsity": 0.003}
    plain = run(Mixed(**options), rounds=3, training=MOMENTUM)
    differ(plain, run(Mixed(switched=(part,), **options), rounds=3, training=MOMENTUM))


def test_the_switches_of_the_study_are_all_parts():
    assert sorted(part for parts in SWITCHES.values() for part in parts) == sorted(PARTS)


def planted(effects, settings=None, seeds=8):
    """Tables as the study makes them: each arm's accuracy is .6 plus its planted effect, and noise of .002."""
    rng, rows = np.random.default_rng(1), []
    cells = {cell: cell_arms(cell) for cell in CELLS}
    every = settings or {**cells, "domains": tuple(domain_arms()), "one client": tuple(single_arms())}
    for setting, arms in every.items():
        common = 0.02 * rng.standard_normal(seeds)
        for arm in arms:
            effect = effects.get((setting, arm), effects.get(arm, 0.0))
            for seed in range(seeds):
                accuracy = 0.6 + common[seed] + effect + 0.002 * rng.standard_normal()
                values = {"accuracy": accuracy, "balanced_accuracy": accuracy, "log_loss": 1.0}
                values |= {"majority_share": 0.2, "bytes_up": 1e4, "bytes_down": 1e4}
                rows += [
                    {"seed": seed, "metric": m, "value": v, "setting": setting, "arm": arm, "lr": 0.03}
                    for m, v in values.items()
                ]
    sizes = [
        {"arm": arm, "seed": seed, "numbers": 100, "not_zero": 50, "mu_zero": 0.5}
        for arm in single_arms()
        for seed in range(seeds)
    ]
    return {"runs": pd.DataFrame(rows), "sizes": pd.DataFrame(sizes), **watched(seeds)}


def watched(seeds, rounds=6):
    """Similarities of clients whose v are closer within domains, as a result would record them."""
    rng = np.random.default_rng(2)
    records = {}
    for seed in range(seeds):
        noise = 0.01 * rng.standard_normal((rounds, 20, 20))
        v = np.where(same_domain(), 0.9, 0.5) + noise + noise.swapaxes(1, 2)
        v[:, range(20), range(20)] = 1.0
        weights = np.where(v > 0.7, v, 0.0)
        records["alpha", seed] = {"u": 0.95 + noise, "v": v, "weights": weights / weights.sum(2, keepdims=True)}
    found = SimpleNamespace(records=records)
    return {"similarity": similarity(found, "alpha"), "heat": heat(found, "alpha")}


EFFECTS = {
    ("iid", "beta"): 0.05,  # ahead of all controls in one cell alone
    "alpha: fill": -0.03, "beta, text: momentum": 0.04, "random three": -0.02, "code, 0.005": 0.02,
}  # fmt: skip


def test_planted_leads_and_parts_are_found_and_nothing_else():
    tables = planted(EFFECTS)
    found = findings(tables)
    ahead = [(lead.setting, lead.effect.first) for lead in leads(tables, effects(tables)) if lead.ahead]
    assert ahead == [("iid", "beta")]
    parts = {name: f.sign for name, f in found.items() if name.startswith("switch") and f.sign != "unclear"}
    assert parts == {"switch alpha: fill": "less", "switch beta, text: momentum": "more"}
    assert found["7g random three - three most similar"].sign == "less"
    assert {name for name, f in found.items() if name.startswith("7j") and f.sign == "more"} == {"7j code, 0.005"}
    assert [row["arm"] for row in numbers(tables, {})["ahead"]] == ["β"]
    assert found["7g random three - three most similar"].mean == pytest.approx(-2.0, abs=0.3)


def test_planted_domains_are_matched_and_chance_is_chance():
    found = findings(planted({}))
    assert found["nearest alpha"].mean == found["matched alpha"].mean == 1.0
    assert found["v_domain alpha"].mean == pytest.approx(0.4, abs=0.01)
    assert found["u_domain alpha"].sign == "unclear"
    blind = np.random.default_rng(0).random((4000, 20, 20))
    assert nearest(blind)[:, same_domain()].sum() / nearest(blind).sum() == pytest.approx(3 / 19, abs=0.002)
    assert (nearest(blind).sum(2) == 3).all()
    assert not nearest(blind)[:, range(20), range(20)].any()


def test_no_lead_is_claimed_against_the_better_control():
    tables = planted({"Local": -0.05, "FedPer": -0.05, "FedAvg": 0.05})
    ahead = {(lead.setting, lead.effect.first) for lead in leads(tables, effects(tables)) if lead.ahead}
    assert ahead == {(cell, base) for cell in CELLS if CELLS[cell][1] for base in BASES}  # where no FedAvg runs


def state(v, sent=None, round=3, key=7):
    memory = {"v": torch.tensor(v), "sent": torch.ones(len(v), dtype=torch.bool), "key": torch.tensor(key)}
    return State({}, memory=memory | ({} if sent is None else {"sent": torch.tensor(sent)}), round=round)


def test_matching_takes_the_nearest_the_farthest_the_domain_or_any_three():
    angle = np.linspace(0, np.pi / 2, 20)
    known = state(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    weights = {m: Matched(matching=m)._weights(known, torch.arange(20)) for m in get_args(Matching)}
    for found in weights.values():
        assert ((found == 0) | (found == 0.25)).all()
        assert (found.diagonal() == 0.25).all()
        assert (found.sum(1) == 1).all()
    assert weights["similar"][0].nonzero()[:, 0].tolist() == [0, 1, 2, 3]
    assert weights["worst"][0].nonzero()[:, 0].tolist() == [0, 17, 18, 19]
    assert weights["domain"][6].nonzero()[:, 0].tolist() == [4, 5, 6, 7]
    again = Matched(matching="random")._weights(replace(known, round=4), torch.arange(20))
    assert not torch.equal(weights["random"], again)  # drawn anew in every round
    few = Matched(matching="random")._weights(state(np.ones((20, 2)), [True, True] + 18 * [False]), torch.tensor([5]))
    assert few[0].nonzero()[:, 0].tolist() == [0, 1, 5]


def test_kernels_hold_the_weight_that_they_are_told():
    weight = torch.randn(4, 3, 5, 5, dtype=torch.float64)
    for kernel, shape in (("IF x OF", (15, 20)), ("O x IFF", (4, 75))):
        form = OtherKernel((4, 3, 5, 5), kernel=kernel)
        parts = form.parts(weight, np.random.default_rng(0))
        assert parts["mu"].shape == shape
        still = {"u": 0 * parts["u"], "v": parts["v"], "mu": form.matrix(weight)}
        torch.testing.assert_close(form.compose(still), weight, rtol=0, atol=0)
        assert torch.linalg.matrix_rank(form.matrix(form.compose(parts))) == 1


def test_without_mu_all_mu_stay_zero():
    result = run(WithoutMu(variant="beta", switched=("fill",), tau=0.0), rounds=2, training=MOMENTUM)
    leaves = result.states["it", 0].clients.rows(torch.arange(3))
    assert all((leaf == 0).all() for name, leaf in leaves.items() if name.endswith(".mu"))
    assert all(not (leaf == leaf[:1]).all() for name, leaf in leaves.items() if name == "hidden.weight.v")


def test_an_intruder_s_cosines_are_those_of_the_last_layer_below_the_head():
    result = run(Watched(tau=0.0), rounds=1, training=MOMENTUM, participation=1.0)
    assert basis_below_the_head(result.states["it", 0]) == "hidden.weight.u"
    record = result.records["it", 0]
    assert np.allclose(np.diagonal(record["u"][0]), 1)
    assert np.allclose(record["weights"][0].sum(1), 1)


@pytest.mark.slow
def test_the_paper_s_arms_and_networks_can_be_built():
    scale = SCALES["paper"]
    x = np.zeros((1, 3, 32, 32), np.float32)
    for label, arm in domain_arms().items():
        made = build(network(scale.network, x, 100, arm.network), np.random.default_rng(0))
        parts = arm.method.parameterize(made, np.random.default_rng(0)).parts
        assert bool(parts) == (label not in ("Local", "FedAvg") and "Local" not in label)
    y = np.arange(24) % 4
    clients = fs.data.from_arrays(np.zeros((24, 3, 32, 32), np.float32), y, np.arange(24) // 6, test=0.5)
    fs.describe(domain_arms()["beta"].method, network(scale.network, x, 100), clients)
    assert (scale.dataset, scale.rounds, scale.local_epochs, scale.samples) == ("cifar100", 100, 5, None)


def test_what_is_committed_is_what_is_committed_of_it():
    tables = planted({}, {"iid": ("Local", "beta")}, seeds=2)
    tuned = [{"setting": "iid", "arm": "beta", "lr": 0.1, "seed": s, "accuracy": s, "chosen": True, "end": False}
             for s in range(3)]  # fmt: skip
    once = evidence(tables | {"tuning": pd.DataFrame(tuned)})
    assert once["tuning"][["accuracy", "seeds"]].to_numpy().tolist() == [[1.0, 3]]
    for name, table in evidence(once).items():
        pd.testing.assert_frame_equal(table, once[name])
