"""Check the laws that a method obeys, for the built-in methods and for a user's own.

Each law is checked on a few random clients drawn by Hypothesis, in float64; when a law is broken, the error shows the
smallest example that breaks it.
"""

from __future__ import annotations

import copy
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedstat._random import stream
from fedstat.data import Clients, Samples
from fedstat.federated import Method, Result, State, Training, Update, federate, load
from fedstat.federated.attendance import Attendance
from fedstat.federated.client.network import Model, Params, build
from fedstat.federated.codec import Bits, Entry, Message, Selected, Sparse, decode, encode, nonzeros, size
from fedstat.federated.engine.laws import BrokenLaw, check_statistics
from fedstat.methods import FedAvg, Local
from fedstat.models import mlp

INPUTS, UNITS, CLASSES = 3, 5, 2
_TIGHT, ROUNDING = 1e-12, 1e-8
NETWORK = mlp(INPUTS, UNITS, CLASSES)


@dataclass(frozen=True)
class Case:
    """One example for a law: the number of samples of each client, and the seed of data and run.

    Examples
    --------
    What a broken law is shown on, two clients with two and five samples:

    >>> import fedstat as fs
    >>> fs.testing.Case(sizes=(2, 5), seed=3)
    Case(sizes=(2, 5), seed=3)
    """

    sizes: tuple[int, ...]
    seed: int

    def clients(self) -> Clients:
        """Draw the clients: their inputs are Gaussian, and each client has its own linear rule for the labels."""
        rng = stream(self.seed, "law")
        k, n = len(self.sizes), max(self.sizes)
        x = rng.normal(size=(k, n, INPUTS))
        y = (np.einsum("knd,kd->kn", x, rng.normal(size=(k, INPUTS))) > 0).astype(np.int64)
        return Clients(Samples.from_rows(x, y, np.array(self.sizes)), classes=(0, 1))


def check_method(
    method: Method,
    *,
    model: Model | None = None,
    all_shared: Method | None = None,
    all_personal: Method | None = None,
    except_for: Collection[str] = (),
    examples: int = 10,
) -> None:
    """Check the laws of federated methods on `method`.

    =================  ============================================================================================
    law                statement
    =================  ============================================================================================
    ``permutation``    permuting the clients permutes the models (full batches, clients absent by turns)
    ``one client``     with one client and SGD the method is centralised training
    ``clones``         clients with the same data act as one client: aggregation weights sum to one
    ``fixed point``    with learning rate zero no model changes, whoever is absent
    ``chunk``          clients trained one by one end with the same models as clients trained together
    ``resume``         a run that was saved, loaded and continued has the bits of an uninterrupted one
    ``traffic``        messages have as many bytes as are counted, and the server uses nothing that was not sent
    ``statistics``     with batch norm, the running statistics of every model that is offered have moved
    ``all shared``     the variant `all_shared` is FedAvg, bit for bit
    ``all personal``   the variant `all_personal` is Local
    =================  ============================================================================================

    Laws that the method's class declares in ``exempt``, with a reason, are left out. With dropout in `model` the first
    three do not apply either, since its noise belongs to the client's number and plain training has other noise.

    Parameters
    ----------
    method : Method
        Configured for `model`.
    model : callable or nn.Module, optional
        The network, taking 3 inputs and giving 2 outputs; by default the method's ``example_model``, or
        ``mlp(3, 5, 2)`` with the layers ``hidden`` and ``head``.
    all_shared, all_personal : Method, optional
        The method's limit cases; their laws are checked where given.
    except_for : collection of str
        More laws that do not apply, by name.
    examples : int
        How many examples to try of each law.

    Raises
    ------
    AssertionError
        If a law is broken; the message names the law and the smallest example found.
    ValueError
        If `except_for` or the method's ``exempt`` names no law.

    Examples
    --------
    Silence is the good outcome:

    >>> import fedstat as fs
    >>> fs.testing.check_method(fs.methods.FedPer(), examples=1)
    """
    network = next(some for some in (model, type(method).example_model, NETWORK) if some is not None)
    laws: dict[str, Callable[[Case], None]] = {
        "permutation": lambda case: _permutation(method, network, case),
        "one client": lambda case: _one_client(method, network, case),
        "clones": lambda case: _clones(method, network, case),
        "fixed point": lambda case: _fixed_point(method, network, case),
        "chunk": lambda case: _chunk(method, network, case),
        "resume": lambda case: _resume(method, network, case),
        "traffic": lambda case: _traffic(method, network, case),
    }
    normed = _normed if network is NETWORK else network
    if build(normed, np.random.default_rng(0)).statistics:
        laws["statistics"] = lambda case: _statistics(method, normed, case)
    known = {*laws, "statistics", "all shared", "all personal"}
    if all_shared is not None:
        fedavg = FedAvg(weighting=all_shared.weighting)
        laws["all shared"] = lambda case: _limit(all_shared, fedavg, network, case)
    if all_personal is not None:
        laws["all personal"] = lambda case: _limit(all_personal, Local(), network, case)
    skipped = {*except_for, *method.exempt}
    if not skipped <= known:
        raise ValueError(f"except_for names no law: {sorted(skipped - known)}; laws are {', '.join(sorted(known))}.")
    for name in [law for law in laws if law not in skipped]:
        search(method, name, laws[name], examples, 1 if name in ("one client", "clones") else method.fewest)


