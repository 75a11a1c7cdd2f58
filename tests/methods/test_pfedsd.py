"""pFedSD: limits, a plain loop, bytes, clients never chosen and new ones."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.slots import slot, without_slots
from fedstat.methods import FedAvg, PFedSD
from tests.support.clients import image_clients, noise_regression, samples, vector_clients
from tests.support.copies import assert_whole_models_travel, load, mean_of, orders, start_of, trained
from tests.support.networks import TwoLogits, leaves_of
from tests.support.runs import FULL, KEY, TRAINING, assert_close, offered, run, same, traffic, trajectory


def test_pfedsd_without_distillation_has_fedavgs_server():
    plain, fedavg = run(PFedSD(penalty=0)), run(FedAvg())
    same(plain, fedavg, 0, estimands=("global", None))
    assert_close(without_slots(plain.states[KEY].server), fedavg.states[KEY].server, 0)


def test_pfedsd_without_penalty_shows_what_plain_training_makes_of_the_received_model():
    options = {"rounds": 4, "training": FULL, "participation": 1.0}
    personal = trajectory(run(PFedSD(penalty=0.0), **options), "personal").unstack("client")
    tuned = trajectory(run(FedAvg(fine_tune=FULL.local_epochs), **options), "fine-tuned").unstack("client")
    np.testing.assert_allclose(personal.to_numpy()[1:], tuned.to_numpy()[:-1], rtol=0, atol=1e-10)
    assert np.abs(tuned.to_numpy()[1:] - tuned.to_numpy()[:-1]).max() > 1e-3


def test_three_rounds_of_pfedsd_are_those_of_a_plain_loop():
    clients, penalty, heat = image_clients(3), 2.0, 3.0
    method = PFedSD(penalty=penalty, temperature=heat, weighting="uniform")
    result = run(method, 3, clients=clients, participation=1.0)
    w, teachers = start_of(result), [None, None, None]
    for t in range(3):
        for k in range(3):
            x, y = samples(clients, k)

            def loss(m, b, x=x, y=y, teacher=teachers[k]):
                outputs = m(x[b])
                if teacher is None:
                    return F.cross_entropy(outputs, y[b])
                with torch.no_grad():
                    target = (teacher(x[b]) / heat).softmax(-1)
                student = (outputs / heat).log_softmax(-1)
                kl = F.kl_div(student, target, reduction="batchmean")
                return F.cross_entropy(outputs, y[b]) + penalty * heat**2 * kl

            teachers[k] = trained(w, loss, orders(clients, k, t, TRAINING), TRAINING).eval()
        w = load(w, mean_of(teachers, np.full(3, 1 / 3)))
    state = result.states[KEY]
    assert_close(without_slots(state.server), leaves_of(w))
    for k in range(3):
        assert_close(slot({n: leaf[k] for n, leaf in state.clients.items()}, "teacher"), leaves_of(teachers[k]))


def test_one_output_with_the_logistic_loss_is_two_logits_with_cross_entropy():
    method, models = PFedSD(penalty=2, temperature=2), (fs.models.mlp(3, 5, 1), TwoLogits)
    same(*(run(method, 3, clients=vector_clients(), model=model) for model in models))


def test_one_model_travels_in_each_direction():
    assert_whole_models_travel(PFedSD())


def test_pfedsd_trains_the_shared_model_for_clients_never_chosen_and_for_new_ones():
    method = PFedSD()
    result = run(method, 1, participation=0.34)
    federation, state = result.federations[KEY], result.states[KEY]
    chosen = traffic(result, "bytes_up").columns.to_numpy(copy=True)
    met = state.clients["met/teacher"][:, 0].numpy()
    assert len(chosen) == 2
    assert set(np.flatnonzero(met)) == set(chosen)
    ids = torch.arange(6)
    start = FedAvg().receive(fs.federated.State(without_slots(state.server)), ids)
    phases = FedAvg().phases(federation.network, federation.training, 1)
    tuned = federation.train(FedAvg(), start, ids, phases, 1)
    shown, new = method.models(state, ids, federation)["personal"].params, offered(method, state, federation)
    assert_close(new["personal"].params, tuned)
    assert_close({n: leaf[met == 0] for n, leaf in shown.items()}, {n: leaf[met == 0] for n, leaf in tuned.items()})
    assert_close(
        {n: leaf[chosen] for n, leaf in shown.items()},
        slot({n: s[chosen] for n, s in state.clients.items()}, "teacher"),
    )
    with pytest.raises(ValueError, match="never took part"):
        method.models(state, ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PFedSD(temperature=0), "temperature must be a number"),
        (lambda: PFedSD(penalty=np.nan), "penalty must be a number"),
        (lambda: run(PFedSD(), clients=noise_regression(), model=fs.models.mlp(3, 1)), "class probabilities"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
