"""Every method under a server's optimiser, an aggregator, a compression and a mechanism obeys its laws, or refuses."""

import inspect
import re

import pytest

import fedstat as fs
from fedstat.testing import check_method
from tests.support.clients import vector_clients
from tests.support.named import NAMED
from tests.support.runs import equal, run

pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")

NOTHING = dict.fromkeys(("FedAMP", "FedFOMO", "FedProto", "Local"), "keeps no weights at the server")
SUM = "has no place for .*: its server keeps the sum of what clients remember"
#: Named methods that refuse, and their words.
WITHOUT_STEP = NOTHING | {
    "ClusteredFL": "server must be None, since every cluster has a mean of its own",
    "FactorizedFL": "server must be None, since clients have means of their own",
}
WITHOUT_MEAN = NOTHING | dict.fromkeys(
    ("ClusteredFL", "FactorizedFL", "FedCAC", "FedDyn", "FedFac", "FedNova", "FedPAC", "FilterDecomp", "PFedGate",
     "SCAFFOLD"), "aggregates in a way of its own, which has no place for",
)  # fmt: skip
WITHOUT_CHANGES = NOTHING | {
    "FactorizedFL": "uploads 'hidden.weight.v', of which clients have values of their own",
    "FedCAC": "sends truth values as 'critical/hidden.weight'",
    "FedDyn": SUM,
    "PFedGate": "sends truth values as 'kept'",
    "SCAFFOLD": SUM,
}
#: By what is tried: a method's arguments, the joint last, who refuses them, and laws that cannot hold under them. Only
#: under a median is one client's training still plain training. Adam amplifies the rounding of sums, so that the
#: clients' order shows; random codes belong to a client's number. Shared statistics are refused beside a mechanism.
JOINTS = {
    "server": ({"server": fs.server.Adam(lr=0.1)}, WITHOUT_STEP, {"one client", "permutation"}),
    "median": ({"aggregator": fs.aggregators.Median()}, WITHOUT_MEAN, set()),
    "top-k": ({"compression": fs.compression.TopK(0.4)}, WITHOUT_CHANGES, {"one client"}),
    "qsgd": ({"compression": fs.compression.QSGD(3)}, WITHOUT_CHANGES, {"one client", "permutation", "clones"}),
    "cut": (
        {"weighting": "uniform", "mechanism": fs.mechanisms.Gaussian(clip=0.05, noise=0)},
        WITHOUT_MEAN,
        {"one client", "statistics"},
    ),
}

#: What is not among all that goes together.
ALONE = ("qsgd", "cut")


def refusal(name, options):
    """What a method says to arguments that it does not take, by the second round; else nothing."""
    cls = fs.methods.find(name)
    model, training = cls.example_model or fs.models.mlp(3, 5, 2), fs.Training(lr=0.1, batch_size=5)
    try:
        rounds = fs.rounds(cls(**cls.example, **options), model, vector_clients(), training)
        next(rounds), next(rounds)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("joint", "name"), [(joint, name) for joint, (_, words, _) in JOINTS.items() for name in words]
)
def test_who_has_no_place_says_so(joint, name):
    options, words, _ = JOINTS[joint]
    assert re.match(f"({name} )?{words[name]}", refusal(name, options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("joint", "name"),
    [(joint, n) for joint, (_, words, _) in JOINTS.items() for n in fs.methods.available() if n not in words],
)
def test_all_others_obey_their_laws(joint, name):
    """A method that is not named may refuse, too, by a sentence with its name."""
    options, _, laws = JOINTS[joint]
    if name not in NAMED and (text := refusal(name, options)):
        assert name in text
        return
    cls = fs.methods.find(name)
    # in which chunks clients train is settled before any of these acts; what is resumed has them together below
    settled = {"chunk"} if joint in ALONE else {"chunk", "resume"}
    check_method(cls(**cls.example, **options), except_for=settled | laws, examples=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", fs.methods.available())
def test_all_that_a_method_takes_goes_together_where_clients_attack_drop_out_and_are_slow(name, tmp_path):
    """Executors agree, and a run that is continued has the bits of one that never stopped."""
    every = {"server": fs.server.SGD(lr=0.7, momentum=0.5), "aggregator": fs.aggregators.Median(),
             "compression": fs.compression.TopK(0.4)}  # fmt: skip
    cls = fs.methods.find(name)
    method = cls(**cls.example, **{of: joint for of, joint in every.items() if not refusal(name, {of: joint})})
    who = fs.attendance.Stragglers(fs.attendance.Dropout(0.9, 0.3), 0.5, (0.2, 0.8))
    how = {"clients": vector_clients(), "model": cls.example_model or fs.models.mlp(3, 5, 2), "participation": who}
    how |= {"training": fs.Training(lr=0.1, batch_size=3, local_epochs=2), "attack": fs.attacks.SignFlip(0.2, 0.5)}
    whole, other = (run(method, 3, executor=executor, **how) for executor in ("stacked", "per-client"))
    equal(whole, other, atol=1e-8)
    assert whole.traffic.equals(other.traffic)
    run(method, 1, executor="stacked", **how).save(tmp_path / "run")
    half = fs.load(tmp_path / "run", how["model"])
    continued = run(method, 3, executor="stacked", resume=half, **how)
    equal(whole, continued, atol=0)
    assert whole.traffic.equals(continued.traffic)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_method_lists_what_it_takes(name):
    """Among its parameters, which may also say that some are refused, or that one is None."""
    text = inspect.getdoc(fs.methods.find(name)).partition("Parameters\n")[2]
    entries = re.findall(r"^(\w[\w, ]*?)(?: : (?!None\n).*)?\n    (?!These are refused)", text, re.M)
    listed = {of for names in entries for of in names.split(", ")}
    for options, words, _ in JOINTS.values():
        assert (next(reversed(options)) in listed) == (name not in words)


def test_a_method_may_refuse_by_its_settings():
    with pytest.raises(ValueError, match="server must be None where beta < 1"):
        fs.methods.FilterDecomp(beta=0.5, server=fs.server.Adam(lr=0.1))
