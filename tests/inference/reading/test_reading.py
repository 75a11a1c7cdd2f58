"""Results of other frameworks, in files as their own code writes them, and tables that anybody wrote."""

import csv
import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedstat as fs
from fedstat._files import sha256
from fedstat.cli import app
from fedstat.inference import primary_summary, reduce
from tests.support.manifests import relist
from tests.support.reduced import reduce_file

FLOWER = Path(__file__).parents[2] / "data" / "flower"
COLUMNS = ["method", "seed", "round", "client", "estimand", "split", "metric", "value"]


def four_columns(methods=("A", "B"), seeds=3, clients=4) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(m, s, k, rng.random()) for m in methods for s in range(seeds) for k in range(clients)]
    return pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])


def read(tmp_path, text: str, name: str = "table.csv", **options):
    (tmp_path / name).write_text(text)
    return fs.read_results(tmp_path / name, **options)


def test_four_columns_are_enough(tmp_path):
    table = four_columns()
    table.to_csv(tmp_path / "table.csv", index=False)
    found = fs.read_results(tmp_path / "table.csv")
    assert list(found.history) == COLUMNS
    assert found.history["value"].tolist() == table["accuracy"].tolist()
    assert found.history["method"].astype(str).tolist() == table["method"].tolist()
    for name, only in {"round": 0, "estimand": "not named", "split": "test", "metric": "accuracy"}.items():
        assert found.history[name].unique().tolist() == [only]
    for name in ("method", "estimand", "split", "metric"):
        assert found.history[name].dtype == "category"
    assert [found.history[name].dtype for name in ("seed", "round", "client", "value")] == ["int64"] * 3 + ["float64"]
    assert (found.config, found.clients, found.plan) == (None, None, None)
    assert [note.split(":")[0] for note in found.notes] == ["no column round", "no column estimand", "no column split"]
    assert "24 values, 2 methods, 3 seeds" in found._repr_html_()


