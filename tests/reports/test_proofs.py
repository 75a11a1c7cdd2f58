"""One experiment per paper: what studies say of it, and what the first pages make of that."""

import pytest

from reports.content import answers, proof
from simulations.studies import tell
from theory_checks import COMMITTED


def beside(**answer):
    counts = {"of": 3, "same": 1, "opposite": 1, "unresolved": 1, "equal": 0} | answer
    return {"order": counts, "sign": counts, "control": "FedAvg", "rows": []}


def test_two_answers_add_up():
    found = answers([beside(), beside(same=2, opposite=0)])
    assert found["order"] == found["sign"] == {"of": 6, "same": 3, "opposite": 1, "unresolved": 2, "equal": 0}
    assert found["control"] == "FedAvg"
    assert answers([]) is None


def test_an_experiment_is_told_by_its_findings():
    findings = {
        "a": {"what": "accuracy of A less B", "text": "1.0 [0.5, 1.5] points", "sign": "more"},
        "b": {"what": "loss of A less B", "text": "0.10 [−0.10, 0.30] nats", "sign": "unclear"},
    }
    study = {"name": "study", "about": {"paper": "Paper", "title": "Title"}, "findings": findings}
    one = {"what": "ten clients", "findings": ["b", "a"], "beside": beside(), "printed": "A 3, B 2"}
    found = proof(study, one | {"names": {"a": "A, less B"}})
    assert [(f["what"], f["text"]) for f in found["findings"]] == [
        ("loss of A less B", "0.10 [−0.10, 0.30] nats"),
        ("A, less B", "1.0 [0.5, 1.5]"),
    ]
    assert found["answers"]["order"]["same"] == 1
    assert findings["a"]["text"].endswith("points")  # the chapter's own stays
    assert proof(study, one | {"beside": None})["answers"] is None
    with pytest.raises(KeyError):
        proof(study, one | {"findings": ["c"]})


@pytest.mark.parametrize(
    ("name", "rivals", "printed", "signs"),
    [
        ("factorized", {"Local", "a private head"}, "Local 63.9, private head 65.3, α 67.9, β 70.6", 10),
        (
            "fedfac",
            {"FedPer", "a random split"},
            "dynamic minus FedPer: 2.8 to 6.8 points, dynamic minus a random split: 1.2 to 2.4 points",
            9,
        ),
    ],
)
def test_committed_experiments_hold_methods_against_their_rivals(name, rivals, printed, signs):
    _, numbers, findings = tell(name, COMMITTED / name)
    (one,) = numbers["proof"]
    assert {*one["findings"]} == {*one["names"]} <= {*findings}
    assert {words.partition(" minus ")[2] for words in one["names"].values()} == rivals
    assert one["printed"] == printed
    assert sum(record["sign"]["of"] for record in one["beside"]) == signs
