"""Designs: what their result speaks of, and which do not exist."""

import itertools

import pytest

from fedstat.inference import Design


def test_every_design_has_a_sentence_of_its_own_and_names_the_clients():
    sentences = {}
    for clients, data, over in itertools.product(("same", "new"), ("fixed", "resplit", "drawn"), ("runs", "clients")):
        design = Design(clients, data, over, 0.25 if data == "resplit" else None)
        sentences[clients, data, over] = design.sentence()
        assert design.crossed == (clients == "same" and over == "clients")
        # with new clients under every seed, other runs are runs on other clients
        if clients == "new" and over == "clients":
            assert sentences.pop((clients, data, over)) == sentences[clients, data, "runs"]
    assert len(set(sentences.values())) == len(sentences) == 9
    for (clients, _, over), sentence in sentences.items():
        assert ("these clients" in sentence) == (clients == "same" and over == "runs")
        assert sentence.endswith(".")
        assert sentence.count(".") == 1
    assert Design("same", "drawn").sentence() == (
        "The comparison speaks of other runs on these clients with new data of theirs, not of other clients."
    )


@pytest.mark.parametrize(("fields", "message"), [
    ({"clients": "old"}, 'clients must be "same" or "new", got'),
    ({"data": "new"}, 'data must be "fixed" or "resplit" or "drawn", got'),
    ({"over": "seeds"}, 'over must be "runs" or "clients", got'),
    ({"data": "resplit"}, "test_to_train is needed with data='resplit'"),
    ({"test_to_train": 0.25}, "test_to_train=0.25 has no use with data='drawn'"),
    ({"data": "resplit", "test_to_train": 0.0}, r"test_to_train must be a number in \(0, inf\), got 0.0"),
    ({"data": "resplit", "test_to_train": float("nan")}, r"test_to_train must be a number in \(0, inf\), got nan"),
])  # fmt: skip
def test_designs_that_do_not_exist_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Design(**{"clients": "same", "data": "drawn", **fields})