def variants(table: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """Write one table in the ways in which programs write it."""
    coded = table.astype({"method": "category"})
    paths = {name: folder / f"{name}.csv" for name in ("index", "excel", "tabs", "spaces", "windows")}
    table.to_csv(paths["index"])
    table.to_csv(paths["excel"], sep=";", decimal=",", encoding="utf-8-sig", index=False)
    table.to_csv(paths["tabs"], sep="\t", index=False)
    paths["spaces"].write_text(table.to_csv(index=False, columns=table.columns[::-1]).replace(",", ", "))
    table.to_csv(paths["windows"], index=False, lineterminator="\r\n")
    paths["zip"] = folder / "table.csv.gz"
    table.to_csv(paths["zip"], index=False)
    for name, of in {"plain": table, "coded": coded, "narrow": table.astype({"seed": "int8", "client": float})}.items():
        paths[name] = folder / f"{name}.parquet"
        of.to_parquet(paths[name])
    return paths


def test_every_dialect_gives_the_same_history(tmp_path):
    table = four_columns()
    for path in variants(table, tmp_path).values():
        found = fs.read_results(path).history
        np.testing.assert_allclose(found["value"], table["accuracy"], rtol=1e-15)
        assert found["method"].astype(str).tolist() == table["method"].tolist(), path
        assert found[["seed", "client"]].to_numpy().tolist() == table[["seed", "client"]].to_numpy().tolist()
        np.testing.assert_allclose(reduce_file(path).values.ravel(), table["accuracy"], rtol=1e-15)


def test_columns_map_from_the_file_to_ours_and_several_metrics_become_rows(tmp_path):
    table = four_columns().assign(
        log_loss=1.5, top5=0.9, epoch=3, host="x", model="personal", n=40, done=True, where="digits"
    )
    table = table.rename(columns={"method": "algo", "seed": "run", "accuracy": "acc"})
    table.to_csv(tmp_path / "table.csv", index=False)
    columns = {
        "algo": "method",
        "run": "seed",
        "acc": "accuracy",
        "top5": "top5_accuracy",
        "epoch": "round",
        "model": "estimand",
        "n": "samples",
        "done": "kept",
        "where": "setting",
    }
    found = fs.read_results(tmp_path / "table.csv", columns=columns)
    assert list(found.history) == [*COLUMNS, "samples", "kept", "setting"]
    assert found.history.groupby("metric", observed=True)["value"].agg(["size", "max"]).to_dict("index") == {
        "accuracy": {"size": 24, "max": table["acc"].max()},
        "log_loss": {"size": 24, "max": 1.5},
        "top5_accuracy": {"size": 24, "max": 0.9},
    }
    for name, only in {"round": 3, "estimand": "personal", "samples": 40, "kept": True, "setting": "digits"}.items():
        assert found.history[name].unique().tolist() == [only]
    assert found.notes == ("no column split: values are of test samples", "columns not read: host")
    one = fs.read_results(tmp_path / "table.csv", columns=columns, metric="log_loss").history
    assert one["metric"].unique().tolist() == ["log_loss"]
    value = fs.read_results(
        tmp_path / "table.csv",
        columns={"algo": "method", "run": "seed", "acc": "value", "epoch": None, "log_loss": None},
    )
    assert value.history["metric"].unique().tolist() == ["accuracy"]


def test_a_tidy_table_comes_back_as_it_is(tmp_path):
    table = fs.read_results(_written(tmp_path / "a.csv", four_columns())).history
    table = pd.concat([table, table.assign(metric="log_loss", value=np.nan)], ignore_index=True)
    for path in (tmp_path / "b.csv", tmp_path / "b.parquet"):
        _written(path, table)
        found = fs.read_results(path)
        assert not found.notes
        pd.testing.assert_frame_equal(
            found.history.astype({"metric": str}), table.astype({"metric": str}), check_categorical=False
        )
        assert len(fs.read_results(path, metric="log_loss").history) == 24
        with pytest.raises(ValueError, match="metric 'auc' is not in"):
            fs.read_results(path, metric="auc")


def _written(path: Path, table: pd.DataFrame) -> Path:
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


def test_clients_with_names_are_numbered_and_named(tmp_path):
    table = four_columns()
    table["client"] = [f"hospital {9 - k}" for k in table["client"]]
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        found = fs.read_results(_written(path, table))
        names = found.clients.set_index(["seed", "client"])["name"]
        assert names[0].tolist() == ["hospital 6", "hospital 7", "hospital 8", "hospital 9"]
        rows = found.history[["seed", "client"]].apply(tuple, axis=1)
        assert [names[row] for row in rows] == table["client"].tolist()
        reduced = reduce_file(path)
        assert reduced.clients.tolist() == names[0].tolist()
        np.testing.assert_array_equal(reduced.values, reduce([found.history]).values)


def test_several_files_and_labels(tmp_path):
    table = four_columns()
    parts = [_written(tmp_path / f"{label}.csv", own) for label, own in table.groupby("method")]
    assert len(fs.read_results(parts).history) == len(fs.read_results(tmp_path).history) == 24
    files = {
        label: [_written(tmp_path / f"{label}{s}.csv", own[["client", "accuracy"]]) for s, own in of.groupby("seed")]
        for label, of in table.groupby("method")
    }
    found = fs.read_results(files)
    assert found.history["value"].tolist() == table["accuracy"].tolist()
    assert found.history["seed"].tolist() == table["seed"].tolist()
    assert found.notes[0] == "no column seed: the files of a method are its seeds 0, 1, ..."
    frame = table[table["method"] == "A"][["seed", "client", "accuracy"]]
    assert fs.read_results({"A": frame}).history["value"].tolist() == frame["accuracy"].tolist()
    with pytest.raises(ValueError, match=r"A.csv has a column for the method; give it without the label 'A'"):
        fs.read_results({"A": parts[0]})


def test_percent_is_read_as_percent_only_where_nothing_else_is_possible(tmp_path):
    table = four_columns()
    percent = table.assign(accuracy=1 + 99 * table["accuracy"])
    found = fs.read_results(_written(tmp_path / "a.csv", percent))
    np.testing.assert_allclose(found.history["value"], percent["accuracy"] / 100, rtol=1e-15)
    assert found.notes[-1].startswith("values of accuracy above 1, up to ")
    np.testing.assert_allclose(reduce_file(tmp_path / "a.csv").values.ravel(), percent["accuracy"] / 100, rtol=1e-15)
    mixed = table.assign(accuracy=table["accuracy"] * np.where(table["method"] == "A", 100, 1))
    for reader in (fs.read_results, reduce_file):
        with pytest.raises(ValueError, match=r"others in \(0, 1\].*shares and percent cannot be told apart"):
            reader(_written(tmp_path / "b.csv", mixed))
        with pytest.raises(
            ValueError, match=r"values of accuracy from .* to 2.*e\+03; shares lie in|to .*shares lie in"
        ):
            reader(_written(tmp_path / "c.csv", table.assign(accuracy=2000 * table["accuracy"])))
    low = table.assign(accuracy=table["accuracy"] / 100).rename(columns={"accuracy": "acc"})
    stated = fs.read_results(_written(tmp_path / "d.csv", low), columns={"acc": "accuracy %"})
    np.testing.assert_allclose(stated.history["value"], low["acc"] / 100, rtol=1e-15)
    # in whatever case a column of metrics writes it; and 1 in single precision may be a little more
    named = percent.rename(columns={"accuracy": "value"}).assign(metric="Accuracy")
    assert fs.compare(named).scores.of_shares
    np.testing.assert_allclose(fs.read_results(named).history["value"], named["value"] / 100, rtol=1e-15)
    rounded = table.assign(accuracy=np.where(table.index == 0, 1.0000001, table["accuracy"]))
    assert fs.read_results(rounded).history["value"][0] == 1.0000001


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize("take", [fs.compare, fs.read_results])
def test_tables_in_memory_are_refused_as_files_are(take, tidy):
    table = four_columns()
    column, table = ("value", fs.read_results(table).history) if tidy else ("accuracy", table)
    with pytest.raises(ValueError, match="the table is empty: it has no rows"):
        take(table.iloc[:0])
    for name, value, words in (
        (column, "x", "value must be a number, or empty where it is missing"),
        (column, [0.5], "value must be a number"),
        ("seed", "first", "seed must be a whole number; number the runs from 0"),
    ):
        mixed = table.astype({name: object})
        mixed.at[5, name] = value
        with pytest.raises(
            ValueError, match=rf"row 5, has {re.escape(repr(str(value)))} in column '{name}', where {words}"
        ):
            take(mixed)
    numbered = table.astype({"method": object, "client": object}).replace({"method": {"A": 1}})
    numbered["client"] = [str(k) if i % 2 else k for i, k in enumerate(numbered["client"])]
    take(numbered)  # labels and clients of both kinds are what a file with them says
    history = fs.read_results(numbered).history
    assert history["method"].unique().tolist() == ["1", "B"]
    assert history["client"].unique().tolist() == [0, 1, 2, 3]


def test_named_levels_of_an_index_are_columns():
    table = four_columns()
    whole = fs.read_results(table).history
    for kept in (table.set_index(["method", "seed"]), table.set_index("client"), table.set_index("seed", drop=False)):
        pd.testing.assert_frame_equal(fs.read_results(kept).history, whole)
    means = table.groupby(["method", "seed"])["accuracy"].mean()
    found = fs.compare(means.to_frame()).scores.by_seed()
    np.testing.assert_allclose(found, means.unstack().to_numpy(), rtol=1e-12)


def test_whole_counts_are_no_percent(tmp_path):
    table = four_columns()
    counts = table.assign(accuracy=(40 + 50 * table["accuracy"]).round().astype(int))
    words = r"values of accuracy up to 8\d.*, and all single values are whole: counts and percent cannot be told apart"
    rounds = pd.concat([counts.assign(round=1), counts.assign(round=2, accuracy=counts["accuracy"] - 1)])
    for own in (counts, rounds, fs.read_results(table).history.assign(value=counts["accuracy"].to_numpy())):
        for take in (fs.compare, fs.read_results):
            with pytest.raises(ValueError, match=words):
                take(own)
    refused = CliRunner().invoke(app, ["compare", str(_written(tmp_path / "counts.csv", counts))])
    assert "write --value NAME --metric 'accuracy %' if the whole column" in " ".join(refused.output.split())
    as_percent = fs.read_results(counts, columns={"accuracy": "accuracy %"}).history
    np.testing.assert_allclose(as_percent["value"], counts["accuracy"] / 100)


HEAD = "method,seed,client,accuracy\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, r"table.csv is empty: it has no rows"),
        (HEAD, {}, r"table.csv is empty: it has no rows"),
        (HEAD + "A,0,1,x\n", {}, r"table.csv, line 2, has 'x' in column 'accuracy', where value must be a number"),
        (
            HEAD + "A,0,1,.5\nA,b,2,.5\n",
            {},
            r"line 3, has 'b' in column 'seed', where seed must be a whole number; num",
        ),
        (HEAD + "A,0,1,.5\nA,0.5,2,.5\n", {}, r"line 3, has '0.5' in column 'seed'"),
        (HEAD + "A,0,1,.5\nA,,2,.5\n", {}, r"line 3, has no seed: column 'seed' is empty there"),
        (HEAD + "A,0,1,.5\n,0,2,.5\n", {}, r"line 3, has no method: column 'method' is empty there"),
        (
            HEAD + "".join(f"A,0,{k},.5\n" for k in range(1000)) + "A,0,x,.5\n",
            {},
            r"line 1002, has 'x' in column 'client', where client must be a whole number, as in the first rows",
        ),
        (HEAD + "A,0,1,.5\nA,0\n", {}, r"table.csv cannot be read: .*Expected 4 columns, got 2"),
        (HEAD + "A,0,1,.5\nA,0,1,.6\n", {}, r"has 1 repeated rows, the first with method A, seed 0, round 0, client 1"),
        (
            "method,seed,client,accuracy,lr\nA,0,1,.5,1\nA,0,1,.6,2\n",
            {},
            r"1 repeated rows.*columns lr tells them apart, map it: columns=\{'lr': 'setting'\}",
        ),
        ("method,seed,seed,accuracy\nA,0,1,.5\n", {}, "has two columns 'seed'; rename one"),
        (
            "Algorithm,Run,acc\nA,0,.5\n",
            {},
            r"no column 'method' and no column 'seed' and no column of values, such as 'accuracy'; its columns are "
            r"Algorithm, Run, acc. Did you mean columns=\{'Algorithm': 'method', 'Run': 'seed', 'acc': 'accuracy'\}\?",
        ),
        (
            "run,FedAvg,Ditto\n0,.5,.6\n",
            {},
            r"If each of FedAvg, Ditto is a method, write one row for each value: pandas.melt\(table, \['run'\],",
        ),
        ("method,seed,wer\nA,0,.5\n", {}, r"If 'wer' is the metric, give columns=\{'wer': 'wer'\}."),
        ("method,seed,0,1\nA,0,.5,.6\n", {}, r"If each of 0, 1 is a client, .*\['method', 'seed'\], var_name='client'"),
        ("method,s0,s1\nA,.5,.6\n", {}, r"If each of s0, s1 is a seed, .*\['method'\], var_name='seed'"),
        ("method,seed\nA,0\n", {}, r"no column of values, .*columns=\{'name in the file': 'method'\}"),
        (
            "method,seed,client_id,accuracy\nA,0,1,.5\n",
            {},
            r"no column 'client', but client_id: did you mean columns=\{'client_id': 'client'\}\? Map a column to None",
        ),
        (
            "algo,seed,accuracy\nA,0,.5\n",
            {"columns": {"method": "algo"}},
            r"columns maps the file's names to fedstat's.* write columns=\{'algo': 'method'\}",
        ),
        (HEAD + "A,0,1,.5\n", {"columns": {"algo": "method"}}, "columns names 'algo', which .* does not have"),
        ("method,seed,value\nA,0,.5\n", {}, "a column 'value' but none that names the metric; give metric='accuracy'"),
        (
            "method,seed,value,auc\nA,0,.5,.6\n",
            {},
            "column 'value' beside auc but none that names the metric; map what",
        ),
        ("method,seed,acc,accuracy\nA,0,.5,1\n", {"columns": {"acc": "accuracy"}}, "'acc' and 'accuracy' are both"),
        ("0,1,2.5,3\n0,1,2,3\n", {}, "has no header: its first line is '0,1,2.5,3'"),
        (HEAD + "A,0,1,.5\n", {"kind": "tables"}, 'kind must be one of "fedstat", "table", .*got \'tables\''),
    ],
)
def test_tables_that_cannot_be_understood_are_refused(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text, **options)


