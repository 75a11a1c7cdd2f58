"""What messages give away: exact oracles, controls of known outcome, and the study's words."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.privacy import Look, invert, match, observe, psnr
from fedstat.privacy.inverting import _attack, infer_label
from simulations.privacy.study import ARMS, SCALES, Smooth, _measured, network

METHODS = ARMS | {"FedDecomp simultaneous": fs.methods.FedDecomp(variant="simultaneous", reading="text")}
TRAINING = fs.Training(lr=0.1, batch_size=10, local_epochs=2)


def digits(clients: int = 4, samples: int = 160) -> fs.data.Clients:
    found = load_digits()
    x = (found.images[:samples, None] / 16).astype(np.float64)
    return fs.data.from_arrays(x, found.target[:samples], np.arange(samples) % clients, test=0.2, seed=0)


CLIENTS = digits()
smooth = partial(Smooth, 1, 8, 10)


def look(method: fs.Method, where: Look, training: fs.Training = TRAINING, model=smooth, **how):
    return observe(method, model, CLIENTS, training, where, seed=3, dtype=how.pop("dtype", "float64"), **how)[0]


# --- what is seen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("batch", [1, 5])
def test_after_one_step_the_message_holds_the_gradient_that_torch_finds(name: str, batch: int) -> None:
    seen = look(METHODS[name], Look(client=1, round=2, batch=batch))
    module = smooth().double()
    weights = seen.network.compose(seen.secret.leaves)
    module.load_state_dict(weights)
    logits = module(seen.secret.x)
    if name == "FedRoD":  # the generic model learns the balanced loss
        counts = torch.bincount(seen.secret.own[1], minlength=10)
        logits = logits + counts.double().log()
    F.cross_entropy(logits, seen.secret.y).backward()
    expected = {leaf: p.grad for leaf, p in module.named_parameters()}
    assert len(seen.gradient) >= 6
    for leaf, found in seen.gradient.items():
        if leaf.endswith((".a", ".b")):
            continue
        assert torch.allclose(found, expected[leaf.removesuffix(".full")], rtol=1e-8, atol=1e-12), leaf


def test_no_personal_leaf_travels() -> None:
    seen = {name: look(method, Look()) for name, method in ARMS.items()}
    every = set(seen["FedAvg"].update)
    assert every == set(dict(smooth().named_parameters()))
    assert set(seen["FedPer"].update) == every - {"head.weight", "head.bias"}
    assert set(seen["FedRoD"].update) == every
    for reading in ("code", "text"):
        sent = set(seen[f"FedDecomp {reading}"].update)
        assert {name.removesuffix(".full") for name in sent} == every
        assert not any(name.endswith((".a", ".b")) for name in sent)


def test_what_stands_for_personal_leaves_is_the_common_start_and_not_the_clients_own() -> None:
    seen = look(ARMS["FedDecomp text"], Look(round=2))
    b = [name for name in seen.guess if name.endswith(".b")]
    assert b
    assert all(not seen.guess[name].any() for name in b)
    assert all(seen.secret.leaves[name].any() for name in b)
    per = look(ARMS["FedPer"], Look(round=2))
    begun = look(ARMS["FedPer"], Look(round=0))
    assert torch.equal(per.guess["head.weight"], begun.guess["head.weight"])
    assert not torch.equal(per.guess["head.weight"], per.secret.leaves["head.weight"])
    assert torch.equal(per.guess["conv1.weight"], per.secret.leaves["conv1.weight"])


def test_looking_disturbs_nothing_and_looks_of_one_round_are_about_the_same_samples() -> None:
    method = ARMS["FedDecomp text"]
    looks = [Look(client=2), Look(round=2, batch=4), Look(round=2, batch=1, steps=4)]
    first, whole, single = observe(method, smooth, CLIENTS, TRAINING, looks, seed=3, dtype="float64")
    again = look(method, looks[1])
    assert all(torch.equal(again.update[name], leaf) for name, leaf in whole.update.items())
    assert torch.equal(whole.secret.x, single.secret.x)
    assert not torch.equal(first.secret.x, whole.secret.x[:1])
    x, y = CLIENTS.train.client(0)
    for image, label in zip(whole.secret.x.numpy(), whole.secret.y.numpy(), strict=True):
        (place,) = np.flatnonzero((x == image).all((1, 2, 3)))
        assert y[place] == label
    result = fs.federate(
        {"it": method}, smooth, CLIENTS, TRAINING, rounds=2, seed=3, dtype="float64", evaluate_at=(), progress=False
    )
    (state,) = result.states.values()
    assert all(torch.equal(state.server[name], leaf) for name, leaf in whole.start.items())


class Half(fs.Method):
    """Every other unit of the hidden layer is personal."""

    def shared(self, network, federation):
        return {"hidden.weight": (torch.arange(12) % 2 == 0).reshape(1, 12, 1)}


def test_elements_that_are_not_sent_are_unknown() -> None:
    method = Half()
    x = CLIENTS.train.x.reshape(-1, 64)
    flat = fs.data.Clients(fs.data.Samples(x, CLIENTS.train.y, CLIENTS.train.n), classes=CLIENTS.classes)
    (seen,) = observe(method, fs.models.mlp(64, 12, 10), flat, TRAINING, [Look(round=1)], seed=3, dtype="float64")
    hidden = seen.gradient["hidden.weight"]
    assert torch.isnan(hidden).any()
    assert not torch.isnan(hidden).all()
    attack = _attack(seen, "squared", 0.0, "known", "known", False)
    assert attack.value(seen.secret.x.flatten()) < 1e-16


# --- the objective ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("objective", ["squared", "cosine"])
def test_who_knows_all_leaves_has_no_distance_at_the_truth(name: str, objective: str) -> None:
    seen = look(METHODS[name], Look(round=2, batch=3))
    truth = seen.secret.x.flatten()
    assert _attack(seen, objective, 0.0, "known", "known", False).value(truth) < 1e-13
    guessed = _attack(seen, objective, 0.0, "known", "start", False).value(truth)
    assert guessed < 1e-13 if name == "FedAvg" else guessed > 1e-9


@pytest.mark.parametrize("name", ["FedEM", "MOON", "PFedSD"])
@pytest.mark.parametrize("steps", [1, 3])
def test_what_a_method_looks_up_of_each_sample_is_that_of_the_samples_that_are_tried(name: str, steps: int) -> None:
    def normed() -> nn.Module:
        head = nn.Linear(20, 10)
        return nn.Sequential(OrderedDict(flat=nn.Flatten(), hidden=nn.Linear(64, 20), norm=nn.BatchNorm1d(20),
                                         act=nn.Sigmoid(), head=head))  # fmt: skip

    seen = look(fs.methods.find(name)(), Look(client=1, round=2, batch=3, steps=steps), model=normed)
    attack = _attack(seen, "squared", 0.0, "known", "known", True)
    assert attack.value(seen.secret.x.flatten()) < 1e-20
    assert attack.value(seen.secret.x.flatten().roll(1)) > 1e-4
    assert np.isfinite(invert(seen, labels="optimised", iterations=1).objective)


@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.FedProx(mu=3.0)], ids=["FedAvg", "FedProx"])
def test_several_steps_are_one_gradient_only_if_they_are_simulated(method: fs.Method) -> None:
    training = fs.Training(lr=0.1, momentum=0.5, weight_decay=0.01, batch_size=10)
    seen = look(method, Look(round=1, batch=2, steps=3), training)
    truth = seen.secret.x.flatten()
    assert _attack(seen, "squared", 0.0, "known", "start", True).value(truth) < 1e-13
    assert _attack(seen, "squared", 0.0, "known", "start", False).value(truth) > 1e-6
    one = look(method, Look(round=1, batch=2), training)
    assert _attack(one, "squared", 0.0, "known", "start", False).value(one.secret.x.flatten()) < 1e-13


@pytest.mark.parametrize("objective", ["squared", "cosine"])
@pytest.mark.parametrize("labels", ["known", "optimised"])
def test_the_slope_of_the_objective_agrees_with_differences(objective: str, labels: str) -> None:
    seen = look(ARMS["FedRoD"], Look(round=1, batch=2))
    attack = _attack(seen, objective, 0.01, labels, "known", False, (0.0, 1.0))
    at = attack.begin(np.random.default_rng(0))
    _, slope = attack.slope(at)
    for way in np.random.default_rng(1).normal(size=(5, len(at))):
        along = torch.from_numpy(way / np.linalg.norm(way))
        step = 1e-5
        numeric = (attack.value(at + step * along) - attack.value(at - step * along)) / (2 * step)
        assert numeric == pytest.approx(float(slope.double() @ along), rel=1e-4, abs=1e-8)


# --- labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rounds", [0, 3])
def test_the_label_of_one_sample_is_always_found(bias: bool, rounds: int) -> None:
    def model() -> nn.Module:
        net = nn.Sequential(OrderedDict(flat=nn.Flatten(), hidden=nn.Linear(64, 20), relu=nn.ReLU()))
        net.add_module("head", nn.Linear(20, 10, bias=bias))
        return net

    for method in (fs.FedAvg(), fs.methods.FedDecomp(lora_epochs=1)):
        looks = [Look(client=k, round=rounds) for k in range(4)]
        for seed in range(5):
            for seen in observe(method, model, CLIENTS, TRAINING, looks, seed=seed):
                assert infer_label(seen) == int(seen.secret.y[0])


def test_labels_cannot_be_inferred_without_the_head_or_of_several_samples() -> None:
    with pytest.raises(ValueError, match="does not send"):
        infer_label(look(ARMS["FedPer"], Look()))
    with pytest.raises(ValueError, match="one sample"):
        infer_label(look(fs.FedAvg(), Look(batch=2)))


# --- quality ---------------------------------------------------------------------------------------------------


def test_quality_agrees_with_scikit_image_and_closed_forms() -> None:
    metrics = pytest.importorskip("skimage.metrics")
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 3, 16, 16))
    assert psnr(x, y) == pytest.approx(metrics.peak_signal_noise_ratio(x, y, data_range=1), abs=1e-10)
    found = _measured(x, y)
    assert found["psnr"] == psnr(x, y)
    assert found["printed"] == pytest.approx(-10 * math.log10(((x - y) ** 2).sum() / (16 * 16)))  # of section 4.6
    channels = [metrics.structural_similarity(a, b, win_size=7, data_range=1) for a, b in zip(x, y, strict=True)]
    assert found["ssim"] == pytest.approx(np.mean(channels), abs=1e-12)
    a, b = np.full((1, 8, 8), 0.2), np.full((1, 8, 8), 0.6)  # only the term of luminance is left
    assert _measured(a, b)["ssim"] == pytest.approx((2 * 0.12 + 1e-4) / (0.04 + 0.36 + 1e-4), abs=1e-9)
    assert psnr(a, b) == pytest.approx(-20 * math.log10(0.4))


def test_reconstructions_are_paired_with_their_originals() -> None:
    x = np.random.default_rng(0).uniform(size=(6, 1, 4, 4))
    order = np.array([3, 1, 0, 5, 4, 2])
    assert (match(x, x[order])[order] == np.arange(6)).all()
    blurred = x[order] + 0.01
    assert np.allclose(blurred[match(x, blurred)], x + 0.01)


# --- controls --------------------------------------------------------------------------------------------------


def quality(seen, found) -> float:
    return psnr(seen.secret.x[0].numpy(), found.x[0])


def test_a_smooth_network_gives_one_image_away_and_a_random_gradient_does_not() -> None:
    seen = look(fs.FedAvg(), Look(client=1), dtype="float32")
    found = invert(seen, iterations=150)
    assert quality(seen, found) > 30
    assert found.objective < 1e-4
    torch.manual_seed(0)
    noise = {n: torch.randn_like(g) for n, g in seen.gradient.items()}
    noise = {n: g * seen.gradient[n].norm() / g.norm() for n, g in noise.items()}
    mean = np.concatenate([CLIENTS.train.client(k)[0] for k in (0, 2, 3)]).mean(0)
    random = invert(replace(seen, gradient=noise), iterations=150)
    assert quality(seen, random) < psnr(seen.secret.x[0].numpy(), mean)
    assert random.objective > 0.1


@pytest.mark.slow
def test_labels_may_be_inferred_or_optimised_and_adam_finds_the_image_as_well() -> None:
    seen = look(fs.FedAvg(), Look(client=1), dtype="float32")
    inferred = invert(seen, labels="inferred", iterations=150)
    assert np.array_equal(inferred.x, invert(seen, iterations=150).x)
    optimised = invert(seen, labels="optimised", iterations=300, restarts=3)
    assert optimised.labels.tolist() == seen.secret.y.tolist()
    assert quality(seen, optimised) > 25
    adam = invert(seen, objective="cosine", optimizer="adam", total_variation=1e-4, iterations=600)
    assert quality(seen, adam) > 20


@pytest.mark.slow
def test_hiding_tau_protects_only_from_who_does_not_know_it() -> None:
    """At tau far from zero the attacker who puts zero fails; the one who knows it does not."""
    seen = look(ARMS["FedDecomp text"], Look(client=1, round=6), dtype="float32")
    knowing, guessing = (invert(seen, personal=p, iterations=200) for p in ("known", "start"))
    assert quality(seen, knowing) > quality(seen, guessing) + 5


@pytest.mark.slow
def test_several_steps_give_the_images_away_to_who_repeats_them() -> None:
    seen = look(fs.FedAvg(), Look(client=1, round=2, steps=4), dtype="float32")
    x = seen.secret.x.numpy()
    taken, repeated = (invert(seen, simulate=s, iterations=250).x for s in (False, True))
    worst = [min(psnr(a, b) for a, b in zip(x, f[match(x, f)], strict=True)) for f in (taken, repeated)]
    assert worst[0] < 12
    assert worst[1] > 30


def test_the_same_arguments_give_the_same_bits_and_the_best_restart_is_kept() -> None:
    seen = look(fs.FedAvg(), Look(client=1, batch=2), dtype="float32")
    three = invert(seen, iterations=20, restarts=3, seed=5)
    again = invert(seen, iterations=20, restarts=3, seed=5)
    assert np.array_equal(three.x, again.x)
    assert three.objective == three.objectives.min()
    assert len(set(three.objectives)) == 3
    assert three.x.min() >= 0
    assert three.x.max() <= 1
    assert not np.array_equal(three.x, invert(seen, iterations=20, restarts=3, seed=6).x)


def test_roughness_is_paid_for() -> None:
    seen = look(fs.FedAvg(), Look(client=1), dtype="float32")
    rough, even = (invert(seen, iterations=30, total_variation=w).x for w in (0.0, 10.0))
    assert np.abs(np.diff(even, axis=-1)).mean() < np.abs(np.diff(rough, axis=-1)).mean() / 2


# --- the ratio of gradients ------------------------------------------------------------------------------------


def dense(method: fs.Method, where: Look, model=None, dtype: str = "float64"):
    model = model or fs.models.mlp(64, 24, 10)
    return observe(method, model, CLIENTS, TRAINING, where, seed=3, dtype=dtype)[0]


@pytest.mark.parametrize("name", ["FedAvg", "FedPer", "FedRoD", "FedDecomp text"])
def test_a_dense_first_layer_gives_one_image_away_to_rounding_whatever_comes_after_it(name: str) -> None:
    """The heads of FedPer are not sent, tau of FedDecomp neither; any unit's rows tell the same."""
    seen = dense(ARMS[name], Look(client=1, round=5))
    found = invert(seen, iterations=1)
    assert found.attack == "ratio"
    np.testing.assert_allclose(found.x, seen.secret.x.numpy(), rtol=0, atol=1e-6)
    weight, bias = (seen.gradient[leaf] for leaf in seen.gradient if leaf.startswith("hidden"))
    weight, bias = (weight, bias) if weight.dim() == 2 else (bias, weight)
    unit = int(bias.abs().argmax())
    np.testing.assert_allclose(found.x[0].ravel(), weight[unit] / bias[unit], rtol=0, atol=1e-6)
    assert found.objectives[0] != found.objective  # the search's own is still told


