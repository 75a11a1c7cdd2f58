"""What lies at the places that a report is made of: runs with their settings and traffic, or tables of numbers."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedstat._in_words import attacked, part
from fedstat._sealed import unseal
from fedstat._user_code import OWN
from fedstat.inference.formatting import listed
from fedstat.inference.reading.formats import fedstat as runs
from fedstat.inference.reading.read import read_results


@dataclass(frozen=True, eq=False)
class Source:
    """One of the places that a report is made from, by the name that it was given.

    A fedstat run has its `config`; ``fedstat run`` leaves `experiment` and, as it stands, `text` of
    ``experiment.toml``; the environment is versions and machine. `clients` are samples by split, `traffic` is bytes of
    each participant in each round, and the picture shows who holds what under its seed. `tuned` says how parameters
    were chosen before the run, "" if that is not known; `gaps` what the table of samples lacks, and how it was filled;
    `predicts` that predictions are kept.
    """

    name: str
    config: Mapping[str, Any] | None = None
    experiment: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None
    text: str = ""
    clients: pd.DataFrame | None = None
    traffic: pd.DataFrame | None = None
    picture: tuple[int, Path] | None = None
    tuned: str = ""
    gaps: tuple[str, ...] = ()
    predicts: bool = False


def read_source(path: Path, columns: Mapping[str, str | None] | None = None) -> Source:
    """Read what a place tells beside the values that are compared; `columns` as in `fedstat.read_results`.

    A file of a run that is missing, or not the one that was written, is refused.
    """
    if runs.run_folder(path) is None:
        read_results(path, columns=columns)  # refuses what is no table either
        return Source(str(path))
    folder = runs.checked(path, "config.toml", "traffic", "environment.json")
    clients = runs.clients_of(path)
    text = ""
    if (path / "experiment.toml").is_file():
        text = unseal(path / "experiment.toml")
    elif any(path.glob("partition-*.npz")):
        raise ValueError(f"{path} is no complete folder of fedstat run: experiment.toml is missing.")
    pictures, dealt = (_by_seed(path.glob(f"partition-*.{kind}")) for kind in ("svg", "npz"))
    lost = {*dealt} - {*pictures} if pictures else None  # regression has none
    if lost and (path / "summary.csv").is_file():  # they are drawn after the training
        raise ValueError(
            f"{path / f'partition-{min(lost)}.svg'} is missing; `fedstat run ... --resume` makes it again."
        )
    picture = min(pictures.items(), default=None)
    if picture is not None:
        unseal(picture[1])
    return Source(
        name=str(path),
        config=tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")),
        experiment=tomllib.loads(text) if text else None,
        environment=json.loads((folder / "environment.json").read_text(encoding="utf-8")),
        text=text,
        clients=clients,
        traffic=runs.traffic(folder),
        picture=picture,
        tuned=runs.tuning_of(path),
        predicts=(folder / "predictions").is_dir(),
        gaps=tuple(lines.read_text(encoding="utf-8").splitlines()) if (lines := path / "gaps.txt").is_file() else (),
    )


def _by_seed(files: Iterable[Path]) -> dict[int, Path]:
    return {int(seed): file for file in files if (seed := file.stem.partition("-")[2]).isdecimal()}


def methods_of(sources: Sequence[Source]) -> list[list[str]]:
    """Return a row for each method of runs: label, class, and hyper-parameters in words."""
    rows = dict[str, list[str]]()
    for source in sources:
        for label, given in (source.config or {}).get("methods", {}).items():
            values = dict(given) if isinstance(given, Mapping) else {"type": str(given)}
            kind = str(values.pop("type", "")).rpartition(".")[2]
            rows.setdefault(label, [label, kind, ", ".join(f"{k} = {plain(v)}" for k, v in values.items()) or "none"])
    return list(rows.values())


def settings_of(sources: Sequence[Source]) -> list[list[str]]:
    """Return rows of a name and its value, but for the methods' parameters; runs that differ are named."""
    tables = {source.name: _settings(source) for source in sources if source.config}
    keys = list(dict.fromkeys(key for table in tables.values() for key in table))
    rows = []
    for key in keys:
        values = {name: table.get(key, "–") for name, table in tables.items()}
        if len(set(values.values())) == 1:
            rows.append([key, next(iter(values.values()))])
        else:
            rows.append([key, "; ".join(f"{value} ({name})" for name, value in values.items())])
    return rows