def search(of: object, name: str, law: Callable[[Case], None], examples: int, fewest: int) -> None:
    """Try the law `name` of an object on random clients; raise an error that shows a small example that breaks it."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    sizes = st.lists(st.integers(2, 6), min_size=fewest, max_size=4).map(tuple)

    def hold(case: Case) -> None:
        try:
            law(case)
        except (AssertionError, BrokenLaw, ValueError) as error:  # a rehearsal refuses what breaks some laws
            raise AssertionError(f"{type(of).__name__} breaks the law '{name}' on {case}: {error}") from None

    attempt = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )(given(st.builds(Case, sizes, st.integers(0, 2**16)))(hold))
    try:
        attempt()
    except AssertionError:
        # what breaks a law does so nearly always on few clients, too, and those are found sooner than by Hypothesis
        for samples, clients in product((2, 6), range(fewest, 5)):
            hold(Case((samples,) * clients, 0))
        raise


_SGD = Training(lr=0.1, batch_size=3, local_epochs=2)
_LR, _EPOCHS = 0.1, 2
_FULL_BATCH = Training(lr=_LR, batch_size=100, local_epochs=_EPOCHS)
_STILL = Training(lr=0.0, batch_size=3)


def run_quietly(
    method: Method, model: Model, clients: Clients, training: Training, rounds: int, seed: int, **options: Any
) -> Result:
    """Run one method, called "it", in float64, without evaluation unless the options have it."""
    options = {"evaluate_at": (), **options}
    return federate(
        {"it": method}, model, clients, training, rounds=rounds, seed=seed, dtype="float64", progress=False, **options
    )


def _models(method: Method, result: Result) -> dict[str, Params]:
    """Return all clients' models after a run, by estimand."""
    ((key, state),) = result.states.items()
    federation = result.federations[key]
    models = method.models(state, torch.arange(len(federation.clients)), federation)
    return {estimand: predictor.params for estimand, predictor in models.items()}


def _trained(
    method: Method, model: Model, clients: Clients, training: Training, rounds: int, case: Case, **options: Any
) -> dict[str, Params]:
    """Return the models that a run ends with."""
    return _models(method, run_quietly(method, model, clients, training, rounds, case.seed, **options))


def same(first: dict[str, Params], second: dict[str, Params], tolerance: float) -> None:
    """Compare leaves, by the name of the model that they belong to."""
    assert first.keys() == second.keys(), f"estimands {sorted(first)} became {sorted(second)}"
    for estimand in first:
        if alone := sorted(first[estimand].keys() ^ second[estimand].keys()):
            raise AssertionError(
                f"{estimand}: only one of the two models has the leaves {alone}, and they are compared leaf by leaf. A "
                "method that adds leaves, or builds weights of parts, has no such limit case: leave it out here, and "
                "compare predictions in a test of your own"
            )
        for name, leaf in first[estimand].items():
            gap = (leaf.double() - second[estimand][name].double()).abs().max().item()
            assert gap <= tolerance, f"{estimand} {name} differs by {gap:.3g} (allowed {tolerance:g})"


def _by_turns(who: np.ndarray) -> Attendance:
    """Let one client of four be absent, another in each round; `who` says which ones stand in which places."""
    return lambda round, clients, rng, fixed: np.where((who + round) % 4 == 3, np.nan, 1.0)


