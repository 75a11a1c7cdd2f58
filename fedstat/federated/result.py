"""What a run leaves behind: a tidy table, the final states, and a folder that holds both."""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import json
import os
import reprlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from fedstat._files import locked, replaced, settle, standing
from fedstat._random import stream
from fedstat.federated.environment import environment
from fedstat.federated.history import COLUMNS, TEXT
from fedstat.federated.local import Learner, Training
from fedstat.federated.method import Method, Population, Predictor, State, device_of
from fedstat.federated.network import MIXED, Model, Network, Params, build, floating
from fedstat.federated.store import ClientStore

Key = tuple[str, int]
_GROUPS = ("server", "shared", "memory")
_SUMMED = ("config.toml", "metrics.parquet", "state.safetensors")
_CONFIG: dict[str, type | tuple[type, ...]] = {
    "methods": dict, "training": dict, "classes": dict, "clients": dict, "fingerprint": dict, "seeds": list,
    "model": (str, dict), "dtype": str, "executor": str, "loss": str, "participation": float, "rounds": int,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Outcome of `fedstat.federate`.

    Attributes
    ----------
    history : DataFrame
        Tidy: method, seed, round, client, estimand, split, metric, value.
    states : dict
        Final `State` by (method label, seed).
    records : dict
        Per (method label, seed), arrays (rounds, ...) of what the method recorded, e.g. splits of units.
    config : dict
        The configuration in plain values.
    model : callable, nn.Module or None
        The network; None after loading a run of a network that is not fedstat's own.
    methods : dict
        The methods by label, as far as they are known after loading.
    populations : dict
        Per (method label, seed), the `Population` that the run saw; empty after loading.
    """

    history: pd.DataFrame
    states: dict[Key, State]
    records: dict[Key, dict[str, np.ndarray]]
    config: dict[str, Any]
    model: Model | None = None
    methods: Mapping[str, Method] = field(default_factory=dict)
    populations: Mapping[Key, Population] = field(default_factory=dict)

    def __repr__(self) -> str:
        labels, seeds = ", ".join(self.config["methods"]), ", ".join(map(str, self.config["seeds"]))
        return f"Result({labels}; seeds {seeds}; {self.config['rounds']} rounds; {len(self.history)} rows of history)"

    def personal(
        self, client: int, method: str | None = None, seed: int | None = None, estimand: str | None = None
    ) -> nn.Module:
        """Return the model that `client` uses, in evaluation mode.

        It is a copy of the network with the client's weights, composed of parts where the method has them; where
        outputs are more than one network's (a mixture, two heads), a module around it.

        Parameters
        ----------
        client : int
            Position of the client.
        method, seed
            Which run; may be left out where there is only one.
        estimand : str, optional
            Which of the method's models, by default its first, e.g. "personal".

        Raises
        ------
        ValueError
            If the run is not determined, the client or estimand does not exist, or the network is unknown.
        """
        key = self.key(method, seed)
        clients = int(self.config["clients"][str(key[1])])
        if not 0 <= client < clients:
            raise ValueError(f"client must lie in 0..{clients - 1}, got {client}.")
        state, network = self.states[key], self.network(key)
        one = torch.tensor([client], device=device_of(state))
        models = self.methods[key[0]].models(state, one, self.populations.get(key))
        if estimand is not None and estimand not in models:
            raise ValueError(f"estimand must be one of {', '.join(models)}, got {estimand!r}.")
        return as_module(models[estimand or next(iter(models))], Learner(network, self.config["loss"]))

    def key(self, method: str | None = None, seed: int | None = None) -> Key:
        """Return the one run that `method` and `seed` name, as (label, seed).

        Raises
        ------
        ValueError
            If they name none or several.
        """
        keys = [k for k in self.states if method in (None, k[0]) and seed in (None, k[1])]
        if len(keys) != 1:
            raise ValueError(
                f"method={method!r}, seed={seed!r} name {len(keys)} runs out of {list(self.states)}; name one."
            )
        return keys[0]

    def network(self, key: Key) -> Network:
        """Return the network of one run, as its method builds it.

        Raises
        ------
        ValueError
            If the network or the method is unknown.
        """
        if self.model is None:
            raise ValueError("this result does not know its network; load it with fs.load(folder, model=...).")
        if key[0] not in self.methods:
            raise ValueError(
                f"this result does not know the method of {key[0]!r}; load it with fs.load(folder, methods=...)."
            )
        if key in self.populations:
            return self.populations[key].network
        dtype = self.config["dtype"]
        network = build(self.model, stream(key[1], "initial weights"), floating(dtype), mixed=dtype == MIXED)
        return self.methods[key[0]].parameterize(network, stream(key[1], "parts"))

    def check_continues(self, config: Mapping[str, Any], rounds: int) -> int:
        """Return the rounds done, if a run of `config` for `rounds` rounds continues this one.

        Raises
        ------
        ValueError
            If the configurations differ, or nothing is left to do.
        """
        differing = [k for k in config if config[k] != self.config.get(k)]
        if differing:
            raise ValueError(
                f"resume holds a run with another {', '.join(differing)}; only rounds may differ. "
                + "; ".join(_differences({k: self.config.get(k) for k in differing}, {k: config[k] for k in differing}))
            )
        if self.config["rounds"] >= rounds:
            raise ValueError(
                f"resume already holds {self.config['rounds']} rounds; rounds must exceed that, got {rounds}."
            )
        return int(self.config["rounds"])

    def save(self, folder: str | Path) -> None:
        """Write the run into `folder`: config.toml, metrics.parquet, state.safetensors, environment.json.

        The folder appears whole or not at all, and replaces an earlier run there. Killed at any moment, or after a
        loss of power, the earlier run or the new one can be loaded.

        Raises
        ------
        ValueError
            If `folder` exists and holds something else than a run, or cannot be replaced.
        OSError
            If it cannot be written, or another process writes it. What was there stays.
        """
        with claimed(folder) as path:
            write_run(self, path)


@contextmanager
def claimed(folder: str | Path) -> Iterator[Path]:
    """Be the only writer of a run's folder: settle what a killed one left, refuse what must not be replaced.

    Yields the folder's place without links. Raises as `Result.save`.
    """
    path = Path(folder).resolve()
    if os.path.ismount(path) or Path.cwd().is_relative_to(path):
        raise ValueError(f"{folder} holds a disk or the working folder, and a run replaces its folder; choose another.")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            settle(path)
            if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / "config.toml").exists()):
                raise ValueError(f"{folder} exists and is no fedstat run; choose another folder, nothing was written.")
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError("it may not be changed")
        except BlockingIOError:
            raise BlockingIOError(f"{folder} is being written by another process; nothing was written.") from None
        except OSError as error:
            raise OSError(
                f"{folder} cannot be written: {error}; choose another folder, nothing was written."
            ) from error
        yield path


def check_free(path: Path, continued: Mapping[str, Any] | None) -> None:
    """Refuse a folder with a run in it, unless it is the one that is continued, whose configuration is given.

    Raises
    ------
    ValueError
        If another run lies there.
    """
    found = _saved_config(path)
    if found is None:
        return
    if continued is None:
        raise ValueError(f"{path} holds a run already; continue it with resume=fs.load(...), or remove it.")
    if differing := [k for k in continued if continued[k] != found.get(k)]:
        raise ValueError(
            f"{path} holds another run than the one resumed: other {', '.join(differing)}; choose another folder."
        )


def write_run(result: Result, path: Path) -> None:
    """Replace what lies in `path`, which the caller has claimed, by a run.

    Raises
    ------
    OSError
        If it cannot be written; the message says what is left.
    """
    tensors = {}
    for i, (key, state) in enumerate(result.states.items()):
        for group in _GROUPS:
            for name, leaf in (getattr(state, group) or {}).items():
                tensors[f"{i}/{group}/{name}"] = leaf.cpu().contiguous().numpy()
        for name, array in result.records[key].items():
            tensors[f"{i}/records/{name}"] = np.asarray(array, order="C")
    device = device_of(next(iter(result.states.values())))
    try:
        with replaced(path) as new:
            for i, state in enumerate(result.states.values()):
                if state.clients is not None:  # rows that have not changed are linked, not written again
                    (new / "clients" / str(i)).mkdir(parents=True)
                    state.clients.fill(new / "clients" / str(i), path / "clients" / str(i))
            (new / "config.toml").write_text(tomli_w.dumps(result.config), encoding="utf-8")
            result.history.to_parquet(new / "metrics.parquet", index=False)
            save_file(tensors, new / "state.safetensors")
            layout = {
                # safetensors sorts; the order of leaves decides the rounding of sums over them
                "tensors": list(tensors),
                "stores": [i for i, state in enumerate(result.states.values()) if state.clients is not None],
                "sha256": {name: _sha256(new / name) for name in _SUMMED},
            }
            (new / "layout.json").write_text(json.dumps(layout) + "\n")
            origin = {**environment(device), "seeds": result.config["seeds"]}
            (new / "environment.json").write_text(json.dumps(origin, indent=2) + "\n")
    except (OSError, SafetensorError) as error:  # the latter hides the former
        saved = _saved_config(path)
        left = (
            "Nothing was saved there before; make room or choose another folder, and start again."
            if saved is None
            else f"What was saved there after round {saved.get('rounds')} is whole; make room or mend the folder, and "
            "continue from it with resume=fs.load(folder)."
        )
        raise OSError(f"round {result.config['rounds']} could not be saved in {path}: {error}. {left}") from error


def load(folder: str | Path, model: Model | None = None, methods: Mapping[str, Method] | None = None) -> Result:
    """Read a run that `Result.save` or a checkpoint wrote, while another process goes on with it or not.

    Parameters
    ----------
    folder : path
        The run's folder.
    model : callable or nn.Module, optional
        The network, needed for `Result.personal` if it is not one of `fedstat.models`.
    methods : mapping of label to Method, optional
        The methods, needed for `Result.personal` where they are not fedstat's own.

    Raises
    ------
    ValueError
        If the folder holds no complete run, or a file of it is damaged; the message names the file.
    """
    while True:
        place = standing(folder)
        before = _version(place)
        try:
            result = _read(place, model, methods)
        except ValueError:
            if (standing(folder), _version(place)) == (place, before):
                raise
            continue  # a writer took the folder away while it was read
        if (standing(folder), _version(place)) == (place, before):
            return result  # else it may be a mixture of two checkpoints


def _read(folder: Path, model: Model | None, methods: Mapping[str, Method] | None) -> Result:
    if missing := [name for name in (*_SUMMED, "layout.json") if not (folder / name).is_file()]:
        raise ValueError(f"{folder} is no fedstat run: {', '.join(missing)} is missing.")
    with _blaming(folder / "layout.json") as file:
        layout = json.loads(file.read_text(encoding="utf-8"))
        sums = {name: str(layout["sha256"][name]) for name in _SUMMED}
    for name in _SUMMED:
        with _blaming(folder / name) as file:
            if _sha256(file) != sums[name]:
                raise ValueError("its content is not what layout.json promises")
    with _blaming(folder / "config.toml") as file:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
        if wrong := [name for name, kind in _CONFIG.items() if not isinstance(config.get(name), kind)]:
            raise TypeError(f"{wrong[0]} is {config.get(wrong[0])!r}")
        keys = [(label, int(seed)) for label in config["methods"] for seed in config["seeds"]]
        counts = [int(config["clients"][str(seed)]) for _, seed in keys]
        known = {label: m for label, spec in config["methods"].items() if (m := _revived(spec)) is not None}
        network = model if model is not None else _own_factory(config["model"])
    with _blaming(folder / "metrics.parquet") as file:
        kinds = {"seed": np.int64, "round": np.int64, "client": np.int64, "value": np.float64}
        history = pd.read_parquet(file)[list(COLUMNS)].astype({**kinds, **dict.fromkeys(TEXT, "category")})
    with _blaming(folder / "state.safetensors") as file:
        arrays = load_file(file)
        if arrays.keys() != set(layout["tensors"]):
            raise ValueError("it holds other tensors than layout.json lists")
    groups: dict[tuple[str, str], dict[str, np.ndarray]] = {
        (str(i), group): {} for i in range(len(keys)) for group in (*_GROUPS, "records")
    }
    with _blaming(folder / "layout.json"):
        for name in layout["tensors"]:
            i, group, leaf = name.split("/", 2)
            groups[i, group][leaf] = arrays[name]
        kept = [i in layout["stores"] for i in range(len(keys))]
    states, records = {}, {}
    for i, key in enumerate(keys):
        server, shared, memory = (
            {name: torch.from_numpy(array) for name, array in groups[str(i), group].items()} for group in _GROUPS
        )
        clients = ClientStore.load(folder / "clients" / str(i)) if kept[i] else None
        if clients is not None and clients.clients != counts[i]:
            raise ValueError(f"{folder / 'clients' / str(i)} holds {clients.clients} clients, config.toml {counts[i]}.")
        states[key] = State(server, clients, shared or None, memory, config["rounds"])
        records[key] = groups[str(i), "records"]
    return Result(history, states, records, config, network, known | dict(methods or {}))


@contextmanager
def _blaming(file: Path) -> Iterator[Path]:
    """Name the file in whatever reading it raises: any bytes may lie there."""
    try:
        yield file
    except Exception as error:
        raise ValueError(f"{file} is damaged ({type(error).__name__}: {error}).") from error


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _version(folder: Path) -> tuple[int, int] | None:
    """Tell one checkpoint's folder from the next one's."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _saved_config(folder: Path) -> dict[str, Any] | None:
    """The configuration of the run that lies in `folder`, empty if unreadable; None if there is none."""
    try:
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}


