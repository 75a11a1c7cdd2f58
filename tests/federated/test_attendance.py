"""Who comes, drops out and does part of its work: plain loops, draws, limits, traffic, what is refused and saved."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.nn import functional as F

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment import run as run_file
from fedstat.experiment.build import set_up
from fedstat.federated import Phase
from fedstat.federated.aggregators import Krum
from fedstat.federated.attendance import Dropout, Poisson, Stragglers, Trace, attended_by
from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples
from fedstat.federated.client.seeds import Seeds
from fedstat.federated.replicate import participants
from fedstat.federated.slots import slot
from fedstat.testing import check_attendance
from tests.support.clients import image_clients, samples, vector_clients
from tests.support.copies import mean_of, orders, start_of, trained
from tests.support.networks import conv_net, leaves_of, plain_net
from tests.support.runs import KEY, assert_close, equal, final, run, same

nan = np.nan
#: Three rounds of six clients: not asked, dropped out, and shares of work.
WORK = [[1.0, 0.3, nan, 0.5, 0.0, 0.07], [0.0, nan, 0.9, 0.01, 1.0, 0.4], [0.5, 0.5, 0.5, 0.0, nan, 1.0]]
LOOP = fs.Training(lr=0.05, momentum=0.6, batch_size=4, local_epochs=3)


def table(work=WORK):
    """A trace as a table."""
    rows = [(t, k, w) for t, of in enumerate(work, 1) for k, w in enumerate(of) if not np.isnan(w)]
    return pd.DataFrame(rows, columns=["round", "client", "work"])


TRACE = Trace(table())


def steps_of(clients, k, t, training, share):
    """The first batches of a round, as many as the share of them says, rounded up."""
    every = orders(clients, k, t, training)
    return every[: int(np.ceil(round(share * len(every), 9)))]


def draws(attendance, rounds, clients=10, seed=0):
    return [attended_by(attendance, Seeds(seed), t, clients) for t in range(rounds)]


@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_rounds_of_fedavg_are_those_of_a_plain_loop(executor):
    """Unequal clients, momentum, dropouts and partial work; the average is over those who deliver."""
    clients = image_clients()
    result = run(fs.FedAvg(), clients=clients, model=plain_net, training=LOOP, participation=TRACE, executor=executor)
    module = start_of(result, plain_net)
    for t, work in enumerate(WORK):
        there = [k for k, share in enumerate(work) if share > 0]
        ends = []
        for k in there:
            x, y = samples(clients, k)
            batches = steps_of(clients, k, t, LOOP, work[k])
            ends.append(trained(module, lambda m, b, x=x, y=y: F.cross_entropy(m(x[b]), y[b]), batches, LOOP))
        n = clients.train.n[there]
        module.load_state_dict(mean_of(ends, n / n.sum()))
    assert_close(dict(result.states[KEY].server), leaves_of(module), 1e-10)


SETTINGS = {
    "convolutions": (image_clients, conv_net),
    "layers": (image_clients, plain_net),
    "dense": (vector_clients, fs.models.mlp(3, 5, 2)),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "method", [fs.FedAvg(), fs.methods.FedRep(head_epochs=2), fs.methods.PerFedAvg()], ids=lambda m: type(m).__name__
)
def test_executors_agree(method, setting):
    draw, model = SETTINGS[setting]
    how = {"clients": draw(), "model": model, "participation": Stragglers(Dropout(0.8, 0.2), 0.7, (0.05, 0.6))}
    plain = fs.Training(lr=0.05, batch_size=4, local_epochs=2)
    for training in (plain, replace(plain, optimizer="adam", lr=0.01)):
        if training.optimizer == "sgd" or not isinstance(method, fs.methods.PerFedAvg):
            equal(*(run(method, training=training, executor=e, **how) for e in ("stacked", "per-client")), atol=1e-8)


@given(
    work=st.lists(st.sampled_from([1e-9, 0.07, 0.3, 0.5, 1.0]), min_size=3, max_size=3),
    most=st.none() | st.integers(1, 5),
    group=st.integers(1, 3),
)
@settings(max_examples=30, deadline=None)
def test_partial_work_is_the_beginning_of_the_whole(work, most, group):
    """Batches and keys of dropout are those of all of the work, and what follows is padding."""
    x = np.zeros((23, 1))
    pool = StackedSamples.stack([fs.data.Samples(x, x[:, 0], np.array([4, 12, 7]))], torch.float64, "cpu")
    orders = BatchOrders(3, pool, 5, group=group, noisy=True)
    whole, part = (
        orders.of([Job(k, Seeds(0), k, share) for k, share in enumerate(shares)], 1, [2, 3, 1], most)
        for shares in ((1.0,) * 3, work)
    )
    taken = [int(np.ceil(round(w * (whole.places[:, 0, k, 0] >= 0).sum(), 8))) for k, w in enumerate(work)]
    taken = np.maximum(taken, 1)
    assert len(part.places) == max(taken)
    for k, count in enumerate(taken):
        assert np.array_equal(part.places[:count, :, k], whole.places[:count, :, k])
        assert np.array_equal(part.noise[:count, :, k], whole.noise[:count, :, k])
        assert (part.places[count:, :, k] == -1).all()


def test_each_phase_takes_its_share():
    """Ceilings of the share of each phase's own steps, by the rates that clients report."""

    class Counting(fs.methods.FedNova):
        def phases(self, network, training, round):
            first, second = network.trainable[:1], network.trainable[1:]
            return Phase(first, epochs=2), Phase(second, epochs=3, steps=4)

        def finish(self, learner, params, data, context):
            return {f"nova/{i}": s for i, s in enumerate(context.rate_sum.values())} | super().finish(
                learner, params, data, context
            )

    clients = vector_clients()
    training = fs.Training(lr=1.0, batch_size=3, lr_decay=1.0)
    how = {"participation": TRACE, "dtype": "float64"}
    now = next(fs.rounds(Counting(), fs.models.mlp(3, 5, 2), clients, training, **how))
    update = now.updates["Counting", 0]
    assert update.ids.tolist() == [0, 1, 3, 5]
    assert update.work.tolist() == [1.0, 0.3, 0.5, 0.07]
    assert update.missing.tolist() == [4]
    for i, (k, share) in enumerate(zip(update.ids.tolist(), update.work.tolist(), strict=True)):
        epoch = -(-int(clients.train.n[k]) // 3)
        assert update.end["nova/0"][i] == np.ceil(share * 2 * epoch)
        assert update.end["nova/1"][i] == np.ceil(share * min(4, 3 * epoch))


def test_fednova_counts_the_steps_that_were_taken():
    clients, training = image_clients(), fs.Training(lr=0.1, batch_size=4, local_epochs=3)
    rounds = fs.rounds(fs.methods.FedNova(), plain_net, clients, training, participation=TRACE, dtype="float64")
    for t, now in zip(range(3), rounds, strict=False):
        ((update,), (state,)) = now.updates.values(), now.states.values()
        tau = torch.tensor([
            len(steps_of(clients, k, t, training, WORK[t][k])) for k in update.ids.tolist()
        ]).double()  # fmt: skip
        assert len(tau.unique()) > 1
        for n, leaf in state.server.items():
            change = update.end[n] - update.start[n]
            per_step = torch.tensordot(update.weight / tau, change, 1)
            expected = update.start[n][0] + (update.weight @ tau) * per_step
            torch.testing.assert_close(leaf, expected, rtol=0, atol=1e-12)


def test_scaffold_divides_by_the_steps_that_were_taken():
    """Option II: c_i - c + (x - y) / (K lr); the controls of who drops out stay."""
    clients, training = image_clients(), fs.Training(lr=0.1, batch_size=4, local_epochs=2)
    before = None
    rounds = fs.rounds(fs.methods.SCAFFOLD(), plain_net, clients, training, participation=TRACE, dtype="float64")
    for t, now in zip(range(3), rounds, strict=False):
        ((update,), (state,)) = now.updates.values(), now.states.values()
        for i, k in enumerate(update.ids.tolist()):
            count = len(steps_of(clients, k, t, training, WORK[t][k]))
            x, y = ({n: leaf[i] for n, leaf in of.items()} for of in (update.start, update.end))
            own, servers = slot(x, "c_i"), slot(x, "c")
            for n, leaf in own.items():
                new = leaf - servers[n] + (x[n] - y[n]) / (count * 0.1)
                torch.testing.assert_close(state.clients[f"c_i/{n}"][k], new, rtol=0, atol=1e-12)
        if before is not None:
            absent = sorted({*range(6)} - {*update.ids.tolist()})
            for n in state.clients:
                assert torch.equal(state.clients[n][absent], before.clients[n][absent])
        before = state


def test_work_of_one_is_a_plain_run_bit_for_bit():
    for share, attendance in ((1.0, Poisson(1.0)), (0.5, Dropout(0.5, 0.0)), (0.5, Stragglers(0.5, 0.0, (0.1, 0.2)))):
        plain, other = (run(fs.methods.FedPer(), participation=p) for p in (share, attendance))
        for name, leaf in plain.states[KEY].server.items():
            assert torch.equal(leaf, other.states[KEY].server[name])
        for name, leaf in plain.states[KEY].clients.items():
            assert torch.equal(leaf, other.states[KEY].clients[name])
        pd.testing.assert_frame_equal(plain.history, other.history)
        pd.testing.assert_frame_equal(plain.traffic, other.traffic)


def test_poisson_draws_clients_on_their_own():
    """Exact binomial tests of each client and of all together, and of pairs, at a fixed seed."""
    share, rounds, clients = 0.3, 2000, 8
    came = np.zeros((rounds, clients))
    for t, who in enumerate(draws(Poisson(share), rounds, clients)):
        came[t, who.ids] = 1
        assert not len(who.missing)
    assert stats.binomtest(int(came.sum()), rounds * clients, share).pvalue > 0.01
    assert min(stats.binomtest(int(k), rounds, share).pvalue for k in came.sum(0)) > 0.01 / clients
    pairs = [(i, j) for i in range(clients) for j in range(i)]
    both = [stats.binomtest(int((came[:, i] * came[:, j]).sum()), rounds, share**2).pvalue for i, j in pairs]
    assert min(both) > 0.01 / len(pairs)
    following = stats.binomtest(int((came[1:] * came[:-1]).sum()), (rounds - 1) * clients, share**2)
    assert following.pvalue > 0.01
    # the size of a round is binomial, not fixed
    assert stats.chisquare(*_counts(came.sum(1).astype(int), stats.binom(clients, share))).pvalue > 0.01


def _counts(sizes, law):
    """Observed and expected counts of sizes, the tails together."""
    inner = np.arange(1, 5)
    seen = [(sizes < 1).sum(), *((sizes == k).sum() for k in inner), (sizes > 4).sum()]
    return seen, len(sizes) * np.array([law.cdf(0), *law.pmf(inner), law.sf(4)])


def test_participants_drop_out_with_their_own_probability():
    p = tuple(np.linspace(0, 1, 10).tolist())
    asked, lost = np.zeros(10), np.zeros(10)
    for t, who in enumerate(draws(Dropout(0.6, p), 1000)):
        both = np.union1d(who.ids, who.missing)
        assert both.tolist() == participants(0, t, 10, 0.6).tolist()
        asked[both] += 1
        lost[who.missing] += 1
    assert lost[0] == 0
    assert lost[9] == asked[9]
    tests = [stats.binomtest(int(lost[k]), int(asked[k]), p[k]).pvalue for k in range(1, 9)]
    assert min(tests) > 0.01 / len(tests)


def test_stragglers_are_the_same_all_along_and_draw_their_work_anew():
    every = draws(Stragglers(1.0, 0.5, (0.1, 0.5)), 300)
    work = np.array([who.work for who in every])
    slow = (work < 1).all(0)
    assert slow.sum() == 5
    assert (work[:, ~slow] == 1).all()
    assert stats.kstest(work[:, slow].ravel(), stats.uniform(0.1, 0.4).cdf).pvalue > 0.01
    others = {tuple(np.flatnonzero(draws(Stragglers(1.0, 0.5, (0.1, 0.5)), 1, seed=s)[0].work < 1)) for s in range(5)}
    assert len(others) > 1


def test_laws_combine():
    """The work of those who stay is the product; who is not asked stays so."""
    inner, outer = draws(Trace(table()), 3, 6), draws(Stragglers(Trace(table()), 1.0, (0.5, 0.5)), 3, 6)
    for one, other in zip(inner, outer, strict=True):
        assert other.ids.tolist() == one.ids.tolist()
        assert other.missing.tolist() == one.missing.tolist()
        np.testing.assert_allclose(other.work, one.work / 2)


def test_dropouts_receive_and_keep_what_they_had():
    result = run(fs.methods.FedPer(), 1, participation=TRACE, trained=True)
    before = run(fs.methods.FedPer(), 1, participation=TRACE, training=replace(LOOP, lr=0.0)).states[KEY]
    now = result.states[KEY]
    for name, leaf in now.clients.items():
        moved = [k for k in range(6) if not torch.equal(leaf[k], before.clients[name][k])]
        assert moved == [0, 1, 3, 5]
    sent = result.traffic.set_index("client")
    assert sorted(sent.index) == [0, 1, 3, 4, 5]
    assert sent.loc[4, "bytes_up"] == 0
    assert sent["bytes_down"].nunique() == 1
    assert sent.loc[[0, 1, 3, 5], "bytes_up"].nunique() == 1
    rows = result.history[result.history["estimand"] == "trained"]
    assert sorted(rows["client"].unique()) == [0, 1, 3, 5]


@dataclass(frozen=True)
class Sometimes:
    """Nobody comes to the even rounds; in the others all drop out, or come."""

    def __call__(self, round, clients, rng, fixed):
        return np.full(clients, [nan, 0.0, nan, 1.0][round % 4])


@dataclass(frozen=True, kw_only=True)
class Remembering(fs.FedAvg):
    """Records the number of rounds."""

    def record(self, state):
        return {"round": torch.tensor(state.round)}


def test_rounds_without_participants_count_and_nothing_moves():
    with pytest.warns(
        RuntimeWarning, match="it: 4 of 5 rounds had no participant whose update arrived, and ended without a step"
    ):
        result = run(Remembering(), 5, participation=Sometimes(), trained=True)
    assert result.states[KEY].round == 5
    assert result.records[KEY]["round"].tolist() == [1, 2, 3, 4, 5]
    assert result.traffic["round"].tolist() == [2] * 6 + [4] * 6
    assert (result.traffic.query("round == 2")["bytes_up"] == 0).all()
    assert (result.traffic.query("round == 2")["bytes_down"] > 0).all()
    losses = result.history.query("estimand == 'global'").pivot_table(
        index="round", columns=["client", "metric"], values="value", observed=True
    )
    assert (losses.loc[1] == losses.loc[3]).all()
    assert (losses.loc[4] == losses.loc[5]).all()
    assert not (losses.loc[3] == losses.loc[4]).all()
    for now, count in zip(fs.rounds(fs.FedAvg(), plain_net, image_clients(), LOOP, participation=Sometimes()),
                          (0, 0, 0, 6), strict=False):  # fmt: skip
        (update,) = now.updates.values()
        assert len(update.ids) == len(update.work) == count
        assert len(now.evaluate(trained=True)["client"].unique()) == count


def test_too_few_for_an_aggregator_are_no_step():
    attendance = Trace(table([[1.0] * 6, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
    words = "1 of 2 rounds had fewer participants than the 5 that the aggregator needs, and ended without a step"
    one = run(fs.FedAvg(aggregator=Krum(f=1)), 1, participation=attendance)
    with pytest.warns(RuntimeWarning, match=words):
        two = run(fs.FedAvg(aggregator=Krum(f=1)), 2, participation=attendance)
    assert_close(final(one), final(two), 0)
    assert two.traffic.query("round == 2 and bytes_up > 0")["client"].tolist() == [0, 1]
    with pytest.raises(ValueError, match="needs 5 participants in a round, there are 4 at most in the first 100"):
        run(fs.FedAvg(aggregator=Krum(f=1)), participation=TRACE)


@pytest.mark.slow
def test_a_run_that_is_continued_is_one_that_never_stopped(tmp_path):
    attendance = Stragglers(Dropout(Poisson(0.6), (0.1,) * 6), 0.5, (0.2, 0.7))
    whole = run(fs.methods.FedPer(), 6, participation=attendance)
    half = run(fs.methods.FedPer(), 3, participation=attendance, folder=tmp_path / "run")
    half = fs.load(tmp_path / "run")
    both = run(fs.methods.FedPer(), 6, participation=attendance, resume=half)
    pd.testing.assert_frame_equal(whole.history, both.history)
    pd.testing.assert_frame_equal(whole.traffic, both.traffic)
    assert_close(final(whole), final(both), 0)
    for other in (0.6, Poisson(0.6), replace(attendance, slow=0.4)):
        with pytest.raises(ValueError, match="participation"):
            run(fs.methods.FedPer(), 6, participation=other, resume=half)
    clients = image_clients()
    more = fs.extend(half, 2, clients=clients, model=conv_net, progress=False)
    again = run(fs.methods.FedPer(), 3, participation=attendance, seed=(0, 1), clients=clients)
    pd.testing.assert_frame_equal(more.traffic, again.traffic)


def test_a_trace_is_known_again_by_what_it_says():
    half = run(fs.FedAvg(), 2, participation=TRACE)
    assert half.config["participation"]["digest"] == TRACE.digest
    turned = Trace(table().sample(frac=1, random_state=0))
    assert turned == TRACE
    run(fs.FedAvg(), 3, participation=turned, resume=half)
    other = table()
    other.loc[0, "work"] = 0.9
    with pytest.raises(ValueError, match=r"participation\.digest"):
        run(fs.FedAvg(), 3, participation=Trace(other), resume=half)
    with pytest.raises(ValueError, match="does not know its attendance"):
        fs.extend(half, 2, progress=False)
    more = fs.extend(half, 2, participation=TRACE, progress=False)
    counts = more.traffic.groupby("seed")["client"].apply(list)
    assert counts[0] == counts[1]


def test_other_code_of_an_attendance_is_told():
    def one(round, clients, rng, fixed):
        return np.ones(clients)

    def two(round, clients, rng, fixed):
        return np.full(clients, 1.0)

    two.__qualname__ = one.__qualname__
    half = run(fs.FedAvg(), 1, participation=one)
    with pytest.raises(ValueError, match="other code of the attendance"):
        run(fs.FedAvg(), 2, participation=two, resume=half)


def test_a_trace_comes_from_a_file_and_begins_again(tmp_path):
    table().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "one.toml").write_text("""
rounds = 4
data.name = "digits"
partition = {kind = "iid", clients = 6}
model = {name = "mlp", widths = [8]}
training.lr = 0.1
[participation]
name = "trace"
table = "log.csv"
[method.FedAvg]
""")
    assert set_up(read(tmp_path / "one.toml")).participation == TRACE
    run_file(read(tmp_path / "one.toml"), tmp_path / "out", progress=False)
    run_file(read(tmp_path / "out" / "experiment.toml", {"rounds": 5}), tmp_path / "out", resume=True, progress=False)
    traffic = fs.load(tmp_path / "out" / "run").traffic
    for t in range(5):
        shares = WORK[t % 3]
        rows = traffic[traffic["round"] == t + 1].set_index("client")
        assert sorted(rows.index) == [k for k in range(6) if not np.isnan(shares[k])]
        assert sorted(rows.index[rows["bytes_up"] == 0]) == [k for k in range(6) if shares[k] == 0]


def test_attendances_come_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text("""
import numpy as np
def half(round, clients, rng, fixed):
    return np.where(np.arange(clients) % 2 == 0, 1.0, np.nan)
""")
    base = """
rounds = 1
data.name = "digits"
partition = {kind = "iid", clients = 4}
model = {name = "mlp", widths = [8]}
training.lr = 0.1
method.FedAvg = {}
"""
    file = tmp_path / "one.toml"
    for text, wanted in {
        "participation = 0.5": 0.5,
        '[participation]\nname = "poisson"\nshare = 0.3': Poisson(0.3),
        '[participation]\nname = "dropout"\nprobability = 0.1\nparticipation = {name = "poisson", share = 0.3}':
            Dropout(Poisson(0.3), 0.1),
        '[participation]\nname = "stragglers"\nparticipation = 0.5\nslow = 0.5\nwork = [0.1, 0.5]':
            Stragglers(0.5, 0.5, (0.1, 0.5)),
    }.items():  # fmt: skip
        file.write_text(base + text)
        assert set_up(read(file)).participation == wanted
    file.write_text(base + '[participation]\nname = "mine.py:half"')
    assert fs.experiment.parsing.code_named(file) == {"participation.name": f"{tmp_path / 'mine.py'}:half"}
    assert set_up(read(file)).participation(0, 4, None, None)[0] == 1
    for text, words in {
        "participation = 1.5": r"participation must be a number in \(0, 1\], got 1.5",
        'participation = "half"': "participation must be a number or a table",
        '[participation]\nname = "poison"\nshare = 0.3': "did you mean poisson",
        '[participation]\nname = "poisson"\nshare = 3': r"participation: share must be a number in \(0, 1\], got 3.0",
    }.items():
        file.write_text(base + text)
        with pytest.raises(ValueError, match=words):
            read(file)


class Counting:
    """Remembers how often it was asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, round, clients, rng, fixed):
        self.asked += 1
        return np.where(np.arange(clients) < self.asked % 3, 1.0, nan)


@pytest.mark.parametrize(
    ("attendance", "words"),
    [
        (Counting(), "law 'repeat': who comes differs between two identical calls"),
        (lambda t, k, rng, fixed: np.random.rand(k), "law 'repeat'"),  # noqa: NPY002
        (lambda t, k, rng, fixed: np.ones(k - 1), "law 'shares': in round 0 .* a share for each of 6 clients"),
        (lambda t, k, rng, fixed: 2 * np.ones(k), r"law 'shares': .* in \[0, 1\], or NaN .* got 2 for client 0"),
        (lambda t, k, rng, fixed: np.ones(k, bool), "law 'shares': .* not True and False: 1 is all, NaN is not asked"),
        (lambda t, k: np.ones(k), "law 'call': it fails"),
    ],
)
def test_broken_laws_are_named_before_a_run(attendance, words):
    with pytest.raises(AssertionError, match=words):
        check_attendance(attendance, clients=6)
    with pytest.raises(ValueError, match=f"participation .*{words}"):
        run(fs.FedAvg(), participation=attendance)


def test_good_attendances_keep_the_laws():
    for attendance in (Poisson(0.3), Dropout(0.5, 0.2), Stragglers(Poisson(0.5), 0.3, (0.2, 0.4)), TRACE, Sometimes()):
        check_attendance(attendance)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Poisson(0.0), r"share must be a number in \(0, 1\], got 0"),
        (lambda: Dropout(0.0, 0.1), r"participation must be a number in \(0, 1\]"),
        (lambda: Dropout(Poisson, 0.1), r"participation must be a number in \(0, 1\]"),
        (lambda: Dropout(0.5, 1.1), r"probability must be a number in \[0, 1\], got 1.1"),
        (lambda: Stragglers(0.5, 0.5, (0.5, 0.1)), r"work must not fall, got \(0.5, 0.1\)"),
        (lambda: Stragglers(0.5, 0.5, 0.5), "work must be two shares"),
        (lambda: Trace(table().drop(columns="work")), "work is missing"),
        (lambda: Trace(pd.concat([table(), table().head(1)])), "holds client 0 twice in round 1"),
        (lambda: Trace(table().assign(round=0)), "round must hold whole numbers, at least 1"),
        (lambda: Trace(table().assign(work=1.5)), r"work must hold shares in \[0, 1\], got .*1.5"),
        (lambda: run(fs.FedAvg(), participation=Poisson), "or an attendance such as fs.attendance.Poisson"),
        (lambda: run(fs.FedAvg(), participation="half"), r"participation must be a number in \(0, 1\]"),
        (
            lambda: fs.export.Server(fs.FedAvg(), plain_net, LOOP, clients=3, participation=Poisson(0.3)),
            "real clients drop out by themselves",
        ),
    ],
)
def test_wrong_settings_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_method_may_weigh_by_work():
    """What a server does with what is missing is its own step."""

    @dataclass(frozen=True, kw_only=True)
    class ByWork(fs.FedAvg):
        def aggregate(self, state, update):
            weight = update.weight * update.work
            return super().aggregate(state, replace(update, weight=weight / weight.sum()))

    here = run(ByWork(), 1, participation=TRACE)
    plain = run(fs.FedAvg(), 1, participation=TRACE)
    with pytest.raises(AssertionError):
        same(here, plain, 1e-6)
    same(*(run(method, participation=0.5) for method in (ByWork(), fs.FedAvg())))
