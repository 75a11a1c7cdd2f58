"""Rules by which the server combines changes: independent oracles, attackers, whole runs, and who refuses them."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.spatial import distance
from torch import nn

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import set_up
from fedstat.federated.aggregators import AGGREGATORS, Bulyan, ClippedMean, GeometricMedian, Krum, Median, TrimmedMean
from fedstat.testing import check_aggregator
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import plain_net
from tests.support.runs import KEY, STEP, equal, run

RULES = {
    "median": Median(),
    "trimmed-mean": TrimmedMean(0.2),
    "geometric-median": GeometricMedian(),
    "krum": Krum(f=1, kept=2),
    "bulyan": Bulyan(f=1),
    "clipped-mean": ClippedMean(0.5),
}
#: A rule, its n participants, the fewest liars who can take it anywhere, and how many diameters of the honest changes
#: fewer liars can move it out of their range. Medians break at half (CL-91, and CL-85 of the geometric one), a trimmed
#: mean beyond its share (CL-92). For b liars it is 2 (n - b) / (n - 2 b) under the geometric median. Krum and Bulyan
#: with as few participants as may be withstand more liars than they promise. Under Krum f + 1 leave n - f - 2 honest
#: neighbours to an honest change, and are too few to be all of a lie's: one of these is within sqrt(n - f - 2). Of
#: Bulyan's five choices the last lie has honest neighbours alone, one of them within 1; so three choices, and with
#: them the median, are within 1 of the range, and what is averaged is within 3 of the median. No number of liars takes
#: a clipped mean anywhere; each moves it by its weight times the largest norm, at most.
BREAKDOWN = {
    "median": (Median(), 11, 6, 0),
    "trimmed-mean": (TrimmedMean(0.3), 11, 4, 0),
    "geometric-median": (GeometricMedian(), 11, 6, 12),
    "krum": (Krum(f=4), 11, 6, 5**0.5),
    "multi-krum": (Krum(f=4, kept=5), 11, 6, 5**0.5),
    "bulyan": (Bulyan(f=1), 7, 4, 4),
}


def changes_of(seed, m, d=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.dirichlet(np.ones(m))


def called(rule, x, weight):
    return rule(torch.from_numpy(x), torch.from_numpy(weight)).numpy()


def nearest(x, left, f):
    """Krum's scores of the participants `left`, by loops."""
    found = {}
    for i in left:
        others = sorted(float(((x[i] - x[j]) ** 2).sum()) for j in left if j != i)
        found[i] = sum(others[: max(1, len(left) - f - 2)])
    return found


def krum(x, weight, f, kept):
    scores = nearest(x, range(len(x)), f)
    return x[sorted(scores, key=scores.get)[:kept]].mean(0)


def bulyan(x, weight, f):
    left, chosen = list(range(len(x))), []
    while len(chosen) < len(x) - 2 * f:
        scores = nearest(x, left, f)
        total = {i: sum(((x[i] - x[j]) ** 2).sum() for j in left) for i in left}
        best = min(scores, key=lambda i: (round(scores[i], 12), total[i]))
        left.remove(best)
        chosen.append(best)
    found = []
    for column in x[chosen].T:
        middle = np.median(column)
        found.append(np.mean(sorted(column, key=lambda v: abs(v - middle))[: len(chosen) - 2 * f]))
    return np.array(found)


def geometric_median(x, weight):
    return optimize.minimize(
        lambda point: weight @ np.linalg.norm(x - point, axis=1), np.median(x, 0), method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000},
    ).x  # fmt: skip


def clipped(x, weight):
    return sum(w * row * min(1, 0.5 / np.linalg.norm(row)) for w, row in zip(weight, x, strict=True))


ORACLES = {
    "median": lambda x, w: np.median(x, 0),
    "trimmed-mean": lambda x, w: stats.trim_mean(x, 0.2),
    "krum": lambda x, w: krum(x, w, 1, 2),
    "bulyan": lambda x, w: bulyan(x, w, 1),
    "clipped-mean": clipped,
}


@pytest.mark.parametrize("name", ORACLES)
@given(seed=st.integers(0, 2**32), m=st.integers(7, 14))
@settings(max_examples=25, deadline=None)
def test_rules_are_their_plain_loops(name, seed, m):
    x, weight = changes_of(seed, m)
    np.testing.assert_allclose(called(RULES[name], x, weight), ORACLES[name](x, weight), rtol=0, atol=1e-12)


