"""Pictures of comparisons: what is drawn where, for few and many methods."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from fedstat.inference import Design
from fedstat.inference.comparing.bands import simultaneous_band
from fedstat.inference.comparing.drawing import client_gains, draw_ranks
from tests.support.comparisons import comparison, scores

MANY = [f"method {i}" for i in range(30)]


@pytest.fixture(autouse=True)
def closed():
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


def inside(ax):
    """Whether all words of a figure lie in it."""
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    width, height = figure.get_size_inches() * figure.dpi
    legend = ax.get_legend()
    words = [*ax.texts, ax.xaxis.label, ax.yaxis.label]
    if ax.axison:
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            words += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [word.get_window_extent(renderer) for word in words if word.get_text()]
    boxes += [] if legend is None else [legend.get_window_extent(renderer)]
    return all(b.x0 > -2 and b.x1 < width + 2 and b.y0 > -2 and b.y1 < height + 2 for b in boxes)


def legend_of(ax):
    return [words.get_text() for words in ax.get_legend().get_texts()]


@pytest.mark.parametrize("control", ["FedAvg", None])
@pytest.mark.parametrize("others", [["Local"], ["Local", "Ditto with $5$ epochs " + "and a long name " * 4, "κ"], MANY])
def test_every_word_lies_in_the_picture(control, others):
    of = comparison(scores(["FedAvg", *others]), control=control, margin=0.02)
    for ax in (of.plot(), of.curves(), of.clients(against="FedAvg")):
        assert inside(ax)


def test_a_forest_shows_each_difference_sorted_with_its_limits():
    of = comparison(scores(["FedAvg", "Local", "Ditto", "FedPer"], gap=0.03), control="FedAvg", margin=0.01)
    ax = of.plot()
    table = of.differences.sort_values("difference")
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table["method"])
    (lines,) = ax.collections
    drawn = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(drawn, 100 * table[["low", "high"]].to_numpy())
    points = {x: y for line in ax.lines[1:] for x, y in zip(*line.get_data(), strict=True)}
    np.testing.assert_allclose(sorted(points), np.sort(100 * table["difference"]))
    assert legend_of(ax)[0] == "margin of 1 point"
    assert "simultaneous 95% limits; better at the right" in ax.get_xlabel()
    own = of.plot(ax.figure.add_subplot())
    assert own.figure is ax.figure


def test_a_forest_without_spread_has_points_and_without_differences_is_refused():
    of = comparison(scores(["FedAvg", "Local"]), control="FedAvg")
    flat = of.differences.assign(low=np.nan, high=np.nan, outcome="no spread")
    ax = comparison(of.scores, control="FedAvg", differences=flat).plot()
    assert legend_of(ax) == ["no spread"]
    assert "no limits" in ax.get_xlabel()
    with pytest.raises(ValueError, match="no differences to draw; they need two methods with two common seeds"):
        comparison(scores(["FedAvg", "Local"], seeds=1)).plot()


def test_of_many_pairs_the_largest_are_drawn():
    ax = comparison(scores(MANY)).plot()
    assert len(ax.get_yticks()) == 45
    assert "the 45 largest of 435 differences" in ax.get_xlabel()


def test_curves_draw_the_means_and_say_what_the_band_is():
    of = comparison(scores(["FedAvg", "Local"]), control="FedAvg")
    ax = of.curves()
    for line, curve in zip([ax.lines[0], ax.lines[3]], of.scores.curves.mean(axis=1), strict=True):
        np.testing.assert_allclose(line.get_ydata(), 100 * curve)
    assert "95% limits (Bonferroni's t) that hold together at the marked rounds\nand for 2 methods" in ax.get_xlabel()
    assert legend_of(ax) == ["FedAvg", "Local"]
    assert "one seed: no band" in comparison(scores(["FedAvg", "Local"], seeds=1)).curves().get_xlabel()
    assert legend_of(comparison(scores(MANY), control="method 0").curves())[-1] == "24 other methods"


def test_a_band_is_drawn_only_where_it_lies_in_the_picture_and_the_note_names_whose_is_not():
    of = scores(["FedAvg", "Local", "Ditto"], seeds=3, sd=0.0)
    spread = np.array([0.0, 0.2, 0.01])[:, None, None] * np.array([-1, 0, 1])[:, None] * np.linspace(0, 1, 30)
    of = replace(of, curves=of.curves.mean(axis=1, keepdims=True) + spread)
    ax, band = comparison(of).curves(), simultaneous_band(of)
    bottom, top = ax.get_ylim()
    solid = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert list(solid) == list(of.methods)
    for i, (name, line) in enumerate(solid.items()):
        place = list(ax.lines).index(line)
        mean, low, high = (own.get_ydata() for own in ax.lines[place : place + 3])
        half = 100 * np.interp(np.arange(30), band.places, band.half[i])
        fits = (mean - half >= bottom) & (np.minimum(mean + half, 100) <= top)
        assert fits.all() == (name != "Local")
        assert not fits[-1] or name != "Local"
        np.testing.assert_allclose(low, np.where(fits, mean - half, np.nan))
        np.testing.assert_allclose(high, np.where(fits, np.minimum(mean + half, 100), np.nan))
    assert " ".join(ax.get_xlabel().split()).endswith("not drawn where too wide for the picture: Local")
    assert "too wide" not in comparison(replace(of, curves=of.curves[[0, 2, 2]])).curves().get_xlabel()


def test_curves_over_bytes_need_the_bytes():
    of = comparison(scores(["FedAvg", "Local"]))
    spent = np.arange(1, 31) * np.array([[[1e6]], [[2e6]]]) * np.ones((2, 5, 1))
    known = comparison(replace(of.scores, spent=spent))
    ax = known.curves(axis="bytes")
    assert "MB sent up and down" in ax.get_xlabel()
    np.testing.assert_allclose(ax.lines[3].get_xdata(), 2 * np.arange(1, 31))
    with pytest.raises(ValueError, match="the bytes that rounds cost are not known"):
        of.curves(axis="bytes")
    with pytest.raises(ValueError, match=r'axis must be "rounds" or "bytes", got .flops.'):
        of.curves(axis="flops")
    with pytest.raises(ValueError, match="it needs values after two rounds"):
        comparison(replace(of.scores, rounds=np.arange(0), curves=np.empty((2, 5, 0)))).curves()


def test_a_band_leaves_no_missing_value_out_and_counts_no_absent_run():
    of = scores(["A", "B"], seeds=4, rounds=16)
    curves = of.curves.copy()
    curves[0, 3] = np.nan  # a run that is not there
    curves[1, 2, 15] = np.nan  # a value that is missing
    band = simultaneous_band(replace(of, curves=curves))
    np.testing.assert_allclose(band.curves[0], curves[0, :3].mean(axis=0))
    assert np.isnan(band.curves[1, 15])
    assert np.isfinite(band.curves[1, :15]).all()
    assert np.isnan(band.half[1, -1])
    assert np.isfinite(band.half[1, :-1]).all()
    assert (band.places[0], band.places[-1], len(band.places)) == (0, 15, 8)
    assert list(simultaneous_band(scores(["A"], rounds=5)).places) == [0, 1, 2, 3, 4]
    one = scores(["A"], rounds=2)  # two limits of one method: the t limits at 97.5%
    low, high = stats.ttest_1samp(one.curves[0, :, 1], 0).confidence_interval(0.975)
    assert simultaneous_band(one).half[0, 1] == pytest.approx((high - low) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("methods", [2, 10])
def test_bands_cover_marked_rounds_and_methods_together(seeds, methods):
    """The coverage of 95% bands for correlated rounds of unequal variance is at least 95%, up to the simulation."""
    rng = np.random.default_rng(7)
    of = scores([f"m{i}" for i in range(methods)], seeds=seeds, rounds=40)
    t = np.arange(40)
    truth = 0.8 * (1 - np.exp(-t / 8))
    root = np.linalg.cholesky(0.95 ** np.abs(t[:, None] - t) + 1e-9 * np.eye(40))
    sd = np.linspace(0.03, 0.005, 40) * np.linspace(1, 4, methods)[:, None, None]
    hit = []
    for _ in range(600):
        common = rng.normal(0, 0.02, (seeds, 1))
        noise = sd * (rng.normal(size=(methods, seeds, 40)) @ root.T)
        band = simultaneous_band(replace(of, curves=truth + common + noise))
        hit.append((np.abs(band.curves - truth)[:, band.places] <= band.half).all())
    assert np.mean(hit) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 600)


def test_gains_of_clients_are_means_over_seeds_unless_clients_are_drawn_anew():
    same = scores(["FedAvg", "Local"], seeds=3, clients=6)
    gains, noise, new = client_gains(same, "Local", "FedAvg")
    assert not new
    np.testing.assert_allclose(gains, (same.values[1] - same.values[0]).mean(axis=0))
    share = same.values.mean(axis=0)
    np.testing.assert_allclose(noise, np.sqrt(2 * share * (1 - share) / same.samples).mean(axis=0))
    anew = scores(["FedAvg", "Local"], seeds=3, clients=6, same_clients=False)
    gains, _, new = client_gains(anew, "Local", "FedAvg")
    assert new
    assert gains.shape == (18,)
    drawn = client_gains(same, "Local", "FedAvg", Design(clients="new", data="drawn"))
    assert (drawn[2], len(drawn[0])) == (True, 18)  # though test sets are of one size
    assert client_gains(replace(same, samples=None), "Local", "FedAvg")[1] is None
    assert client_gains(replace(same, metric="auc"), "Local", "FedAvg")[1] is None


def test_the_picture_of_clients_counts_who_gains_and_who_loses():
    of = comparison(scores(["FedAvg", "Local"], seeds=3, clients=50, gap=0), control="FedAvg")
    gains = client_gains(of.scores, "Local", "FedAvg")[0]
    ax = of.clients()
    assert legend_of(ax) == [
        f"better on average ({(gains > 0).sum()})",
        f"worse on average ({(gains < 0).sum()})",
        "test noise alone, at most (95%)",
    ]
    heights = sorted(bar.get_height() for bar in ax.patches)
    np.testing.assert_allclose(heights, np.sort(100 * gains))
    loss = comparison(scores(["FedAvg", "Local"], metric="log_loss", clients=50, gap=0), control="FedAvg")
    gains = client_gains(loss.scores, "Local", "FedAvg")[0]
    assert legend_of(loss.clients()) == [
        f"better on average ({(gains < 0).sum()})",
        f"worse on average ({(gains > 0).sum()})",
    ]


def test_clients_need_two_methods():
    of = comparison(scores(["FedAvg", "Local"]))
    with pytest.raises(ValueError, match="against must name a method, since the comparison has no control"):
        of.clients()
    with pytest.raises(ValueError, match="method must be one of FedAvg, Local, got 'Ditto'"):
        of.clients(method="Ditto")
    with pytest.raises(ValueError, match="method and against are both 'Local'"):
        of.clients(method="Local", against="Local")


@pytest.mark.parametrize("m", [2, 5, 30])
def test_ranks_stand_where_they_are_and_groups_are_joined(m):
    at = np.linspace(1.1, m - 0.1, m)
    names = [f"a method with a long label, number {i}" for i in range(m)]
    ranks = SimpleNamespace(
        methods=names, mean_ranks=at, critical_difference=1.5, groups=[(names[1], names[0])], p=0.01, settings=9
    )
    ax = draw_ranks(ranks)
    assert inside(ax)
    bars = [line for line in ax.lines if line.get_linewidth() > 2]
    assert len(bars) == 1
    low, high = bars[0].get_xdata()
    assert low == pytest.approx(at[0], abs=0.02 * m)
    assert high == pytest.approx(at[1], abs=0.02 * m)
    shown = [words.get_text() for words in ax.texts if words.get_text().endswith(")")]
    assert len(shown) == m
    assert shown[0].endswith(f"({at.min():.2f})")
