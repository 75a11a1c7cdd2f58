"""PFedGate: limit cases, loops over torch layers as oracle, bytes, new clients, and the greedy choice of blocks."""

from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call
from torch.nn import functional as F

import fedstat as fs
from fedstat._random import stream
from fedstat.federated.client.local import Learner
from fedstat.federated.client.network import build
from fedstat.federated.replicate import participants
from fedstat.methods import FedAvg, PFedGate
from fedstat.methods._gate import blocks_of, gate_leaves, score
from tests.support.mixing import CLIENTS, FULL, STRANGERS, agree, mean, models_of, newcomers, samples, shares, state_of
from tests.support.networks import conv_net, plain_net
from tests.support.runs import run, same, sent, traffic

START = build(plain_net, stream(0, "initial weights"), torch.float64).initial()
WEIGHTS = list(START)
D = sum(leaf.numel() for leaf in START.values())


@dataclass(frozen=True, kw_only=True)
class Open(PFedGate):
    """All scores are one."""

    def leaves(self, network, federation):
        leaves = super().leaves(network, federation)
        return {**leaves, "gate/norm.bias": torch.full_like(leaves["gate/norm.bias"], 50)}


@pytest.mark.parametrize("parts", [1, 5, 20])
def test_pfedgate_with_open_gates_is_fedavg(parts):
    result = run(Open(density=1, parts=parts, gate_lr=0.0))
    same(result, run(FedAvg()), estimands=("personal", "global"))


def test_pfedgate_alternating_trains_the_model_after_the_gate():
    options = {"model": plain_net, "training": FULL}
    ours = run(Open(density=1, gate_lr=0.0, alternate=True), **options)
    same(ours, run(FedAvg(), **options), estimands=("personal", "global"))


