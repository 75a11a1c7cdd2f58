"""``fedstat factor`` end to end: what people read, what programs read, what goes wrong."""

import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from statsmodels.stats.correlation_tools import corr_clipped
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.factor import (
    PrincipalAxis,
    bootstrap_loadings,
    compare_numbers,
    contribution_rule,
    factor_parallel_analysis,
    factor_scores,
    fit_tests,
    kaiser_rule,
    minimum_average_partial,
    moments_with_gaps,
    parallel_analysis,
    polychoric,
    reliability,
    target_rotation,
)
from fedstat.factor.diagnostics import bartlett, kmo, root_mean_square_residual
from fedstat.factor.files import units_as_columns
from fedstat.factor.rotation import OBLIQUE, ORTHOGONAL, rotate
from fedstat.factor.table import loading_table
from tests.support.matrices import HARMAN8, HARMAN8_NAMES, HARMAN8_ROWS


@pytest.fixture(scope="module", autouse=True)
def the_same_question_is_answered_once():
    """Let commands on the same table share what takes them longest; what tests ask themselves is computed anew."""

    def once(function):
        kept = {}

        def answer(r, *arguments, **options):
            key = r.tobytes(), arguments, *sorted(options.items())
            if key not in kept:
                kept[key] = function(r, *arguments, **options)
            return kept[key]

        return answer

    with pytest.MonkeyPatch.context() as patch:
        for function in (compare_numbers, factor_parallel_analysis, fit_tests):
            patch.setattr(f"fedstat.factor.{function.__name__}", once(function))
        yield


def factor(*arguments):
    return CliRunner().invoke(app, ["factor", *map(str, arguments)])


def found(*arguments):
    """The JSON object, which stands alone on standard output."""
    done = factor(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=pytest.fail)  # no NaN


@pytest.fixture
def harman(tmp_path):
    path = tmp_path / "harman.csv"
    pd.DataFrame(HARMAN8, HARMAN8_NAMES, HARMAN8_NAMES).to_csv(path)
    return path


