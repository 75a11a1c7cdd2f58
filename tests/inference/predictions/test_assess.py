"""Assessments: intervals by published and independent numbers, what is undefined, and what must not change anything."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve
from statsmodels.stats.proportion import proportion_confint

import fedstat as fs
from fedstat.inference.predictions.assessment import USUAL
from fedstat.inference.predictions.limits import critical, over_patients, p_values
from fedstat.inference.predictions.metrics import METRICS
from tests.support.clients import vector_clients


def table(seed=0, clients=4, patients=160, seeds=3, methods=("FedAvg", "Local", "Ditto"), base=-1.2, anew=False):
    """Predictions of one set of patients, or of one set for each seed."""
    rows, rng = [], np.random.default_rng(seed)
    for s in range(seeds):
        if s == 0 or anew:
            client = np.sort(rng.integers(0, clients, patients))
            truth = base + 1.5 * rng.normal(size=patients)
            outcome = (rng.random(patients) < 1 / (1 + np.exp(-truth))).astype(int)
        for i, method in enumerate(methods):
            logits = truth + (0.3 + 0.4 * i) * rng.normal(size=patients)
            rows.append(
                pd.DataFrame(
                    {
                        "method": method, "seed": s, "client": client, "name": [f"Hospital {c}" for c in client],
                        "sample": np.arange(patients) + anew * s * patients,
                        "outcome": outcome, "probability": 1 / (1 + np.exp(-logits)),
                    }
                )
            )  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def row(frame, **where):
    for name, value in where.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def placements(y, p):
    """DeLong's placement values by comparing all pairs."""
    yes, no = p[y == 1], p[y == 0]
    wins = (yes[:, None] > no) + 0.5 * (yes[:, None] == no)
    return wins.mean(axis=1), wins.mean(axis=0)


def test_delong_variance_of_a_difference_by_all_pairs():
    rows = table(clients=1, seeds=1)
    p = {m: of["probability"].to_numpy() for m, of in rows.groupby("method")}
    y = rows[rows["method"] == "Local"]["outcome"].to_numpy()
    found = row(fs.assess(rows, "auc").differences, method="Local", over="all patients")
    (v10, v01), (w10, w01) = placements(y, p["Local"]), placements(y, p["FedAvg"])
    parts = (v10 - w10).var(ddof=1) / len(v10), (v01 - w01).var(ddof=1) / len(v01)
    assert found["variance (patients)"] == pytest.approx(sum(parts), rel=1e-12)
    df = sum(parts) ** 2 / (parts[0] ** 2 / (len(v10) - 1) + parts[1] ** 2 / (len(v01) - 1))
    half = stats.t.isf(0.025 / 2, df) * np.sqrt(sum(parts))  # two methods against the control
    assert [found["low"], found["high"]] == pytest.approx([found["difference"] - half, found["difference"] + half])


def test_published_variance_of_an_area():
    """Hanley and McNeil's (1982) ratings; Stata's manual (roctab) has the area 0.8932 and DeLong's error 0.0307."""
    rating = np.repeat([1, 2, 3, 4, 5] * 2, [33, 6, 6, 11, 2, 3, 2, 2, 11, 33])
    y = np.repeat([0, 1], [58, 51])
    found = fs.assess(pd.DataFrame({"method": "a", "outcome": y, "probability": rating / 5}), "auc").pooled.iloc[0]
    assert round(found["estimate"], 4) == 0.8932
    assert round(np.sqrt(found["variance (patients)"]), 4) == 0.0307


def test_proportions_have_wilsons_interval():
    rows = table(clients=1, seeds=1, methods=("a",))
    found = fs.assess(rows, ["accuracy", "sensitivity", "specificity"], threshold=0.3).pooled
    y, named = rows["outcome"] == 1, rows["probability"] >= 0.3
    counts = {"accuracy": (y == named, y == y), "sensitivity": (y & named, y), "specificity": (~y & ~named, ~y)}
    for metric, (right, of) in counts.items():
        one = row(found, metric=metric, over="all patients")
        expected = proportion_confint(right.sum(), of.sum(), method="wilson")
        assert [one["low"], one["high"]] == pytest.approx(expected, rel=1e-9)


def test_a_perfect_area_has_newcombes_interval():
    """Method 5 of Newcombe (2006) at an area of one: its lower limit solves (1 - x)^2 = z^2 v(x)."""
    y = np.repeat([0, 1], [20, 6])
    found = fs.assess(pd.DataFrame({"method": "a", "outcome": y, "probability": 0.2 + 0.5 * y}), "auc").pooled.iloc[0]
    x = found["low"]
    variance = x * (1 - x) / (6 * 20) * (1 + 12 * (1 - x) / (2 - x) + 12 * x / (1 + x))
    assert (found["estimate"], found["high"]) == (1, 1)
    assert (1 - x) ** 2 == pytest.approx(stats.norm.isf(0.025) ** 2 * variance, rel=1e-9)
    assert 0.6 < x < 0.9