def test_pfedgate_sends_statistics_whole():
    result = run(PFedGate(density=1))
    leaves = build(conv_net, stream(0, "x")).initial()
    weights = dict(conv_net().named_parameters())
    blocks = sum(len(leaf.flatten().chunk(5)) for leaf in weights.values())
    d = 8 * sum(leaf.numel() for leaf in leaves.values())
    assert sent(result, "up") == {d + -(-blocks // 8)}
    assert sent(result, "down") == {d}


@pytest.mark.parametrize(
    ("argument", "value"), [("density", 0.0), ("parts", 0), ("gate_lr", -1.0), ("gates", "batch"), ("ranking", "size")]
)
def test_arguments_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must .*{value}"):
        PFedGate(**{argument: value})


PARTS, DENSITY = 3, 0.6
FLOOR = 1 / 3


def switched(gate, x):
    """Switchable norm of images (n, C, H, W), moment by moment."""
    axes = [(1, 2, 3), (0, 2, 3), (2, 3)]
    means = [x.mean(a, keepdim=True) for a in axes]
    variances = [x.var(a, keepdim=True, correction=0) for a in axes]
    mean_share, var_share = (gate[f"input.{kind}_weight"].softmax(0) for kind in ("mean", "var"))
    centre = sum(w * m for w, m in zip(mean_share, means, strict=True))
    spread = sum(w * v for w, v in zip(var_share, variances, strict=True))
    scale, shift = (gate[f"input.{kind}"].view(1, -1, 1, 1) for kind in ("weight", "bias"))
    return (x - centre) / (spread + 1e-5).sqrt() * scale + shift


def scored(gate, x):
    """Scores of a batch, by its own moments."""
    z = switched(gate, x).flatten(1) @ gate["linear.weight"].T + gate["linear.bias"]
    return F.batch_norm(z, None, None, gate["norm.weight"], gate["norm.bias"], training=True).sigmoid()


def chosen(scores, sizes, dense, density, floor, ranking="score/size"):
    """Greedy choice, block by block; sizes are listed leaf by leaf."""
    blocks = [(name, i, size) for name, cut in sizes.items() for i, size in enumerate(cut)]
    kept = [i == 0 or density == 1 for _, i, _ in blocks]
    for group in (True, False):
        rest = [b for b, (name, i, _) in enumerate(blocks) if (name in dense) == group and i > 0]
        room = round((density - floor) * sum(blocks[b][2] for b in rest))
        cost = {b: blocks[b][2] if ranking == "score/size" else 1 for b in rest}
        for b in sorted(rest, key=lambda b: (-float(scores[b]) / cost[b], b)):
            if blocks[b][2] <= room:
                room -= blocks[b][2]
                kept[b] = True
            elif ranking == "score/size":
                break
    return kept


def gated(theta, scores):
    """The model that a client computes with, and the elements that are kept."""
    pieces = {n: [len(c) for c in theta[n].flatten().chunk(PARTS)] for n in WEIGHTS}
    dense = {n for n in WEIGHTS if n.startswith(("hidden", "head"))}
    g = scores.clamp(min=FLOOR)
    kept = chosen(g.tolist(), pieces, dense, DENSITY, FLOOR)
    model, elements, b = dict(theta), {}, 0
    for name, sizes in pieces.items():
        values = [g[b + i] * kept[b + i] * torch.ones(n, dtype=torch.float64) for i, n in enumerate(sizes)]
        model[name] = theta[name] * torch.cat(values).view(theta[name].shape)
        flags = [torch.full((n,), kept[b + i]) for i, n in enumerate(sizes)]
        elements[name], b = torch.cat(flags).view(theta[name].shape), b + len(sizes)
    return model, elements


GATE_LR = 0.3


def gate_trained(theta, gate, x, y, model_lr):
    """One round of full batches; returns the model and the gate."""
    theta, gate = ({n: leaf.clone() for n, leaf in group.items()} for group in (theta, gate))
    moving = [theta[n].requires_grad_() for n in WEIGHTS], [gate[n].requires_grad_() for n in gate]
    rates = [{"params": p, "lr": lr} for p, lr in zip(moving, (model_lr, GATE_LR), strict=True)]
    optimizer, module = torch.optim.SGD(rates, momentum=FULL.momentum), plain_net().double()
    for _ in range(FULL.local_epochs):
        optimizer.zero_grad()
        F.cross_entropy(functional_call(module, gated(theta, scored(gate, x[:, None]).mean(0))[0], (x,)), y).backward()
        optimizer.step()
    return [{n: leaf.detach() for n, leaf in group.items()} for group in (theta, gate)]


@cache
def gate_loop():
    """PFedGate in loops: the server's model and every client's gate after three rounds."""
    state = state_of(run(PFedGate(parts=PARTS), 1, model=plain_net, training=fs.Training(lr=0.0)))
    names = [n.removeprefix("gate/") for n in state.server if n.startswith("gate/")]
    names = [n for n in names if n not in ("scores", "input.mean", "input.var", "norm.mean", "norm.var")]
    first = {n: state.server[f"gate/{n}"] for n in names}
    theta, gates, sent = START, [first] * 6, {}
    for t in range(3):
        ids, ends = participants(0, t, 6, 0.5).tolist(), []
        for k in ids:
            x, y = samples(k)
            end, gates[k] = gate_trained(theta, gates[k], x, y, FULL.lr)
            kept = gated(theta, scored(gates[k], x[:, None]).mean(0))[1]
            ends.append({n: torch.where(kept[n], end[n], theta[n]) if n in kept else end[n] for n in theta})
            sent[t + 1, k] = sum(int(m.sum()) for m in kept.values())
        theta = mean(ends, shares(ids))
    return first, theta, gates, sent


def test_pfedgate_is_its_loop():
    _, theta, gates, sent = gate_loop()
    method = PFedGate(parts=PARTS, density=DENSITY, gate_lr=GATE_LR)
    result = run(method, model=plain_net, training=FULL)
    assert len(torch.stack([g["linear.weight"] for g in gates]).unique(dim=0)) > 1
    scores = [scored(gates[k], samples(k)[0][:, None]).mean(0) for k in range(6)]
    own = [{f"gate/{n}": g for n, g in gates[k].items()} | {"gate/scores": scores[k]} for k in range(6)]
    found = models_of(result)
    agree(found, [theta | gate for gate in own])
    tests = torch.from_numpy(CLIENTS.splits["test"].client(0)[0]).double()
    learner = Learner(build(plain_net, stream(0, "initial weights"), torch.float64), "cross_entropy")
    outputs = method.predict(learner, {n: leaf[0] for n, leaf in found.items()}, tests)
    expected = functional_call(plain_net().double().eval(), gated(theta, scores[0])[0], (tests,))
    torch.testing.assert_close(outputs, expected.detach(), rtol=0, atol=1e-10)
    blocks = sum(len(START[n].flatten().chunk(PARTS)) for n in WEIGHTS)
    for (t, k), elements in sent.items():
        assert traffic(result, "bytes_up").loc[t, k] == 8 * elements + -(-blocks // 8)
        assert traffic(result, "bytes_down").loc[t, k] == 8 * D
    first = gate_loop()[0]
    frozen = [gate_trained(theta, first, *samples(k, STRANGERS), 0.0)[1] for k in range(3)]
    agree(newcomers(method, result, plain_net), [theta | {f"gate/{n}": g for n, g in gate.items()} for gate in frozen])


def test_pfedgate_by_the_sample_does_not_depend_on_the_others():
    method = PFedGate(gates="sample")
    result = run(method, 2, model=plain_net)
    learner = Learner(build(plain_net, stream(0, "initial weights"), torch.float64), "cross_entropy")
    params = {n: leaf[1] for n, leaf in models_of(result).items()}
    x = samples(1)[0]
    together = method.predict(learner, params, x)
    torch.testing.assert_close(together[2:3], method.predict(learner, params, x[2:3]), rtol=0, atol=1e-12)
    gate = {n.removeprefix("gate/"): leaf for n, leaf in params.items() if n.startswith("gate/")}
    mine, whole = score(gate, x)[0], scored(gate, x[:, None])
    torch.testing.assert_close(mine, whole, rtol=0, atol=1e-10)  # stored moments are those of the training samples


@pytest.mark.parametrize("shape", [(3, 4, 4), (5, 7), (6,)])
def test_gates_ignore_padding_and_are_torch_layers_in_order(shape):
    rng = np.random.default_rng(0)
    gate = {n: leaf.double() for n, leaf in gate_leaves(shape, 4, rng).items()}
    gate = {n: leaf + 0.3 * torch.from_numpy(rng.normal(size=leaf.shape)) for n, leaf in gate.items()}
    x, valid = torch.from_numpy(rng.normal(size=(9, *shape))), torch.arange(9) < 6
    scores = score(gate, x, valid)[0][:6]
    assert scores.equal(score(gate, torch.where(valid.view(-1, *[1] * len(shape)), x, 99.0), valid)[0][:6])
    if len(shape) > 1:
        torch.testing.assert_close(scores, scored(gate, x[:6].reshape(6, len(gate["input.weight"]), -1, 1)))


@given(
    st.integers(0, 999), st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]), st.integers(1, 12),
    st.sampled_from(["score/size", "score"]),
)  # fmt: skip
@settings(max_examples=40)
def test_blocks_are_chosen_greedily(seed, density, parts, ranking):
    blocks = blocks_of(build(plain_net, stream(0, "x")), parts)
    scores = torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, blocks.count))
    kept = blocks.choose(scores, density, ranking)
    pieces = {n: [len(c) for c in START[n].flatten().chunk(parts)] for n in WEIGHTS}
    dense = {n for n in WEIGHTS if n.startswith(("hidden", "head"))}
    floor = min(max(1 / parts, 0.1), density)
    assert kept.tolist() == chosen(scores.clamp(min=floor).tolist(), pieces, dense, density, floor, ranking)
    spread = blocks.spread(torch.arange(blocks.count))
    assert [n for leaf in spread.values() for n in leaf.flatten().bincount().tolist() if n] == [
        *chain(*pieces.values())
    ]
