"""Variance components against exact expectations, closed forms, statsmodels' MixedLM and simulation."""

import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from fedstat.inference import by_source, components
from fedstat.inference.variance_components import _balanced, _closed, _label, mean_squares_interval


def crossed(rng, sizes, sds, noise, repeats=1):
    """A crossed table of main effects."""
    effects = {name: rng.normal(0, sd, sizes[name]) for name, sd in sds.items()}
    rows = [
        dict(zip(sizes, cell, strict=True)) for cell in product(*map(range, sizes.values())) for _ in range(repeats)
    ]
    table = pd.DataFrame(rows)
    value = sum(effects[name][table[name]] for name in sizes) + rng.normal(0, noise, len(table))
    return table.assign(value=0.7 + value)


DESIGNS = [
    ({"seed": 3, "client": 4}, {}, (), 1),
    ({"seed": 3, "client": 4}, {"client": "seed"}, (), 1),
    ({"seed": 3, "client": 2}, {"client": "seed"}, (), 3),
    ({"data": 2, "initial weights": 3, "batches": 4}, {}, (), 1),
    ({"method": 3, "seed": 4, "client": 2}, {"client": "seed"}, ("method",), 1),
    ({"method": 2, "seed": 3, "client": 4}, {}, ("method",), 2),
]


@pytest.mark.parametrize(("sizes", "parents", "fixed", "repeats"), DESIGNS)
def test_every_balanced_estimate_is_unbiased(sizes, parents, fixed, repeats):
    """An estimate is a quadratic form y'Qy; under the effects' covariance Z Z' its mean is the sum of it over columns.

    So the mean of each estimate under each single component is computed exactly, and must be one for its own
    component and zero for the others and for any fixed means.
    """
    names = list(sizes)
    shape = (*sizes.values(), repeats)
    terms = [t for t in _closed(names, parents) if not set(t) <= set(fixed)]
    place = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"))

    def estimates(y):
        return np.array([v for v, *_ in _balanced(y.reshape(shape), names, parents, terms, 0.95).values()])

    def columns(axes):
        cell = np.ravel_multi_index([place[a] for a in axes], [shape[a] for a in axes]).ravel()
        return np.eye(int(cell.max()) + 1)[cell].T

    sources = [[names.index(n) for n in term] for term in terms] + [list(range(len(shape)))] * (repeats > 1)
    means = np.array([sum(estimates(y) for y in columns(axes)) for axes in sources])
    np.testing.assert_allclose(means, np.eye(len(sources)), atol=1e-9)
    for term in [t for t in _closed(names, parents) if set(t) <= set(fixed)]:
        shift = np.random.default_rng(0).normal(size=len(columns([names.index(n) for n in term])))
        y = shift @ columns([names.index(n) for n in term])
        np.testing.assert_allclose(estimates(100 + y), 0, atol=1e-9)


def test_one_source_is_the_chi_square_interval():
    y = np.random.default_rng(1).normal(0.7, 0.02, 6)
    found = components(pd.DataFrame({"seed": range(6), "value": y}), sources=["seed"])
    sd = y.std(ddof=1)
    expected = 100 * sd * np.sqrt(5 / stats.chi2.ppf([0.975, 0.025], 5))
    np.testing.assert_allclose(found.table.loc["seed", ["sd", "low", "high"]].astype(float), [100 * sd, *expected])


def test_clients_in_seeds_are_searles_one_way_analysis():
    rng = np.random.default_rng(2)
    y = rng.normal(0.5, 0.05, (6, 1)) + rng.normal(0, 0.04, (6, 8))
    table = pd.DataFrame({"seed": np.repeat(range(6), 8), "client": list(range(8)) * 6, "value": y.ravel()})
    found = components(table, sources=["seed", "client"], nested={"client": "seed"}).table["variance"]
    between, within = 8 * y.mean(axis=1).var(ddof=1), y.var(axis=1, ddof=1).mean()
    np.testing.assert_allclose(found, [(between - within) / 8, within])
    # the numbers of the clients mean nothing: own numbers under every seed say the same
    renamed = table.assign(client=table["client"] + 10 * table["seed"])
    other = components(renamed, sources=["seed", "client"], nested={"client": "seed"}).table["variance"]
    np.testing.assert_allclose(other, found)


def mixed_lm(table, terms, means="value ~ 1"):
    data = table.assign(one=1, value=table["value"] / 0.05)
    spec = {name: f"0 + C({name})" if ":" not in name else f"0 + {name}" for name in terms}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm(means, data, groups="one", vc_formula=spec).fit(reml=True)
    found = dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True))
    return np.array([*[found[name] for name in terms], fit.scale]) * 0.05**2


def test_crossed_components_are_statsmodels_mixed_lm():
    rng = np.random.default_rng(3)
    table = crossed(rng, {"seed": 8, "client": 6}, {"seed": 0.03, "client": 0.04}, 0.02)
    found = components(table, sources=["seed", "client"], points=False)
    assert found.design == "balanced"
    np.testing.assert_allclose(found.table["variance"], mixed_lm(table, ["seed", "client"]), rtol=2e-3)


