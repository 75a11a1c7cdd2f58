"""The report of anybody's runs, on paper and for browsers, from whole runs and from bare tables."""

import re
from datetime import date
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pymupdf
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.experiment import read, run
from fedstat.experiment.build import set_up
from fedstat.experiment.parsing import parse
from fedstat.experiment.run import carry_out
from fedstat.inference import compare
from fedstat.inference.reading.joining import with_bytes
from fedstat.report.runs import report_runs
from fedstat.report.sources import read_source, traffic_of
from tests.support.comparisons import scores
from tests.support.experiments import changed, images, own

pytestmark = pytest.mark.slow

#: Margins of a page in points, and what rounding and accents may take.
MARGIN, TOLERANCE = 68.0, 2.5
RAW = re.compile(
    r"#\w+[.(]|\*\*|\bNone\b(?! of)|\bnan\b|\bNaN\b|array\(|np\.|<[a-z_.]+ object|\\u|\d\.\d{10,}|\{|\bTrue\b"
)
DAY = date(2026, 1, 2)
NASTY = "Ditto & $x$ #set [1] *λ* of a_very_long_label_without_any_space_in_it_that_must_break_somewhere"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of `fedstat run` in it, one of `Result.save`, and two tables."""
    place = tmp_path_factory.mktemp("runs")
    (place / "digits.toml").write_text(
        'seed = [0, 1, 2]\nrounds = 4\nparticipation = 0.5\n[data]\nname = "digits"\n[partition]\nkind = "dirichlet"\n'
        'clients = 8\nalpha = 0.5\ntest = 0.3\n[model]\nname = "mlp"\nwidths = [8]\n[method.FedAvg]\n[method.Local]\n'
        "[training]\nlr = 0.1\nbatch_size = 20\nlocal_epochs = 1\n"
    )
    run(read(place / "digits.toml"), place / "digits", progress=False)
    result = fs.federate(
        {"FedAvg": fs.FedAvg(), NASTY: fs.Local()},
        fs.models.mlp(5, 4, 1),
        lambda seed: fs.data.relu_mixture(clients=6, d=5, units=4, samples=20, test=40, seed=seed),
        fs.Training(lr=0.05),
        rounds=3,
        seed=range(2),
        progress=False,
    )
    result.save(place / "saved")
    rng = np.random.default_rng(0)
    rows = [
        (f"method {i} with quite_a_long_name, lr={i}", seed, client, 0.5 + 0.01 * i + rng.normal(0, 0.02))
        for i in range(30)
        for seed in range(5)
        for client in range(4)
    ]
    pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"]).to_csv(place / "many.csv", index=False)
    two = [(m, s, 0.5 + 0.1 * (m == "B") + rng.normal(0, 0.01)) for m in "AB" for s in range(4)]
    pd.DataFrame(two, columns=["method", "seed", "accuracy"]).to_csv(place / "two.csv", index=False)
    return place


def pages(path):
    """Check that words and shapes of a PDF lie within its margins and hold no markup; return the words."""
    shown = []
    with pymupdf.open(path) as document:
        for number, page in enumerate(document, 1):
            words, width = page.get_text(), page.rect.width
            assert "\ufffd" not in words, f"page {number}: a glyph is missing"
            for left, _, right, _, what in [word[:5] for word in page.get_text("words")]:
                inside = left >= MARGIN - TOLERANCE and right <= width - MARGIN + TOLERANCE
                assert inside, f"page {number}: {what!r} is in the margin"
            shown.append(words)
    return plain("\n".join(shown))


def plain(words):
    return " ".join(words.replace("\u200b", "").split())


class Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.images, self.style = [], [], False

    def handle_starttag(self, tag, attributes):
        self.style = tag == "style"
        values = dict(attributes)
        self.images += [values["src"]] if tag == "img" else []
        assert tag not in ("script", "link")

    def handle_endtag(self, tag):
        self.style = False

    def handle_data(self, words):
        self.words += [] if self.style else [words]


def test_a_run_is_told_from_its_conclusions_to_its_hashes(folder, tmp_path):
    target = tmp_path / "paper.pdf"
    comparison = report_runs([folder / "digits"], target, margin=0.02, title="Digits & more", day=DAY)
    words = pages(target)
    toml = plain((folder / "digits" / "experiment.toml").read_text())
    assert not (raw := RAW.search(words.replace(toml, ""))), raw[0]
    squeezed = words.replace(" ", "")
    for sentence in [*comparison.conclusions, comparison.generalises, *comparison.notes]:
        assert plain(sentence).replace(" ", "")[:60] in squeezed.replace("-\n", ""), sentence
    order = ["Digits & more", "What may be concluded", "Setting", "Who holds what", "Curves", "Comparison", "Clients",
             "Traffic", "Versions, and how to reproduce", "What is not in this report"]  # fmt: skip
    at = -1
    for title in order:
        at = words.find(title, at + 1)
        assert at >= 0, title
    assert "at each client. What lies within the noise may be nothing." in words
    config = fs.load(folder / "digits" / "run").config
    assert all(prints["train"] in words for prints in config["fingerprint"].values())
    assert "fedstatreport" in squeezed
    assert "--margin0.02" in squeezed
    assert "Dirichlet".lower() in words
    mean = comparison.summary.loc["Local", "mean"]
    assert f"{100 * mean:.1f}"[:4] in words
    with pymupdf.open(target) as document:
        assert document.metadata["title"] == "Digits & more"
        assert sum(len(page.get_drawings()) for page in document) > 100


def test_the_same_runs_give_the_same_bytes(folder, tmp_path):
    for form in ("pdf", "html"):
        written = []
        for _ in range(2):
            report_runs([folder / "saved"], tmp_path / f"report.{form}", day=DAY)
            written.append((tmp_path / f"report.{form}").read_bytes())
        assert written[0] == written[1]


def test_the_web_page_says_the_same(folder, tmp_path):
    target = tmp_path / "paper.html"
    comparison = report_runs([folder / "saved"], target, day=DAY)
    page = Words()
    page.feed(target.read_text())
    words = plain(" ".join(page.words))
    assert not (raw := RAW.search(words)), raw[0]
    assert plain(NASTY) in words
    assert plain(comparison.generalises) in words
    assert len(page.images) == 4
    assert all(image.startswith("data:image/svg+xml;base64,") for image in page.images)


@pytest.mark.parametrize("share", [0.06, 1e-6])
def test_seeds_in_which_nobody_took_part_count_in_the_traffic(tmp_path, share):
    attendance = {"name": "poisson", "share": share}
    dealt = {"kind": "iid", "clients": 4}
    of = parse(
        changed(seed=[*range(6)], rounds=2, participation=attendance, partition=dealt, model__widths=[2000]), tmp_path
    )
    with pytest.warns(RuntimeWarning, match="rounds had no participant"):
        result, summary = carry_out(set_up(of), tmp_path / "out")
    sent = result.traffic[["bytes_up", "bytes_down"]].sum() / 6e6
    assert (len(result.traffic) > 0) == (share == 0.06)
    assert summary.beside.loc["FedAvg", "megabytes"] == pytest.approx(sent.sum())
    rows = traffic_of([read_source(tmp_path / "out")])
    assert rows[0][:3] == ["FedAvg", *(f"{mean:.2f}" for mean in sent)]


@pytest.mark.parametrize("attack", [None, fs.attacks.SignFlip(0.2)])
def test_the_paragraphs_to_paste_tell_of_noise_of_attackers_and_of_who_took_part(tmp_path, attack):
    pytest.importorskip("dp_accounting")
    fs.federate(
        fs.FedAvg(weighting="uniform", mechanism=fs.mechanisms.Gaussian(clip=1.0, noise=2.0)),
        fs.models.mlp(5, 4, 1),
        fs.data.relu_mixture(clients=6, d=5, units=4, samples=20, test=40, seed=0),
        fs.Training(lr=0.05),
        rounds=3,
        participation=0.5,
        attack=attack,
        folder=tmp_path / "run",
        progress=False,
    )
    report_runs([tmp_path / "run"], tmp_path / "paper.html", day=DAY)
    page = Words()
    page.feed((tmp_path / "paper.html").read_text())
    words = plain(" ".join(page.words))
    assert "for 3 rounds, each with 50% of the clients, under 1 seed, with fedstat" in words
    account = r"FedAvg: epsilon \d.* at delta .*3 of 6 clients" if attack is None else "FedAvg: epsilon is not known"
    assert re.search(f"What travels can tell of samples: {account}", words)
    assert "no noise was added" not in words
    assert words.count("1 of 6 clients attacks by SignFlip") == (0 if attack is None else 3)  # note, setting, paragraph


@pytest.mark.parametrize("table", ["many.csv", "two.csv"])
def test_a_bare_table_has_fewer_sections_and_the_report_says_which(folder, tmp_path, table):
    target = tmp_path / "table.pdf"
    comparison = report_runs([folder / table], target, day=DAY)
    words = pages(target)
    assert not (raw := RAW.search(words)), raw[0]
    assert "nothing of how these came about" in words
    assert "Traffic: the bytes that travelled are not known." in words
    assert "Curves: they need values after two rounds." in words
    assert ("Clients: what each of them gains" in words) == (table == "two.csv")
    squeezed = words.replace(" ", "")
    assert len(comparison.scores.methods) == (30 if table == "many.csv" else 2)
    for label in comparison.scores.methods:
        assert label.replace(" ", "") in squeezed


def test_several_runs_stand_in_one_report(folder, tmp_path):
    result = fs.load(folder / "saved")
    tables = []
    for i, label in enumerate(("FedAvg", NASTY)):
        one = result.history[result.history["method"] == label].astype({"method": str})
        one.to_csv(tmp_path / f"{i}.csv", index=False)
        tables.append(tmp_path / f"{i}.csv")
    report_runs(tables, tmp_path / "both.pdf", control=None, day=DAY)
    words = pages(tmp_path / "both.pdf").replace(" ", "")
    assert "0.csvand" in words
    assert "1.csv,byfedstat" in words
    assert "--all-pairs" in words


@pytest.mark.parametrize("methods", [10, 11])
def test_no_caption_of_a_table_is_left_at_the_foot_of_a_page(tmp_path, methods):
    rng = np.random.default_rng(0)
    rows = [
        (f"method {i} with a name", seed, client, 0.5 + 0.01 * i + rng.normal(0, 0.02))
        for i in range(methods)
        for seed in range(4)
        for client in range(3)
    ]
    pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"]).to_csv(tmp_path / "m.csv", index=False)
    report_runs([tmp_path / "m.csv"], tmp_path / "a.pdf", title="Ten", day=DAY)
    with pymupdf.open(tmp_path / "a.pdf") as document:
        for page in document:
            last = [block[4] for block in page.get_text("blocks") if block[1] < page.rect.height - MARGIN][-1]
            assert not last.startswith("Table"), last


def of_three_clients(clients):
    return fs.federate(
        {"FedAvg": fs.FedAvg(), "Local": fs.Local()},
        fs.models.mlp(5, 4, 1),
        clients,
        fs.Training(lr=0.05),
        rounds=3,
        seed=range(3),
        progress=False,
        predictions=True,
    )


def test_clients_that_each_seed_draws_anew_are_not_named_in_a_report(tmp_path):
    mixture = {"clients": 3, "d": 5, "units": 4, "samples": 20, "test": 80}
    of_three_clients(lambda seed: fs.data.relu_mixture(**mixture, seed=seed)).save(tmp_path / "run")
    report_runs([tmp_path / "run"], tmp_path / "report.html", control="Local", day=DAY)
    words = (tmp_path / "report.html").read_text()
    assert "on clients and patients drawn anew (3 training runs)" in words
    for names in ("against Local by client", "at each client, on the same patients", "Which clients are shown"):
        assert names not in words


def test_a_run_that_keeps_predictions_is_assessed_at_each_client_by_name(tmp_path):
    result = of_three_clients(fs.data.relu_mixture(clients=3, d=5, units=4, samples=20, test=80, seed=0))
    result.save(tmp_path / "run")
    report_runs([tmp_path / "run"], tmp_path / "report.pdf", control="Local", day=DAY)
    words = pages(tmp_path / "report.pdf")
    assert not (raw := RAW.search(words)), raw[0]
    found = fs.assess(tmp_path / "run", control="Local")
    pd.testing.assert_frame_equal(found.pooled, fs.assess(result, control="Local").pooled)
    order = ["What may be concluded", "Of what the final models predict", "Of accuracy over training runs",
             "Predictions, sample by sample", "AUC (more is better) at each", "Calibration slope (neither",
             "Differences to Local at each client", "Share of events over", "Net benefit over", "Setting",
             "Comparison", "Inequality over clients", "Traffic"]  # fmt: skip
    places = [words.find(title) for title in order]
    assert places[0] > 0
    assert places == sorted(places)
    squeezed = words[: places[2]].replace(" ", "").lower()
    for sentence in found.conclusions:
        assert plain(sentence).replace(" ", "")[:60].lower() in squeezed, sentence
    assert (
        "3 clients hold 60 training samples. FedAvg and Local were trained for 3 rounds under each of 3 seeds" in words
    )
    assert "but under Local nothing travelled" in words
    assert "The network is MLP(5, 4, 1), the learning rate 0.05." in words
    assert "Methods are compared by the accuracy of each client's" in words
    assert "Of what the final models predict for each patient, AUC, Brier score, accuracy" in words
    assert "?." not in words
    assert "A client is said to lose or gain" not in words  # of shares alone; predictions tell it here


def test_rounds_of_runs_that_stop_early_are_those_asked_for_at_most(tmp_path):
    result = fs.federate(
        fs.FedAvg(), fs.models.mlp(5, 4, 1), fs.data.relu_mixture(clients=3, d=5, units=4, samples=20, test=20, seed=0),
        fs.Training(lr=50.0), rounds=40, seed=range(2), validate=True, progress=False,
        stop=fs.Patience("log_loss", rounds=2),
    )  # fmt: skip
    assert result.config["rounds"] < 40
    result.save(tmp_path / "run")
    report_runs([tmp_path / "run"], tmp_path / "report.pdf", day=DAY)
    words = pages(tmp_path / "report.pdf")
    assert "was trained for up to 40 rounds under each of 2 seeds, each run until its patience ended, with" in words
    assert "up to 40" in words[words.find("Setting") :]


def test_a_run_that_tests_nobody_with_the_event_is_reported_without_curves(tmp_path):
    y = np.where(np.arange(60) % 20, "well", "ill")  # one at each client, who trains
    clients = fs.data.from_arrays(
        np.random.default_rng(0).normal(size=(60, 5)), y, np.arange(60) // 20, test=0.3, stratify=True
    )
    result = fs.federate(
        [fs.FedAvg(), fs.Local()], fs.models.mlp(5, 4, 2), clients, fs.Training(lr=0.05), rounds=2, seed=range(2),
        predictions=True, progress=False,
    )  # fmt: skip
    result.save(tmp_path / "run")
    report_runs([tmp_path / "run"], tmp_path / "report.html", event="ill", day=DAY)
    page = Words()
    page.feed((tmp_path / "report.html").read_text())
    words = plain(" ".join(page.words))
    assert "decision curves: a picture needs patients with and without the event, got 0 events of 18." in words
    assert "The event is 'ill', of the classes 'ill' and 'well'." in words
    assert "report.html --event ill" in words


def test_predictions_that_cannot_be_assessed_are_listed_among_what_is_left_out(tmp_path):
    images(tmp_path)
    dealt = {"kind": "dirichlet", "clients": 3, "alpha": 1.0, "test": "own classes"}
    run(own(tmp_path, partition=dealt, seed=[0, 1], evaluation={"predictions": True}), tmp_path / "out", progress=False)
    with pytest.raises(ValueError, match="deals the same test samples to other clients") as refused:
        fs.assess(tmp_path / "out")
    report_runs([tmp_path / "out"], tmp_path / "a.html", day=DAY)
    page = Words()
    page.feed((tmp_path / "a.html").read_text())
    words = plain(" ".join(page.words))
    assert f"Predictions sample by sample: {refused.value}" in words[words.find("What is not in this report") :]
    assert "of one run that keeps them" not in words
    with pytest.raises(ValueError, match="deals the same test samples"):
        report_runs([tmp_path / "out"], tmp_path / "b.html", event="1", day=DAY)


def test_a_paragraph_tells_what_hospitals_hold_out_and_share_and_clients_are_named(tmp_path):
    rng = np.random.default_rng(0)
    name, x, red = np.repeat(["Graz", "Lyon", "Ulm"], 120), rng.normal(size=360), rng.random(360) < 0.5
    y = (x + 3 * (red & (name == "Ulm")) > 0).astype(int)
    pd.DataFrame({"client": name, "x": x, "word": np.where(red, "red", "blue"), "y": y}).to_csv(
        tmp_path / "all.csv", index=False
    )
    (tmp_path / "e.toml").write_text(
        'seed = [0, 1]\nrounds = 2\n[data]\nfile = "all.csv"\nclient = "client"\ntarget = "y"\nprepare = "standard"\n'
        "[partition]\nkind = "
        '"group"\ntest = 0.3\nvalidation = 0.1\n[model]\nname = "mlp"\nwidths = [4]\n[method.Local]\n[method.FedAvg]\n'
        "[training]\nlr = 0.1\n"
    )
    run(read(tmp_path / "e.toml"), tmp_path / "out", progress=False)
    report_runs([tmp_path / "out"], tmp_path / "a.pdf", control="Local", day=DAY)
    words = pages(tmp_path / "a.pdf")
    held = "30% are held out for testing and 10% are held out for validation, of each class in proportion, anew under"
    assert held in words
    assert "and the words of text columns if there are any, were shared before" in words
    assert "Against Local: " in words
    assert words.count("where its probability is at least 0.95, each client by itself") == 1
    assert all(name in words[words.find("Comparison") :] for name in ("Graz", "Lyon", "Ulm"))


def test_a_report_on_numbers_speaks_of_no_classes(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"client": np.repeat(["Graz", "Ulm"], 40), "x": rng.normal(size=80), "y": rng.normal(size=80)}
    pd.DataFrame(columns).to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "e.toml").write_text(
        'seed = [0, 1]\nrounds = 2\n[data]\nfile = "all.csv"\nclient = "client"\ntarget = "y"\n[partition]\n'
        'kind = "group"\ntest = 0.3\n[model]\nname = "mlp"\nwidths = [4]\n[method.Local]\n[method.FedAvg]\n'
        "[training]\nlr = 0.1\n"
    )
    run(read(tmp_path / "e.toml"), tmp_path / "out", progress=False)
    report_runs([tmp_path / "out"], tmp_path / "a.html", day=DAY)
    page = Words()
    page.feed((tmp_path / "a.html").read_text())
    words = plain(" ".join(page.words))
    assert "30% are held out for testing, anew under each seed." in words
    assert "only folders of fedstat run hold one, if outcomes are classes." in words
    assert "What lies within the noise" not in words  # which is known of accuracies


def test_what_cannot_be_reported_is_refused_in_a_sentence(folder, tmp_path):
    def refusal(*arguments):
        outcome = CliRunner().invoke(app, ["report", *map(str, arguments)])
        assert outcome.exit_code == 1
        assert outcome.output.startswith("error: ")
        assert "Traceback" not in outcome.output
        return plain(outcome.output)

    pdf = tmp_path / "a.pdf"
    assert "does not exist" in refusal(tmp_path / "nowhere", "--out", pdf)
    (tmp_path / "empty").mkdir()
    assert "holds no results that can be read" in refusal(tmp_path / "empty", "--out", pdf)
    assert "must end in .pdf or .html" in refusal(folder / "saved", "--out", tmp_path / "a.docx")
    assert "there is no folder" in refusal(folder / "saved", "--out", tmp_path / "no" / "a.pdf")
    (tmp_path / "b.pdf").mkdir()
    assert "is a folder; name a file" in refusal(folder / "saved", "--out", tmp_path / "b.pdf")
    assert "cannot be compared" in refusal(folder / "saved", folder / "digits", "--out", pdf)
    assert "control must be one of" in refusal(folder / "saved", "--out", pdf, "--control", "Nobody")
    assert "exclude each other" in refusal(folder / "saved", "--out", pdf, "--control", "FedAvg", "--all-pairs")
    assert "--event must be left out unless" in refusal(folder / "saved", "--out", pdf, "--event", "1")
    assert "margin must" in refusal(folder / "saved", "--out", pdf, "--margin", "-1")
    damaged = tmp_path / "damaged"
    fs.load(folder / "saved").save(damaged)
    (damaged / "traffic/00000.parquet").write_bytes(b"x")
    assert "is damaged" in refusal(damaged, "--out", pdf)
    assert not pdf.exists()


def test_the_command_writes_the_report_and_prints_the_conclusions(folder, tmp_path):
    outcome = CliRunner().invoke(app, ["report", str(folder / "two.csv"), "--out", str(tmp_path / "a.html")])
    assert outcome.exit_code == 0, outcome.output
    expected = compare(str(folder / "two.csv")).conclusions
    assert outcome.output.splitlines()[: len(expected)] == list(expected)
    assert (tmp_path / "a.html").exists()


def test_bytes_add_up_round_by_round():
    rng = np.random.default_rng(0)
    of = scores(["A", "B", "C"], seeds=2, rounds=4)
    rows = [(m, s, r, c, *rng.integers(1, 9, 2)) for m in "AB" for s in (0, 1) for r in range(5) for c in range(3)]
    table = pd.DataFrame(rows, columns=["method", "seed", "round", "client", "bytes_up", "bytes_down"])
    spent = with_bytes(of, [table.sample(frac=1, random_state=0)]).spent
    for m, s, t in np.ndindex(2, 2, 4):
        until = table[(table["method"] == "AB"[m]) & (table["seed"] == s) & (table["round"] <= of.rounds[t])]
        assert spent[m, s, t] == (until["bytes_up"] + until["bytes_down"]).sum()
    assert np.isnan(spent[2]).all()
    rare = table[(table["method"] == "B") | (table["seed"] == 1)]  # nobody took part under A's seed 0
    np.testing.assert_array_equal(with_bytes(of, [rare]).spent[:2], np.where([[[1], [0]], [[0], [0]]], 0, spent[:2]))
    assert np.isnan(with_bytes(of, [rare, None]).spent[0, 0]).all()  # another table may not tell