def _permutation(method: Method, model: Model, case: Case) -> None:
    clients = case.clients()
    order = stream(case.seed, "order").permutation(len(clients))
    moved = Clients(clients.train.of(order), classes=clients.classes)
    here, there = (
        _trained(method, model, some, _FULL_BATCH, 3, case, participation=_by_turns(who))
        for some, who in ((clients, np.arange(len(clients))), (moved, order))
    )
    same({e: {n: leaf[order] for n, leaf in p.items()} for e, p in here.items()}, there, ROUNDING)


def _one_client(method: Method, model: Model, case: Case) -> None:
    clients = Case(case.sizes[:1], case.seed).clients()
    x, y = (torch.from_numpy(values) for values in clients.train.client(0))
    # zero training shows where the client starts; full batches make the order of samples immaterial
    still, moved = (
        run_quietly(method, model, clients, training, n, case.seed) for training, n in ((_STILL, 1), (_FULL_BATCH, 3))
    )
    network = moved.network(("it", case.seed))
    start, end = (_models(method, result) for result in (still, moved))
    for estimand, params in start.items():
        assert params.keys() >= network.shapes.keys(), f"{estimand} is not a network of one client"
        leaves = {name: params[name][0].clone() for name in network.shapes}
        optimizer = torch.optim.SGD([leaves[name].requires_grad_() for name in network.trainable], lr=_LR)
        for _ in range(3 * _EPOCHS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(leaves, x, train=True), y).backward()
            optimizer.step()
        central = {name: leaf.detach()[None] for name, leaf in leaves.items()}
        same({estimand: central}, {estimand: {name: end[estimand][name] for name in central}}, ROUNDING)


def _clones(method: Method, model: Model, case: Case) -> None:
    one = Case(case.sizes[:1], case.seed).clients()
    several = Clients(one.train.of(np.zeros(len(case.sizes), int)), classes=one.classes)
    single, stacked = (_trained(method, model, some, _FULL_BATCH, 2, case) for some in (one, several))
    for row in range(len(several)):
        clone = {e: {n: leaf[row : row + 1] for n, leaf in p.items()} for e, p in stacked.items()}
        try:
            same(single, clone, ROUNDING)
        except AssertionError as error:
            raise AssertionError(
                f"{error}. Do the weights sum to one? Does the method choose by rank, quantile or top k? Equal clients "
                "are tied, and so are entries that start equal: rounding must not decide between them; or name the law "
                "in `exempt`, with the reason"
            ) from None


def _fixed_point(method: Method, model: Model, case: Case) -> None:
    absent = _by_turns(np.arange(len(case.sizes)))
    result = run_quietly(method, model, case.clients(), _STILL, 3, case.seed, participation=absent)
    ((key, state),) = result.states.items()
    population = replace(result.federations[key], rng=stream(case.seed, "method"))
    begun = replace(result, states={key: method.init(result.network(key), population)})
    assert state.round == 3, f"three rounds ended in round {state.round}"
    same(_models(method, begun), _models(method, result), _TIGHT)


def _chunk(method: Method, model: Model, case: Case) -> None:
    alone, *others = (
        _trained(method, model, case.clients(), _SGD, 2, case, chunk=chunk, participation=0.7, executor="stacked")
        for chunk in (1, 2, None)
    )
    for other in others:
        same(alone, other, _TIGHT)


def _resume(method: Method, model: Model, case: Case) -> None:
    clients = case.clients()

    def run(rounds: int, resume: Result | None = None) -> Result:
        return run_quietly(method, model, clients, _SGD, rounds, case.seed, participation=0.7, resume=resume)

    with tempfile.TemporaryDirectory() as folder:
        run(1).save(Path(folder) / "run")
        continued = run(3, load(Path(folder) / "run"))
    whole = run(3)
    same(_models(method, whole), _models(method, continued), 0.0)
    (here,), (there,) = whole.states.values(), continued.states.values()
    for group in ("server", "memory", "clients", "unsent"):
        same({group: dict(getattr(here, group))}, {group: dict(getattr(there, group))}, 0.0)
    assert whole.history.equals(continued.history), "the history of a continued run differs"
    assert whole.traffic.equals(continued.traffic), "the traffic of a continued run differs"


