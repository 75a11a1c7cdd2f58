"""The study of costs: counts against formulas, its smoke run, and that the paper's arms can be built."""

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat.federated import build
from simulations.costs import numbers, study

SETTING = study.Setting("made", "small_cnn", classes=2, batch=10, epochs=2, printed="CIFAR-10, Dirichlet 0.1")
SCALE = study.Scale((SETTING,), clients=4, repeats=2, participation=1.0)


pytestmark = pytest.mark.filterwarnings("ignore:no sample is dealt")  # of two classes of the few made-up images


@pytest.fixture
def made(monkeypatch):
    """Give images of random pixels to the study."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3, 16, 16)).astype(np.float32), np.arange(200) % 10
    monkeypatch.setattr(study, "images", lambda _: (x, y, np.zeros(200, bool)))
    return x


def test_counts_are_those_of_the_network_by_hand(made):
    """Two 5x5 convolutions with stride 2 on 16x16 pixels, a pooling, two dense layers."""
    found = study.counted(SCALE, SETTING).set_index("arm")
    conv1, conv2 = 2 * 8 * 3 * 25 * 8 * 8, 2 * 16 * 8 * 25 * 4 * 4
    hidden, head = 2 * 64 * 64, 2 * 64 * 10
    forward = conv1 + conv2 + hidden + head
    train = 3 * forward - conv1  # the pixels need no gradient
    samples = 2 * int(study.draw(SCALE, SETTING, 0).train.n.sum())
    assert found.loc["FedAvg", "flops"] == pytest.approx(samples * train, rel=1e-3)
    assert found.loc["FedProx", "flops"] == found.loc["FedAvg", "flops"]
    only_head = forward + head  # forward through the body, the gradient of the head's weights
    half = samples / 2 * (only_head + train - head)  # the body's own epoch leaves the head's weights alone
    assert found.loc["FedRep, half the epochs each", "flops"] == pytest.approx(half, rel=1e-2)
    asked = samples / 2 * 3 * forward  # responsibilities, once a round
    assert found.loc["FedEM", "flops"] == pytest.approx(3 * samples * train + asked, rel=1e-2)
    sent = sum(p.numel() for p in study.network(SETTING)().parameters())
    assert found.loc["FedAvg", "bytes up"] == 4 * 4 * sent
    assert found.loc["FedFac, dynamic", "bytes up"] == found.loc["FedAvg", "bytes up"]
    assert found.loc["FedFac, static", "bytes up"] < found.loc["FedAvg", "bytes up"]
    before = found["flops before"] - found.loc["FedAvg", "flops before"]
    assert before["FedFac, static"] == pytest.approx(samples * train, rel=1e-2)
    assert before["FedFac, code"] == 0


def test_a_planted_ratio_is_found_under_the_noise_of_turns():
    rng, rows = np.random.default_rng(0), []
    for repeat in range(16):
        level = rng.lognormal(sigma=0.5)  # some turns are slow for all
        for arm in [numbers.CONTROL, *numbers.PAPER]:
            true = {"FedEM": 3.0, "FedRep, half the epochs each": 0.66}.get(arm, 1.0)
            taken = level * true * rng.lognormal(sigma=0.05)
            rows.append({"repeat": repeat, "arm": arm, "processor": taken, "wall": taken})
    times = pd.DataFrame(rows).assign(setting="made", printed="CIFAR-10, Dirichlet 0.1")
    known = numbers.effects({"times": times})
    _, low, high = numbers.ratio(known["processor", "", "FedEM", study.CONTROL])
    assert low < 3.0 < high
    assert high / low < 1.2
    assert numbers.ratio(known["processor", "", "FedRep, half the epochs each", study.CONTROL])[2] < 1
    assert numbers.row({"times": times})["FedRep"] == 0.6683


@pytest.mark.slow
def test_the_study_tells_its_chapter(made, tmp_path):
    tables = study.one_setting(SCALE, SETTING)
    found, told = numbers.findings(tables), numbers.numbers(tables, {})
    assert found["arithmetic FedProx"].sign == "unclear"
    assert found["arithmetic FedRep, half the epochs each"].sign == "less"
    assert [row["arm"] for row in told["rows"]] == list(numbers.PAPER)
    assert set(numbers.figures(tables)) == {"ratios"}


def test_the_papers_scale_builds_every_arm_on_its_networks(monkeypatch):
    x, y = np.zeros((120, 3, 32, 32), np.float32), np.arange(120) % 10
    monkeypatch.setattr(study, "images", lambda _: (x, y, np.zeros(120, bool)))
    paper = study.SCALES["paper"]
    assert [s.printed for s in paper.settings] == [
        "CIFAR-10, Dirichlet 0.1", "CIFAR-10, Dirichlet 0.5", "CIFAR-10, Dirichlet 1",
        "CIFAR-100, S = 5", "CIFAR-100, S = 10", "CIFAR-100, S = 30",
    ]  # fmt: skip
    for setting in (paper.settings[0], paper.settings[3]):
        network = build(study.network(setting), np.random.default_rng(0))
        for arm, method in study.arms(setting).items():
            assert method.phases(network, fs.Training(lr=1e-3), 0), arm
            layers = getattr(method, "layers", None) or ()
            assert all(network.incoming(layer) for layer in layers), arm
            assert bool(layers) == arm.startswith("FedFac")
