"""One experiment per paper: what studies say of it, and what the first pages make of that."""

from pathlib import Path

import pandas as pd
import pytest

from reports.content import answers, proof
from simulations import published


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


PUBLISHED = Path(published.__file__).parent


def columns(table, setting):
    """Return a published table of accuracies with a row for each setting and a column for each method."""
    rows = pd.read_csv(PUBLISHED / table)
    return rows.pivot(index=setting, columns="method", values="accuracy")


def test_what_the_report_says_of_the_papers_tables_is_what_they_print():
    """Pages 10 and 11, held against the printed numbers: who lies above Local and FedAvg in every setting."""
    decomp = columns("feddecomp/table_1.csv", ["data", "dirichlet"])
    factorized = columns("factorized_fl/table_1_top.csv", ["data", "partition", "labels"])
    domains = pd.read_csv(PUBLISHED / "factorized_fl/table_1_bottom.csv", index_col="method").T
    domains = domains[~domains.index.str.endswith(("_sd", "cost"))]
    fac = columns("fedsplit/table_2.csv", "setting")
    filters = columns("filter_decomposition/table_1.csv", "setting")
    assert [len(t) for t in (decomp, factorized, domains, fac, filters)] == [9, 8, 6, 8, 6]
    for control in ("Local", "FedAvg"):
        assert (decomp["FedDecomp"] > decomp[control]).all()
        assert (factorized["Factorized-FL β"] > factorized[control]).all()
        assert (domains["Factorized-FL β"] > domains[control]).all()
    assert (fac["FedFac dynamic"] > fac["FedAvg"]).all()
    assert not (fac["FedFac static"] > fac["FedAvg"]).all()  # so the report names the dynamic one
    assert "Local" not in fac
    assert (filters["Ours"] > filters["Local"]).all()
    assert "FedAvg" not in filters