def test_more_than_half_of_the_weight_is_the_geometric_median_whatever_the_heads_say():
    """Three who agree from afar hold 47% of the weight; and one who holds 51% is moved by no other."""
    two = np.array([[0.0, 0.0]] * 2 + [[5.0, 5.0]] * 3), np.array([0.265] * 2 + [0.47 / 3] * 3)
    one = np.array([[0.0], [1e6], [2e6]]), np.array([0.51, 0.245, 0.245])
    for x, weight in (two, one):
        np.testing.assert_allclose(called(GeometricMedian(), x, weight), x[0], atol=1e-12)


@pytest.mark.parametrize(
    ("x", "due"),
    [
        ([[1.0, 2.0], [3.0, 8.0]], [2.0, 5.0]),
        ([[2.0], [0.0], [5.0], [1.0]], [1.5]),
        ([[0.0], [0.0], [4.0], [4.0]], [2.0]),
    ],
)
def test_of_several_medians_none_is_taken_for_its_place(x, due):
    """Two clients of equal weight: their mean, and neither's change."""
    for rows in (x, x[::-1]):
        np.testing.assert_allclose(
            called(GeometricMedian(), np.array(rows), np.full(len(x), 1 / len(x))), due, atol=1e-9
        )


@pytest.mark.parametrize("seed", range(3))
def test_the_geometric_median_has_the_smallest_sum_of_distances(seed):
    x, weight = changes_of(seed, 9)
    np.testing.assert_allclose(
        called(GeometricMedian(steps=10000), x, weight), geometric_median(x, weight), rtol=0, atol=1e-5
    )


def test_bulyan_chooses_more_than_it_averages():
    """Where nobody may be malicious Bulyan is the mean, and Krum with all kept is, too."""
    x, weight = changes_of(0, 9)
    np.testing.assert_allclose(called(Bulyan(f=0), x, weight), x.mean(0), atol=1e-12)
    np.testing.assert_allclose(called(TrimmedMean(0), x, weight), x.mean(0), atol=1e-12)


