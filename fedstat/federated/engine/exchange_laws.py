"""The laws of what lies between clients and server: aggregators, attacks, attendances, compressions and mechanisms.

As those of `fedstat.federated.engine.laws` they are tried on a few made-up numbers before a run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat._random import stream
from fedstat.data import Clients, Samples
from fedstat.federated.aggregators import Aggregator
from fedstat.federated.attacks import Attack, poisoned, poisons
from fedstat.federated.attendance import Attendance, checked
from fedstat.federated.compression import Compression
from fedstat.federated.engine.laws import BrokenLaw, called, first_line
from fedstat.federated.engine.rehearsal import generators
from fedstat.federated.mechanisms import Mechanism, released


def try_aggregator(aggregator: Aggregator) -> None:
    """Check a rule by which a server combines changes on a few made-up ones; raise `BrokenLaw`."""
    rng, fewest, device = np.random.default_rng(0), getattr(aggregator, "fewest", 1), torch.device("cpu")
    for m in {max(9, fewest), max(3, fewest)}:
        changes, order = torch.from_numpy(rng.normal(size=(m, 6))), torch.from_numpy(rng.permutation(m))
        weight = torch.from_numpy(rng.dirichlet(np.ones(m)))
        given, before = (changes.clone(), weight.clone()), generators(device)
        found, still = (called("it", aggregator, x, given[1]) for x in (given[0], torch.zeros_like(changes)))
        for one in (found, still):
            _check_made(one, (6,), "it must return one change, here of shape (6,)", "changes, or of zeros, it")
        if not (torch.equal(given[0], changes) and torch.equal(given[1], weight)):
            raise BrokenLaw("untouched", "it writes into the changes or the weights that it is given.")
        if before != generators(device) or not torch.equal(found, aggregator(changes.clone(), weight.clone())):
            raise BrokenLaw("repeat", "its outcome differs between two identical calls, or it draws random numbers.")
        if (found - aggregator(changes[order], weight[order])).abs().max() > 1e-6:
            raise BrokenLaw("order", "its outcome depends on the order of the participants.")
        if still.abs().max() > 0:
            raise BrokenLaw("still", "it moves though no participant does.")
        for value in (1e12, torch.nan, torch.inf, -torch.inf):
            given[0][0, 0] = value
            found = called("it", aggregator, given[0].clone(), weight.clone())
            if value == 1e12 and not found.abs().max() < 1e6:
                break  # such as a mean, which goes wherever it is taken
            if not found.isfinite().all():
                raise BrokenLaw(
                    "absent",
                    "it withstands a change of any size, but not one that is not finite. Let that count as none, by "
                    "changes.where(changes.isfinite().all(1, keepdim=True), 0).",
                )


def _check_made(made: Any, shape: tuple[int, ...], must: str, of: str) -> None:
    """Refuse what is no tensor of a shape, as something `must` return, or is not finite."""
    if not isinstance(made, Tensor) or made.shape != shape:
        got = f"shape {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
        raise BrokenLaw("shape", f"{must}, got {got}.")
    if not made.isfinite().all():
        raise BrokenLaw("finite", f"of finite {of} makes infinite or undefined numbers.")


def try_attack(attack: Attack) -> None:
    """Check an attack on a few made-up changes and, if it poisons data, clients; raise `BrokenLaw`."""
    device, rng = torch.device("cpu"), np.random.default_rng(0)
    for who in ((1, 4, 5), (2,), range(6)):
        malicious = torch.tensor([k in who for k in range(6)])
        for changes in (torch.from_numpy(rng.normal(size=(6, 5))), torch.zeros(6, 5).double()):
            given, before = (changes.clone(), malicious.clone()), generators(device)
            found = called("it", attack, *given, np.random.default_rng(1))
            again = called("it", attack, changes.clone(), malicious.clone(), np.random.default_rng(1))
            must = f"{len(who)} attackers must send changes of shape ({len(who)}, 5)"
            _check_made(found, (len(who), 5), must, "changes, or of zeros, it")
            if not (torch.equal(given[0], changes) and torch.equal(given[1], malicious)):
                raise BrokenLaw("untouched", "it writes into what it is given.")
            if before != generators(device) or not torch.equal(found, again):
                raise BrokenLaw(
                    "repeat", "it differs between two identical calls. Let it draw from the rng it is given."
                )
    if poisons(attack):
        _try_poison(attack)


def _try_poison(attack: Attack) -> None:
    """Check an attack on the training data of four clients."""
    who, rng = np.array([1, 3]), np.random.default_rng(0)
    clients = Clients(Samples.from_rows(rng.normal(size=(4, 5, 3)), rng.integers(2, size=(4, 5))), classes=(0, 1))
    kept = [(x.copy(), y.copy()) for x, y in map(clients.train.client, range(4))]
    found, again = (called("poison", poisoned, attack, clients, who) for _ in range(2))
    for k, here in enumerate(kept):
        was, now, twice = (of.train.client(k) for of in (clients, found, again))
        for one, other, law, what in (
            (was, here, "untouched", "poison writes into the clients that it is given."),
            (now, now if k in who else here, "honest", "poison changes the data of clients that do not attack."),
            (now, twice, "repeat", "poison differs between two identical calls. Let it draw by a seed of its own."),
        ):
            if not all(map(np.array_equal, one, other)):
                raise BrokenLaw(law, what)


def try_compression(compression: Compression, draws: int = 100) -> None:
    """Check a codec on a few vectors, and what it declares of itself by the mean of some draws; raise `BrokenLaw`.

    A mean is held against what is declared with five standard errors to spare; all draws have fixed keys.
    """
    device, unused = torch.device("cpu"), copy.deepcopy(compression)
    for place, x in enumerate(_vectors()):
        before, given = generators(device), x.copy()
        data = called("encode()", compression.encode, given, np.random.default_rng(place))
        if not isinstance(data, bytes):
            raise BrokenLaw("shape", f"encode() must return bytes, got {type(data).__name__}.")
        came = called("decode()", compression.decode, data, len(x))
        if not isinstance(came, np.ndarray) or came.shape != x.shape or came.dtype.kind != "f":
            got = f"{came.dtype} of shape {came.shape}" if isinstance(came, np.ndarray) else type(came).__name__
            raise BrokenLaw("shape", f"decode() must return an array of floats, here of shape {x.shape}, got {got}.")
        if not np.isfinite(came).all():
            raise BrokenLaw("finite", "of finite numbers it makes infinite or undefined ones.")
        if not np.array_equal(given, x):
            raise BrokenLaw("untouched", "it writes into the vector that it is given.")
        again = compression.encode(x.copy(), np.random.default_rng(place))
        if before != generators(device) or data != again:
            raise BrokenLaw("repeat", "its bytes differ between two identical calls. Let it draw from rng alone.")
        if not np.array_equal(unused.decode(data, len(x)), came):
            raise BrokenLaw("wire", "the server decodes what it never encoded: let all that it needs be in the bytes.")
        if not x.any() and came.any():
            raise BrokenLaw("zero", "zeros do not come back as zeros, so that what does not train would move.")
        if x.any():
            _check_declared(compression, x.astype(np.float64), draws)


def _vectors() -> Iterator[np.ndarray]:
    """Yield vectors of float32: zeros, equal ones, a single one, Gaussian ones, and a few large ones among small."""
    rng = np.random.default_rng(0)
    for d in (1, 9, 60):
        yield from (np.zeros(d, np.float32), np.ones(d, np.float32), -np.eye(d, dtype=np.float32)[d // 2])
        normal, small = rng.normal(size=(2, d)).astype(np.float32)
        yield from (normal, np.float32(1e-3) * normal, small**5, np.where(rng.random(d) < 0.5, 0, small))


def _check_declared(compression: Compression, x: np.ndarray, draws: int) -> None:
    """Check variance, contraction and the absence of bias, as far as a codec declares them."""
    laws = {law: of(len(x)) for law in ("variance", "contraction") if (of := getattr(compression, law, None))}
    if not laws:
        return
    rng = np.random.default_rng(1)
    data = [compression.encode(x.astype(np.float32), rng) for _ in range(draws)]
    found = np.stack([compression.decode(each, len(x)) for each in data]).astype(np.float64)
    errors, square = np.square(found - x).sum(1), np.square(x).sum()
    least, rounding = errors.mean() - 5 * errors.std() / draws**0.5, 1e-6 * square
    bias = np.square(found.mean(0) - x).sum()
    if "variance" in laws and bias > 25 * laws["variance"] * square / draws + 1e-6 * rounding:
        raise BrokenLaw(
            "unbiased", f"the mean of {draws} draws is {bias**0.5:.3g} away from a vector of {square**0.5:.3g}."
        )
    for law, bound in (("variance", laws.get("variance")), ("contraction", 1 - laws.get("contraction", -np.inf))):
        if bound is not None and least > bound * square + rounding:
            raise BrokenLaw(law, f"the mean squared error is {errors.mean() / square:.3g} |x|^2, declared {bound:.3g}.")


def try_attendance(attendance: Attendance, clients: int, seed: int = 0) -> None:
    """Check an attendance in some rounds of K clients; raise `BrokenLaw`."""

    def ask(t: int) -> np.ndarray:
        given = stream(seed, "participants", t), stream(seed, "attendance")
        work = called("it", attendance, t, clients, *given)
        try:
            return checked(work, clients)
        except (ValueError, TypeError) as error:
            raise BrokenLaw("shares", f"in round {t} (from 0), {first_line(error)}.") from None

    device = torch.device("cpu")
    before = generators(device)
    found = {t: ask(t) for t in (0, 1, 2, 9)}
    if before != generators(device) or any(
        not np.array_equal(ask(t), work, equal_nan=True) for t, work in reversed(found.items())
    ):
        what = "who comes differs between two identical calls. Let it draw by rng and fixed alone, and keep nothing."
        raise BrokenLaw("repeat", what)


def try_mechanism(mechanism: Mechanism) -> None:
    """Check a mechanism of differential privacy on a few made-up changes, some as bad as can be; raise `BrokenLaw`."""
    draws, device, far = np.random.default_rng(0), torch.device("cpu"), mechanism.clip * torch.ones(6).double()

    def outcome(changes: Tensor, of: int) -> Any:
        return called("it", released, mechanism, changes, of, np.random.default_rng(1))

    for m, of in ((0, 5), (1, 1), (5, 5), (5, 7)):  # fewer may come than it divides by
        changes = mechanism.clip * torch.from_numpy(draws.normal(size=(2, m, 6)))
        given, before = changes.clone(), generators(device)
        found, sent = outcome(given, of), called("it", mechanism.send, given, of, np.random.default_rng(1))
        for what, one, shape in (("send", sent, (2, m, 6)), ("combine", found, (2, 6))):
            _check_made(one, shape, f"{what} must return shape {shape} for changes (2, {m}, 6)", f"changes {what}")
        if not torch.equal(given, changes):
            raise BrokenLaw("untouched", "it writes into the changes that it is given.")
        if before != generators(device) or not torch.equal(found, outcome(given, of)):
            raise BrokenLaw("repeat", "its outcome differs under the same rng, or it draws from another.")
        if not m:
            continue
        none, most = changes[0].clone(), 1 + 1e-9
        none[0] = 0
        extremes = far * torch.tensor([1, -1, 1e9, -1e9, torch.inf]).double()[:, None]
        ends = torch.stack([outcome(torch.cat([bad[None], none[1:]]), of) for bad in extremes])
        # the maximum of tensors is NaN where one is; Python's may pass over it
        moved = float((ends - outcome(none, of)).norm(dim=1).max()) * of / mechanism.clip
        apart = float((ends[:, None] - ends).norm(dim=2).max()) * of / mechanism.clip
        if not (moved <= most and apart <= 2 * most):
            raise BrokenLaw(
                "influence",
                f"one of {m} participants moves it by {moved:.3g} times clip / {of} from where zeros in its place "
                f"leave it, and by {apart:.3g} times that from where another change does; 1 and 2 are the most.",
            )
