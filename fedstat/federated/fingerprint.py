"""Hash what must stay the same for a run to be continued, and say in words what differs."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedstat._digest import decisive, digest
from fedstat._mapped import in_blocks
from fedstat.data import Clients, Samples
from fedstat.federated.client.network import Network

#: The parts that are hashed for every seed, in the words of an error.
_PARTS = {
    "train": "training samples",
    "validation": "validation samples",
    "test": "test samples",
    "common": "common test samples",
    "names": "names or classes of clients",
    "truth": "truth about the clients",
    "network": "layers, or code of the network,",
    "weights": "initial weights",
}

#: What is compared in another way, and what may differ between a run and the one that continues it.
_ASIDE = {"fingerprint", "code", "training_code", "python", "device", "rounds", "rounds_asked", "finished", "evaluated"}


def of_clients(clients: Clients) -> dict[str, str]:
    """Hash every split that exists, and the clients' names, classes and truth.

    ``pool`` and ``train_pool`` hash the inputs of all samples, and of the training samples, whoever holds them;
    ``held`` what each client holds in all its splits; ``sketch`` has the eight smallest hashes of single inputs, of
    which two draws from the same samples share some. By these one knows data that are dealt or split anew from new
    data. Inputs that were prepared count as they were given, since other training samples prepare them otherwise.
    """
    samples = {name: _of_samples(of) for name, of in clients.all_splits.items()}
    truth = {} if clients.truth is None else {"truth": digest(clients.truth)}
    sums, least = dict[str, np.ndarray](), np.zeros(0, np.uint64)
    for name, of in clients.splits.items():
        sums[name], ends = np.zeros(len(of.n), np.uint64), np.cumsum(of.n)  # by client
        given = clients.given.get(name)
        for first, hashes in _hashes(of) if given is None else [(0, given)]:
            whose = np.searchsorted(ends, np.arange(first, first + len(hashes)), side="right")
            np.add.at(sums[name], whose, hashes)
            least = _least(np.concatenate([least, hashes]))
    held = np.sum(list(sums.values()), axis=0, dtype=np.uint64)
    return {
        **samples,
        **truth,
        "names": digest((json.dumps(list(clients.names)), clients.classes, clients.labels)),
        "pool": f"{int(held.sum(dtype=np.uint64)):016x}",
        "train_pool": f"{int(sums['train'].sum(dtype=np.uint64)):016x}",
        "held": digest(held),
        "sketch": " ".join(f"{int(one):016x}" for one in least),
    }


def _of_samples(samples: Samples) -> str:
    """Hash all samples, client after client."""
    x, y = samples.x, samples.y
    hashed = hashlib.sha256(f"{x.dtype.str} {x.shape[1:]} {y.dtype.str} ".encode())
    hashed.update(samples.n.astype(np.int64).tobytes())
    for _, block in in_blocks(x):
        hashed.update(np.ascontiguousarray(block).data)
    hashed.update(np.ascontiguousarray(y).data)
    return hashed.hexdigest()[:16]


def _least(hashes: np.ndarray, count: int = 8) -> np.ndarray:
    """Return the smallest different numbers, ascending."""
    few = 8 * count
    found = np.unique(np.partition(hashes, few)[:few] if len(hashes) > few else hashes)
    return (found if len(found) >= count else np.unique(hashes))[:count]


def _hashes(samples: Samples) -> Iterator[tuple[int, np.ndarray]]:
    """Yield a hash of each input, equal in all processes, block after block, each with the place of its first."""
    width = int(np.prod(samples.x.shape[1:])) * samples.x.dtype.itemsize
    words = -(-width // 8)
    factors = np.random.default_rng(0).integers(1, 2**63, words, dtype=np.uint64) | np.uint64(1)
    for first, block in in_blocks(samples.x):
        rows = np.zeros((len(block), 8 * words), np.uint8)
        rows[:, :width] = np.ascontiguousarray(block).reshape(len(block), -1).view(np.uint8)
        mixed = rows.view(np.uint64) @ factors
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        yield first, mixed ^ (mixed >> np.uint64(32))


def of_network(network: Network) -> dict[str, str]:
    """Hash a network's structure and code, and its initial values."""
    module = network.module
    layers = [
        (name, type(layer), decisive(layer), [(n, p.requires_grad) for n, p in layer.named_parameters(recurse=False)])
        for name, layer in module.named_modules(remove_duplicate=False)
    ]
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    shapes = {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}
    return {"network": digest((layers, shapes)), "weights": digest(tensors)}


def of_seeds(config: Mapping[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the part of a run's configuration that speaks of some of its seeds."""
    tables = {name: {str(s): config[name][str(s)] for s in seeds} for name in ("classes", "clients", "fingerprint")}
    return {**config, **tables, "seeds": list(seeds)}


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """List in words how the configuration of a saved run, `there`, differs from the one `here`, key by key."""
    different = [one for name in here if name not in _ASIDE for one in _values(there.get(name), here[name], name)]
    coded: list[str] = []
    prints, mine = _table(there, "fingerprint"), here["fingerprint"]
    both = {seed: _table(prints, seed) for seed in mine if seed in prints}  # seeds that differ are listed already
    for part, what in _PARTS.items():
        pairs = {seed: (before.get(part), mine[seed].get(part)) for seed, before in both.items()}
        seeds = [seed for seed, (a, b) in pairs.items() if a != b]
        if part == "weights":  # other layers have other weights anyway
            seeds = [seed for seed in seeds if both[seed].get("network") == mine[seed]["network"]]
        if seeds:
            without, only = (all(pairs[seed][i] is None for seed in seeds) for i in (0, 1))
            which = f"{what} of seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
            (coded if part == "network" else different).append(_worded(which, without, only))
    codes, specs = _table(there, "code"), _table(there, "methods")
    for label, code in here["code"].items():
        if codes.get(label) != code and specs.get(label) == here["methods"][label]:
            coded.append(f"other code of the method {label!r}")
    if there.get("training_code") != here["training_code"] and there.get("training") == here["training"]:
        coded.append("other code of the loss, the optimiser or the schedule")
    return different + coded + (_values(there.get("python"), here["python"], "python") if coded else [])


def _worded(which: str, without: bool, only: bool) -> str:
    return f"no {which}" if without else f"{which} (none here)" if only else f"other {which}"


def _values(there: Any, here: Any, name: str) -> list[str]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = dict.fromkeys([*there, *here])
        return [one for key in keys for one in _values(there.get(key), here.get(key), f"{name}.{key}")]
    if there == here:
        return []
    return [f"{name} = {_shown(there)} ({_shown(here)} here)"]


def _shown(value: Any) -> str:
    return "nothing" if value is None else reprlib.repr(value)


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}