def test_where_heads_stay_with_clients_the_ratio_finds_what_the_search_does_not() -> None:
    seen = dense(fs.methods.FedRep(), Look(client=1, round=5), dtype="float32")
    found = invert(seen, iterations=100)
    unbiased = {name: leaf for name, leaf in seen.gradient.items() if name != "hidden.bias"}
    searched = invert(replace(seen, gradient=unbiased), iterations=100)
    assert (found.attack, searched.attack) == ("ratio", "search")
    assert quality(seen, searched) < 25
    assert quality(seen, found) > 60


def test_units_that_are_not_sent_do_not_matter_to_the_ratio() -> None:
    seen = dense(Half(), Look(client=1, round=1), fs.models.mlp(64, 12, 10))
    found = invert(seen, iterations=1)
    assert found.attack == "ratio"
    np.testing.assert_allclose(found.x, seen.secret.x.numpy(), rtol=0, atol=1e-6)


def after_another() -> nn.Module:
    """The dense layer of as many inputs as pixels is not the first."""
    return nn.Sequential(
        OrderedDict(
            flat=nn.Flatten(), norm=nn.LayerNorm(64), hidden=nn.Linear(64, 20), relu=nn.ReLU(), head=nn.Linear(20, 10)
        )
    )


def unbiased() -> nn.Module:
    return nn.Sequential(
        OrderedDict(flat=nn.Flatten(), hidden=nn.Linear(64, 20, bias=False), relu=nn.ReLU(), head=nn.Linear(20, 10))
    )


