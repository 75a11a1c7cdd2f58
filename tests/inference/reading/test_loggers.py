"""Results out of loggers, in files as these write them: wandb, TensorBoard, MLflow's file store, JSON lines."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fedstat as fs
from tests.support.reduced import reduce_file

CURVES = {("FedAvg", 0): [0.1, 0.4, 0.5], ("FedAvg", 1): [0.2, 0.3, 0.6], ("FedRep", 0): [0.3, 0.5, 0.7]}


def by_run(found, metric="accuracy", split="test"):
    """Return the values of each run in the order of its rounds, and the rounds."""
    own = found.history[(found.history["metric"] == metric) & (found.history["split"] == split)]
    runs = own.groupby(["method", "seed"], observed=True)
    return {key: of["value"].tolist() for key, of in runs}, own["round"].unique().tolist()


# --- wandb ---


def panel(path, curves, metric="test/acc", step="Step", spread=0.0, name="{0}-seed{1}"):
    """Write what "Export CSV" gives: all cells quoted, three columns a run, and `_step` where the axis is another."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    shown = [metric] if step == "Step" else ["_step", metric]
    columns = [f"{name.format(*run)} - {of}{end}" for run in curves for of in shown for end in ("", "__MIN", "__MAX")]
    writer.writerow([step, *columns])
    for t in range(max(map(len, curves.values()))):
        row = [t]
        for values in curves.values():
            value = values[t] if t < len(values) else ""
            row += [] if len(shown) == 1 else [10 * t] * 3
            row += [value, value - spread if spread else value, value]
        writer.writerow(row)
    path.write_text(out.getvalue())
    return path


@pytest.mark.parametrize("step", ["Step", "round"])
@pytest.mark.parametrize("name", ["{0}-seed{1}", "seed={1}/{0}", "{0} - random_seed {1}"])
def test_a_panel_of_wandb_holds_a_run_in_three_columns(tmp_path, step, name):
    found = fs.read_results(panel(tmp_path / "wandb_export.csv", CURVES, step=step, name=name))
    assert by_run(found) == (CURVES, [0, 1, 2])
    assert set(found.history["metric"]) == {"accuracy"}
    assert not any("mean" in note for note in found.notes)
    np.testing.assert_array_equal(reduce_file(tmp_path).curves[0, 1], CURVES["FedAvg", 1])


def test_a_panel_of_wandb_says_what_it_averaged_and_a_group_is_no_run(tmp_path):
    found = fs.read_results(panel(tmp_path / "a.csv", CURVES, metric="val_loss", spread=0.05))
    assert by_run(found, "loss", "validation")[0] == CURVES
    assert any("several steps as one point" in note for note in found.notes)
    with pytest.raises(
        ValueError, match=r"a.csv holds means over the runs of 'Group: FedAvg-seed0'; turn grouping off"
    ):
        fs.read_results(panel(tmp_path / "a.csv", CURVES, name="Group: {0}-seed{1}"))
    with pytest.raises(ValueError, match=r"has '0.5' in column 'Relative Time', which must hold whole numbers"):
        path = panel(tmp_path / "a.csv", CURVES, step="Relative Time")
        path.write_text(path.read_text().replace('\n"1"', '\n"0.5"'))
        fs.read_results(path)


def test_runs_that_do_not_say_their_method_need_a_label(tmp_path):
    only = {("brisk-sun-12", ""): [0.1, 0.2], ("deep-sea-13", ""): [0.3, 0.4]}
    path = panel(tmp_path / "a.csv", only, name="{0}")
    with pytest.raises(ValueError, match=r"the run's name 'brisk-sun-12' does not tell its method and seed, as"):
        fs.read_results(path)
    assert by_run(fs.read_results({"FedAvg": path}))[0] == {("FedAvg", 0): [0.1, 0.2], ("FedAvg", 1): [0.3, 0.4]}
    with pytest.raises(ValueError, match="does not tell its method and seed"):
        fs.read_results({"FedAvg": [path, path]})  # whose seeds would be counted twice
    one = panel(tmp_path / "b.csv", {("quick-owl-3", ""): [0.9]}, name="{0}")
    assert by_run(fs.read_results({"FedAvg": [one, one]}))[0] == {("FedAvg", 0): [0.9], ("FedAvg", 1): [0.9]}


def history(seed: int) -> list[dict]:
    """Return what `wandb.log` was given in each call: the training loss and the test, one after the other."""
    logged = []
    for t, acc in enumerate(CURVES["FedAvg", seed]):
        logged += [{"round": t, "train/loss": 2.0 - acc, "note": "warm"}, {"round": t, "test/acc": acc}]
    return [{"_step": i, "_runtime": 0.5 * i, "_timestamp": 1.7e9 + i, **row} for i, row in enumerate(logged)]