def test_missing_values_stay_missing(tmp_path):
    found = read(tmp_path, HEAD + "A,0,0,\nA,0,1,NaN\nA,0,2,inf\nA,0,3,NA\nA,0,4,0.5\n").history
    assert np.isfinite(found["value"]).tolist() == [False] * 4 + [True]
    assert np.isinf(found["value"][2])


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "a.pkl").write_bytes(b"cos\nsystem\n(S'touch harm'\ntR.")
    with pytest.raises(ValueError, match=r"a.pkl may be a pickle, .* write the numbers as CSV or JSON"):
        fs.read_results(tmp_path / "a.pkl")
    with pytest.raises(ValueError, match="does not exist"):
        fs.read_results(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="has no known format"):
        fs.read_results(_copied(tmp_path / "a.pkl", tmp_path / "a.dat"))
    with pytest.raises(ValueError, match="holds no results that can be read: no fedstat run, "):
        fs.read_results(tmp_path)
    with pytest.raises(ValueError, match="path must name at least one file"):
        fs.read_results([])
    (tmp_path / "a.csv").write_bytes(HEAD.encode("utf-16"))
    with pytest.raises(ValueError, match="is no text in UTF-8"):
        fs.read_results(tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_text(HEAD)
    with pytest.raises(ValueError, match="is no parquet file"):
        fs.read_results(tmp_path / "a.parquet")


def _copied(there: Path, here: Path) -> Path:
    shutil.copy(there, here)
    return here


# --- fedstat ---


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, fs.Result]:
    folder = tmp_path_factory.mktemp("fedstat") / "run"
    clients = fs.data.relu_mixture(
        clients=4, d=6, units=4, shared_units=0.5, shared_inputs=0.4, balance="center", seed=0
    )
    model, training = fs.models.mlp(6, 4, 1), fs.Training(lr=1e-2, batch_size=32, local_epochs=1)
    result = fs.federate([fs.FedAvg(), fs.Local()], model, clients, training, rounds=2, seed=[0, 1])
    result.save(folder)
    return folder, result