def _traffic(method: Method, model: Model, case: Case) -> None:
    class Deaf(type(method)):  # type: ignore[misc]
        """The method; every round is aggregated again by a server that hears noise wherever nothing was sent."""

        averages = True

        def aggregate(self, state: State, update: Update) -> State:
            down, up = self.download(state, update), self.upload(state, update)
            for message in (down, up):
                _check_names(message, update)
                _check_encoding(message, len(update.ids))
            noise = np.random.default_rng(case.seed)
            end = {name: _spoilt(leaf, [up.get(name)], noise) for name, leaf in update.end.items()}
            start = {name: _spoilt(leaf, [up.get(name), down.get(name)], noise) for name, leaf in update.start.items()}
            rng = copy.deepcopy(update.rng)
            true = super().aggregate(state, update)
            heard = super().aggregate(state, replace(update, start=start, end=end, rng=rng))
            sent = [
                self.download(s, replace(update, ids=everyone, start=self.receive(s, everyone))) for s in (true, heard)
            ]
            assert sent[0].keys() == sent[1].keys(), f"downloads {sorted(sent[0])} became {sorted(sent[1])}"
            same({"download": _readable(sent[0])}, {"download": _readable(sent[1])}, ROUNDING)
            return true

    clients = case.clients()
    everyone = torch.arange(len(clients))
    result = run_quietly(
        Deaf(**{f.name: getattr(method, f.name) for f in fields(method)}), model, clients, _SGD, 3, case.seed
    )
    for message in method.prelude(result.network(("it", case.seed)), len(clients)):
        _check_encoding(message, len(clients))


def _normed() -> nn.Module:
    """Build the network of the laws with batch norm after its hidden layer."""
    layers = dict(NETWORK().named_children())
    return nn.Sequential(OrderedDict(hidden=layers["hidden"], norm=nn.BatchNorm1d(UNITS), head=layers["head"]))


def _statistics(method: Method, model: Model, case: Case) -> None:
    result = run_quietly(method, model, case.clients(), _SGD, 2, case.seed)
    check_statistics(result.network(("it", case.seed)), _models(method, result))


def _check_names(message: Message, update: Update) -> None:
    """Refuse an entry that bears a leaf's name and is something else: it would count as that leaf."""
    for name, values in _readable(message).items():
        leaf = update.end.get(name)
        assert leaf is None or values.shape == leaf.shape, (
            f"the entry {name!r} of a message is named like a leaf, and has shape {tuple(values.shape)} where that has "
            f"{tuple(leaf.shape)}; give it a name of its own, such as 'sent/{name}'"
        )


def _check_encoding(message: Message, clients: int) -> None:
    counted = np.broadcast_to(size(message), clients)
    for k in range(clients):
        data = encode(message, k)
        assert len(data) == counted[k], f"client {k} sends {len(data)} bytes, {counted[k]} are counted"
        heard = decode(data, message, k, nonzeros(message, k))
        for name, values in _readable(message).items():
            arrived = heard[name].nan_to_num().to(values.dtype)
            assert torch.equal(arrived, values[k]), f"{name} arrives changed at client {k}"


def _readable(message: Message) -> Params:
    """Return the values of a message, zero where it has none."""

    def read(entry: Entry) -> Tensor:
        if isinstance(entry, Selected):
            return torch.where(entry.mask, entry.values, 0)
        return entry.values if isinstance(entry, Sparse) else entry.mask.double() if isinstance(entry, Bits) else entry

    return {name: read(entry) for name, entry in message.items()}


def _spoilt(leaf: Tensor, entries: Sequence[Entry | None], rng: np.random.Generator) -> Tensor:
    """Return a leaf in which noise replaces every element that no entry of a message holds."""
    told = torch.zeros((), dtype=torch.bool)
    for entry in entries:
        told = told | (entry.mask if isinstance(entry, Selected) else torch.tensor(entry is not None))
    noise = torch.from_numpy(rng.normal(size=leaf.shape)).to(leaf.dtype)
    return torch.where(told, leaf, noise) if leaf.is_floating_point() else leaf


def _limit(variant: Method, limit: Method, model: Model, case: Case) -> None:
    both = (_trained(method, model, case.clients(), _SGD, 3, case, participation=0.7) for method in (variant, limit))
    # the names of the estimands may differ ("personal" where every unit is shared), the models may not
    here, there = ({"model": next(iter(models.values()))} for models in both)
    same(here, there, 0.0)
