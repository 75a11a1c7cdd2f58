"""Flower's results: JSON, the objects that its runs end with, a pickled History, and the CSV files of one baseline.

Flower itself leaves no file: a run ends with an object, and apps write it. Those forms are read that Flower's own code
and its examples and baselines write; a pickle is read as data. Source: https://github.com/adap/flower at
fdef7afb1dca3030553be302366cfd285ed6632c (version 1.28, 29 March 2026).

- The attributes of `flwr.serverapp.strategy.Result` (``framework/py/flwr/serverapp/strategy/result.py``), dumped:
  train_metrics_clientapp, evaluate_metrics_clientapp and evaluate_metrics_serverapp, each {round: {metric: value}}.
- A list with one entry for each round (``examples/advanced-pytorch/pytorch_example/strategy.py``): round,
  train_metrics, evaluate_metrics_clientapp, evaluate_metrics_serverapp.
- The attributes of `flwr.server.History` (``framework/py/flwr/server/history.py``), dumped: losses_distributed and
  losses_centralized, lists of (round, loss); metrics_distributed_fit, metrics_distributed and metrics_centralized,
  {metric: list of (round, value)}.
- {round: {metric: value}}, measured by the server
  (``examples/flower-simulation-step-by-step-pytorch/my-awesome-app/my_awesome_app/my_strategy.py``).
- A `Result` or a `History` in memory; and a History as a pickle, alone or with other things in a dictionary under
  "history" (`save_results_as_pickle` of many baselines, such as ``baselines/fedprox/fedprox/utils.py``).
- {"run_config": {...}, "round_res": [{metric: value}, ...]} (``baselines/fedrep``, ``baselines/floco``, server_app.py);
  values named ``centralized_...`` start before the first round.
- CSV with the columns round, test_loss and test_accuracy, whose name alone says the rest:
  ``momentum_fedavg_varEpoch_False_seed_1_Dec3.csv`` (``baselines/fednova/fednova/main.py``; the 59 files of its
  ``results`` are those of 216fdac793315f512887d215c0eab564bb475e2c, 20 December 2023). The clients' optimizer and how
  their epochs are chosen are the setting in which strategies are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedstat._checks import naming
from fedstat._pickled import read_pickled
from fedstat.inference.reading.formats.runs import METHOD, SEED, first_line, text_table, whole
from fedstat.inference.reading.formats.tidy import UNNAMED, Content, rows

#: Split and estimand of what each part of the file measures.
_PARTS = {
    **dict.fromkeys(("train_metrics_clientapp", "train_metrics", "metrics_distributed_fit"), ("train", UNNAMED)),
    **dict.fromkeys(("evaluate_metrics_clientapp", "metrics_distributed", "losses_distributed"), ("test", UNNAMED)),
    **dict.fromkeys(("evaluate_metrics_serverapp", "metrics_centralized", "losses_centralized"), ("common", "global")),
}
_NOTE = (
    "Flower's numbers are of a run as a whole, client -1: of the clients' samples (split test, weighted as the app "
    "does) or of the server's own (split common)"
)
_MEASURED = "the {model}, one number over the clients' {split} samples, weighted as the app does, mean over {when}"
#: Files that are read as a pickled History.
PICKLES = (".pkl", ".pickle")
_FEDNOVA = re.compile(
    r"(?P<optimizer>[a-z]+)_(?P<strategy>[a-z]+)_varEpoch_(?P<varied>True|False)_seed_(?P<seed>\d+)(_.*?)??(_mu_(?P<mu>[\d.]+))?\.csv"
)
_FEDNOVAS = ["round", "test_loss", "test_accuracy"]
_HISTORY = "flwr.server.history History"


def content_of(result: Any) -> dict[str, Any] | None:
    """Return what a `Result` or a `History` in memory holds, None if it is neither."""
    return {part: getattr(result, part) for part in _PARTS if hasattr(result, part)} or None


def wrote(path: Path) -> bool:
    """Tell whether a CSV file is one of the FedNova baseline's, by its name and columns."""
    return _FEDNOVA.fullmatch(path.name) is not None and first_line(path) == _FEDNOVAS


