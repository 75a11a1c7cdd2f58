"""Compression of uploads: papers' formulas in plain loops, exact moments, bytes, whole runs, and who refuses it."""

import itertools
import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import set_up
from fedstat.experiment.parsing import code_named
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.codec import Sparse, size
from fedstat.federated.compression import COMPRESSIONS, QSGD, Half, RandK, Sign, TopK, decompressed
from fedstat.testing import check_compression
from tests.support.clients import vector_clients
from tests.support.runs import KEY, equal, final, run, sent, trajectory

CODECS = {
    "half": Half(),
    "qsgd": QSGD(7),
    "qsgd-ternary": QSGD(1),
    "qsgd-wide": QSGD(300),
    "rand-k": RandK(0.3),
    "top-k": TopK(0.3),
    "sign": Sign(),
}
NETWORK, TRAINING = fs.models.mlp(3, 5, 2), fs.Training(lr=0.1, batch_size=5)
vectors = arrays(np.float32, st.integers(1, 40), elements=st.floats(-100, 100, width=32))


class Told:
    """A generator that draws what it is told."""

    def __init__(self, drawn):
        self.drawn = drawn

    def random(self, size):
        return np.full(size, self.drawn)

    def choice(self, d, k, replace, shuffle):
        return np.array(self.drawn)


def through(codec, x, rng=0):
    rng = np.random.default_rng(rng) if isinstance(rng, int) else rng
    x = np.asarray(x, np.float32)
    return codec.decode(codec.encode(x, rng), len(x))


def norm_of(x):
    return np.float32(np.sqrt(sum(float(v) ** 2 for v in x)))


def by_hand(codec, x, rng):
    """What a codec makes of a vector by its paper, number by number."""
    d = len(x)
    if isinstance(codec, Half):
        return [float(np.float16(v)) for v in x]
    if isinstance(codec, Sign):
        mean = sum(abs(float(v)) for v in x) / d
        return [mean if v >= 0 else -mean for v in x]
    if isinstance(codec, QSGD):
        norm, s, found = float(norm_of(x)), codec.levels, []
        for v, u in zip(x, rng.random(d), strict=True):
            place = s * abs(float(v)) / norm
            low = int(place)
            level = low + 1 if u >= 1 - (place - low) else low
            found.append(norm * np.sign(v) * level / s)
        return found
    k = max(1, int(codec.share * d + 0.5))
    if isinstance(codec, TopK):
        chosen = sorted(range(d), key=lambda i: (-abs(x[i]), i))[:k]
        return [v if i in chosen else 0.0 for i, v in enumerate(x)]
    chosen = rng.choice(d, k, replace=False, shuffle=False)
    return [v * d / k if i in chosen else 0.0 for i, v in enumerate(x)]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("d", [1, 5, 23, 200])
def test_codecs_are_their_papers_loops(name, d):
    codec = CODECS[name]
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=d).astype(np.float32)
        due = by_hand(codec, x, np.random.default_rng(seed))
        np.testing.assert_allclose(through(codec, x, seed), due, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CODECS)
def test_codecs_obey_their_laws(name):
    assert type(CODECS[name]) in COMPRESSIONS.values()
    check_compression(CODECS[name])


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
def test_random_choices_have_no_bias_and_the_variance_that_is_declared(share):
    """Over all choices of k of four numbers, exactly."""
    codec, x, k = RandK(share), [1, -2, 4, 8], int(4 * share)
    outcomes = [
        [Fraction(float(v)) for v in through(codec, x, Told(chosen))]
        for chosen in itertools.combinations(range(4), k)
    ]  # fmt: skip
    if share != 0.75:  # 4/3 is no binary fraction
        assert [sum(column) / len(outcomes) for column in zip(*outcomes, strict=True)] == x
    errors = [sum((a - b) ** 2 for a, b in zip(one, x, strict=True)) for one in outcomes]
    assert float(sum(errors) / len(errors)) == pytest.approx(codec.variance(4) * sum(v * v for v in x), rel=1e-6)


@pytest.mark.parametrize("levels", [1, 2, 5, 10])
def test_levels_are_drawn_with_the_papers_chances(levels):
    """A vector of norm 10 lies at known places between levels: it rounds up exactly where the draw is high enough."""
    x = np.array([1, -1, 1, 1, 4, -4, 8], np.float32)
    for i, v in enumerate(x.tolist()):
        place = Fraction(levels * int(abs(v)), 10)
        low = place.numerator // place.denominator
        up = float(place - low)
        for drawn in (0.0, 1 - up - 1e-9, 1 - up + 1e-9, 1 - 1e-9):
            if 0 <= drawn < 1:
                level = low + (up > 0 and drawn > 1 - up)
                found = through(QSGD(levels), x, Told(drawn))[i]
                assert found == pytest.approx(np.sign(v) * level * 10 / levels, abs=1e-6)


