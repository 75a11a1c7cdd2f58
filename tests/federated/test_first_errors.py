"""What a newcomer gets wrong first: every error names the argument, its value and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.claims import Claim, ClaimError
from fedstat.testing import check_method

_NET = fs.models.mlp(3, 5, 2)
_TRAINING = fs.Training(lr=0.1)
_CLAIM = dict(id="A-1", place="here", said_by="me", words="words", statement="x", severity="false", sensitivity="none")


@pytest.fixture(scope="module")
def clients() -> fs.data.Clients:
    rng = np.random.default_rng(0)
    towns = np.repeat(["Ulm", "Bonn", "Kiel", "Jena"], 10)
    return fs.data.from_arrays(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), towns, seed=0)


def _mine(**steps: Callable[..., Any]) -> fs.Method:
    return type("Mine", (fs.Method,), steps)()


def _run(clients: fs.data.Clients, method: Any, model: Any = _NET) -> fs.Result:
    return fs.federate(method, model, clients, _TRAINING, rounds=1, progress=False)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Ditto", "fedstat has no 'Ditto'; it is fedstat.methods.Ditto."),
        ("from_arrays", "it is fedstat.data.from_arrays."),
        ("mlp", "it is fedstat.models.mlp."),
        ("federat", "did you mean .*fedstat.federate"),
    ],
)
def test_a_name_looked_for_at_the_top_is_found_where_it_lies(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(fs, name)
    assert not hasattr(fs, "__no_such__")


@pytest.mark.parametrize(
    ("method", "model", "words"),
    [
        ("FedAvg", _NET, r"got 'FedAvg'.*fs.methods.find\('FedAvg'\)\(\) makes one"),
        (fs.FedAvg, _NET, "Call it to make one"),
        ([fs.FedAvg(), fs.FedAvg(fine_tune=1)], _NET, "label 'FedAvg'.*{'FedAvg A': fs.methods.FedAvg"),
        (fs.FedAvg(), "mlp", "model must be an nn.Module or a function .*got 'mlp'"),
        (fs.FedAvg(), None, "model must be .*got NoneType"),
        (fs.FedAvg(), torch.nn.Linear, "Linear needs some .*lambda: Linear"),
    ],
)
def test_federate_says_what_to_pass(clients: fs.data.Clients, method: Any, model: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _run(clients, method, model)


def test_a_client_is_a_number_or_its_name(clients: fs.data.Clients) -> None:
    result = _run(clients, fs.methods.Local())
    x = torch.ones(1, 3)
    for number, name in enumerate(clients.names):
        assert torch.equal(result.personal(name)(x), result.personal(number)(x))
    assert not torch.equal(result.personal("Bonn")(x), result.personal("Ulm")(x))
    for wrong in ("Berlin", 1.0, None, True):
        with pytest.raises(ValueError, match=rf"client must be a number from 0 to 3 .*got {wrong!r}; .*0 \(Bonn\)"):
            result.personal(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ({"hidden.weight": torch.zeros(5, 3, dtype=torch.bool)}, r"shape \(5, 3\).*client axis first.*mask\[None\]"),
        ({"hidden.weight": torch.zeros(3, 1, 1, dtype=torch.bool)}, "length 1 or 4"),
        ({"hidden.weight": torch.zeros(1, 4, 3, dtype=torch.bool)}, r"fit \(5, 3\)"),
        ({"hidden.weight": torch.zeros(1, 1, 1)}, "tensor of bool, got dtype torch.float32"),
        ({"hidden.weight": False}, "tensor of bool, got False"),
        (None, "Mine.shared must return a dict of tensors by leaf, got NoneType"),
    ],
)
def test_a_mask_of_another_form_is_named(clients: fs.data.Clients, masks: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _run(clients, _mine(shared=lambda self, network, federation: masks))


@pytest.mark.parametrize(
    "step",
    ["init", "parameterize", "receive", "prepare", "phases", "objective", "constrain", "finish", "download", "upload",
     "aggregate", "models", "predict"],
)  # fmt: skip
def test_a_step_without_return_is_named(clients: fs.data.Clients, step: str) -> None:
    def forgetful(self: fs.Method, *args: Any, **named: Any) -> None:
        getattr(fs.Method, step)(self, *args, **named)

    forgetful.__qualname__ = f"Mine.{step}"
    with pytest.raises(ValueError, match=rf"Mine\.{step} must return .*, got NoneType"):
        _run(clients, _mine(**{step: forgetful}))


def test_a_mask_with_a_row_for_each_client_serves(clients: fs.data.Clients) -> None:
    each = {"hidden.weight": torch.arange(4).view(4, 1, 1) < 2, "head.bias": torch.zeros(1, 1, dtype=torch.bool)}
    assert _run(clients, _mine(shared=lambda self, network, federation: each)).states


def test_an_entry_named_like_a_leaf_is_no_other_thing() -> None:
    def upload(self: fs.Method, state: fs.State, update: fs.Update) -> Mapping[str, torch.Tensor]:
        return {**fs.Method.upload(self, state, update), "head.bias": update.end["head.bias"][:, :1]}

    with pytest.raises(AssertionError, match=r"entry 'head.bias' .*named like a leaf.*a name of its own"):
        check_method(_mine(upload=upload), except_for=("one client", "clones", "chunk", "resume"), examples=1)


def test_a_limit_with_other_leaves_is_told_apart() -> None:
    class Slotted(fs.Method):
        def leaves(self, network: Any, federation: Any) -> Any:
            return network.initial() | {"residual/head.bias": torch.zeros(2, dtype=torch.float64)}

    laws = ("permutation", "one client", "clones", "fixed point", "chunk", "resume", "traffic")
    with pytest.raises(AssertionError, match=r"\['residual/head.bias'\].*compared leaf by leaf"):
        check_method(Slotted(), all_shared=Slotted(), except_for=laws, examples=1)


def test_a_claim_says_how_checks_are_added() -> None:
    for name in ("mutant", "mutants", "readings", "control"):
        with pytest.raises(ClaimError, match=rf"no argument of Claim.*@NAME.{name.rstrip('s')}\('in words'\)"):
            Claim(**_CLAIM, **{name: None})
    with pytest.raises(ClaimError, match="A-1: it has no reading; add a check"):
        fs.claims.judge(Claim(**_CLAIM))
    with pytest.raises(ClaimError, match=r"a check needs a name in words.*got None"):
        Claim(**_CLAIM).mutant(None)  # type: ignore[arg-type]
    with pytest.raises(ClaimError, match=r"claim must be a fedstat.claims.Claim, got 'A-1'"):
        fs.claims.judge("A-1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: fs.describe("FedAvg", _NET), "fs.methods.find"),  # type: ignore[arg-type]
        (lambda c: fs.describe(fs.FedAvg(), _NET, "mine.csv"), "clients must be Clients.*got str"),  # type: ignore[arg-type]
        (
            lambda c: fs.federate(fs.FedAvg(), c, _NET, _TRAINING, rounds=1),
            "stand after the model; got Clients as model",
        ),  # type: ignore[arg-type]
        (lambda c: fs.newcomers("runs/mine", c), "result must be a Result.*got str"),  # type: ignore[arg-type]
        (lambda c: fs.newcomers(_run(c, fs.FedAvg()), np.ones(3)), "clients must be Clients.*got ndarray"),  # type: ignore[arg-type]
    ],
)
def test_other_calls_name_their_argument(clients: fs.data.Clients, call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(clients)
