"""From a TOML file to an `Experiment`, or to one sentence for each thing that is wrong with it."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError
from torch import nn

import fedstat as fs
from fedstat._user_code import NOT_RUN, load_object, no_user_code
from fedstat.data import datasets
from fedstat.data.prepare import transformer_of
from fedstat.experiment.config import Choice, Evaluation, Experiment, General, MethodChoice, Source, Tune
from fedstat.experiment.dealing import AnyDealing
from fedstat.experiment.keys import changed, dotted
from fedstat.experiment.making import OF_METHODS, made_of, make_attack, make_method, participation
from fedstat.experiment.validation import (
    OWN,
    Table,
    looked_up,
    no_such,
    one_line,
    quoted_names,
    shown,
    toml_key,
    validated,
)
from fedstat.federated import Patience, Training
from fedstat.federated.client import schedules
from fedstat.federated.client.optimizers import OPTIMIZERS
from fedstat.federated.engine.executor import check_executor
from fedstat.federated.engine.ray import RayExecutor
from fedstat.federated.metrics import BUILT_IN, Metric, choose_metrics
from fedstat.inference import AnalysisPlan
from fedstat.tuning.grid import Grid, place_of

#: What a network is told about the data, where it has a parameter of that name for a whole number.
FACTS = ("inputs", "side", "channels", "vocabulary", "classes")
#: Entries of ``[training]`` that may name a class or an object, and those that are known by a name.
_PARTS: dict[str, Mapping[str, Any]] = {
    "optimizer": OPTIMIZERS,
    "schedule": {"cosine": schedules.Cosine, "warmup": schedules.Warmup, "milestones": schedules.Milestones},
    "loss": {},
}
#: The keys under which Python code may be named.
_NAMED = re.compile(
    rf"executor|(participation\.)+name|data\.prepare|(model|attack)\.name|evaluation\.metrics\.\d+"
    rf"|method\.(.+)\.(name|{'|'.join(OF_METHODS)})"
    rf"|(method\.(.+)|tune)\.grid\.({'|'.join(OF_METHODS)})\.\d+(\.name)?"
    rf"|(method\.(.+)\.)?training\.({'|'.join(_PARTS)})(\.name)?"
)


def read(path: str | Path, changes: Table | None = None) -> Experiment:
    """Read a configuration.

    Paths in it are relative to the file, and Python files that it names are run.

    Parameters
    ----------
    path : path
        A TOML file.
    changes : mapping of str to object, optional
        Values to set first, by dotted keys such as ``{"rounds": 5, "partition.alpha": 0.1}``.

    Raises
    ------
    ValueError
        With a line for each thing that is wrong; it names the file, the key, its value and what is allowed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "mine.toml")
    >>> _ = file.write_text('''rounds = 2
    ... data.name = "digits"
    ... partition = {kind = "iid", clients = 4}
    ... model = {name = "mlp", widths = [8]}
    ... training.lr = 0.1
    ... method.FedAvg = {}''')
    >>> experiment = fs.experiment.read(file, {"training": {"lr": 0.05}})
    >>> experiment.rounds, experiment.training.lr
    (2, 0.05)
    """
    path = Path(path)
    table = _table_of(path, changes)
    try:
        return parse(table, path.parent)
    except ValueError as error:
        raise ValueError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def code_named(path: Path, changes: Table | None = None) -> dict[str, str]:
    """Return the Python code that `read` would run, without running any: ``file.py:Name`` by the key that names it.

    Errors are those of `read` that can be told without that code.
    """
    found: dict[str, str] = {}
    _placed(_labelled(_table_of(path, changes)), path.parent, found)
    with no_user_code():
        try:
            read(path, changes)
        except ValueError as error:
            if problems := [line for line in str(error).splitlines() if not line.endswith(NOT_RUN)]:
                raise ValueError("\n".join(problems)) from None
    return found


def without_code(path: Path, changes: Table | None = None) -> Experiment:
    """Return what `read` does, with stand-ins for all that may be Python code: data, clients, rounds and seeds stay."""
    table = _table_of(path, changes)
    known = {key: value for key, value in table.items() if key not in (*_TABLES, "executor", "participation")}
    known["data"] = {key: value for key, value in table["data"].items() if key != "prepare" or ":" not in value}
    known["method"] = {label: {"name": "FedAvg"} for label in table["method"]}
    known["evaluation"] = {"common": table.get("evaluation", {}).get("common", False)}
    known |= {"partition": table["partition"], "model": {"name": "mlp"}, "training": {"lr": 0.1}}
    return parse(known, path.parent)


def _labelled(table: Table) -> Table:
    """Return a configuration in which every method has a name: its label, if it has no other."""
    if not isinstance(methods := table.get("method"), dict):
        return table
    return {**table, "method": {k: {"name": k, **of} if isinstance(of, dict) else of for k, of in methods.items()}}


def _placed(value: Any, folder: Path, code: dict[str, str], *path: str) -> Any:
    """Return what a configuration holds at a path with absolute paths of files; those with Python code go to `code`."""
    if isinstance(value, dict):
        return {key: _placed(entry, folder, code, *path, toml_key(key)) for key, entry in value.items()}
    if isinstance(value, list):
        return [_placed(entry, folder, code, *path, str(i)) for i, entry in enumerate(value)]
    file, colon, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    trace = path[:1] == ("participation",) and path[-1:] == ("table",)
    if (trace or path in (("data", "root"), ("data", "file"))) and isinstance(value, str):
        return _absolute(folder, value)
    if colon and _NAMED.fullmatch(".".join(path)):
        value = code[".".join(path)] = f"{_absolute(folder, file)}:{name}"
    return value


def _table_of(path: Path, changes: Table | None) -> Table:
    """Read a TOML file and set values by dotted keys."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no TOML: {error}.") from None
    for key, value in (changes or {}).items():
        table = changed(table, dotted(key), value)
    return table


