"""What a run would ask of a GPU, as far as that shows without one."""

from dataclasses import dataclass

import pytest
import torch

import fedstat as fs
from tests.support.clients import image_clients
from tests.support.networks import conv_net
from tests.support.runs import TRAINING, run

BACKENDS = torch.backends
SETTINGS = {
    name: (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn)[i]
    for i, name in enumerate(("matmul", "conv", "rnn"))
}


def precisions():
    return {name: setting.fp32_precision for name, setting in SETTINGS.items()}


@dataclass(frozen=True, kw_only=True)
class Watching(fs.FedAvg):
    """FedAvg that writes down at every step how products round."""

    seen: list

    def init(self, network, federation):
        self.seen.append(precisions())
        return super().init(network, federation)

    def objective(self, learner, params, batch, context):
        self.seen.append(precisions())
        return super().objective(learner, params, batch, context)

    def aggregate(self, state, update):
        self.seen.append(precisions())
        return super().aggregate(state, update)

    def models(self, state, ids, federation):
        self.seen.append(precisions())
        return super().models(state, ids, federation)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "ieee"), ("float64", "ieee"), ("tf32", "tf32")])
def test_products_round_as_the_dtype_says_and_torchs_settings_come_back(dtype, expected):
    before, seen = precisions(), []
    method = Watching(seen=seen)
    loop = fs.rounds(method, conv_net, image_clients(), TRAINING, dtype=dtype)
    for round, _ in zip(loop, range(2), strict=False):
        assert precisions() == before, "between two rounds"
        round.evaluate()
    fs.newcomers(run(method, dtype=dtype), image_clients(seed=1))
    assert len(seen) > 10
    assert all(set(one.values()) == {expected} for one in seen)
    assert precisions() == before


def test_a_processor_knows_no_tf32_and_a_run_its_dtype():
    exact, rounded = (run(fs.FedAvg(), 2, dtype=dtype) for dtype in ("float32", "tf32"))
    assert rounded.history.equals(exact.history)
    assert rounded.config["dtype"] == "tf32"
    with pytest.raises(ValueError, match="dtype"):
        run(fs.FedAvg(), 3, dtype="float32", resume=rounded)