def test_equal_decisions_have_bonett_and_prices_interval_and_no_zero_width():
    rows = table(clients=1, seeds=1, methods=("a", "b"))
    rows["probability"] = np.where(rows["outcome"] == 1, 0.9, 0.1) - 0.05 * (rows["method"] == "b")
    found = row(fs.assess(rows, "accuracy").differences, over="all patients")
    half = stats.norm.isf(0.025) * np.sqrt(2) / (160 + 2)
    assert [found["difference"], found["low"], found["high"]] == pytest.approx([0, -half, half])
    assert found["outcome"] == "undecided"


@pytest.mark.parametrize("n", [3, 40])
def test_decisions_that_differ_everywhere_have_bonett_and_prices_interval(n):
    """With ``b`` and ``c`` patients for whom one method alone is right; three of three show nothing."""
    rows = pd.DataFrame({"method": np.repeat(["a", "b"], n), "outcome": 1, "probability": np.repeat([0.1, 0.9], n)})
    found = row(fs.assess(rows, "accuracy").differences, over="all patients")
    b, c = (n + 1) / (n + 2), 1 / (n + 2)
    half = stats.norm.isf(0.025) * np.sqrt((b + c - (b - c) ** 2) / (n + 2))
    assert [found["low"], found["high"]] == pytest.approx([b - c - half, min(b - c + half, 1)])
    assert found["outcome"] == ("undecided" if n == 3 else "better")


@pytest.mark.parametrize("metric", ["auc", "sensitivity"])
def test_patients_of_a_seed_in_which_a_client_is_undefined_do_not_narrow_its_limits(metric):
    rows = table(clients=2, anew=True, seeds=3)
    cell = (rows["client"] == 1) & (rows["seed"] == 2)
    events = rows[cell & (rows["outcome"] == 1)]["sample"].unique()
    few = rows[~(cell & rows["sample"].isin(events[1:]))]  # one event is too few
    both = [fs.assess(of, metric, threshold=0.3) for of in (few, rows[~cell])]
    compared = ["low", "high", "low (patients)", "high (patients)"]
    said = "undefined in some seeds, for all methods alike, at 1 of 2 clients: Hospital 1 (1 event, fewer than 2)."
    assert f"{metric} is {said} Their rows are of the other seeds." in both[0].notes
    for frame in ("clients", "differences"):
        left, without = (getattr(of, frame).query("client == 1") for of in both)
        assert set(left["seeds"]) == {2}
        np.testing.assert_allclose(left[compared], without[compared], rtol=1e-9)


def test_variance_is_that_of_seed_averaged_influence_plus_that_over_runs():
    rows = table()
    found = row(fs.assess(rows, "auc").pooled, method="Ditto", over="all patients")
    own = [of for _, of in rows[rows["method"] == "Ditto"].groupby("seed")]
    areas = [roc_auc_score(of["outcome"], of["probability"]) for of in own]
    assert found["estimate"] == pytest.approx(np.mean(areas))
    assert found["variance (runs)"] == pytest.approx(np.var(areas, ddof=1) / 3)
    y, client = own[0]["outcome"].to_numpy(), own[0]["client"].to_numpy()
    v10, v01 = (
        np.mean(v, axis=0) for v in zip(*(placements(y, of["probability"].to_numpy()) for of in own), strict=True)
    )
    total = 0.0
    for values, of in ((v10, 1), (v01, 0)):  # patients are drawn within the classes of each client
        for k in range(4):
            mine = values[client[y == of] == k]
            total += len(mine) * mine.var(ddof=1) / (y == of).sum() ** 2
    assert found["variance (patients)"] == pytest.approx(total, rel=1e-9)


def test_mean_over_clients_is_the_mean_of_their_rows():
    found = fs.assess(table(), ["auc", "brier"])
    for (method, metric), own in found.clients.groupby(["method", "metric"]):
        mean = row(found.pooled, method=method, metric=metric, over="mean over clients")
        assert mean["estimate"] == pytest.approx(own["estimate"].mean())
        assert mean["variance (patients)"] == pytest.approx(own["variance (patients)"].sum() / len(own) ** 2)