def test_a_run_is_read_as_it_was_saved(run):
    folder, result = run
    for place in (folder, folder.parent):
        found = fs.read_results(place)
        pd.testing.assert_frame_equal(found.history, result.history, check_categorical=False)
        assert found.config["rounds"] == 2
        assert found.config["fingerprint"].keys() == {"0", "1"}
        assert found.source == str(place)
    np.testing.assert_array_equal(reduce_file(folder).values, reduce([result.history]).values)


def test_a_runs_plan_and_clients_travel_along(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "out" / "run")
    (tmp_path / "out" / "plan.toml").write_text("")
    known = pd.DataFrame({"seed": [0], "client": [0], "name": [""], "train": [3], "validation": [0], "test": [5]})
    known.to_parquet(folder / "clients.parquet")
    with pytest.raises(ValueError, match=r"clients.parquet is damaged: it is not the file that manifest.json lists"):
        fs.read_results(folder)
    _sealed(folder, "clients.parquet")
    found = fs.read_results(tmp_path / "out")
    assert found.plan == tmp_path / "out" / "plan.toml"
    assert found.clients["test"].tolist() == [5]
    assert fs.read_results(run[0]).plan is None


def _sealed(folder: Path, name: str) -> None:
    relist(folder, lambda listed: listed["sha256"].update({name: sha256(folder / name)}))


@pytest.mark.parametrize("name", ["config.toml", "metrics/00000.parquet"])
def test_a_run_that_was_changed_is_refused(run, tmp_path, name):
    folder = shutil.copytree(run[0], tmp_path / "run")
    with (folder / name).open("ab") as file:
        file.write(b"\n")
    for reader in (fs.read_results, *([reduce_file] if name == "metrics/00000.parquet" else [])):
        with pytest.raises(ValueError, match=f"{name} is damaged: it is not the file that manifest.json lists"):
            reader(folder)


def test_runs_are_read_one_by_one_and_without_torch(run):
    with pytest.raises(ValueError, match=r"is a fedstat run and is read on its own.*fs.compare in a list"):
        fs.read_results([run[0], run[0]])
    with pytest.raises(ValueError, match="columns is for tables"):
        fs.read_results(run[0], columns={"a": "b"})
    program = f"import sys, fedstat as fs; fs.read_results({str(run[0])!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- PFLlib: the calls of `save_results` in system/flcore/servers/serverbase.py ---


def pflib_results(folder: Path, dataset: str, algorithm: str, goal: str, times: int, acc, auc=(), loss=()) -> None:
    algo = dataset + "_" + algorithm
    algo = algo + "_" + goal + "_" + str(times)
    with h5py.File(str(folder) + "/" + f"{algo}.h5", "w") as hf:
        hf.create_dataset("rs_test_acc", data=list(acc))
        hf.create_dataset("rs_test_auc", data=list(auc))
        hf.create_dataset("rs_train_loss", data=list(loss))