def parse(table: Table, folder: Path) -> Experiment:
    """Make an `Experiment` of a TOML table; `folder` is what paths are relative to.

    The ValueError has a line for each thing that is wrong.
    """
    file: Any = validated(_File, _placed(_labelled(table), folder, {}), "", tables=_TABLES)
    training, parts, trainings = file.training
    experiment = Experiment(**{**vars(file), "training": training, "parts": parts, "trainings": trainings})
    _check_tuning(experiment)
    return experiment


def network(choice: Choice) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the function that a choice names, and its arguments; facts about the data that are not given are None."""
    known = [name for name in fs.models.__all__ if inspect.isfunction(getattr(fs.models, name))]
    if ":" not in choice.name and choice.name not in known:
        raise ValueError(no_such("model.name", choice.name, known, 'or one\'s own, as "mine.py:name"'))
    function = looked_up("model", load_object, choice.name) if ":" in choice.name else getattr(fs.models, choice.name)
    if not callable(function) or isinstance(function, nn.Module):
        raise ValueError(f"model.name: {choice.name} must be a function that builds a network, it is no function.")
    options: Any = validated(looked_up("model", _arguments, function), choice.options, "model", ("name",))
    return function, {f.name: getattr(options, f.name) for f in fields(options)}


def _source(source: Source, before: Table) -> Source:
    """Check that there is such a data set, and what prepares its inputs."""
    known = sorted(datasets.available())
    if source.name is not None and source.name not in known:
        raise ValueError(no_such("data.name", source.name, known))
    transformer(source)
    return source


def transformer(source: Source) -> Any:
    """Return what prepares the inputs, a new one of an own function; None if they are taken as they are."""
    if source.prepare is None or ":" not in source.prepare:
        return source.prepare
    found = looked_up("data.prepare", load_object, source.prepare)
    return looked_up("data.prepare", transformer_of, found() if callable(found) else found)


def _trainings(table: Table, before: Table) -> tuple[Training, dict[str, Any], dict[str, Training]]:
    """Return the local training of all methods, its entries that name an object, and the training of each method."""
    rounds, methods = before.get("rounds", 1), before.get("method", {})
    base, named = _training(table, rounds, "training")
    own = {
        label: _training({**table, **choice.training}, rounds, _own("training", label))[0]
        for label, choice in methods.items()
    }
    return base, named, own


def _training(table: Table, rounds: int, at: str) -> tuple[Training, dict[str, Any]]:
    """Make local training; return it, and its entries that name an object. A cosine without rounds takes the run's."""
    settings, objects, named = dict(table), {}, {}
    for key, known in _PARTS.items():
        value = settings.get(key)
        if isinstance(value, str) and (":" in value or (key == "schedule" and value in known)):
            value = {"name": value}
        if isinstance(value, dict):
            choice = validated(Choice, value, f"{at}.{key}")
            if choice.name == "cosine":
                choice = choice.given({"rounds": rounds, **choice.options})
            objects[key] = made_of(choice, f"{at}.{key}", known)
            if objects[key] == schedules.Warmup():
                raise ValueError(
                    f'{at}.{key}: "warmup" needs rounds or steps, as in {{ name = "warmup", rounds = 5 }}.'
                )
            named[key] = {"name": choice.name, **choice.options} if choice.options else choice.name
            del settings[key]
        elif key == "schedule" and key in settings:
            raise ValueError(no_such(f"{at}.{key}", value, known, OWN))
    training = validated(Training, settings, at, _PARTS)
    try:
        return replace(training, **objects), named
    except ValueError as error:  # begins with the name of a field
        raise ValueError(f"{at}.{one_line(error)}") from None