def test_patients_of_their_own_in_every_seed():
    """The variance over runs then holds that of patients; where seeds share patients, both are corrected."""
    rows = table(anew=True)
    for corrected in (False, True):
        if corrected:  # each seed tests 60 of the same 160 patients
            whole = table(seeds=1)
            parts = [whole.assign(seed=s)[(whole["sample"] + 53 * s) % 160 < 60] for s in range(3)]
            rows = pd.concat(parts, ignore_index=True)
            again = 60 / (pd.concat(parts)["sample"].nunique() - 60)
        found = fs.assess(rows, "brier")
        one = row(found.pooled, method="Local", over="all patients")
        own = rows[rows["method"] == "Local"]
        loss = (own["probability"] - own["outcome"]) ** 2
        sizes, each = own.groupby("seed").size(), loss.groupby([own["seed"], own["client"]]).agg(["size", "var"])
        within = (each["size"] * each["var"]).groupby("seed").sum() / sizes**2
        again = again if corrected else 0.0
        patients = within.sum() / 9 * (1 + 2 * again / (1 + again))
        runs = max(loss.groupby(own["seed"]).mean().var(ddof=1) * (1 / 3 + again) - patients, 0)
        assert list(one[["variance (patients)", "variance (runs)"]]) == pytest.approx([patients, runs])
        # Cochran and Cox: critical values are averaged by variance
        of_patients = np.log(one["high (patients)"] / one["estimate"]) * one["estimate"] / np.sqrt(patients)
        half = (patients * of_patients + runs * stats.t.isf(0.025, 2)) / np.sqrt(patients + runs) / one["estimate"]
        assert np.log(one["high"] / one["estimate"]) == pytest.approx(half)
        assert ("Nadeau" in " ".join(found.notes)) == corrected
        assert one["n"] == len(own) / 3
        assert one["events"] == own["outcome"].sum() / 3


def test_a_seed_in_which_a_method_is_certain_counts_for_no_method_and_is_named():
    rows = table(anew=True)
    certain = (rows["method"] == "Ditto") & (rows["seed"] == 1) & (rows["sample"] == rows["sample"].max() - 160)
    found = fs.assess(rows.assign(probability=rows["probability"].mask(certain, 0.0)), ["auc", "calibration_slope"])
    rest = fs.assess(rows[rows["seed"] != 1], "calibration_slope")
    of = found.pooled[found.pooled["over"] == "all patients"].set_index(["metric", "method"])
    assert (of.loc["calibration_slope", "seeds"] == 2).all()
    assert (of.loc["auc", "seeds"] == 3).all()
    kept = rest.pooled[rest.pooled["over"] == "all patients"].set_index("method")["estimate"]
    assert of.loc["calibration_slope", "estimate"].to_dict() == pytest.approx(kept.to_dict())
    (said,) = (note for note in found.notes if "of 3 seeds" in note)
    assert said == (
        "calibration slope over all patients is of 2 of 3 seeds, for all methods alike; it is undefined in the others: "
        "some probabilities of Ditto are 0 or 1."
    )


def test_what_is_undefined_is_so_for_all_methods_with_its_reason():
    rows = table()
    first = rows["client"] == 0
    events = rows.loc[first & (rows["outcome"] == 1), "sample"].unique()
    rows.loc[first & rows["sample"].isin(events[1:]), "outcome"] = 0
    found = fs.assess(rows, ["auc", "brier", "specificity"])
    specific = found.clients[found.clients["metric"] == "specificity"]  # which asks for nobody with the event
    assert specific[["estimate", "low", "high"]].notna().all(axis=None)
    gone = found.clients[(found.clients["client"] == 0) & (found.clients["metric"] == "auc")]
    assert gone["estimate"].isna().all()
    assert set(gone["undefined"]) == {"1 event, fewer than 2"}
    assert found.clients[found.clients["metric"] == "brier"]["estimate"].notna().all()
    assert row(found.pooled, metric="auc", method="Local", over="mean over clients")["clients"] == 3
    assert "auc is undefined, for all methods alike, at 1 of 4 clients: Hospital 0 (1 event," in " ".join(found.notes)
    outcomes = found.differences[found.differences["metric"] == "auc"]
    assert set(outcomes[outcomes["client"] == 0]["outcome"]) == {"undefined"}


def test_a_client_with_one_seed_has_no_limits_over_runs_and_no_verdict():
    rows = table(anew=True)
    found = fs.assess(rows[(rows["client"] != 0) | (rows["seed"] == 0)], "brier")
    one = row(found.differences, method="Local", client=0)
    assert (one["outcome"], one["seeds"], abs(one["difference"]) > 0) == ("no spread", 1, True)
    assert one[["low", "high", "variance (runs)"]].isna().all()
    assert one["low (patients)"] < one["difference"] < one["high (patients)"]
    assert row(found.differences, method="Local", client=1)["outcome"] != "no spread"


def test_joint_limits_are_bonferronis_over_clients_and_methods():
    found = fs.assess(table(), "brier")
    one = row(found.differences, method="Local", client=2)
    sums = {of: one[f"variance ({of})"] for of in ("patients", "runs")}
    half = {of: one[f"high ({of})"] - one["difference"] for of in sums}
    assert half["runs"] == pytest.approx(stats.t.isf(0.025 / 8, 2) * np.sqrt(sums["runs"]))
    both = sum(half[of] * np.sqrt(sums[of]) for of in sums) / np.sqrt(sum(sums.values()))
    assert one["high"] - one["difference"] == pytest.approx(both)
    for level in (0.9, 0.99, 0.999):  # p says which intervals exclude zero
        found = fs.assess(table(), "brier", level=level).differences
        outside = (found["low"] > 0) | (found["high"] < 0)
        assert ((found["p (adjusted)"] < 1 - level) == outside).all()