def test_pflib(tmp_path):
    for times in (0, 1):
        pflib_results(tmp_path, "Cifar10", "FedAvg", "test", times, [0.1, 0.2, 0.3 + times], loss=[3.0, 2.0, 1.0])
        pflib_results(tmp_path, "Cifar10", "Ditto", "test", times, [0.1, 0.15, 0.2, 0.25], loss=[4.0, 3.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="shares and percent"):
        fs.read_results(tmp_path)
    pflib_results(tmp_path, "Cifar10", "FedAvg", "test", 1, [0.1, 0.2, 0.4])
    found = fs.read_results(tmp_path)
    table = found.history.set_index(["method", "seed", "metric", "split", "estimand"]).sort_index()["value"]
    assert table["FedAvg", 1, "accuracy", "test", "not named"].tolist() == [0.1, 0.2, 0.4]
    assert table["FedAvg", 0, "loss", "train", "not named"].tolist() == [3.0, 2.0, 1.0]
    # Ditto appends the values of the global and of the personal models to one list, in turn
    assert table["Ditto", 0, "accuracy", "test", "global"].tolist() == [0.1, 0.2]
    assert table["Ditto", 0, "accuracy", "test", "personal"].tolist() == [0.15, 0.25]
    # under a label of one's own, too
    labelled = fs.read_results({"mu = 0.1": [tmp_path / f"Cifar10_Ditto_test_{times}.h5" for times in (0, 1)]}).history
    assert labelled[labelled["metric"] == "accuracy"].groupby("estimand")["value"].mean().round(6).to_dict() == {
        "global": 0.15, "personal": 0.2,
    }  # fmt: skip
    assert found.history["round"].unique().tolist() == [0, 1, 2]
    assert found.history["client"].unique().tolist() == [-1]
    assert found.history["setting"].unique().tolist() == ["Cifar10"]
    assert len(found.notes) == 3
    assert reduce_file(tmp_path, "accuracy").curves.shape == (3, 2, 3)


def test_pflib_names_and_damage(tmp_path):
    pflib_results(tmp_path, "Tiny_imagenet_200", "LG-FedAvg", "lr_0.1_b", 12, [0.5])
    (own,) = fs.read_results(tmp_path).history[["method", "seed", "setting"]].to_numpy().tolist()
    assert own == ["LG-FedAvg", 12, "Tiny_imagenet_200"]
    pflib_results(tmp_path, "my", "data_my_method", "a_b", 0, [0.5])
    path = tmp_path / "my_data_my_method_a_b_0.h5"
    with pytest.raises(ValueError, match=r"is not named dataset_algorithm_goal_times.h5 .*\{'LABEL': "):
        fs.read_results(path)
    assert fs.read_results({"mine": path}).history["method"].tolist() == ["mine"]
    with h5py.File(tmp_path / "MNIST_FedAvg_test_0.h5", "w") as hf:
        hf.create_dataset("weights", data=[1.0])
    with pytest.raises(ValueError, match=r"holds no results of PFLlib .*; it has weights"):
        fs.read_results(tmp_path / "MNIST_FedAvg_test_0.h5")
    (tmp_path / "MNIST_FedAvg_test_1.h5").write_bytes(b"no HDF5")
    with pytest.raises(ValueError, match="is no readable HDF5 file"):
        fs.read_results(tmp_path / "MNIST_FedAvg_test_1.h5")


def test_h5py_is_asked_for_where_it_is_missing(tmp_path, monkeypatch):
    pflib_results(tmp_path, "MNIST", "FedAvg", "test", 0, [0.5])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"needs h5py: pip install 'fedstat\[hdf5\]'"):
        fs.read_results(tmp_path)


# --- FL-bench: the calls of `save_metrics_stats` in src/server/fedavg.py ---


def fl_bench_metrics(output_dir: Path, stages, seed: int | None = None) -> None:
    output_dir.mkdir(parents=True)
    df = pd.DataFrame()
    for (stage, split), stats in stages.items():
        df.insert(loc=df.shape[1], column=f"accuracy_{split}_{stage}", value=np.array(stats).T)
    df.to_csv(output_dir / "metrics.csv", index=True, index_label="epoch")
    if seed is not None:  # as Hydra leaves config/defaults.yaml there
        (output_dir / ".hydra").mkdir()
        (output_dir / ".hydra" / "config.yaml").write_text(
            "method: fedavg\ndataset:\n  name: mnist\n  seed: 7\noptimizer:\n  name: sgd\nmode: serial\n"
            f"common:\n  test:\n    client:\n      interval: 100\n  seed: {seed}\n  join_ratio: 0.1\n"
        )


def test_fl_bench(tmp_path):
    for method, shift in (("fedavg", 0), ("ditto", 5)):
        for seed in (42, 43):
            stages = {
                ("before", "test"): [10.0 + shift, 20.0],
                ("after", "test"): [30.0, seed],
                ("after", "val"): [50, 1],
            }
            fl_bench_metrics(tmp_path / "out" / method / "mnist" / f"2025-10-0{seed - 40}-12-00-00", stages, seed)
    found = fs.read_results(tmp_path / "out")
    table = found.history.set_index(["method", "seed", "split", "estimand"]).sort_index()
    assert table.loc[("ditto", 43, "test", "before local training"), "value"].tolist() == [0.15, 0.2]
    assert table.loc[("fedavg", 42, "test", "after local training"), "value"].tolist() == [0.3, 0.42]
    assert table.loc[("fedavg", 42, "validation", "after local training"), "value"].tolist() == [0.5, 0.01]
    assert table.loc[("fedavg", 42, "test", "after local training"), "round"].tolist() == [1, 2]
    assert found.history["setting"].unique().tolist() == ["mnist"]
    assert "the clients that took part in the round" in found.notes[0]