@pytest.fixture
def people(tmp_path):
    """Two factors behind six columns, a column that does not vary, and gaps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ rng.uniform(0.4, 1, (2, 6)) * [[1, 1, 1, -1, 1, 1]] + rng.normal(size=(200, 6))
    frame = pd.DataFrame(x, columns=list("abcdef"), index=[f"person {i}" for i in range(200)]).assign(fixed=7.0)
    frame.iloc[[3, 90], 1] = np.nan
    frame.to_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv", frame


def test_a_correlation_matrix(harman):
    done = found(harman, "--correlation", "--observations", HARMAN8_ROWS, "--factors", 2, "--rotate", "oblimin")
    fit = PrincipalAxis(2).fit_correlation(HARMAN8)
    rotation = rotate(fit.loadings_, "oblimin")
    np.testing.assert_array_equal(done["loadings"], fit.loadings_)  # full precision
    np.testing.assert_array_equal(done["communalities"], fit.communalities_)
    np.testing.assert_array_equal(done["rotation"]["loadings"], rotation.loadings)
    np.testing.assert_array_equal(done["rotation"]["correlations"], rotation.correlations)
    rules = [
        contribution_rule(fit.eigenvalues_, 0.85),
        kaiser_rule(fit.eigenvalues_),
        parallel_analysis(fit.eigenvalues_, HARMAN8_ROWS),
        factor_parallel_analysis(fit.correlation_, HARMAN8_ROWS),
        factor_parallel_analysis(fit.correlation_, HARMAN8_ROWS, communalities="one factor"),
        minimum_average_partial(fit.correlation_),
    ]
    assert [(r["rule"], r["n_factors"]) for r in done["rules"]] == [(r.rule, r.n_factors) for r in rules]
    assert done["columns"] == HARMAN8_NAMES
    assert (done["kind"], done["rows"], done["n_factors"]) == ("correlation", HARMAN8_ROWS, 2)
    assert (done["converged"], done["identified"], done["ledermann_bound"]) == (True, True, 4)
    assert done["kmo"]["overall"] == kmo(HARMAN8).overall
    assert done["bartlett"]["statistic"] == bartlett(HARMAN8, HARMAN8_ROWS).statistic
    assert done["likelihood"]["statistic"] == pytest.approx(75.74, abs=0.005)  # R's factanal
    assert done["root_mean_square_residual"] == root_mean_square_residual(HARMAN8, fit.loadings_)
    assert done["notes"] == []

    printed = factor(harman, "--correlation", "--observations", HARMAN8_ROWS, "--factors", 2, "--rotate", "Oblimin")
    assert loading_table(rotation, HARMAN8_NAMES) in printed.stdout
    for line in [*rules, kmo(HARMAN8), bartlett(HARMAN8, HARMAN8_ROWS), fit_tests(HARMAN8, HARMAN8_ROWS, 2)]:
        assert str(line) in printed.stdout
    assert "2 factors: converged" in printed.stdout
    assert printed.stderr == ""


def test_what_needs_the_number_of_rows_is_left_out_without_it(harman):
    done = found(harman, "--correlation")
    assert (done["n_factors"], done["decided_by"]) == (2, "minimum average partial")
    assert not any("parallel analysis" in rule["rule"] for rule in done["rules"])
    assert (done["rows"], done["bartlett"]) == (None, None)
    assert any("need --observations" in note for note in done["notes"])
    few = found(harman, "--correlation", "--observations", 5, "--rotate", "None")
    assert any("no Bartlett's test: 5 observations are too few for 8 columns" in note for note in few["notes"])
    assert (few["kmo"]["overall"], few["bartlett"], few["rotation"]) == (kmo(HARMAN8).overall, None, None)


def test_a_table(people):
    path, frame = people
    refused = factor(path)
    assert refused.exit_code == 1
    assert "line 5, column 'b': no value. 2 of 200 rows" in refused.stderr
    assert refused.stderr.startswith("error: ")
    assert refused.stdout == ""

    done = found(path, "--missing", "listwise", "--factors", 2)
    complete = frame.dropna()
    fit = PrincipalAxis(2).fit(complete.to_numpy())
    np.testing.assert_allclose(done["loadings"], fit.loadings_, atol=1e-12)
    assert (done["kind"], done["rows"], done["rows_left_out"], done["constant"]) == ("table", 198, 2, ["fixed"])
    assert done["bartlett"]["statistic"] == pytest.approx(bartlett(fit.correlation_, 198).statistic, rel=1e-12)
    printed = factor(path, "--missing", "listwise", "--factors", 2).stdout
    assert "198 rows, 7 columns (a to fixed)" in printed
    assert "left out: 2 rows in" in printed
    assert "left out: fixed, which does not vary; 6 columns are analysed" in printed
    assert "\nfixed" not in printed
    shares = np.square(fit.loadings_).sum(axis=0) / 6  # of the variance of the columns that vary
    np.testing.assert_allclose(done["explained_variance"]["Proportion Var"], shares)
    assert "Proportion Var        " + " ".join(f"{share:.2f}" for share in shares) in printed
    assert "first column was read as row names" in printed
    smaller = found(path, "--missing", "listwise", "--factors", 1, "--without", "fixed", "--without", "f")
    assert smaller["columns"] == list("abcde")


def test_answers_in_steps(tmp_path):
    z = np.random.default_rng(0).normal(size=(300, 1)) + np.random.default_rng(1).normal(size=(300, 5))
    frame = pd.DataFrame(np.digitize(z, [-1, 0.5, 1.5]).astype(float), columns=list("abcde")).assign(age=z[:, 0])
    frame.iloc[4, 2] = np.nan
    frame.to_csv(path := tmp_path / "answers.csv", index=False)
    done = found(path, "--ordinal", "--missing", "pairwise", "--without", "age")
    r = polychoric(frame.drop(columns="age"))
    np.testing.assert_allclose(done["loadings"], PrincipalAxis(1).fit_correlation(r).loadings_)
    assert (done["kind"], done["rows"], done["likelihood"]) == ("ordinal", 300, None)
    assert pd.DataFrame(done["numbers"]).equals(compare_numbers(r, 300, tests=False))
    assert any("are for Pearson's correlations" in note for note in done["notes"])
    assert (
        "polychoric correlations, pair by pair"
        in factor(path, "--ordinal", "--missing", "listwise", "--without", "age").stdout
    )
    assert "column 'age' holds more than 20 values" in factor(path, "--ordinal", "--missing", "pairwise").stderr
    frame.assign(age=1).to_csv(path, index=False)
    assert (
        "'age' holds one value alone; leave it out (--without)"
        in factor(path, "--ordinal", "--missing", "pairwise").stderr
    )
    assert factor(path, "--ordinal", "--missing", "likelihood").exit_code == 2


def test_scores_and_intervals_of_answers_in_steps(tmp_path):
    z = np.random.default_rng(0).normal(size=(150, 1)) + np.random.default_rng(1).normal(size=(150, 4))
    frame = pd.DataFrame(np.digitize(z, [-1, 0.5, 1.5]).astype(float), columns=list("abcd"))
    frame.iloc[4, 2] = np.nan
    frame.to_csv(path := tmp_path / "answers.csv", index=False)
    out = tmp_path / "scores.csv"
    done = found(path, "--ordinal", "--missing", "pairwise", "--factors", 1, "--scores", out, "--bootstrap", 50)
    fit = PrincipalAxis(1).fit_correlation(polychoric(frame))
    weights = np.linalg.solve(fit.correlation_, fit.loadings_)
    wanted = ((frame - frame.mean()) / frame.std()).to_numpy() @ weights
    np.testing.assert_allclose(pd.read_csv(out, index_col="row"), wanted, atol=1e-8)
    assert np.isnan(wanted).sum() == 1
    assert "without scores, since values are missing: 1 row." in done["notes"]
    assert any("they correlate with their factors less than is said" in note for note in done["notes"])
    direct = bootstrap_loadings(frame.to_numpy(), 1, correlation=polychoric, draws=50)
    np.testing.assert_allclose(done["bootstrap"]["loadings"]["low"], direct.loadings.low, atol=1e-9)


@pytest.mark.parametrize("how", ["pairwise", "ordinal"])
def test_correlations_of_no_table_are_smoothed(tmp_path, how):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 1)) + rng.normal(size=(60, 25))
    gaps = rng.random(x.shape) < (0.05 if how == "ordinal" else 0.4)
    gaps[:5] = False
    x = np.where(gaps, np.nan, (x > 0).astype(float) if how == "ordinal" else x)
    frame = pd.DataFrame(x).add_prefix("item")
    frame.to_csv(path := tmp_path / "few.csv", index=False)
    options = ["--missing", "pairwise", "--factors", 1, *(["--ordinal"] if how == "ordinal" else [])]
    done, out = found(path, *options, "--scores", tmp_path / "scores.csv"), tmp_path / "scores.csv"
    raw = polychoric(frame) if how == "ordinal" else frame.corr().to_numpy()
    r = corr_clipped(raw, 0)
    assert np.linalg.eigvalsh(raw)[0] < -0.01
    np.testing.assert_allclose(done["loadings"], PrincipalAxis(1).fit_correlation(r).loadings_, atol=1e-6)
    assert any(f"changed them by up to {np.abs(r - raw).max():.3f}" in note for note in done["notes"])
    assert any("smoothed correlations have no inverse" in note for note in done["notes"])
    assert not any(rule["rule"] == "parallel analysis (of factors)" for rule in done["rules"])
    complete = frame.notna().all(axis=1).to_numpy()
    assert (pd.read_csv(out, index_col="row").notna().to_numpy()[:, 0] == complete).all()
    frame[~complete].to_csv(path, index=False)
    assert "--scores: no row has all values" in factor(path, *options, "--scores", out).stderr


def test_the_table_over_numbers_is_printed_without_tests(people):
    printed = factor(people[0], "--missing", "pairwise", "--factors", 1).stdout
    assert re.search(r"^ factors +SRMR eigenvalue by chance +MAP$", printed, re.MULTILINE)


def test_npy_is_a_table(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done = found(tmp_path / "x.npy", "--contribution", 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = PrincipalAxis(contribution=0.5).fit(x)
    np.testing.assert_array_equal(done["communalities"], fit.communalities_)
    assert done["columns"] == ["V1", "V2", "V3", "V4", "V5"]


def test_a_layer_of_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(24, 2)) @ rng.normal(size=(2, 48)) + rng.normal(size=(24, 48))
    weights[5] = 0.0  # a dead unit
    save_file({"conv.weight": weights.reshape(24, 3, 4, 4), "head.weight": np.ones((2, 2))}, tmp_path / "m.safetensors")
    done = found(tmp_path / "m.safetensors", "--layer", "conv", "--factors", 2)
    np.testing.assert_array_equal(done["loadings"], PrincipalAxis(2).fit(weights.T).loadings_)
    assert (done["kind"], done["rows"], done["constant"]) == ("weights", 48, ["unit5"])
    assert (done["kmo"], done["bartlett"]) == (None, None)
    assert [rule["rule"] for rule in done["rules"]] == ["contribution rule", "Kaiser rule", "minimum average partial"]
    (note,) = done["notes"]
    assert re.search("no parallel analysis, .*-Olkin measure or Bartlett's test: .* no independent observations", note)
    printed = factor(tmp_path / "m.safetensors", "--layer", "conv", "--factors", 2)
    assert "layer conv: 48 incoming weights of 24 units" in printed.stdout
    assert printed.stderr == f"note: {note}\n"
    unnamed = factor(tmp_path / "m.safetensors")
    assert unnamed.exit_code == 1
    assert "choose one with --layer NAME:\n  conv.weight  (24, 3, 4, 4)\n  head.weight  (2, 2)" in unnamed.stderr


def test_clients_of_a_saved_run(tmp_path):
    """Every client has a file of its own; the index beside them stacks their weights."""
    clients = fs.data.relu_mixture(clients=3, d=6, units=8, samples=20, test=40, seed=0, balance="median")
    result = fs.federate(fs.Local(), fs.models.mlp(6, 8, 1), clients, fs.Training(lr=0.05), rounds=1, seed=0)
    result.save(tmp_path / "run")
    stacked = next(iter(result.states.values())).clients["hidden.weight"].numpy()
    done = found(tmp_path / "run" / "clients" / "0" / "index.json", "--layer", "hidden", "--factors", 2)
    np.testing.assert_array_equal(done["communalities"], PrincipalAxis(2).fit(units_as_columns(stacked)).communalities_)
    np.save(tmp_path / "stacked.npy", stacked)
    assert found(tmp_path / "stacked.npy", "--clients", "--factors", 2)["communalities"] == done["communalities"]
    assert "3 clients x 6 incoming weights of 8 units" in factor(tmp_path / "stacked.npy", "--clients").stdout


def test_wide_analyses_are_summarised(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(400, 70)))
    printed = factor(tmp_path / "x.npy", "--contribution", 0.85).stdout
    assert "columns of loadings are too wide to print; --json has them" in printed
    short = factor(tmp_path / "x.npy", "--factors", 3).stdout
    assert len([line for line in short.splitlines() if line.startswith("V")]) <= 60
    np.save(tmp_path / "wide.npy", np.random.default_rng(0).normal(size=(600, 520)))
    done = found(tmp_path / "wide.npy", "--factors", 1)
    assert [rule["rule"] for rule in done["rules"]] == ["contribution rule", "Kaiser rule"]
    assert any("above 512 columns" in note for note in done["notes"])


def three_factors(n=300):
    """A clean table: three factors of four columns each."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(n, 3)) @ np.kron(np.eye(3), np.full((1, 4), 0.8)) + 0.6 * rng.normal(size=(n, 12))
    return pd.DataFrame(x, columns=[f"q{j}" for j in range(12)])