def test_levels_are_students_for_one_part_and_zero_where_they_underflow():
    errors, df = np.array([0.0, 5.0, 45.0, 100.0, np.nan]), np.full(5, 1e5)
    expected = 2 * stats.t.sf(errors, df)
    for parts in ([(np.ones(5), df)], [(np.ones(5), df), (np.full(5, 3.0), df)]):
        np.testing.assert_allclose(p_values(errors, parts), expected, rtol=1e-6)
    few = [(np.ones(5), df), (np.full(5, 3.0), np.full(5, 2.0))]
    np.testing.assert_allclose(critical(p_values(errors, few), few), errors, rtol=1e-6, atol=1e-8)


def test_conclusions_name_hospitals_and_the_majority_and_whom_they_speak_of():
    rows = table(clients=2, patients=400, methods=("FedAvg", "Bad"))
    bad = (rows["method"] == "Bad") & (rows["client"] == 1)
    rows.loc[bad, "probability"] = 1 - rows.loc[bad, "probability"]
    found = fs.assess(rows, ["auc", "accuracy"])
    said = " ".join(found.conclusions)
    assert "Bad loses at Hospital 1 (by " in said
    assert "Hospital 0 (by" not in found.conclusions[1]
    assert "newly trained models" in found.conclusions[-1]
    rare = table(base=-4, seeds=1, methods=("FedAvg",))
    rare["probability"] /= 3
    said = fs.assess(rare, "accuracy").conclusions
    assert "FedAvg (0.0 points" in said[-2]
    assert "not shown to beat always saying no" in said[-2]
    assert "for the models trained here" in said[-1]


def test_clients_that_each_seed_draws_anew_are_not_named():
    def run(clients):
        methods, how = (
            [fs.FedAvg(), fs.Local()],
            {"rounds": 2, "seed": range(4), "predictions": True, "progress": False},
        )
        return fs.federate(methods, lambda: torch.nn.Linear(3, 2), clients, fs.Training(lr=0.3), **how)

    found = fs.assess(run(lambda seed: vector_clients(6, seed)), "brier")
    last = "Intervals speak of newly trained models on clients and patients drawn anew (4 training runs)."
    assert found.conclusions[-1] == last
    assert last in " ".join(str(found).split())
    assert "by client" not in " ".join(found.conclusions)
    assert (
        "Each seed draws its clients anew: the row of a client is a mean over others, one of each seed." in found.notes
    )
    with pytest.raises(ValueError, match="the same clients under every seed, but each seed draws its own"):
        fs.inference.fairness(found)
    with pytest.raises(ValueError, match="no differences of brier at clients"):
        found.plot_clients()
    same = fs.assess(run(vector_clients(6)), "brier")
    assert same.conclusions[-1].startswith("Intervals speak of patients like these at these clients")
    assert "by client" in " ".join(same.conclusions)
    assert "anew" not in " ".join(same.notes)


def test_the_event_of_a_run_is_one_of_its_classes_by_name():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = np.where(x[:, 0] + rng.normal(size=120) > 0.8, "ill", "well")
    clients = fs.data.from_arrays(x, y, np.arange(120) % 2, test=0.3, stratify=True)
    result = fs.federate(
        [fs.FedAvg()], lambda: torch.nn.Linear(3, 2), clients, fs.Training(lr=0.3), rounds=2, predictions=True,
        progress=False,
    )  # fmt: skip
    well, same, ill = (fs.assess(result, threshold=0.3, event=event) for event in (None, "well", "ill"))
    assert "The event is 'well', of the classes 'ill' and 'well', unless event names the other." in well.notes
    pd.testing.assert_frame_equal(same.pooled, well.pooled)
    rows = result.predictions()
    sick = rows["outcome"] == 0
    found = ill.pooled[ill.pooled["over"] == "all patients"].set_index("metric")
    assert found["events"].unique() == [sick.sum()]
    assert found.loc["auc", "estimate"] == pytest.approx(roc_auc_score(sick, 1 - rows["probability"]))
    assert found.loc["sensitivity", "estimate"] == pytest.approx((1 - rows["probability"][sick] >= 0.3).mean())
    with pytest.raises(ValueError, match="one of two classes, got 'sick', but the run has the classes ill, well"):
        fs.assess(result, event="sick")


