"""A table of predictions: a row for each method, seed, client and patient; strictly checked, then held as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from fedstat import _checks
from fedstat._account import said
from fedstat._in_words import attacked
from fedstat.inference.predictions.metrics import Kind
from fedstat.inference.reading.formats import fedstat as runs
from fedstat.inference.reading.formats.tables import header, is_parquet
from fedstat.inference.reading.sameness import told_design

#: The client of a table without clients.
ALL = "all"
_CLASS = "p_"
#: The part of a run's folder that holds them.
_FOLDER = "predictions"
_TEXT = ("method", "estimand", "split")
#: Probabilities of classes add up to one within this: they may come from float32.
_SUM = 1e-4
#: A larger share of patients that every seed tests is no random split.
_MOSTLY = 2 / 3


@dataclass(frozen=True, eq=False)
class Block:
    """Patients with what all methods predict for them, under one or several seeds.

    `client` is the place of each patient's client. Outcomes are classes as their places, numbers, or, of shape
    (patients, 2), time and event. Predictions, of shape (methods, seeds, patients) or (methods, seeds, patients,
    classes), are probabilities of the second of two classes or of each of several, values, or risks.
    """

    client: np.ndarray
    outcome: np.ndarray
    prediction: np.ndarray

    @cached_property
    def label(self) -> np.ndarray:
        """The class of each patient, or of times whether there was an event."""
        return (self.outcome if self.outcome.ndim == 1 else self.outcome[:, 1]).astype(int)

    def by_client(self, clients: int) -> list[np.ndarray]:
        """Return the places of the patients of each client; those of one stand together."""
        return np.split(np.arange(len(self.client)), np.searchsorted(self.client, np.arange(1, clients)))


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of several methods for the same patients.

    There is one block where all seeds are tested on the same patients, else one for each seed. `names` are those of
    `clients`; `classes` is empty without any. Where patients change with the seed and seeds draw from the same
    patients, `again` is a run's ratio of test to training samples, or a table's of the patients whom a seed tests to
    the others whom any seed tests; else it is 0. With `anew` every seed has drawn its own clients, and numbers them
    alike.
    """

    kind: Kind
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    clients: tuple[Any, ...]
    names: tuple[str, ...]
    classes: tuple[str, ...]
    blocks: tuple[Block, ...]
    again: float = 0.0
    anew: bool = False

    @cached_property
    def by_class(self) -> bool:
        """Whether every seed tests other patients, at each client as many of each class."""
        return bool(self.kind != "numbers" and self.again and (np.ptp(self.class_counts(), axis=0) <= 1).all())

    def class_counts(self) -> np.ndarray:
        """Return how many patients of each class a client has, shape (blocks, clients, classes)."""
        counts = np.zeros((len(self.blocks), len(self.clients), max(len(self.classes), 2)))
        for count, block in zip(counts, self.blocks, strict=True):
            np.add.at(count, (block.client, block.label), 1)
        return counts


def is_predictions(names: Sequence[str]) -> bool:
    """Tell whether a table's columns are those of predictions."""
    return "method" in names and kind_of(names) is not None


def kind_of(names: Sequence[str]) -> Kind | None:
    """Return what a table with these columns predicts, None if it holds no predictions."""
    if {"time", "event", "risk"} <= {*names}:
        return "times"
    if "outcome" not in names:
        return None
    if "probability" in names:
        return "two classes"
    if any(name.startswith(_CLASS) for name in names):
        return "classes"
    return "numbers" if "value" in names and "metric" not in names else None


def _opened(source: Any) -> tuple[pd.DataFrame, Path]:
    """Read a table of predictions as it stands; with semicolons between cells, commas are decimal."""
    if isinstance(source, str | Path):
        path = _checks.local("table", source)
        if not path.is_file():
            raise ValueError(f"{path} {'is no file' if path.exists() else 'does not exist'}.")
        try:
            if is_parquet(path):
                return pd.read_parquet(path), path
            # a name such as "NA" is a name: only empty cells are missing
            delimiter = header(path)[1]
            how: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "low_memory": False}
            return pd.read_csv(path, sep=delimiter, decimal="," if delimiter == ";" else ".", **how), path
        except Exception as error:
            raise ValueError(f"{path} cannot be read as a table: {error}") from None
    elif isinstance(source, pd.DataFrame):
        return source.reset_index(drop=True), Path("the table")
    raise ValueError(f"table must be a DataFrame or a file, got {type(source).__name__}.")