def test_models_that_nothing_tells_apart_are_asked_for_and_named(tmp_path):
    for method, (before, after) in {"fedavg": (53.5, 89.7), "fedper": (58.6, 89.6)}.items():
        for seed in (0, 1, 2):
            stages = {("before", "test"): [before + 1 + seed], ("after", "test"): [after + 1 + seed]}
            fl_bench_metrics(tmp_path / "out" / method / "mnist" / f"2025-10-0{seed + 1}", stages, seed)
    asked = "measures several models of fedavg and fedper, and nothing says which of them is meant. Choose {} or {}."
    names = "'after local training'", "'before local training'"
    history = fs.read_results(tmp_path / "out").history
    for refused in (
        lambda: fs.compare(tmp_path / "out"),
        lambda: fs.compare(fs.read_results(tmp_path / "out")),
        lambda: primary_summary(history, "accuracy"),
    ):
        with pytest.raises(ValueError, match=asked.format(*(f"estimand={name}" for name in names))):
            refused()
    found = fs.compare(tmp_path / "out", estimand="before local training")
    assert found.summary["mean"].round(3).to_dict() == {"fedavg": 0.555, "fedper": 0.606}
    assert primary_summary(history, "accuracy", estimand="before local training")["fedper"].tolist() == [
        0.596, 0.606, 0.616
    ]  # fmt: skip
    whose = (
        "accuracy of the model before local training, one number over the test samples of the clients that took part"
    )
    for told in (found, fs.compare(fs.read_results(tmp_path / "out"), estimand="before local training")):
        assert f"{whose} in each round, mean over round 1 alone" in " ".join(str(told).split())
    mixed = {"fedavg": "before local training", "fedper": "after local training"}
    assert "model (before local training of fedavg, after local training of fedper)" in str(
        fs.compare(tmp_path / "out", estimand=mixed)
    )
    refused = CliRunner().invoke(app, ["compare", str(tmp_path / "out")])
    assert asked.format(*(f"--estimand {name}" for name in names)) in " ".join(refused.output.split())
    assert (
        CliRunner().invoke(app, ["compare", str(tmp_path / "out"), "--estimand", "before local training"]).exit_code
        == 0
    )


def test_what_a_value_is_comes_from_the_format(tmp_path):
    for times in (0, 1):
        pflib_results(tmp_path, "Cifar10", "FedAvg", "test", times, [0.1, 0.2 + times / 10])
        pflib_results(tmp_path, "Cifar10", "Ditto", "test", times, [0.1, 0.15, 0.2, 0.25 + times / 10])
    told = "one number over all clients' test samples, mean over"
    assert f"the model (personal of Ditto, not named of FedAvg), {told}" in fs.compare(tmp_path).estimand
    # a table of one number for each run knows as much from its rows
    table = four_columns(clients=1).drop(columns="client")
    assert "accuracy of the model (not named), one number for each run on test samples" in fs.compare(table).estimand
    flower = fs.compare({"FedAvg": fs.read_results({"FedAvg": [FLOWER / "result.json"]})})
    assert "the model (not named), one number over the clients' test samples, weighted as" in flower.estimand
    both = fs.compare({"bench": tmp_path, "own": table}, across=["data", "rounds"]).estimand
    assert told in both
    assert "(bench) and the model" in both
    assert both.split(";")[0].endswith("(own)")


def test_fl_bench_without_hydras_folder_numbers_runs_by_their_dates(tmp_path):
    for day in (3, 1, 2):
        fl_bench_metrics(tmp_path / "out" / "fedavg" / "mnist" / f"2025-10-0{day}", {("before", "test"): [10.0 * day]})
    found = fs.read_results(tmp_path / "out").history
    assert found.set_index("seed")["value"].to_dict() == {0: 0.1, 1: 0.2, 2: 0.3}
    with pytest.raises(ValueError, match=r"has no .hydra/config.yaml with common.seed beside it"):
        fs.read_results(tmp_path / "out" / "fedavg" / "mnist" / "2025-10-02" / "metrics.csv")


# --- FLamby: `fill_df_with_xp_results` in flamby/benchmarks/benchmark_utils.py ---