def _own(what: str, label: str) -> str:
    """Return the key of something that is a method's own."""
    return f"method.{toml_key(label)}.{what}"


def _check_tuning(experiment: Experiment) -> None:
    """Refuse tuning that has nothing to choose from, no samples to choose by, or seeds of the run."""
    tune, grids = experiment.tune, experiment.grids
    if tune is None:
        if grids:
            raise ValueError(f"{_own('grid', next(iter(grids)))} needs a table [tune], with a seed such as [100, 101].")
        return
    if not grids:
        raise ValueError(
            "tune.grid is missing; it lists values for all methods, such as { lr = [0.01, 0.03, 0.1] }, unless methods "
            "have grids of their own."
        )
    if not experiment.partition.validation:
        raise ValueError("tune needs validation samples to choose by, such as partition.validation = 0.2.")
    for label, grid in grids.items():
        grid_of(experiment, label, grid)


def grid_of(experiment: Experiment, label: str, grid: Mapping[str, Any]) -> Grid:
    """Return what the tuning of a method chooses from, with values as the method has them."""
    choice = experiment.method[label]
    method, training = make_method(choice, f"method.{toml_key(label)}"), experiment.trainings[label]
    values: dict[str, list[Any]] = {}
    for name, listed in grid.items():
        key = _own("grid", label) if name in choice.grid else "tune.grid"
        if not isinstance(listed, list | tuple):
            raise ValueError(f"{key}.{name} must be a list of values, got {shown(listed)}.")
        try:
            whose, own = place_of(method, name)
            changed = (choice.given({**choice.options, own: value}) for value in listed)
            values[name] = (
                [getattr(make_method(one, key), own) for one in changed] if whose == "method" else list(listed)
            )
            Grid.of(method, training, {name: values[name]}, None, None)
        except ValueError as error:
            alone = "" if key != "tune.grid" else f" What {label} lacks goes under [method.LABEL], as its own grid."
            said = one_line(error).removeprefix("grid: ")
            lacking = said.startswith("there is no parameter")
            raise ValueError(said if said.startswith(key) else f"{key}: {said}{alone * lacking}") from None
    return Grid.of(method, training, values, None, None)


def _evaluation(evaluation: Evaluation, before: Table) -> Evaluation:
    """Check that there are such metrics, such a control, and rounds to evaluate after."""
    metrics(evaluation)
    if evaluation.every > before.get("rounds", evaluation.every):
        raise ValueError(f"evaluation.every must be at most rounds = {before['rounds']}, got {evaluation.every}.")
    if evaluation.control not in (None, *(labels := before.get("method", [evaluation.control]))):
        raise ValueError(no_such("evaluation.control", evaluation.control, labels))
    return evaluation


def metrics(evaluation: Evaluation) -> dict[str, Metric]:
    """Return the metrics that an evaluation asks for by name; one's own are called as in their files."""
    chosen = {}
    for name in evaluation.metrics:
        if ":" not in name and name not in BUILT_IN:
            raise ValueError(no_such("evaluation.metrics", name, BUILT_IN, 'or one\'s own, as "mine.py:name"'))
        function = looked_up("evaluation.metrics", load_object, name) if ":" in name else BUILT_IN[name]
        chosen[name.rpartition(":")[2]] = function
    return looked_up("evaluation", choose_metrics, chosen)


