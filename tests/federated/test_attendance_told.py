"""What is said of attendances: in comparisons and reports, and where they are refused."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat.federated.attendance import Dropout, Poisson, Stragglers, Trace
from fedstat.report.sources import read_source, settings_of
from tests.support.runs import run

LOG = pd.DataFrame({"round": [1, 2], "client": [0, 1], "work": [1.0, 0.5]})


def test_results_under_other_attendances_are_told_apart_in_words(tmp_path):
    some, all_ = (run(fs.FedAvg(), 1, participation=one) for one in (Dropout(1.0, (0.1,) * 6), 1.0))
    words = r"participation Dropout\(participation=1.0, probability=\(0.1, ..., 0.1\)\) and 1.0"
    with pytest.raises(ValueError, match=words):
        fs.compare([some, all_])
    some.save(tmp_path / "run")
    settings = dict(settings_of([read_source(tmp_path / "run")]))
    assert settings["clients in a round"] == "Dropout(participation=1.0, probability=(0.1, ..., 0.1))"


@pytest.mark.parametrize(
    ("attendance", "words"),
    [
        (Dropout(0.5, (0.1, 0.2)), "^probability must be one number, or one for each of 6 clients, got 2"),
        (
            Stragglers(Trace(LOG.assign(client=6)), 0.5, (0.1, 0.5)),
            "^the trace has a client 6, and there are 6 clients, numbered from 0 to 5",
        ),
    ],
)
def test_what_does_not_fit_the_clients_is_told_by_the_attendance_itself(attendance, words):
    with pytest.raises(ValueError, match=words):
        run(fs.FedAvg(), participation=attendance)
    with pytest.raises(ValueError, match=words):
        fs.testing.check_attendance(attendance, clients=6)


@pytest.mark.parametrize("wrong", [Poisson, "poisson", None, 0.0])
def test_what_is_no_participation_is_told_what_would_be(wrong):
    words = r"participation must be a number in \(0, 1\] or an attendance such as fs.attendance.Poisson\(0.3\), got"
    for make in (lambda: run(fs.FedAvg(), participation=wrong), lambda: Dropout(wrong, 0.1)):
        with pytest.raises(ValueError, match=words):
            make()


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ({"round": [1]}, "table must be a DataFrame or the path of a .csv, got dict"),
        (LOG.assign(work="a"), r"work must hold shares in \[0, 1\], got 'a' in row 0"),
        (LOG.assign(work=[1.0, 2.0]), r"work must hold shares in \[0, 1\], got .*2.0.* in row 1"),
        (LOG.assign(work=[None, 1.0]), r"work must hold shares in \[0, 1\], got .*nan.* in row 0"),
        (LOG.assign(work=[1.0, None]).convert_dtypes(), r"work must hold shares in \[0, 1\], got <NA> in row 1"),
        (LOG.head(0), "table must hold a row for each client that is asked in a round, and it holds none"),
    ],
)
def test_wrong_traces_are_told_by_their_columns(log, words):
    with pytest.raises(ValueError, match=words):
        Trace(log)


def test_rounds_in_which_all_drop_out_are_not_said_to_lack_participants():
    with pytest.warns(RuntimeWarning, match="2 of 2 rounds had no participant whose update arrived, and ended without"):
        run(fs.FedAvg(), 2, participation=Dropout(0.5, probability=1.0))


@pytest.mark.parametrize("sequence", [list, np.array, pd.Series, torch.tensor])
def test_probabilities_are_any_sequence(sequence):
    assert Dropout(1.0, sequence([0.25, 0.5])) == Dropout(1.0, (0.25, 0.5))
    with pytest.raises(ValueError, match=r"probability must be a number in \[0, 1\], got 1.5"):
        Dropout(1.0, sequence([0.25, 1.5]))