def of_kind(kind, seed, patients=160, clients=4):
    """Predictions of one kind, of two methods under two seeds at four clients."""
    rng = np.random.default_rng(seed)
    client, latent = np.arange(patients) % clients, rng.normal(size=patients)
    classes, times = rng.integers(0, 3, patients), np.round(rng.exponential(np.exp(latent)), 1)
    truth = {
        "two classes": {"outcome": (latent + rng.normal(size=patients) > 0.5).astype(int)},
        "classes": {"outcome": np.array(["x", "y", "z"])[classes]},
        "numbers": {"outcome": latent + rng.normal(size=patients)},
        "times": {"time": times, "event": rng.integers(0, 2, patients)},
    }[kind]
    rows = []
    for s in range(2):
        for method, noise in {"FedAvg": 1.0, "Local": 2.0}.items():
            guess = latent + noise * rng.normal(size=patients)
            shares = rng.dirichlet(np.ones(3), patients) + 0.3 * np.eye(3)[classes] / noise
            told = {
                "two classes": {"probability": stats.logistic.cdf(guess)},
                "classes": {f"p_{name}": p for name, p in zip("xyz", (shares / shares.sum(1)[:, None]).T, strict=True)},
                "numbers": {"value": guess},
                "times": {"risk": -np.round(guess, 1)},
            }[kind]
            who = {"method": method, "seed": s, "client": client, "sample": np.arange(patients)}
            rows.append(pd.DataFrame({**who, **truth, **told}))
    return pd.concat(rows, ignore_index=True)


KINDS = {kind: [name for name, of in METRICS.items() if kind in of.kinds] for kind in USUAL}


@settings(max_examples=1)
@given(st.integers(1, 50), st.sampled_from(list(KINDS)))
@example(0, "two classes")
@example(0, "classes")
@example(0, "numbers")
@example(0, "times")
def test_permuted_rows_change_nothing_and_a_method_ties_with_itself(seed, kind):
    rows, metrics = of_kind(kind, seed), KINDS[kind]
    rows = pd.concat([rows, rows[rows["method"] == "FedAvg"].assign(method="Twin")])
    found = fs.assess(rows, metrics, control="FedAvg")
    assert set(found.pooled.dropna(subset="estimate")["metric"]) == {*metrics}
    order = np.random.default_rng(seed).permutation(len(rows))
    again = fs.assess(rows.iloc[order], metrics, control="FedAvg")
    for one in ("clients", "pooled", "differences"):
        keys = ["metric", "method"]
        keys += [*(["over"] if one != "clients" else []), *(["client"] if one != "pooled" else [])]
        first, second = (getattr(of, one).sort_values(keys, ignore_index=True) for of in (found, again))
        pd.testing.assert_frame_equal(first, second, rtol=1e-9, atol=1e-12)
    twin = found.differences[(found.differences["method"] == "Twin") & (found.differences["outcome"] != "undefined")]
    assert set(twin["metric"]) == {*metrics}
    assert set(twin["outcome"]) == {"tie"}
    assert (twin[["difference", "low", "high"]] == 0).all().all()
    first, second = (fs.inference.fairness(of) for of in (found, again))
    keys, order = ["metric", "method"], ["metric", "method", "client"]
    pd.testing.assert_frame_equal(
        first.table.sort_values(keys, ignore_index=True), second.table.sort_values(keys, ignore_index=True)
    )
    pd.testing.assert_frame_equal(
        *(of.clients.sort_values(order, ignore_index=True) for of in (first, second)), rtol=1e-9, atol=1e-12
    )
    told = first.clients[first.clients["method"] == "Twin"]
    assert set(told["outcome"]) - {"undefined"} == {"ties"}


def test_who_gains_and_who_loses_is_what_the_joint_limits_at_each_client_show():
    rows = table(clients=5, patients=900, methods=("Local", "FedAvg", "Ditto"))
    rows = rows[rows["client"] < 4]
    hospital = {k: rows["client"] == k for k in range(4)}
    own = {m: rows["method"] == m for m in ("Local", "FedAvg", "Ditto")}
    rows.loc[own["FedAvg"] & hospital[1], "probability"] = 1 - rows.loc[own["FedAvg"] & hospital[1], "probability"]
    better = np.where(rows["outcome"] == 1, 0.99, 0.01) + 0.001 * rows["probability"]
    rows.loc[own["FedAvg"] & hospital[3], "probability"] = better[own["FedAvg"] & hospital[3]]
    same = rows.loc[own["Local"] & hospital[2], "probability"].to_numpy()
    rows.loc[own["Ditto"] & hospital[2], "probability"] = same
    found = fs.assess(rows, ["auc", "brier", "calibration_slope"], control="Local", level=0.9)
    result = fs.inference.fairness(found)
    assert result.level == 0.9
    assert {*result.clients["metric"]} == {"auc", "brier"}  # of a slope neither more nor less is better
    for (metric, method), of in result.clients.groupby(["metric", "method"]):
        side, seen = {"auc": 1, "brier": -1}[metric], {}
        for one in of.itertuples():
            at = row(found.differences, metric=metric, method=method, over="client", name=one.client)
            assert (one.difference, one.low, one.high) == (at["difference"], at["low"], at["high"])
            ends = sorted((side * at["low"], side * at["high"]))
            seen[one.client] = (
                "gains" if ends[0] > 0 else "loses" if ends[1] < 0 else "undecided" if any(ends) else "ties"
            )
        assert seen == dict(zip(of["client"], of["outcome"], strict=True))
        assert (side * of["difference"]).is_monotonic_increasing  # worst first
        if method == "FedAvg":
            assert (seen["Hospital 1"], seen["Hospital 3"]) == ("loses", "gains")
        else:
            assert seen["Hospital 2"] == "ties"
        counted = row(result.table, metric=metric, method=method)
        assert counted["clients"] == 4
        assert {word: counted[word] for word in seen.values()} == dict(pd.Series(seen).value_counts())
    assert "FedAvg gains at Hospital 3 (by " in str(result)
    assert "loses at Hospital 1 (by " in str(result)
    assert "Ditto ties at Hospital 2." in str(result)
    assert found.conclusions[-1] in result.notes
    usual = fs.inference.fairness(rows)
    assert {*usual.table["metric"]} == {"auc", "brier", "accuracy"}
    assert usual.level == 0.95