@given(x=vectors, levels=st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_the_variance_of_levels_is_within_its_bound(x, levels):
    """Its exact value, ``sum (|x| / s)^2 p (1 - p)``, and every draw lies on one of the two levels around."""
    codec, square = QSGD(levels), np.square(x, dtype=np.float64).sum()
    place = levels * np.abs(x, dtype=np.float64) / np.sqrt(square) if square else np.zeros(len(x))
    p = place - np.floor(place)
    variance = (square / levels**2 * p * (1 - p)).sum()
    assert variance <= codec.variance(len(x)) * square * (1 + 1e-9)
    step = np.sqrt(square) / levels
    assert (np.abs(through(codec, x) - x) <= step * (1 + 1e-5)).all()


@given(x=vectors, share=st.floats(0.01, 1))
@settings(max_examples=100, deadline=None)
def test_what_contracts_contracts(x, share):
    square = np.square(x, dtype=np.float64).sum()
    for codec in (TopK(share), Sign()):
        error = np.square(through(codec, x).astype(np.float64) - x).sum()
        assert error <= (1 - codec.contraction(len(x))) * square + 1e-5 * square
    mean = np.abs(x, dtype=np.float64).mean()  # of the signs the error is known
    assert np.square(through(Sign(), x) - x.astype(np.float64)).sum() == pytest.approx(
        square - len(x) * mean**2, rel=1e-4, abs=1e-4 * square
    )


@pytest.mark.parametrize("name", CODECS)
@given(x=vectors, seed=st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_bytes_are_as_many_whatever_the_vector(name, x, seed):
    codec, d = CODECS[name], len(x)
    data = codec.encode(x, np.random.default_rng(seed))
    k = max(1, int(0.3 * d + 0.5))
    levels = {"qsgd": 4, "qsgd-ternary": 2, "qsgd-wide": 10}
    few = torch.zeros(1, d)
    few[:, :k] = 1
    due = {"half": 2 * d, "sign": 4 + -(-d // 8), "rand-k": size({"x": Sparse(few)})[0]} | {
        n: 4 + -(-bits * d // 8) for n, bits in levels.items()
    }
    assert len(data) == due.get(name, due["rand-k"])
    assert not through(codec, np.zeros(d), seed).any()


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=60), d=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_bytes_from_elsewhere_are_refused_or_finite(name, data, d):
    with suppress(ValueError):
        assert np.isfinite(decompressed(CODECS[name], data, d)).all()


@pytest.mark.parametrize("name", CODECS)
@given(x=arrays(np.float32, st.integers(1, 40), elements=st.sampled_from([0.0, 1.0, 3e38, -3e38])))
@settings(max_examples=50, deadline=None)
def test_the_largest_numbers_stay_finite(name, x):
    assert np.isfinite(through(CODECS[name], x, 0)).all()


@pytest.mark.parametrize("name", ["qsgd", "rand-k", "top-k", "sign"])
def test_who_drives_a_compressed_run_to_infinity_is_named_and_withstood_as_without(name):
    attack = fs.attacks.SignFlip(0.4, scale=1e300)
    how = {"clients": vector_clients(), "model": NETWORK, "dtype": "float32", "participation": 1.0}
    with pytest.raises(FloatingPointError, match=rf"round 2 .* the attack {re.escape(repr(attack))} may drive them"):
        run(fs.FedAvg(compression=CODECS[name]), attack=attack, **how)
    method = fs.FedAvg(compression=CODECS[name], aggregator=fs.aggregators.Median())
    result, quiet = (run(method, attack=one, **how) for one in (attack, None))
    assert all(leaf.abs().max() < 10 for leaf in result.states[KEY].server.values())
    assert result.traffic.equals(quiet.traffic)


def played(method, rounds, **options):
    """The rounds of a method, with what each came to."""
    options = {"participation": 0.5, "dtype": "float64"} | options
    for now in fs.rounds(method, NETWORK, vector_clients(), TRAINING, **options):
        yield now, *now.updates.values(), *now.states.values()
        if now.number == rounds:
            return


@pytest.mark.parametrize("name", CODECS)
def test_rounds_are_plain_loops_with_feedback_where_there_is_any(name):
    """Three rounds with half of the clients: an absent client keeps what it owes."""
    codec, clients = CODECS[name], vector_clients()
    owed = [{} for _ in range(len(clients))]
    for now, update, state in played(fs.FedAvg(compression=codec), 4, seed=3):
        due = {n: leaf[0].clone() for n, leaf in update.start.items()}
        for row, k in enumerate(update.ids.tolist()):
            rng = Seeds(3).stream("compression", now.number - 1, k)
            for n in due:
                change = (update.end[n][row] - update.start[n][row]).flatten().numpy() + owed[k].get(n, 0)
                came = np.array(by_hand(codec, change.astype(np.float32), rng))
                due[n] += update.weight[row] * torch.from_numpy(came).view(due[n].shape)
                if getattr(codec, "feedback", False):
                    owed[k][n] = change - came
        for n, leaf in state.server.items():
            torch.testing.assert_close(leaf, due[n], rtol=0, atol=1e-7)
        assert bool(state.unsent) == getattr(codec, "feedback", False)
        for n, stored in state.unsent.items():
            for k, own in enumerate(owed):
                np.testing.assert_allclose(
                    stored[k].flatten().numpy(), own.get(n, np.zeros(stored[k].numel())), rtol=0, atol=1e-7
                )
    assert len({k for k, own in enumerate(owed) if own}) in (0, *range(4, len(clients) + 1))


def test_what_loses_nothing_changes_nothing():
    plain = run(fs.FedAvg(), clients=vector_clients(), model=NETWORK, training=TRAINING)
    for codec in (TopK(1.0), RandK(1.0)):
        whole = run(fs.FedAvg(compression=codec), clients=vector_clients(), model=NETWORK, training=TRAINING)
        equal(whole, plain, atol=1e-5)  # four bytes of eight travel


@dataclass(frozen=True, kw_only=True)
class Short(fs.methods.FedPer):
    """FedPer whose leaves are multiples of 1/64, which half precision holds."""

    def leaves(self, network, federation):
        return {n: (64 * leaf).round() / 64 for n, leaf in super().leaves(network, federation).items()}

    def finish(self, learner, params, data, context):
        return {n: (64 * leaf).round() / 64 for n, leaf in params.items()}

    def aggregate(self, state, update):
        after = super().aggregate(state, update)
        server = {n: (64 * leaf).round() / 64 for n, leaf in after.server.items()}
        return fs.State(server, after.clients, after.shared, after.memory, after.round)


def test_half_precision_loses_nothing_of_short_numbers():
    here, there = (
        run(Short(compression=c), clients=vector_clients(), model=NETWORK, training=TRAINING) for c in (Half(), None)
    )
    equal(here, there, atol=0)
    assert (sent(here, "up"), sent(there, "up")) == ({40}, {160})


def test_what_clients_keep_is_as_they_trained_it():
    method = fs.methods.FedPer(compression=Sign())
    for _, update, state in played(method, 2):
        for n in state.clients:
            torch.testing.assert_close(state.clients.rows(update.ids)[n], update.end[n], rtol=0, atol=0)


def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


def test_running_statistics_travel_whole():
    now = next(fs.rounds(fs.FedAvg(compression=Sign()), normed, vector_clients(), TRAINING, dtype="float64"))
    (update,), (state,) = now.updates.values(), now.states.values()
    for n in ("2.running_mean", "2.running_var"):
        torch.testing.assert_close(
            state.server[n], torch.tensordot(update.weight, update.end[n], 1), rtol=0, atol=1e-12
        )
    assert set(now.traffic["bytes_up"]) == {2 * 5 * 8 + (4 + 2) + 2 * (4 + 1) + (4 + 1) + (4 + 2) + (4 + 1)}


def test_selected_elements_are_compressed_for_each_client():
    """Where clients share different units the others' elements do not travel, and do not count."""
    masks = np.arange(30).reshape(6, 5) % 2 == 0
    method = fs.FedSplit(shared_units={"hidden": masks}, compression=TopK(0.5))
    for now, _, state in played(method, 2, participation=1.0):
        for k, bytes_up in zip(now.traffic["client"], now.traffic["bytes_up"], strict=True):
            units = int(masks[k].sum())
            entries = [3 * units, units, 10, 2]
            assert bytes_up == sum(4 * max(1, int(d / 2 + 0.5)) + -(-d // 8) for d in entries if d)
        moved = state.unsent["hidden.weight"] != 0
        assert not moved[~torch.from_numpy(masks)].any()
        assert moved.any()


def test_executors_seeds_and_resumed_runs_agree(tmp_path):
    method = fs.methods.FedPer(compression=TopK(0.3))
    how = {"clients": vector_clients(), "model": NETWORK, "training": TRAINING}
    one, other = (run(method, executor=e, **how) for e in ("stacked", "per-client"))
    equal(one, other, atol=1e-7)
    assert one.traffic.equals(other.traffic)
    one.save(tmp_path / "run")
    again = fs.load(tmp_path / "run")
    assert again.methods["it"] == method
    continued, whole = (
        run(method, 5, executor="stacked", resume=again, **how),
        run(method, 5, executor="stacked", **how),
    )
    equal(continued, whole, atol=0)
    for n, leaf in whole.states[KEY].unsent.items():
        assert torch.equal(leaf, continued.states[KEY].unsent[n])
        assert leaf.any()
    drawn = fs.methods.FedPer(compression=QSGD(3))
    several = run(drawn, seed=[0, 1], **how)
    np.testing.assert_allclose(
        trajectory(several).loc[[1]].to_numpy(), trajectory(run(drawn, seed=1, **how)).to_numpy(), rtol=0, atol=1e-7
    )
    assert not np.allclose(trajectory(several).loc[0], trajectory(several).loc[1])


def test_aggregators_and_servers_work_with_what_came():
    def rule(changes, weight):
        seen.append(changes.clone())
        return weight @ changes

    seen = []
    run(fs.FedAvg(compression=Sign(feedback=False), aggregator=rule, server=fs.server.SGD(lr=0.5)),
        1, clients=vector_clients(), model=NETWORK, training=TRAINING)  # fmt: skip
    assert all(len(row[:15].abs().unique()) == 1 for row in seen[-1])  # the hidden weights are signs of one size


@dataclass(frozen=True, kw_only=True)
class Doubled(fs.FedAvg):
    """Sends something else than it trained."""

    def upload(self, state, update):
        return {name: 2 * update.end[name] for name in state.server}


def test_wrong_settings_are_told():
    def tried(method):
        return run(method, clients=vector_clients(), model=NETWORK, training=TRAINING)

    with pytest.raises(ValueError, match=r"Doubled sends as 'hidden.weight' what is no entry of update.end"):
        tried(Doubled(compression=Half()))
    with pytest.raises(ValueError, match="compression must be None where the server looks at personal units"):
        fs.FedFac(layers=["hidden"], tau=0.5, dynamic=True, compression=Half())
    with pytest.raises(ValueError, match="compression must be None where clients go on from their own slow group"):
        fs.methods.FilterDecomp(beta=0.5, keep_local_slow=True, compression=Half())
    with pytest.raises(ValueError, match=r"compression must be a codec such as .* got 'half'"):
        fs.FedAvg(compression="half")
    with pytest.raises(ValueError, match="compression must be a codec"):
        fs.FedAvg(compression=Sign)
    with pytest.raises(ValueError, match=r"share must be a number in \(0, 1\]"):
        TopK(0)
    with pytest.raises(ValueError, match="levels must be at most 32767, got 32768"):
        QSGD(2**15)


class Own:
    """A codec of whole numbers, to be spoilt."""

    def encode(self, x, rng):
        return x.tobytes()

    def decode(self, data, d):
        return np.frombuffer(data, np.float32)


class Shorter(Own):
    def decode(self, data, d):
        return super().decode(data, d)[:1]


class Global(Own):
    def encode(self, x, rng):
        return np.random.rand(len(x)).astype(np.float32).tobytes()  # noqa: NPY002


class Moving(Own):
    def decode(self, data, d):
        return super().decode(data, d) + np.float32(1)


class Remembering(Own):
    scale = 1.0

    def encode(self, x, rng):
        self.scale = float(np.abs(x).max()) or 1.0
        return (x / np.float32(self.scale)).tobytes()

    def decode(self, data, d):
        return super().decode(data, d) * np.float32(self.scale)


class Writing(Own):
    def encode(self, x, rng):
        x *= 2
        return x.tobytes()


class Inverse(Own):
    def encode(self, x, rng):
        return (1 / x).tobytes()


class Biased(TopK):
    def variance(self, d):
        return 1.0


class Boasting(RandK):
    def variance(self, d):
        return super().variance(d) / 2


class Contracting(RandK):
    def contraction(self, d):
        return self.share


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    ("codec", "law"),
    [
        (Shorter(), "shape"), (Global(), "repeat"), (Moving(), "zero"), (Remembering(), "wire"),
        (Writing(), "untouched"), (Inverse(), "finite"), (Biased(0.3), "unbiased"), (Boasting(0.3), "variance"),
        (Contracting(0.3), "contraction"),
    ],
    ids=lambda of: of if isinstance(of, str) else "",
)  # fmt: skip
def test_broken_laws_are_named(codec, law):
    with pytest.raises(AssertionError, match=f"breaks the law '{law}'"):
        check_compression(codec)
    check_compression(Own())


def test_an_own_codec_is_tried_first():
    with pytest.raises(ValueError, match="compression Moving breaks the law 'zero'"):
        run(fs.FedAvg(compression=Moving()), clients=vector_clients(), model=NETWORK)
    mine, plain = (
        run(fs.FedAvg(compression=c), clients=vector_clients(), model=NETWORK, dtype="float32") for c in (Own(), None)
    )
    for n, leaf in final(plain).items():
        torch.testing.assert_close(final(mine)[n], leaf, rtol=0, atol=1e-6)


FILE = """
rounds = 1
data.name = "digits"
partition = {kind = "iid", clients = 4, validation = 0.2}
model = {name = "mlp", widths = [8]}
training.lr = 0.1
"""


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ('{name = "top-k", share = 0.01, feedback = false}', TopK(0.01, feedback=False)),
        ('"sign"', Sign()),
        ('{name = "mine.py:Mine", levels = 5}', 5),
    ],
)
def test_an_experiment_names_a_compression(tmp_path, written, made):
    (tmp_path / "mine.py").write_text("import fedstat as fs\nclass Mine(fs.compression.QSGD):\n    pass\n")
    (tmp_path / "one.toml").write_text(f"{FILE}\n[method.FedAvg]\ncompression = {written}\n")
    codec = set_up(read(tmp_path / "one.toml")).methods["FedAvg"].compression
    assert made in (codec, getattr(codec, "levels", None))


def test_a_grid_lists_compressions_and_code_in_it_is_found(tmp_path):
    (tmp_path / "mine.py").write_text("import fedstat as fs\nclass Mine(fs.compression.Half):\n    pass\n")
    grid = '[method.FedAvg.grid]\ncompression = ["half", {name = "qsgd", levels = 7}, "mine.py:Mine"]'
    (tmp_path / "one.toml").write_text(f"{FILE}\n[tune]\nseed = [7]\n[method.FedAvg]\n{grid}\n")
    (name,) = code_named(tmp_path / "one.toml").values()
    assert name.startswith(str(tmp_path / "mine.py"))
    read(tmp_path / "one.toml")
    (tmp_path / "two.toml").write_text(f'{FILE}\n[method.FedAvg]\ncompression = "topk"\n')
    with pytest.raises(ValueError, match=r"method.FedAvg.compression.name.*topk.*top-k"):
        read(tmp_path / "two.toml")


def test_descriptions_tell_the_bytes_and_attackers_see_what_was_sent():
    method = fs.FedAvg(compression=QSGD(1))
    table = fs.describe(method, NETWORK).table.set_index("leaf")
    assert table.loc[["hidden.weight", "head.bias"], ["up", "down"]].to_numpy().tolist() == [[8, 60], [5, 8]]
    clients = fs.data.from_arrays(*fs.data.digits(), np.arange(1797) % 20)
    network, look = fs.models.mlp(64, 8, 10), fs.privacy.Look(client=3)
    (seen,) = fs.privacy.observe(method, network, clients, fs.Training(lr=0.1), look)
    assert len(seen.update["hidden.weight"].abs().round(decimals=6).unique()) <= 3


def test_a_round_below_the_fewest_of_an_aggregator_takes_nothing_from_what_is_owed():
    """Four of six take part: a rule that needs five hears nobody, and what was lost before is still to be sent."""
    rule, codec = fs.aggregators.Krum(f=1), TopK(0.1)
    method, clients = fs.FedAvg(compression=codec, aggregator=rule), vector_clients()
    who = pd.DataFrame(
        [(t, k, 1.0) for t in (1, 2, 3) for k in range(4 if t == 2 else 6)], columns=["round", "client", "work"]
    )
    taken = [
        now.states[KEY]
        for now in itertools.islice(
            fs.rounds({"it": method}, NETWORK, clients, TRAINING, participation=fs.attendance.Trace(who)), 3
        )
    ]
    owed = [state.unsent.rows(torch.arange(6)) for state in taken]
    assert any(leaf.any() for leaf in owed[0].values())
    for n, leaf in owed[0].items():
        assert torch.equal(owed[1][n], leaf)
        assert not torch.equal(owed[2][n], leaf)
    assert all(torch.equal(taken[1].server[n], leaf) for n, leaf in taken[0].server.items())
    assert [state.round for state in taken] == [1, 2, 3]