def test_a_runs_history_out_of_wandb(tmp_path):
    for seed in (0, 1):
        pd.DataFrame(history(seed)).to_csv(tmp_path / f"FedAvg-seed{seed}.csv", index=bool(seed))
    (tmp_path / "lines").mkdir()
    for seed in (0, 1):
        text = "".join(json.dumps(row) + "\n" for row in history(seed))
        (tmp_path / "lines" / f"FedAvg-seed{seed}.jsonl").write_text(text)
    for place in (tmp_path, tmp_path / "lines"):
        found = fs.read_results(place)
        assert by_run(found) == ({key: CURVES[key] for key in (("FedAvg", 0), ("FedAvg", 1))}, [0, 1, 2])
        assert by_run(found, "loss", "train")[0]["FedAvg", 1] == [2.0 - v for v in CURVES["FedAvg", 1]]
        assert {"rounds are the column 'round' of wandb", "columns not read: note"} <= {*found.notes}
    timed = [
        {"_step": t, "round_time": 12 - t, "best_round": 0, "test/background_acc": 0.5, "acc": 0.1 * t} for t in (0, 1)
    ]
    (tmp_path / "y-seed3.jsonl").write_text("\n".join(map(json.dumps, timed)))
    found = fs.read_results(tmp_path / "y-seed3.jsonl")
    assert "rounds are the column '_step' of wandb" in found.notes
    assert by_run(found)[0]["y", 3] == [0.0, 0.1]
    diverged = [{"_step": 0, "test/acc": 0.5}, {"_step": 1, "test/acc": float("nan")}, {"_step": 2, "lr": 0.1}]
    (tmp_path / "x-seed3.jsonl").write_text("\n".join(map(json.dumps, diverged)))
    value = by_run(fs.read_results(tmp_path / "x-seed3.jsonl"))
    np.testing.assert_array_equal(value[0]["x", 3], [0.5, np.nan])  # missing, while a step without it is none


# --- TensorBoard: `scalars_impl` in tensorboard/plugins/scalar/scalars_plugin.py ---


def tensorboard(path, values):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Wall time", "Step", "Value"])
        writer.writerows([(1.7e9 + t, t, value) for t, value in enumerate(values)])
    return path


def test_tensorboards_download(tmp_path):
    for (method, seed), values in CURVES.items():
        tensorboard(tmp_path / f"run-{method}-seed{seed}-tag-test_accuracy.csv", values)
        tensorboard(tmp_path / f"run-{method}-seed{seed}-tag-train_loss (1).csv", [2.0 - v for v in values])
    found = fs.read_results(tmp_path)
    assert by_run(found) == (CURVES, [0, 1, 2])
    assert by_run(found, "loss", "train")[0]["FedRep", 0] == [2.0 - v for v in CURVES["FedRep", 0]]
    own = tensorboard(tmp_path / "scalars.csv", [0.5])
    with pytest.raises(ValueError, match=r"scalars.csv is not named run-RUN-tag-TAG.csv; name it so, or give metric="):
        fs.read_results({"FedAvg": own})
    assert by_run(fs.read_results({"FedAvg": own}, metric="accuracy"))[0] == {("FedAvg", 0): [0.5]}


# --- MLflow: the calls of `log_metric`, `log_param` and `set_tag` in mlflow/store/tracking/file_store.py ---


def mlflow_run(root, number, metrics, params=(), run_name="bold-shark-7", stage="active", status=3):
    folder = root / "497123" / f"{(7919 * number) % 10007:032x}"  # no order of names is that of time
    (folder / "artifacts").mkdir(parents=True)
    (folder / "meta.yaml").write_text(
        f"artifact_uri: file:///x\nend_time: {number + 9}\nexperiment_id: '497123'\nlifecycle_stage: {stage}\n"
        f"run_name: {run_name}\nstart_time: {1700000000000 + number}\nstatus: {status}\nuser_id: me\n"
    )
    entries = {f"params/{name}": str(value) for name, value in dict(params).items()}
    entries["tags/mlflow.runName"] = run_name
    for name, values in metrics.items():
        entries[f"metrics/{name}"] = "".join(f"{1700000000000 + t} {v} {t}\n" for t, v in enumerate(values))
    for name, text in entries.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_mlruns(tmp_path):
    root = tmp_path / "mlruns"
    for number, ((method, seed), values) in enumerate(CURVES.items()):
        losses = [2.0 - v for v in values]
        mlflow_run(root, number, {"test/acc": values, "loss_train": losses}, {"algorithm": method, "seed": seed})
    (root / "497123" / "meta.yaml").write_text("experiment_id: '497123'\nlifecycle_stage: active\nname: mine\n")
    mlflow_run(root, 7, {"test/acc": [9.0]}, stage="deleted")
    (root / ".trash").mkdir()
    for place in (root, root / "497123"):
        found = fs.read_results(place)
        assert by_run(found) == (CURVES, [0, 1, 2])
        assert by_run(found, "loss", "train")[0]["FedAvg", 1] == [2.0 - v for v in CURVES["FedAvg", 1]]
    assert not any("did not finish" in note for note in found.notes)


