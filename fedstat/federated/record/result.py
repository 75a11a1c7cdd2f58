"""What a run leaves behind: a tidy table, and the final states."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from fedstat._account import said
from fedstat._in_words import attacked, counted
from fedstat.federated.client.local import AnyTraining, Learner
from fedstat.federated.client.network import MIXED, Model, Network, build, floating
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.fingerprint import differences, of_network
from fedstat.federated.history import DTYPES, TRAFFIC_DTYPES
from fedstat.federated.method import Method, device_of
from fedstat.federated.record.as_module import as_module
from fedstat.federated.record.predictions import kept_splits, tabulate
from fedstat.federated.record.rows import Rows, Segment
from fedstat.federated.record.run_folder import read_run, sole_writer, write_run
from fedstat.federated.revival import revived_factory, revived_method, revived_training
from fedstat.federated.rounds import Key, Run
from fedstat.federated.state import Federation, State
from fedstat.inference import AnalysisPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Outcome of `fedstat.federate`.

    Attributes
    ----------
    history : DataFrame
        Tidy: method, seed, round, client, estimand, split, metric, value. The value is NaN where the model's outputs
        were infinite or NaN; a loss may be infinite. With early stopping also ``kept``, true in the round whose models
        are kept. Of a run with a folder, long tables stay there until they are asked for.
    traffic : DataFrame
        Bytes that travelled: method, seed, round, client, bytes_up, bytes_down; a row for each participant of each
        round, and for all clients in round 0 where something travels before the first.
    clients : DataFrame
        Who took part: seed, client, name, and the number of samples by split, train, validation and test; 0 where there
        is no such split. With an attack also ``attacker``: those clients have no rows in the history.
    states : dict
        `State` after the last round, by (method label, seed).
    records : dict
        Per (method label, seed), arrays (rounds, ...) of what the method recorded, e.g. which units are shared.
    config : dict
        The configuration in plain values. Runs can be compared where these agree, or where the difference is wanted:
        ``fingerprint[str(seed)]``, hashes of the seed's ``train``, ``validation``, ``test`` and ``common`` samples as
        far as they exist, of the inputs that all clients hold together (``pool``, ``train_pool``, ``sketch``) and each
        of them holds (``held``), of their ``names`` (with classes and label permutations), of the generator's
        ``truth``, of the ``network`` and of its initial ``weights``; ``vary``, the sources of randomness that follow
        each seed, the others following the first one of ``seeds`` (with the number of clients and ``participation``
        they decide the participants); ``training`` and ``loss``; ``model``; ``rounds`` (done), ``rounds_asked``,
        ``finished``; ``evaluated``, the rounds up to ``rounds_asked`` after which models are measured, as ranges
        [first, last, step]; ``stop``, ``validate``, ``trained`` and ``metrics``, what is measured; ``dtype`` and
        ``device`` (the last one's, if a run was continued on another); ``plan``, the digest of the plan, empty if
        there is none; ``attack``, only with one, what it is and a hash of its code; ``predictions``, whether the run's
        folder keeps them; ``looks``, only of extended runs, the numbers of seeds at which they were complete.
        ``clients`` and ``classes`` hold the number of clients and the names of classes by seed, ``methods`` the
        hyper-parameters by label, ``code`` and ``training_code`` hashes of what a user brings.
    kept : dict
        With early stopping, the `State` after the best round of each run.
    model : callable, nn.Module or None
        The network; None after loading a run of a network that is not fedstat's own.
    methods : dict
        The methods by label, as far as they are known after loading.
    training : Training, mapping of label to Training, or None
        Local training of all methods, or of each; None after loading a run with a loss, optimiser or schedule that is
        not fedstat's own.
    plan : AnalysisPlan, optional
        How the run is to be analysed, as written down before its first round.
    runs : dict
        Per (method label, seed), what ran: clients, network and the means to train; empty after loading.
    predicted : dict
        Per (method label, seed), the file of predictions, if the run was loaded from a folder that holds them.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> result.states.keys()
    dict_keys([('FedAvg', 0), ('Ditto', 0)])
    >>> type(result.personal(2, "Ditto", 0)).__name__
    'MLP'
    """

    history: pd.DataFrame
    traffic: pd.DataFrame
    clients: pd.DataFrame
    states: dict[Key, State]
    records: dict[Key, dict[str, np.ndarray]]
    config: dict[str, Any]
    kept: dict[Key, State] = field(default_factory=dict)
    model: Model | None = None
    methods: Mapping[str, Method] = field(default_factory=dict)
    training: AnyTraining | None = None
    plan: AnalysisPlan | None = None
    runs: Mapping[Key, Run] = field(default_factory=dict)
    predicted: Mapping[Key, Segment] = field(default_factory=dict)

    def __repr__(self) -> str:
        labels, seeds = ", ".join(self.config["methods"]), ", ".join(map(str, self.config["seeds"]))
        rounds, rows = counted(self.config["rounds"], "round"), counted(len(self.rows("history")), "row")
        told = f"Result({labels}; seeds {seeds}; {rounds}; {rows} of history)"
        return "\n".join([told, *attacked(self.config), *said(self.config)])

    def _repr_html_(self) -> str:
        from html import escape

        from fedstat.inference import compare

        shown = f"<p>{escape(repr(self))}</p>"
        return shown + compare(self)._repr_html_() if len(self.rows("history")) else shown

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the differences of the methods with their intervals, as `fedstat.compare` finds them."""
        from fedstat.inference import compare

        return compare(self).plot(ax)

    def personal(
        self, client: int | str, method: str | None = None, seed: int | None = None, estimand: str | None = None
    ) -> nn.Module:
        """Return the model that `client` uses, in evaluation mode.

        It is a copy of the network with the client's weights, composed of parts where the method has them; where
        outputs are more than one network's (a mixture, two heads), a module around it. It takes what the network sees:
        numbers as they are, bytes as shares of 255, tokens as int64. Its dropout layers drop nothing in training mode
        either.

        Parameters
        ----------
        client : int or str
            The client's number, from 0, or its name, as the column ``name`` of ``clients`` has it.
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
        client = self._number(client, key[1])
        state, network = self.final(key), self.network(key)
        one = torch.tensor([client], device=device_of(state))
        models = self.methods[key[0]].models(state, one, self.federations.get(key))
        return as_module(models, estimand, Learner(network, self.config["loss"]))

    def _number(self, client: object, seed: int) -> int:
        """Return a client's number from its number or its name."""
        if isinstance(client, Integral) and not isinstance(client, bool):
            clients = int(self.config["clients"][str(seed)])
            if 0 <= int(client) < clients:
                return int(client)
            raise ValueError(f"client must lie in 0..{clients - 1}, got {client}.")
        who = self.clients[self.clients["seed"] == seed]
        if isinstance(client, str) and (who["name"] == client).sum() == 1:
            return int(who.loc[who["name"] == client, "client"].iloc[0])
        named = ", ".join(f"{k} ({name})" for k, name in zip(who["client"].head(8), who["name"].head(8), strict=True))
        raise ValueError(
            f"client must be a number from 0 to {len(who) - 1} or the name of one client, got {client!r}; there are "
            f"{named}{', ...' * (len(who) > 8)}."
        )

    @property
    def federations(self) -> dict[Key, Federation]:
        """Per (method label, seed), the `Federation` that the run saw; empty after loading."""
        return {key: run.federation for key, run in self.runs.items()}

    def predictions(
        self, method: str | None = None, seed: int | None = None, estimand: str | None = None, split: str = "test"
    ) -> pd.DataFrame:
        """Return what the final models predict for every sample; with early stopping, the kept models.

        A run that was loaded has them if it was asked for them: ``fs.federate(..., predictions=True)``, or
        ``predictions = true`` under ``[evaluation]``. They are equal to the last bit to those computed at once.

        Parameters
        ----------
        method, seed, estimand
            Of which method (label), seed and model; all by default.
        split : str
            On whose samples: "test", "validation" or "train". Seeds whose clients have none of these are absent. A
            folder holds those that the history measures.

        Returns
        -------
        DataFrame
            A row for each method, seed, estimand, client and sample, with the columns method, seed, estimand, split,
            client, name (the client's), sample and outcome. Samples are counted from 0 in the data that were dealt, so
            that they name the rows of a table, or where none were dealt among the client's own. Where there are two
            classes, outcome is 0 or 1 and ``probability`` that of class 1; of more classes outcome is the name, or the
            number where classes are numbers, and ``p_NAME`` the probability of each; in regression ``value`` is the
            prediction. Predictions are NaN where the outputs of a model are.

        Raises
        ------
        ValueError
            If there is no such method, seed, estimand or split, which lists what there is; if the run was loaded and
            holds no predictions; for a regression with several outputs.

        Examples
        --------
        >>> import fedstat as fs
        >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
        >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
        >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
        >>> table = result.predictions("Ditto", estimand="personal")
        >>> list(table.columns)
        ['method', 'seed', 'estimand', 'split', 'client', 'name', 'sample', 'outcome', 'probability']
        >>> len(table)
        200
        """
        for name, given, known in (("method", method, "methods"), ("seed", seed, "seeds")):
            if given is not None and given not in self.config[known]:
                raise ValueError(f"{name} must be one of {', '.join(map(str, self.config[known]))}, got {given!r}.")
        there: dict[str, dict[str, None]] = {"split": {}, "estimand": {}}
        tables = []
        for key in (key for key in self.states if method in (None, key[0]) and seed in (None, key[1])):
            if key in self.runs:
                there["split"] |= dict.fromkeys(splits := self.runs[key].replicate.clients.splits)
                if split not in splits:
                    continue
                table = tabulate(self.runs[key], self.final(key), split)
            elif key in self.predicted:
                table = self.predicted[key].read()
                there["split"] |= dict.fromkeys(table["split"].unique())
                table = table[table["split"] == split]
            else:
                raise ValueError(self._without_predictions())
            there["estimand"] |= dict.fromkeys(table["estimand"].unique())
            tables.append(table if estimand is None else table[table["estimand"] == estimand])
        for name, wanted in (("split", split), ("estimand", estimand)):
            if wanted is not None and wanted not in there[name]:
                raise ValueError(f"{name} must be one of {', '.join(there[name])}, got {wanted!r}.")
        return pd.concat([table for table in tables if len(table)], ignore_index=True)

    def _without_predictions(self) -> str:
        """Say why a loaded run has no predictions, and how it comes to have them."""
        if self.config.get("predictions") and not self.config["finished"]:
            return (
                f"the run holds {self.config['rounds']} of {self.config['rounds_asked']} rounds, and predictions come "
                "with the last one; finish it with fs.federate(..., resume=result, predictions=True)."
            )
        return (
            "this result was loaded from a folder without predictions, and computing them takes the samples. Ask for "
            "them with fs.federate(..., predictions=True), or with predictions = true under [evaluation] of an "
            "experiment file; a run that is continued for more rounds may begin to."
        )

    def rows(self, table: Literal["history", "traffic"]) -> Rows:
        """Return a table as it is kept: in files, in memory, or both; its ``parts()`` are read one after the other."""
        kept: Rows | pd.DataFrame = vars(self)[table]
        return kept if isinstance(kept, Rows) else Rows.of(kept, DTYPES if table == "history" else TRAFFIC_DTYPES)

    def final(self, key: Key) -> State:
        """Return the state that a run ends with: its best round's where early stopping kept one, else the last."""
        return self.kept.get(key, self.states[key])

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
        if key in self.federations:
            return self.federations[key].network
        seeds = Seeds.of_run(self.config, key[1])
        return self.methods[key[0]].parameterize(_built(self.model, self.config, seeds), seeds.stream("parts"))

    def check_continues(self, config: Mapping[str, Any], rounds: int) -> int:
        """Return the rounds done, if a run of `config` for `rounds` rounds continues this one; else ValueError."""
        self.check_same(config)
        if self.config["rounds"] >= rounds:
            held = counted(self.config["rounds"], "round")
            raise ValueError(f"resume already holds {held}; rounds must exceed that, got {rounds}.")
        return int(self.config["rounds"])

    def check_same(self, config: Mapping[str, Any]) -> None:
        """Refuse a `config` of another run, of however many rounds: a ValueError names what differs."""
        if told := differences(self.config, config):
            added = " and ".join(sorted(config["methods"].keys() - self.config["methods"].keys()))
            alone = f" Run {added} alone under the same seeds, and give both results to fs.compare." if added else ""
            raise ValueError(f"resume holds a run with {', '.join(told)}; only rounds may differ.{alone}")

    def save(self, folder: str | Path) -> None:
        """Write the run into `folder`: settings, tables, states, and the environment.

        It holds config.toml, clients.parquet, state.safetensors and environment.json, and plan.toml if the run was
        planned; ``metrics/`` and ``traffic/`` hold the history and the traffic in one parquet file or several,
        ``predictions/`` those of a finished run that keeps them, a file for each method and seed; ``clients/`` what
        clients keep, row by row, and manifest.json the hashes of all other files, and which rounds are kept.
        The folder appears whole or not at all, and replaces an earlier run there. Killed at any moment, or after a
        loss of power, the earlier run or the new one can be loaded.

        Raises
        ------
        ValueError
            If `folder` exists and holds something else than a run, or cannot be replaced.
        OSError
            If it cannot be written, or another process writes it. What was there stays.
        """
        with sole_writer(folder) as path:
            self.write(path)

    def write(self, path: Path, who: Segment | None = None) -> dict[str, tuple[Segment, ...]]:
        """Write the run where the caller keeps other writers away; otherwise as `save`.

        `who` is a file that holds ``clients``, if there is one. It returns the files of all tables.
        """
        kept: dict[Key, Segment | Callable[[], pd.DataFrame]] = dict(self.predicted)
        if self.config.get("predictions") and self.config["finished"]:
            for key, of in self.runs.items():
                kept[key] = partial(tabulate, of, self.final(key), *kept_splits(self.config, of))
        return write_run(self, {key: kept[key] for key in self.states if key in kept}, path, who)