def read(path: Path, given: Mapping[str, Any], content: Any = None) -> Content:
    """Read one file, or `content` in memory; `given` may hold the method and the seed, which few files tell."""
    name = "result" if content is not None else repr(path.name)
    content = _content(path) if content is None else content
    config = content.get("run_config", {}) if isinstance(content, dict) else {}
    config = config if isinstance(config, dict) else {}
    method = given.get("method") or next((config[name] for name in config if name in METHOD), None)
    seed = next((config[name] for name in config if name in SEED), given.get("seed"))
    if method is None or not isinstance(seed, int):
        raise ValueError(
            f"{path} does not tell its {'method' if method is None else 'seed'}; give "
            f"fs.read_results({{'FedAvg': [{name}, ...]}}), those of a method in the order of their seeds."
        )
    try:
        found = [(part, int(round), *one) for part, round, of in _measured(content) for one in of.items()]
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} has none of the forms in which Flower's apps write results ({type(error).__name__}: {error}); "
            "write CSV instead."
        ) from error
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    for part, round, name, value in found:
        if isinstance(value, bool | str | list | None):
            continue  # other things that an app keeps
        split, estimand = _PARTS[part]
        # split and estimand tell the place where it was measured, and a name may tell of other samples
        of = re.match(r"(federated_evaluate|centralized|federated|eval|test|train|val)_", name)
        metric = name[of.end() :] if of else name
        split = {"train": "train", "val": "validation"}.get(of[1] if of else "", split)
        own = values.setdefault((split, estimand, "accuracy" if metric == "acc" else metric), {})
        if round in own:
            raise ValueError(f"{path} has {name} of round {round} twice in {part}.")
        own[round] = float(value)
    tables = [
        rows(str(method), seed, list(own), metric, list(own.values()), split=split, estimand=estimand)
        for (split, estimand, metric), own in values.items()
    ]
    if not tables:
        raise ValueError(f"{path} holds no numbers by round as Flower's apps write them; write CSV instead.")
    if "setting" in config:
        tables = [table.assign(setting=config["setting"]) for table in tables]
    return Content(tables, (_NOTE,), _MEASURED)


def _content(path: Path) -> Any:
    """Return what a file holds."""
    if path.suffix.lower() == ".csv":
        return _fednova(path)
    if path.suffix.lower() not in PICKLES:
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is no readable JSON: {error}") from error
    try:
        found = read_pickled(path.read_bytes(), str(path), (_HISTORY,))
    except ValueError as error:
        raise ValueError(
            f"{path} may be a pickle, which can run any code when it is read, and is none of Flower's History; write "
            f"the numbers as CSV or JSON. {error}"
        ) from error
    return found.get("history", found) if isinstance(found, dict) else found


def _fednova(path: Path) -> dict[str, Any]:
    """Return what a file of the FedNova baseline says, as the server's metrics by round and the run's configuration."""
    found = _FEDNOVA.fullmatch(path.name)
    if found is None or not wrote(path):
        raise ValueError(
            f"{path} is no CSV file of Flower's FedNova baseline, with the columns {', '.join(_FEDNOVAS)} and a name "
            "such as momentum_fedavg_varEpoch_False_seed_1.csv; leave kind out to read it as a table."
        )
    table = text_table(path, "Flower's")
    with naming(path):
        values = table[_FEDNOVAS[1:]].replace("", "nan").astype(float)  # a loss is missing where training broke down
    parts = [found["optimizer"], f"mu {found['mu']}" if found["mu"] else "", f"varEpoch {found['varied']}"]
    setting, rounds = ", ".join(filter(None, parts)), whole(table["round"], path)
    config = {"strategy": found["strategy"], "seed": int(found["seed"]), "setting": setting}
    metrics = {name: list(zip(rounds, values[name], strict=True)) for name in values}
    return {"run_config": config, "metrics_centralized": metrics}


def _measured(content: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield what was measured, by part and round, in whatever form the file has."""
    if isinstance(content, list):
        for entry in content:
            yield from ((part, entry["round"], entry[part]) for part in _PARTS.keys() & entry.keys())
    elif "round_res" in content:
        turns: dict[str, int] = {}
        for entry in content["round_res"]:
            for name, value in entry.items():
                central = name.startswith("centralized_")
                turns[name] = turns.get(name, -1 if central else 0) + 1
                yield "metrics_centralized" if central else "metrics_distributed", turns[name], {name: value}
    elif known := _PARTS.keys() & content.keys():
        for part in sorted(known):
            if part.startswith("losses"):
                yield from ((part, round, {"loss": value}) for round, value in content[part])
            elif part.startswith("metrics"):
                for name, pairs in content[part].items():
                    yield from ((part, round, {name: value}) for round, value in pairs)
            else:
                yield from ((part, round, of) for round, of in content[part].items())
    else:
        yield from (("evaluate_metrics_serverapp", round, of) for round, of in content.items())
