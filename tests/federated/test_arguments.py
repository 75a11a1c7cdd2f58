"""Arguments of the wrong kind: an error that names argument, value and remedy, before anything trains."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

import fedstat as fs
from fedstat.data import Clients, Samples
from fedstat.federated.client.local import Phase
from fedstat.federated.client.samples import BatchOrders, Job, StackedSamples
from fedstat.federated.client.seeds import Seeds


@dataclass(frozen=True, kw_only=True)
class Mine(fs.Method):
    """A method from outside, without checks of its own."""

    beta: float = 0.9
    steps: int | None = None
    nesterov: bool = False


X = np.random.default_rng(0).normal(size=(48, 3)).astype(np.float32)
CLIENT = np.repeat(np.arange(4), 12)
CLIENTS = fs.data.from_arrays(X, np.arange(48) % 2, CLIENT)
TRAINING = fs.Training(lr=0.1)


def run(method=None, clients=CLIENTS, training=TRAINING, **options):
    options = {"rounds": 2, "progress": False} | options
    return fs.federate(method or fs.FedAvg(), fs.models.mlp(3, 4, 2), clients, training, **options)


#: Whatever has fields that are numbers or truth values.
SETTINGS = [TRAINING, Mine(), Phase((), epochs=1, first_epoch=0, steps=1)]
SETTINGS += [cls(**cls.example) for cls in map(fs.methods.find, fs.methods.available())]
NUMERIC = {"float": "a number", "int": "a whole number", "bool": "True or False"}
FIELDS = [
    pytest.param(of, f.name, NUMERIC[kind], id=f"{type(of).__name__}.{f.name}")
    for of in SETTINGS
    for f in fields(of)
    if (kind := str(getattr(f.type, "__name__", f.type)).partition(" |")[0]) in NUMERIC
]


def test_all_numeric_fields_are_found():
    assert len(FIELDS) > 2 * len(SETTINGS)
    assert {type(of).__name__ for of in SETTINGS} >= {*fs.methods.available()}


@pytest.mark.slow
@pytest.mark.parametrize(("of", "name", "kind"), FIELDS)
@given(value=st.text() | st.binary() | st.lists(st.floats()) | st.complex_numbers() | st.just(np.nan))
def test_a_field_that_is_a_number_takes_no_text(of, name, kind, value):
    assume(not (isinstance(of, fs.Training) and name in ("lr", "local_epochs") and value and isinstance(value, list)))
    with pytest.raises(ValueError, match=f"^lr must|^{name} must be {kind}"):
        replace(of, **{name: value})


@pytest.mark.parametrize(("of", "name", "kind"), FIELDS)
def test_numpys_scalars_are_pythons_numbers(of, name, kind):
    value = getattr(of, name)
    kinds = {bool: [np.bool_], int: [np.int64, np.uint8, np.array, torch.tensor], float: [np.float64, np.array]}
    for make in kinds.get(type(value), []):
        assert replace(of, **{name: make(value)}) == of
        assert type(getattr(replace(of, **{name: make(value)}), name)) is type(value)
    if not isinstance(value, bool):
        with pytest.raises(ValueError, match=f"^{name} must be {kind}.*, got True"):
            replace(of, **{name: True})


def test_numbers_of_numpy_run_as_pythons_do():
    right = run(chunk=2, participation=0.5, checkpoint=1, evaluate_at=[1, 2]).history
    training = fs.Training(lr=np.float64(0.1), batch_size=np.int64(32), local_epochs=np.array(1))
    found = run(
        training=training, rounds=np.int64(2), chunk=np.int64(2), participation=np.float32(0.5),
        checkpoint=np.uint8(1), evaluate_at=np.array([1, 2]), seed=np.int64(0),
    )  # fmt: skip
    assert found.history.equals(right)
    offered = fs.newcomers(found, CLIENTS, chunk=np.int64(2))
    assert offered.equals(fs.newcomers(found, CLIENTS, chunk=2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: run("FedAvg"), r"method must be a fedstat Method, .* got 'FedAvg'\. .*fs\.methods\.find\('FedAvg'\)"),
        (lambda: run(["FedAvg", "Local"]), r"must be a fedstat Method, .* got 'FedAvg'\. .*fs\.methods\.find"),
        (lambda: run({"a": "FedAvg"}), r"must be a fedstat Method, .* got 'FedAvg'\. .*fs\.methods\.find"),
        (lambda: run([fs.FedAvg, fs.Local]), "Did you pass the class"),
        (lambda: run(3), r"must be a fedstat Method, or several, got 3\. One is fs\.FedAvg\(\)"),
        (lambda: run([fs.FedAvg(), fs.FedAvg()]), "two methods have the label 'FedAvg'"),
        (lambda: run(training=fs.Training(lr=1e300)), r"lr of Training must be at most 3\.403e\+38 in float32"),
        (lambda: run(fs.methods.FedProx(mu=1e39)), r"mu of FedProx must be at most 3\.403e\+38 in float32, got 1e\+39"),
        (lambda: fs.Training(lr=10**400), r"lr must be a number in \[0, inf\), got 1000"),
        (lambda: fs.Training(lr="0.1"), r"^lr must be a number in \[0, inf\), got '0\.1'\.$"),
        (lambda: fs.Training(lr=np.array([0.1, 0.2])), r"lr must be a number in \[0, inf\), got array"),
        (lambda: fs.Training(lr=0.1, loss=["squared"]), "loss must be .*cross_entropy"),
        (lambda: Phase((), lr="0.1"), r"lr must be a number in \[0, inf\), got '0\.1'"),
        (lambda: Phase(("w",), lr={"w": "0.1"}), r"lr of 'w' must be a number in \[0, inf\), got '0\.1'"),
        (lambda: Phase((), epochs=-1), "epochs must be a whole number, at least 0, got -1"),
        (lambda: run(participation="0.5"), r"participation must be a number in \(0, 1\] or an .*, got '0\.5'"),
        (lambda: run(participation=True), r"participation must be a number in \(0, 1\] or an .*, got True"),
        (lambda: run(rounds="2"), "rounds must be a whole number, at least 1, got '2'"),
        (lambda: run(chunk=2.5), "chunk must be a whole number, at least 1, got 2.5"),
        (lambda: run(checkpoint="x"), "checkpoint must be a whole number"),
        (lambda: run(evaluate_at=2.5), "evaluate_at must hold rounds between 0 and 2, got 2.5"),
        (lambda: run(evaluate_at=["1"]), "evaluate_at must hold rounds"),
        (lambda: run(evaluate_at=[[1]]), "evaluate_at must hold rounds"),
        (lambda: run(device="gpu"), 'device must be one that torch finds here, such as "cpu"; got \'gpu\''),
        (lambda: run(device="cuda:99"), "device must be one that torch finds here, .* got 'cuda:99'"),
        (lambda: run(device="mps:7"), "device must be one that torch finds here, .* got 'mps:7'"),
        (lambda: run(device=None), "device must be one that torch finds here, .* got None"),
        (lambda: fs.newcomers(run(), CLIENTS, device="gpu"), "device must be one that torch finds here"),
        (lambda: fs.data.from_arrays(X, CLIENT, CLIENT, test="0.2"), "test must be a number, got '0.2'"),
        (lambda: fs.data.from_arrays(X, CLIENT * 1j, CLIENT), "y must hold labels, text or numbers, got dtype complex"),
        (
            lambda: fs.data.from_arrays(X, CLIENT, np.array([1, "1"] * 24, dtype=object)),
            "client holds both text and other labels",
        ),
        (lambda: Samples(np.ones((2, 1)), np.array(["a", "b"]), np.array([2])), "y must hold real numbers, got"),
        (lambda: Samples(np.ones((2, 1)), np.ones(2), np.array([2.0])), "n must hold whole numbers, got dtype"),
        (
            lambda: Clients(Samples.from_rows(np.ones((1, 2, 1)), np.array([[0, -1]]), np.array([2])), classes=(0, 1)),
            r"codes 0\.\.1 of the 2 classes, got -1\.\.0",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_a_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_large_number_is_right_where_the_floating_type_holds_it():
    result = run(Mine(beta=1e300), training=fs.Training(lr=1e-300, weight_decay=1e300), dtype="float64", rounds=1)
    assert result.history["value"].notna().all()


@pytest.mark.parametrize("dtype", [">f4", ">f8", np.longdouble, np.float16])
def test_any_real_type_of_numpy_gives_the_same_run(dtype):
    x, n = X.astype(np.float16).reshape(4, 12, 3), np.full(4, 12)
    y = np.arange(48).reshape(4, 12) % 2
    right = run(clients=Clients(Samples.from_rows(x.astype(np.float32), y, n), classes=(0, 1))).history
    found = run(
        clients=Clients(Samples.from_rows(x.astype(dtype), y.astype(">i8"), n.astype(">i4")), classes=(0, 1))
    ).history
    assert found.equals(right)
    again = run(clients=fs.data.from_arrays(X.astype(">f4"), (np.arange(48) % 2).astype(">i4"), CLIENT.astype(">i2")))
    assert again.history.equals(run().history)


class Words(nn.Module):
    """An embedding of five tokens, and one of four places that has nothing to do with them."""

    def __init__(self):
        super().__init__()
        self.embedding, self.place, self.head = nn.Embedding(5, 2), nn.Embedding(4, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.head((self.embedding(x) + self.place(torch.arange(4))).mean(1))


@pytest.mark.parametrize("split", ["train", "test"])
def test_tokens_beyond_the_vocabulary_are_refused_by_client(split):
    x = np.random.default_rng(1).integers(0, 5, (48, 4))
    clients = fs.data.from_indices(x, np.arange(48) % 2, fs.data.by_group(CLIENT), tokens=True)
    training = {"training": TRAINING, "rounds": 1, "progress": False}
    assert len(fs.federate(fs.FedAvg(), Words, clients, **training).history)
    with pytest.raises(ValueError, match=r"does not take inputs of shape .* make clients with tokens=True"):
        fs.federate(fs.FedAvg(), Words, fs.data.from_arrays(x, np.arange(48) % 2, CLIENT), **training)
    clients.splits[split].client(2)[0][1, 3] = 5
    message = rf"x must hold tokens 0 to 4, .* vocabulary of 5, but {split} sample 1 of client 2 holds 5\."
    with pytest.raises(ValueError, match=message):
        fs.federate(fs.FedAvg(), Words, clients, **training)
    negative = np.where(x == x.max(), -3, x).reshape(4, 12, 4)
    with pytest.raises(ValueError, match=r"tokens 0, 1, \.\.\.; client \d, sample \d+ holds -3\."):
        Samples.from_rows(negative, np.zeros((4, 12)), np.full(4, 12))


@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.PerFedAvg(hessian_free=True)])
@pytest.mark.parametrize("batch_size", [10**9, 10**30])
def test_a_batch_larger_than_the_data_is_all_samples(method, batch_size):
    clients = fs.data.from_arrays(X, np.arange(48) % 2, np.arange(48) % 4 // 2)  # 24 each; 19 of them train
    right = run(method, clients, fs.Training(lr=0.1, batch_size=19, local_epochs=2))
    huge = run(method, clients, fs.Training(lr=0.1, batch_size=batch_size, local_epochs=2))
    assert huge.history.equals(right.history)
    pool = StackedSamples(torch.zeros(2 * 19, 3), torch.zeros(2 * 19), clients.train.n, torch.float32)
    assert (
        BatchOrders(batch_size, pool, 0, group=method.batches).of([Job(0, Seeds(0), 0)], 0, [1]).places.shape[-1] == 19
    )


def test_a_class_keeps_to_the_ranges_that_it_inherits_and_may_narrow_them():
    with pytest.raises(ValueError, match=r"fine_tune must be a whole number, at least 0, got -1"):
        fs.methods.FedProx(fine_tune=-1)  # FedAvg's range, beside one of its own

    class Held(fs.methods.FedProx):
        _ranges = {"mu": "[1, inf)"}  # noqa: RUF012

    assert Held(mu=1.0).mu == 1.0
    assert fs.methods.FedProx(mu=0.5).mu == 0.5
    with pytest.raises(ValueError, match=r"mu must be a number in \[1, inf\), got 0.5"):
        Held(mu=0.5)
    with pytest.raises(ValueError, match="weighting must be"):
        Held(mu=1.0, weighting="equal")