def test_parallel_analysis_decides_for_a_table_and_the_contribution_rule_for_units(tmp_path):
    path = tmp_path / "clean.csv"
    three_factors().to_csv(path, index=False)
    done = found(path)
    said = {rule["rule"]: rule["n_factors"] for rule in done["rules"]}
    assert (done["n_factors"], done["decided_by"]) == (3, "parallel analysis (of components)")
    assert said["contribution rule"] > 3  # what it would have been
    printed = factor(path, "--factors", "auto").stdout
    assert "Extracted: 3 factors, decided by parallel analysis (of components)" in printed
    assert f"contribution rule: {said['contribution rule']} factors" in printed
    assert found(path, "--factors", 2)["decided_by"] == "--factors"
    by_share = found(path, "--contribution", 0.5)
    assert by_share["decided_by"] == "contribution rule"

    np.save(tmp_path / "noise.npy", np.random.default_rng(1).normal(size=(200, 6)))
    noise = found(tmp_path / "noise.npy")
    assert noise["n_factors"] == 1
    assert any("parallel analysis (of components) finds no factor" in note for note in noise["notes"])

    weights = np.random.default_rng(0).normal(size=(20, 3)) @ np.random.default_rng(1).normal(size=(3, 60))
    save_file({"fc.weight": weights + 0.1}, tmp_path / "m.safetensors")
    units = found(tmp_path / "m.safetensors", "--layer", "fc")
    assert units["decided_by"] == "contribution rule"

    wide = np.random.default_rng(0).normal(size=(700, 514))
    wide[:, :200] += 2 * np.random.default_rng(2).normal(size=(700, 1))
    np.save(tmp_path / "wide.npy", wide)
    done = found(tmp_path / "wide.npy")
    assert done["decided_by"] == "parallel analysis (of components)"
    assert 1 <= done["n_factors"] < 4