def test_nested_components_beside_fixed_methods_are_statsmodels_mixed_lm():
    rng = np.random.default_rng(4)
    table = crossed(
        rng, {"method": 2, "seed": 7, "client": 4}, {"method": 0.05, "seed": 0.04, "client": 0.0}, 0.02, repeats=2
    )
    own = rng.normal(0, 0.03, (7, 4))
    table["value"] += own[table["seed"], table["client"]]
    pooled = table.drop(columns="method")
    found = components(pooled, sources=["seed", "client"], nested={"client": "seed"}, points=False)
    data = table.assign(cell=table["seed"] * 10 + table["client"])
    np.testing.assert_allclose(found.table["variance"], mixed_lm(data, ["seed", "cell"]), rtol=2e-3)
    sources = {"sources": ["method", "seed", "client"], "nested": {"client": "seed"}, "fixed": ["method"]}
    beside = components(table, **sources, points=False)
    # what methods have in common is no variance, however far apart they are
    apart = components(table.assign(value=table["value"] + 3 * table["method"]), **sources, points=False)
    np.testing.assert_allclose(apart.table["variance"], beside.table["variance"], rtol=1e-3, atol=1e-8)
    assert "leaves method × seed, method × client in seed, residual" in beside.note


def one_at_a_time(together=True, sds=(0.02, 0.01, 0.003), runs=7, seed=0, interaction=0.0):
    rng = np.random.default_rng(seed)
    names = ["data", "initial weights", "batches"]
    common = dict.fromkeys(names, 0)
    rows = [common] + [{**common, name: i} for name in names for i in range(1, runs)]
    rows += [dict.fromkeys(names, i) for i in range(1, runs)] * together
    table = pd.DataFrame(rows)
    effects = {name: rng.normal(0, sd, runs) for name, sd in zip(names, sds, strict=True)}
    values = sum(effects[name][table[name]] for name in names)
    pairs = rng.normal(0, interaction, (runs, runs))
    return table.assign(value=0.6 + values + pairs[table["data"], table["batches"]]), names


def test_one_source_at_a_time():
    table, names = one_at_a_time()
    found = components(table, sources=names)
    assert found.design == "one at a time"
    for name in names:
        others = [n for n in names if n != name]
        own = table.loc[(table[others] == 0).all(axis=1), "value"]
        assert len(own) == 7
        limits = np.sqrt(6 * own.var() / stats.chi2.ppf([0.975, 0.025], 6))
        np.testing.assert_allclose(
            found.table.loc[name, ["sd", "low", "high"]].astype(float), 100 * np.array([own.std(), *limits])
        )
    left = table.iloc[[0, *range(-6, 0)]]["value"].var() - found.table["variance"][names].sum()
    assert found.table.loc["left over", "variance"] == pytest.approx(left)
    assert "the difference is not resolved" in str(found)
    assert "data has the largest share of the spread" in str(found)
    alone = components(one_at_a_time(together=False)[0], sources=names)
    assert list(alone.table.index) == names
    assert "runs in which all vary would show what is left over" in str(alone)


def test_sources_that_interact_vary_less_together():
    table, names = one_at_a_time(runs=60, interaction=0.05)
    found = components(table, sources=names)
    assert found.table.loc["left over", "variance"] < 0
    assert "so the sources interact" in found.note
    table, names = one_at_a_time(runs=60)
    unnamed = 0.1 * (np.arange(len(table)) % 2) * (table[names] > 0).all(axis=1)
    found = components(table.assign(value=table["value"] + unnamed), sources=names)
    assert "so a source is not named" in found.note
    assert found.table.loc["left over", "sd"] == pytest.approx(5, abs=1)


def test_limits_of_a_single_mean_square_and_of_a_difference():
    one = mean_squares_interval(np.array([0.5, 0.0]), np.array([3.0, 9.0]), np.array([7, 4]), 0.9)
    np.testing.assert_allclose(one, [1.5, 0.5 * 21 / stats.chi2.isf(0.05, 7), 0.5 * 21 / stats.chi2.ppf(0.05, 7)])
    # exact where it can be: a difference of mean squares has the lower limit zero where F is at its quantile
    f = stats.f.isf(0.05, 7, 4)
    low = mean_squares_interval(np.array([1.0, -1.0]), np.array([f, 1.0]), np.array([7, 4]), 0.9)[1]
    assert low == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "clients", "share"), [(5, 10, 0.1), (5, 10, 2.0), (10, 5, 0.5)])
