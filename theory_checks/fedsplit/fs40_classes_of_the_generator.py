"""FS-40: the generator does not give every client both classes.

FS-40c: with centred scores every client has both classes.
"""

from __future__ import annotations

from fedstat._tables import Tables
from fedstat.claims import Claim, Evidence, Studies, within
from fedstat.inference import clopper_pearson


def _both_classes(tables: Tables, balance: str) -> Evidence:
    """Populations in which some client has one class only are rare: their probability is below 10%."""
    rows = tables["balance"].query("balance == @balance")
    bad = int((rows["one_class_clients"] > 0).sum())
    low, high = clopper_pearson(bad, len(rows))
    share = rows["one_class_clients"].sum() / rows["clients"].sum()
    what = (
        f"share of populations with a one-class client ({bad} of {len(rows)}; {share:.1%} of all clients are one-class)"
    )
    return within(low, high, (0.0, 0.1), cases=len(rows), what=what)


_SEES = "one-class clients in a fifth of the populations (of 100; it supports up to 4 of 100)"
_RARE = "read as: fewer than one population in ten holds a one-class client"

FS40 = Claim(
    id="FS-40",
    place="section 4.3.1, paragraph after equation (8), last two sentences",
    said_by="fedstat",
    words="The generator, as written, gives every client both classes.",
    statement='forall c: 0 < "share of" y_c = 1 < 1',
    severity="false",
    assumptions=_RARE + "; the paper says that it generates a binary variable. Its noise, whose size is not stated, "
    "has standard deviation one here; far larger than the scores' spread within a client it gives every client both "
    "classes, and leaves nothing to learn but which is the larger",
    sensitivity=_SEES,
    flaw="The personal units of a client all see a large positive input, through the mean that its inputs and "
    "weights have in common; so the sign of the sum of their output weights decides nearly all its labels.",
    corrected="FS-40c",
)


@FS40.reading("no centring, as written")
def as_written(studies: Studies) -> Evidence:
    return _both_classes(studies["split"], "none")


@FS40.control("each client's score centred at its median")
def centred(studies: Studies) -> Evidence:
    return _both_classes(studies["split"], "median")


FS40C = Claim(
    id="FS-40c",
    place="corrected statement of FS-40",
    said_by="fedstat",
    words="With each client's score centred at its median, every client has both classes.",
    statement='y_c = bb(1){y^*_c > op("median")(y^*_c)} => forall c: 0 < "share of" y_c = 1 < 1',
    severity="false",
    assumptions=_RARE,
    sensitivity=_SEES,
)


@FS40C.reading("centred at each client's median")
def corrected(studies: Studies) -> Evidence:
    return _both_classes(studies["split"], "median")


@FS40C.mutant("output weights centred over all clients, as a milder remedy")
def milder(studies: Studies) -> Evidence:
    return _both_classes(studies["split"], "center")