def test_bootstrap_intervals(people, tmp_path):
    path, frame = people
    options = (path, "--missing", "listwise", "--factors", 2, "--rotate", "varimax", "--bootstrap", 50)
    done, x = found(*options), frame.dropna().drop(columns="fixed")
    direct = bootstrap_loadings(x.to_numpy(), 2, "varimax", draws=50)
    np.testing.assert_allclose(done["bootstrap"]["loadings"]["low"], direct.loadings.low, atol=1e-9)
    np.testing.assert_allclose(done["bootstrap"]["communalities"]["error"], direct.communalities.error, atol=1e-9)
    assert done["bootstrap"]["columns"] == list("abcdef")
    printed = factor(*options)
    assert direct.text(list("abcdef")) in printed.stdout
    assert found(path, "--missing", "listwise", "--factors", 2)["bootstrap"] is None
    refused = factor(path, "--missing", "listwise", "--factors", 4, "--bootstrap", 50)
    assert refused.exit_code == 1
    assert "--factors must be a whole number from 1 to 3, the Ledermann bound of 6 columns, got 4" in refused.stderr


def test_scores_of_the_rotated_factors(people, tmp_path):
    path, frame = people
    out, options = tmp_path / "scores.csv", (path, "--missing", "listwise", "--factors", 2, "--rotate", "oblimin")
    printed = factor(*options, "--scores", out, "--score-method", "tenberge")
    assert printed.exit_code == 0, printed.output
    x = frame.dropna()
    fit = PrincipalAxis(2).fit(x.to_numpy())
    turned = rotate(fit.loadings_[:6], "oblimin")
    full = replace(turned, loadings=np.insert(turned.loadings, 6, 0, axis=0))
    direct = factor_scores(fit, x.to_numpy(), full, method="tenberge")
    written = pd.read_csv(out, index_col="row")
    assert list(written.index) == list(x.index)
    np.testing.assert_allclose(written, direct.values, atol=1e-8)
    each = ", ".join(f"PA{j} {value:.2f}" for j, value in enumerate(direct.determinacy, start=1))
    assert f"they correlate with their factors: {each}" in printed.stdout
    table = reliability(fit.correlation_, turned)
    assert f"  PA1: alpha {table['alpha'][0]:.2f}, omega {table['omega'][0]:.2f}: " in printed.stdout
    told = found(*options, "--scores", out)
    assert told["scores"]["method"] == "regression"
    np.testing.assert_allclose(told["structure"], full.structure, atol=1e-8)
    of = pd.DataFrame(told["reliability"])["alpha"].astype(float)
    np.testing.assert_allclose(of, table["alpha"], rtol=1e-8)  # a scale of one item has none