@pytest.mark.parametrize(("share", "n", "out"), [(0.29, 100, 29), (0.3, 10, 3), (0.3, 11, 3), (0.5 - 1e-12, 2, 0)])
def test_a_share_that_floats_round_down_leaves_out_as_many_as_it_says(share, n, out):
    x = np.exp(np.arange(n) / 10)[:, None]
    expected = np.sort(x, axis=0)[out : n - out].mean(0)
    np.testing.assert_allclose(called(TrimmedMean(share), x, np.full(n, 1 / n)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_rules_obey_their_laws(name):
    assert isinstance(RULES[name], AGGREGATORS[name])
    check_aggregator(RULES[name])


def bounds(honest, diameters):
    """The range of each coordinate, widened by so many diameters, and by rounding."""
    wider = diameters * distance.pdist(honest).max() + 1e-9
    return honest.min(0) - wider, honest.max(0) + wider


@pytest.mark.parametrize("name", BREAKDOWN)
@given(
    seed=st.integers(0, 2**32),
    far=st.sampled_from([0.5, 2.0, 5.0, 1e2, 1e6, 1e12, 1e200, np.inf, np.nan]),
    together=st.booleans(),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_fewer_liars_than_break_a_rule_move_nothing_far(name, seed, far, together, data):
    """Whatever they send, near or far, one lie or many, or no numbers; at least f of them for a rule with an f."""
    rule, n, breaks, diameters = BREAKDOWN[name]
    liars = data.draw(st.integers(getattr(rule, "f", 1), breaks - 1))
    x, rng = np.random.default_rng(seed).normal(size=(n, 4)), np.random.default_rng([seed, 1])
    x[:liars] = far * (rng.normal(size=4) if together else rng.normal(size=(liars, 4)))
    low, high = bounds(x[liars:], diameters)
    found = called(rule, x, np.full(n, 1 / n))
    assert (low <= found).all()
    assert (found <= high).all()


@pytest.mark.parametrize("name", BREAKDOWN)
@pytest.mark.parametrize("seed", range(5))
def test_one_liar_more_takes_a_rule_anywhere(name, seed):
    """All tell the same lie; of a trimmed mean, one of them is left in."""
    rule, n, breaks, diameters = BREAKDOWN[name]
    x = np.random.default_rng(seed).normal(size=(n, 4))
    x[:breaks] = 1e9
    wanted = (1e9 + np.sort(x[breaks:], 0)[3:].sum(0)) / 5 if name == "trimmed-mean" else x[0]
    found = called(rule, x, np.full(n, 1 / n))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert (found > bounds(x[breaks:], diameters)[1]).all()


@given(
    seed=st.integers(0, 2**32),
    m=st.integers(1, 12),
    far=st.sampled_from([0.01, 0.5, 2.0, 1e2, 1e6, 1e12, 1e200, np.inf, np.nan]),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_liars_move_a_clipped_mean_by_their_weight_times_its_norm_and_no_further(seed, m, far, data):
    """From where it is without them, as far with one lie of all and no farther with many, be they all clients."""
    liars, together = data.draw(st.integers(0, m)), data.draw(st.booleans())
    (x, weight), rng = changes_of(seed, m), np.random.default_rng([seed, 1])
    without, lie = x.copy(), rng.normal(size=(1 if together else liars, 4))
    without[:liars], x[:liars] = 0, far * lie / np.linalg.norm(lie, axis=1, keepdims=True)
    moved = np.linalg.norm(called(ClippedMean(0.5), x, weight) - called(ClippedMean(0.5), without, weight))
    most = 0.5 * weight[:liars].sum()
    assert moved <= most * (1 + 1e-9) + 1e-15
    if together and 0.5 <= far <= 1e12:
        assert moved == pytest.approx(most, rel=1e-9, abs=1e-15)


def test_between_two_halves_the_median_is_their_mean():
    x = np.concatenate([np.zeros((5, 1)), np.full((5, 1), 1e9)])
    assert called(Median(), x, np.full(10, 0.1)) == 5e8


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_change_that_is_not_finite_counts_as_none(name, value):
    x, weight = changes_of(0, 9)
    zeroed, x[4, 2] = x.copy(), value
    zeroed[4] = 0
    np.testing.assert_array_equal(called(RULES[name], x, weight), called(RULES[name], zeroed, weight))


@dataclass(frozen=True)
class Silent:
    """Attackers who send no change."""

    share: float

    def __call__(self, changes, malicious, rng):
        return 0 * changes[malicious]


@pytest.mark.parametrize("name", RULES)
def test_a_run_that_an_attack_would_drive_to_infinity_goes_on_under_a_rule(name):
    how = {"model": fs.models.mlp(3, 5, 2), "clients": vector_clients(9), "participation": 1.0, "dtype": "float32"}
    attacks = fs.attacks.SignFlip(0.2, scale=1e300), Silent(0.2)
    equal(*(run(fs.FedAvg(aggregator=RULES[name]), attack=attack, **how) for attack in attacks), atol=0)
    with pytest.raises(FloatingPointError, match="infinite or NaN in round 2"):
        run(fs.FedAvg(), attack=attacks[0], **how)


@pytest.mark.parametrize("method", [fs.FedAvg, fs.methods.FedPer, fs.methods.FedProx], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", RULES)
def test_a_round_is_the_rule_of_what_is_shared(name, method):
    clients = vector_clients(9)
    rounds = fs.rounds(
        method(aggregator=RULES[name]), fs.models.mlp(3, 5, 2), clients, fs.Training(lr=0.2), dtype="float64"
    )
    for now, _ in zip(rounds, range(2), strict=False):
        (update,), (state,) = now.updates.values(), now.states.values()
        shared = [n for n in state.server if n not in state.shared]
        changes = torch.cat([(update.end[n] - update.start[n]).flatten(1) for n in shared], 1)
        moved = torch.cat([(state.server[n] - update.start[n][0]).flatten() for n in shared])
        torch.testing.assert_close(moved, RULES[name](changes, update.weight), rtol=0, atol=1e-12)
        for n in state.clients:
            torch.testing.assert_close(state.clients[n], update.end[n], rtol=0, atol=0)


def test_a_server_optimizer_steps_to_what_the_rule_gives():
    plain, half = (
        next(fs.rounds(fs.FedAvg(aggregator=Median(), server=server), fs.models.mlp(3, 5, 2), vector_clients(),
                       fs.Training(lr=0.2), dtype="float64"))
        for server in (None, fs.server.SGD(lr=0.5))
    )  # fmt: skip
    ((update,), (one,)), (two,) = (plain.updates.values(), plain.states.values()), half.states.values()
    for n, leaf in one.server.items():
        start = update.start[n][0]
        torch.testing.assert_close(two.server[n] - start, (leaf - start) / 2, rtol=0, atol=1e-12)


def normed():
    layers = (nn.Flatten(), nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
    return nn.Sequential(*layers)


def test_running_statistics_come_to_medians_and_no_rule_sees_them():
    x, y, client = 10 * np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 2, np.arange(90) // 10
    clients = fs.data.from_arrays(x, y, client, test=0)
    now = next(fs.rounds(fs.FedAvg(aggregator=ClippedMean(1.0)), normed, clients, STEP, dtype="float64"))
    (update,), (state,) = now.updates.values(), now.states.values()
    change = {n: update.end[n] - update.start[n] for n in state.server}
    running = {n for n in change if "running" in n}
    norms = [
        torch.cat([change[n].flatten(1) for n in some], 1).norm(dim=1) for some in (running, change.keys() - running)
    ]
    assert norms[0].min() > 1 > norms[1].max(), "statistics alone would be cut"
    for n, leaf in state.server.items():
        mean = torch.tensordot(update.weight, change[n], 1)
        moved = change[n].quantile(0.5, dim=0) if n in running else mean
        torch.testing.assert_close(leaf - update.start[n][0], moved, rtol=0, atol=1e-12)


def test_clients_that_share_different_elements_refuse_a_rule():
    masks = np.arange(60).reshape(6, 10) % 2 == 0
    masks[1] = ~masks[1]
    method = fs.FedSplit(shared_units={"hidden": masks}, aggregator=Median())
    with pytest.raises(ValueError, match="needs clients that share the same elements, which FedSplit's do not"):
        run(method, clients=vector_clients(), model=fs.models.mlp(3, 10, 2))


@dataclass(frozen=True)
class First:
    """Depends on who comes first."""

    def __call__(self, changes, weight):
        return changes[0]


@dataclass(frozen=True)
class Short:
    """Loses a number."""

    def __call__(self, changes, weight):
        return changes.mean(0)[1:]


def weighing_anew(changes, weight):
    weight *= 0.5
    return (2 * weight) @ changes


def directions(changes, weight):
    return (changes / changes.norm(dim=1, keepdim=True)).mean(0)


class Plain:
    """A mean of a class without fields."""

    def __call__(self, changes, weight):
        return weight @ changes


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (First(), "First breaks the law 'order'"),
        (weighing_anew, "law 'untouched': it writes into the changes or the weights"),
        (directions, "law 'finite'"),
        (lambda changes, weight: changes[20], "law 'call': it fails"),
        (
            lambda changes, weight: changes[changes.norm(dim=1).argmin()],
            "law 'absent': it withstands a change of any size",
        ),
    ],
)
def test_broken_laws_are_named(rule, words):
    with pytest.raises(AssertionError, match=words):
        check_aggregator(rule)


def test_any_object_that_can_be_called_is_a_rule():
    equal(*(run(fs.FedAvg(aggregator=rule), model=plain_net) for rule in (Plain(), None)))


def test_the_closest_pair_does_not_depend_on_the_order():
    x = np.array([[0.0], [0.1], [5.0]])
    assert called(Krum(f=0), x, np.ones(3) / 3) == called(Krum(f=0), x[[1, 0, 2]], np.ones(3) / 3) == 0.1


def test_wrong_rules_are_told():
    with pytest.raises(ValueError, match="aggregator Short breaks the law 'shape'"):
        run(fs.FedAvg(aggregator=Short()))
    with pytest.raises(ValueError, match=r"^Krum\(f=3, kept=1\) needs 9 participants in a round, there are 6"):
        run(fs.FedAvg(aggregator=Krum(f=3)), participation=1.0)
    with pytest.raises(ValueError, match="aggregator must be a rule such as"):
        fs.FedAvg(aggregator=Median)
    with pytest.raises(ValueError, match=r"share must be a number in \[0, 0.5\)"):
        TrimmedMean(0.5)


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ('{name = "trimmed-mean", share = 0.3}', TrimmedMean(0.3)),
        ('{name = "multi-krum", f = 1, kept = 2}', Krum(f=1, kept=2)),
        ('"mean"', None),
        ('{name = "multi-krum", f = 1}', "method.FedAvg.aggregator.kept is missing; say how many"),
        ('{name = "mean", share = 0.3}', "mean is no class, and takes no options such as share"),
        ('"multikrum"', 'must be one of "mean", "median", .*did you mean multi-krum'),
    ],
)
def test_a_rule_comes_from_a_file(tmp_path, written, made):
    (tmp_path / "one.toml").write_text(f"""
rounds = 1
data.name = "digits"
partition = {{kind = "iid", clients = 4}}
model = {{name = "mlp", widths = [8]}}
training.lr = 0.1
[method.FedAvg]
aggregator = {written}
""")
    if isinstance(made, str):
        with pytest.raises(ValueError, match=made):
            read(tmp_path / "one.toml")
    else:
        assert set_up(read(tmp_path / "one.toml")).methods["FedAvg"].aggregator == made


def test_a_rule_is_saved(tmp_path):
    result = run(fs.FedAvg(aggregator=Krum(f=0)), clients=image_clients(), participation=1.0)
    result.save(tmp_path / "run")
    assert fs.load(tmp_path / "run").methods[KEY[0]] == fs.FedAvg(aggregator=Krum(f=0))