def predictions_of(
    source: Any, new_clients: bool = False, event: str | int | None = None
) -> tuple[pd.DataFrame, float | None, bool, list[str]]:
    """Return checked predictions of a table, a run's folder or its result; its attackers, epsilon and event in words.

    They have the columns method, seed, client, name, estimand and split, and outcomes and predictions as numbers.
    With `new_clients` they are those for a run's new clients, of a folder of ``fedstat run``. Of two classes `event`
    names the one whose probability is meant.

    Of a run whose seeds split the same samples anew also the ratio of test to training samples, for the correction
    after Nadeau and Bengio; of other runs 0, of tables None: `arrange` looks for it. Then whether each seed draws its
    own clients; a table's clients are taken to be the same.
    """
    folder = runs.run_folder(Path(source)) if isinstance(source, str | Path) and Path(source).is_dir() else None
    if folder is not None:
        _, config, clients, _ = runs.facts(folder)
        place = runs.for_new_clients(Path(source)) if new_clients else folder / _FOLDER
        if not place.exists():
            more = " and new_clients under [partition]" if new_clients else ", or fs.federate(predictions=True)"
            raise ValueError(
                f"{source} keeps no predictions{' for new clients' * new_clients}; ask for them before a run, by "
                f"predictions = true under [evaluation]{more}."
            )
        files = [place] if new_clients else sorted((runs.checked(folder, _FOLDER) / _FOLDER).glob("*.parquet"))
        rows = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    elif new_clients:
        raise ValueError("new_clients is of folders of fedstat run; a table or result is assessed as it is.")
    elif hasattr(source, "predictions") and hasattr(source, "config"):
        rows, config, clients = source.predictions(), source.config, source.clients
    else:
        table, path = _opened(source)
        table, named = _with_event(table, path, event)
        read, told = _cells(table, path), []
        if unread := [str(name) for name in table if name not in read and not str(name).startswith("Unnamed: ")]:
            told.append(f"Columns not read: {', '.join(unread)}.")
        if "sample" not in read and len(read[["method", "seed"]].drop_duplicates()) > 1:
            told.append("No column sample: rows are the same patients in the same order under each method and seed.")
        wide = [name for name in read if name.startswith(_CLASS)]
        if not read[wide].equals(table[wide].astype(float)):
            told.append("Where rounded probabilities do not add up to 1, they are divided by their sum.")
        read, which = _of_event(read, path, event, named)
        return read, None, False, told + which
    design = told_design({"run": config}, clients)
    if design is not None and (design.clients, design.data) == ("new", "fixed"):
        raise ValueError(
            "the run deals the same test samples to other clients under each seed, and names them by client: a patient "
            "cannot be followed from seed to seed. Assess one seed at a time, as result.predictions(seed=...)."
        )
    told = [f"{words[0].upper()}{words[1:]}." for words in attacked(config)] + [f"{words}." for words in said(config)]
    every = {tuple(map(str, of)) for of in config["classes"].values()}
    read, named = _of_event(
        _cells(rows, Path("the run")), Path("the run"), event, every.pop() if len(every) == 1 else ()
    )
    anew = design is not None and design.clients == "new" and bool(read["name"].str.isdecimal().all())
    if (read.groupby("client")["name"].nunique() > 1).any():  # each seed numbers those that train under it
        read = read.assign(name=read["client"].astype(str)) if anew else read.assign(client=read["name"])
    anew = anew and bool((read["name"] == read["client"].astype(str)).all())
    return read, (design and design.test_to_train) or 0.0, anew, told + named


