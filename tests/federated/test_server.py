"""Optimisers of the server: torch's and plain loops beside them, the laws, and who refuses them."""

from dataclasses import dataclass, replace

import pytest
import torch

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import set_up
from fedstat.experiment.parsing import code_named
from fedstat.testing import check_optimizer
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import conv_net
from tests.support.runs import KEY, equal, run

TAU = 1e-2
OPTIMIZERS = {
    "sgd": fs.server.SGD(lr=0.6, momentum=0.9),
    "nesterov": fs.server.SGD(lr=0.6, momentum=0.5, nesterov=True),
    "adagrad": fs.server.Adagrad(lr=0.05, tau=TAU),
    "adam": fs.server.Adam(lr=0.02, tau=TAU),
    "yogi": fs.server.Yogi(lr=0.02, tau=TAU),
}


def of_torch(name, weights):
    """The optimiser of torch that does the same."""
    if name == "adagrad":
        return torch.optim.Adagrad(weights, lr=0.05, eps=TAU, initial_accumulator_value=TAU**2)
    momentum = {"sgd": 0.9, "nesterov": 0.5}[name]
    return torch.optim.SGD(weights, lr=0.6, momentum=momentum, nesterov=name == "nesterov")


def by_hand(name, w, delta, m, v):
    """A step of Algorithm 2 of Reddi et al. (2021), number by number as printed there."""
    m = 0.9 * m + 0.1 * delta
    v = {"adam": 0.99 * v + 0.01 * delta**2, "yogi": v - 0.01 * delta**2 * torch.sign(v - delta**2)}[name]
    return w + 0.02 * m / (torch.sqrt(v) + TAU), m, v


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_server_steps_as_a_plain_loop(name):
    clients, training = vector_clients(), fs.Training(lr=0.1, batch_size=5)
    method, network = fs.FedAvg(server=OPTIMIZERS[name]), fs.models.mlp(3, 5, 2)
    loop, optimizer = None, None
    for now in fs.rounds(method, network, clients, training, participation=0.5, dtype="float64"):
        (update,), (state,) = now.updates.values(), now.states.values()
        if loop is None:
            loop = {n: leaf[0].clone().requires_grad_() for n, leaf in update.start.items()}
            m = {n: torch.zeros_like(w) for n, w in loop.items()}
            v = {n: torch.full_like(w, TAU**2) for n, w in loop.items()}
            optimizer = of_torch(name, loop.values()) if name not in ("adam", "yogi") else None
        delta = {n: sum(p * (update.end[n][k] - loop[n]) for k, p in enumerate(update.weight)).detach() for n in loop}
        with torch.no_grad():
            for n, w in loop.items():
                torch.testing.assert_close(update.start[n][0], w.detach(), rtol=0, atol=1e-12)
                w.grad = -delta[n]
                if optimizer is None:
                    stepped, m[n], v[n] = by_hand(name, w, delta[n], m[n], v[n])
                    w.copy_(stepped)
        if optimizer is not None:
            optimizer.step()
        for n, w in loop.items():
            torch.testing.assert_close(state.server[n], w.detach(), rtol=0, atol=1e-12)
        if now.number == 6:
            break


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_server_optimizers_obey_the_laws_of_optimizers(optimizer):
    check_optimizer(optimizer, examples=2)


def test_a_whole_step_is_none():
    """A learning rate of one without memory takes over what was aggregated."""
    for method in (fs.FedAvg(), fs.methods.FedPer()):
        plain, stepped = (run(replace(method, server=one)) for one in (None, fs.server.SGD()))
        for n, leaf in plain.states[KEY].server.items():
            torch.testing.assert_close(stepped.states[KEY].server[n], leaf, rtol=0, atol=1e-14)


def test_running_statistics_are_taken_over_as_aggregated():

    def norm():
        return torch.nn.Sequential(conv_net(), torch.nn.BatchNorm1d(4))

    method, training = fs.FedAvg(server=fs.server.Adam(lr=3.0)), fs.Training(lr=0.05, batch_size=8)
    now = next(fs.rounds(method, norm, image_clients(), training, dtype="float64"))
    (update,), (state,) = now.updates.values(), now.states.values()
    for name in ("1.running_mean", "1.running_var"):
        mean = torch.tensordot(update.weight, update.end[name], 1)
        torch.testing.assert_close(state.server[name], mean, rtol=0, atol=1e-14)
    assert (state.server["1.weight"] - update.start["1.weight"][0]).abs().max() > 1


@dataclass(frozen=True)
class Decaying(fs.AdamW):
    """An own optimiser that shrinks all that it is given."""

    lr: float = 0.01
    decay: float = 1.0