@pytest.mark.parametrize(
    ("method", "where", "model"),
    [
        (fs.FedAvg(), Look(batch=2), None),
        (fs.FedAvg(), Look(steps=2), None),
        (fs.FedAvg(), Look(), smooth),
        (fs.FedAvg(), Look(), after_another),
        (fs.FedAvg(), Look(), unbiased),
    ],
    ids=["two samples", "two steps", "convolutions", "normed before", "no bias"],
)
def test_the_ratio_is_offered_only_where_it_is_the_input(method: fs.Method, where: Look, model: Any) -> None:
    assert invert(dense(method, where, model), iterations=1).attack == "search"


# --- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (fs.Training(lr=0.1, optimizer="adam"), "adam"),
        (fs.Training(lr=0.1, clip_norm=1.0), "clip_norm"),
        (fs.Training(lr=0.0), "lr=0"),
    ],
)
def test_updates_that_are_no_gradients_are_refused(training: fs.Training, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        look(fs.FedAvg(), Look(), training)


@pytest.mark.parametrize("name", ["PerFedAvg", "PFedMe", "SCAFFOLD"])
def test_methods_with_steps_of_their_own_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has steps of its own"):
        look(fs.methods.find(name)(), Look())


def test_momentum_of_earlier_rounds_which_no_message_tells_is_refused() -> None:
    method = fs.methods.find("FactorizedFL")()
    with pytest.raises(ValueError, match="training must have momentum 0, which FactorizedFL keeps"):
        look(method, Look(round=1, batch=2), fs.Training(lr=0.1, momentum=0.9))
    seen = look(method, Look(round=1, batch=2), fs.Training(lr=0.1))
    assert _attack(seen, "squared", 0.0, "known", "known", False).value(seen.secret.x.flatten()) < 1e-20


def test_refusals_name_argument_value_and_remedy() -> None:
    with pytest.raises(ValueError, match="client must be below 4"):
        look(fs.FedAvg(), Look(client=4))
    with pytest.raises(ValueError, match="batch times steps must be at most 32"):
        look(fs.FedAvg(), Look(batch=40))
    with pytest.raises(ValueError, match="sends no leaf"):
        look(fs.Local(), Look())
    seen = look(fs.FedAvg(), Look())
    for how, words in (
        ({"objective": "l1"}, 'objective must be "squared" or "cosine", got .l1.'),
        ({"iterations": 0}, "iterations"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"total_variation": -1.0}, "total_variation"),
    ):
        with pytest.raises(ValueError, match=words):
            invert(seen, **how)


