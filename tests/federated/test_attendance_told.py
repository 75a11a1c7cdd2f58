"""What is said of attendances: in comparisons and reports, and where they are refused."""

import pytest

import fedstat as fs
from fedstat.federated.attendance import Dropout
from fedstat.report.sources import read_source, settings_of
from tests.support.runs import run


def test_results_under_other_attendances_are_told_apart_in_words(tmp_path):
    some, all_ = (run(fs.FedAvg(), 1, participation=one) for one in (Dropout(1.0, (0.1,) * 6), 1.0))
    words = r"participation Dropout\(participation=1.0, probability=\(0.1, ..., 0.1\)\) and 1.0"
    with pytest.raises(ValueError, match=words):
        fs.compare([some, all_])
    some.save(tmp_path / "run")
    settings = dict(settings_of([read_source(tmp_path / "run")]))
    assert settings["clients in a round"] == "Dropout(participation=1.0, probability=(0.1, ..., 0.1))"
