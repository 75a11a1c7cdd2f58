"""Say where each method came out in the study `bench`, from its tables."""

from __future__ import annotations

from fedstat._tables import Tables
from fedstat.inference.comparing.learning import STILL_LEARNING
from simulations.bench.effects import against, effects, outcomes
from simulations.bench.outcomes import NOT_RESOLVED, outcome

#: The word for an arm whose training diverged at all rates, or under some seed.
DIVERGED = "diverged"
#: The bench's arm of each variant, by the method's name and its options in words; a method without an arm is missing.
ARMS = {
    ("APFL", ""): "APFL",
    ("ClusteredFL", ""): "Clustered-FL",
    ("Ditto", ""): "Ditto",
    ("FactorizedFL", ""): "Factorized-FL alpha, code",
    ("FactorizedFL", "reading='text'"): "Factorized-FL alpha, text",
    ("FactorizedFL", "variant='beta'"): "Factorized-FL beta, code",
    ("FactorizedFL", "variant='beta', reading='text'"): "Factorized-FL beta, text",
    ("FedALA", ""): "FedALA",
    ("FedAMP", ""): "FedAMP",
    ("FedAvg", ""): "FedAvg",
    ("FedAvg", "fine_tune=2"): "FedAvg + FT",
    ("FedBABU", ""): "FedBABU",
    ("FedBN", ""): "FedBN",
    ("FedCAC", ""): "FedCAC",
    ("FedDecomp", ""): "FedDecomp code",
    ("FedDecomp", "reading='text'"): "FedDecomp text",
    ("FedDyn", ""): "FedDyn",
    ("FedEM", ""): "FedEM",
    ("FedFOMO", ""): "FedFOMO",
    ("FedFac", ""): "FedFac static",
    ("FedFac", "dynamic=True"): "FedFac dynamic",
    ("FedFac", "dynamic=True, reading='code'"): "FedFac code",
    ("FedLC", ""): "FedLC",
    ("FedNova", ""): "FedNova",
    ("FedPAC", ""): "FedPAC",
    ("FedPara", ""): "FedPara",
    ("FedPara", "personal=True"): "pFedPara",
    ("FedPer", ""): "FedPer",
    ("FedProto", ""): "FedProto",
    ("FedProx", ""): "FedProx",
    ("FedProx", "fine_tune=2"): "FedProx + FT",
    ("FedRep", ""): "FedRep",
    ("FedRoD", ""): "FedRoD",
    ("FilterDecomp", ""): "FilterDecomp global",
    ("FilterDecomp", "personal=True"): "FilterDecomp personal",
    ("FilterDecomp", "personal=True, head='local'"): "FilterDecomp personal, own head",
    ("FilterDecomp", "beta=0.2"): "FilterDecomp fast/slow",
    ("FilterDecomp", "beta=0.2, slow='alpha'"): "FilterDecomp fast/slow, alpha",
    ("LGFedAvg", ""): "LG-FedAvg",
    ("Local", ""): "Local",
    ("MOON", ""): "MOON",
    ("PFedGate", ""): "pFedGate",
    ("PFedMe", ""): "pFedMe",
    ("PFedSD", ""): "pFedSD",
    ("PerFedAvg", ""): "Per-FedAvg",
    ("SCAFFOLD", ""): "SCAFFOLD",
}


def came_out(tables: Tables) -> dict[str, dict[str, str]]:
    """Return for each arm, by data set, the side of its controls on which its accuracy lies.

    Controls are Local and FedAvg of the arm's own budget. Where one of them is not trained enough the arm is "still
    learning", with the side of the other behind, if it is known. An arm that was tuned or run and has no limits has
    diverged, unless it is its own control.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The study's tables ``accuracy``, ``costs`` and ``tuning``.
    """
    costs, tuning, every = tables["costs"], tables["tuning"], effects(tables)
    found: dict[str, dict[str, str]] = {}
    for row in outcomes(tables, every).itertuples():
        words = [str(row.outcome)]
        if words == [STILL_LEARNING]:
            own = {kind: e for (arm, kind), e in against(tables, every, str(row.cell)).items() if arm == row.arm}
            side = outcome({kind: int(e.low > 0) - int(e.high < 0) for kind, e in own.items() if not e.unjudged})
            words += [side] * (side != NOT_RESOLVED)
        found.setdefault(str(row.arm), {})[str(row.cell)] = ", ".join(words)
    ran = [(str(row.cell), str(row.arm)) for row in costs[costs["up"].notna()].itertuples()]
    for row in tuning[["cell", "arm"]].drop_duplicates().itertuples():
        if (str(row.cell), str(row.arm)) not in ran:
            found.setdefault(str(row.arm), {})[str(row.cell)] = DIVERGED
    return found