def _cells(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    names = [str(name) for name in table.columns]
    kind = kind_of(names)
    if kind is None or "method" not in names:
        raise ValueError(
            f"{path} must have the columns method, outcome, and probability (of two classes), p_<class> for each of "
            f"several classes, or value; or for times method, time, event and risk. Its columns are "
            f"{', '.join(names)}; rename what is called otherwise."
        )
    if not len(table):
        raise ValueError(f"{path} is empty: it has no rows.")
    wide = [name for name in names if name.startswith(_CLASS)] if kind == "classes" else []
    numbers = {
        "two classes": ["outcome", "probability"], "classes": wide, "numbers": ["outcome", "value"],
        "times": ["time", "event", "risk"],
    }[kind]  # fmt: skip
    optional = ("seed", "client", "name", "estimand", "split", "sample")
    outcome = ["outcome"] * (kind == "classes")
    found = table[["method", *(name for name in optional if name in names), *numbers, *outcome]].copy()
    for name in found:
        if (gaps := found[name].isna()).any():
            raise ValueError(
                f"{path} has no {name} in row {int(np.argmax(gaps))} (counted from 0), and in {int(gaps.sum())} rows "
                "in all; fill it, or leave these patients out for all methods."
            )
    for name in numbers:
        values = pd.to_numeric(found[name], errors="coerce").astype(float)
        limits = "[0, 1]" if name == "probability" or name in wide else ""
        wrong = ~np.isfinite(values) | (((values < 0) | (values > 1)) if limits else False)
        if name == "event" or (name == "outcome" and kind == "two classes"):
            limits, wrong = "{0, 1}", ~values.isin([0, 1])
        elif name == "time":
            limits, wrong = "[0, inf)", wrong | (values < 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            rule = f"in {limits}" if limits else "a finite number"
            raise ValueError(f"{path}: {name} must be {rule}, got {found[name].tolist()[row]!r} in row {row} (from 0).")
        found[name] = values
    if wide:
        _check_classes(found, wide, path)
    defaults = {"seed": 0, "client": ALL, "name": found.get("client", ALL), "estimand": "", "split": ""}
    found = found.assign(**{name: value for name, value in defaults.items() if name not in found})
    seeds = pd.to_numeric(found["seed"], errors="coerce")
    if (wrong := seeds.isna() | (seeds // 1 != seeds)).any():
        raise ValueError(f"{path}: seed must be a whole number, got {found['seed'][wrong].iloc[0]!r}.")
    found["seed"] = seeds.astype(np.int64)
    return found.astype(dict.fromkeys((*_TEXT, "name"), str))


def _check_classes(found: pd.DataFrame, wide: list[str], path: Path) -> None:
    """Check that every outcome is one of the classes, and write it as text; let probabilities add up to one.

    They must do so already, but for rounding to two decimals or more.
    """
    if len(wide) < 2:
        raise ValueError(f"{path} has one column of probabilities, {wide[0]}; of several classes each needs its own.")
    sums = found[wide].sum(axis=1)
    decimals = next((d for d in (2, 3) if np.array_equal(found[wide], found[wide].round(d))), 4)
    if (off := (sums - 1).abs() > _SUM).any():
        if (wrong := (sums - 1).abs() > len(wide) * (0.5 * 10.0**-decimals + 1e-9)).any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{path}: {', '.join(wide)} must add up to 1, but add up to {sums[row]:.6g} in row {row} (from 0)."
            )
        found.loc[off, wide] = found.loc[off, wide].div(sums[off], axis=0)
    outcome = found["outcome"]
    if pd.api.types.is_numeric_dtype(outcome) and (outcome // 1 == outcome).all():
        outcome = outcome.astype(np.int64)
    found["outcome"] = outcome.astype(str)
    known = {name.removeprefix(_CLASS) for name in wide}
    if strange := sorted({*found["outcome"]} - known):
        raise ValueError(f"{path} has the outcome {strange[0]!r}, but no column {_CLASS}{strange[0]}.")


def _with_event(table: pd.DataFrame, path: Path, event: str | int | None) -> tuple[pd.DataFrame, list[str]]:
    """Return a table whose outcomes are two names as one of 1, the event, and 0; with these names, the event last.

    Its column probability is that of the event. Other tables come back as they are, without names.
    """
    if kind_of([str(name) for name in table.columns]) != "two classes":
        return table, []
    outcome = table["outcome"].dropna().astype(str)
    classes = sorted({*outcome}, key=lambda name: (name == str(event), name))
    if len(classes) != 2 or "True" in classes or pd.to_numeric(outcome, errors="coerce").notna().any():
        return table, []
    if event is None:
        raise _unsaid(path, classes)
    return table.assign(outcome=(outcome == str(event)).astype(float)), classes


def _unsaid(path: Path, classes: Sequence[str]) -> ValueError:
    return ValueError(
        f"{path} has two classes, {' and '.join(classes)}, and does not say which is the event: fs.assess takes "
        f"event={classes[0]!r} or event={classes[1]!r}. Or write a column probability, that of the event, and "
        "outcomes as 1 and 0."
    )


def _of_event(
    rows: pd.DataFrame, path: Path, event: str | int | None, named: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return rows of two classes as outcomes and probabilities of the event, and which class that is in words.

    The event is by default class 1 of 0 and 1, or the second of a run's classes, `named`, whose outcomes are numbers.
    """
    wide = [name for name in rows if str(name).startswith(_CLASS)]
    classes = [name.removeprefix(_CLASS) for name in wide] if wide else [*named]
    if event is not None and (len(classes) != 2 or str(event) not in classes):
        has = f"the classes {', '.join(classes)}" if classes else "no classes with names"
        raise ValueError(f"event must be one of two classes, got {event!r}, but {path} has {has}.")
    if len(classes) != 2:
        return rows, []
    plain = {*classes} == {"0", "1"}
    usual = "1" if plain else None if wide else classes[1]
    if (chosen := usual if event is None else str(event)) is None:
        raise _unsaid(path, classes)
    if wide:
        yes = (rows["outcome"] == chosen).astype(float)
        rows = rows.drop(columns=wide).assign(outcome=yes, probability=rows[f"{_CLASS}{chosen}"])
    elif chosen == classes[0]:
        rows = rows.assign(outcome=1 - rows["outcome"], probability=1 - rows["probability"])
    other = "" if event is not None else ", unless event names the other"
    told = f"The event is {chosen!r}, of the classes {' and '.join(map(repr, classes))}{other}."
    return rows, [] if plain and chosen == "1" else [told]


def arrange(table: pd.DataFrame, again: float | None = None) -> Predictions:
    """Return checked rows, with one estimand of each method and one split, as arrays; `again` as `predictions_of`.

    Methods that differ in seeds, patients or outcomes are refused, as are repeated patients and clients with two names.
    """
    kind = cast(Kind, kind_of(list(table.columns)))
    keys = ["seed", "client", "sample"]
    given = "sample" in table
    runs = ["method", "seed", "client"]
    if not given:
        table = table.assign(sample=table.groupby(runs, sort=False).cumcount())
    elif (twice := table.duplicated([*runs, "sample"])).any():
        first = table[twice].iloc[0]
        shown = ", ".join(f"{name} {first[name]}" for name in [*runs, "sample"])
        hint = " There is no column client: rename the column of hospitals to client." if first["client"] == ALL else ""
        raise ValueError(f"table has one patient twice: {shown}.{hint}")
    methods = tuple(dict.fromkeys(table["method"]))
    clients, table = _coded(table, "client")
    _, table = _coded(table, "sample")
    names = table.groupby("client")["name"].unique()
    if len(two := names[names.map(len) > 1]):
        raise ValueError(f"client {clients[two.index[0]]} has two names: {' and '.join(two.iloc[0][:2])}.")
    sizes = table.groupby(keys).size()
    if (short := sizes[sizes < len(methods)]).size:
        seed, client, sample = short.index[0]
        rows = table[(table["seed"] == seed) & (table["client"] == client) & (table["sample"] == sample)]
        lacks = next(one for one in methods if one not in {*rows["method"]})
        raise ValueError(
            f"methods must be tested on the same patients, but {lacks} lacks some: {short.size} are not predicted by "
            f"all, the first under seed {seed} at client {clients[client]}. Leave out what not all methods have."
        )
    table = table.assign(method=pd.Categorical(table["method"], methods)).sort_values([*keys, "method"])
    wide = [name for name in table if str(name).startswith(_CLASS)]
    classes = tuple(str(name).removeprefix(_CLASS) for name in wide)
    if kind == "times":
        outcome, columns = table[["time", "event"]].to_numpy(float), ["risk"]
    elif kind == "numbers":
        outcome, columns = table["outcome"].to_numpy(float), ["value"]
    else:
        outcome = pd.Categorical(table["outcome"], classes).codes if wide else table["outcome"].to_numpy()
        outcome, columns = outcome.astype(np.int64), wide or ["probability"]
    values = table[columns].to_numpy(float)
    m = len(methods)
    outcome = outcome.reshape(-1, m, *outcome.shape[1:])
    if (differ := (outcome != outcome[:, :1]).reshape(len(outcome), -1).any(axis=1)).any():
        row = table.iloc[m * int(np.argmax(differ))]
        raise ValueError(
            f"methods must agree on outcomes, but differ at {int(differ.sum())} patients, the first under seed "
            f"{row['seed']} at client {clients[row['client']]}. Do rows without sample stand in the same order?"
        )
    patients, outcome = table.iloc[::m][keys].reset_index(drop=True), outcome[:, 0]
    prediction = np.moveaxis(values.reshape(len(outcome), m, -1), 0, 1)  # (M, patients, C)
    if kind != "classes":
        prediction = prediction[..., 0]
    seeds = patients["seed"].unique()
    parts = [patients.index[patients["seed"] == seed].to_numpy() for seed in seeds]
    who = [patients.loc[part, ["client", "sample"]].to_numpy() for part in parts]
    same = all(np.array_equal(who[0], one) for one in who)
    if same and all(np.array_equal(outcome[parts[0]], outcome[part]) for part in parts):
        blocks = [Block(who[0][:, 0], outcome[parts[0]], np.stack([prediction[:, part] for part in parts], axis=1))]
        again = 0.0
    else:
        blocks = [Block(w[:, 0], outcome[p], prediction[:, None, p]) for w, p in zip(who, parts, strict=True)]
        if again is None and not given:
            raise ValueError(
                "seeds test different patients: a column sample must name each within the client, so that one who is "
                "tested again is known. If another column does, rename it."
            )
        again = _again(patients, outcome) if again is None else again
    return Predictions(
        kind, methods, tuple(map(int, seeds)), clients, tuple(str(names[i][0]) for i in range(len(clients))), classes,
        tuple(blocks), again,
    )  # fmt: skip


def _coded(table: pd.DataFrame, name: str) -> tuple[tuple[Any, ...], pd.DataFrame]:
    """Return the values of a column in order, and the table with their places; numbers written as text are numbers."""
    values = table[name]
    if not pd.api.types.is_numeric_dtype(values):
        numbers = pd.to_numeric(values.astype(str), errors="coerce")
        values = numbers if (numbers.abs() < 2.0**63).all() else values.astype(str)  # larger ones would be rounded
    codes, known = pd.factorize(values, sort=True)
    plain = [int(one) if isinstance(one, float) and one % 1 == 0 else one for one in known.tolist()]
    return tuple(plain), table.assign(**{name: codes})


def _again(patients: pd.DataFrame, outcome: np.ndarray) -> float:
    """Return the ratio of test patients to others where seeds draw from the same patients; 0 if they do not.

    Seeds with nearly the same patients are refused, since neither rule of variances holds for them, and so are
    different patients by one name.
    """
    whole = patients.assign(outcome=list(map(tuple, outcome)) if outcome.ndim > 1 else outcome)
    persons = whole.groupby(["client", "sample"])
    tested, seeds = len(patients) / patients["seed"].nunique(), patients["seed"].nunique()
    if persons.ngroups == len(patients):
        return 0.0
    if (two := persons["outcome"].nunique() > 1).any():
        client, sample = two.index[int(np.argmax(two))]
        raise ValueError(
            f"seeds give one patient different outcomes: client {client}, sample {sample} (both counted from 0). "
            "Where seeds split patients anew, sample must name each one alike under all seeds, and patients that are "
            "new under each seed must have names of their own. A run knows its splits: assess the result or its folder."
        )
    times, of = persons.size(), patients.groupby("client")["seed"].nunique()
    always = times == of.reindex(times.index.get_level_values("client")).to_numpy()
    absent = (of > 1) & (of < seeds) & always.groupby(level="client").all()
    if absent.any() or (times == seeds).mean() > _MOSTLY:
        raise ValueError(
            "seeds must test the same patients, or other ones drawn at random, but "
            f"{int((times < seeds).sum())} of {len(times)} are absent under some seeds, the others never. Leave these "
            "patients, or the clients that are absent under a seed, out."
        )
    return tested / max(persons.ngroups - tested, 1)