def _settings(source: Source) -> dict[str, str]:
    """Return the settings of one run, in the order in which a reader asks for them."""
    config, experiment = source.config or {}, source.experiment or {}
    found = {name: _listing(experiment[name]) for name in ("data", "partition") if name in experiment}
    counts = sorted({int(n) for n in config["clients"].values()})
    found["clients"] = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}, by seed"
    model = config["model"]
    if isinstance(model, Mapping):
        inner = [plain(one) for one in model.get("args", [])]
        inner += [f"{k} = {plain(v)}" for k, v in model.get("kwargs", {}).items()]
        model = f"{str(model.get('factory', '')).rpartition('.')[2]}({', '.join(inner)})"
    found["network"] = str(model)
    training = config["training"]
    each = {"": training} if isinstance(training.get("type"), str) else {f" of {k}": one for k, one in training.items()}
    for whose, one in each.items():
        told = _listing({key: value for key, value in one.items() if key not in ("type", "loss")})
        found[f"local training{whose}"] = f"{told}; loss {plain(one.get('loss') or config['loss'])}"
    found["rounds"] = f"up to {config['rounds_asked']}" if config.get("stop") else str(config["rounds"])
    if isinstance(share := config["participation"], float):
        found["share of clients in a round"] = f"{100 * share:g}%"
    else:
        found["clients in a round"] = part(share)
    if attack := attacked(config):
        found["attack"] = attack[0]
    found["seeds"] = ", ".join(map(str, config["seeds"]))
    if "vary" in config:
        found["follow the seed"] = plain(config["vary"])
    if config.get("stop"):
        found["early stopping"] = _listing(config["stop"])
    found["numbers"] = str(config["dtype"])
    return found


def _listing(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {plain(value)}" for key, value in values.items())


def plain(value: Any) -> str:
    """Write a value of a configuration without Python's signs."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, Mapping):
        return f"({_listing(value)})" if value else "none"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−")
    return re.sub(rf"\b{OWN}(\w+)\.", r"\1.py:", str(value))


def held_out(source: Source) -> str:
    """Say which share of each client's samples is held out, and how, where the experiment tells it."""
    experiment, config = source.experiment or {}, source.config or {}
    partition = experiment.get("partition", {})
    parts = {"testing": partition.get("test"), "validation": partition.get("validation")}
    told = [
        f"{100 * share:g}% are held out for {part}"
        for part, share in parts.items()
        if isinstance(share, float) and share > 0
    ]
    if not isinstance(parts["testing"], float) or not told:
        return ""
    tables = "file" in experiment.get("data", {}) or any(line.startswith("Missing values") for line in source.gaps)
    each = ", of each class in proportion" if tables and any(config["classes"].values()) else ""
    anew = ", anew under each seed" if "partition" in config["vary"] and len(config["seeds"]) > 1 else ""
    return f" Of each client's samples {listed(told)}{each}{anew}."


def network_of(source: Source) -> str:
    """Say what is trained, and with which learning rate."""
    config, network = source.config or {}, dict(settings_of([source]))["network"]
    training = config["training"]
    rates = dict[str, list[str]]()
    for label, one in ({"all": training} if isinstance(training.get("type"), str) else training).items():
        rates.setdefault(plain(one.get("lr")), []).append(label)
    told = [rate if len(rates) == 1 else f"{rate} ({listed(labels)})" for rate, labels in rates.items()]
    return f"The network is {network}, the learning rate {listed(told)}."


def sizes_of(clients: pd.DataFrame) -> list[list[str]]:
    """Return a row for each split: samples of all clients, and the least, the median and the most of one client."""
    rows = []
    for split in ("train", "validation", "test"):
        if split in clients and (clients[split] > 0).any():
            total = clients.groupby("seed", observed=True)[split].sum()
            low, high = int(total.min()), int(total.max())
            numbers = clients[split].agg(["min", "median", "max"])
            whole = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            rows.append([split, whole, *(f"{number:,.0f}" for number in numbers)])
    return rows


def traffic_of(sources: Sequence[Source]) -> list[list[str]]:
    """Return a row for each method: megabytes up and down in a run, and up for one participant in a round."""
    known = [(source.traffic, source.config) for source in sources if source.traffic is not None and source.config]
    rows = []
    for label in dict.fromkeys(label for _, config in known for label in config["methods"]):
        ran = {seed for _, config in known if label in config["methods"] for seed in config["seeds"]}
        own = pd.concat([table[table["method"] == label] for table, _ in known])
        # nobody may have taken part under a seed
        runs_ = own[["bytes_up", "bytes_down"]].sum() / len(ran) / 1e6
        rounds = own[own["round"] > 0]
        each = rounds["bytes_up"].mean() / 1e3 if len(rounds) else 0.0
        rows.append([label, f"{runs_['bytes_up']:,.2f}", f"{runs_['bytes_down']:,.2f}", f"{each:,.1f}"])
    return rows


def fingerprints_of(sources: Sequence[Source]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns, and a row for each run and seed, with the hashes of its samples and networks."""
    parts = ("train", "validation", "test", "common", "network", "weights")
    rows = []
    for source in sources:
        for seed, prints in (source.config or {}).get("fingerprint", {}).items():
            rows.append([source.name, str(seed), *(str(prints.get(part, "–")) for part in parts)])
    header = ["run", "seed", *parts]
    used = [i for i in range(len(header)) if any(row[i] != "–" for row in rows)]
    used = [i for i in used if i or len({row[0] for row in rows}) > 1]
    return [header[i] for i in used], [[row[i] for i in used] for row in rows]