class _Stored:
    """A table of a result, which is read when it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, result: Result | None, owner: type) -> Any:
        if result is None:
            raise AttributeError(self.name)  # so that the field has no default
        kept = vars(result)[self.name]
        return kept.table if isinstance(kept, Rows) else kept

    def __set__(self, result: Result, table: Rows | pd.DataFrame) -> None:
        vars(result)[self.name] = table


for _table in ("history", "traffic"):
    setattr(Result, _table, _Stored(_table))


def _built(model: Model, config: Mapping[str, Any], seeds: Seeds) -> Network:
    dtype = config["dtype"]
    return build(model, seeds.stream("initial weights"), floating(dtype), mixed=dtype == MIXED)


def load(
    folder: str | Path,
    model: Model | None = None,
    methods: Mapping[str, Method] | None = None,
    training: AnyTraining | None = None,
) -> Result:
    """Read a run that `Result.save` or a checkpoint wrote, while another process goes on with it or not.

    Parameters
    ----------
    folder : path
        The run's folder.
    model : callable or nn.Module, optional
        The network, needed for `Result.personal` if it is not one of `fedstat.models`.
    methods : mapping of label to Method, optional
        The methods, needed for `Result.personal` where they are not fedstat's own.
    training : Training, or mapping of label to Training, optional
        Local training, needed for `newcomers` where its loss, optimiser or schedule is not fedstat's own.

    Raises
    ------
    ValueError
        If the folder holds no complete run, or a file of it is damaged, missing, of another checkpoint, or none of
        the run's; the message names the file. Hidden files do not count. Also if `model` builds another network than
        the run's; a warning says so where Python has another version, by which code cannot be compared.
    OSError
        If another process replaces the folder faster than it can be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> methods, network = [fs.FedAvg(), fs.methods.Ditto()], fs.models.mlp(5, 8, 1)
    >>> result = fs.federate(methods, network, clients, fs.Training(lr=0.1), rounds=3, progress=False)
    >>> folder = Path(tempfile.mkdtemp(), "run")
    >>> result.save(folder)
    >>> fs.load(folder).history.equals(result.history)
    True
    """
    result = revive(folder, model, methods, training)
    config, seed = result.config, result.config["seeds"][0]
    due = config.get("fingerprint", {}).get(str(seed), {}).get("network")
    if model is not None and due is not None:
        words = f"model must build the network of the run in {folder}, but its layers, or their code, are others"
        here, found = platform.python_version(), of_network(_built(model, config, Seeds.of_run(config, seed)))
        if found["network"] != due and here == config.get("python"):
            raise ValueError(f"{words}; pass the model that the run was made with.")
        if found["network"] != due:
            warnings.warn(f"{words}, unless Python's version makes the difference ({here} here).", stacklevel=2)
    return result


def revive(
    folder: str | Path,
    model: Model | None = None,
    methods: Mapping[str, Method] | None = None,
    training: AnyTraining | None = None,
) -> Result:
    """Do as `load`, whatever network `model` builds: whoever continues the run is told all that differs."""
    saved = read_run(folder)
    config = saved["config"]
    own = {label: m for label, spec in config["methods"].items() if (m := revived_method(spec)) is not None}
    return Result(
        **saved,
        model=revived_factory(config["model"]) if model is None else model,
        methods=own | dict(methods or {}),
        training=revived_training(config["training"]) if training is None else training,
    )
