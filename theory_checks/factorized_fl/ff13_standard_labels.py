"""FF-13: all methods beat training alone with standard labels."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.factorized_fl.tables import above, cells

FF13 = Claim(
    id="FF-13",
    place="section 5.2, 'Label-heterogeneous FL', first sentence",
    said_by="paper",
    words="With standard labels all federated methods beat training alone.",
    statement='A_"federated" ("standard") > A_"Local" ("standard")',
    severity="false",
    assumptions="printed means of three seeds; the row labels are shifted in print: nine methods for CIFAR-10, then "
    "nine for SVHN",
    sensitivity="a hundredth of a point, as printed; the narrowest lead is 2.38 points",
)


@FF13.reading("every method in every setting")
def every_method() -> Evidence:
    return above(cell for cell in cells() if cell.labels == "standard")