def flamby(path: Path, values, seed: int = 42) -> Path:
    """Write a row for each method and test set; values are {method: {test set: value}}."""
    rows = [
        {"mu": "", "Method": method, "Test": test, "Metric": value, "seed": seed, "learning_rate": 0.01}
        for method, of in values.items()
        for test, value in of.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_flambys_hospitals_are_the_clients_and_its_pooled_test_set_is_none(tmp_path):
    tests = {"client_test_0": 0.9, "client_test_1": 0.5, "Pooled Test": 0.8}
    path = flamby(tmp_path / "results_heart_disease.csv", {"FedAvg100": tests, "Local 0": tests})
    found = fs.read_results(path)
    assert found.clients["name"].tolist() == ["client_test_0", "client_test_1"]
    table = found.history.set_index(["method", "split", "client"])["value"]
    assert table["FedAvg100"].to_dict() == {("test", 0): 0.9, ("test", 1): 0.5, ("common", -1): 0.8}
    assert found.history["metric"].unique().tolist() == ["accuracy"]
    assert reduce_file(path, split="test").clients.tolist() == ["client_test_0", "client_test_1"]
    other = flamby(tmp_path / "mine.csv", {"FedAvg100": tests})
    with pytest.raises(ValueError, match=r"mine.csv does not tell its data set; give metric='accuracy'"):
        fs.read_results(other)
    assert fs.read_results(other, metric="dice").history["metric"].unique().tolist() == ["dice"]
    with pytest.raises(ValueError, match=r"mine.csv has a column for the method"):
        fs.read_results({"A": other}, metric="dice")
    twice = pd.concat([pd.read_csv(path), pd.read_csv(path).assign(learning_rate=0.1)])
    twice.to_csv(path, index=False)
    with pytest.raises(ValueError, match="measures FedAvg100 under seed 42 twice; learning_rate tells the rows apart"):
        fs.read_results(path)
    twice.drop(columns="seed").to_csv(path, index=False)
    with pytest.raises(ValueError, match="must have the columns Method, Test, Metric and seed"):
        fs.read_results(path)


HEART = (
    Path(__file__).parents[3] / ".." / "shared" / "data" / "flamby" / "results" / "results_benchmark_fed_heart_disease"
)


@pytest.mark.skipif(not HEART.is_dir(), reason="FLamby's results are not at hand")
def test_flambys_published_results_are_compared_over_its_four_hospitals():
    values = {}
    for path in HEART.glob("*.csv"):
        for row in csv.DictReader(path.read_text().splitlines()):
            if row["Test"] != "Pooled Test":
                values.setdefault(row["Method"], []).append(float(row["Metric"]))
    assert {len(of) for of in values.values()} == {4 * 5}
    found = fs.compare(HEART, control="FedAvg100")
    assert found.scores.clients == tuple(f"client_test_{k}" for k in range(4))
    means = found.summary["mean"]
    np.testing.assert_allclose(means, [np.mean(values[method]) for method in means.index], rtol=1e-12)


# --- Flower: files that version 1.41 wrote, and the calls of its baselines ---


@pytest.mark.parametrize("name", ["result.json", "results.json"])
def test_flowers_result(name):
    content = json.loads((FLOWER / "result.json").read_text())
    found = fs.read_results({"FedAvg": [FLOWER / name]}).history
    table = found.set_index(["split", "estimand", "metric", "round"])["value"].sort_index()
    for part, split, estimand, metric, own in (
        ("evaluate_metrics_clientapp", "test", "not named", "accuracy", "eval_acc"),
        ("evaluate_metrics_clientapp", "test", "not named", "loss", "eval_loss"),
        ("evaluate_metrics_serverapp", "common", "global", "accuracy", "accuracy"),
        ("train_metrics_clientapp", "train", "not named", "loss", "train_loss"),
    ):
        values = {int(t): of[own] for t, of in content[part].items() if name == "result.json" or t != "0"}
        assert table[split, estimand, metric].to_dict() == values
    with pytest.raises(ValueError, match=r"does not tell its method; give fs.read_results\(\{'FedAvg': "):
        fs.read_results(FLOWER / name)


def test_flowers_history():
    content = json.loads((FLOWER / "history.json").read_text())
    found = fs.read_results({"FedAvg": FLOWER / "history.json", "FedProx": FLOWER / "history.json"}).history
    table = found.set_index(["method", "split", "metric", "round"])["value"].sort_index()
    assert table["FedProx", "common", "accuracy"].to_dict() == dict(content["metrics_centralized"]["accuracy"])
    assert table["FedAvg", "test", "loss"].to_dict() == dict(content["losses_distributed"])


def test_what_a_run_of_flowers_returns_is_read_from_memory():
    strategy, records = pytest.importorskip("flwr.serverapp.strategy"), pytest.importorskip("flwr.app")
    content = json.loads((FLOWER / "result.json").read_text())
    result = strategy.Result()
    for part, of in content.items():
        if part.startswith(("train_", "evaluate_")):
            setattr(result, part, {int(t): records.MetricRecord(own) for t, own in of.items()})
    dumped = fs.read_results({"FedAvg": [FLOWER / "result.json"] * 2, "FedRep": FLOWER / "result.json"})
    read = fs.read_results({"FedAvg": [result, result], "FedRep": result})
    keys = list(dumped.history.columns)
    pd.testing.assert_frame_equal(
        read.history.astype({"metric": str}).sort_values(keys, ignore_index=True),
        dumped.history.astype({"metric": str}).sort_values(keys, ignore_index=True),
    )
    with pytest.raises(
        ValueError, match=r"does not tell its method; give fs.read_results\(\{'FedAvg': \[result, \.\.\.\]"
    ):
        fs.read_results(result)


def test_a_prefix_of_a_name_of_flowers_tells_the_samples(tmp_path):
    of = {"train_acc": 0.9, "val_acc": 0.8, "test_acc": 0.7}
    (tmp_path / "r.json").write_text(json.dumps({"evaluate_metrics_clientapp": {"1": of}}))
    history = fs.read_results({"FedAvg": [tmp_path / "r.json"]}).history
    assert set(history["metric"]) == {"accuracy"}
    assert history.set_index("split")["value"].to_dict() == {"train": 0.9, "validation": 0.8, "test": 0.7}


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_flowers_pickled_history_is_read_as_data(tmp_path, protocol):
    history = pytest.importorskip("flwr.server.history").History()
    for t in range(3):
        history.add_loss_distributed(t, 2.0 - t)
        history.add_metrics_centralized(t, {"accuracy": np.float64(0.1 * t)})
        history.add_metrics_distributed_fit(t, {"train_loss": np.float32(0.5)})
    for content in (history, {"history": history, "epochs": [1, 2]}):  # `save_results_as_pickle` of the baselines
        (tmp_path / "results.pkl").write_bytes(pickle.dumps(content, protocol))
        found = fs.read_results({"FedAvg": [tmp_path / "results.pkl"]}).history
        table = found.set_index(["split", "estimand", "metric", "round"])["value"].sort_index()
        assert table["common", "global", "accuracy"].to_dict() == {0: 0.0, 1: 0.1, 2: 0.2}
        assert table["test", "not named", "loss"].to_dict() == {0: 2.0, 1: 1.0, 2: 0.0}
        assert table["train", "not named", "loss"].to_dict() == dict.fromkeys(range(3), 0.5)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_a_pickle_of_anything_else_is_refused_unread(tmp_path):
    history = pytest.importorskip("flwr.server.history").History()
    history.losses_distributed = [(0, Evil())]
    for content in (Evil(), history, {"history": Evil()}, Path("a"), fs.FedAvg()):
        (tmp_path / "results.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(
            ValueError, match=r"results.pkl may be a pickle, which .* none of Flower's History; write the"
        ):
            fs.read_results({"FedAvg": tmp_path / "results.pkl"})


def test_flowers_baselines_and_tutorial(tmp_path):
    # baselines/floco/floco/server_app.py: `config_json_file`, and `write_res` after every evaluation
    data = {"run_config": {"algorithm": "Floco", "num-server-rounds": 2, "seed": 3}, "round_res": []}
    data["round_res"].append({"centralized_loss": 2.3, "centralized_accuracy": 0.1})
    for t in (1, 2):
        data["round_res"].append({"centralized_loss": 1.0 / t, "centralized_accuracy": 0.3 * t})
        data["round_res"].append({"federated_evaluate_accuracy": 0.2 * t, "federated_evaluate_loss": 2.0})
    with (tmp_path / "result-2026-01-01.json").open("w", encoding="UTF-8") as fout:
        json.dump(data, fout, indent=4)
    found = fs.read_results(tmp_path / "result-2026-01-01.json").history
    assert found[["method", "seed"]].drop_duplicates().to_numpy().tolist() == [["Floco", 3]]
    table = found.set_index(["split", "metric", "round"])["value"].sort_index()
    assert table["common", "accuracy"].to_dict() == {0: 0.1, 1: 0.3, 2: 0.6}
    assert table["test", "accuracy"].to_dict() == {1: 0.2, 2: 0.4}
    # examples/flower-simulation-step-by-step-pytorch: `results_to_save`, written in every round
    saved = {t: {"loss": 2.0, "accuracy": 0.1 * t, "note": "text"} for t in range(3)}
    with (tmp_path / "results.json").open("w") as json_file:
        json.dump(saved, json_file, indent=4)
    own = fs.read_results({"FedAvg": tmp_path / "results.json"}).history
    assert own[own["metric"] == "accuracy"].set_index("round")["value"].to_dict() == {0: 0.0, 1: 0.1, 2: 0.2}
    for content, message in (("[1, 2]", "none of the forms"), ("{}", "no numbers by round"), ("{", "no readable JSON")):
        (tmp_path / "other.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            fs.read_results({"FedAvg": tmp_path / "other.json"})


def test_large_parquet_is_streamed_whatever_its_text_columns_are(tmp_path):
    table = fs.read_results(_written(tmp_path / "a.csv", four_columns(clients=50))).history
    plain = table.astype({name: str for name in ("method", "estimand", "split", "metric")})
    for path, of in ((tmp_path / "coded.parquet", table), (tmp_path / "plain.parquet", plain)):
        of.to_parquet(path, row_group_size=7)
        assert pq.ParquetFile(path).num_row_groups == 43
        np.testing.assert_array_equal(reduce_file(path).values, reduce([table]).values)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    """One small file of each format, as bytes."""
    folder = tmp_path_factory.mktemp("whole")
    _written(folder / "table.csv", four_columns())
    _written(folder / "table.parquet", four_columns())
    pflib_results(folder, "MNIST", "FedAvg", "test", 0, [0.1, 0.2], loss=[1.0, 2.0])
    fl_bench_metrics(folder / "out" / "fedavg" / "mnist" / "2025", {("before", "test"): [10.0, 20.0]})
    shutil.copy(folder / "out" / "fedavg" / "mnist" / "2025" / "metrics.csv", folder)
    shutil.copy(FLOWER / "results.json", folder)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.sampled_from(["table.csv", "table.parquet", "MNIST_FedAvg_test_0.h5", "metrics.csv", "results.json"]),
    place=st.floats(0, 1),
    cut=st.integers(0, 30),
    put=st.binary(max_size=4) | st.sampled_from([b",", b";", b"\n", b'"', b"\0", b"-", b"[", b"{", b"e9"]),
)
@example(name="table.parquet", place=0.5, cut=10**9, put=b"")
@example(name="MNIST_FedAvg_test_0.h5", place=0.5, cut=10**9, put=b"")
def test_damaged_files_are_read_or_refused_by_name(whole, tmp_path, name, place, cut, put):
    at = round(place * len(whole[name]))
    (tmp_path / name).write_bytes(whole[name][:at] + put + whole[name][at + cut :])
    labelled = name in ("metrics.csv", "results.json")
    for reader in (fs.read_results, reduce_file):
        message = name
        try:
            reader({"FedAvg": tmp_path / name} if labelled else tmp_path / name)
        except ValueError as error:
            message = str(error)
        assert name in message


def test_methods_measured_on_different_data_sets_are_not_compared(tmp_path):
    def table(method, setting):
        rows = [(method, seed, setting, 0.5 + 0.01 * seed) for seed in range(3)]
        return pd.DataFrame(rows, columns=["method", "seed", "setting", "accuracy"])

    both = pd.concat([table("A", "cifar10"), table("B", "mnist")])
    both.to_csv(tmp_path / "both.csv", index=False)
    apart = {"a": fs.read_results(table("A", "cifar10")), "b": fs.read_results(table("B", "mnist"))}
    for results in (both, tmp_path / "both.csv", apart):
        with pytest.raises(ValueError, match=r"several data sets or settings .*cifar10.*mnist"):
            fs.compare(results)
    assert fs.compare(pd.concat([table("A", "mnist"), table("B", "mnist")])).scores.methods == ("A", "B")


def test_json_of_another_form_is_refused_in_words(tmp_path):
    (tmp_path / "array.jsonl").write_text('[{"method": "A", "seed": 0, "accuracy": 0.5}]')
    with pytest.raises(ValueError, match="line 1, must hold an object"):
        fs.compare(tmp_path / "array.jsonl")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="no readable JSON"):
        fs.read_results({"A": [tmp_path / "deep.json"]})