def describe_run(
    methods: Mapping[str, Method],
    model: Model,
    training: Training,
    seeds: Sequence[int],
    participation: float,
    dtype: str,
) -> dict[str, Any]:
    """Return a run's configuration in plain values, as TOML can hold it."""
    return {
        "methods": {label: plain(method) for label, method in methods.items()},
        "model": plain(model),
        "training": plain(training),
        "seeds": list(seeds),
        "participation": float(participation),
        "dtype": dtype,
    }


def _differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Say where two configurations differ, to the innermost key."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = dict.fromkeys([*there, *here])
        return [told for k in keys for told in _differences(there.get(k), here.get(k), f"{name}.{k}".lstrip("."))]
    return [] if there == here else [f"{name}: {reprlib.repr(there)} there, {reprlib.repr(here)} here"]


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, partials and functions into plain values that name them; None is dropped."""
    if isinstance(value, functools.partial):
        return {"factory": plain(value.func), "args": [plain(a) for a in value.args], **plain(value.keywords)}
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        items = {f.name: getattr(value, f.name) for f in fields(value)}
        return {"type": f"{type(value).__module__}.{type(value).__qualname__}", **plain(items)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray | Tensor):
        return value.tolist()
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(v) for v in value]
    if isinstance(value, nn.Module):
        return f"module {type(value).__name__}"
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float) else repr(value)


def as_module(predictor: Predictor, learner: Learner) -> nn.Module:
    """Return the first of a predictor's models as a module in evaluation mode."""
    params = {name: leaf[0] for name, leaf in predictor.params.items()}
    if getattr(predictor.outputs, "__func__", None) is Method.predict:
        module = copy.deepcopy(learner.network.module)
        module.load_state_dict({**module.state_dict(), **learner.network.compose(params)})
        return module.eval()
    return _Predicting(predictor, learner, params).eval()