def test_fairness_refuses_predictions_that_compare_nobody():
    rows = table(clients=2, seeds=1)
    for alone in (rows[rows["method"] == "Local"], rows[rows["client"] == 1]):
        with pytest.raises(ValueError, match="two methods at two clients"):
            fs.inference.fairness(alone)
    with pytest.raises(ValueError, match="two methods at two clients"):
        fs.inference.fairness(fs.assess(rows, "calibration_slope"))
    with pytest.raises(ValueError, match=r"level is that of the assessment, 0.9, got 0.8"):
        fs.inference.fairness(fs.assess(rows, "auc", level=0.9), level=0.8)
    with pytest.raises(ValueError, match="reference, clients and fresh_tests go with samples"):
        fs.inference.fairness(rows, clients=["a", "b"])
    with pytest.raises(ValueError, match="accuracy and samples must be matrices"):
        fs.inference.fairness([[0.5, 0.6]])


@settings(max_examples=4)
@given(st.integers(0, 4), st.floats(0.3, 3.0), st.permutations(range(4)))
def test_monotone_probabilities_and_new_numbers_of_clients_leave_areas(seed, power, places):
    rows = table(seed, seeds=2)
    found = fs.assess(rows, "auc")
    changed = rows.assign(probability=rows["probability"] ** power, client=np.array(places)[rows["client"]])
    again = fs.assess(changed, "auc")
    for one in ("clients", "differences"):
        keys = ["method", "name", *(["over"] if one == "differences" else [])]
        first, second = (
            getattr(of, one).sort_values(keys, ignore_index=True).drop(columns="client") for of in (found, again)
        )
        pd.testing.assert_frame_equal(first, second, rtol=1e-9)


def test_few_patients_alone_in_their_stratum_count_with_their_influence():
    influence = np.array([[0.5, -0.2, -0.3]])
    variance, df, between = over_patients(influence, np.zeros(3, int), np.array([1, 0, 0]), by_class=True)
    assert between == 0
    assert variance == pytest.approx([0.25 + 2 * 2 * 0.05**2])
    assert df == pytest.approx([variance[0] ** 2 / (0.25**2 + 0.01**2)])


def test_other_kinds_and_prints():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 60)
    shares = rng.dirichlet([1, 1, 1], 60)
    many = pd.DataFrame({"method": "a", "outcome": np.array(["x", "y", "z"])[classes]})
    many[["p_x", "p_y", "p_z"]] = shares
    times = pd.DataFrame(
        {"method": "a", "time": rng.random(60), "event": rng.integers(0, 2, 60), "risk": rng.random(60)}
    )
    numbers = pd.DataFrame({"method": "a", "outcome": rng.random(60), "value": rng.random(60)})
    for rows, metrics in ((many, ["auc", "log_loss"]), (times, None), (numbers, None)):
        found = fs.assess(rows, metrics)
        assert found.pooled["low"].notna().all()
        assert (found.pooled["low"] <= found.pooled["estimate"]).all()
        with pytest.raises(ValueError, match="two classes"):
            found.plot_roc()
        assert not any("saying no" in sentence for sentence in found.conclusions)
    told = fs.assess(many, "accuracy").conclusions[-2]
    assert "not shown to beat always naming the most frequent class, which is right for " in told
    assert len(fs.assess(many.head(1), "accuracy").conclusions) == 2
    found = fs.assess(table().assign(name="<b>Hôpital</b>"), "auc", pooled="clients")
    assert max(map(len, str(found).splitlines())) <= 120
    assert "<b>" not in found._repr_html_()
    assert found.to_markdown().count("\n| ") > 20
    assert len(found.to_csv().splitlines()) == 1 + 12 + 6 + 12