# --- the study -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARMS)
def test_the_papers_network_and_arms_can_be_attacked(name: str) -> None:
    scale = SCALES["paper"]
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(12, 3, 32, 32)).astype(np.float32), np.arange(12) % 10
    clients = fs.data.from_arrays(x, y, np.repeat([0, 1], 6), test=0, seed=0)
    training = fs.Training(lr=scale.lr, batch_size=scale.batch, local_epochs=2)
    model = network(scale, x[0], 10)
    (seen,) = observe(ARMS[name], model, clients, training, [Look(batch=2)], seed=0)
    found = invert(seen, objective=scale.objective, optimizer=scale.optimizer, total_variation=1e-4, iterations=2)
    assert found.x.shape == (2, 3, 32, 32)
    known = _attack(seen, "squared", 0.0, "known", "known", False)
    assert known.value(seen.secret.x.flatten()) < 1e-4  # moments of batch norm are the batch's own


def planted(lower: dict[tuple[str, str], float], seeds: int = 6) -> dict[str, pd.DataFrame]:
    """Tables in which every image has 30 dB, but for what is planted, a seed's own shift and noise between images."""
    rng, rows = np.random.default_rng(0), list[dict[str, Any]]()
    attacks = [("FedAvg", a) for a in ("guessing", "cosine", "random gradient", "mean image", "another image")]
    kinds = ("guessing", "knowing", "simulating", "simulating, knowing")
    attacks += [("FedAvg", "simulating"), *((arm, attack) for arm in ARMS if arm != "FedAvg" for attack in kinds)]
    for seed in range(seeds):
        shift = rng.normal(scale=3)
        for stage, steps in ((0, 1), (2, 1), (10, 1), (10, 4)):
            for arm, attack in attacks[:1] if stage == 0 else attacks:
                if attack.startswith("simulating") and steps == 1:
                    continue
                for image in range(4):
                    value = 35 + shift - lower.get((arm, attack), 0.0) + rng.normal(scale=0.3)
                    row = {"arm": arm, "attack": attack, "stage": stage, "batch": 1, "steps": steps, "seed": seed}
                    row |= {"client": image, "image": 0, "objective": 0.0}
                    rows.append(row | {"psnr": value, "printed": value - 4.77, "ssim": 0.5})
    accuracy = [
        {"stage": stage, "metric": metric, "value": 0.5 + 0.01 * seed, "arm": arm, "seed": seed}
        for stage in (2, 10)
        for metric in ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
        for arm in ARMS
        for seed in range(seeds)
    ]
    return {"images": pd.DataFrame(rows), "accuracy": pd.DataFrame(accuracy)}