def test_a_run_of_mlflow_is_known_by_its_parameters_its_name_or_a_label(tmp_path):
    told = mlflow_run(tmp_path / "a", 0, {"accuracy": [0.5]}, {"seed": 4}, "FedAvg", status=5)
    found = fs.read_results(told)
    assert by_run(found)[0] == {("FedAvg", 4): [0.5]}
    assert "run FedAvg-seed4 of MLflow did not finish" in found.notes
    for number, value in enumerate([0.3, 0.1, 0.2]):
        mlflow_run(tmp_path / "b", number, {"accuracy": [value]})
    with pytest.raises(ValueError, match="the run's name 'bold-shark-7' does not tell its method and seed"):
        fs.read_results(tmp_path / "b")
    seeds = {("FedAvg", 0): [0.3], ("FedAvg", 1): [0.1], ("FedAvg", 2): [0.2]}  # in the order of their start
    assert by_run(fs.read_results({"FedAvg": tmp_path / "b"}))[0] == seeds
    (told / "metrics" / "accuracy").write_text("1700000000000 high 0\n")
    with pytest.raises(ValueError, match=r"accuracy is damaged: its lines must be 'timestamp value step'"):
        fs.read_results(told)


# --- JSON lines ---


def test_json_lines_are_a_table(tmp_path):
    rows = [
        {"method": method, "seed": seed, "round": t, "client": f"site {k}", "accuracy": value + k / 100}
        for (method, seed), values in CURVES.items()
        for t, value in enumerate(values)
        for k in range(2)
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    pd.DataFrame(rows).to_csv(tmp_path / "results.csv", index=False)
    pd.DataFrame(rows).to_json(tmp_path / "results.json", orient="records")
    lines, table = fs.read_results(path), fs.read_results(tmp_path / "results.csv")
    pd.testing.assert_frame_equal(lines.history, table.history)
    pd.testing.assert_frame_equal(fs.read_results(tmp_path / "results.json").history, table.history)
    pd.testing.assert_frame_equal(lines.clients, table.clients)
    np.testing.assert_array_equal(reduce_file(path).values, reduce_file(tmp_path / "results.csv").values)
    renamed = [{"algo": row["method"], **{k: v for k, v in row.items() if k != "method"}} for row in rows]
    path.write_text("\n".join(map(json.dumps, renamed)))
    own = fs.read_results(path, columns={"algo": "method"})
    pd.testing.assert_frame_equal(own.history, table.history)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: it has no rows"),
        ('{"method": "A"}\n{"method"', "a.jsonl, line 2, is no JSON"),
        ('{"method": "A"}\n[1]\n', "a.jsonl, line 2, must hold an object"),
        ('{"method": "A", "seed": 0, "accuracy": 0.5}\n{"method": "A", "seed": 1}\n', None),
        ('{"method": "A", "seed": 0, "accuracy": 0.5}\n{"seed": 1, "accuracy": 0.5}\n', "row 1, has no method"),
        ('{"seed": 0, "accuracy": 0.5}\n{"seed": "b", "accuracy": 0.5}\n', "values of several kinds under 'seed'"),
    ],
)
def test_json_lines_that_are_none_are_refused(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    if message is None:  # a value that is not there is missing
        assert np.isnan(fs.read_results(tmp_path / "a.jsonl").history["value"][1])
        return
    with pytest.raises(ValueError, match=message):
        fs.read_results(tmp_path / "a.jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    """One small file of each format, as bytes."""
    folder = tmp_path_factory.mktemp("whole")
    panel(folder / "panel.csv", CURVES)
    tensorboard(folder / "run-A-seed1-tag-acc.csv", [0.1, 0.2])
    pd.DataFrame(history(0)).to_csv(folder / "A-seed0.csv", index=False)
    (folder / "A-seed0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in history(0)))
    (folder / "table.jsonl").write_text('{"method": "A", "seed": 0, "accuracy": 0.5}\n' * 1)
    (folder / "heart.csv").write_text("Test,seed,Method,Metric\nclient_test_0,1,A,0.5\nPooled Test,1,A,0.4\n")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


#: `whole` has them.
FILES = ["panel.csv", "run-A-seed1-tag-acc.csv", "A-seed0.csv", "A-seed0.jsonl", "table.jsonl", "heart.csv"]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.sampled_from(FILES),
    place=st.floats(0, 1),
    cut=st.integers(0, 30),
    put=st.binary(max_size=4) | st.sampled_from([b",", b"\n", b'"', b"\0", b"-", b"[", b"{", b"e9", b"1e999"]),
)
@example(name="panel.csv", place=0.0, cut=10**9, put=b"")
@example(name="A-seed0.jsonl", place=0.0, cut=10**9, put=b"[" * 100_000)
@example(name="table.jsonl", place=0.0, cut=10**9, put=b'{"method": "A", "seed": 1e99, "accuracy": [1]}')
def test_damaged_files_are_read_or_refused_by_name(whole, tmp_path, name, place, cut, put):
    at = round(place * len(whole[name]))
    (tmp_path / name).write_bytes(whole[name][:at] + put + whole[name][at + cut :])
    for reader in (fs.read_results, reduce_file):
        message = name
        try:
            reader(tmp_path / name)
        except ValueError as error:
            message = str(error)
        assert name in message