class _Predicting(nn.Module):
    """A predictor that is more than one network's forward pass."""

    def __init__(self, predictor: Predictor, learner: Learner, params: Params) -> None:
        super().__init__()
        self.predictor, self.learner = predictor, learner
        for name, leaf in params.items():
            self.register_buffer(name.replace(".", "|"), leaf)  # module names must not hold dots

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, ...) to outputs (B, Q)."""
        params = {name.replace("|", "."): leaf for name, leaf in self.named_buffers(recurse=False)}
        return self.predictor.outputs(self.learner, params, x)


def _revived(spec: Any) -> Any:
    """Rebuild a method of fedstat from its description; None for anybody else's, or where arguments were functions."""
    if isinstance(spec, Mapping) and "type" in spec:
        module, _, name = str(spec["type"]).rpartition(".")
        if not f"{module}.".startswith("fedstat.methods."):
            return None
        try:
            cls = getattr(importlib.import_module(module), name)
            if not (isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module):
                return None  # nothing but the methods and their arguments is ever called
            return cls(**{f.name: _revived(spec.get(f.name)) for f in fields(cls)})
        except (ImportError, AttributeError, TypeError, ValueError):
            return None
    if isinstance(spec, Mapping):
        return {k: _revived(v) for k, v in spec.items()}
    return spec


def _own_factory(spec: Any) -> Model | None:
    """Rebuild a factory of `fedstat.models` from its description; None for anything else."""
    if not isinstance(spec, Mapping):
        return None
    module, _, name = str(spec.get("factory", "")).rpartition(".")
    if not module.startswith("fedstat.models."):
        return None
    keywords = {k: v for k, v in spec.items() if k not in ("factory", "args")}
    try:
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, type) and issubclass(found, nn.Module) and found.__module__ == module:
            return functools.partial(found, *spec.get("args", ()), **keywords)
    except (ImportError, AttributeError, TypeError, ValueError):
        pass
    return None  # nothing but the networks and their arguments is ever called