def drawn(ax):
    """Each method's curve, in the order of the legend."""
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    return {name: next(line for line in ax.lines if line.get_label() == name).get_xydata().T for name in names}


def of_runs(rows):
    """Outcomes and probabilities of each method, run by run."""
    for method, of in rows.groupby("method"):
        yield method, [(run["outcome"].to_numpy(), run["probability"].to_numpy()) for _, run in of.groupby("seed")]


@pytest.fixture
def pictured():
    import matplotlib.pyplot as plt

    rows = table(seeds=2).round({"probability": 2})  # with ties
    yield rows, fs.assess(rows, "auc")
    plt.close("all")


def test_pictures_name_each_method_in_the_legend_alone(pictured):
    for draw, words in (("calibration", []), ("roc", []), ("decision", ["treat none", "treat all"])):
        ax = getattr(pictured[1], f"plot_{draw}")(draws=50)
        assert list(drawn(ax)) == ["FedAvg", "Local", "Ditto"]
        assert [text.get_text() for text in ax.texts] == words
        assert "over patients, mean over 2 runs" in ax.get_xlabel()


def test_roc_curves_are_scikit_learns_averaged_over_runs(pictured):
    rows, found = pictured
    curves = drawn(found.plot_roc(draws=50))
    for method, runs in of_runs(rows):
        x, y = curves[method]
        each = [roc_curve(*run, drop_intermediate=False)[:2] for run in runs]
        np.testing.assert_allclose(y, np.mean([np.interp(x, *one) for one in each], axis=0))


def test_seeds_that_test_one_class_alone_have_no_roc_curve(pictured):
    rows, _ = pictured
    other = rows[rows["seed"] == 0].assign(seed=7, outcome=0, sample=lambda of: of["sample"] + 1000)
    whole = drawn(fs.assess(rows[rows["seed"] == 0], "auc").plot_roc(draws=50))
    found = fs.assess(pd.concat([rows[rows["seed"] == 0], other]), "brier")
    for method, curve in drawn(found.plot_roc(draws=50)).items():
        np.testing.assert_array_equal(curve, whole[method])
    found.plot_calibration(draws=50)
    none = fs.assess(other, "brier")
    for picture in ("calibration", "roc", "decision"):
        with pytest.raises(ValueError, match="with and without the event, got 0 events of 160"):
            getattr(none, f"plot_{picture}")()
    with pytest.raises(ValueError, match="with and without the event under one seed"):
        fs.assess(pd.concat([other, other.assign(seed=8, outcome=1, sample=other["sample"] + 1000)])).plot_roc()


def test_net_benefit_is_true_positives_less_false_ones_at_the_odds_of_the_threshold(pictured):
    rows, found = pictured
    ax = found.plot_decision(draws=50)
    for method, runs in of_runs(rows):
        for t, benefit in drawn(ax)[method].T:
            by_hand = [((y * (p >= t)).sum() - ((1 - y) * (p >= t)).sum() * t / (1 - t)) / len(y) for y, p in runs]
            assert benefit == pytest.approx(np.mean(by_hand), abs=1e-12)
    t, everyone = ax.lines[1].get_data()
    share = rows["outcome"].mean()
    np.testing.assert_allclose(everyone, share - (1 - share) * t / (1 - t))


def test_calibration_curves_are_local_means_over_logits(pictured):
    """The kernel is Gaussian, its width Silverman's over all logits of a method."""
    rows, found = pictured
    curves = drawn(found.plot_calibration(draws=50))
    for method, runs in of_runs(rows):
        y, p = np.concatenate(runs, axis=1)
        logits = stats.logistic.ppf(p).clip(-12, 12)
        width = 1.06 * logits.std() * (len(y) / len(runs)) ** -0.2
        x, share = curves[method]
        np.testing.assert_allclose(np.log(x / (1 - x))[[0, -1]], np.quantile(logits, [0.025, 0.975]))
        weights = stats.norm.pdf(np.log(x / (1 - x))[:, None], logits, width)
        np.testing.assert_allclose(share, weights @ y / weights.sum(axis=1))


def test_clients_that_are_all_right_or_all_wrong_leave_the_pooled_proportion_an_interval():
    rows = pd.DataFrame({"method": "A", "client": [0] * 12 + [1] * 4, "outcome": 1}).assign(probability=0.9)
    rows.loc[12:, "probability"] = 0.1
    more = rows.assign(outcome=0, probability=0.2)
    found = fs.assess(pd.concat([rows, more]), "sensitivity", threshold=0.5).pooled.iloc[0]
    low, high = proportion_confint(12, 16, method="wilson")
    np.testing.assert_allclose([found["low"], found["high"]], [low, high], rtol=1e-6)