def test_what_nobody_shares_keeps_its_value():
    state = run(fs.methods.FedBABU(server=Decaying()), clients=vector_clients(), model=fs.models.mlp(3, 5, 2)).states[
        KEY
    ]
    for n, leaf in state.clients.items():
        assert (leaf == state.server[n]).all(), "clients train under the first head, and so must the server's model be"


def test_executors_save_and_load_agree(tmp_path):
    method = fs.methods.SCAFFOLD(server=fs.server.Yogi(lr=0.1))
    training = fs.Training(lr=0.05, batch_size=5)
    one, other = (run(method, training=training, executor=e) for e in ("stacked", "per-client"))
    for n, leaf in one.states[KEY].server.items():
        torch.testing.assert_close(other.states[KEY].server[n], leaf, rtol=0, atol=1e-10)
    one.save(tmp_path / "run")
    again = fs.load(tmp_path / "run")
    assert again.methods["it"] == method
    whole = run(method, 5, training=training, executor="stacked")
    equal(run(method, 5, training=training, executor="stacked", resume=again), whole, atol=0)


@dataclass(frozen=True)
class Drawing:
    """Goes anywhere."""

    lr: float = 0.1

    def start(self, params):
        return {}

    def step(self, params, grads, state):
        return {n: torch.rand_like(g) for n, g in grads.items()}, 1.0


def test_an_own_optimizer_is_tried_first():
    with pytest.raises(ValueError, match="server Drawing breaks the law 'repeat': it draws random numbers"):
        run(fs.FedAvg(server=Drawing()))
    with pytest.raises(ValueError, match=r"server must be an optimiser with a rate lr, .* got 'adam'"):
        fs.FedAvg(server="adam")
    with pytest.raises(ValueError, match="server must be an optimiser"):
        fs.FedAvg(server=fs.server.SGD)
    with pytest.raises(TypeError, match="positional argument"):
        fs.server.SGD(0.5)  # of what?
    with pytest.raises(ValueError, match=r"lr must be a number in \(0, inf\)"):
        fs.server.Adam(lr=0)


FILE = """
rounds = 2
[data]
name = "digits"
[partition]
kind = "iid"
clients = 4
[model]
name = "mlp"
widths = [8]
[training]
lr = 0.1
[method.FedAvg]
server = {server}
"""


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ('{name = "adam", lr = 0.01, tau = 0.1}', fs.server.Adam(lr=0.01, tau=0.1)),
        ('"sgd"', fs.server.SGD()),
        ('{name = "mine.py:Own", lr = 2.0}', 2.0),
    ],
)
def test_an_experiment_names_a_server_optimizer(tmp_path, written, made):
    (tmp_path / "mine.py").write_text("import fedstat as fs\nclass Own(fs.server.SGD):\n    pass\n")
    (tmp_path / "one.toml").write_text(FILE.format(server=written))
    server = set_up(read(tmp_path / "one.toml")).methods["FedAvg"].server
    assert made in (server, server.lr)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('"adma"', r"method.FedAvg.server.name.*adma.*adam"),
        ('"adam"', r"method.FedAvg.server.lr is missing"),
        ('{name = "adam", lr = 0.1, beta3 = 1}', r"method.FedAvg.server.*beta3"),
        ("3", r"method.FedAvg.server"),
    ],
)
def test_a_wrong_server_optimizer_is_named(tmp_path, written, words):
    (tmp_path / "one.toml").write_text(FILE.format(server=written))
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "one.toml")


@pytest.mark.parametrize(
    "grid",
    [
        '[method.FedAvg.grid]\nserver = ["sgd", "mine.py:Own"]',
        '[method.FedAvg.grid]\nserver = ["sgd", {name = "mine.py:Own"}]',
        '[tune.grid]\nserver = ["sgd", "mine.py:Own"]',
        '[tune.grid]\naggregator = ["mean", "median", {name = "mine.py:rule"}]',
    ],
)
def test_code_in_a_grid_is_found_before_it_runs(tmp_path, grid):
    (tmp_path / "mine.py").write_text(
        "import fedstat as fs\nclass Own(fs.server.SGD):\n    pass\ndef rule(changes, weight):\n    return changes[0]\n"
    )
    text = FILE.format(server='"sgd"').replace("clients = 4", "clients = 4\nvalidation = 0.2")
    (tmp_path / "one.toml").write_text(f"{text}\n{grid}\n" + ("" if "[tune" in grid else "[tune]\nseed = [7]\n"))
    if "[tune" in grid:
        (tmp_path / "one.toml").write_text(f"{text}\n[tune]\nseed = [7]\n{grid}\n")
    (name,) = code_named(tmp_path / "one.toml").values()
    assert name.startswith(str(tmp_path / "mine.py"))
    read(tmp_path / "one.toml")