def _participation(value: Any, before: Table) -> Any:
    participation(value)
    return value


def executor(name: str) -> Any:
    """Return the executor that a configuration names: the name of a built-in one, or an object of one's own."""
    if name == "ray" and find_spec("ray") is None:
        raise ValueError("executor: ray needs Ray: pip install 'fedstat[ray]'.")
    found = looked_up("executor", load_object, name) if ":" in name else RayExecutor() if name == "ray" else name
    found = found() if isinstance(found, type) else found
    check_executor(found)
    return found


def _executor(name: str, before: Table) -> str:
    executor(name)
    return name


def _plan(table: Table, before: Table) -> AnalysisPlan | None:
    labels = list(before.get("method", ()))
    if not labels:
        return None
    last = before.get("evaluation", Evaluation()).last
    plan = validated(AnalysisPlan, {"arms": labels, "last": last, **table}, "plan")
    if set(plan.arms) != set(labels):
        raise ValueError(f"plan.arms must be the methods, {quoted_names(labels)}; got {quoted_names(plan.arms)}.")
    return plan


def _model(choice: Choice, before: Table) -> Choice:
    return choice.given(network(choice)[1])


def _attack(choice: Choice, before: Table) -> Choice:
    made: Any = make_attack(choice)
    return choice if ":" in choice.name else choice.given(asdict(made))


def _methods(choices: Mapping[str, MethodChoice], before: Table) -> dict[str, MethodChoice]:
    """Check every method with its options, and fill in its defaults."""
    if not choices:
        raise ValueError("[method] is empty; name at least one, such as [method.FedAvg].")
    found, problems = {}, []
    for label, choice in choices.items():
        try:
            made = asdict(make_method(choice, f"method.{toml_key(label)}"))
            found[label] = choice.given(made | {part: choice.options.get(part) for part in OF_METHODS})
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    return found


def _absolute(folder: Path, file: str) -> str:
    return os.path.abspath(os.path.join(folder, os.path.expanduser(file)))


def _told(check: Callable[[Any, Table], Any]) -> AfterValidator:
    """Validate further by a function of the value and of what was validated before; its errors name their keys."""

    def checked(value: Any, info: ValidationInfo) -> Any:
        try:
            return check(value, info.data)
        except ValueError as error:
            raise PydanticCustomError("told", "{said}", {"said": str(error)}) from None

    return AfterValidator(checked)


@dataclass(frozen=True, kw_only=True)
class _File(General):
    """A whole file. What comes first is known to the checks of what follows."""

    executor: Annotated[str, _told(_executor)] = "auto"
    participation: Annotated[float | dict[str, Any], _told(_participation)] = 1.0
    data: Annotated[Source, _told(_source)]
    partition: AnyDealing
    model: Annotated[Choice, _told(_model)]
    method: Annotated[dict[str, MethodChoice], _told(_methods)]
    training: Annotated[dict[str, Any], _told(_trainings)]
    evaluation: Annotated[Evaluation, _told(_evaluation)] = field(default_factory=Evaluation)
    attack: Annotated[Choice, _told(_attack)] | None = None
    tune: Tune | None = None
    stop: Patience | None = None
    plan: Annotated[dict[str, Any], _told(_plan)] | None = None


#: The tables of a file, with the class of those whose keys are fixed.
_TABLES: dict[str, type | None] = dict.fromkeys(f.name for f in fields(_File)[len(fields(General)) :])
_TABLES |= {"data": Source, "evaluation": Evaluation, "tune": Tune, "stop": Patience}


def _arguments(function: Callable[..., Any]) -> type:
    """A dataclass of a function's parameters, by which options are checked."""
    made: list[tuple[str, Any, Any]] = []
    for p in inspect.signature(function, eval_str=True).parameters.values():
        kind: Any = Any if p.annotation is p.empty else p.annotation
        if p.kind is p.VAR_POSITIONAL:
            made.append((p.name, tuple[kind, ...], field(default=())))
        elif p.name in FACTS and kind in (int, Any):
            made.append((p.name, int | None, field(default=None)))
        elif p.kind is not p.VAR_KEYWORD:
            default: Any = field() if p.default is p.empty else field(default_factory=partial(copy, p.default))
            made.append((p.name, kind, default))
    return make_dataclass("Arguments", made, kw_only=True)
