"""What a run leaves behind: a tidy table, the final states, and a folder that holds both."""

from __future__ import annotations

import copy
import functools
import importlib
import json
import platform
import subprocess
import tomllib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from fedstat._files import atomic_folder
from fedstat._random import stream
from fedstat.federated.local import Learner, Training
from fedstat.federated.method import Method, Population, Predictor, State, device_of
from fedstat.federated.network import Model, Network, Params, build
from fedstat.federated.store import ClientStore
from fedstat.models import networks

Key = tuple[str, int]
_GROUPS = ("server", "shared", "memory")


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
        network = build(self.model, stream(key[1], "initial weights"), getattr(torch, self.config["dtype"]))
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
            raise ValueError(f"resume holds a run with another {', '.join(differing)}; only rounds may differ.")
        if self.config["rounds"] >= rounds:
            raise ValueError(
                f"resume already holds {self.config['rounds']} rounds; rounds must exceed that, got {rounds}."
            )
        return int(self.config["rounds"])

    def save(self, folder: str | Path) -> None:
        """Write the run into `folder`: config.toml, metrics.parquet, state.safetensors, environment.json.

        The folder appears whole or not at all, and replaces an earlier run there.

        Raises
        ------
        ValueError
            If `folder` exists and holds something else than a run.
        """
        folder = Path(folder)
        check_folder(folder, continues=True)
        tensors = {}
        for i, (key, state) in enumerate(self.states.items()):
            for group in _GROUPS:
                for name, leaf in (getattr(state, group) or {}).items():
                    tensors[f"{i}/{group}/{name}"] = leaf.cpu().contiguous().numpy()
            for name, array in self.records[key].items():
                tensors[f"{i}/records/{name}"] = np.asarray(array, order="C")
        with atomic_folder(folder) as temporary:
            for i, state in enumerate(self.states.values()):
                if state.clients is not None:  # rows that have not changed are linked, not written again
                    state.clients.save(temporary / "clients" / str(i), folder / "clients" / str(i))
            # safetensors sorts; the order of leaves decides the rounding of sums over them
            layout = {"tensors": list(tensors), "stores": [i for i, s in enumerate(self.states.values()) if s.clients]}
            (temporary / "layout.json").write_text(json.dumps(layout) + "\n")
            (temporary / "config.toml").write_text(tomli_w.dumps(self.config), encoding="utf-8")
            self.history.to_parquet(temporary / "metrics.parquet", index=False)
            save_file(tensors, temporary / "state.safetensors")
            (temporary / "environment.json").write_text(json.dumps(environment(), indent=2) + "\n")


def check_folder(folder: Path, *, continues: bool) -> None:
    """Refuse a folder that holds something else than a run, or a run that is not continued."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / "config.toml").exists()):
        raise ValueError(f"{folder} exists and is no fedstat run; choose another folder, nothing was written.")
    if not continues and (folder / "config.toml").exists():
        raise ValueError(f"{folder} holds a run already; continue it with resume=fs.load(...), or remove it.")


def load(folder: str | Path, model: Model | None = None, methods: Mapping[str, Method] | None = None) -> Result:
    """Read a run that `Result.save` wrote.

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
        If the folder holds no complete run.
    """
    folder = Path(folder)
    missing = [
        f for f in ("config.toml", "metrics.parquet", "state.safetensors", "layout.json") if not (folder / f).is_file()
    ]
    if missing:
        raise ValueError(f"{folder} is no fedstat run: {', '.join(missing)} is missing.")
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    layout = json.loads((folder / "layout.json").read_text())
    keys = [(label, seed) for label in config["methods"] for seed in config["seeds"]]
    groups: list[dict[str, dict[str, Any]]] = [{name: {} for name in (*_GROUPS, "records")} for _ in keys]
    arrays = load_file(folder / "state.safetensors")
    if absent := set(layout["tensors"]) - arrays.keys():
        raise ValueError(f"{folder / 'state.safetensors'} lacks {sorted(absent)[0]!r}; the run is damaged.")
    for name in layout["tensors"]:
        i, group, leaf = name.split("/", 2)
        groups[int(i)][group][leaf] = arrays[name] if group == "records" else torch.from_numpy(arrays[name])
    stores = {i: ClientStore.load(folder / "clients" / str(i)) for i in layout["stores"]}
    states = {
        key: State(
            server=g["server"],
            clients=stores.get(i),
            shared=g["shared"] or None,
            memory=g["memory"],
            round=config["rounds"],
        )
        for i, (key, g) in enumerate(zip(keys, groups, strict=True))
    }
    text = ["method", "estimand", "split", "metric"]
    return Result(
        history=pd.read_parquet(folder / "metrics.parquet").astype(dict.fromkeys(text, "category")),
        states=states,
        records={key: g["records"] for key, g in zip(keys, groups, strict=True)},
        config=config,
        model=model if model is not None else _own_factory(config["model"]),
        methods={k: m for k, spec in config["methods"].items() if (m := _revived(spec)) is not None}
        | dict(methods or {}),
    )


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


def environment() -> dict[str, Any]:
    """Versions, revision of the code and machine, as a result must name them."""
    packages = ("fedstat", "numpy", "scipy", "pandas", "scikit-learn", "statsmodels", "torch")
    return {
        "revision": _revision(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: metadata.version(name) for name in packages},
        "threads": torch.get_num_threads(),
    }


def _revision() -> str:
    """The git revision of a checkout of fedstat, "-dirty" with uncommitted changes; "" for an installed wheel."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # some other project's repository may lie above
        return git("describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return ""


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
    prefix = f"{networks.__name__}."
    if not isinstance(spec, dict) or not str(spec.get("factory", "")).startswith(prefix):
        return None
    return functools.partial(getattr(networks, spec["factory"].removeprefix(prefix)), *spec["args"])