def test_the_study_finds_what_was_planted_and_nothing_else() -> None:
    from simulations.privacy.numbers import findings, numbers

    poor = {("FedAvg", a): 20.0 for a in ("random gradient", "another image")} | {("FedAvg", "mean image"): 15.0}
    tables = planted(
        poor
        | {("FedDecomp text", "guessing"): 8.0, ("FedPer", "knowing"): 5.0}
        | {("FedAvg", "simulating"): -9.0, ("FedRoD", "simulating, knowing"): 4.0}
    )
    found = findings(tables)
    signs = {key: finding.sign for key, finding in found.items()}
    assert signs["positive"] == "more"
    assert signs["negative"] == "less"
    assert signs["FedDecomp text - FedAvg"] == "less"
    assert signs["FedDecomp text knowing"] == "more"
    assert signs["FedPer knowing"] == "less"
    for same in ("FedDecomp text known - FedAvg", "FedDecomp code - FedAvg", "FedDecomp code knowing", "steps"):
        assert signs[same] == "unclear", same
    assert signs["simulating"] == "more"
    assert signs["FedPer - FedAvg repeated"] == "less"
    assert signs["FedRoD knowing repeated"] == "less"
    assert signs["FedDecomp text knowing repeated"] == "unclear"
    old = tables["images"][~tables["images"]["attack"].str.startswith("simulating")]
    assert findings(tables | {"images": old}).keys() == {key for key in found if not key.endswith(("repeated", "ting"))}
    assert found["FedDecomp text - FedAvg"].mean == pytest.approx(-8, abs=0.5)
    shown = numbers(tables, {"pool": 2, "dataset": "cifar10", "images": 600})
    assert shown["seeds"] == 6
    assert shown["per_seed"] == 8
    assert shown["channels"] == "4.77"
    assert shown["mean"]["sign"]["of"] == 4
    one = next(row for row in shown["one"] if row["message"] == "FedAvg")
    assert float(one["most"].split()[0]) > float(one["psnr"].split()[0])


def test_intervals_run_over_seeds_and_not_over_images() -> None:
    from simulations.privacy.numbers import findings

    tables = planted({})
    doubled = {**tables, "images": pd.concat([tables["images"]] * 2)}
    first, second = (findings(t)["positive"] for t in (tables, doubled))
    assert (first.low, first.high) == pytest.approx((second.low, second.high))