def test_scores_without_row_names_have_the_numbers_of_their_rows(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 1)) + np.random.default_rng(1).normal(size=(30, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame.iloc[2, 1] = np.nan
    frame.to_csv(tmp_path / "answers.csv", index=False)
    done = factor(
        tmp_path / "answers.csv", "--missing", "listwise", "--factors", 1, "--scores", tmp_path / "scores.csv"
    )
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "scores.csv")["row"].tolist() == [1, 2, *range(4, 31)]


@pytest.mark.parametrize("how", ["pairwise", "likelihood"])
def test_gaps_are_kept(people, tmp_path, how):
    path, frame = people
    out = tmp_path / "scores.csv"
    done = found(path, "--missing", how, "--factors", 2, "--without", "fixed", "--scores", out)
    x = frame.drop(columns="fixed").to_numpy()
    direct = PrincipalAxis(2).fit_moments(moments_with_gaps(x, how))
    np.testing.assert_allclose(done["loadings"], direct.loadings_, atol=1e-8)
    assert (done["rows"], done["rows_left_out"], done["gaps"]) == (200, 0, how)
    assert done["bartlett"] is done["likelihood"] is None
    assert pd.DataFrame(done["numbers"]).equals(compare_numbers(direct.correlation_, 200, tests=False))
    assert any(note.endswith("Parallel analysis counts all rows.") for note in done["notes"])
    scores = pd.read_csv(out, index_col="row")
    if how == "likelihood":
        np.testing.assert_allclose(scores, factor_scores(direct, x, missing="likelihood").values, atol=1e-6)
        assert any("the factors' means given what a row has" in note for note in done["notes"])
        other = found(path, "--missing", how, "--factors", 2, "--scores", out, "--score-method", "tenberge")
        assert any("are missing: 2 rows; --missing likelihood with" in note for note in other["notes"])
    else:
        assert list(scores.index[scores.isna().any(axis=1)]) == ["person 3", "person 90"]
        assert any("are missing: 2 rows; --missing likelihood with" in note for note in done["notes"])
    assert f"2 rows with gaps: correlations by {how}" in factor(path, "--missing", how, "--factors", 2).stdout


def test_rotation_to_a_target(tmp_path):
    path, target = tmp_path / "clean.csv", tmp_path / "target.csv"
    frame = three_factors().assign(fixed=1.0)
    frame.to_csv(path, index=False)
    aim = pd.DataFrame(np.kron(np.eye(3), np.ones((4, 1))), frame.columns[:12], ["a", "b", "c"])
    aim[::-1].to_csv(target)  # in any order, without the column that does not vary
    done = found(path, "--rotate", "target_ort", "--target", target)
    fit = PrincipalAxis(3).fit(frame.drop(columns="fixed").to_numpy())
    expected = target_rotation(fit.loadings_, aim.to_numpy())
    np.testing.assert_allclose(done["rotation"]["loadings"][:12], expected.loadings, atol=1e-9)
    assert (done["n_factors"], done["decided_by"]) == (3, "--target")
    assert done["rotation"]["loadings"][12] == [0, 0, 0]
    aim.where(aim == 0).to_csv(target)  # only the zeros are given
    oblique = found(path, "--rotate", "target_obl", "--target", target, "--bootstrap", 50)
    assert np.abs(oblique["rotation"]["correlations"]).max() == pytest.approx(1)
    assert np.array(oblique["bootstrap"]["correlations"]["low"]).shape == (3, 3)
    for content, message in (
        ("name,a\nq0,1\nzz,0\n", "zz: no such column in the table"),
        ("name,a\nq0,x\n", "a target is a .csv of names and numbers"),
        ("name,a\nq0,1\nq0,1\n", "one row for a column of the table"),
    ):
        target.write_text(content)
        refused = factor(path, "--rotate", "target_ort", "--target", target)
        assert refused.exit_code == 1
        assert message in refused.stderr
    aim.to_csv(target)
    refused = factor(path, "--rotate", "target_ort", "--target", target, "--factors", 2)
    assert "--factors is 2, but the target has 3 factors" in refused.stderr


def test_warnings_become_notes(harman, tmp_path):
    options = (harman, "--correlation", "--observations", HARMAN8_ROWS, "--factors", 6)
    done = factor(*options)
    assert done.exit_code == 0
    assert "NOT IDENTIFIED" in done.stdout
    (note,) = done.stderr.splitlines()
    assert note.startswith("note: the data do not identify 6 factors of 8 variables (the Ledermann bound is 4)")
    assert note.endswith("Ask for fewer factors (--factors, or a smaller --contribution).")
    assert found(*options)["notes"] == [note.removeprefix("note: ")]


def test_suspicious_tables_are_noted(harman, tmp_path):
    forgotten = "add --correlation if it holds correlations"
    assert forgotten in factor(harman, "--factors", 2).stderr
    x = np.random.default_rng(0).normal(size=(50, 8))
    np.save(tmp_path / "r.npy", HARMAN8 + np.triu(np.full((8, 8), 1e-15), 1))  # as corrcoef rounds
    assert forgotten in factor(tmp_path / "r.npy", "--factors", 2).stderr
    np.save(tmp_path / "few.npy", x[:8])
    (note,) = found(tmp_path / "few.npy", "--factors", 1)["notes"]
    assert note == "no Kaiser-Meyer-Olkin measure or Bartlett's test: 8 rows are too few for 8 columns."
    pd.DataFrame(x, columns=list("abcdefgh")).assign(sum=x @ np.ones(8), one=1).to_csv(tmp_path / "sum.csv")
    done = found(tmp_path / "sum.csv", "--factors", 1)
    assert any("column sum is a combination of others; leave it out (--without)" in note for note in done["notes"])
    assert (done["kmo"], done["bartlett"]) == (None, None)


def test_heywood_cases_are_named(tmp_path):
    r = np.array([[1, 0.8, 0.8], [0.8, 1, 0.5], [0.8, 0.5, 1]])  # one factor would need a communality of 1.28
    pd.DataFrame(r, columns=["x", "y", "z"]).to_csv(tmp_path / "r.csv", index=False)
    done = factor(tmp_path / "r.csv", "--correlation", "--factors", 1)
    assert "Heywood cases, with communality 1: x" in done.stdout
    assert found(tmp_path / "r.csv", "--correlation", "--factors", 1)["heywood"] == ["x"]

    x = np.random.default_rng(0).multivariate_normal(np.zeros(8), HARMAN8, 305)
    frame = pd.DataFrame(x, columns=[f"item {j}" for j in range(8)])
    frame.insert(0, "one", 1.0)  # left out, it must not shift names
    frame.to_csv(path := tmp_path / "x.csv", index=False)
    (case,) = fit_tests(np.corrcoef(x.T), 305, 3).heywood
    assert f"Heywood cases of maximum likelihood (item {case}): the chi" in factor(path, "--factors", 3).stdout
    assert found(path, "--factors", 3)["likelihood"]["heywood"] == [f"item {case}"]
    frame.assign(copy=frame["item 0"])[["one", "item 0", "copy", "item 1"]].to_csv(path, index=False)
    refused = factor(path, "--factors", 1, "--scores", tmp_path / "s.csv", "--score-method", "bartlett")
    assert "those of columns item 0, copy are zero" in refused.stderr


@pytest.mark.parametrize(("suffix", "start"), [(".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_the_scree_plot(harman, tmp_path, suffix, start):
    picture = tmp_path / f"scree{suffix}"
    done = factor(harman, "--correlation", "--factors", 2, "--plot", picture)
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(start)
    assert done.stdout.splitlines()[-1] == f"scree plot: {picture}"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["harman.csv", picture.name]
    json.loads(factor(harman, "--correlation", "--plot", picture, "--json").stdout)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n1,0.5\n0.4,1\n", ["--correlation"], "line 2, column 'b': 0.5, but 0.4 .* must be symmetric"),
        ("a,b\n2,0.5\n0.5,1\n", ["--correlation"], "line 2, column 'a': 2; .* must have ones on its diagonal"),
        (
            "a,b,c\n1,.9,-.9\n.9,1,.9\n-.9,.9,1\n",
            ["--correlation"],
            "t.csv: R must be positive .* eigenvalue -0.8.*Use",
        ),
        ("a,b\n1,2\n3,\n", [], "line 3, column 'b': no value.*--missing"),
        ("a,b\n1,2\n", [], r"1 row\(s\) of numbers; correlations need at least two"),
        ("a,b\n1,2\n3,4\n5,7\n", ["--factors", "3"], "--factors 3 is too many for 2 columns that vary"),
        ("a,b\n1,x\n3,y\n", [], "line 2, column 'b': 'x' is no number.*--without b"),
        ("a,b\n1,2\n3\n", [], "line 3: 1 value.*line 1 has 2"),
        ("a,b\n1,2\n1,2\n", [], "columns that vary: 0 of 2; .* at least two"),
        ("a,b\n1,2\n1,3\n", [], "columns that vary: 1 of 2; .* at least two"),
        ("a\n1\n", ["--correlation"], "columns that vary: 1 of 1; .* at least two"),
    ],
)
def test_bad_input(tmp_path, content, options, message):
    (tmp_path / "t.csv").write_text(content)
    done = factor(tmp_path / "t.csv", *options)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("error: ")
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_a_header_of_numbers_is_no_person(tmp_path):
    """As pandas writes an array: names change no number, and the note is printed."""
    frame = three_factors().set_axis(range(12), axis=1)
    frame.to_csv(numbered := tmp_path / "numbered.csv", index=False)
    frame.add_prefix("q").to_csv(named := tmp_path / "named.csv", index=False)
    done, expected = found(numbered, "--scores", tmp_path / "scores.csv"), found(named)
    assert (done["rows"], done["columns"]) == (len(frame), [str(j) for j in range(12)])
    assert (done["loadings"], done["rules"]) == (expected["loadings"], expected["rules"])
    assert len(pd.read_csv(tmp_path / "scores.csv")) == len(frame)
    (note,) = [note for note in done["notes"] if note not in expected["notes"]]
    assert "numbers its columns up to 11 in the first line, so that it was taken as a header" in note
    assert f"note: {note}\n" in factor(numbered).stderr
    frame.to_csv(numbered, index=False, header=False)
    done = found(numbered)
    assert (done["rows"], done["loadings"]) == (len(frame), expected["loadings"])
    assert any("has no header: its first line was taken as data" in note for note in done["notes"])


def test_case_numbers_and_codes_are_noted(tmp_path):
    """A table with gaps written as -99, and numbers of persons, until both are taken care of."""
    frame = three_factors()
    gaps = np.random.default_rng(5).random(frame.shape) < 0.05
    path = tmp_path / "coded.csv"
    frame.mask(gaps, -99).to_csv(path, index_label="id")
    notes = " ".join(found(path)["notes"])
    assert "whole numbers in id tell rows apart, as case numbers do, and are analysed" in notes
    assert f"-99 stands {gaps.sum()} times in q0, q1, q2 and 9 more" in notes
    assert "note: " + notes[: notes.index("--without id.")] in factor(path).stderr
    frame.mask(gaps).to_csv(path, index_label="id")
    notes = " ".join(found(path, "--without", "id", "--missing", "listwise")["notes"])
    assert "case number" not in notes
    assert "code" not in notes


def test_files_that_are_not_read(tmp_path):
    for path, message in ((tmp_path / "none.csv", "does not exist"), (tmp_path, "is a directory")):
        done = factor(path)
        assert done.exit_code == 2
        assert message in _unboxed(done.stderr)
    (tmp_path / "m.pt").write_bytes(b"\x80\x02.")
    done = factor(tmp_path / "m.pt")
    assert done.exit_code == 1
    assert "never opened; save tensors with safetensors" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--factors", 2, "--contribution", 0.9], "exclude each other"),
        (["--rotate", "spin"], "varimax"),
        (["--plot", "scree.gif"], ".pdf, .svg or .png"),
        (["--plot", "nowhere/scree.png"], "there is no folder nowhere"),
        (["--plot", "/"], "is a directory"),
        (["--scores", "scores.txt"], "scores.txt must end in .csv"),
        (["--scores", "nowhere/scores.csv"], "there is no folder nowhere"),
        (["--correlation", "--scores", "scores.csv"], "only rows of a table of observations have scores"),
        (["--missing", "impute"], "choose one of refuse, listwise, pairwise, likelihood, not impute"),
        (["--score-method", "anderson"], "choose one of regression, bartlett, tenberge, not anderson"),
        (["--observations", 10], "only for --correlation"),
        (["--correlation", "--layer", "x"], "--correlation"),
        (["--correlation", "--observations", 1], "--observations"),
        (["--factors", "two"], "--factors"),
        (["--factors", 0], "0 is neither auto nor a number of at least 1"),
        (["--rotate", "target_ort"], "--target and --rotate target_ort or target_obl go together"),
        *(([option, "--bootstrap", 100], "it draws the rows of a table") for option in ("--correlation", "--clients")),
        (["--bootstrap", 10], "--bootstrap"),
        *((["--contribution", share], f"{share} does not lie in (0, 1]") for share in (0.0, 1.1, float("nan"))),
    ],
)
def test_usage_errors(harman, options, message):
    done = factor(harman, *options)
    assert done.exit_code == 2
    assert message in _unboxed(done.stderr)


def _unboxed(message):
    """A usage error without the frame that is drawn around it."""
    return " ".join(message.replace("│", " ").split())


@pytest.mark.slow
def test_output_that_cannot_be_written(harman):
    """A full disk is reported in a sentence, and ``| head`` not at all."""
    command = [sys.executable, "-c", "from fedstat.cli import app; app()", "factor", str(harman), "--correlation"]
    for unbuffered in ("", "1"):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
        assert done.returncode == 1
        assert re.fullmatch("(note: .*\n)*error: .*No space left on device\n", done.stderr)
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert re.fullmatch("(note: .*\n)*", done.stderr)


def test_help_teaches():
    text = factor("--help").output
    for word in (
        "--correlation",
        "--layer",
        "--contribution",
        "fedstat factor model.safetensors",
        *ORTHOGONAL,
        *OBLIQUE,
    ):
        assert word in text
