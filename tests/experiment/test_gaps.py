"""What a table lacks is told: at clients that train, and at a site that comes later without an event."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.experiment.build import set_up
from fedstat.experiment.gaps import gaps
from fedstat.experiment.parsing import parse
from fedstat.inference.reading.formats.fedstat import NEW_CLIENTS
from fedstat.report.runs import report_runs
from tests.support.experiments import changed

TOWNS = ["Aachen", "Bonn", "Celle", "Dessau"]
LATER = "Bonn"
FILE = """
rounds = 2
seed = [0, 1]

[data]
file = "t.csv"
client = "site"
target = "died"
prepare = "standard"

[partition]
kind = "group"
test = 0.3
new_clients = NEW

[model]
name = "mlp"
widths = [4]

[method.FedAvg]
[method.Local]

[training]
lr = 0.1
"""


def patients(folder):
    """A table of four towns; the one that comes later has no event, a word of its own, and lacks a measurement."""
    rng = np.random.default_rng(0)
    site = np.repeat(TOWNS, 40)
    new = site == LATER
    table = pd.DataFrame(
        {
            "site": site,
            "age": rng.normal(60, 9, 160).round(),
            "lactate": np.where(new, np.nan, rng.normal(2, 1, 160)),
            "stage": np.where(np.arange(160) % 8 == 0, None, np.where(new, "IV", rng.choice(["I", "II"], 160))),
            "died": np.where(~new & (np.arange(160) % 5 == 0), "yes", "no"),
        }
    )
    table.loc[3::20, "age"] = np.nan
    table.to_csv(folder / "t.csv", index=False)
    return table


@pytest.mark.filterwarnings("error")
def test_gaps_unknown_words_and_a_new_site_without_events_are_told(tmp_path):
    table, later = patients(tmp_path), LATER
    data = {"file": "t.csv", "client": "site", "target": "died", "prepare": "standard"}
    partition = {"kind": "group", "test": 0.3, "new_clients": [LATER]}
    experiment = parse(changed(data=data, partition=partition, method={"FedAvg": {}, "Local": {}}), tmp_path)
    fs.experiment.run(experiment, tmp_path / "out", progress=False)
    found = pd.read_csv(tmp_path / "out/gaps.csv", keep_default_na=False)
    due = table.drop(columns=["site", "died"]).isna().groupby(table["site"]).sum().stack()
    counts = found.set_index(["client", "column"])["missing"].astype(int)
    pd.testing.assert_series_equal(
        counts[counts > 0].sort_index(), due[due > 0].sort_index(), check_names=False, check_dtype=False
    )
    assert found.loc[found["unknown words"] != "", ["client", "column", "unknown words"]].to_numpy().tolist() == [
        [later, "stage", "IV"]
    ]
    said = (tmp_path / "out/gaps.txt").read_text()
    assert "the median of all clients' training samples: age 8 of 160, lactate 40 of 160" in said
    assert "(none), a word like any other: stage 20 of 160" in said
    assert f"Never measured: lactate at {later}." in said
    assert f'none of the others: stage "IV" at {later}.' in said
    assert f'All samples are of one class at {later} ("no")' in said
    assert "dealt anew" not in said
    offered = pd.read_csv(tmp_path / "out/new-clients.csv")
    assert set(offered["name"]) == {later}
    assert np.isfinite(offered["value"]).all()
    assert (offered.loc[offered["metric"] == "majority_share", "value"] == 1).all()
    setup = set_up(experiment)
    filled = setup.unseen[0].train.x[:, -1]  # lactate, as if of the median patient of those who train
    trained = setup.clients[0].train
    assert len(np.unique(filled)) == 1
    np.testing.assert_allclose(filled[0], np.median(trained.x[:, -1]), atol=1e-6)
    report_runs([tmp_path / "out"], tmp_path / "out.html")
    assert f"Never measured: lactate at {later}." in (tmp_path / "out.html").read_text()


def test_clients_that_are_dealt_anew_are_said_to_be_those_of_the_first_seed(tmp_path):
    patients(tmp_path)
    words = "Clients are dealt anew under each seed: clients that are named, and values that are counted, are those of "
    counted = {}
    for seeds in ([3, 4], [3], [4]):
        data = {"file": "t.csv", "client": "site", "target": "died", "prepare": "standard"}
        partition = {"kind": "dirichlet", "clients": 4, "alpha": 1.0, "test": 0.3}
        experiment = parse(changed(data=data, partition=partition, method={"FedAvg": {}}, seed=seeds), tmp_path)
        found, said = gaps(set_up(experiment))
        assert (said[0] == f"{words}seed 3.") == (len(seeds) == 2)
        counted[tuple(seeds)] = found.set_index(["client", "column"])["missing"].to_dict()
    assert counted[3, 4] == counted[3,]
    assert counted[3,] != counted[4,]


def test_a_new_site_is_named_in_the_file_and_is_the_same_under_every_seed(tmp_path):
    patients(tmp_path)
    done = run(tmp_path, f'["{LATER}"]')
    assert done.exit_code == 0, done.output
    assert f"Never measured: lactate at {LATER}." in " ".join(done.output.split())
    offered, trained = (pd.read_csv(tmp_path / "out" / name) for name in ("new-clients.csv", "clients.csv"))
    assert set(zip(offered["seed"], offered["name"], strict=True)) == {(0, LATER), (1, LATER)}
    assert set(trained["name"]) == set(TOWNS) - {LATER}
    assert fs.experiment.read(tmp_path / "out" / "experiment.toml").partition.new_clients == (LATER,)


@pytest.mark.parametrize("kind", ["group", "iid"])
def test_predictions_are_assessed_where_each_seed_keeps_other_clients_from_training(tmp_path, kind):
    patients(tmp_path)
    data = {"file": "t.csv", "client": "site", "target": "died", "prepare": "standard"}
    dealt = {"kind": kind, "test": 0.3, "new_clients": 0.25} | ({"clients": 4} if kind == "iid" else {})
    how = {"seed": [0, 1, 2], "evaluation": {"predictions": True, "last": 1}, "method": {"FedAvg": {}, "Local": {}}}
    fs.experiment.run(parse(changed(data=data, partition=dealt, **how), tmp_path), tmp_path / "out", progress=False)
    measured = pd.read_csv(tmp_path / "out/clients.csv", dtype={"name": str})
    assert (measured.groupby("client")["name"].nunique() > 1).any()
    found = fs.assess(tmp_path / "out", "accuracy")
    by = "name" if kind == "group" else "client"  # clients without names of their own are others under each seed
    mean = measured.groupby(["method", by])["accuracy"].mean().to_dict()
    assert found.clients.set_index(["method", by])["estimate"].to_dict() == pytest.approx(mean)
    assert ("on clients and patients drawn anew" in found.conclusions[-1]) == (kind == "iid")
    assert ("others, one of each seed" in " ".join(found.notes)) == (kind == "iid")
    later = fs.assess(tmp_path / "out", "accuracy", new_clients=True)
    assert set(later.clients["name"]) == set(pd.read_csv(tmp_path / "out/new-clients.csv", dtype=str)["name"])


@pytest.mark.filterwarnings("ignore:kappa = 0.5 asks for more factors")
@pytest.mark.parametrize("new", [f'["{LATER}"]', "0.25"])  # a share is of other sites under other seeds
def test_predictions_for_new_sites_are_assessed_by_name(tmp_path, new):
    patients(tmp_path)
    both = 'method={FedAvg = {}, Local = {}, FedFac = {layers = ["hidden"], kappa = 0.5}}'  # FedFac offers two models
    done = run(tmp_path, new, "--set", "evaluation.predictions=true", "--set", both)
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    offered = pd.read_csv(out / "new-clients.csv")
    found = fs.assess(out, "accuracy", new_clients=True)
    assert set(found.clients["name"]) == set(offered["name"])
    assert any("also Local's, had one round of training" in note for note in found.notes)
    offered = offered[(offered["method"] != "FedFac") | (offered["estimand"] == "personal")]
    mean = offered.query("metric == 'accuracy'").groupby(["method", "name"])["value"].mean()
    clients = found.clients.set_index(["method", "name"])["estimate"]
    pd.testing.assert_series_equal(clients.sort_index(), mean.sort_index(), check_names=False, rtol=1e-6)
    report_runs([out], tmp_path / "out.html")
    assert "New clients, which took no part in training" in (tmp_path / "out.html").read_text()
    with pytest.raises(ValueError, match="new_clients is of folders of fedstat run"):
        fs.assess(pd.read_parquet(out / NEW_CLIENTS), new_clients=True)
    whole = (out / NEW_CLIENTS).read_bytes()
    (out / NEW_CLIENTS).write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    damaged = "is damaged: it is not the file that new-clients.json lists"
    with pytest.raises(ValueError, match=f"{NEW_CLIENTS} {damaged}"):
        fs.assess(out, "accuracy", new_clients=True)
    report_runs([out], tmp_path / "out.html")
    assert damaged in (tmp_path / "out.html").read_text()
    done = run(tmp_path, new, "--set", "evaluation.predictions=true", "--set", both, "--resume")
    assert done.exit_code == 0, done.output
    assert (out / NEW_CLIENTS).read_bytes() == whole
    done = run(tmp_path, new, "--set", "rounds=3", "--set", both, "--resume")
    assert done.exit_code == 0, done.output
    with pytest.raises(ValueError, match="keeps no predictions for new clients; ask for them before a run, by pred"):
        fs.assess(out, new_clients=True)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ('["Basel", "Bonn"]', "new_clients names 'Basel', but the clients are Aachen, Bonn, Celle, Dessau."),
        (str(TOWNS), "leaves none of 4 clients to train."),
        ("[]", "partition.new_clients must "),
        ('"Bonn"', "partition.new_clients must "),
        ("1.5", "partition.new_clients must "),
        ("[3]", "partition.new_clients must "),
    ],
)
def test_new_sites_that_cannot_be_are_refused(tmp_path, new, message):
    patients(tmp_path)
    done = run(tmp_path, new)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def run(folder, new, *more):
    (folder / "mine.toml").write_text(FILE.replace("NEW", new))
    return CliRunner().invoke(app, ["run", str(folder / "mine.toml"), "--out", str(folder / "out"), *more])


@pytest.mark.parametrize("prepare", [{"prepare": "standard"}, {}])
def test_groups_that_are_too_small_to_be_clients_are_named(tmp_path, prepare):
    site = [*np.repeat(TOWNS, 20), "Essen", *["Fulda"] * 2]
    table = pd.DataFrame({"client": site, "age": np.arange(83.0), "y": np.arange(83) % 2})
    for least, rows, left in ((2, 80, []), (2, 83, ["Essen"]), (3, 83, ["Essen", "Fulda"])):
        table[:rows].to_csv(tmp_path / "t.csv", index=False)
        partition = {"kind": "group", "test": 0.2, "min_size": least}
        setup = set_up(parse(changed(data={"file": "t.csv", **prepare}, partition=partition), tmp_path))
        assert not {*left} & {*setup.clients[0].names}
        said = [f"Left out, with fewer than min_size = {least} samples: {', '.join(left)}."]
        assert [one for one in gaps(setup)[1] if "Left out" in one] == said * bool(left)
