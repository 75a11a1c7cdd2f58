"""The study of FedDecomp with the paper's network says what its tables hold."""

from pathlib import Path

import numpy as np
import pytest

from fedstat.inference.intervals.design import overlap_ratio
from simulations.feddecomp.study import ABOUT
from simulations.resnet8 import numbers
from simulations.resnet8.study import ARMS, DIRICHLET, SCALES
from simulations.studies import tell

COMMITTED = Path(__file__).parents[2] / "reports" / "results" / "resnet8"


@pytest.fixture(scope="module")
def told():
    return tell("resnet8", COMMITTED)


def test_what_came_out_is_what_the_tables_say(told):
    _, record, _ = told
    rows = record["paper"]["rows"]
    printed, ours = ([float(row[of].split(" ")[0]) for row in rows] for of in ("printed", "ours"))
    order = record["paper"]["order"]
    assert order["opposite"] == order["equal"] == 0
    far = np.abs(np.subtract(printed, ours)).max()
    shown = ABOUT.shows[0]
    assert f"{order['same']} of {order['of']} pairs" in shown.outcome
    assert f"{order['unresolved']} are not resolved" in shown.outcome
    assert f"{far:.1f} points" in shown.outcome


def test_sizes_are_the_papers_but_for_rounds(told):
    _, record, _ = told
    setup = SCALES["paper"].experiments[0].setup
    assert (setup.clients, setup.train, setup.held_out, setup.batch, setup.epochs) == (40, 500, 100, 100, 5)
    committed = {key: value for key, value in record["setup"].items() if key != "device"}
    assert committed == {key: value for key, value in vars(setup).items() if key != "device"}


def test_intervals_are_those_of_paired_differences(told, monkeypatch):
    tables, _, findings = told
    rows = tables["accuracy"]
    wide = 100 * rows[rows["metric"] == "accuracy"].pivot(index="seed", columns="arm", values="value")
    assert list(dict.fromkeys(rows["arm"])) == list(ARMS)
    assert set(rows["dirichlet"]) == {DIRICHLET}
    monkeypatch.setattr("simulations.resnet8.numbers._COMMON", 1e-12)
    apart = numbers.findings(tables)
    wider = np.sqrt(1 + 3 * overlap_ratio(100, 500, 20 / 35))  # 20,000 of 35,000 images train under each seed
    for other in ARMS[:-1]:
        difference = wide[ARMS[-1]] - wide[other]
        assert findings[f"accuracy {other}"].mean == pytest.approx(difference.mean())
        half, alone = (of[f"accuracy {other}"].high - difference.mean() for of in (findings, apart))
        assert half / alone == pytest.approx(wider)
        assert alone > 4.30265 * difference.std(ddof=1) / np.sqrt(3), "three hold together"