def test_patients_who_are_tested_again_count_once_where_all_are_told_apart():
    rng, rows = np.random.default_rng(0), []
    for seed in range(20):
        half = rng.permutation(60)[:30]
        rows.append(pd.DataFrame({"method": "A", "seed": seed, "client": 0, "sample": half, "outcome": half % 2}))
    table = pd.concat(rows).assign(probability=lambda of: 0.1 + 0.8 * of["outcome"])
    found = fs.assess(table, "accuracy").pooled.iloc[0]
    least = proportion_confint(60, 60, method="wilson")[0]
    assert 0.85 < found["low"] < least + 0.02


def test_runs_with_one_proportion_leave_it_an_interval():
    right = np.tile(np.arange(40) < 36, 3)
    rows = pd.DataFrame(
        {"method": "A", "seed": np.repeat(range(3), 40), "client": 0, "sample": range(120), "outcome": 1}
    )
    found = fs.assess(rows.assign(probability=np.where(right, 0.9, 0.1)), "accuracy").pooled.iloc[0]
    low, high = proportion_confint(108, 120, method="wilson")
    np.testing.assert_allclose([found["low"], found["high"]], [low, high], rtol=1e-3)  # each run's mean is estimated


def test_splits_by_class_do_not_hide_that_patients_vary_in_their_class():
    """Who is called healthy each time is right for the healthy: in every split for as many, among others for others."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(5):
        who = np.concatenate([rng.permutation(30)[:9], 30 + rng.permutation(70)[:21]])
        rows.append(pd.DataFrame({"method": "A", "seed": seed, "client": 0, "sample": who, "outcome": 1 * (who < 30)}))
    table = pd.concat(rows).assign(probability=0.1)
    found, distinct = fs.assess(table, "accuracy").pooled.iloc[0], table["sample"].nunique()
    limits = proportion_confint(0.7 * distinct, distinct, method="wilson")
    np.testing.assert_allclose([found["low"], found["high"]], limits, rtol=0.01)


@pytest.mark.parametrize(("classes", "most"), [(2, 1.0), (3, 2.0)])
def test_limits_of_brier_scores_are_values_that_the_score_can_have(classes, most):
    right = np.eye(classes)[np.arange(12) % classes]
    rows = []
    for method, seed, wrong in [("a", 0, 0), ("a", 1, 12), ("b", 0, 12), ("b", 1, 0)]:  # all right, or all wrong
        p = np.where(np.arange(12)[:, None] < wrong, np.roll(right, 1, axis=1), right)
        told = {"probability": p[:, 1]} if classes == 2 else {f"p_{c}": p[:, c] for c in range(classes)}
        who = {"method": method, "seed": seed, "client": 0, "sample": np.arange(12)}
        rows.append(pd.DataFrame({**who, "outcome": np.arange(12) % classes, **told}))
    found = fs.assess(pd.concat(rows), "brier")
    assert found.pooled["high"].max() == most
    limits = found.differences[["low", "high"]].to_numpy()
    assert (limits.min(), limits.max()) == (-most, most)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_variances_over_patients_are_those_of_a_bootstrap_within_clients(kind):
    """Patients are drawn within their client, or within its classes where the metric speaks of these."""
    draws, n = 1000, 600
    rows, rng = of_kind(kind, 1, n, 2), np.random.default_rng(2)
    found = fs.assess(rows, KINDS[kind], control="FedAvg")
    first = rows.iloc[:n]
    y = first[["time", "event"]].to_numpy() if kind == "times" else first["outcome"].to_numpy()
    if kind == "classes":
        y = np.unique(y, return_inverse=True)[1]
    told = [name for name in rows if name in ("probability", "value", "risk") or name.startswith("p_")]
    p = rows[told].to_numpy().reshape(2, 2, n, -1).swapaxes(0, 1).reshape(4, n, -1)  # by method, then by seed
    p = p if kind == "classes" else p[..., 0]
    for name in KINDS[kind]:
        stratum = first["client"].to_numpy() + 2 * (y if METRICS[name].by_class else 0)
        strata, made = [np.flatnonzero(stratum == of) for of in np.unique(stratum)], np.empty((draws, 3))
        for b in range(draws):
            drawn = np.concatenate([rng.choice(of, len(of)) for of in strata])
            value = METRICS[name].of(y[drawn], p[:, drawn], 0.5)[0].reshape(2, 2).mean(axis=1)
            made[b] = *value, value[1] - value[0]
        where = {"metric": name, "over": "all patients"}
        by_influence = [row(found.pooled, method=of, **where)["variance (patients)"] for of in ("FedAvg", "Local")]
        by_influence.append(row(found.differences, **where)["variance (patients)"])
        squares = (made - made.mean(axis=0)) ** 2
        error = squares.std(axis=0) / np.sqrt(draws)
        np.testing.assert_array_less(np.abs(squares.mean(axis=0) - by_influence), 4 * error, err_msg=name)