def test_intervals_of_crossed_components_cover(seeds, clients, share):
    rng = np.random.default_rng(7)
    repeats, terms = 1000, _closed(["seed", "client"], {})
    variances = np.array([share, 1.0, 0.5])
    covered = np.zeros(3)
    for _ in range(repeats):
        a, b = rng.normal(0, np.sqrt(share), (seeds, 1, 1)), rng.normal(size=(1, clients, 1))
        y = a + b + rng.normal(0, np.sqrt(0.5), (seeds, clients, 1))
        found = np.array(list(_balanced(y, ["seed", "client"], {}, terms, 0.95).values()))
        covered += (found[:, 1] <= variances) & (variances <= found[:, 2])
    assert (covered / repeats > 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats)).all()
    assert covered[2] / repeats < 0.97


def test_terms_are_named_by_what_lies_within_what():
    parents = {"client": "seed"}
    terms = [_label(t, parents) for t in _closed(["method", "seed", "client"], parents)]
    assert terms == ["method", "seed", "method × seed", "client in seed", "method × client in seed"]


def table():
    return crossed(np.random.default_rng(8), {"seed": 4, "client": 3}, {"seed": 0.02, "client": 0.02}, 0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda t: components(t.assign(method=t.index % 2), sources=["seed", "client"]),
            "keep the rows of one, or name",
        ),
        (lambda t: components(t, sources=["seed", "weights"]), r"lacks the columns \['weights'\]; it has \['seed'"),
        (lambda t: components(t, sources=["seed", "seed"]), "each once"),
        (lambda t: components(t[t["seed"] == 1], sources=["seed", "client"]), r"\['seed'\] has one level only"),
        (lambda t: components(t.assign(value=0.5), sources=["seed"]), "same in all rows: no spread"),
        (lambda t: components(t.assign(value=np.nan), sources=["seed"]), "value misses 12 of 12 values"),
        (lambda t: components(t.assign(value=t["value"] + 3), sources=["seed"]), "Pass points=False"),
        (lambda t: components(t.assign(data=t["seed"]), sources=["seed", "data"]), "seed and data change together"),
        (
            lambda t: components(t.assign(client=range(12)), sources=["seed", "client"]),
            r"every level of client occurs under one level of seed only. .* nested=\{'client': 'seed'\}",
        ),
        (lambda t: components(t, sources=["seed"], fixed=["method"]), r"speak of the sources .* got \['method'\]"),
        (lambda t: components(t, sources=["seed"], fixed=["seed"]), "no seed or client is left"),
        (lambda t: components(t, sources=["seed", "client"], nested={"client": "client"}), "nested must name"),
        (lambda t: components(t, sources=["seed"], level=95), "For 95% write 0.95"),
        (lambda t: components(t.iloc[1:], sources=["seed", "client"]), "unbalanced: its 11 rows are not equally many"),
        (lambda t: components(t.assign(seed=None), sources=["seed"]), r"\['seed'\] have rows without a label"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make(table())


def test_runs_that_vary_one_source_at_a_time_are_the_table_that_is_split():
    rng = np.random.default_rng(0)
    sources = ["partition", "batches"]

    def run(source, spread):
        values = 0.6 + np.r_[0, spread * rng.normal(size=5)]  # the first run is common to all
        rows = [("A", s, t, 0, "personal", "test", "accuracy", v) for s, v in enumerate(values) for t in (1, 2)]
        names = ["method", "seed", "round", "client", "estimand", "split", "metric", "value"]
        return SimpleNamespace(
            history=pd.DataFrame(rows, columns=names), config={"vary": [source], "seeds": list(range(6))}
        ), values

    runs = {source: run(source, spread) for source, spread in zip(sources, (0.05, 0.001), strict=True)}
    table = by_source([result for result, _ in runs.values()], last=1)
    assert len(table) == 11
    np.testing.assert_allclose(table.query("batches == 0")["value"], runs["partition"][1])
    assert (table[["data", "participants", "initial weights"]] == 0).all(axis=None)
    found = components(table, sources=sources).table
    np.testing.assert_allclose(
        found.loc[sources, "sd"], [100 * values.std(ddof=1) for _, values in runs.values()], rtol=1e-6
    )
    other = runs["batches"][0]
    other.config["training"] = {"lr": 0.1}
    with pytest.raises(ValueError, match=r"result 1 and result 2 differ in training.lr \(none and 0.1\)"):
        by_source([runs["partition"][0], other], last=1)
    with pytest.raises(ValueError, match="result 1 does not say which sources varied"):
        by_source(runs["batches"][0].history)


def test_the_largest_source_is_called_so_only_where_no_other_interval_reaches_it():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 12))
    draws = (draws - draws.mean(axis=1, keepdims=True)) / draws.std(axis=1, ddof=1, keepdims=True)
    for spread, words in ((0.03, "it could also be batches"), (0.002, "no other interval reaches its own")):
        rows = [(i, 0, 0.6 + 0.04 * v) for i, v in enumerate(draws[0])]
        rows += [(0, i, 0.6 + spread * v) for i, v in enumerate(draws[1], 1)]
        found = components(pd.DataFrame(rows, columns=["data", "batches", "value"]), sources=["data", "batches"])
        assert "data has the largest share" in str(found)
        assert words in str(found)
